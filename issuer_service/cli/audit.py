"""``sdcard audit``: verify and export the audit chain, and make checkpoints."""

import json
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final, TypeAlias, TypeVar

import typer
from rich.text import Text

from issuer_service.cli.serve import ConfigFile, DatabaseUrl, read_settings, run_as_found
from sdcard.audit_chain import MOST_BYTES, ChainVerifier, Checkpoint, Verdict, verify_checkpoint
from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.options import AsJson, parse_instant
from sdcard.cli.output import (
    check_head,
    console,
    describe_findings,
    print_json,
    print_lines,
    printable,
    progress,
    show_instant,
    show_left_out,
)
from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.instants import is_instant
from sdcard.jose.keys import PublicKey
from sdcard.lenient import lenient_document
from sdcard.rules import Rule

if TYPE_CHECKING:
    from rich.console import Console

    from issuer_service.audit.records import AuditQuery, StateVerdict
    from issuer_service.transparency.records import Growth
    from sdcard.io.database import Database

_T = TypeVar("_T")
MOST_LINE: Final = 64 * 1024 * 1024
"""Bytes of one line of an export; a record names every claim that each context shows."""
_DEPTH = 4

WithState: TypeAlias = Annotated[bool, typer.Option("--state", help="Also compare the tables with the chain.")]
_AGENT = typer.Option("--agent-id", "--agent", help="Only records of this agent: its id, or the `sub` of its SD-Card.")
OfAgent: TypeAlias = Annotated[str | None, _AGENT]
OfInteraction: TypeAlias = Annotated[str | None, typer.Option(help="Only records of this interaction.")]
Since: TypeAlias = Annotated[str | None, typer.Option(help="Only records of this instant or later.")]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def group() -> None:
    """Verify and export a registry's audit chain, and make checkpoints of it."""


@app.command("verify")
def verify(
    checkpoint: Annotated[
        list[Path] | None, typer.Option(help="A file with checkpoints (repeatable); needs --key.")
    ] = None,
    key: Annotated[
        Path | None, typer.Option(help="A JWKS with the keys that sign checkpoints: `sdcard keys published audit`.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="A complete export, instead of the database.")] = None,
    state: WithState = False,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Find records that were changed, removed, inserted, reordered or rolled back.

    Exit status 1: something is wrong.

    Example: sdcard audit verify --checkpoint audit.checkpoints --key audit.jwks
    """
    if bool(checkpoint) is not bool(key):
        raise Misuse("--checkpoint and --key go together: a checkpoint counts when a key that you trust signed it")
    if file and database_url:
        raise Misuse("either --file or --database-url is verified")
    if file and state:
        raise Misuse("--state compares a database; an export has no tables")
    seen = read_checkpoints(checkpoint, load_checkpoint_keys(key)) if checkpoint and key else []
    compared: StateVerdict | None = None
    growth: Growth | None = None
    if file:
        verdict = verify_export(file, seen)
    else:
        verdict, compared, growth = _along_chain(database_url, config, seen, state)
    _show(verdict, compared, growth, seen, as_json)
    if verdict.findings or (compared and compared.findings):
        raise typer.Exit(EXIT_REFUSED)


@app.command("export")
def export(
    agent: OfAgent = None,
    interaction_id: OfInteraction = None,
    since: Since = None,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
) -> None:
    """Print audit records as JSON Lines; only a complete export can be verified.

    Exit status 1: a record cannot be read and is skipped.

    Example: sdcard audit export --agent-id georoute --since 2026-01-31T00:00:00Z
    """
    query, url = _query(agent, interaction_id, since), read_settings(config, database_url=database_url).database_url

    def write(record: JsonObject) -> None:
        sys.stdout.write(json.dumps(record, ensure_ascii=True, separators=(",", ":")) + "\n")

    if _run(lambda database: _take_records(database, query, write), url):
        raise typer.Exit(EXIT_REFUSED)


@app.command("list")
def list_records(
    subject: Annotated[str | None, typer.Option(help="Only records of this subject; '' means operators.")] = None,
    event: Annotated[list[str] | None, typer.Option(help="Only events such as cards.revoked (repeatable).")] = None,
    agent: OfAgent = None,
    interaction_id: OfInteraction = None,
    since: Since = None,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List who did what, a line for each audit record.

    A record names the subject, not its token. Nothing is verified. Exit status 1: a record cannot be read and is
    skipped.

    Example: sdcard audit list --subject team-a --since 2026-01-31T00:00:00Z
    """
    from issuer_service.audit.records import AuditEvent

    if unknown := [one for one in event or () if one not in AuditEvent._value2member_map_]:
        raise Misuse(f"{unknown[0]} is no event; there are {', '.join(AuditEvent)}")
    query, url = _query(agent, interaction_id, since), read_settings(config, database_url=database_url).database_url
    shown = list[JsonObject]()

    def take(record: JsonObject) -> None:
        if (subject is None or record["subject"] == subject) and (not event or record["event"] in event):
            shown.append({name: value for name, value in record.items() if name not in _OF_CHAIN})
            if not as_json:
                print_lines(describe_record(record))

    left_out = _run(lambda database: _take_records(database, query, take), url)
    if as_json:
        print_json({"records": shown})
    elif not shown:
        sys.stderr.write("No audit record matches.\n")
    if left_out:
        raise typer.Exit(EXIT_REFUSED)


_OF_CHAIN = ("state", "previous", "digest")
"""Members of a record that say nothing about who did what."""
_MOST_DETAILS = 160


def describe_record(record: JsonObject) -> str:
    """Describe an audit record in one line."""
    agent, at, disclosed = record["agent_id"], record["at"], record["disclosed"]
    words = [
        f"{record['sequence']}",
        show_instant(at) if is_instant(at) else "unknown time",
        str(record["event"]),
        f"by {record['subject'] or 'an operator'}",
        f"agent:{agent}" if agent else "",
        f"interaction {record['interaction_id']}" if "interaction_id" in record else "",
        " ".join(
            f"{name}={','.join(map(str, values))}" if isinstance(values, list) and values else name
            for name, values in (disclosed.items() if isinstance(disclosed, dict) else ())
        ),
    ]
    line = "  ".join(filter(None, words[:-1]))
    details = words[-1]
    details = details if len(details) <= _MOST_DETAILS else f"{details[: _MOST_DETAILS - 1]}…"
    return f"{line}  {details}".rstrip()


@app.command("checkpoint")
def checkpoint(
    file: Annotated[Path | None, typer.Option(help="The file to use instead of SDCARD_AUDIT_CHECKPOINTS.")] = None,
    database_url: DatabaseUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Sign a checkpoint of the chain, and append it to a file. Example:
    sdcard audit checkpoint --file /mnt/elsewhere/audit.checkpoints"""
    from issuer_service.audit.service import make_checkpoint
    from issuer_service.keys.opening import open_vault
    from issuer_service.keys.repository import KeyUse
    from issuer_service.keys.ring import KeyRing
    from sdcard.io.system import SystemClock

    settings = read_settings(config, database_url=database_url, audit_checkpoints=file)
    issuer, clock = settings.issuer_url, SystemClock()

    async def make(database: "Database") -> int:
        ring = KeyRing(database, await open_vault(settings, database), clock)
        signer = (await ring.current()).signer(KeyUse.AUDIT)
        now, file = clock.now(), settings.audit_checkpoints
        return (await make_checkpoint(database, file, signer, issuer, now)).sequence

    sequence = _run(make, settings.database_url)
    if as_json:
        print_json({"sequence": sequence, "file": str(settings.audit_checkpoints)})
    else:
        added = f"added to {settings.audit_checkpoints}" if sequence else "nothing is recorded yet, so none was made"
        print_lines(f"checkpoint of record {sequence}: {added}")


def _run(work: "Callable[[Database], Awaitable[_T]]", url: str) -> _T:
    """Run ``work`` on a database without repairs; unreadable values are findings."""
    from issuer_service.audit.repository import read_as_found

    async def run(database: "Database") -> _T:
        read_as_found(database)
        return await work(database)

    return run_as_found(run, url)


def _along_chain(
    url: str | None, config: Path | None, checkpoints: Sequence[Checkpoint], state: bool
) -> "tuple[Verdict, StateVerdict | None, Growth | None]":
    """Verify the chain, with progress; also return how far the log is."""
    from issuer_service.audit.repository import read_head
    from issuer_service.audit.service import verify_database, verify_state
    from issuer_service.transparency.repository import read_growth

    async def work(database: "Database") -> "tuple[Verdict, StateVerdict | None, Growth | None]":
        head, compared = await database.read(read_head), None
        with progress("records", head.sequence if head else 0) as tell:
            if state:
                verdict, compared = await verify_state(database, checkpoints, tell)
            else:
                verdict = await verify_database(database, checkpoints, tell)
        return verdict, compared, await database.read(read_growth)

    return _run(work, read_settings(config, database_url=url).database_url)


def _query(agent: str | None, interaction_id: str | None, since: str | None) -> "AuditQuery":
    from issuer_service.audit.records import AuditQuery

    instant = None if since is None else int(parse_instant(since, "--since"))
    return AuditQuery(agent_id=agent and agent.removeprefix("agent:"), interaction_id=interaction_id, since=instant)


async def _take_records(database: "Database", query: "AuditQuery", take: Callable[[JsonObject], None]) -> int:
    """Pass on the readable records; return the number of unreadable ones."""
    from issuer_service.audit.repository import count_waiting
    from issuer_service.audit.service import find_records

    left_out = 0
    async for sequence, record in find_records(database, query):
        if record is None:
            hint = "The record cannot be read; `sdcard audit verify` says more."
            show_left_out([Finding(Rule.AUDIT_RECORD, Where(Part.AUDIT, (sequence,)), hint)])
            left_out += 1
        else:
            take(record)
    if waiting := await database.read(count_waiting):
        sys.stderr.write(f"{waiting} records are left out, because they wait for the chain.\n")
    return left_out


# -- Files: an exported chain, checkpoints, and their keys -------------------------------------------------------------


def verify_export(file: Path, checkpoints: Sequence[Checkpoint]) -> Verdict:
    """Verify a complete export, record by record."""
    verifier = ChainVerifier(checkpoints)
    check_head(file, Part.AUDIT)
    with file.open("rb") as opened, progress("bytes", file.stat().st_size) as tell:
        for line in read_lines(opened, MOST_LINE):
            tell(opened.tell())
            try:
                record = parse_json_object(line, Where(Part.AUDIT), _DEPTH)
            except Refused:
                verifier.add_unreadable()
            else:
                verifier.add(record)
    return verifier.finish()


def read_lines(file: BinaryIO, most: int) -> Iterator[bytes]:
    """Yield the lines that are not empty.

    A line of more than ``most`` bytes is split: its rest is yielded as the next line.
    """
    while line := file.readline(most + 1):
        if line.strip():
            yield lenient_document(line)


def load_checkpoint_keys(file: Path) -> dict[str, PublicKey]:
    """Read a JWKS, by thumbprint; report unusable keys on standard error."""
    from sdcard.io.key_files import load_key_set

    keys = load_key_set(file)
    show_left_out(keys.left_out)
    return {key.thumbprint: key for _, key in keys.pairs()}


def read_checkpoints(files: Sequence[Path], keys: Mapping[str, PublicKey]) -> list[Checkpoint]:
    """Read every checkpoint of every file.

    Refuse a checkpoint that does not verify: it could be the one that proves a change.
    """
    found: list[Checkpoint] = []
    refused: list[Finding] = []
    for file in files:
        check_head(file, Part.CHECKPOINT)
        with file.open("rb") as opened:
            for number, line in enumerate(read_lines(opened, MOST_BYTES), 1):
                try:
                    found.append(verify_checkpoint(line.decode("latin-1").strip(), keys))
                except Refused as refusal:
                    hint = f"{file}, checkpoint {number}. {refusal.findings[0].hint}".rstrip()
                    refused.append(Finding(refusal.rule, refusal.where, hint))
    if refused:
        raise Refused.because(refused[:100])
    if not found:
        raise Misuse("there is no checkpoint in the file")
    return found


# -- Output -----------------------------------------------------------------------------------------------------------


def _show(
    verdict: Verdict,
    compared: "StateVerdict | None",
    growth: "Growth | None",
    checkpoints: Sequence[Checkpoint],
    as_json: bool,
) -> None:
    latest = max(checkpoints, key=lambda one: one.head.sequence, default=None)
    issuers = sorted({one.issuer for one in checkpoints})
    if as_json:
        print_json(
            {
                "refused": bool(verdict.findings or (compared and compared.findings)),
                "records": verdict.records,
                "head": {"sequence": verdict.head.sequence, "digest": verdict.head.digest},
                "checkpoints": len(checkpoints),
                "issuers": issuers,
                "latest_checkpoint_at": latest and latest.at,
                "vouched": verdict.vouched,
                "findings": describe_findings(verdict.findings),
                "unlisted": verdict.unlisted,
                "not_known": list(verdict.not_known),
                "state": compared and _describe_state(compared),
                "log": growth and growth._asdict(),
            }
        )
        return
    out = console()
    _show_findings(out, verdict)
    out.print(Text(f"{verdict.records} records: {'faults found' if verdict.findings else 'unchanged'}", style="bold"))
    if compared:
        _show_findings(out, compared)
        agree = "they differ from the chain" if compared.findings else "they match the chain"
        out.print(Text(f"{compared.rows} rows compared: {agree}", style="bold"))
        if compared.adopted:
            out.print(Text(f"Not known: whether rows were changed before the adoption, record {compared.adopted}."))
    if growth:
        in_log = f"The log has {growth.size} leaves, {growth.published} of them in its published checkpoint"
        since = "" if growth.oldest is None else f", the oldest since {show_instant(growth.oldest)}"
        out.print(Text(f"{in_log}; {growth.waiting} leaves of records and SD-Cards are not in it yet{since}"))
    if latest:
        of = printable(", ".join(issuers))
        out.print(Text(f"{len(checkpoints)} checkpoints of {of}, the latest of {show_instant(latest.at)}"))
    for sentence in verdict.not_known:
        out.print(Text(f"Not known: {sentence}", style="dim"))


def _describe_state(compared: "StateVerdict") -> dict[str, Any]:
    return {
        "rows": compared.rows,
        "adopted_at": compared.adopted or None,
        "findings": describe_findings(compared.findings),
        "unlisted": compared.unlisted,
    }


def _show_findings(out: "Console", verdict: "Verdict | StateVerdict") -> None:
    for finding in verdict.findings:
        place = f" at {printable(str(finding.where))}: "
        out.print(Text.assemble((finding.rule.value, "bold red"), place, finding.hint or finding.rule.sentence))
    if verdict.unlisted:
        out.print(Text(f"and {verdict.unlisted} more"))
