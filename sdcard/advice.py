"""Advice about each rule, and about a text of another kind: one catalogue.

The command line, the inspector, problem documents (RFC 9457) and MCP show these sentences. A sentence names no value.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType

from sdcard.encoding import parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.jose.keys import PRIVATE_MEMBERS
from sdcard.lenient import lenient_document
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule

_COPY = "Copy the whole text again, or ask its sender for it; do not edit it."
_ISSUER = "Tell the Issuer; only a newly issued SD-Card helps."
_HOLDER = "Tell the Holder; only a new presentation helps."
_JSON = "Correct the document at this place; any JSON editor shows it."
_YAML = "Write it as JSON, or quote the value at this place."
_SMALLER = "Send a smaller document, or several."
_KEYS = "`sdcard keys new` makes a key that works, and `sdcard keys public` prints its public half."
_CARD = "Correct the card; `sdcard card check` lists all findings at once."
_POLICY = "Correct the policy; `sdcard policy check` lists all findings, and `sdcard policy schema` prints its schema."
_TRUST = "`sdcard register` writes a trust document for its registry: trust.json."
_NEW = "Ask for a new challenge, and present again: `sdcard present`."
_CLOCK = "Compare the clocks of both machines."
_CHALLENGE = "The Verifier makes a new challenge for this request; answer that one."
_RENEW = "`sdcard agents renew` gets new SD-Cards."
_LATER = "Try again later; the log of the service says more."
_DPOP = "Make a new DPoP proof for exactly this request, with the key of the access token."
_PROVE = "Get a nonce from this registry and prove possession again; `sdcard register` does both."
_GRANT = "`sdcard grants list` shows what is permitted, and `sdcard grants add` permits more."
_EXCHANGE = "Begin the chain of exchanges again with a fresh token."
_APPROVE = "Request the exchange again, and have a person approve it: `sdcard approvals list`."
_CHAIN = "Compare with a backup and with checkpoints that are stored elsewhere before you trust this database."
_LOG = "Ask the Holder for a proof of this SD-Card from a checkpoint that the log's witnesses cosigned."
_LOG_FAULT = "Keep both texts: they may prove that the log shows different trees. Tell the other users of the log."
_PUBLISH = "Publish what `sdcard agents domains` prints, and renew the agent a few minutes later."
_NOTHING = "Nothing has to be done."

# fmt: off
_ADVICE = {
    Rule.BASE64URL: _COPY,
    Rule.UTF8: "Save the text as UTF-8.",
    Rule.JSON_MALFORMED: _JSON,
    Rule.JSON_DUPLICATE: "Remove one of the two members.",
    Rule.JSON_NUMBER: "Write the number with fewer digits, or as a string.",
    Rule.JSON_SURROGATE: "Replace the broken `\\u` escape.",
    Rule.JSON_DEPTH: "Nest fewer arrays and objects.",
    Rule.BYTE_ORDER_MARK: "Save the document without a byte order mark.",
    Rule.YAML_MALFORMED: "Correct the document at this place, or write it as JSON.",
    Rule.YAML_FEATURE: _YAML,
    Rule.YAML_AMBIGUOUS: _YAML,
    Rule.LIMIT_BYTES: _SMALLER,
    Rule.LIMIT_DISCLOSURES: "Have fewer parts issued or shown: a smaller context, or fewer entries of --path.",
    Rule.LIMIT_DIGESTS: _ISSUER,
    Rule.LIMIT_CONTAINERS: _SMALLER,
    Rule.KEY_MALFORMED: _KEYS,
    Rule.KEY_UNSUPPORTED: "`sdcard keys new --algorithm` names the supported algorithms; make a key of one of these.",
    Rule.KEY_PRIVATE: "Give what is expected (`sdcard keys public` prints the public half), and replace the key if "
    "others may have read it.",
    Rule.KEY_PUBLISHED: "Anyone can sign with this key. Make one of your own: `sdcard keys new`.",
    Rule.KEY_REPEATED: "Give each key once.",
    Rule.KEY_BOUND_ELSEWHERE: "Each agent has keys of its own: `sdcard keys new` makes one.",
    Rule.JWS_FORMAT: _COPY,
    Rule.JWS_HEADER: _COPY,
    Rule.JWS_ALG: "The signer must use the algorithm of its key.",
    Rule.JWS_CRIT: "The signer must leave out this header parameter.",
    Rule.JWS_TYP: "Give the token that belongs here; `sdcard inspect` shows its `typ`.",
    Rule.JWS_SIGNATURE: "Do not rely on it. Compare it with the original, and the trusted keys with the signer's.",
    Rule.SD_JWT_FORMAT: "Give an SD-Card or presentation, whole: `sdcard register` and `sdcard present` write them.",
    Rule.KB_MISSING: "`sdcard present` makes a presentation; to read an SD-Card without one, give --unbound REASON.",
    Rule.KB_UNEXPECTED: "This is a presentation: give --audience and --nonce instead of --unbound.",
    Rule.SD_ALG: _ISSUER,
    Rule.SD_RESERVED_NAME: _ISSUER,
    Rule.SD_DIGEST_LIST: _ISSUER,
    Rule.SD_PLACEHOLDER: _ISSUER,
    Rule.DIGEST_REPEATED: _ISSUER,
    Rule.DISCLOSURE_FORMAT: _COPY,
    Rule.DISCLOSURE_KIND: _ISSUER,
    Rule.DISCLOSURE_NAME: _ISSUER,
    Rule.DISCLOSURE_COLLISION: _ISSUER,
    Rule.DISCLOSURE_REPEATED: _HOLDER,
    Rule.DISCLOSURE_UNREFERENCED: _COPY,
    Rule.CLAIM_MISSING: "Give an SD-Card of a profile that is accepted here; `sdcard inspect` shows its claims.",
    Rule.CLAIM_TYPE: _ISSUER,
    Rule.CLAIM_VALUE: _ISSUER,
    Rule.CLAIM_NOT_IN_CLEAR: _ISSUER,
    Rule.EXPIRED: "`sdcard agents renew` gets new SD-Cards; if this one is new, compare the clocks.",
    Rule.NOT_YET_VALID: _CLOCK,
    Rule.LIFETIME: "The Issuer must issue SD-Cards with a shorter lifetime.",
    Rule.ISSUED_IN_FUTURE: _CLOCK,
    Rule.TOKEN_AUDIENCE: "Get an SD-Card for this Verifier, or compare the Verifier's name with `aud`.",
    Rule.CNF: _ISSUER,
    Rule.CNF_OTHER_KEY: "Give the key that it was registered with; `sdcard agents change-keys` binds others.",
    Rule.KB_STALE: _NEW,
    Rule.KB_FROM_FUTURE: f"{_CLOCK} Then present again: `sdcard present`.",
    Rule.KB_NONCE: "Give the nonce that the Verifier sent for this presentation, or present again for a new one.",
    Rule.KB_AUDIENCE: "Verifier and Holder must write the same audience, character by character; then present again.",
    Rule.KB_SD_HASH: "Send the presentation as `sdcard present` printed it; a part was changed, added or removed.",
    Rule.KB_INTERACTION: "Present for this interaction: `sdcard present --interaction-id`.",
    Rule.KB_REPLAYED: _NEW,
    Rule.KB_RECORD: "Try again later; the Verifier's record of used nonces is full or away.",
    Rule.KB_CHALLENGE_EXPIRED: _NEW,
    Rule.KB_PURPOSE: _CHALLENGE,
    Rule.KB_OTHER_REQUEST: _CHALLENGE,
    Rule.PRESENTATION_MISSING: "Answer the challenge of this response, and repeat the request with the presentation.",
    Rule.CHALLENGE_MALFORMED: "Read the challenge whole; the server that sent it must follow the documented shape.",
    Rule.CHALLENGE_AUDIENCE: "Do not answer: another server could use the answer. Compare the address that you call.",
    Rule.CHALLENGE_INTERACTION: "Send the interaction id of this request in SD-Card-Interaction, and ask again.",
    Rule.AGENT_PROOF_MISSING: "Call the agent itself; or say with --unbound why no proof is needed.",
    Rule.AGENT_PROOF_MALFORMED: "Tell the operator of the agent; its response needs one header SD-Card-Proof.",
    Rule.AGENT_PROOF_AUDIENCE: "Compare your audience with those that the agent answers.",
    Rule.AGENT_PROOF_SERVICE: "Call the agent directly, or through a Service that it names.",
    Rule.AGENT_PROOF_TARGET: "Make a new challenge for this request.",
    Rule.AGENT_PROOF_OTHER: "Do not use the response. Compare the address with the agent that you expect.",
    Rule.DPOP_MISSING: "Send a DPoP proof with the key of the token; for `sdcard`, SDCARD_TOKEN_KEY names its file.",
    Rule.DPOP_REPEATED: "Send one header DPoP.",
    Rule.DPOP_METHOD: _DPOP,
    Rule.DPOP_URL: _DPOP,
    Rule.DPOP_STALE: _DPOP,
    Rule.DPOP_FROM_FUTURE: _CLOCK,
    Rule.DPOP_TOKEN_HASH: _DPOP,
    Rule.DPOP_OTHER_KEY: _DPOP,
    Rule.DPOP_UNBOUND: "Send it as a bearer token, or get an access token that is bound to one key (`cnf.jkt`).",
    Rule.DPOP_NONCE: "Make a new DPoP proof with the nonce in the header DPoP-Nonce of this response.",
    Rule.DPOP_REPLAYED: _DPOP,
    Rule.DPOP_RECORD: "Try again later; the record of used proofs is full or away.",
    Rule.ISSUER_UNKNOWN: f"If you trust this Issuer, add it to the trust document. {_TRUST}",
    Rule.ISSUER_KEY_UNKNOWN: "--refresh asks a trusted Issuer for the keys that it has now.",
    Rule.X5C_FORMAT: _ISSUER,
    Rule.X5C_CHAIN: "Compare the roots in the trust document with the Issuer's, and the dates of its certificates.",
    Rule.X5C_NAME: "The Issuer must use a certificate that names the host of its `iss`.",
    Rule.TRUST_MALFORMED: "`sdcard register` writes such a document: trust.json.",
    Rule.TRUST_EXPIRED: "Get the present list from its signer; `sdcard trust sign` makes one.",
    Rule.TRUST_SIGNER: "Give the keys of the signer with --trust-signer, from a source that you trust.",
    Rule.ISSUER_METADATA: "Try again later, or without --refresh to use the keys that the trust document has.",
    Rule.VCT: "--profile chooses another draft; `sdcard inspect` shows the `vct`.",
    Rule.STATUS_MALFORMED: _ISSUER,
    Rule.STATUS_REVOKED: "Do not rely on it. Its owner registers again: `sdcard register`.",
    Rule.STATUS_SUSPENDED: "Try again when its owner has reinstated it: `sdcard reinstate`.",
    Rule.STATUS_UNAVAILABLE: "Try again later; --network permits a private address, --status-unchecked skips it.",
    Rule.STATUS_LIST_MALFORMED: "Tell the Issuer; nothing else gives the status.",
    Rule.STATUS_LIST_OTHER: "Give the list whose address stands in the claim `status`; `sdcard inspect` shows it.",
    Rule.STATUS_LIST_TIME: "Ask for the present list, without a parameter `time`.",
    Rule.LOG_PROOF_MISSING: _LOG,
    Rule.LOG_PROOF: _COPY,
    Rule.LOG_CHECKPOINT: _COPY,
    Rule.LOG_POLICY: "Correct the line of the policy; its form is C2SP tlog-policy.",
    Rule.LOG_UNKNOWN: "If you trust this log, add its key to the policy; the log's operator publishes it.",
    Rule.LOG_SIGNATURE: _LOG,
    Rule.LOG_WITNESSES: _LOG,
    Rule.LOG_INCLUSION: _LOG,
    Rule.LOG_CONSISTENCY: _LOG_FAULT,
    Rule.LOG_ROLLED_BACK: _LOG_FAULT,
    Rule.LOG_SPLIT_VIEW: _LOG_FAULT,
    Rule.LOG_SILENT: "Ask the log's operator; until it goes on, new SD-Cards have no proof.",
    Rule.LOG_CLOCK: "Correct the clock of the witness, or wait until it has caught up.",
    Rule.LOG_SUBMISSION: "Write the body as C2SP tlog-witness says.",
    Rule.LOG_TILE: _LATER,
    Rule.FETCH_ADDRESS: "Correct the address. --network NETWORK permits one that is not public, such as 127.0.0.1.",
    Rule.FETCH_ABSENT: "Compare the address with the one that the publisher names.",
    Rule.FETCH_FAILED: "Open the address with another client, and try again later.",
    Rule.CARD_FORMAT: "Give an A2A, AgentCard or KNO document; `sdcard card check --format` checks for one.",
    Rule.CARD_MEMBER_MISSING: "Add the member.",
    Rule.CARD_MEMBER_TYPE: _CARD,
    Rule.CARD_MEMBER_VALUE: _CARD,
    Rule.CARD_MEMBER_UNKNOWN: "Correct the name if it is a mistake; else nothing has to be done.",
    Rule.CARD_AMBIGUOUS: "Remove the members of one of the two readings.",
    Rule.CARD_RESERVED: "Rename the member.",
    Rule.CARD_SIGNATURES: _NOTHING,
    Rule.CARD_SECRET: "Remove the value, and replace the secret if it is a real one.",
    Rule.CARD_PERSONAL: "Remove the value, or withhold it with the policy.",
    Rule.CARD_INTERNAL_HOST: "Remove the host, or withhold it with the policy.",
    Rule.CARD_SIGNATURE_VERIFIED: _NOTHING,
    Rule.CARD_SIGNATURE_UNTRUSTED: "If you trust the signer, give its keys: --signers, or SDCARD_CARD_SIGNERS.",
    Rule.CARD_SIGNATURE_INVALID: "Get the card from its author again; `sdcard card sign` signs a changed one.",
    Rule.CARD_UNSIGNED_MEMBER: "Do not rely on this member.",
    Rule.CARD_UNSIGNABLE: "Convert it first: `sdcard card convert --to a2a/1.0`.",
    Rule.CARD_LOST: "Keep the original beside the converted card.",
    Rule.CARD_UNCONVERTIBLE: _CARD,
    Rule.CARD_INCOMPLETE: "Ask the Holder to show these members too.",
    Rule.AGENTCARD_COST_FLOOR: "Write zero or a larger cost.",
    Rule.AGENTCARD_SELF_DECLARED: "Do not rely on this member.",
    Rule.AGENTCARD_DIALECT: "Name the version of the format in the document.",
    Rule.AGENTCARD_FETCHED: "Publish the card and its endpoint with the same scheme.",
    Rule.FETCHED_UNBOUND: "Demand a proof of the host: `sdcard fetch --challenge`.",
    Rule.FETCHED_UNSIGNED: "Ask the publisher for an SD-Card.",
    Rule.FETCHED_ELSEWHERE: "Compare the endpoint with the agent that you expect.",
    Rule.DOMAIN_HOST: "Give the card at most 16 hosts, each a DNS name; write an internationalized name with `xn--`.",
    Rule.DOMAIN_PENDING: "Wait a minute, and renew the agent: `sdcard agents renew`.",
    Rule.DOMAIN_ABSENT: _PUBLISH,
    Rule.DOMAIN_OTHER: _PUBLISH,
    Rule.DOMAIN_WILDCARD: "Publish the record at the name itself; `sdcard agents domains` prints it.",
    Rule.DOMAIN_DNS: "Ask the name servers of the host yourself; they or the registry's resolver fail.",
    Rule.CARD_PUBLISHED: "Publish the registered card, or register the published one: `sdcard register`.",
    Rule.CONTEXT_UNKNOWN: "`sdcard policy check` lists the contexts of a policy.",
    Rule.CONTEXT_REPEATED: "Give each context once.",
    Rule.PATH_MALFORMED: "Write segments joined by dots, such as skills.0 or skills.*.id; indices begin with 0.",
    Rule.DISCLOSE_UNKNOWN: "`sdcard policy explain` shows the claims of a card.",
    Rule.DISCLOSE_BEYOND_CEILING: "Leave the entry out, or ask for a wider context.",
    Rule.POLICY_TOML: _POLICY,
    Rule.POLICY_MALFORMED: _POLICY,
    Rule.POLICY_AMBIGUOUS: _POLICY,
    Rule.POLICY_ALWAYS: "Leave the entry out of the policy.",
    Rule.POLICY_CONTAINMENT: "Add the claim to the wider context, or leave out `contains`.",
    Rule.AGREEMENT_UNEXPECTED: "Leave out --partner: it is for the context federation.",
    Rule.AGREEMENT_NONE: "Without an agreement, federation shows the same as public. Ask the operator for one.",
    Rule.DISCLOSE_EMPTY: _NOTHING,
    Rule.SELECTION_COARSE: "Show more, or choose parts with --path.",
    Rule.SELECTION: "`sdcard inspect` lists the places that the SD-Card has; indices begin with 0.",
    Rule.POLICY_FORMAT: "Register the card in a format that this Verifier admits.",
    Rule.POLICY_CLAIM: "Show the claim too: `sdcard present --path`.",
    Rule.POLICY_SKILL: "Show the skill too: `sdcard present --path`.",
    Rule.POLICY_CHECK: "Ask the registry for this check, then renew the SD-Cards: `sdcard agents renew`.",
    Rule.REQUEST: "Correct the request at this place; /openapi.json describes it.",
    Rule.REQUEST_TARGET: "Compare the address: --registry is the root of the registry; /openapi.json lists the paths.",
    Rule.REQUEST_METHOD: "/openapi.json lists the methods of this path.",
    Rule.REQUEST_MEDIA_TYPE: "Send Content-Type: application/json.",
    Rule.REQUEST_TIMEOUT: "Send the whole body at once.",
    Rule.AGENT_ID: "Use 1 to 128 letters, digits, `.`, `_` and `-`.",
    Rule.AGENT_VERSION: "Raise the version of the card.",
    Rule.AGENT_OWNED: "Choose another id: --agent-id.",
    Rule.AGENT_UNKNOWN: "`sdcard agents list` shows those of this token.",
    Rule.AGENT_CARDS: "Nothing was changed. `sdcard agents show` lists the contexts and Batches of the agent.",
    Rule.AGENT_NOT_RENEWABLE: "`sdcard register` registers it again.",
    Rule.PROOF_MISSING: _PROVE,
    Rule.PROOF_STALE: _PROVE,
    Rule.PROOF_FROM_FUTURE: _CLOCK,
    Rule.PROOF_AUDIENCE: "Name this registry in the proof; --issuer says who it is.",
    Rule.PROOF_AGENT: "Name the agent of the request in the proof.",
    Rule.PROOF_NONCE: _PROVE,
    Rule.IDEMPOTENCY_REUSED: "Use a new Idempotency-Key for a new request.",
    Rule.IDEMPOTENCY_UNREADABLE: _RENEW,
    Rule.CURSOR: "Begin again without a cursor.",
    Rule.CARD_DISAGREES: "Send the same name, description and version in the request as in the card.",
    Rule.TOKEN_MISSING: "Give one in SDCARD_TOKEN or --token-file; `sdcard token create` makes one.",
    Rule.TOKEN_INVALID: "`sdcard token create` makes one, in the folder, or with the settings, of this registry.",
    Rule.TOKEN_SCOPE: "`sdcard token create --scope …` makes one that may.",
    Rule.TOKEN_LIMIT: "`sdcard token create` makes one with other limits.",
    Rule.STORE_UNAVAILABLE: "SDCARD_DATABASE_URL or --database-url names the database; `sdcard db status` looks at it.",
    Rule.STORE_SLOW: "Ask for fewer results or with more criteria.",
    Rule.AUDIT_RECORD: _CHAIN,
    Rule.AUDIT_CHANGED: _CHAIN,
    Rule.AUDIT_MISSING: _CHAIN,
    Rule.AUDIT_ORDER: _CHAIN,
    Rule.AUDIT_LINK: _CHAIN,
    Rule.AUDIT_HEAD: _CHAIN,
    Rule.AUDIT_CHECKPOINT: _CHAIN,
    Rule.AUDIT_ROLLED_BACK: _CHAIN,
    Rule.AUDIT_STATE_CHANGED: _CHAIN,
    Rule.AUDIT_STATE_MISSING: _CHAIN,
    Rule.AUDIT_STATE_ADDED: _CHAIN,
    Rule.SIGNER_UNAVAILABLE: "Try again later; `sdcard keys list` shows the operator which key signs.",
    Rule.TOKEN_KEYS: _LATER,
    Rule.RATE_EXCEEDED: "Wait as long as Retry-After says.",
    Rule.CONSOLE_FORGED: "Sign in again, and use the form of that page.",
    Rule.NOT_READY: "Wait and try again: `sdcard wait`; /readyz and the log say more.",
    Rule.REGISTRY_FAILED: "The log of the registry says more; report it with the request's time.",
    Rule.REQUEST_NOT_ACCEPTABLE: "Send an Accept header with a media type that this path has.",
    Rule.DELEGATION_GRANT_TYPE: "Send grant_type=urn:ietf:params:oauth:grant-type:token-exchange.",
    Rule.DELEGATION_TOKEN_TYPE: "Exchange an access token or a token of an earlier exchange.",
    Rule.DELEGATION_TARGET: "Name one agent: `agent:` and its id.",
    Rule.DELEGATION_SUBJECT: "Use a token of the agent that the caller owns.",
    Rule.DELEGATION_NO_GRANT: _GRANT,
    Rule.DELEGATION_SCOPE: f"Request fewer scopes. {_GRANT}",
    Rule.DELEGATION_CYCLE: "Delegate to an agent that is not in the chain.",
    Rule.DELEGATION_DEPTH: "Delegate through fewer agents.",
    Rule.DELEGATION_ACT: _EXCHANGE,
    Rule.DELEGATION_MAY_ACT: "Get a subject token that permits this actor.",
    Rule.DELEGATION_INTERACTION: "Use one interaction id for the whole chain.",
    Rule.DELEGATION_REVOKED: _EXCHANGE,
    Rule.DELEGATION_GRANT_ENDED: _GRANT,
    Rule.DELEGATION_AGENT_ENDED: _RENEW,
    Rule.APPROVAL_PENDING: "Ask a person: `sdcard approvals list` shows it, `sdcard approvals approve` decides.",
    Rule.APPROVAL_OTHER: _APPROVE,
    Rule.APPROVAL_USED: _APPROVE,
    Rule.APPROVAL_DENIED: "Ask the person who denied it.",
    Rule.APPROVAL_EXPIRED: _APPROVE,
    Rule.APPROVAL_DECIDED: "`sdcard approvals list` shows what waits.",
    Rule.APPROVAL_SELF: "Ask a person who takes no part in the exchange.",
}
# fmt: on

ADVICE: Mapping[Rule, str] = MappingProxyType(_ADVICE)
"""Rule → what to do. Every rule has an entry."""


# -- A text of another kind than expected -----------------------------------------------------------------------------

_MOST_BYTES = 1_048_576
_PRIVATE_YAML = re.compile(rb"""^\s*["']?(?:d|priv|k)["']?\s*:""", re.MULTILINE)
_PRIVATE_HALF = re.compile(rb"""[{,\s]["']?(?:d|priv|k)["']?\s*:""")
_JWT, _TOKEN = re.compile(rb"eyJ[\w-]+\.[\w-]+\.[\w-]+(?:\s|$)"), re.compile(rb"sdcard_[\w-]{20,}")
_KTY = re.compile(rb"""["']?kty["']?\s*:""")


class GivenText(StrEnum):
    """A kind of text that people give. The value describes it in a sentence."""

    EMPTY = "It is empty."
    PRIVATE_KEY = "This is a private key. It is not shown; keep it secret."
    PUBLIC_KEYS = "This is a document with public keys."
    TRUST = "This is a trust document."
    POLICY = "This is a disclosure policy."
    CARD = "This is an agent card."
    PAYLOAD = "This is the payload of an SD-JWT, without its signature."
    SD_JWT = "This is an SD-Card or a presentation."
    ADDRESS = "This is an address; nothing is fetched from it."
    TOKEN = "This is a bearer token. It is not shown; keep it secret."
    AUDIT = "This is an export of an audit chain."
    CHECKPOINT = "This is a JWT, such as an audit checkpoint or an access token."
    AGENTS = "This is a list of agents to import."
    PEM = "This is in PEM form; keys are read as JWK, a JSON object with a member kty."


EXPECTED: Mapping[Part, tuple[GivenText, str, Rule]] = {
    Part.CARD: (GivenText.CARD, "An agent card is expected here.", Rule.CARD_FORMAT),
    Part.PRESENTATION: (GivenText.SD_JWT, "An SD-Card or a presentation is expected here.", Rule.SD_JWT_FORMAT),
    Part.POLICY: (GivenText.POLICY, "A disclosure policy is expected here.", Rule.POLICY_MALFORMED),
    Part.TRUST: (GivenText.TRUST, "A trust document is expected here.", Rule.TRUST_MALFORMED),
    Part.KEY: (GivenText.PRIVATE_KEY, "A private key is expected here (`sdcard keys new`).", Rule.KEY_MALFORMED),
    Part.ACCESS_TOKEN: (GivenText.TOKEN, "A bearer token is expected here.", Rule.TOKEN_INVALID),
    Part.AUDIT: (GivenText.AUDIT, "An export of the audit chain is expected here.", Rule.AUDIT_RECORD),
    Part.CHECKPOINT: (GivenText.CHECKPOINT, "A file with audit checkpoints is expected here.", Rule.JWS_FORMAT),
    Part.REQUEST: (GivenText.AGENTS, "JSON lines of agents are expected here.", Rule.REQUEST),
}
"""Kind of document → the text that it is, a sentence, and the rule that another text breaks."""
PUBLIC_KEYS = (GivenText.PUBLIC_KEYS, "A JWKS with public keys is expected here.", Rule.KEY_MALFORMED)
_MEMBERS = {
    frozenset({"sequence", "previous", "digest"}): GivenText.AUDIT,
    frozenset({"agent_id", "card"}): GivenText.AGENTS,
    frozenset({"name"}): GivenText.CARD,
}
ALSO_FITS: Mapping[GivenText, tuple[GivenText, ...]] = {
    **dict.fromkeys((GivenText.PRIVATE_KEY, GivenText.PUBLIC_KEYS), (GivenText.PRIVATE_KEY, GivenText.PUBLIC_KEYS)),
    **dict.fromkeys((GivenText.TRUST, GivenText.SD_JWT), (GivenText.CHECKPOINT,)),
    GivenText.TOKEN: (GivenText.CHECKPOINT, GivenText.SD_JWT),
}
"""Expected text → others that its own reader tells apart, such as a key by its halves."""


def recognize_text(data: bytes) -> GivenText | None:
    """Recognize a text that a person gave, for advice; None if its kind is not clear."""
    text = lenient_document(data).strip()
    if not text or len(text) > _MOST_BYTES:
        return None if text else GivenText.EMPTY
    if text.startswith(b"-----BEGIN"):
        return GivenText.PRIVATE_KEY if b"PRIVATE KEY" in text[:64] else GivenText.PEM
    if text.startswith(b"{"):
        return _recognize_json(text)
    if _KTY.search(text) and _PRIVATE_YAML.search(text):
        return GivenText.PRIVATE_KEY
    if text.startswith(b"eyJ"):
        return GivenText.SD_JWT if b"~" in text else GivenText.CHECKPOINT if _JWT.match(text) else None
    if _TOKEN.fullmatch(text):
        return GivenText.TOKEN
    return GivenText.ADDRESS if re.fullmatch(rb"https?://\S+", text) else None


def _recognize_json(text: bytes) -> GivenText | None:
    try:
        document = parse_json_object(text, Where(Part.REQUEST), DEFAULT_LIMITS.json_depth)
    except Refused:
        if _KTY.search(text) and _PRIVATE_HALF.search(text):
            return GivenText.PRIVATE_KEY
        first, line, _ = text.partition(b"\n")
        return _recognize_json(first) if line and first.rstrip().endswith(b"}") else None
    keys = document.get("keys")
    every = (document, *(keys if isinstance(keys, list) else ()))
    if any(isinstance(one, dict) and "kty" in one and not PRIVATE_MEMBERS.isdisjoint(one) for one in every):
        return GivenText.PRIVATE_KEY
    for members, kind in _MEMBERS.items():
        if members <= document.keys():
            return kind
    if "kty" in document or isinstance(keys, list) or {"issuer", "jwks"} <= document.keys():
        return GivenText.PUBLIC_KEYS
    if isinstance(document.get("issuers", document.get("contexts")), dict):
        return GivenText.TRUST if "issuers" in document else GivenText.POLICY
    return GivenText.PAYLOAD if document.keys() & {"_sd", "_sd_alg"} else None


def check_given_text(data: bytes, part: Part, source: str, expected: tuple[GivenText, str, Rule] | None = None) -> None:
    """Refuse a text that is clearly of another kind than the part.

    ``source`` is the file; ``expected`` is by default what the part says.

    Raises:
        Refused: ``key.private`` for a private key; otherwise the rule of ``EXPECTED``.
    """
    given = recognize_text(data)
    kind, sentence, rule = expected or EXPECTED.get(part) or (None, "", Rule.REQUEST)
    if given in (None, kind) or (kind is not None and given in ALSO_FITS.get(kind, ())):
        return
    if given is GivenText.PRIVATE_KEY or sentence:
        rule = Rule.KEY_PRIVATE if given is GivenText.PRIVATE_KEY else rule
        raise Refused(rule, Where(part), f"{source}: {given} {sentence}".rstrip())
