"""Signing a card in the form of A2A 1.0 (8.4.2), in two steps.

The steps are prepare (bytes to sign) and complete (the signature).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from sdcard.cards.a2a import v1_0
from sdcard.cards.a2a.signatures.forms import SDK_1_3, SPECIFICATION, Canonical, canonical_form
from sdcard.cards.a2a.signatures.verification import MOST_SIGNATURES, unsigned_members
from sdcard.cards.format import CardFormat
from sdcard.encoding import JsonObject, encode_base64url, encode_json
from sdcard.errors import Finding, Level, Misuse, Part, Refused, Where
from sdcard.jose.keys import PublicKey
from sdcard.rules import Rule

_CARD = Where(Part.CARD)


@dataclass(frozen=True, slots=True)
class PreparedCardSignature:
    """A signature of a card that is not made yet.

    Attributes:
        signing_input: the bytes to sign.
        key: whose signature it will be.
        findings: what it will not cover, and who will not be able to verify it; never an error.
    """

    signing_input: bytes = field(repr=False)
    key: PublicKey
    findings: tuple[Finding, ...] = field(repr=False)
    _document: JsonObject = field(repr=False)

    def complete(self, signature: bytes) -> JsonObject:
        """The card with one signature more, and otherwise as it was.

        Raises:
            Misuse: when the signature, in JOSE form, is not the key's over these bytes.
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

    The result has everything except the signature itself.

    Args:
        document: a card that reads without an error. Earlier signatures stay in it and are not signed.
        card_format: what it was read as.
        key: the public half of the key that will sign; ``kid`` is its thumbprint.
        jku: where its JWKS is published. Who verifies with us never looks there.

    Raises:
        Refused: ``card.not-signable`` for a card of another format than A2A 1.0, where nothing says what is signed;
            ``json.number`` for one with a number that RFC 8785 cannot write.
        Misuse: when ``jku`` is no https URL, or the card has as many signatures as are read.
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
    """Find what makes a2a-sdk 1.0 to 1.3 compute other bytes.

    It leaves empty values out, REQUIRED ones too.
    """
    theirs = canonical_form(document, SDK_1_3)
    if theirs is None or theirs.payload == canonical.payload:
        return
    for where in theirs.unsigned:
        if where not in canonical.unsigned:
            hint = "a2a-sdk to 1.3 will refuse this signature: it drops what is empty. Give a value, or take it out."
            yield Finding(Rule.CARD_MEMBER_VALUE, where, hint, Level.WARNING)
