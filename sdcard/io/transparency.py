"""A witness on this machine, and clients of logs and witnesses over HTTP.

- ``WitnessStore`` and ``WitnessServer``: C2SP tlog-witness. The new checkpoint is durable before it is cosigned.
- ``LogClient``: reads a log's checkpoint and tiles (C2SP tlog-tiles).
- ``submit``: has a witness cosign a checkpoint.
"""

import hashlib
import logging
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Clock
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.http import exchange_async, fetch
from sdcard.jose.jws import Signer
from sdcard.rules import Rule
from sdcard.transparency.notes import (
    MOST_BYTES,
    Checkpoint,
    NoteKey,
    NoteSignature,
    check_signature,
    cosign_checkpoint,
    parse_checkpoint,
    parse_number,
)
from sdcard.transparency.tree import HASH_BYTES, TILE_WIDTH, Nodes, Tile, TileNodes
from sdcard.transparency.watching import STATUSES, Submission, check_submission, parse_submission

_log = logging.getLogger(__name__)

_WHERE = Where(Part.LOG, ("checkpoint",))
_TEXT = ("text/plain", "application/octet-stream")
_SIZE = "text/x.tlog.size"
_MOST_REQUEST = 2 * MOST_BYTES
_SECONDS = 15.0
"""For a client that sends or reads nothing."""
_MOST_CONNECTIONS = 64
_MOST_EVIDENCE = 100
"""Kept requests of each log that would prove its misbehaviour."""


# -- The state of a witness -------------------------------------------------------------------------------------------

_SCHEMA = """
    CREATE TABLE witness (vkey TEXT NOT NULL);
    CREATE TABLE latest (origin TEXT PRIMARY KEY, note TEXT NOT NULL, at INTEGER NOT NULL);
    CREATE TABLE evidence (origin TEXT NOT NULL, at INTEGER NOT NULL, rule TEXT NOT NULL, submission TEXT NOT NULL);
"""


class _Latest(NamedTuple):
    """The checkpoint that was cosigned last, and when."""

    checkpoint: Checkpoint
    at: int


class WitnessStore:
    """The latest checkpoint of each log, in an SQLite file.

    Losing the file would let the log roll back, so a missing file is not made anew: ``create`` does that, once for each
    key.

    Raises:
        Misuse: when the file is not there, or belongs to another key.
    """

    def __init__(self, file: Path, key: NoteKey) -> None:
        self._file = file
        if not file.is_file():
            raise Misuse(f"{file} is not there; --create makes it, for a new key only")
        with closing(self._connect()) as connection:
            row = connection.execute("SELECT vkey FROM witness").fetchone()
        if row != (str(key),):
            raise Misuse(f"{file} belongs to another key or name of a witness")

    @classmethod
    def create(cls, file: Path, key: NoteKey) -> "WitnessStore":
        """Make the file of a new witness.

        Raises:
            Misuse: when it exists.
        """
        if file.exists():
            raise Misuse(f"{file} exists; a witness with a new key needs another file")
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(_SCHEMA)
            connection.execute("INSERT INTO witness VALUES (?)", (str(key),))
            connection.commit()
        file.chmod(0o600)
        return cls(file, key)

    def latest(self, origin: str) -> _Latest | None:
        """Return what was cosigned last of a log."""
        with closing(self._connect()) as connection:
            return self._latest(connection, origin)

    def accept(self, submission: Submission, logs: Sequence[NoteKey], now: int) -> int | None:
        """Check a submission and store its checkpoint in one transaction.

        It is durable on return.

        Returns:
            None: it may be cosigned with the time ``now``. A size: what the submission must begin with.

        Raises:
            Refused: as ``check_submission``; ``log.clock`` when the clock is behind the last cosignature.
        """
        origin = submission.checkpoint.origin
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            latest = self._latest(connection, origin)
            try:
                size = check_submission(submission, logs, latest and latest.checkpoint)
            except Refused as refusal:
                self._keep(connection, submission, refusal.rule, now)
                raise
            if size is None:
                if latest is not None and now < latest.at:
                    raise Refused(Rule.LOG_CLOCK, _WHERE)
                values = (origin, str(submission.checkpoint), now)
                connection.execute("INSERT OR REPLACE INTO latest VALUES (?, ?, ?)", values)
                connection.commit()
            return size

    def evidence(self) -> list[tuple[str, int, str, str]]:
        """Return kept requests: origin, time, rule and body."""
        with closing(self._connect()) as connection:
            return list(connection.execute("SELECT origin, at, rule, submission FROM evidence ORDER BY rowid"))

    def _keep(self, connection: sqlite3.Connection, submission: Submission, rule: Rule, now: int) -> None:
        """Keep a signed request that does not continue the log, as evidence."""
        if rule not in (Rule.LOG_SPLIT_VIEW, Rule.LOG_CONSISTENCY, Rule.LOG_ROLLED_BACK):
            return
        origin = submission.checkpoint.origin
        count = connection.execute("SELECT count(*) FROM evidence WHERE origin = ?", (origin,)).fetchone()[0]
        if count < _MOST_EVIDENCE:
            connection.execute("INSERT INTO evidence VALUES (?, ?, ?, ?)", (origin, now, rule.value, str(submission)))
            connection.commit()
        _log.error("the log %s sent a checkpoint that does not continue it: %s", origin, rule)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(f"file:{self._file}?mode=rw", uri=True, timeout=_SECONDS, isolation_level=None)
        connection.execute("PRAGMA synchronous = EXTRA")
        return connection

    @staticmethod
    def _latest(connection: sqlite3.Connection, origin: str) -> _Latest | None:
        row = connection.execute("SELECT note, at FROM latest WHERE origin = ?", (origin,)).fetchone()
        return None if row is None else _Latest(parse_checkpoint(row[0]), row[1])


class Witness:
    """A witness of some logs. It cosigns what continues each log.

    Args:
        name: its name in signature lines, such as a URL without scheme.
        logs: the keys of the logs, each named as its origin.
        store: what it has seen.
    """

    def __init__(self, name: str, signer: Signer, logs: Sequence[NoteKey], store: WitnessStore, clock: Clock) -> None:
        self._name, self._signer, self._logs, self._store, self._clock = name, signer, tuple(logs), store, clock
        self._origins = {hashlib.sha256(key.name.encode()).hexdigest(): key.name for key in self._logs}

    def add(self, body: bytes) -> tuple[int, str, str]:
        """Answer ``add-checkpoint``: status, media type and body."""
        try:
            submission = parse_submission(_decoded(body))
            now = int(self._clock.now())
            size = self._store.accept(submission, self._logs, now)
        except Refused as refusal:
            return STATUSES[refusal.rule], "text/plain; charset=utf-8", f"{refusal.rule}\n"
        if size is not None:
            return 409, _SIZE, f"{size}\n"
        return 200, "text/plain; charset=utf-8", str(self._cosign(submission.checkpoint, now))

    def checkpoint(self, origin_hash: str) -> str | None:
        """Return the latest checkpoint of a log, cosigned; None without one."""
        latest = self._store.latest(self._origins.get(origin_hash, ""))
        if latest is None:
            return None
        checkpoint, own = latest.checkpoint, {key.key_id for key in self._logs if key.name == latest.checkpoint.origin}
        signed = [line for line in checkpoint.signatures if line.name == checkpoint.origin and line.key_id in own]
        return "".join([checkpoint.body, "\n", *map(str, signed), str(self._cosign(checkpoint, latest.at))])

    def _cosign(self, checkpoint: Checkpoint, at: int) -> NoteSignature:
        return cosign_checkpoint(checkpoint, self._name, self._signer, at)


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(Rule.LOG_SUBMISSION, Where(Part.LOG, ("submission",)), "It is not UTF-8.") from None


# -- The HTTP server of a witness -------------------------------------------------------------------------------------


class WitnessServer(ThreadingHTTPServer):
    """Serves ``add-checkpoint`` and the latest checkpoints of a witness."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], witness: Witness) -> None:
        super().__init__(address, _Handler)
        self.witness = witness
        self._room = threading.BoundedSemaphore(_MOST_CONNECTIONS)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread, if there is room for one more."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection, and make room."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: object, client_address: object) -> None:
        """Log a fault without the client's data."""
        _log.warning("a request to the witness failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "sdcard", ""
    timeout = _SECONDS
    server: WitnessServer

    def do_POST(self) -> None:
        length = parse_number(self.headers.get("Content-Length", ""))
        if length is None or self.headers.get("Transfer-Encoding") or length > _MOST_REQUEST:
            self.close_connection = True
            self._answer(411 if length is None else 413, "text/plain", "")
            return
        body = self.rfile.read(length)
        if self.path.rpartition("/")[2] != "add-checkpoint":
            self._answer(404, "text/plain", "")
            return
        self._answer(*self.server.witness.add(body))

    def do_GET(self) -> None:
        before, _, last = self.path.rpartition("/")
        found = self.server.witness.checkpoint(before.rpartition("/")[2]) if last == "checkpoint" else None
        self._answer(404 if found is None else 200, "text/plain; charset=utf-8", found or "")

    def log_message(self, format: str, *arguments: object) -> None:
        _log.info(format, *arguments)

    def _answer(self, status: int, media_type: str, text: str) -> None:
        data = text.encode()
        self.send_response(status)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


# -- Clients ----------------------------------------------------------------------------------------------------------


class LogClient:
    """Reads a log's checkpoint and tiles."""

    def __init__(self, url: str, egress: EgressPolicy) -> None:
        self._url, self._egress = url.rstrip("/"), egress

    def checkpoint(self) -> str:
        """Fetch the checkpoint.

        Raises:
            Refused: ``fetch.*``, ``limit.bytes`` or ``encoding.utf8``.
        """
        return fetch_checkpoint(f"{self._url}/checkpoint", self._egress)

    def nodes(self, size: int) -> Nodes:
        """Return the complete nodes of the tree of this size.

        Tiles are fetched when they are needed.
        """
        return TileNodes(self._tile, size)

    def _tile(self, tile: Tile) -> bytes:
        """Fetch a tile; a full tile is as good as a partial one."""
        most = TILE_WIDTH * HASH_BYTES
        try:
            return fetch(f"{self._url}/{tile.path}", self._egress, _TEXT[1:], most).data
        except Refused as refusal:
            if refusal.rule is not Rule.FETCH_ABSENT or tile.width == TILE_WIDTH:
                raise
        full = fetch(f"{self._url}/{tile._replace(width=TILE_WIDTH).path}", self._egress, _TEXT[1:], most).data
        return full[: tile.width * HASH_BYTES]


def fetch_checkpoint(url: str, egress: EgressPolicy) -> str:
    """Fetch the checkpoint of a log, or the one that a witness of it serves.

    Raises:
        Refused: ``fetch.*``, ``limit.bytes`` or ``encoding.utf8``.
    """
    data = fetch(url, egress, _TEXT, MOST_BYTES).data
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise Refused(Rule.UTF8, _WHERE) from None


async def submit(
    url: str,
    checkpoint: Checkpoint,
    prove: Callable[[int], Awaitable[Sequence[bytes]]],
    key: NoteKey,
    old: int,
    egress: EgressPolicy,
) -> NoteSignature:
    """Have a witness cosign a checkpoint.

    Args:
        prove: makes the consistency proof from a size to the checkpoint.
        key: the witness's key. Lines of other keys are ignored.
        old: the size that the witness is expected to have seen. It says otherwise once.

    Raises:
        Refused: ``log.rolled-back`` when the witness has seen a larger tree; ``log.signature``; ``log.witnesses``
            when it does not cosign; ``fetch.*``.
    """
    old = min(old, checkpoint.size)
    for _ in range(2):
        submission = Submission(old, tuple(await prove(old)), checkpoint)
        answer = await exchange_async(
            "POST",
            f"{url.rstrip('/')}/add-checkpoint",
            egress,
            [("Content-Type", "text/plain; charset=utf-8")],
            str(submission).encode(),
            MOST_BYTES,
        )
        text = answer.body.decode("utf-8", "replace")
        if answer.status == 200:
            return _own_line(text, checkpoint, key)
        seen = parse_number(text.removesuffix("\n"))
        if answer.status != 409 or seen is None:
            raise Refused(Rule.LOG_WITNESSES, _WHERE, f"The witness answered {answer.status}.")
        if seen > checkpoint.size:
            raise Refused(Rule.LOG_ROLLED_BACK, _WHERE, f"The witness has seen {seen} leaves.")
        old = seen
    raise Refused(Rule.LOG_WITNESSES, _WHERE, "Another submission came between.")


def _own_line(text: str, checkpoint: Checkpoint, key: NoteKey) -> NoteSignature:
    """Return the witness's valid line."""
    for line in parse_checkpoint(f"{checkpoint.body}\n{text}").signatures:
        if (line.name, line.key_id) == (key.name, key.key_id):
            check_signature(key, line, checkpoint.body)
            return line
    raise Refused(Rule.LOG_WITNESSES, _WHERE, "The witness did not cosign with its key.")
