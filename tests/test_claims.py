"""docs/claims.md: every claim and header parameter of every token, tried with a malformed value."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from sdcard import Refused, Unbound
from sdcard.audit_chain import verify_checkpoint
from sdcard.cards.a2a.signatures import check_signatures
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.delegation_chain import claims_of, read_delegated_token
from sdcard.dpop import check_unbound
from sdcard.errors import Level, Part, Where
from sdcard.jose.jws import encode_signing_input, join_signature
from sdcard.jose.key_sets import parse_key_set
from sdcard.oauth import parse_access_token, parse_server_keys, verify_access_token
from sdcard.trust import verify_trust_list
from tests import identity
from tests.sdcard import test_dpop as dpop
from tests.sdcard import test_possession as possession
from tests.sdcard import test_status_list as status
from tests.sdcard.cards.a2a.signed import TRUSTED, over_all
from tests.sdcard.test_audit_chain import KEYS as CHECKPOINT_KEYS
from tests.sdcard.test_audit_chain import signed as checkpoint
from tests.sdcard.test_delegation_chain import DELEGATION
from tests.sdcard.test_trust import PINNED
from tests.sdcard.test_trust import signed as trust_list
from tests.shared import ROOT
from tests.world import ISSUER, NOW, World, changed, example, key

PAGE = ROOT / "docs" / "claims.md"
Changes = dict[str, Any]
Try = Callable[[Changes, Changes], object]
"""Changes of the header and of the claims → the token is read, or refused."""


def issuer_jwt(header: Changes, claims: Changes) -> object:
    world = World()
    text = world.issuer.sign(world.issuer.claims(claims), header) + "~"
    return world.verifier.verify(text, Unbound("a test"))


def kb_jwt(header: Changes, claims: Changes) -> object:
    world = World()
    challenge = world.verifier.challenge()
    sd_jwt = world.holder.unbound()
    text = str(world.holder.bind(sd_jwt, challenge, claims=claims, header=header))
    return world.verifier.verify(text, challenge)


def access_token(header: Changes, claims: Changes) -> object:
    keys = parse_server_keys(identity.jwks())
    text = identity.access_token(claims, header)
    token = verify_access_token(parse_access_token(text), keys["es"], identity.SERVER, ISSUER, NOW)
    check_unbound(token.claims)
    return token


def delegated_token(header: Changes, claims: Changes) -> object:
    signer = key(7)
    shown = {"alg": "ES256", "typ": "at+jwt", "kid": "k"}
    signing_input = encode_signing_input(changed(shown, header), changed(claims_of(DELEGATION), claims))
    text = join_signature(signing_input, signer.sign(signing_input))
    keys = {"k": signer.public_key}
    return read_delegated_token(text, keys, DELEGATION.issuer, DELEGATION.target, DELEGATION.issued_at)


def card_signature(header: Changes, _: Changes) -> object:
    card = {name: value for name, value in example().items() if name != "signatures"}
    findings = list(check_signatures(over_all(card, **header), KNOWN_FORMATS["a2a/1.0"], TRUSTED))
    for finding in findings:
        if finding.level is not Level.NOTE:
            raise Refused.because([finding])
    return findings


def jwk(_: Changes, members: Changes) -> object:
    return parse_key_set({"keys": [{**key(1).public_key.to_jwk(), "kid": "a", **members}]}, Where(Part.TRUST))


TOKENS: dict[str, Try] = {
    "SD-Card": issuer_jwt,
    "KB-JWT": kb_jwt,
    "DPoP proof": lambda header, claims: dpop.verify(dpop.made(claims, header)),
    "access token": access_token,
    "delegated token": delegated_token,
    "possession proof": lambda header, claims: possession.verify(possession.made(claims, header)),
    "status list token": lambda header, claims: status.verify(status.token(header, **claims)),
    "trust list": lambda header, claims: verify_trust_list(trust_list(claims, header), PINNED, NOW),
    "audit checkpoint": lambda header, claims: verify_checkpoint(checkpoint(header, **claims), CHECKPOINT_KEYS),
    "card signature": card_signature,
    "JWK of a set": jwk,
}


def outcome_of(token: str, part: str, name: str, value: Any) -> str:
    header, claims = ({name: value}, {}) if part == "header" else ({}, {name: value})
    try:
        TOKENS[token](header, claims)
    except Refused as refusal:
        return f"{refusal.rule} at {refusal.where}"
    return "accepted"


def rows() -> list[tuple[str, str, str, str, Any, str, str]]:
    """Token, part, name, treatment, tried value, outcome and reason of every row, one for each name."""
    found, token = [], ""
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            token = line[3:]
        elif line.startswith("|") and "---" not in line and not line.startswith("| in "):
            part, names, treatment, tried, outcome, why = (cell.strip() for cell in line.strip("|").split("|"))
            for name in names.replace("`", "").split(" "):
                expected = outcome.strip("`").replace("NAME", name)
                found.append((token, part, name, treatment, json.loads(tried.strip("`")), expected, why))
    return found


ROWS = rows()
HEADER = {*("alg", "typ", "kid", "crit", "jwk", "jku", "x5u", "x5c", "x5t", "x5t#S256", "cty"), "b64"}
"""RFC 7515 4.1 and RFC 7797."""
REGISTERED = {"iss", "sub", "aud", "exp", "nbf", "iat", "jti"}
"""RFC 7519 4.1."""
DEFINED: dict[str, set[str]] = {
    "SD-Card": REGISTERED
    | {"vct", "vct#integrity", "aka_vcts", "cnf", "status", "_sd", "_sd_alg", "card_format"}
    | {"issuer_checks"},
    "KB-JWT": {"iat", "aud", "nonce", "sd_hash", "exp", "nbf", "interaction_id", "iss", "sub", "jti"},
    "DPoP proof": {"jti", "htm", "htu", "iat", "ath", "nonce", "exp", "nbf", "iss", "aud", "sub"},
    "access token": REGISTERED
    | {"client_id", "auth_time", "acr", "amr", "scope", "groups", "roles", "entitlements", "act", "may_act", "cnf"}
    | {"authorization_details"},
    "delegated token": REGISTERED | {"client_id", "scope", "act", "may_act", "cnf", "interaction_id"},
    "possession proof": REGISTERED | {"nonce"},
    "status list token": REGISTERED | {"ttl", "status_list"},
    "trust list": REGISTERED | {"issuers"},
    "audit checkpoint": REGISTERED | {"sequence", "digest"},
    "card signature": set(),
    "JWK of a set": {"kty", "use", "key_ops", "alg", "kid", "x5u", "x5c", "x5t", "x5t#S256", "crv", "x", "y"}
    | {"d", "p", "q", "dp", "dq", "qi", "oth", "k", "priv", "n", "e", "pub"},
}
"""What the standards of the page define for each kind of token, beside its header."""


@pytest.mark.parametrize("row", ROWS, ids=lambda row: " ".join(map(str, row[:5]))[:80])
def test_a_malformed_value_has_the_documented_outcome(row: tuple[str, str, str, str, Any, str, str]) -> None:
    token, part, name, treatment, tried, expected, why = row
    assert outcome_of(token, part, name, tried) == expected
    assert treatment in ("used", "refused", "ignored")
    assert (treatment == "ignored") is (expected == "accepted")
    assert why or treatment == "used"


@pytest.mark.parametrize("token", TOKENS)
def test_every_claim_and_header_parameter_of_the_standards_has_a_row(token: str) -> None:
    header = {name for of, part, name, *_ in ROWS if of == token and part == "header"}
    others = {name for of, part, name, *_ in ROWS if of == token and part != "header"}
    assert (set() if token == "JWK of a set" else HEADER) <= header
    assert DEFINED[token] <= others


def test_good_tokens_are_accepted() -> None:
    for token, read in TOKENS.items():
        read({}, {})
        assert token in DEFINED


def test_a_page_names_every_kind_of_token() -> None:
    assert {row[0] for row in ROWS} == set(TOKENS) == set(DEFINED)
