"""A tester that plays attacker over HTTP against one deployment.

A check sends requests and says what is wrong with the responses. Each check stands for a rule: its finding means that
the deployment does not enforce the rule. Client, clock and pause are arguments, so this package is pure.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from sdcard.encoding import JsonObject, parse_json_object
from sdcard.errors import Part, Refused, Where
from sdcard.instants import Instant
from sdcard.rules import Rule

MOST_PER_SECOND = 5
MOST_BYTES = 2_097_152
"""Of a response."""
_WHERE = Where(Part.FETCHED)

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Request:
    """A request to the deployment. Headers may repeat."""

    method: str
    url: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class Response:
    """A response: status, headers with names in lower case, and body."""

    status: int
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)

    def values(self, name: str) -> list[str]:
        """Return every value of a header."""
        return [value for given, value in self.headers if given == name.lower()]

    def value(self, name: str) -> str:
        """Return the values of a header, joined with commas."""
        return ", ".join(self.values(name))

    @property
    def media_type(self) -> str:
        """The media type, without parameters."""
        return self.value("content-type").partition(";")[0].strip().lower()

    def document(self) -> JsonObject:
        """Parse the body as a JSON object.

        Raises:
            Refused: ``json.*`` or ``encoding.*``.
        """
        return parse_json_object(self.body, _WHERE, 32)


class Client(Protocol):
    """Sends requests to permitted addresses."""

    def send(self, request: Request) -> Response:
        """Return the response; a redirect is not followed.

        Raises:
            Refused: ``fetch.address``, ``fetch.failed`` or ``limit.bytes``.
        """


class Paced:
    """A client that sends at most ``MOST_PER_SECOND`` requests a second.

    Args:
        client: sends the requests.
        clock: seconds that only rise.
        pause: waits for so many seconds.
    """

    def __init__(self, client: Client, clock: Callable[[], float], pause: Callable[[float], object]) -> None:
        self._client, self._clock, self._pause = client, clock, pause
        self._next: float | None = None
        self.sent = 0

    def send(self, request: Request) -> Response:
        """Wait for the next slot, then send."""
        tick = self._clock()
        if self._next is not None and tick < self._next:
            self._pause(self._next - tick)
            tick = max(self._clock(), self._next)
        self._next = tick + 1 / MOST_PER_SECOND
        self.sent += 1
        return self._client.send(request)


class Outcome(StrEnum):
    """Result of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


class Skipped(Exception):
    """A check cannot run here; the text says why."""


@dataclass(frozen=True, slots=True)
class Check(Generic[S]):
    """A check of one rule.

    Attributes:
        name: unique in its plan.
        about: what is sent or read.
        run: returns the fault as a sentence; an empty text without one.
    """

    name: str
    rule: Rule
    about: str
    run: Callable[[S], str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Result:
    """Outcome of a check, and its reason."""

    name: str
    rule: Rule
    about: str
    outcome: Outcome
    reason: str


def run_checks(checks: Sequence[Check[S]], subject: S) -> Iterator[Result]:
    """Run the checks in order. A response that cannot be read fails its check."""
    for check in checks:
        outcome, reason = Outcome.PASSED, ""
        try:
            reason = check.run(subject)
            outcome = Outcome.FAILED if reason else Outcome.PASSED
        except Skipped as skipped:
            outcome, reason = Outcome.SKIPPED, str(skipped)
        except Refused as refusal:
            outcome = Outcome.FAILED
            reason = f"{refusal.rule} at {refusal.where}: {refusal.rule.sentence} {refusal.findings[0].hint}".rstrip()
        yield Result(check.name, check.rule, check.about, outcome, reason)


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A deployment that is tested.

    Attributes:
        instant: returns the present instant.
        token: a test token, which permits changes of state; None without one.
    """

    url: str
    client: Client
    instant: Callable[[], Instant]
    token: str | None = field(default=None, repr=False)

    def send(self, method: str, url: str = "", *headers: tuple[str, str], body: bytes = b"") -> Response:
        """Send a request; an empty URL is the target's."""
        return self.client.send(Request(method, url or self.url, headers, body))


def problem_rule(response: Response) -> str:
    """Return the rule that a problem document names, for reasons of findings."""
    try:
        rule = response.document().get("rule")
    except Refused:
        return ""
    return rule if isinstance(rule, str) and rule in _RULES else ""


_RULES = {str(rule) for rule in Rule}
