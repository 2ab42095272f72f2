"""Any bytes give a value or ``Refused``: anything else that is raised is a finding.

The first byte chooses what is fuzzed. Payloads, headers and KB-JWTs are signed by the harness, so that what lies behind
the signatures is reached too. Needs atheris (``uv run --with atheris python -m fuzz``); options are libFuzzer's.
"""

import sys

import atheris
from cryptography.hazmat.primitives.asymmetric import ec

with atheris.instrument_imports(include=["sdcard"]):
    from sdcard import Acceptance, ClaimPath, Expectations, InMemorySigner, Refused, TrustedIssuers, Unchecked
    from sdcard.cards.a2a.signatures.verification import CardSigners
    from sdcard.cards.reading import parse_card, parse_card_file
    from sdcard.encoding import encode_base64url, encode_json
    from sdcard.errors import Part, Where
    from sdcard.holder import accept_sd_card
    from sdcard.jose.jws import join_signature
    from sdcard.jose.keys import parse_public_jwk
    from sdcard.keybinding.challenge import Answering, Challenge, ConsumedByCaller
    from sdcard.trust import parse_trusted_issuers
    from sdcard.verifier import verify_presentation

NOW = 1_800_000_000
ISSUER = "https://issuer.example"
KEY = InMemorySigner(ec.derive_private_key(1_000_003, ec.SECP256R1()))
HOLDER = InMemorySigner(ec.derive_private_key(1_000_004, ec.SECP256R1()))
TRUST = TrustedIssuers.of(ISSUER, KEY.public_key)
EXPECTED = Expectations(
    issuers=TRUST,
    key_binding=Answering(Challenge("nonce", "https://verifier.example"), ConsumedByCaller()),
    status=Unchecked("fuzzing"),
)
HEADER = encode_json({"alg": "ES256", "typ": "dc+sd-jwt"})
KB_HEADER = encode_json({"alg": "ES256", "typ": "kb+jwt"})
CLAIMS = encode_json({
    "iss": ISSUER, "sub": "agent:a", "iat": NOW, "exp": NOW + 60, "vct": EXPECTED.profile.vct,
    "cnf": {"jwk": dict(HOLDER.public_key.to_jwk())},
})[:-1]  # fmt: skip

CARD = encode_json({
    "name": "A", "description": "B", "version": "1", "capabilities": {}, "skills": [],
    "supportedInterfaces": [{"url": "https://a.example", "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
})[:-1]  # fmt: skip
SIGNERS = CardSigners({"k": KEY.public_key})


def one_input(data: bytes) -> None:
    """One run of the fuzzer."""
    choice, rest = data[:1], data[1:]
    text = rest.decode("utf-8", "surrogateescape")
    try:
        TARGETS[choice[0] % len(TARGETS) if choice else 0](rest, text)
    except Refused:
        return


def _signed(header: bytes, payload: bytes, signer: InMemorySigner) -> str:
    signing_input = f"{encode_base64url(header)}.{encode_base64url(payload)}".encode()
    return join_signature(signing_input, signer.sign(signing_input))


def _payload(data: bytes, _: str) -> None:
    """More members behind good claims, and Disclosures: what follows each NUL."""
    members, *disclosures = data.split(b"\0")
    jwt = _signed(HEADER, CLAIMS + b"," + members + b"}", KEY)
    shown = [encode_base64url(one) for one in disclosures if one]
    accept_sd_card("~".join((jwt, *shown, "")), Acceptance(issuers=TRUST), HOLDER.public_key, NOW)


def _kb_jwt(data: bytes, _: str) -> None:
    bound = _signed(KB_HEADER, data, HOLDER)
    verify_presentation(f"{_signed(HEADER, CLAIMS + b'}', KEY)}~{bound}", EXPECTED, NOW)


def _header(data: bytes, _: str) -> None:
    verify_presentation(f"{_signed(data or b'{}', CLAIMS + b'}', KEY)}~", EXPECTED, NOW)


def _signed_card(data: bytes, _: str) -> None:
    """More members in a card, and after NUL more in the header of a signature that names a trusted key."""
    members, _, header = data.partition(b"\0")
    protected = encode_base64url(b'{"kid":"k","alg":"ES256"' + header + b"}")
    signature = encode_json({"protected": protected, "signature": encode_base64url(KEY.sign(data))})
    parse_card(CARD + members + b',"signatures":[' + signature + b"]}", signers=SIGNERS)


TARGETS = (
    lambda _, text: verify_presentation(text, EXPECTED, NOW),
    _payload,
    _kb_jwt,
    _header,
    lambda data, _: parse_card(data),
    _signed_card,
    lambda data, _: parse_card_file(data),
    lambda data, _: parse_trusted_issuers(data),
    lambda _, text: parse_public_jwk({"kty": "EC", "crv": "P-256", "x": text, "y": text[::-1]}, Where(Part.KEY)),
    lambda _, text: ClaimPath.parse(text, Where(Part.REQUEST)),
)


if __name__ == "__main__":
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()
