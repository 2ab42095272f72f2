"""Scripts that run with an a2a-sdk: they make the richest cards its types allow, or say what it thinks of a card."""

MAKE_MODELS = """
import json
from a2a import types as t

URL = "https://agent.example.com/"
has = lambda name: hasattr(t, name)
newer = {"oauth2_metadata_url": URL} if "oauth2_metadata_url" in t.OAuth2SecurityScheme.model_fields else {}
flow = {"refresh_url": URL + "refresh", "scopes": {"read": "Read"}}
flows = t.OAuthFlows(
    authorization_code=t.AuthorizationCodeOAuthFlow(authorization_url=URL, token_url=URL, **flow),
    client_credentials=t.ClientCredentialsOAuthFlow(token_url=URL, scopes={}),
    implicit=t.ImplicitOAuthFlow(authorization_url=URL, **flow),
    password=t.PasswordOAuthFlow(token_url=URL, **flow),
)
schemes = {
    **{place: t.APIKeySecurityScheme(in_=place, name="X-Key", description="A key")
       for place in ("header", "query", "cookie")},
    "bearer": t.HTTPAuthSecurityScheme(scheme="bearer", bearer_format="JWT", description="A token"),
    "oauth": t.OAuth2SecurityScheme(flows=flows, description="OAuth", **newer),
    "openid": t.OpenIdConnectSecurityScheme(open_id_connect_url=URL, description="OpenID Connect"),
}
if has("MutualTLSSecurityScheme"):
    schemes["mtls"] = t.MutualTLSSecurityScheme(description="Certificates")
skill = dict(id="s", name="S", description="Does it", tags=["t"])
whole = dict(examples=["Do it"], input_modes=["text/plain"], output_modes=["image/png"])
if "security" in t.AgentSkill.model_fields:
    whole["security"] = [{"oauth": ["read"]}, {"header": [], "bearer": []}]
least = dict(name="A", description="An agent", version="1.0.0", url=URL, capabilities=t.AgentCapabilities(),
             default_input_modes=["text/plain"], default_output_modes=["text/plain"], skills=[t.AgentSkill(**skill)])
most = dict(
    provider=t.AgentProvider(organization="Example", url=URL),
    capabilities=t.AgentCapabilities(
        streaming=True, push_notifications=False, state_transition_history=True,
        extensions=[t.AgentExtension(uri=URL + "x", description="X", required=True, params={"a": [1, {"b": None}]}),
                    t.AgentExtension(uri="urn:example:y")]),
    documentation_url=URL + "docs", icon_url=URL + "icon.png", preferred_transport="GRPC",
    additional_interfaces=[t.AgentInterface(url="agent.example.com:443", transport="GRPC"),
                           t.AgentInterface(url=URL, transport="urn:example:pigeon")],
    skills=[t.AgentSkill(**skill, **whole), t.AgentSkill(**{**skill, "id": "s2"})],
    security_schemes={name: t.SecurityScheme(root=scheme) for name, scheme in schemes.items()},
    security=[{"openid": ["openid"]}, {"bearer": [], "query": []}, {}],
    supports_authenticated_extended_card=True,
)
if has("AgentCardSignature"):
    most["signatures"] = [t.AgentCardSignature(protected="e30", signature="AAAA", header={"kid": "1"})]
cards = {"least": t.AgentCard(**least), "most": t.AgentCard(**{**least, **most})}
dumps = {"without none": {"exclude_none": True}, "with none": {}}
print(json.dumps({
    f"{name} {how}": card.model_dump(mode="json", by_alias=True, **options)
    for name, card in cards.items() for how, options in dumps.items()
} | {"by name": cards["most"].model_dump(mode="json", by_alias=False, exclude_none=True)}))
"""
"""With 0.2.16 or 0.3.26 → the least and the richest card, in every way that pydantic writes them."""

MAKE_MESSAGES = """
import json
from a2a import types as t
from google.protobuf.json_format import MessageToDict

URL = "https://agent.example.com/"
auth, token, flow = {"authorization_url": URL}, {"token_url": URL}, {"refresh_url": URL, "scopes": {"read": "Read"}}
flows = [
    t.OAuthFlows(authorization_code=t.AuthorizationCodeOAuthFlow(**auth, **token, **flow, pkce_required=True)),
    t.OAuthFlows(authorization_code=t.AuthorizationCodeOAuthFlow(**auth, **token)),
    t.OAuthFlows(client_credentials=t.ClientCredentialsOAuthFlow(**token, **flow)),
    t.OAuthFlows(device_code=t.DeviceCodeOAuthFlow(device_authorization_url=URL, **token, **flow)),
    t.OAuthFlows(implicit=t.ImplicitOAuthFlow(**auth, **flow)),
    t.OAuthFlows(implicit=t.ImplicitOAuthFlow()),
    t.OAuthFlows(password=t.PasswordOAuthFlow(**token, **flow)),
]
S = t.SecurityScheme
schemes = {
    **{place: S(api_key_security_scheme=t.APIKeySecurityScheme(location=place, name="X-Key", description="A key"))
       for place in ("header", "query", "cookie")},
    "bearer": S(http_auth_security_scheme=t.HTTPAuthSecurityScheme(scheme="Bearer", bearer_format="JWT")),
    "openid": S(open_id_connect_security_scheme=t.OpenIdConnectSecurityScheme(open_id_connect_url=URL)),
    "mtls": S(mtls_security_scheme=t.MutualTlsSecurityScheme()),
    **{f"oauth{i}": S(oauth2_security_scheme=t.OAuth2SecurityScheme(flows=one, oauth2_metadata_url=URL))
       for i, one in enumerate(flows)},
}
R = t.SecurityRequirement
needed = [R(schemes={"openid": t.StringList(list=["openid"])}),
          R(schemes={"bearer": t.StringList(), "query": t.StringList()}), R()]
skill = dict(id="s", name="S", description="Does it", tags=["t"])
whole = dict(examples=["Do it"], input_modes=["text/plain"], output_modes=["image/png"], security_requirements=needed)
most = t.AgentExtension(uri=URL + "x", description="X", required=True)
most.params.update({"a": [1, {"b": None}]})
signature = t.AgentCardSignature(protected="e30", signature="AAAA")
signature.header.update({"kid": "1"})
I = t.AgentInterface
least = dict(name="A", description="An agent", version="1.0.0", capabilities=t.AgentCapabilities(),
             supported_interfaces=[I(url=URL, protocol_binding="JSONRPC", protocol_version="1.0")],
             default_input_modes=["text/plain"], default_output_modes=["text/plain"], skills=[t.AgentSkill(**skill)])
more = dict(
    provider=t.AgentProvider(organization="Example", url=URL),
    capabilities=t.AgentCapabilities(streaming=True, push_notifications=False, extended_agent_card=True,
                                     extensions=[most, t.AgentExtension()]),
    documentation_url=URL + "docs", icon_url=URL + "icon.png",
    supported_interfaces=[I(url="agent.example.com:443", protocol_binding="GRPC", protocol_version="1.0", tenant="t"),
                          I(url=URL, protocol_binding="urn:example:pigeon", protocol_version="0.3")],
    skills=[t.AgentSkill(**skill, **whole), t.AgentSkill(**{**skill, "id": "s2"})],
    security_schemes=schemes, security_requirements=needed, signatures=[signature],
)
cards = {"least": t.AgentCard(**least), "most": t.AgentCard(**{**least, **more})}
dumps = {"camel": {}, "snake": {"preserving_proto_field_name": True},
         "empties": {"always_print_fields_with_no_presence": True}}
print(json.dumps({f"{name} {how}": MessageToDict(card, **options)
                  for name, card in cards.items() for how, options in dumps.items()}))
"""
"""With 1.3.0 → the same of its messages, in every way that ProtoJSON writes them."""

PARSE_STRICTLY = """
import json, sys
from a2a.types import AgentCard
from google.protobuf.json_format import ParseDict, ParseError

def fault(card):
    try:
        ParseDict(card, AgentCard())
    except ParseError as error:
        return str(error)

print(json.dumps([fault(card) for card in json.load(sys.stdin)]))
"""
"""With 1.3.0, cards → for each one what ProtoJSON says against it, or null; unknown members are a fault."""

JUDGE_MODELS = """
import json, sys
from a2a.types import AgentCard
from pydantic import ValidationError

def faults(card):
    try:
        AgentCard.model_validate(card)
    except ValidationError as error:
        return [".".join(map(str, one["loc"])) + ": " + one["type"] for one in error.errors()]
    return []

print(json.dumps({name: faults(card) for name, card in json.load(sys.stdin).items()}))
"""
"""With 0.3.26, cards by name → what its model says against each."""

JUDGE_MESSAGES = """
import json, sys
from a2a.client.card_resolver import parse_agent_card
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import ParseError

def faults(card):
    try:
        parsed = parse_agent_card(card)
    except ParseError as error:
        return {"fails": str(error)}
    try:
        validate_proto_required_fields(parsed)
    except InvalidParamsError as error:
        return {"missing": [one["field"] for one in error.data["errors"]]}
    return {}

print(json.dumps({name: faults(card) for name, card in json.load(sys.stdin).items()}))
"""
"""With 1.3.0, cards by name → what its client says against each; one where fields are missing it takes all the same."""

REQUIRED_FIELDS = """
import json
from a2a.types import a2a_pb2
from google.api.field_behavior_pb2 import FieldBehavior, field_behavior

def walk(message, seen):
    if message.name not in seen and message.file.name == a2a_pb2.DESCRIPTOR.name:
        seen[message.name] = {f.json_name: FieldBehavior.REQUIRED in f.GetOptions().Extensions[field_behavior]
                              for f in message.fields}
        for field in message.fields:
            if field.message_type:
                walk(field.message_type, seen)
    return {name: fields for name, fields in seen.items() if not name.endswith("Entry")}

print(json.dumps(walk(a2a_pb2.AgentCard.DESCRIPTOR, {})))
"""
"""With 1.3.0 → every message of a card: its fields in camelCase, and whether the standard marks them REQUIRED."""
