"""Valid A2A cards of every kind of oddity: other spellings, nulls, unknown members, members of the other version."""

from collections.abc import Callable, Mapping
from typing import Any

from hypothesis import strategies as st

from sdcard.cards.schema import snake_case
from sdcard.encoding import JsonObject

Strategy = st.SearchStrategy[Any]

TEXT = st.text(st.characters(codec="ascii", categories=["L", "N"]), max_size=4)
NAMED = st.sampled_from(["a", "b", "c-d"])
URL = st.sampled_from(["https://a.example/1", "https://a.example/2", "b.example:443"])
FLAG = st.booleans()
JSON = st.none() | FLAG | st.integers(0, 2) | TEXT | st.just([1]) | st.just({"x_y": None, "z": 1})
TEXTS = st.lists(TEXT, max_size=2)
SCOPES = st.dictionaries(NAMED, TEXT, max_size=2)
SCHEME_NAMES = ("key", "web", "oauth", "device", "oidc", "tls")


@st.composite
def objects(
    draw: st.DrawFn,
    required: Mapping[str, Strategy],
    optional: Mapping[str, Strategy],
    foreign: Mapping[str, Strategy],
    odd: bool,
) -> JsonObject:
    """An object; where it may be odd, also with nulls, snake_case, and members that its version does not know."""
    chosen = draw(st.integers(0, 2 ** len(optional) - 1)) if optional else 0
    there = {**required, **{name: optional[name] for bit, name in enumerate(optional) if chosen >> bit & 1}}
    members = {name: draw(strategy) for name, strategy in there.items()}
    oddity = draw(st.sampled_from(["none", "none", "null", "snake", "unknown", "foreign"])) if odd else "none"
    if oddity == "null":
        members |= dict.fromkeys(optional.keys() - there.keys())
    elif oddity == "snake":
        members = {snake_case(name): value for name, value in members.items()}
    elif oddity == "unknown":
        members = {"x_own": draw(JSON), **members, "xOwn": draw(JSON)}
    elif oddity == "foreign" and foreign:
        name = draw(st.sampled_from(sorted(foreign)))
        members[name] = draw(foreign[name])
    return members


def cards(version: str, odd: bool, mixed: bool = False) -> Strategy:
    """Cards of that version: tidy ones that any strict reader takes, or odd ones; or with members of both versions."""

    def obj(required: Mapping[str, Strategy], optional: Mapping[str, Strategy], **foreign: Strategy) -> Strategy:
        return objects(required, optional, foreign, odd)

    return _cards_0_3(obj) if version == "0.3" else _cards_1_0(obj, mixed)


Obj = Callable[..., Strategy]


def _flows(obj: Obj) -> dict[str, Strategy]:
    code, token = {"authorizationUrl": URL}, {"tokenUrl": URL}
    more = {"scopes": SCOPES}
    return {
        "authorizationCode": obj(code | token | more, {"refreshUrl": URL}, pkceRequired=FLAG),
        "clientCredentials": obj(token | more, {}),
        "implicit": obj(code | more, {}),
        "password": obj(token | more, {"refreshUrl": URL}),
    }


def _common(obj: Obj) -> tuple[dict[str, Strategy], dict[str, Strategy]]:
    required: dict[str, Strategy] = {"name": TEXT, "description": TEXT, "version": TEXT}
    optional = {"provider": obj({"organization": TEXT, "url": URL}, {}), "documentationUrl": URL, "iconUrl": URL}
    required |= {"defaultInputModes": TEXTS, "defaultOutputModes": TEXTS}
    return required, optional


def _skill(obj: Obj, number: int, needs: dict[str, Strategy], **foreign: Strategy) -> Strategy:
    required = {"id": st.just(f"s{number}"), "name": st.just("S"), "description": TEXT, "tags": TEXTS}
    return obj(required, {"examples": TEXTS, "inputModes": TEXTS, **needs}, **foreign)


def _skills(obj: Obj, needs: dict[str, Strategy], **foreign: Strategy) -> Strategy:
    return st.integers(0, 2).flatmap(
        lambda count: st.tuples(*(_skill(obj, number, needs, **foreign) for number in range(count))).map(list)
    )


def _capabilities(obj: Obj, optional: dict[str, Strategy], **foreign: Strategy) -> Strategy:
    extension = obj({"uri": st.just("urn:x")}, {"required": FLAG, "description": TEXT})
    return obj({}, {"streaming": FLAG, "extensions": st.lists(extension, max_size=2), **optional}, **foreign)


def _cards_0_3(obj: Obj) -> Strategy:
    flows = obj({}, _flows(obj), deviceCode=st.just({"tokenUrl": "x"}))
    says = {"description": TEXT}
    schemes = st.fixed_dictionaries(
        {
            "key": obj({"type": st.just("apiKey"), "in": st.just("header"), "name": NAMED}, says, location=JSON),
            "web": obj({"type": st.just("http"), "scheme": NAMED}, says, location=JSON),
            "oauth": obj({"type": st.just("oauth2"), "flows": flows}, says | {"oauth2MetadataUrl": URL}),
            "device": obj({"type": st.just("oauth2"), "flows": flows}, says),
            "oidc": obj({"type": st.just("openIdConnect"), "openIdConnectUrl": URL}, says),
            "tls": obj({"type": st.just("mutualTLS")}, says),
        }
    )
    security = st.lists(st.dictionaries(st.sampled_from(SCHEME_NAMES), TEXTS, max_size=3), max_size=3)
    interface = obj({"url": URL, "transport": NAMED}, {}, tenant=TEXT, protocolBinding=JSON, protocol_version=JSON)
    required, optional = _common(obj)
    return obj(
        {
            **required,
            "url": URL,
            "protocolVersion": st.sampled_from(["0.3", "0.3.0", "0.3.1", "1.0"]),
            "capabilities": _capabilities(obj, {"stateTransitionHistory": FLAG}, extendedAgentCard=FLAG),
            "skills": _skills(obj, {"security": security}, securityRequirements=st.sampled_from([None, []])),
            "securitySchemes": schemes,
        },
        {
            **optional,
            "preferredTransport": NAMED | st.just("JSONRPC"),
            "additionalInterfaces": st.lists(interface, max_size=3),
            "security": security,
            "supportsAuthenticatedExtendedCard": FLAG,
        },
        securityRequirements=st.sampled_from([None, []]),
        supported_interfaces=st.none(),
    )


def _cards_1_0(obj: Obj, mixed: bool) -> Strategy:
    says = {"description": TEXT}
    device = obj({"deviceAuthorizationUrl": URL, "tokenUrl": URL, "scopes": SCOPES}, {})
    one = {name: obj({name: flow}, {}) for name, flow in {**_flows(obj), "deviceCode": device}.items()}

    def wrapped(wrapper: str, inner: Strategy) -> Strategy:
        return obj({wrapper: inner}, {}, type=JSON)

    schemes = st.fixed_dictionaries(
        {
            "key": wrapped(
                "apiKeySecurityScheme",
                obj({"location": st.just("header"), "name": NAMED}, says, **{"in": JSON, "type": JSON}),
            ),
            "web": wrapped("httpAuthSecurityScheme", obj({"scheme": NAMED}, says | {"bearerFormat": TEXT})),
            "oauth": wrapped(
                "oauth2SecurityScheme", obj({"flows": st.one_of(*one.values())}, says | {"oauth2MetadataUrl": URL})
            ),
            "device": wrapped("oauth2SecurityScheme", obj({"flows": one["deviceCode"]}, says)),
            "oidc": wrapped("openIdConnectSecurityScheme", obj({"openIdConnectUrl": URL}, says, type=TEXT)),
            "tls": wrapped("mtlsSecurityScheme", obj({}, says)),
        }
    )
    if mixed:
        shared = [flow for name, flow in one.items() if name != "deviceCode"]
        older = obj({"type": st.just("oauth2"), "flows": st.one_of(*shared)}, {})
        schemes = st.builds(lambda there, tls: {**there, "tls": tls}, schemes, older)
    needed = st.dictionaries(st.sampled_from(SCHEME_NAMES), obj({}, {"list": TEXTS}), max_size=3)
    requirements = st.lists(obj({"schemes": needed}, {}), max_size=3)
    security = st.lists(st.dictionaries(st.sampled_from(SCHEME_NAMES), TEXTS, max_size=3), max_size=3)
    versions = st.sampled_from(["0.3", "0.3.0", "1.0", "0.2.5", "2.0"])
    optional_of_interface = {"protocolVersion": versions, "tenant": NAMED}
    interface = obj({"url": URL, "protocolBinding": NAMED}, optional_of_interface, transport=TEXT)
    legacy: dict[str, Strategy] = {}
    if mixed:
        legacy = {
            "url": URL,
            "preferredTransport": NAMED,
            "protocolVersion": versions,
            "additionalInterfaces": st.just([]),
            "security": security,
            "supportsAuthenticatedExtendedCard": FLAG,
        }
    required, optional = _common(obj)
    return obj(
        {
            **required,
            "supportedInterfaces": st.lists(interface, min_size=1, max_size=4),
            "capabilities": _capabilities(obj, {"extendedAgentCard": FLAG}, stateTransitionHistory=FLAG),
            "skills": _skills(obj, {"securityRequirements": requirements}, **({"security": security} if mixed else {})),
            "securitySchemes": schemes,
        },
        {**optional, "securityRequirements": requirements},
        **legacy,
    )
