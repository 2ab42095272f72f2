"""Schemes and requirements between A2A 0.3 and 1.0: a way in may be closed, none is opened."""

from typing import Any

import pytest

from sdcard.cards.a2a.security import (
    convert_requirements,
    from_schemes_and_lists,
    schemes_to_0_3,
    schemes_to_1_0,
    to_schemes_and_lists,
)
from sdcard.cards.a2a.shared import CARD
from sdcard.cards.conversion import Losses
from tests.world import raises_rule

SCHEMES = CARD.within("securitySchemes")
SECURITY = CARD.within("security")
CODE = {"authorizationUrl": "https://a.example/code", "tokenUrl": "https://a.example/token", "scopes": {"s": "S"}}
TOKEN = {"tokenUrl": "https://a.example/token", "scopes": {}}


def told(losses: Losses) -> list[tuple[str, str]]:
    return [(finding.level.value, str(finding.where)) for finding in losses.all()]


def oauth(**flows: Any) -> dict[str, Any]:
    return {"type": "oauth2", "description": "d", "flows": flows}


def test_each_kind_of_scheme_has_its_wrapper_and_comes_back() -> None:
    schemes = {
        "key": {"type": "apiKey", "in": "query", "name": "k", "x": 1},
        "web": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "code": oauth(authorizationCode=CODE),
        "oidc": {"type": "openIdConnect", "openIdConnectUrl": "https://a.example/o"},
        "tls": {"type": "mutualTLS"},
    }
    losses = Losses()
    there = schemes_to_1_0(schemes, SCHEMES, losses)
    assert there.schemes == {
        "key": {"apiKeySecurityScheme": {"location": "query", "name": "k", "x": 1}},
        "web": {"httpAuthSecurityScheme": {"scheme": "bearer", "bearerFormat": "JWT"}},
        "code": {"oauth2SecurityScheme": {"description": "d", "flows": {"authorizationCode": CODE}}},
        "oidc": {"openIdConnectSecurityScheme": {"openIdConnectUrl": "https://a.example/o"}},
        "tls": {"mtlsSecurityScheme": {}},
    }
    assert schemes_to_0_3(there.schemes, SCHEMES, losses).schemes == schemes
    assert told(losses) == []


def test_several_flows_become_several_schemes_and_every_requirement_as_many_alternatives() -> None:
    losses = Losses()
    both = oauth(authorizationCode=CODE, clientCredentials=TOKEN, own=1)
    there = schemes_to_1_0({"o": both, "k": {"type": "mutualTLS"}}, SCHEMES, losses)
    assert there.schemes == {
        f"o-{flow}": {"oauth2SecurityScheme": {"description": "d", "flows": {flow: content, "own": 1}}}
        for flow, content in (("authorizationCode", CODE), ("clientCredentials", TOKEN))
    } | {"k": {"mtlsSecurityScheme": {}}}
    required: list[dict[str, Any]] = [{"o": ["s"], "k": []}, {"k": []}]
    assert convert_requirements(required, there, SECURITY, losses) == [
        {"o-authorizationCode": ["s"], "k": []},
        {"o-clientCredentials": ["s"], "k": []},
        {"k": []},
    ]
    assert told(losses) == [("note", "card/securitySchemes/o"), ("note", "card/security/0")]


def test_a_scheme_that_took_the_name_is_not_overwritten() -> None:
    schemes = {"o": oauth(authorizationCode=CODE, implicit=CODE), "o-implicit": {"type": "mutualTLS"}}
    with raises_rule("card.not-convertible", at="card/securitySchemes/o"):
        schemes_to_1_0(schemes, SCHEMES, Losses())


@pytest.mark.parametrize(("count", "fits"), [(6, True), (7, False)])
def test_combinations_of_flows_are_bounded(count: int, fits: bool) -> None:
    schemes = {f"o{number}": oauth(authorizationCode=CODE, implicit=CODE) for number in range(count)}
    there = schemes_to_1_0(schemes, SCHEMES, Losses())
    required: list[dict[str, Any]] = [{name: [] for name in schemes}]
    if fits:
        assert len(convert_requirements(required, there, SECURITY, Losses())) == 64
    else:
        with raises_rule("card.not-convertible", at="card/security/0"):
            convert_requirements(required, there, SECURITY, Losses())


def test_what_only_1_0_can_say_of_oauth_is_lost() -> None:
    losses = Losses()
    schemes = {
        "device": {"oauth2SecurityScheme": {"flows": {"deviceCode": {**TOKEN, "deviceAuthorizationUrl": "x"}}}},
        "code": {"oauth2SecurityScheme": {"flows": {"authorizationCode": {**CODE, "pkceRequired": True}}}},
    }
    there = schemes_to_0_3(schemes, SCHEMES, losses)
    assert there.schemes == {"code": {"type": "oauth2", "flows": {"authorizationCode": CODE}}}
    flows = "oauth2SecurityScheme/flows"
    assert set(told(losses)) == {
        ("warning", f"card/securitySchemes/device/{flows}/deviceCode"),
        ("warning", "card/securitySchemes/device"),
        ("warning", f"card/securitySchemes/code/{flows}/authorizationCode/pkceRequired"),
    }


def test_an_alternative_that_cannot_be_expressed_is_lost_but_never_the_last_one() -> None:
    losses = Losses()
    there = schemes_to_1_0({"o": oauth(), "k": {"type": "mutualTLS"}}, SCHEMES, losses)
    assert convert_requirements([{"o": [], "k": []}, {"k": []}], there, SECURITY, losses) == [{"k": []}]
    assert told(losses) == [("warning", "card/securitySchemes/o"), ("warning", "card/security/0")]
    with raises_rule("card.not-convertible", at="card/security"):
        convert_requirements([{"o": []}], there, SECURITY, losses)


def test_a_scheme_that_nobody_describes_cannot_be_expressed() -> None:
    with raises_rule("card.not-convertible", at="card/security"):
        convert_requirements([{"k": []}], schemes_to_1_0({}, SCHEMES, Losses()), SECURITY, Losses())


@pytest.mark.parametrize("required", [[], [{}], [{"k": ["s"]}, {"k": [], "l": []}]])
def test_requirements_come_back(required: list[dict[str, Any]]) -> None:
    losses = Losses()
    wrapped: Any = to_schemes_and_lists(required)
    assert from_schemes_and_lists(wrapped, SECURITY, losses) == required
    assert told(losses) == []


def test_requirements_of_1_0_say_nothing_else() -> None:
    losses = Losses()
    required = [{"schemes": {"k": {"x": 1}}, "y": 2}, {}]
    assert from_schemes_and_lists(required, SECURITY, losses) == [{"k": []}, {}]
    assert set(told(losses)) == {
        ("warning", "card/security/0/y"),
        ("warning", "card/security/0/schemes/k/x"),
        ("note", "card/security/0/schemes/k/list"),
        ("note", "card/security/1/schemes"),
    }
