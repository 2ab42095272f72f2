"""A2A card signatures: verification with trusted keys, and signing in two steps.

The keys come from a trusted set alone. A header names a key of the set by ``kid``; it never contains a key or its
address (RFC 8725 3.10), and the algorithm is the key's. The unprotected header is not signed, so nothing in it counts.
A2A 8.4, SD-Card T-32.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias
from urllib.parse import urlsplit

from sdcard.cards.a2a import v1_0
from sdcard.cards.a2a.signed_form import SDK_1_3, SPECIFICATION, Canonical, canonical_form, canonical_forms, forms_of
from sdcard.cards.model import CardFormat
from sdcard.encoding import (
    JsonObject,
    JsonValue,
    decode_base64url,
    encode_base64url,
    encode_json,
    parse_json,
    parse_json_object,
)
from sdcard.errors import Finding, Level, Misuse, Part, Refused, Where
from sdcard.jose.key_sets import read_key_set
from sdcard.jose.keys import PUBLISHED_KEYS, KeySet, PublicKey, check_not_published, parse_public_jwk
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule

MOST_SIGNATURES = 16
"""Each may cost four signature checks over the whole card. Several are for changing keys (A2A 8.4.3)."""

_WHERE = Where(Part.CARD, ("signatures",))
_DEPTH = 8
_PROTECTED_ONLY = ("crit", "b64")


@dataclass(frozen=True, slots=True)
class CardSigners:
    """Keys that are trusted to sign any card, by ``kid``."""

    keys: Mapping[str, PublicKey]

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", KeySet.of(self.keys))

    @classmethod
    def of(cls, *keys: PublicKey) -> "CardSigners":
        """Make signers whose ``kid`` values are RFC 7638 thumbprints."""
        return cls({key.thumbprint: key for key in keys})


NOBODY = CardSigners({})
"""No trusted key."""


def parse_card_signers(
    data: bytes, limits: Limits = DEFAULT_LIMITS, published_keys: frozenset[str] = PUBLISHED_KEYS
) -> CardSigners:
    """Parse a JWKS (RFC 7517 5). ``keys.left_out`` says why entries are unused.

    Raises:
        Refused: ``trust.malformed`` if it is not a JWKS; a rule of the encodings; the reasons for all entries, such as
            ``key.published`` for a key whose private half is published, if none is usable.
    """

    def parse(entry: object, where: Where) -> PublicKey:
        key = parse_public_jwk(entry, where)
        check_not_published(key, published_keys, where)
        return key

    where = Where(Part.TRUST)
    document = parse_json(data, where, limits.json_depth)
    return CardSigners(read_key_set(document, where, parse, rule=Rule.TRUST_MALFORMED))


_Result: TypeAlias = tuple[Finding, Canonical | None]
"""A finding about one signature, and the form that it covers if it verifies."""


def check_signatures(document: JsonObject, card_format: CardFormat, signers: CardSigners) -> Iterator[Finding]:
    """Verify the signatures of a card.

    A signature that names a trusted key but is not that key's is an error: the card or the signature was changed. One
    that verifies is enough (8.4.3); the members that it does not cover are reported. Without one, a warning says so.
    """
    signatures = document.get("signatures")
    if not isinstance(signatures, list) or not forms_of(card_format.name):
        return
    if len(signatures) > MOST_SIGNATURES:
        hint = f"Keep the signatures by keys in use: a card has at most {MOST_SIGNATURES}."
        yield Finding(Rule.CARD_MEMBER_VALUE, _WHERE, hint)
        return
    verifier = _Verifier(document, card_format, signers)
    numbered = [(number, one) for number, one in enumerate(signatures) if isinstance(one, dict)]
    results = [verifier.verify(one, _WHERE.within(number)) for number, one in numbered]
    signed = [canonical for _, canonical in results if canonical is not None]
    for finding, _ in results:
        is_untrusted = finding.rule is Rule.CARD_SIGNATURE_UNTRUSTED
        yield replace(finding, level=Level.NOTE) if signed and is_untrusted else finding
    yield from unsigned_members(signed)


def unsigned_members(signed: Iterable[Canonical]) -> Iterator[Finding]:
    """Find the places that none of the signed forms covers."""
    uncovered = [{where.path for where in canonical.unsigned} for canonical in signed]
    for path in dict.fromkeys(path for paths in uncovered for path in sorted(paths, key=str)):
        if all(any(path[:end] in paths for end in range(1, len(path) + 1)) for paths in uncovered):
            hint = "The signature does not cover this: it could have been added or changed by anybody."
            yield Finding(Rule.CARD_UNSIGNED_MEMBER, Where(Part.CARD, path), hint, Level.WARNING)


class _Verifier:
    """Verifier of one card's signatures. It makes the canonical forms once."""

    def __init__(self, document: JsonObject, card_format: CardFormat, signers: CardSigners) -> None:
        self._document, self._format, self._signers = document, card_format, signers
        self._forms: tuple[Canonical, ...] | None = None

    def verify(self, signature: JsonObject, where: Where) -> _Result:
        protected = signature.get("protected")
        header = _header(protected)
        kid = None if header is None else header.get("kid")
        if header is None or not isinstance(protected, str):
            return _untrusted(where, "The protected header cannot be read, so the signature names no key.")
        if not isinstance(kid, str):
            return _untrusted(where, "The protected header has no `kid`, so the signature names no key.")
        key = KeySet.of(self._signers.keys).find(kid, header.get("alg"))
        if key is None:
            return _untrusted(where, "Its key is not among the trusted ones. Add it if you trust its owner.")
        fault = _header_fault(header, signature.get("header"), key)
        if fault:
            return _invalid(where.within(fault[0]), fault[1])
        return self._verify(protected, signature.get("signature"), key, where)

    def _verify(self, protected: str, encoded: JsonValue, key: PublicKey, where: Where) -> _Result:
        signature, place = _signature(encoded), where.within("signature")
        if signature is None:
            return _invalid(place, "This is no base64url without padding.")
        if self._forms is None:
            self._forms = canonical_forms(self._document, self._format.name)
        for canonical in self._forms:
            signing_input = f"{protected}.{encode_base64url(canonical.payload)}".encode("ascii")
            if key.verifies(signing_input, signature):
                hint = f"Verified with the trusted key {key.thumbprint}, over {canonical.form.name}."
                return Finding(Rule.CARD_SIGNATURE_VERIFIED, where, hint, Level.NOTE), canonical
        if not self._forms:
            return _invalid(place, "A value of the card, such as a large integer, has no canonical form.")
        return _invalid(place, "It is not this card's. Sign the card again after the last change to it.")


def _untrusted(where: Where, hint: str) -> _Result:
    return Finding(Rule.CARD_SIGNATURE_UNTRUSTED, where, hint, Level.WARNING), None


def _invalid(where: Where, hint: str) -> _Result:
    return Finding(Rule.CARD_SIGNATURE_INVALID, where, hint), None


def _header(protected: JsonValue) -> JsonObject | None:
    if not isinstance(protected, str):
        return None
    try:
        return parse_json_object(decode_base64url(protected, _WHERE), _WHERE, _DEPTH)
    except Refused:
        return None


def _header_fault(header: JsonObject, unprotected: JsonValue, key: PublicKey) -> tuple[str, str] | None:
    """Find header members that are not permitted (RFC 7515 4.1, 7.2.1)."""
    if header.keys() & set(_PROTECTED_ONLY):
        return "protected", "No extension may be critical, and the payload is always encoded."
    if header.get("typ", "JOSE") != "JOSE":
        return "protected", "`typ` is JOSE or absent; this is a token of another kind."
    if header.get("alg") not in key.algorithm.header_names:
        return "protected", f"The trusted key signs with {key.algorithm} and nothing else."
    if isinstance(unprotected, dict) and unprotected.keys() & {*header, *_PROTECTED_ONLY}:
        return "header", "Nobody signed the unprotected header; it cannot say these things (RFC 7515 7.2.1)."
    return None


def _signature(encoded: JsonValue) -> bytes | None:
    try:
        return decode_base64url(encoded, _WHERE) if isinstance(encoded, str) else None
    except Refused:
        return None


# -- Signing (A2A 1.0 8.4.2) ------------------------------------------------------------------------------------------

_CARD = Where(Part.CARD)


@dataclass(frozen=True, slots=True)
class PreparedCardSignature:
    """A card signature before signing.

    Attributes:
        signing_input: the bytes to sign.
        key: the key that will sign.
        findings: members that it will not cover, and software that will not verify it; never an error.
    """

    signing_input: bytes = field(repr=False)
    key: PublicKey
    findings: tuple[Finding, ...] = field(repr=False)
    _document: JsonObject = field(repr=False)

    def complete(self, signature: bytes) -> JsonObject:
        """Return the card with this signature added.

        Raises:
            Misuse: if the signature, in JOSE form, is not the key's over these bytes.
        """
        if not self.key.verifies(self.signing_input, signature):
            raise Misuse("the signature is not the key's over this card, in JOSE form")
        protected = self.signing_input.partition(b".")[0].decode("ascii")
        made: JsonObject = {"protected": protected, "signature": encode_base64url(signature)}
        earlier = self._document.get("signatures")
        return {**self._document, "signatures": [*(earlier if isinstance(earlier, list) else []), made]}


def prepare_card_signature(
    document: JsonObject, card_format: CardFormat, key: PublicKey, jku: str | None = None
) -> PreparedCardSignature:
    """Prepare a card's signature (A2A 1.0 8.4.1, 8.4.2).

    Args:
        document: a card that reads without an error. Earlier signatures stay in it and are not signed.
        key: the public half of the key that will sign; ``kid`` is its thumbprint.
        jku: the address of its JWKS. Our verification ignores it.

    Raises:
        Refused: ``card.not-signable`` for a card of another format than A2A 1.0, where no standard says what is signed;
            ``json.number`` for a number that RFC 8785 cannot write.
        Misuse: if ``jku`` is no https URL, or the card already has the maximum number of signatures.
    """
    if card_format.name != v1_0.FORMAT.name:
        hint = "Only A2A 1.0 says what a signature is over. Convert the card to it, then sign."
        raise Refused(Rule.CARD_UNSIGNABLE, _CARD, hint)
    canonical = canonical_form(document, SPECIFICATION)
    if canonical is None:
        raise Refused(Rule.JSON_NUMBER, _CARD, "RFC 8785 has no text for a number of the card: write it as a string.")
    earlier = document.get("signatures")
    if isinstance(earlier, list) and len(earlier) >= MOST_SIGNATURES:
        raise Misuse(f"a card has at most {MOST_SIGNATURES} signatures; take old ones out")
    header: JsonObject = {"alg": key.algorithm.value, "typ": "JOSE", "kid": key.thumbprint}
    if jku is not None:
        header["jku"] = _https(jku)
    parts = (encode_base64url(part) for part in (encode_json(header), canonical.payload))
    findings = (*unsigned_members([canonical]), *_unread_by_sdk(document, canonical))
    return PreparedCardSignature(".".join(parts).encode("ascii"), key, findings, document)


def _https(url: str) -> str:
    try:
        parts = urlsplit(url)
        good = parts.scheme == "https" and bool(parts.hostname)
    except ValueError:
        good = False
    if not good or not re.fullmatch(r"[!-~]+", url):
        raise Misuse("`jku` is an https URL, such as https://agent.example/jwks.json")
    return url


def _unread_by_sdk(document: JsonObject, canonical: Canonical) -> Iterator[Finding]:
    """Find empty values, which a2a-sdk 1.0 to 1.3 leaves out of the signed bytes."""
    theirs = canonical_form(document, SDK_1_3)
    if theirs is None or theirs.payload == canonical.payload:
        return
    for where in theirs.unsigned:
        if where not in canonical.unsigned:
            hint = "a2a-sdk to 1.3 will refuse this signature: it drops what is empty. Give a value, or take it out."
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint, Level.WARNING)
