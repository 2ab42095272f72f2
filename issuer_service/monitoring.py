"""Logs, metrics and readiness."""

import asyncio
import logging
import math
import sys
import traceback
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import IO, TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import structlog
from prometheus_client import (
    CONTENT_TYPE_PLAIN_0_0_4,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
    make_wsgi_app,
    start_http_server,
)
from structlog.typing import EventDict, Processor, WrappedLogger

from issuer_service.audit.repository import check_commit
from issuer_service.db.migrations import find_revision, head
from issuer_service.keys.repository import KeyUse
from issuer_service.keys.ring import KeysInUse
from sdcard.acceleration import KERNEL
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.instants import Instant, Lifetime
from sdcard.io.database import Database
from sdcard.io.database_errors import Reason, StoreUnavailable
from sdcard.jose.jws import Signer
from sdcard.rules import Rule

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment


# -- Logs: one line an event, as JSON or for a person, on standard error ----------------------------------------------
# Clients choose texts; JSON escapes their line breaks and control characters. The message of an exception may quote
# what was sent, or a secret, so an exception is logged by its type and the places it passed. Of what other libraries
# log, the first line is kept, and nothing below a warning.

LogFormat: TypeAlias = Literal["auto", "json", "console"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

_OURS = ("issuer_service", "sdcard")
_MOST_CHARACTERS = 2_000
_MOST_FRAMES = 8


@contextmanager
def logging_to(stream: IO[str] | None, form: LogFormat, level: LogLevel) -> Iterator[None]:
    """Log to this stream during the block; None is the present standard error.

    ``auto`` is ``console`` on a terminal, else ``json``.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    is_for_people = form == "console" or (form == "auto" and handler.stream.isatty())
    handler.setFormatter(formatter("console" if is_for_people else "json"))
    root = logging.getLogger()
    before = {name: logging.getLogger(name).level for name in (*_OURS, "")}
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    for name in _OURS:
        logging.getLogger(name).setLevel(level.upper())
    try:
        yield
    finally:
        root.removeHandler(handler)
        for name, earlier in before.items():
            logging.getLogger(name).setLevel(earlier)


def formatter(form: LogFormat) -> logging.Formatter:
    """Renders a record of ``logging``, with the members of ``extra``, on one line."""
    renderer: Processor = _render_for_people if form == "console" else structlog.processors.JSONRenderer()
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.stdlib.ExtraAdder(),
            _shorten,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        pass_foreign_args=False,
    )


def places(error: BaseException) -> str:
    """List the frames of an exception, innermost first: functions and lines, no value."""
    frames = traceback.extract_tb(error.__traceback__)
    return " < ".join(f"{frame.name}:{frame.lineno}" for frame in reversed(frames[-_MOST_FRAMES:]))


def _shorten(_: WrappedLogger, __: str, event: EventDict) -> EventDict:
    record: logging.LogRecord = event["_record"]
    text = str(event["event"])
    if not record.name.startswith(_OURS):
        text = text.partition("\n")[0]
    event["event"] = text[:_MOST_CHARACTERS]
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:
        event["error"], event["places"] = type(error).__name__, places(error)
    record.exc_info = record.exc_text = record.stack_info = None
    for name in ("exc_info", "stack_info", "message", "asctime", "color_message"):  # texts that others made of it
        event.pop(name, None)
    return event


def _render_for_people(_: WrappedLogger, __: str, event: EventDict) -> str:
    """Format a line as ``time level event name=value …`` for people.

    Everything that is not printable is escaped.
    """
    head = " ".join(str(event.pop(name, "")) for name in ("timestamp", "level", "event"))
    tail = "".join(f" {name}={value}" for name, value in event.items() if value is not None)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in head + tail)


# -- Prometheus metrics in a collection of their own, on a loopback port ----------------------------------------------
# Labels are bounded: routes and contexts of the code and the policy, a few methods, classes of status, ids of rules.
# No label holds what a client chose. The names of contexts are the operator's, and shown to all who may read the
# metrics.

LOOPBACK: Final = "127.0.0.1"

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Metrics of the registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "sdcard_requests", "Answers, by class of status.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "sdcard_request_seconds", "Time to an answer.", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self._refusals = Counter("sdcard_refusals", "Refusals, by rule.", ["rule"], registry=self.registry)
        self._cards = Counter(
            "sdcard_cards_issued", "SD-Cards, also for discovery.", ["context"], registry=self.registry
        )
        self._lists = Counter(
            "sdcard_status_lists_published", "Status lists that were signed anew.", registry=self.registry
        )
        self._deleted = Counter(
            "sdcard_rows_deleted", "Rows that were kept long enough, by table.", ["table"], registry=self.registry
        )
        self._checks = Counter("sdcard_agent_checks", "Checks of agents.", ["outcome"], registry=self.registry)
        self._overdue = Gauge(
            "sdcard_agent_check_overdue_seconds", "How late the last checks of agents began.", registry=self.registry
        )
        self._connections = Gauge(
            "sdcard_database_connections", "Connections to the database that are in use.", registry=self.registry
        )
        self._lag: Gauge | None = None
        log = {
            "waiting_leaves": "Leaves of the transparency log that are in no batch yet.",
            "waiting_seconds": "How long the oldest of them has waited.",
            "unpublished_leaves": "Leaves behind the last checkpoint that enough witnesses cosigned.",
        }
        self._log = [Gauge(f"sdcard_log_{name}", help_, registry=self.registry) for name, help_ in log.items()]
        self._unchained = Gauge(
            "sdcard_audit_waiting_records", "Audit records that wait for the chain.", registry=self.registry
        )
        self._unchained_seconds = Gauge(
            "sdcard_audit_waiting_seconds", "How long the oldest of them was seen to wait.", registry=self.registry
        )
        kernel = Gauge("sdcard_native_kernel", "1 if the native kernel is in use.", registry=self.registry)
        kernel.set(KERNEL is not None)
        ProcessCollector(registry=self.registry)
        self._of_request = lru_cache(None)(self._labelled)

    def count_request(self, method: str, route: str, status: int | None, rule: str, seconds: float) -> None:
        """Count a response; without a status, the client had disconnected."""
        counter, histogram = self._of_request(method, route, status and status // 100)
        counter.inc()
        histogram.observe(seconds)
        if rule:
            self._refusals.labels(rule).inc()

    def _labelled(self, method: str, route: str, status: int | None) -> tuple[Counter, Histogram]:
        """Cached, because ``labels`` takes longer than counting."""
        shown = "none" if status is None else f"{status}xx"
        return self._requests.labels(method, route, shown), self._seconds.labels(route)

    def count_card(self, context: str) -> None:
        """An SD-Card was issued."""
        self._cards.labels(context).inc()

    def count_status_list(self) -> None:
        """A status list was published."""
        self._lists.inc()

    def count_deleted(self, table: str, rows: int) -> None:
        """Rows were deleted because they were kept long enough."""
        self._deleted.labels(table).inc(rows)

    def count_check(self, outcome: str) -> None:
        """An agent was checked: ``good``, ``unproved``, ``expired`` or ``failed``."""
        self._checks.labels(outcome).inc()

    def claim_checks(self, begun: int, due: Iterable[int]) -> None:
        """Checks begin that were due at these times."""
        self._overdue.set(max((begun - one for one in due), default=0))

    def show_log(self, waiting: int, seconds: float, unpublished: int) -> None:
        """The transparency log has grown so far."""
        for gauge, value in zip(self._log, (waiting, seconds, unpublished), strict=True):
            gauge.set(value)

    def show_unchained(self, records: int, seconds: float) -> None:
        """Audit records wait for the chain, the oldest for so many seconds."""
        self._unchained.set(records)
        self._unchained_seconds.set(seconds)

    def show_lag(self, age: float | None) -> None:
        """The last heartbeat on the replica is so old; None: nothing tells how old.

        Without a replica there is no such metric.
        """
        self._lag = self._lag or Gauge(
            "sdcard_replica_lag_seconds", "Age of the last heartbeat on the replica.", registry=self.registry
        )
        self._lag.set(math.inf if age is None else age)

    def text(self) -> tuple[bytes, str]:
        """Return all metrics as Prometheus reads them, and the media type."""
        return generate_latest(self.registry), CONTENT_TYPE_PLAIN_0_0_4

    def watch_connections(self, in_use: Callable[[], int]) -> None:
        """Read the number of connections at each scrape."""
        self._connections.set_function(in_use)


@contextmanager
def offered(metrics: Metrics, port: int | None) -> Iterator[None]:
    """Serve the metrics at ``/metrics`` alone for the duration of the block.

    With None, they are not served.

    Raises:
        OSError: when the port is taken.
    """
    if port is None:
        yield
        return
    server, thread = start_http_server(port, LOOPBACK, metrics.registry)
    server.set_app(_with_head(make_wsgi_app(metrics.registry)))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _with_head(app: "WSGIApplication") -> "WSGIApplication":
    """Answer HEAD as GET without the content (RFC 9110 9.3.2), and 404 at other paths."""

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["PATH_INFO"] != "/metrics":
            start_response("404 Not Found", [("Content-Length", "0")])
            return []
        if environ["REQUEST_METHOD"] != "HEAD":
            return app(environ, start_response)
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def begin(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
            begun.append((status, headers))
            return lambda content: None

        size = sum(map(len, app({**environ, "REQUEST_METHOD": "GET"}, begin)))
        status, headers = begun[0]
        start_response(status, [*headers, ("Content-Length", str(size))])
        return []

    return answer


# -- Readiness of the registry: a transaction can be committed, and the keys sign -------------------------------------

_log = logging.getLogger(__name__)

_WHERE = Where(Part.REGISTRY)
_KEPT_SECONDS = 2
"""Least seconds between two checks: any client may ask, and a check costs a transaction and a signature."""
_PATIENCE, _COMMIT_PATIENCE = 5.0, 5.0
"""Seconds for the signer, and for the database."""
_NEEDED = (KeyUse.CARDS, KeyUse.STATUS, KeyUse.AUDIT, KeyUse.TOKENS)
_MESSAGE = b"sdcard readyz"
"""No JWS signs this: its signing input has a dot."""


_Question: TypeAlias = Callable[[], Coroutine[Any, Any, list[Finding]]]


class Keys(Protocol):
    """Knows the registry's keys."""

    async def current(self) -> KeysInUse:
        """Return the keys in use."""


class Readiness:
    """The health check, with its last result cached briefly.

    Concurrent callers share one check. A check that hangs is not started again.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._kept: Lifetime | None = None
        self._findings: tuple[Finding, ...] = ()
        self._asked: dict[str, asyncio.Task[list[Finding]]] = {}

    async def check(self, database: Database, keys: Keys, now: Instant) -> None:
        """Refuse when something does not work.

        Raises:
            Refused: ``registry.not-ready`` at each part that does not. Of the database it says why, by one of the few
                reasons of ``Reason``; the log says more.
        """
        async with self._turn:
            if self._kept is None or not self._kept.covers(now):
                of_database, of_signer = await asyncio.gather(
                    self._ask("database", lambda: _look_at(database), Reason.AWAY, _COMMIT_PATIENCE),
                    self._ask("signer", lambda: _try(keys), "The signer does not answer.", _PATIENCE),
                )
                self._findings = (*of_database, *of_signer)
                self._kept = Lifetime(now, now + _KEPT_SECONDS)
        if self._findings:
            raise Refused.because(self._findings)

    async def _ask(self, part: str, question: _Question, silence: str, patience: float) -> list[Finding]:
        """Check a part. A hanging check is awaited again, and not repeated meanwhile."""
        if part not in self._asked:
            self._asked[part] = asyncio.create_task(question())
        done, _ = await asyncio.wait({self._asked[part]}, timeout=patience)
        if not done:
            return [_finding(part, silence)]
        return self._asked.pop(part).result()


async def _look_at(database: Database) -> list[Finding]:
    try:
        revision = await database.read(find_revision)
    except Refused:
        revision = head()  # what keeps a reader out keeps a transaction out too, which says why
    if revision != head():
        return [_finding("migrations", "The database has another schema than this version needs.")]
    try:
        await check_commit(database)
    except Refused as refusal:
        return [_finding("database", refusal.reason if isinstance(refusal, StoreUnavailable) else Reason.AWAY)]
    return []


async def _try(keys: Keys) -> list[Finding]:
    try:
        known = await keys.current()
        signers = [known.signer(use) for use in _NEEDED]
    except Refused as refusal:
        out_of_reach = refusal.rule is Rule.SIGNER_UNAVAILABLE
        return [_finding("signer", "A key that signs is missing.")] if out_of_reach else []
    good = await asyncio.to_thread(_sign_all, signers)
    return [] if good else [_finding("signer", "The signer cannot sign.")]


def _sign_all(signers: Sequence[Signer]) -> bool:
    try:
        return all(signer.public_key.verifies(_MESSAGE, signer.sign(_MESSAGE)) for signer in signers)
    except Exception as error:  # each kind of signer fails in its own way, and all of them mean no
        _log.error("a signer failed: %s at %s", type(error).__name__, places(error))
        return False


def _finding(part: str, hint: str) -> Finding:
    return Finding(Rule.NOT_READY, _WHERE.within(part), hint)
