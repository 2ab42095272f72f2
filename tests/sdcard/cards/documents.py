"""Good cards to start from, one change at a time, and what reading finds."""

import copy
import json
from collections.abc import Iterator
from typing import Any

from sdcard.cards.a2a import v0
from sdcard.cards.detect import read_card
from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level, Refused
from sdcard.paths import Place
from tests.shared import ROOT
from tests.world import Sentinel

ABSENT = Sentinel("ABSENT")
Told = set[tuple[str, str, str]]
"""Findings as (level, rule, place)."""


def georoute() -> JsonObject:
    """A good A2A 1.0 card."""
    return _example("georoute.json")


def georoute_0_3() -> JsonObject:
    """A good A2A 0.3 card."""
    return _example("georoute-0.3.json")


def georoute_0_2() -> JsonObject:
    """A good A2A 0.2 card."""
    card = changed(georoute_0_3(), ("protocolVersion",), "0.2.6")
    return changed(changed(card, ("skills", 2, "security"), ABSENT), ("iconUrl",), ABSENT)


def georoute_plain() -> JsonObject:
    """A good card that nothing tells from one of A2A 0.1 or of 0.2."""
    card = georoute_0_2()
    for name in ("protocolVersion", *v0.NEW_IN_0_2):
        del card[name]
    return changed(card, ("capabilities", "extensions"), ABSENT)


def georoute_0_1() -> JsonObject:
    """A good A2A 0.1 card."""
    return georoute_plain() | {"authentication": {"schemes": ["Bearer"]}}


def changed(document: JsonObject, place: Place, value: Any) -> JsonObject:
    """A copy with another value at one place, or without it for ``ABSENT``."""
    copied = copy.deepcopy(document)
    inner: Any = copied
    for segment in place[:-1]:
        inner = inner[segment]
    if value is ABSENT:
        del inner[place[-1]]
    elif isinstance(inner, list) and place[-1] == len(inner):
        inner.append(value)
    else:
        inner[place[-1]] = value
    return copied


def findings(document: JsonObject) -> tuple[Finding, ...]:
    """Return the findings of a document, accepted or refused."""
    try:
        return read_card(document).findings
    except Refused as refusal:
        return refusal.findings


def told(document: JsonObject) -> Told:
    """The same, to compare with what is expected."""
    return {(finding.level.value, finding.rule.value, str(finding.where)) for finding in findings(document)}


def reads(document: JsonObject) -> bool:
    """Whether nothing that was found is an error."""
    return all(finding.level is not Level.ERROR for finding in findings(document))


def places(value: Any, place: Place = ()) -> Iterator[Place]:
    """Every place in the document except the whole."""
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for segment, inner in children:
        yield (*place, segment)
        yield from places(inner, (*place, segment))


def _example(name: str) -> JsonObject:
    document: JsonObject = json.loads((ROOT / "examples" / name).read_text(encoding="utf-8"))
    return document
