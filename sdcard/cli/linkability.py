"""``sdcard linkability``: values that SD-Cards or presentations share."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, Any

import typer
from rich.text import Text

from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.options import AsJson, parse_instant
from sdcard.cli.output import cell, console, print_json, progress, read_sd_jwt, table
from sdcard.errors import Misuse, Refused, Where
from sdcard.linkability.comparison import report_linkability
from sdcard.linkability.report import Kind, Link, LinkabilityReport, Pair, Relation, Verdict

_PLACES = 3
_MEMBERS = 20
"""Places of one kind, and members of the card, that the table shows."""

_COLOURS = {Verdict.AVOIDABLE: "yellow", Verdict.BY_CONTENT: "", Verdict.UNAVOIDABLE: "dim"}


def command(
    first: Annotated[str, typer.Argument(metavar="A", help="An SD-Card or presentation; - is standard input.")],
    second: Annotated[str, typer.Argument(metavar="B", help="Another one.")],
    more: Annotated[list[str] | None, typer.Argument(metavar="MORE", help="The rest of a batch.")] = None,
    received: Annotated[
        str | None, typer.Option(help="When the batch came from its Issuer, if known: Unix seconds or RFC 3339.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say which values SD-Cards or presentations share."""
    sources = [first, second, *(more or ())]
    if sources.count("-") > 1:
        raise Misuse("standard input can be read once")
    moment = None if received is None else parse_instant(received, "--received")
    texts = list[str]()
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
