"""Access tokens bound to a key: a stolen one is of no use without it."""

from typing import Any

import pytest

from sdcard.dpop import binding_claim, check_unbound, parse_binding
from tests.world import key, raises_rule

KEY = key(2).public_key


def test_what_is_written_is_read() -> None:
    assert binding_claim(KEY) == {"jkt": KEY.thumbprint}
    assert parse_binding({"cnf": binding_claim(KEY)}) == KEY.thumbprint


@pytest.mark.parametrize(
    "claims",
    [
        {},
        {"cnf": None},
        {"cnf": KEY.thumbprint},
        {"cnf": {}},
        {"cnf": {"jkt": None}},
        {"cnf": {"jkt": [KEY.thumbprint]}},
        {"cnf": {"jwk": KEY.to_jwk()}},
        {"cnf": {"jkt": KEY.thumbprint, "x5t#S256": "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0"}},
    ],
)
def test_a_token_with_a_proof_is_bound_to_exactly_one_key(claims: dict[str, Any]) -> None:
    with raises_rule("dpop.token-unbound", "access-token/cnf"):
        parse_binding(claims)


@pytest.mark.parametrize("cnf", [binding_claim(KEY), {"x5t#S256": "A4DtL2"}, {}, None])
def test_a_bound_token_is_no_bearer_token(cnf: Any) -> None:
    with raises_rule("dpop.missing", "access-token/cnf"):
        check_unbound({"cnf": cnf})


def test_a_bearer_token_needs_no_proof() -> None:
    check_unbound({"sub": "a-subject"})
