"""Actors of the vectors: keys from fixed seeds, fixed salts, a fixed instant.

Never use them for anything else.

Everything is the same in every run but ML-DSA signatures, which are hedged: ``Actor.kept`` has those of earlier runs.
"""

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from sdcard.encoding import JsonObject, JsonValue, encode_base64url, encode_json
from sdcard.jose.algorithms import EC_PARAMETERS, SignatureAlgorithm, private_key_of
from sdcard.jose.jws import join_signature
from sdcard.jose.keys import public_key
from sdcard.profile import SD_CARD
from sdcard.salts import SALT_BYTES
from sdcard.sdjwt.model import DigestAlgorithm, SdJwt, make_disclosure

NOW = 1_800_000_000
ISSUER_ID = "https://registry.example"
AUDIENCE = "https://verifier.example"
NONCE = "n-0S6_WzA2Mj"
REMOVED: Final = object()
"""In a change of claims: the claim is not there."""


class Actor:
    """A deterministic ``Signer`` with a key from a role and an algorithm."""

    kept: ClassVar[dict[bytes, list[bytes]]] = {}
    """Signing input → ML-DSA signatures that stand in vectors already; some of them are spoilt on purpose."""

    def __init__(self, role: str, algorithm: SignatureAlgorithm = SignatureAlgorithm.ES256) -> None:
        seed = hashlib.sha256(f"sd-card-vectors/1 {role} {algorithm}".encode()).digest()
        self.algorithm = algorithm
        self._key: Any
        if algorithm in EC_PARAMETERS:
            self._key = ec.derive_private_key(int.from_bytes(seed, "big"), EC_PARAMETERS[algorithm].curve)
        elif algorithm is SignatureAlgorithm.EDDSA:
            self._key = ed25519.Ed25519PrivateKey.from_private_bytes(seed)
        else:
            self._key = private_key_of(algorithm, seed)
        self.public_key = public_key(self._key.public_key())

    @property
    def private(self) -> Any:
        """The private key as ``cryptography`` has it."""
        return self._key

    @property
    def jwk(self) -> JsonObject:
        """The public half."""
        return dict(self.public_key.to_jwk())

    def sign(self, message: bytes) -> bytes:
        """Sign in JOSE form; ES* by RFC 6979."""
        if self.algorithm in EC_PARAMETERS:
            parameters = EC_PARAMETERS[self.algorithm]
            size = parameters.size
            r, s = decode_dss_signature(self.der(message))
            return r.to_bytes(size, "big") + s.to_bytes(size, "big")
        if self.algorithm is SignatureAlgorithm.EDDSA:
            return bytes(self._key.sign(message))
        kept = self.kept.setdefault(message, [])
        if not any(self.public_key.verifies(message, one) for one in kept):
            kept.append(bytes(self._key.sign(message)))
        return next(one for one in kept if self.public_key.verifies(message, one))

    def der(self, message: bytes) -> bytes:
        """ES* by RFC 6979, in the form that JOSE does not use."""
        parameters = EC_PARAMETERS[self.algorithm]
        ecdsa = ec.ECDSA(parameters.ecdsa.algorithm, deterministic_signing=True)
        return bytes(self._key.sign(parameters.hashed(message).digest(), ecdsa))


ISSUER, HOLDER, STRANGER = (Actor(role) for role in ("issuer", "holder", "stranger"))
CARD_SIGNER = Actor("card signer")


class FixedSalts:
    """Salts that follow from a name."""

    def __init__(self, name: str) -> None:
        self._name, self._drawn = name, 0

    def draw(self, count: int) -> bytes:
        """The next ``count`` salts."""
        numbers = range(self._drawn, self._drawn + count)
        self._drawn += count
        return b"".join(salt(f"{self._name}/{number}") for number in numbers)


def salt(name: str) -> bytes:
    """The salt of this name."""
    return hashlib.sha256(f"sd-card-vectors/1 salt {name}".encode()).digest()[:SALT_BYTES]


def claim(name: str, value: JsonValue) -> str:
    """The Disclosure of an object's claim."""
    return make_disclosure(salt(name), name, value).encoded


def element(value: JsonValue, number: int = 0) -> str:
    """The Disclosure of an array's element."""
    return make_disclosure(salt(f"element {number}"), None, value).encoded


def raw(text: str | bytes) -> str:
    """Any text as base64url, such as a Disclosure that nobody should have made."""
    return encode_base64url(text if isinstance(text, bytes) else text.encode())


def digest(text: str, algorithm: DigestAlgorithm = DigestAlgorithm.SHA_256) -> str:
    """The digest that refers to a Disclosure."""
    return algorithm.digest(text)


def decoy(name: str = "decoy") -> str:
    """A digest without a Disclosure."""
    return digest(encode_base64url(salt(name)))


def changed(members: Mapping[str, Any], changes: Mapping[str, Any]) -> JsonObject:
    """Members with some set, and some ``REMOVED``."""
    return {name: value for name, value in {**members, **changes}.items() if value is not REMOVED}


def claims(holder: Actor = HOLDER, /, **changes: Any) -> JsonObject:
    """The claims of a good SD-Card in which nothing is hidden, with changes."""
    good: JsonObject = {
        "iss": ISSUER_ID,
        "sub": "agent:georoute",
        "iat": NOW - 3600,
        "exp": NOW + 3600,
        "vct": SD_CARD.vct,
        "cnf": {"jwk": holder.jwk},
        "card_format": "a2a/1.0",
        "name": "GeoRoute",
        "description": "Plans routes",
        "version": "1.2.0",
    }
    return changed(good, changes)


def header(issuer: Actor = ISSUER, /, **changes: Any) -> JsonObject:
    """The header of a good SD-Card, with changes."""
    good = {"alg": issuer.algorithm.value, "typ": SD_CARD.typ, "kid": issuer.public_key.thumbprint}
    return changed(good, changes)


def jwt(payload: JsonObject | bytes, protected: JsonObject | bytes | None = None, signer: Actor = ISSUER) -> str:
    """Any payload under any header, signed."""
    parts = (header(signer) if protected is None else protected, payload)
    texts = (encode_base64url(part if isinstance(part, bytes) else encode_json(part)) for part in parts)
    signing_input = ".".join(texts).encode()
    return join_signature(signing_input, signer.sign(signing_input))


def sd_jwt(payload: JsonObject, *disclosures: str, signer: Actor = ISSUER) -> SdJwt:
    """Any claims with any Disclosures."""
    return SdJwt(jwt(payload, None, signer), disclosures)


def kb_jwt(
    shown: SdJwt | str,
    header_changes: Mapping[str, Any] | None = None,
    signer: Actor = HOLDER,
    algorithm: DigestAlgorithm = DigestAlgorithm.SHA_256,
    /,
    **changes: Any,
) -> str:
    """The KB-JWT over an SD-JWT, with any changes."""
    good: JsonObject = {"iat": NOW, "aud": AUDIENCE, "nonce": NONCE, "sd_hash": algorithm.digest(str(shown))}
    protected = changed({"alg": signer.algorithm.value, "typ": "kb+jwt"}, header_changes or {})
    return jwt(changed(good, changes), protected, signer)


def bound(
    shown: SdJwt,
    header_changes: Mapping[str, Any] | None = None,
    signer: Actor = HOLDER,
    algorithm: DigestAlgorithm = DigestAlgorithm.SHA_256,
    /,
    **changes: Any,
) -> str:
    """An SD-JWT+KB."""
    return f"{shown}{kb_jwt(shown, header_changes, signer, algorithm, **changes)}"


def resigned(token: str, signature: bytes) -> str:
    """The same JWT with another signature."""
    return f"{token.rpartition('.')[0]}.{encode_base64url(signature)}"


def trust(*keys: Actor, issuer: str = ISSUER_ID) -> JsonObject:
    """A trust document: one Issuer and its public keys."""
    actors = keys or (ISSUER,)
    return {"issuers": {issuer: {"keys": [{**one.jwk, "kid": one.public_key.thumbprint} for one in actors]}}}
