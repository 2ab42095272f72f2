"""``sdcard policy``: check and explain a policy; print its JSON Schema."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer
from rich.text import Text

from sdcard.cli.options import (
    AsJson,
    Now,
    PolicyFile,
    ProfileName,
    complete_contexts,
    find_profile,
    parse_now,
    read_policy,
)
from sdcard.cli.output import cell, console, describe_findings, print_json, print_lines, read_bytes, show_instant, table
from sdcard.disclosable import Treatment
from sdcard.errors import Finding, Level, Misuse, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.paths import ClaimPath
from sdcard.policy.context import Partner
from sdcard.rules import Rule

if TYPE_CHECKING:
    from sdcard.policy.explain import ExplainedPart

app = typer.Typer(no_args_is_help=True)

_PADDING = 3
_MARKS = {Treatment.PLAIN: "●", Treatment.SELECTIVE: "○", Treatment.WITHHELD: "·"}
_ASCII_BRANCHES = str.maketrans({"├": "|", "└": "`", "│": "|"})
_ASCII_MARKS = {Treatment.PLAIN: "P", Treatment.SELECTIVE: "s", Treatment.WITHHELD: "."}
_STYLES = {Treatment.PLAIN: "bold", Treatment.SELECTIVE: "green", Treatment.WITHHELD: "dim"}
_LEGEND = {
    Treatment.PLAIN: "seen with the part around it; at the top always: it cannot be hidden",
    Treatment.SELECTIVE: "seen when its Disclosure is presented",
    Treatment.WITHHELD: "not in the SD-Card, not even as a digest",
}


@app.callback()
def group() -> None:
    """Check disclosure policies, and see what they would show of a card."""


@app.command("check")
def check(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="The policy, TOML or JSON; - is standard input.")],
    now: Now = None,
    as_json: AsJson = False,
) -> None:
    """Say everything that is wrong with a policy.

    Exit status 0: it can be used; 1: it cannot; 2: misuse.

    Example: sdcard policy check policy.toml
    """
    instant = parse_now(now)
    try:
        policy = read_policy(file)
    except Refused as refusal:
        _report(file, (), refusal.findings, as_json)
        raise typer.Exit(1) from None
    findings = [
        _not_in_force(number, one.not_before, instant)
        for number, one in enumerate(policy.agreements)
        if not one.is_in_force(instant)
    ]
    _report(file, tuple(policy.contexts), findings, as_json)


@app.command("explain")
def explain(
    card: Annotated[str, typer.Argument(metavar="CARD|-", help="The agent card; - is standard input.")],
    policy: PolicyFile = None,
    context: Annotated[
        list[str] | None, typer.Option(autocompletion=complete_contexts, help="Only this context (repeatable).")
    ] = None,
    partner: Annotated[str | None, typer.Option(help="For whom `federation` is.")] = None,
    now: Now = None,
    profile: ProfileName = "sd-card",
    as_json: AsJson = False,
) -> None:
    """Draw a card as a tree, with what each context shows of it.

    Example: sdcard policy explain agent-card.json
    """
    from sdcard.cards.detect import parse_card_file
    from sdcard.policy.explain import explain as explain_card

    if card == policy == "-":
        raise Misuse("standard input can be read once")
    whom = None if partner is None else Partner(partner, parse_now(now))
    rules = read_policy(policy)
    explanation = explain_card(
        parse_card_file(read_bytes(card, Part.CARD)), rules, context or None, find_profile(profile), whom
    )
    rows = [row for part in explanation.parts for row in part.walk()]
    agreement = rules.agreement("federation", whom, Where(Part.POLICY))
    if as_json:
        parts = [
            {
                "place": str(ClaimPath(row.place)),
                "treatments": dict(zip(explanation.contexts, map(str, row.treatments), strict=True)),
            }
            for row in rows
        ]
        decisive = {"partner": agreement.partner, "expires": agreement.expires} if agreement else None
        print_json(
            {
                "card_format": explanation.card_format,
                "contexts": list(explanation.contexts),
                "agreement": decisive,
                "parts": parts,
            }
        )
        return
    _draw(explanation.card_format, explanation.contexts, list(_tree(explanation.parts)))
    if partner is not None:
        until = (
            f"goes by the agreement that ends {show_instant(agreement.expires)}" if agreement else "has no agreement"
        )
        console().print(cell(f"The context federation, for {partner}, {until}."))


@app.command("schema")
def schema() -> None:
    """Print the JSON Schema of a policy document.

    Example: sdcard policy schema > policy.schema.json
    """
    from sdcard.policy.document import SCHEMA

    print_json(SCHEMA)


def _not_in_force(number: int, not_before: int | None, now: Instant) -> Finding:
    hint = "It begins later." if not_before is not None and now < not_before else "It has ended."
    return Finding(Rule.AGREEMENT_NONE, Where(Part.POLICY, ("agreements", number)), hint, Level.WARNING)


def _report(file: str, contexts: Sequence[str], findings: Sequence[Finding], as_json: bool) -> None:
    valid = all(finding.level is not Level.ERROR for finding in findings)
    if as_json:
        print_json({"file": file, "valid": valid, "contexts": list(contexts), "findings": describe_findings(findings)})
    else:
        verdict = f"offers {', '.join(contexts)}" if valid else "cannot be used"
        print_lines(f"{file}: {verdict}", *map(str, findings))


_Line: TypeAlias = "tuple[str, ExplainedPart]"


def _tree(parts: Sequence["ExplainedPart"], before: str = "", top: bool = True) -> Iterator[_Line]:
    """Return each part on its own line, with strokes that lead to it."""
    for part in parts:
        last = part is parts[-1]
        branch, beneath = ("", "") if top else ("└ ", "  ") if last else ("├ ", "│ ")
        yield f"{before}{branch}{part.place[-1]}", part
        yield from _tree(part.parts, before + beneath, top=False)


def _draw(card_format: str, contexts: Sequence[str], lines: Sequence[_Line]) -> None:
    """Draw the tree. Number the contexts if their names leave too little room."""
    out = console()
    drawn = out.encoding.startswith("utf")
    marks = _MARKS if drawn else _ASCII_MARKS
    widest = max((len(text) for text, _ in lines), default=0)
    room = out.width - sum(len(name) + _PADDING for name in contexts) - _PADDING - 1
    names = contexts if room >= widest else [str(number) for number, _ in enumerate(contexts, 1)]
    rows = [
        (cell(text if drawn else text.translate(_ASCII_BRANCHES)), *(cell(marks[one], _STYLES[one]) for one in treated))
        for text, treated in ((text, part.treatments) for text, part in lines)
    ]
    out.print(table(card_format, ("part of the card", *names), rows))
    if names is not contexts:
        for number, name in zip(names, contexts, strict=True):
            out.print(cell(f"{number}  {name}"))
    for treatment, meaning in _LEGEND.items():
        out.print(Text.assemble((marks[treatment], _STYLES[treatment]), f" {treatment}: {meaning}"))
