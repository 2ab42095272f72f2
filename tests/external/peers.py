"""Keys and claims for the tests of peer libraries, and this library's side of the comparison."""

import time
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from sd_jwt.common import SDObj

from sdcard import (
    DEFAULT_POLICY,
    Acceptance,
    Answering,
    Challenge,
    ClaimPath,
    InMemorySigner,
    Issuer,
    Limits,
    PublicKey,
    TrustedIssuers,
    accept_sd_card,
    issue_sd_card,
    present,
    rounded_validity,
    select_all,
    select_paths,
)
from sdcard.acceptance import VerifiedSdJwt
from sdcard.encoding import JsonObject, encode_base64url
from sdcard.errors import Part, Where
from sdcard.key_binding import ConsumedByCaller, verify_key_binding
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from tests.external.layer import holder_key_of, verify_sd_jwt
from tests.world import AGENT_ID, AUDIENCE, ISSUER, World, key

CONTEXTS = tuple(DEFAULT_POLICY.contexts)
DOCUMENTS = ("georoute.json", "georoute-0.3.json")
SELECTIONS: list[tuple[str, ...]] = [
    (),
    ("provider",),
    ("skills.1",),
    ("skills.0.tags", "supportedInterfaces.1.tenant"),
    ("capabilities.extensions.0",),
]
NONCE = "a nonce of theirs"
SIGNER_NUMBER, HOLDER_NUMBER = 11, 12
SIGNER, HOLDER = key(SIGNER_NUMBER), key(HOLDER_NUMBER)


def private_jwk(signer: InMemorySigner, number: int) -> dict[str, str]:
    """The same key for another library; ``tests.world.key`` says what its private number is."""
    d = (number + 1_000_003).to_bytes(32, "big")
    return {**signer.public_key.to_jwk(), "d": encode_base64url(d)}


def ours(
    text: str,
    issuer: InMemorySigner | PublicKey,
    types: tuple[str, ...] = ("example+sd-jwt",),
    nonce: str | None = None,
    holder: PublicKey = HOLDER.public_key,
) -> tuple[VerifiedSdJwt, SdJwt]:
    """A text by our SD-JWT layer, and its KB-JWT too when a nonce is expected."""
    issuer_key = issuer.public_key if isinstance(issuer, InMemorySigner) else issuer
    limits, arrived = Limits(), parse_sd_jwt(text, Limits())
    sd_jwt = arrived if isinstance(arrived, SdJwt) else arrived.sd_jwt
    verified = verify_sd_jwt(sd_jwt, issuer_key, types, limits)
    if nonce is not None:
        assert isinstance(arrived, SdJwtWithKeyBinding)
        expected = Answering(Challenge(nonce, AUDIENCE), ConsumedByCaller())
        holder_key = holder_key_of(verified.processed.claims)
        bound = verify_key_binding(arrived.kb_jwt, holder_key, verified.sd_hash, expected, time.time(), limits)
        assert bound.holder_key == holder
    return verified, sd_jwt


def presented(world: World, paths: tuple[str, ...]) -> str:
    """Present these paths of the world's own SD-Card."""
    held = world.holder.accept()
    selection = select_paths(held, [ClaimPath.parse(one, Where(Part.REQUEST)) for one in paths])
    return world.holder.present(world.challenge, world.holder.card, selection)


OTHER_KEYS = {
    "ES384": (key(21, ec.SECP384R1()), key(22, ec.SECP384R1())),
    "ES512": (key(23, ec.SECP521R1()), key(24, ec.SECP521R1())),
    "EdDSA": tuple(
        InMemorySigner(ed25519.Ed25519PrivateKey.from_private_bytes(bytes([number] * 32))) for number in (25, 26)
    ),
}
"""Algorithm → keys of an Issuer and a Holder."""


def presented_with(world: World, signer: InMemorySigner, holder: InMemorySigner) -> str:
    """A whole SD-Card of this Issuer, presented by this Holder to the world's Verifier."""
    issuer = Issuer(ISSUER, signer.public_key)
    card = issue_sd_card(
        issuer,
        world.issuer.plan("full"),
        signer,
        agent_id=AGENT_ID,
        holder_key=holder.public_key,
        validity=rounded_validity(world.clock.now()),
        salts=world.salts,
    )
    acceptance = Acceptance(issuers=TrustedIssuers.of(ISSUER, signer.public_key))
    held = accept_sd_card(str(card), acceptance, holder.public_key, world.clock.now())
    return str(present(held, select_all(held), world.challenge, holder, world.clock.now()))


def hidden(name: str) -> SDObj:
    return SDObj(name)


CLAIMS: dict[str, Any] = {
    "flat": {
        "plain": 1,
        hidden("a"): "x",
        hidden("b"): None,
        hidden("c"): False,
        hidden("d"): 1.5,
        hidden("e"): "\u00f6",
    },
    "nested object": {"o": {hidden("a"): 1, "b": {hidden("c"): 2, "d": 3}}},
    "array": {"l": [SDObj("a"), "b", SDObj(3), None, SDObj(True)]},
    "arrays in arrays": {"l": [[SDObj("a"), "b"], SDObj("c"), [[SDObj(1)]]]},
    "recursive": {hidden("o"): {hidden("a"): 1, "b": 2, hidden("l"): [SDObj("x"), {hidden("y"): {"z": []}}]}},
    "empty values": {hidden("o"): {}, hidden("l"): [], "p": {}, "q": []},
    "nothing hidden": {"a": 1, "l": [1, 2], "o": {"x": None}},
}
"""Name → claims, where ``SDObj`` of PyPI `sd-jwt` marks what is to be selectively disclosable."""


def plain(claims: Any) -> Any:
    """The claims as they were before anything was hidden."""
    if isinstance(claims, SDObj):
        return plain(claims.value)
    if isinstance(claims, dict):
        return {plain(name): plain(value) for name, value in claims.items()}
    return [plain(one) for one in claims] if isinstance(claims, list) else claims


def own(claims: JsonObject, *names: str) -> JsonObject:
    """The claims without those that a library adds by itself."""
    return {name: value for name, value in claims.items() if name not in ("iss", "cnf", "iat", "vct", *names)}
