"""``sdcard log``: run a witness of transparency logs, or monitor a log."""

import json
import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sdcard.cli.card_files import OPENINGS
from sdcard.cli.keys import Networks, read_egress_policy, read_trust
from sdcard.cli.options import AsJson
from sdcard.cli.output import console, print_json, print_lines, read_document, table
from sdcard.encoding import parse_json_object
from sdcard.errors import Finding, Misuse, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.io.system import SystemClock, write_private_file
from sdcard.lenient import lenient_token
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule
from sdcard.sdjwt.verification import read_unverified
from sdcard.status_list import parse_status
from sdcard.transparency.notes import Checkpoint, KeyType, NoteKey, parse_checkpoint
from sdcard.transparency.openings import LoggedCard, Opening, find_unlogged, parse_openings
from sdcard.transparency.policy import LogPolicy, Witnessed, parse_log_policy
from sdcard.transparency.promises import PROMISE_SUFFIX, find_broken, verify_log_promise
from sdcard.transparency.tree import prove_consistency
from sdcard.transparency.watching import check_growth, check_origin

if TYPE_CHECKING:
    from sdcard.io.transparency import LogClient

app = typer.Typer(no_args_is_help=True)
_LOG = Where(Part.LOG)
_DEPTH = 4
_OPENINGS_DEPTH = 8

Policy: TypeAlias = Annotated[
    str, typer.Option("--policy", help="Keys of logs and witnesses, and the quorum (C2SP tlog-policy).")
]


@app.callback()
def group() -> None:
    """Run a witness of transparency logs, or monitor a log."""


@app.command("witness")
def witness(
    name: Annotated[str, typer.Option(help="The witness's name: a URL without scheme.")],
    key: Annotated[Path, typer.Option(help="Its private JWK, Ed25519, which signs nothing else.")],
    policy: Policy,
    state: Annotated[
        Path, typer.Option("--state-file", help="SQLite file of what it saw. Never restore it from a backup.")
    ],
    create: Annotated[bool, typer.Option("--create", help="Make the state file; for a new key only.")] = False,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 7380,
) -> None:
    """Run a witness, which cosigns checkpoints of logs that only append.

    It prints its key for the policies of others. Put a server with TLS in front of it.

    Example: sdcard log witness --name w1.example --key w.jwk --policy logs.txt --state-file w.sqlite --create
    """
    from sdcard.io.key_files import load_signer
    from sdcard.io.transparency import Witness, WitnessServer, WitnessStore

    signer = load_signer(key)
    own = NoteKey(name, KeyType.COSIGNATURE, signer.public_key)
    logs = parse_log_policy(read_document(policy, Part.LOG)).logs
    if not logs:
        raise Misuse("the policy lists no log")
    store = WitnessStore.create(state, own) if create else WitnessStore(state, own)
    server = WitnessServer((host, port), Witness(name, signer, logs, store, SystemClock()))
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print_lines(f"witness {name} {own}", f"listening at http://{host}:{server.server_address[1]}")
    with server:
        server.serve_forever()


@app.command("monitor")
def monitor(
    url: Annotated[str, typer.Argument(help="The log's address, below which `checkpoint` and `tile` are.")],
    policy: Policy,
    state: Annotated[Path, typer.Option("--state-file", help="File with the last checkpoint; made by the first run.")],
    compare: Annotated[
        list[str] | None,
        typer.Option(help="A checkpoint that others got: a URL, such as a witness's, or a file (repeatable)."),
    ] = None,
    max_age: Annotated[int, typer.Option(min=1, help="Seconds after which a log without new leaves is silent.")] = 3600,
    cards: Annotated[
        Path | None,
        typer.Option(help="An agent's SD-Cards and the openings of its leaves, from `sdcard agents log-proofs`."),
    ] = None,
    trust: Annotated[
        Path | None,
        typer.Option(help="With --cards: a trust document, to check the registry's promises in that folder."),
    ] = None,
    known: Annotated[
        int, typer.Option(min=-1, help="With --cards: leaves up to this number are about what you did.")
    ] = -1,
    network: Networks = None,
    as_json: AsJson = False,
) -> None:
    """Check once that a log only appended since the last run.

    It reports a fork (`log.consistency`), a rollback, two trees of one size (split view) and silence; with --cards also
    SD-Cards without a leaf, and leaves about the agent that are not about its SD-Cards. Exit status 0: none of them; 1:
    at least one. The checkpoints of a finding are added to a file beside the state: .evidence.

    Example: sdcard log monitor https://log.example --policy policy.txt --state-file monitor.json
    """
    from sdcard.io.transparency import LogClient

    egress, now = read_egress_policy(network), SystemClock().now()
    log, watched = LogClient(url, egress), parse_log_policy(read_document(policy, Part.LOG))
    seen = watched.verify(log.checkpoint(), now)
    checking = _Monitoring(log, watched, seen.checkpoint)
    last, since, before = _load(state, seen, now)
    checking.compare("the last run", last)
    for other in compare or ():
        checking.compare(other, _read_other(other, network))
    findings = checking.findings
    if findings:
        _keep(state, checking.evidence)
    else:
        known, findings = _check_cards(cards, log, seen.checkpoint, max(known, before))
        findings += _check_promises(cards, trust, log, seen.checkpoint, now)
        kept = {"checkpoint": str(seen.checkpoint), "since": since, "known": known}
        write_private_file(state, json.dumps(kept).encode())
    if now - since > max_age:
        findings.append(
            Finding(Rule.LOG_SILENT, _LOG.within("checkpoint"), f"It has not grown for {now - since:.0f} s.")
        )
    if findings:
        raise Refused.because(findings)
    _show(seen, last, as_json)


class _Monitoring:
    """Comparisons of a log's checkpoint with those of others."""

    def __init__(self, log: "LogClient", policy: LogPolicy, checkpoint: Checkpoint) -> None:
        self._log, self._policy, self._checkpoint = log, policy, checkpoint
        self.findings: list[Finding] = []
        self.evidence: list[Checkpoint] = []

    def compare(self, source: str, other: Checkpoint) -> None:
        """Check that this checkpoint and another one are of one growing tree."""
        mine, is_last = self._checkpoint, source == "the last run"
        try:
            if other.origin != mine.origin:
                raise Refused(Rule.LOG_UNKNOWN, _LOG.within("checkpoint", "origin"))
            check_origin(other, self._policy.logs)
            older, newer = (other, mine) if is_last or other.size <= mine.size else (mine, other)
            proof = () if newer.size < older.size else self._prove(older.size, newer.size)
            check_growth(older, newer, proof)
        except Refused as refusal:
            self.findings += [
                Finding(one.rule, one.where, f"Compared with {source}. {one.hint}") for one in refusal.findings
            ]
            self.evidence += [other, mine]

    def _prove(self, old: int, new: int) -> tuple[bytes, ...]:
        try:
            return prove_consistency(self._log.nodes(new), old, new)
        except Refused as refusal:
            if refusal.rule is Rule.FETCH_ABSENT and new > self._checkpoint.size:
                raise Refused(
                    Rule.LOG_ROLLED_BACK, _LOG.within("checkpoint"), f"Others have seen {new} leaves."
                ) from None
            raise


def _check_cards(
    folder: Path | None, log: "LogClient", checkpoint: Checkpoint, known: int
) -> tuple[int, list[Finding]]:
    """Compare an agent's SD-Cards and openings with the log.

    Returns: the number of the last leaf that is known now, and the findings.
    """
    if folder is None:
        return known, []
    openings = _read_openings(folder)
    held = [_read_card(file) for file in sorted(folder.glob("*.sd-card"))]
    findings = find_unlogged(held, openings, log.nodes(checkpoint.size), checkpoint, known)
    is_known = not any(one.rule is Rule.LOG_LEAF_UNKNOWN for one in findings)
    return max([known, *(one.index for one in openings)] if is_known else [known]), findings


def _check_promises(
    folder: Path | None, trust: Path | None, log: "LogClient", checkpoint: Checkpoint, now: Instant
) -> list[Finding]:
    """Find the registry's promises that the log has not kept in time."""
    if trust is None:
        return []
    if folder is None:
        raise Misuse("--trust is used with --cards: promises are beside the SD-Cards")
    issuers, findings = read_trust(trust, None, now), list[Finding]()
    openings, nodes = _read_openings(folder), log.nodes(checkpoint.size)
    for file in sorted(folder.glob(f"*{PROMISE_SUFFIX}")):
        promise = verify_log_promise(lenient_token(file.read_text("utf-8")), issuers, now)
        findings += find_broken(promise, file.name, openings, nodes, checkpoint, now)
    return findings


def _read_openings(folder: Path) -> tuple[Opening, ...]:
    if not (folder / OPENINGS).is_file():
        raise Misuse(f"{folder} has no {OPENINGS}: `sdcard agents log-proofs` writes it")
    kept: Any = parse_json_object((folder / OPENINGS).read_bytes(), _LOG.within("openings"), _OPENINGS_DEPTH)
    return parse_openings(kept.get("openings"))


def _read_card(file: Path) -> LoggedCard:
    """Read an SD-Card of one's own; it was verified when it was written."""
    read = read_unverified(lenient_token(file.read_text("utf-8")), DEFAULT_LIMITS)
    status = parse_status(read.jws.payload["status"]) if "status" in read.jws.payload else None
    return LoggedCard(file.name, read.sd_jwt.issuer_jwt, None if status is None else (status.uri, status.index))


def _load(state: Path, seen: Witnessed, now: Instant) -> tuple[Checkpoint, Instant, int]:
    """Return the last run's checkpoint, the age of its size, and the last known leaf."""
    newest = max((at for _, at in seen.witnesses), default=now)
    if not state.is_file():
        return seen.checkpoint, min(newest, now), -1
    kept: dict[str, Any] = parse_json_object(state.read_bytes(), _LOG.within("state"), _DEPTH)
    try:
        last, since, known = parse_checkpoint(kept["checkpoint"]), float(kept["since"]), int(kept.get("known", -1))
    except (KeyError, TypeError, ValueError):
        raise Misuse(f"{state} is not a state of `sdcard log monitor`") from None
    return last, min(since, now) if last.size == seen.checkpoint.size else now, known


def _read_other(source: str, network: list[str] | None) -> Checkpoint:
    from sdcard.io.transparency import fetch_checkpoint

    is_url = source.startswith(("https://", "http://"))
    text = fetch_checkpoint(source, read_egress_policy(network)) if is_url else read_document(source, Part.LOG)
    return parse_checkpoint(text.partition("\n\n")[2] if text.startswith("c2sp.org/tlog-proof@v1\n") else text)


def _keep(state: Path, evidence: list[Checkpoint]) -> None:
    with state.with_name(f"{state.name}.evidence").open("a", encoding="utf-8") as file:
        file.writelines(f"{checkpoint}\n" for checkpoint in evidence)


def _show(seen: Witnessed, last: Checkpoint, as_json: bool) -> None:
    checkpoint = seen.checkpoint
    if as_json:
        grown = checkpoint.size - last.size
        print_json(
            {"origin": checkpoint.origin, "size": checkpoint.size, "grown": grown, "witnesses": dict(seen.witnesses)}
        )
        return
    facts = [
        ("log", checkpoint.origin),
        ("leaves", f"{checkpoint.size}, {checkpoint.size - last.size} of them new"),
        ("cosigned by", ", ".join(name for name, _ in seen.witnesses) or "no witness of the policy"),
    ]
    console().print(table("The log only appended", ("what", "value"), facts))
