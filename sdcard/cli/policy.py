"""``sdcard policy`` and ``sdcard linkability``."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer
from rich.text import Text

from sdcard.advice import ADVICE
from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.options import (
    AsJson,
    Now,
    PolicyFile,
    ProfileName,
    complete_contexts,
    find_profile,
    parse_instant,
    parse_now,
    read_policy,
)
from sdcard.cli.output import (
    cell,
    console,
    describe_findings,
    print_json,
    print_lines,
    progress,
    read_bytes,
    read_sd_jwt,
    show_instant,
    table,
)
from sdcard.disclosable import Treatment
from sdcard.errors import Finding, Level, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.linkability.comparison import report_linkability
from sdcard.linkability.report import Kind, Link, LinkabilityReport, Pair, Relation, Verdict
from sdcard.paths import ClaimPath
from sdcard.policy.context import FEDERATION, Partner
from sdcard.rules import Rule

if TYPE_CHECKING:
    from sdcard.policy.plan import ExplainedPart


# -- ``sdcard policy``: check and explain a policy; print its JSON Schema ---------------------------------------------

app = typer.Typer(no_args_is_help=True)

NO_AGREEMENT = "has no agreement: it shows the same as public"
_PADDING = 3
MARKS = {Treatment.PLAIN: "●", Treatment.SELECTIVE: "◐", Treatment.WITHHELD: "—"}
"""Signs of the inspector too. Its small dot is a plain part within a selective one."""
_ASCII_BRANCHES = str.maketrans({"├": "|", "└": "`", "│": "|"})
_ASCII_MARKS = {Treatment.PLAIN: "P", Treatment.SELECTIVE: "s", Treatment.WITHHELD: "."}
_STYLES = {Treatment.PLAIN: "bold", Treatment.SELECTIVE: "green", Treatment.WITHHELD: "dim"}
_LEGEND = {
    Treatment.PLAIN: "always shown with the part around it; at the top of the card, always shown",
    Treatment.SELECTIVE: "shown if the agent presents its Disclosure",
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
    """List all mistakes in a policy.

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
    partner: Annotated[
        str | None, typer.Option(help="For the context federation: show what this partner may see.")
    ] = None,
    now: Now = None,
    profile: ProfileName = "sd-card",
    as_json: AsJson = False,
) -> None:
    """Draw a card as a tree; a column for each context marks the parts that it shows.

    Example: sdcard policy explain agent-card.json
    """
    from sdcard.cards.detect import parse_card_file
    from sdcard.policy.plan import explain as explain_card

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
    if FEDERATION.name in explanation.contexts:
        until = f"goes by the agreement that ends {show_instant(agreement.expires)}" if agreement else NO_AGREEMENT
        named = f"for {partner}" if partner is not None else "without --partner"
        console().print(cell(f"The context federation, {named}, {until}."))


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
        print_lines(f"{file}: {verdict}", *map(str, findings), *(() if valid else (ADVICE[findings[0].rule],)))


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
    marks = MARKS if drawn else _ASCII_MARKS
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


# -- ``sdcard linkability``: values that SD-Cards or presentations share ----------------------------------------------

_PLACES = 3
_MEMBERS = 20
"""Places of one kind, and members of the card, that the table shows."""

_COLOURS = {Verdict.AVOIDABLE: "yellow", Verdict.BY_CONTENT: "", Verdict.UNAVOIDABLE: "dim"}


def linkability(
    first: Annotated[str, typer.Argument(metavar="A|-", help="An SD-Card or presentation; - is standard input.")],
    second: Annotated[str, typer.Argument(metavar="B|-", help="Another one.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="MORE|-", help="The rest of a batch.")] = None,
    received: Annotated[
        str | None, typer.Option(help="When the batch came from its Issuer, if known: Unix seconds or RFC 3339.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which values SD-Cards or presentations share."""
    sources = [first, second, *(more or ())]
    moment = None if received is None else parse_instant(received, "--received")
    texts: list[str] = []
    with progress("read", len(sources)) as tell:
        for source in sources:
            texts.append(_read(source))
            tell(len(texts))
    with progress(f"comparing {len(texts)} with each other", None):
        report = report_linkability(texts, received=moment)
    if as_json:
        print_json(_document(sources, report))
    else:
        _show(sources, report)
    if report.avoidable:
        raise typer.Exit(EXIT_REFUSED)


def _read(source: str) -> str:
    """Read and check one text, so that a refusal can name its file."""
    try:
        text = read_sd_jwt(source)
        report_linkability([text])
    except Refused as refusal:
        findings = [replace(f, hint=f"{source}: {f.hint or f.rule.sentence}") for f in refusal.findings]
        raise Refused.because(findings) from None
    return text


def _document(sources: Sequence[str], report: LinkabilityReport) -> dict[str, Any]:
    return {
        "verified": False,
        "cards": list(sources),
        "avoidable": list(report.avoidable),
        "pairs": [
            {
                "cards": [pair.one, pair.other],
                "avoidable": [what for what in report.avoidable if what in pair.avoidable],
                "links": [
                    {
                        "what": link.what,
                        "how": link.how,
                        "verdict": link.verdict,
                        "where": [[str(one), str(other)] for one, other in link.places],
                    }
                    for link in pair.links
                ],
            }
            for pair in report.pairs
        ],
        "patterns": [{"what": pattern.what, "cards": list(pattern.cards)} for pattern in report.patterns],
    }


def _show(sources: Sequence[str], report: LinkabilityReport) -> None:
    out = console()
    if len(report.pairs) == 1:
        out.print(table("What both share", ("what", "where", "verdict"), list(map(_row, report.pairs[0].links))))
    else:
        rows = [_summary(sources, report, pair) for pair in report.pairs]
        out.print(table("What each two share", ("cards", "avoidable", "by content", "unavoidable"), rows))
    for pattern in report.patterns:
        out.print(cell(f"All together: {pattern.what}, in {len(pattern.cards)} of them.", "yellow"))
        if pattern.what is Kind.STATUS_LISTS_OF_ONE:
            out.print("With 16 lists that all cards share, three cards show this in 82 of 100 batches.", style="dim")
    if report.avoidable:
        out.print(cell(f"Avoidable: {', '.join(report.avoidable)}.", "yellow"))
    else:
        out.print("Nothing avoidable links them.")
    out.print("Nothing was verified, and only the texts were compared.", style="dim")


def _row(link: Link) -> tuple[Text, Text, Text]:
    style = _COLOURS[link.verdict]
    what = link.what if link.how is Relation.SAME else f"{link.what} ({link.how})"
    if link.what is Kind.MEMBER:  # nobody looks for the parts of a member before its name
        places = list(dict.fromkeys(f"card/{one.path[0]}" for one, _ in link.places))
        most = _MEMBERS
    else:
        places, most = [_place(one, other) for one, other in link.places], _PLACES
    if len(places) > most:
        places[most:] = [f"and {len(places) - most} more"]
    return cell(what, style), Text("\n").join(cell(place, style) for place in places), cell(link.verdict, style)


def _place(one: Where, other: Where) -> str:
    return str(one) if one == other else f"{one} and {other}"


def _summary(sources: Sequence[str], report: LinkabilityReport, pair: Pair) -> tuple[Text, Text, Text, Text]:
    def of(verdict: Verdict) -> str:
        return ", ".join(link.what for link in pair.links if link.verdict is verdict)

    cards = Text("\n").join([cell(sources[pair.one]), cell(sources[pair.other])])
    avoidable = ", ".join(what for what in report.avoidable if what in pair.avoidable)
    style = _COLOURS[Verdict.AVOIDABLE]
    return (
        cards,
        cell(avoidable or "nothing", style if avoidable else ""),
        cell(of(Verdict.BY_CONTENT)),
        cell(of(Verdict.UNAVOIDABLE), "dim"),
    )
