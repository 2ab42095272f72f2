"""Compact JWS (RFC 7515): parse, sign, verify; the reader always says which ``typ`` it expects (RFC 8725 3.11)."""

from collections.abc import Collection, Generator, Mapping
from functools import lru_cache
from typing import NamedTuple, TypeVar

from sdcard.encoding import JsonObject, JsonValue, decode_base64url, decode_json_object, encode_base64url, encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.keys import PublicKey
from sdcard.rules import Rule

T = TypeVar("T")


_PLACES = {part: Where(part) for part in Part}
_SIGNATURES = {part: Where(part, ("signature",)) for part in Part}
_TEXTS = ("alg", "typ", "kid")

_KEPT = 256
_LONGEST_KEPT = 512
_headers: dict[str, JsonObject] = {}
"""Threads share it: each thing done with it is one call, which the interpreter does not interrupt."""


class Jws(NamedTuple):
    """A parsed, not yet verified, compact JWS whose payload is a JSON object.

    Attributes:
        header: the protected header.
        payload: the claims.
        signing_input: what the signature is over.
        signature: in JOSE form.
        header_where, payload_where: what refusals call the two.
    """

    header: JsonObject
    payload: JsonObject
    signing_input: bytes
    signature: bytes
    header_where: Where
    payload_where: Where

    def __repr__(self) -> str:
        return f"Jws({self.payload_where}, …)"


class SignatureQuestion(NamedTuple):
    """Whether a signature, in JOSE form, is this key's over the message."""

    key: PublicKey
    message: bytes
    signature: bytes

    def answer(self) -> bool:
        """Compute it; meanwhile other threads can work."""
        return self.key.verifies(self.message, self.signature)

    def __repr__(self) -> str:
        return f"SignatureQuestion({self.key!r}, …)"


def parse_jws(text: str, header_part: Part, payload_part: Part, depth: int) -> Jws:
    """Text → JWS (R-5, JWK-10, JWK-11). The size of the text is the caller's to bound.

    Raises:
        Refused: ``jws.format``, ``jws.header``, or a rule of the encodings.
    """
    header_where, payload_where = _PLACES[header_part], _PLACES[payload_part]
    signing_input, _, signature_text = text.rpartition(".")
    header_text, _, payload_text = signing_input.partition(".")
    if not header_text or not payload_text or not signature_text or "." in payload_text:
        raise Refused(Rule.JWS_FORMAT, payload_where)
    header = _read_header(header_text, header_where, depth)
    payload = decode_json_object(payload_text, payload_where, depth)
    signature = decode_base64url(signature_text, _SIGNATURES[payload_part])
    return Jws(header, payload, signing_input.encode("ascii"), signature, header_where, payload_where)


def _read_header(text: str, where: Where, depth: int) -> JsonObject:
    """A header in which ``alg``, ``typ`` and ``kid`` are texts. Many tokens share it."""
    kept = _headers.get(text)
    if kept is not None:
        return kept.copy()
    header = decode_json_object(text, where, depth)
    for name in _TEXTS:
        if not isinstance(header.get(name, ""), str):
            raise Refused(Rule.JWS_HEADER, where.within(name))
    return header


def _keep_header(jws: Jws) -> None:
    """Keep a header that was signed by a key of ours to trust: strangers do not push it out."""
    length = jws.signing_input.find(b".")
    if length > _LONGEST_KEPT or not {str}.issuperset(map(type, jws.header.values())):
        return
    text = jws.signing_input[:length].decode("ascii")
    if text not in _headers:
        if len(_headers) >= _KEPT:
            _headers.clear()
        _headers[text] = jws.header.copy()


def forget() -> None:
    """Drop the headers that are kept; they are kept for speed alone."""
    _headers.clear()


def verify_jws(jws: Jws, key: PublicKey, types: Collection[str]) -> None:
    """Check algorithm, signature and type, with a key that the caller chose: RFC 9901 7.1 step 2, 7.3 steps 5.b to 5.d.

    Header parameters that carry keys (``jwk``, ``jku``, ``x5c``, ``x5u``) are never looked at (RFC 8725 3.10).

    Args:
        jws: as parsed.
        key: the only one that may have signed it.
        types: accepted values of ``typ``.

    Raises:
        Refused: ``jws.alg``, ``jws.crit``, ``jws.signature`` or ``jws.typ``.
    """
    computed(verifying_jws(jws, key, types, None))


def verifying_jws(
    jws: Jws, key: PublicKey, types: Collection[str], signer: PublicKey | None
) -> Generator[SignatureQuestion, bool, None]:
    """As ``verify_jws``, step by step; whoever takes the steps computes the signature.

    Args:
        jws, key, types: as for ``verify_jws``.
        signer: whose signature it is, where that was computed before.
    """
    check_algorithm(jws, key)
    check_nothing_critical(jws)
    check_signature(jws, key == signer or (yield SignatureQuestion(key, jws.signing_input, jws.signature)))
    check_type(jws, types)
    _keep_header(jws)


def computed(steps: Generator[SignatureQuestion, bool, T]) -> T:
    """Take the steps, and compute every signature on the way."""
    try:
        question = next(steps)
        while True:
            question = steps.send(question.answer())
    except StopIteration as end:
        result: T = end.value
        return result


def check_algorithm(jws: Jws, key: PublicKey) -> None:
    """Refuse every ``alg`` but the key's own: ``none`` and MACs too. RFC 8725 3.1 (R-6, R-42, R-51, R-86).

    Raises:
        Refused: ``jws.alg``.
    """
    if jws.header.get("alg") not in key.algorithm.header_names:
        raise Refused(Rule.JWS_ALG, jws.header_where.within("alg"), f"The key signs with {key.algorithm}.")


def check_nothing_critical(jws: Jws) -> None:
    """Refuse ``crit``: we understand no extension. RFC 7515 4.1.11, a part of validating the signature (R-52, JWK-9).

    ``b64`` is an extension that must be critical (RFC 7797 6): only ``true``, which changes nothing, may stand alone.

    Raises:
        Refused: ``jws.crit``.
    """
    if "crit" in jws.header:
        raise Refused(Rule.JWS_CRIT, jws.header_where.within("crit"))
    if jws.header.get("b64", True) is not True:
        raise Refused(Rule.JWS_CRIT, jws.header_where.within("b64"), "The payload is always encoded.")


def check_signature(jws: Jws, verified: object) -> None:
    """Refuse bytes that the key did not sign. RFC 7515 5.2; RFC 9901 7.1 step 2.b, 7.3 step 5.c (R-52, R-87).

    Args:
        jws: as parsed.
        verified: the answer to the ``SignatureQuestion``; only true is a yes.

    Raises:
        Refused: ``jws.signature``.
    """
    if verified is not True:
        raise Refused(Rule.JWS_SIGNATURE, jws.payload_where.within("signature"))


def check_type(jws: Jws, types: Collection[str]) -> None:
    """Refuse a token of another type. RFC 8725 3.11; RFC 9901 9.11, 7.3 step 5.d (R-9, R-41, R-88, VC-1, JWK-14).

    Raises:
        Refused: ``jws.typ``.
    """
    if jws.header.get("typ") not in types:
        raise Refused(Rule.JWS_TYP, jws.header_where.within("typ"), "Expected: " + ", ".join(sorted(types)) + ".")


def encode_signing_input(header: Mapping[str, JsonValue], payload: JsonObject) -> bytes:
    """Header and payload → the bytes that are signed."""
    return add_payload(encode_base64url(encode_json(dict(header))), payload)


@lru_cache(maxsize=256)
def encode_header(algorithm: SignatureAlgorithm, typ: str, kid: str | None = None) -> str:
    """The first part of what is signed, where nothing else stands in it. Many tokens share it, so it is kept."""
    header: JsonObject = {"alg": algorithm.value, "typ": typ}
    return encode_base64url(encode_json(header if kid is None else {**header, "kid": kid}))


def add_payload(encoded_header: str, payload: JsonObject) -> bytes:
    """A header that is written already, and a payload → the bytes that are signed."""
    return f"{encoded_header}.{encode_base64url(encode_json(payload))}".encode("ascii")


def join_signature(signing_input: bytes, signature: bytes) -> str:
    """Signed bytes and their signature → compact JWS."""
    return f"{signing_input.decode('ascii')}.{encode_base64url(signature)}"
