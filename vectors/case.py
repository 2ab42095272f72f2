"""A case of the vectors: a document, and the outcome that was written by hand."""

from dataclasses import dataclass
from typing import Any

from sdcard.encoding import JsonObject, JsonValue
from sdcard.rules import Rule
from vectors.actors import NOW


@dataclass(frozen=True)
class Case:
    """A vector: ``name`` is folder and file.

    ``expect``: a rule, or None for an accepted document.
    """

    name: str
    about: str
    standard: str
    document: str
    expect: Rule | None = None
    where: str = ""
    claims: JsonObject | None = None
    kind: str = "verify"
    key_binding: JsonObject | None = None
    expectations: JsonObject | None = None
    trust: JsonValue = None
    now: int | float = NOW
    needs: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    result: JsonValue = None


def no(name: str, rule: Rule, where: str, about: str, standard: str, document: object, **more: Any) -> Case:
    """A document that must be refused."""
    return Case(name, about, standard, str(document), rule, where, **more)


RULES = {rule.value: rule for rule in Rule}


def found(name: str, about: str, standard: str, document: str, *findings: str, **more: Any) -> Case:
    """A document with these findings, the first of which refuses it if it is an error."""
    first = next((one for one in findings if one.endswith("(error)")), "").removesuffix(" (error)")
    rule, _, where = first.partition(" at ")
    return Case(name, about, standard, document, RULES[rule] if rule else None, where, findings=findings, **more)


def yes(name: str, shown: JsonObject, about: str, standard: str, document: object, **more: Any) -> Case:
    """A document that must be accepted, with exactly these claims."""
    return Case(name, about, standard, str(document), None, claims=shown, **more)
