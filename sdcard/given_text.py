"""Texts of another kind than expected: recognize what a person gave."""

import re
from collections.abc import Mapping
from enum import StrEnum

from sdcard.encoding import parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.jose.keys import PRIVATE_MEMBERS
from sdcard.lenient import lenient_document
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule

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
