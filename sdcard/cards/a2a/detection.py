"""Detection of a document's A2A version by members that only one version has.

``cards/detect.py`` asks the questions in order; the first true one decides. A mark outweighs the version that the card
claims, since readers fail on members; the check of each version reports where they differ.
"""

from sdcard.cards.a2a import v0, v1_0
from sdcard.cards.a2a.shared import claimed_version
from sdcard.cards.schema import find, find_list, snake_case
from sdcard.encoding import JsonObject, JsonValue

_KNOWN_TO_1_0 = frozenset(v1_0.SHAPE.members) | frozenset(map(snake_case, v1_0.SHAPE.members))
_TWO_WORDS = tuple(name for name in v0.SHAPE_0_3.members if snake_case(name) != name)
_ONLY_A2A = ("defaultInputModes", "defaultOutputModes", *v0.NEW_IN_0_2[2:])
_OF_OTHERS = ("agent_id", "schema_version", "registrations", "services", "tools", "serverInfo", "mcpServers")
"""Members of other documents, some of which list skills at a URL too."""


def is_1_0(document: JsonObject) -> bool:
    """Whether the card lists interfaces, or says 1 and has no endpoint of 0.3."""
    if _has(document, "supportedInterfaces"):
        return True
    return claimed_version(document).startswith("1") and _has(document, "skills") and not _has(document, "url")


def is_0_3(document: JsonObject) -> bool:
    """Whether the card says 0.3, uses members new in 0.3, or is in snake_case.

    The Python SDK has written snake_case since its last releases for 0.2, and readers of 0.3 accept it.
    """
    claim = claimed_version(document)
    if claim.startswith("0.3"):
        return True
    if not _is_card(document):
        return False
    if _has(document, "signatures") or _has_skill_security(document) or _has_mutual_tls(document):
        return True
    return not claim.startswith(("0.1", "0.2")) if claim else _is_snake(document)


def is_0_1(document: JsonObject) -> bool:
    """Whether the card has a mark of 0.1, and nothing that is new in 0.2."""
    claim = claimed_version(document)
    if any(_has(document, name) for name in v0.NEW_IN_0_2):
        return False
    if claim:
        return claim.startswith("0.1") and (_is_card(document) or _has(document, "skills"))
    return _is_card(document) and (_has(document, "authentication") or not _has(document, "description"))


def is_0_2(document: JsonObject) -> bool:
    """Whether the card says 0.2, or is a card without a mark of another version."""
    claim = claimed_version(document)
    return (claim.startswith("0.2") and _has(document, "skills")) or _is_card(document)


def is_beginning(document: JsonObject) -> bool:
    """Whether the card is too incomplete to show marks, and may be a current one."""
    if document.keys() <= _KNOWN_TO_1_0:
        return True
    described = _lists_skills(document) and isinstance(document.get("capabilities"), dict)
    return described and not _has(document, "url")


def _has(document: JsonObject, name: str) -> bool:
    return find(document, name) is not None


def _is_card(document: JsonObject) -> bool:
    """Whether the document has an endpoint, and other members of A2A up to 0.3."""
    if not _has(document, "url"):
        return False
    capabilities = document.get("capabilities")
    flags = isinstance(capabilities, dict) and any(_has(capabilities, name) for name in v0.CAPABILITIES)
    if flags or any(_has(document, name) for name in _ONLY_A2A):
        return True
    return _lists_skills(document) and not any(_has(document, name) for name in _OF_OTHERS)


def _lists_skills(document: JsonObject) -> bool:
    skills = document.get("skills")
    return isinstance(skills, list) and (not skills or any(isinstance(skill, dict) for skill in skills))


def _is_snake(document: JsonObject) -> bool:
    spelt = [name for name in _TWO_WORDS if _has(document, name)]
    return bool(spelt) and all(document.get(name) is None for name in spelt)


def _has_skill_security(document: JsonObject) -> bool:
    return any(isinstance(skill, dict) and _has(skill, "security") for skill in find_list(document, "skills")[1])


def _has_mutual_tls(document: JsonObject) -> bool:
    schemes: JsonValue = (find(document, "securitySchemes") or ("", None))[1]
    if not isinstance(schemes, dict):
        return False
    return any(isinstance(scheme, dict) and scheme.get("type") == "mutualTLS" for scheme in schemes.values())
