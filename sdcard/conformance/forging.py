"""Presentations that an attacker makes from what it has."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from sdcard.cards.model import Card
from sdcard.conformance import Skipped
from sdcard.encoding import JsonObject, JsonValue, encode_base64url, encode_json
from sdcard.errors import Part
from sdcard.http_auth import ReceivedChallenge
from sdcard.instants import Instant
from sdcard.issuer import Issuer, Validity, issue_sd_card
from sdcard.jose.jws import Signer, encode_signing_input, join_signature, parse_jws
from sdcard.jose.keys import PublicKey
from sdcard.policy.model import DEFAULT_POLICY
from sdcard.policy.plan import plan_disclosure
from sdcard.profile import SD_CARD
from sdcard.salts import SaltSource
from sdcard.sdjwt.model import DigestAlgorithm, SdJwt

REMOVED: Final = object()
"""In a change: the member is absent."""
HOUR = 3600
ELSEWHERE = "https://elsewhere.example"
_SALT = "conformance-salt-of-128-bits"
_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@dataclass(frozen=True, slots=True)
class Material:
    """Cards and keys that an attacker has.

    Attributes:
        card: an SD-Card that the route admits, with all Disclosures; None without one.
        holder: its Holder's key.
        issuer: the key of a test Issuer; None without one.
        stranger: a key that nobody trusts.
    """

    card: SdJwt | None
    holder: Signer | None
    issuer: Signer | None
    stranger: Signer

    @property
    def payload(self) -> JsonObject:
        """The claims of the Issuer-signed JWT."""
        return self._parsed()[1]

    @property
    def digest(self) -> DigestAlgorithm:
        """The digest algorithm of the SD-Card."""
        return DigestAlgorithm(str(self.payload.get("_sd_alg", "sha-256")))

    def _parsed(self) -> tuple[JsonObject, JsonObject]:
        jws = parse_jws(self.held.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, 64)
        return jws.header, jws.payload

    @property
    def held(self) -> SdJwt:
        """The SD-Card."""
        if self.card is None:
            raise Skipped("it needs an SD-Card that the route admits")
        return self.card

    @property
    def disclosed(self) -> SdJwt:
        """The SD-Card, with at least one Disclosure."""
        if not self.held.disclosures:
            raise Skipped("it needs an SD-Card with Disclosures")
        return self.held

    @property
    def holder_key(self) -> Signer:
        """The Holder's key."""
        if self.holder is None:
            raise Skipped("it needs the key of the SD-Card's Holder")
        return self.holder

    def reissued(
        self, header: Mapping[str, Any] | None = None, *added: str, signer: Signer | None = None, **claims: Any
    ) -> SdJwt:
        """Sign the SD-Card again with changes, and with further Disclosures."""
        key = signer or self.issuer
        if key is None:
            raise Skipped("it needs the key of a test Issuer")
        protected, payload = self._parsed()
        signing_input = encode_signing_input(changed(protected, header or {}), changed(payload, claims))
        return SdJwt(join_signature(signing_input, key.sign(signing_input)), (*self.held.disclosures, *added))

    def with_digests(self, *disclosures: str, **claims: Any) -> SdJwt:
        """Sign the SD-Card again with the digests of these Disclosures, and show them."""
        digests, listed = [self.digest.digest(one) for one in disclosures], self.payload.get("_sd")
        known = listed if isinstance(listed, list) else []
        return self.reissued(None, *disclosures, _sd=[*known, *digests], **claims)


CARD = json.dumps(
    {
        "name": "Conformance test",
        "description": "Tests whether presentations are refused",
        "version": "1.0.0",
        "supportedInterfaces": [
            {"url": "https://agent.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        ],
        "provider": {"organization": "Example", "url": "https://example.com"},
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "test", "name": "Test", "description": "Tests", "tags": ["test"]}],
    }
).encode()
"""The card that is issued by default."""


def issue_test_card(
    card: Card, issuer: str, signer: Signer, holder: PublicKey, salts: SaltSource, now: Instant
) -> SdJwt:
    """Issue an SD-Card for one hour, with everything in Disclosures."""
    return issue_sd_card(
        Issuer(issuer, signer.public_key),
        plan_disclosure(card, DEFAULT_POLICY, "full"),
        signer,
        agent_id="conformance-test",
        holder_key=holder,
        validity=Validity(int(now) - 60, int(now) + HOUR),
        salts=salts,
    ).sd_jwt


def unlisted(key: Signer, now: Instant) -> "Material":
    """An SD-Card of an Issuer that nobody listed, with its Holder's key."""
    public = key.public_key
    header: JsonObject = {"alg": public.algorithm.value, "typ": SD_CARD.typ, "kid": public.thumbprint}
    payload: JsonObject = {
        "iss": ELSEWHERE,
        "sub": "agent:x",
        "iat": int(now) - 60,
        "exp": int(now) + HOUR,
        "vct": SD_CARD.vct,
        "cnf": {"jwk": {**public.to_jwk()}},
        "card_format": "a2a",
        "name": "X",
        "description": "X",
        "version": "1",
    }
    signing_input = encode_signing_input(header, payload)
    return Material(SdJwt(join_signature(signing_input, key.sign(signing_input)), ()), key, None, key)


def changed(members: Mapping[str, Any], changes: Mapping[str, Any]) -> JsonObject:
    """Members with some set and some removed."""
    return {name: value for name, value in {**members, **changes}.items() if value is not REMOVED}


def disclosure(*parts: JsonValue) -> str:
    """Encode a Disclosure with a fixed salt."""
    return encode_base64url(encode_json([_SALT, *parts]))


@dataclass(frozen=True, slots=True)
class Attack:
    """An answer to one challenge."""

    has: Material
    asked: ReceivedChallenge
    now: Instant

    def kb_payload(self, shown: SdJwt, **changes: Any) -> JsonObject:
        """Claims of a good KB-JWT, with changes."""
        challenge = self.asked.challenge
        good: dict[str, Any] = {
            "iat": int(self.now),
            "aud": challenge.audience,
            "nonce": challenge.nonce,
            "sd_hash": self.has.digest.digest(str(shown)),
        }
        if challenge.interaction_id is not None:
            good["interaction_id"] = challenge.interaction_id
        return changed(good, changes)

    def bound(
        self,
        shown: SdJwt | None = None,
        header: Mapping[str, Any] | None = None,
        signer: Signer | None = None,
        **changes: Any,
    ) -> str:
        """A presentation with a KB-JWT over it."""
        sd_jwt, key = shown or self.has.held, signer or self.has.holder_key
        protected = changed({"alg": self.has.holder_key.public_key.algorithm.value, "typ": "kb+jwt"}, header or {})
        signing_input = encode_signing_input(protected, self.kb_payload(sd_jwt, **changes))
        return f"{sd_jwt}{join_signature(signing_input, key.sign(signing_input))}"

    def bound_raw(self, payload: bytes) -> str:
        """A presentation whose KB-JWT has this payload, byte for byte."""
        header = encode_json({"alg": self.has.holder_key.public_key.algorithm.value, "typ": "kb+jwt"})
        signing_input = f"{encode_base64url(header)}.{encode_base64url(payload)}".encode()
        return f"{self.has.held}{join_signature(signing_input, self.has.holder_key.sign(signing_input))}"

    def with_spare_bit(self) -> str:
        """Set a spare bit of base64url: the last character decodes to the same bytes."""
        text = self.bound()
        return text[:-1] + _ALPHABET[_ALPHABET.index(text[-1]) ^ 1]

    def with_nonce_twice(self) -> str:
        """A KB-JWT with two members of one name."""
        text = encode_json(self.kb_payload(self.has.held)).decode()
        return self.bound_raw(f'{text[:-1]},"nonce":{json.dumps(self.asked.challenge.nonce)}}}'.encode())

    def with_added_disclosures(self) -> str:
        """Disclosures that the Holder did not sign over."""
        held = self.has.disclosed
        return f"{held}{self.bound(SdJwt(held.issuer_jwt, ())).rpartition('~')[2]}"

    def with_disclosure_twice(self) -> str:
        """A Disclosure twice, signed over."""
        held = self.has.disclosed
        return self.bound(SdJwt(held.issuer_jwt, (*held.disclosures, held.disclosures[0])))

    def with_foreign_disclosure(self) -> str:
        """A Disclosure that the Issuer did not make, signed over."""
        held = self.has.held
        return self.bound(SdJwt(held.issuer_jwt, (*held.disclosures, disclosure("conformance", True))))

    def with_changed_claim(self) -> str:
        """Change a claim, and keep the Issuer's signature."""
        header, _, signature = self.has.held.issuer_jwt.split(".")
        payload = encode_base64url(encode_json({**self.has.payload, "name": "Changed"}))
        return self.bound(SdJwt(f"{header}.{payload}.{signature}", self.has.held.disclosures))
