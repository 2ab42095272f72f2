"""The canonical bytes that an A2A card signature covers (RFC 8785).

A2A 1.0 defines one form (8.4.1): the members that ``a2a.proto`` names, with its rules of presence, in RFC 8785. A2A 0.3
defines none. Software in use signs other forms, so there are several, tried in order. All but one read the card into
types first, so unknown members and default values are not signed: ``Canonical.unsigned`` lists them.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import rfc8785

from sdcard.cards.schema import find, snake_case
from sdcard.encoding import JsonObject, JsonValue, same_json
from sdcard.errors import Misuse, Part, Where, foreign_code

_NO_DEFAULT: JsonValue = None
"""No member equals it, because null is never a value of these types."""


@dataclass(frozen=True, slots=True)
class Field:
    """Rule for one member.

    Attributes:
        default: a member of this value is left out, as if it were absent.
        message: the members inside; None if any value is carried unchanged.
        repeated: whether it holds many such messages, in an array or as the values of an object.
    """

    default: JsonValue = _NO_DEFAULT
    message: "Message | None" = None
    repeated: bool = False


@dataclass(frozen=True, slots=True)
class Message:
    """The members of one type.

    Attributes:
        members: by their name in camelCase.
        variants: value of the member ``type`` → additional members.
    """

    members: Mapping[str, Field]
    variants: Mapping[str, Mapping[str, Field]] = field(default_factory=dict)

    def fields_of(self, kind: JsonValue) -> Mapping[str, Field]:
        """Return the members of an object with this ``type``."""
        variant = self.variants.get(kind) if isinstance(kind, str) else None
        return {**self.members, **(variant or {})}


_SET = Field()
"""Marked ``optional`` or ``REQUIRED``: carried whatever its value."""
_TEXT = Field(default="")
_FLAG = Field(default=False)
_LIST = Field(default=[])
_MAP = Field(default={})


_Members: TypeAlias = Mapping[str, Field]


def _one(members: _Members) -> Field:
    return Field(message=Message(members))


def _required_many(members: _Members) -> Field:
    return Field(message=Message(members), repeated=True)


def _array(members: _Members) -> Field:
    return Field([], Message(members), repeated=True)


def _map(members: _Members) -> Field:
    return Field({}, Message(members), repeated=True)


def _all_set(*names: str) -> _Members:
    return dict.fromkeys(names, _SET)


# -- A2A 1.0 ----------------------------------------------------------------------------------------------------------

_REQUIREMENTS_1_0 = _array({"schemes": _map({"list": _LIST})})

_FLOW = {"refreshUrl": _TEXT}
_FLOWS_1_0: _Members = {
    "authorizationCode": _one(
        {**_FLOW, "authorizationUrl": _SET, "tokenUrl": _SET, "scopes": _SET, "pkceRequired": _FLAG}
    ),
    "clientCredentials": _one({**_FLOW, "tokenUrl": _SET, "scopes": _SET}),
    "implicit": _one({**_FLOW, "authorizationUrl": _TEXT, "scopes": _MAP}),
    "password": _one({**_FLOW, "tokenUrl": _TEXT, "scopes": _MAP}),
    "deviceCode": _one({**_FLOW, "deviceAuthorizationUrl": _SET, "tokenUrl": _SET, "scopes": _SET}),
}

_SCHEME_1_0: _Members = {
    "apiKeySecurityScheme": _one({"description": _TEXT, "location": _SET, "name": _SET}),
    "httpAuthSecurityScheme": _one({"description": _TEXT, "scheme": _SET, "bearerFormat": _TEXT}),
    "oauth2SecurityScheme": _one({"description": _TEXT, "flows": _one(_FLOWS_1_0), "oauth2MetadataUrl": _TEXT}),
    "openIdConnectSecurityScheme": _one({"description": _TEXT, "openIdConnectUrl": _SET}),
    "mtlsSecurityScheme": _one({"description": _TEXT}),
}

CARD_1_0 = Message(
    {
        "name": _SET,
        "description": _SET,
        "supportedInterfaces": _required_many(
            {"url": _SET, "protocolBinding": _SET, "tenant": _TEXT, "protocolVersion": _SET}
        ),
        "provider": _one(_all_set("url", "organization")),
        "version": _SET,
        "documentationUrl": _SET,
        "capabilities": _one(
            {
                "streaming": _SET,
                "pushNotifications": _SET,
                "extensions": _array({"uri": _TEXT, "description": _TEXT, "required": _FLAG, "params": _SET}),
                "extendedAgentCard": _SET,
            }
        ),
        "securitySchemes": _map(_SCHEME_1_0),
        "securityRequirements": _REQUIREMENTS_1_0,
        "defaultInputModes": _SET,
        "defaultOutputModes": _SET,
        "skills": _required_many(
            {
                **dict.fromkeys(("id", "name", "description", "tags"), _SET),
                **dict.fromkeys(("examples", "inputModes", "outputModes"), _LIST),
                "securityRequirements": _REQUIREMENTS_1_0,
            }
        ),
        "iconUrl": _SET,
    }
)
"""``AgentCard`` without ``signatures``: ``a2a.proto`` with its ``optional`` and ``REQUIRED`` marks (8.4.1, 5.7)."""


# -- a2a-sdk 0.3 ------------------------------------------------------------------------------------------------------

_FLOWS_0_3: _Members = {
    "authorizationCode": _one(_all_set("authorizationUrl", "refreshUrl", "scopes", "tokenUrl")),
    "clientCredentials": _one(_all_set("refreshUrl", "scopes", "tokenUrl")),
    "implicit": _one(_all_set("authorizationUrl", "refreshUrl", "scopes")),
    "password": _one(_all_set("refreshUrl", "scopes", "tokenUrl")),
}

_SCHEME_0_3 = Message(
    {"description": _SET},
    variants={
        "apiKey": {"type": Field(default="apiKey"), "in": _SET, "name": _SET},
        "http": {"type": Field(default="http"), "bearerFormat": _SET, "scheme": _SET},
        "oauth2": {"type": Field(default="oauth2"), "flows": _one(_FLOWS_0_3), "oauth2MetadataUrl": _SET},
        "openIdConnect": {"type": Field(default="openIdConnect"), "openIdConnectUrl": _SET},
        "mutualTLS": {"type": Field(default="mutualTLS")},
    },
)

CARD_0_3 = Message(
    {
        "additionalInterfaces": _required_many(_all_set("transport", "url")),
        "capabilities": _one(
            {
                **dict.fromkeys(("pushNotifications", "stateTransitionHistory", "streaming"), _SET),
                "extensions": _required_many(_all_set("description", "params", "required", "uri")),
            }
        ),
        **dict.fromkeys(("defaultInputModes", "defaultOutputModes", "description", "documentationUrl"), _SET),
        **dict.fromkeys(("iconUrl", "name", "security", "supportsAuthenticatedExtendedCard", "url", "version"), _SET),
        "preferredTransport": Field(default="JSONRPC"),
        "protocolVersion": Field(default="0.3.0"),
        "provider": _one(_all_set("organization", "url")),
        "securitySchemes": Field(message=_SCHEME_0_3, repeated=True),
        "skills": _required_many(
            _all_set(*("description", "examples", "id", "inputModes", "name", "outputModes", "security", "tags"))
        ),
    }
)
"""``AgentCard`` without ``signatures``, in the types of a2a-sdk 0.3, made from ``a2a.json`` of A2A 0.3. Defaults are
left out (``exclude_defaults``). """


# -- Forms ------------------------------------------------------------------------------------------------------------

_CARD = Where(Part.CARD)
_SIGNATURES = "signatures"
_EMPTY: tuple[JsonValue, ...] = (None, "", [], {})


@dataclass(frozen=True, slots=True)
class Form:
    """A canonical form.

    Attributes:
        message: the members that are signed; None for all, unchanged.
        drops_empty: whether null, empty strings, arrays and objects are left out at any depth.
        encode: the carried value → bytes. Raises ``ValueError`` for a value that it cannot encode.
    """

    name: str
    message: Message | None
    drops_empty: bool
    encode: Callable[[JsonValue], bytes] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Canonical:
    """A card in one form.

    Attributes:
        payload: the bytes that are signed.
        unsigned: every place whose change or removal does not change the bytes.
    """

    form: Form
    payload: bytes = field(repr=False)
    unsigned: tuple[Where, ...] = field(repr=False)


def canonical_json(value: JsonValue) -> bytes:
    """Serialize a JSON value by RFC 8785. Its numbers are doubles.

    Raises:
        Misuse: for an integer that no double is written as, for NaN and infinities, and for lone surrogates.
    """
    with foreign_code(Misuse, "RFC 8785 has no text for this value"):
        return rfc8785.dumps(_as_doubles(value))


def _as_doubles(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _as_doubles(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_doubles(inner) for inner in value]
    return _as_double(value) if type(value) is int else value


def _as_double(number: int) -> int | float:
    """Convert a large integer to a double, if RFC 8785 writes both alike."""
    if abs(number) < 2**53:
        return number
    try:
        double = float(number)
    except OverflowError:
        raise ValueError("too large for a double") from None
    if rfc8785.dumps(double) != str(number).encode("ascii"):
        raise ValueError("a double would say another number")
    return double


def _ascii_json(value: JsonValue) -> bytes:
    """Serialize by Python's ``json``: sorted names, escaped characters."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def _ascii_json_of_floats(value: JsonValue) -> bytes:
    """Serialize after a ``google.protobuf.Struct``, which holds 1 as 1.0."""
    return _ascii_json(_as_floats(value))


def _as_floats(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _as_floats(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_as_floats(inner) for inner in value]
    return float(_as_double(value)) if type(value) is int else value


SPECIFICATION = Form("the form of A2A 1.0", CARD_1_0, False, canonical_json)
WHOLE_CARD = Form("RFC 8785 over the whole card", None, False, canonical_json)
SDK_1_3 = Form("the form of a2a-sdk 1.3", CARD_1_0, True, canonical_json)
SDK_1_0 = Form("the form of a2a-sdk 1.0", CARD_1_0, True, _ascii_json_of_floats)
SDK_0_3 = Form("the form of a2a-sdk 0.3", CARD_0_3, True, _ascii_json)


def forms_of(format_name: str) -> tuple[Form, ...]:
    """List the forms of a card format, in the order in which they are tried.

    A form of another version is never tried: a card that mixes versions would count as signed, although only the part
    that its readers ignore is signed.
    """
    if not format_name.startswith("a2a/"):
        return ()
    return (SPECIFICATION, WHOLE_CARD, SDK_1_3, SDK_1_0) if format_name == "a2a/1.0" else (WHOLE_CARD, SDK_0_3)


def canonical_forms(document: JsonObject, format_name: str) -> tuple[Canonical, ...]:
    """Return the card in each form of its format that can encode it."""
    made = (canonical_form(document, form) for form in forms_of(format_name))
    return tuple(one for one in made if one is not None)


def canonical_form(document: JsonObject, form: Form) -> Canonical | None:
    """Return the card in one form; None if the form cannot encode a value of it."""
    card = {name: value for name, value in document.items() if name != _SIGNATURES}
    reading = _Reading(form.drops_empty)
    try:
        carried = card if form.message is None else reading.message(card, form.message, _CARD)
        payload = form.encode(carried)
    except (ValueError, RecursionError):
        return None
    return Canonical(form, payload, tuple(reading.unsigned))


class _Reading:
    """A pass over a card that records the members that it leaves out."""

    def __init__(self, drops_empty: bool) -> None:
        self._drops_empty = drops_empty
        self.unsigned: list[Where] = []

    def message(self, value: JsonValue, message: Message, where: Where) -> JsonValue:
        """Carry an object of a type; another value is carried unchanged."""
        if not isinstance(value, dict):
            return value
        carried: JsonObject = {}
        known: set[str] = set()
        for name, one in message.fields_of(value.get("type")).items():
            known |= {name, snake_case(name)}
            spelling, content = find(value, name) or (name, None)
            if content is not None and not same_json(content, one.default):
                for kept in self._kept(content, where.within(spelling), self._field(one)):
                    carried[name] = kept
        self.unsigned += [where.within(name) for name in value if name not in known]
        return carried

    def _field(self, one: Field) -> "_Step":
        message = one.message
        if message is None:
            return self._any
        if one.repeated:
            return lambda value, where: self._each(value, where, lambda i, place: self.message(i, message, place))
        return lambda value, where: self.message(value, message, where)

    def _any(self, value: JsonValue, where: Where) -> JsonValue:
        return self._each(value, where, self._any) if self._drops_empty else value

    def _each(self, value: JsonValue, where: Where, step: "_Step") -> JsonValue:
        if isinstance(value, dict):
            places = ((name, inner, where.within(name)) for name, inner in value.items())
            return {name: kept for name, inner, place in places for kept in self._kept(inner, place, step)}
        if isinstance(value, list):
            return [kept for i, inner in enumerate(value) for kept in self._kept(inner, where.within(i), step)]
        return value

    def _kept(self, value: JsonValue, where: Where, step: "_Step") -> list[JsonValue]:
        """Return the step's result for the value, or nothing if it is left out."""
        before = len(self.unsigned)
        made = step(value, where)
        if not self._drops_empty or not any(same_json(made, empty) for empty in _EMPTY):
            return [made]
        self.unsigned[before:] = [where]
        return []


_Step: TypeAlias = Callable[[JsonValue, Where], JsonValue]
