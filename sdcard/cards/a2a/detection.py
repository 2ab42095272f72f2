"""Which A2A generation a document is of, by the marks that only one of them has.

The order in which the questions are asked is ``cards/reading.py``'s.
"""

from sdcard.cards.a2a import v1_0
from sdcard.cards.shapes import find, find_list, snake_case
from sdcard.encoding import JsonObject, JsonValue

_KNOWN_TO_1_0 = frozenset(v1_0.SHAPE.members) | frozenset(map(snake_case, v1_0.SHAPE.members))
_BROUGHT_BY_0_2 = (
    "securitySchemes",
    "security",
    "supportsAuthenticatedExtendedCard",
    "preferredTransport",
    "additionalInterfaces",
)


def is_1_0(document: JsonObject) -> bool:
    """It lists interfaces, whatever members of 0.3 it also has; or it says 1 and has no endpoint of 0.3 either."""
    if _has(document, "supportedInterfaces"):
        return True
    return _version(document).startswith("1") and _has(document, "skills") and not _has(document, "url")


def is_0_3(document: JsonObject) -> bool:
    """It says 0.3, or another version that is no older, or it uses what 0.3 brought."""
    if _version(document).startswith("0.3"):
        return True
    if _has(document, "protocolVersion"):
        return _has(document, "skills") and not says_older(document)
    return _has(document, "url") and (
        _has(document, "signatures") or _has_skill_security(document) or _has_mutual_tls(document)
    )


def says_older(document: JsonObject) -> bool:
    """It says that it is older than 0.3."""
    return _version(document).startswith(("0.1", "0.2"))


def is_0_1(document: JsonObject) -> bool:
    """It has the shape of an A2A card, the one member that only 0.1 had, and none that 0.2 brought."""
    newer = any(_has(document, name) for name in _BROUGHT_BY_0_2)
    return is_before_0_3(document) and _has(document, "authentication") and not newer


def is_before_0_3(document: JsonObject) -> bool:
    """It has the shape of an A2A card and no mark of a later version."""
    described = _has(document, "skills") or isinstance(document.get("capabilities"), dict)
    return _has(document, "url") and described and not _has(document, "protocolVersion")


def is_beginning(document: JsonObject) -> bool:
    """It is too incomplete to be told from its marks, and nothing in it speaks against the current version."""
    if document.keys() <= _KNOWN_TO_1_0:
        return True
    described = isinstance(document.get("skills"), list) and isinstance(document.get("capabilities"), dict)
    return described and not _has(document, "url")


def _has(document: JsonObject, name: str) -> bool:
    return find(document, name) is not None


def _version(document: JsonObject) -> str:
    version = (find(document, "protocolVersion") or ("", ""))[1]
    return version if isinstance(version, str) else ""


def _has_skill_security(document: JsonObject) -> bool:
    return any(isinstance(skill, dict) and _has(skill, "security") for skill in find_list(document, "skills")[1])


def _has_mutual_tls(document: JsonObject) -> bool:
    schemes: JsonValue = (find(document, "securitySchemes") or ("", None))[1]
    if not isinstance(schemes, dict):
        return False
    return any(isinstance(scheme, dict) and scheme.get("type") == "mutualTLS" for scheme in schemes.values())
