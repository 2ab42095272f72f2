"""Signed members of a card, for signers that parse it into types first.

The tables hold the members of these types, as data.

A2A 1.0, ``specification/a2a.proto`` with its ``optional`` and ``REQUIRED`` marks (8.4.1, 5.7); and the types of a2a-sdk
0.3, made from ``specification/json/a2a.json`` of A2A 0.3.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sdcard.encoding import JsonValue

_NO_DEFAULT: JsonValue = None
"""Null never is a value of these types, so no member equals it."""


@dataclass(frozen=True, slots=True)
class Field:
    """Rule for one member: how it is carried.

    Attributes:
        default: a member of this value is left out, as if it were absent.
        message: the members inside; None where any value is carried unchanged.
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
        variants: value of the member ``type`` → the members that are there beside these then.
    """

    members: Mapping[str, Field]
    variants: Mapping[str, Mapping[str, Field]] = field(default_factory=dict)

    def fields_of(self, kind: JsonValue) -> Mapping[str, Field]:
        """The members of an object with this ``type``."""
        variant = self.variants.get(kind) if isinstance(kind, str) else None
        return {**self.members, **(variant or {})}


_SET = Field()
"""Marked ``optional`` or ``REQUIRED``: carried whatever its value."""
_TEXT = Field(default="")
_FLAG = Field(default=False)
_LIST = Field(default=[])
_MAP = Field(default={})


def _one(message: Message) -> Field:
    return Field(message=message)


def _required_many(message: Message) -> Field:
    return Field(message=message, repeated=True)


def _array(message: Message) -> Field:
    return Field([], message, repeated=True)


def _map(message: Message) -> Field:
    return Field({}, message, repeated=True)


def _all_set(*names: str) -> Message:
    return Message(dict.fromkeys(names, _SET))


# -- A2A 1.0 ----------------------------------------------------------------------------------------------------------

_REQUIREMENTS_1_0 = _array(Message({"schemes": _map(Message({"list": _LIST}))}))

_FLOW = {"refreshUrl": _TEXT}
_FLOWS_1_0 = Message(
    {
        "authorizationCode": _one(
            Message(
                {**_FLOW, "authorizationUrl": _SET, "tokenUrl": _SET, "scopes": _SET, "pkceRequired": _FLAG},
            )
        ),
        "clientCredentials": _one(Message({**_FLOW, "tokenUrl": _SET, "scopes": _SET})),
        "implicit": _one(Message({**_FLOW, "authorizationUrl": _TEXT, "scopes": _MAP})),
        "password": _one(Message({**_FLOW, "tokenUrl": _TEXT, "scopes": _MAP})),
        "deviceCode": _one(Message({**_FLOW, "deviceAuthorizationUrl": _SET, "tokenUrl": _SET, "scopes": _SET})),
    }
)

_SCHEME_1_0 = Message(
    {
        "apiKeySecurityScheme": _one(Message({"description": _TEXT, "location": _SET, "name": _SET})),
        "httpAuthSecurityScheme": _one(Message({"description": _TEXT, "scheme": _SET, "bearerFormat": _TEXT})),
        "oauth2SecurityScheme": _one(
            Message({"description": _TEXT, "flows": _one(_FLOWS_1_0), "oauth2MetadataUrl": _TEXT})
        ),
        "openIdConnectSecurityScheme": _one(Message({"description": _TEXT, "openIdConnectUrl": _SET})),
        "mtlsSecurityScheme": _one(Message({"description": _TEXT})),
    }
)

CARD_1_0 = Message(
    {
        "name": _SET,
        "description": _SET,
        "supportedInterfaces": _required_many(
            Message({"url": _SET, "protocolBinding": _SET, "tenant": _TEXT, "protocolVersion": _SET})
        ),
        "provider": _one(_all_set("url", "organization")),
        "version": _SET,
        "documentationUrl": _SET,
        "capabilities": _one(
            Message(
                {
                    "streaming": _SET,
                    "pushNotifications": _SET,
                    "extensions": _array(
                        Message({"uri": _TEXT, "description": _TEXT, "required": _FLAG, "params": _SET})
                    ),
                    "extendedAgentCard": _SET,
                }
            )
        ),
        "securitySchemes": _map(_SCHEME_1_0),
        "securityRequirements": _REQUIREMENTS_1_0,
        "defaultInputModes": _SET,
        "defaultOutputModes": _SET,
        "skills": _required_many(
            Message(
                {
                    **dict.fromkeys(("id", "name", "description", "tags"), _SET),
                    **dict.fromkeys(("examples", "inputModes", "outputModes"), _LIST),
                    "securityRequirements": _REQUIREMENTS_1_0,
                }
            )
        ),
        "iconUrl": _SET,
    }
)
"""``AgentCard`` without ``signatures``."""


# -- a2a-sdk 0.3 ------------------------------------------------------------------------------------------------------

_FLOWS_0_3 = Message(
    {
        "authorizationCode": _one(_all_set("authorizationUrl", "refreshUrl", "scopes", "tokenUrl")),
        "clientCredentials": _one(_all_set("refreshUrl", "scopes", "tokenUrl")),
        "implicit": _one(_all_set("authorizationUrl", "refreshUrl", "scopes")),
        "password": _one(_all_set("refreshUrl", "scopes", "tokenUrl")),
    }
)

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
            Message(
                {
                    **dict.fromkeys(("pushNotifications", "stateTransitionHistory", "streaming"), _SET),
                    "extensions": _required_many(_all_set("description", "params", "required", "uri")),
                }
            )
        ),
        **dict.fromkeys(("defaultInputModes", "defaultOutputModes", "description", "documentationUrl"), _SET),
        **dict.fromkeys(("iconUrl", "name", "security", "supportsAuthenticatedExtendedCard", "url", "version"), _SET),
        "preferredTransport": Field(default="JSONRPC"),
        "protocolVersion": Field(default="0.3.0"),
        "provider": _one(_all_set("organization", "url")),
        "securitySchemes": _required_many(_SCHEME_0_3),
        "skills": _required_many(
            _all_set(
                *("description", "examples", "id", "inputModes", "name", "outputModes", "security", "tags"),
            )
        ),
    }
)
"""``AgentCard`` without ``signatures``; what it carries of its own defaults is left out (``exclude_defaults``)."""
