"""Parsing of a registry's responses.

A response of another shape than the documented one is ``Misuse``. Entries of a list are independent: malformed ones are
left out and reported; a list with only malformed entries is ``Misuse``.
"""

import logging
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from sdcard.encoding import JsonObject
from sdcard.errors import Finding, Level, Misuse, Part, Refused, Where
from sdcard.instants import Lifetime, is_instant
from sdcard.io.system import SystemClock, show_instant
from sdcard.rules import Rule

_Entry = TypeVar("_Entry")
_log = logging.getLogger(__name__)
_MOST_PAGES = 10_000
WARNED_SECONDS = 14 * 86_400
"""The end of a token is logged so long before: SD-Cards are renewed every few days."""


@dataclass(frozen=True, slots=True)
class IssuedAnswer:
    """An SD-Card of the response, with its terms.

    ``agreement``: the partner, if an agreement decided.
    """

    context: str
    agreement: str | None
    key_thumbprint: str
    sd_card: str = field(repr=False)
    claims: int
    expires_at: int


@dataclass(frozen=True, slots=True)
class Registered:
    """The response to a registration."""

    agent_id: str
    linkable_by: tuple[str, ...]
    cards: tuple[IssuedAnswer, ...]
    findings: tuple[Finding, ...]
    log_promise: str | None = None


@dataclass(frozen=True, slots=True)
class ListedAgent:
    """An agent in its owner's list.

    ``expires_at``: of its last valid SD-Card, in Unix seconds.
    """

    agent_id: str
    card_format: str
    updated_at: int
    expires_at: int | None


@dataclass(frozen=True, slots=True)
class Asked:
    """The SD-Cards that a renewal of an agent will issue.

    Attributes:
        contexts: each context, with the positions of its keys; None for all keys.
        thumbprints: the agent's keys.
    """

    contexts: tuple[tuple[str, tuple[int, ...] | None], ...]
    thumbprints: tuple[str, ...]

    def cards(self, thumbprints: Sequence[str]) -> list[tuple[str, str]]:
        """Return context and key of each SD-Card that is bound to one of these keys.

        Raises:
            Misuse: for fewer keys than the contexts have.
        """
        every = range(len(thumbprints))
        pairs = [(name, place) for name, places in self.contexts for place in (every if places is None else places)]
        if any(place not in every for _, place in pairs):
            raise Misuse(
                f"contexts of the agent have keys of their own: name all {len(self.thumbprints)}, in their order"
            )
        return [(name, thumbprints[place]) for name, place in pairs]


@dataclass(frozen=True, slots=True)
class StatusesChanged:
    """Number of changed SD-Cards, and when status lists show it, in Unix seconds."""

    changed: int
    public_at: int


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """A discovered agent, and its unverified SD-Card."""

    agent_id: str
    sd_card: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Discovered:
    """A page of discovery results.

    Attributes:
        next_cursor: the cursor of the next page, if any.
        ignored: criteria without an effect.
        left_out: places of malformed entries, such as ``results/3``.
    """

    results: tuple[FoundAgent, ...]
    next_cursor: str | None
    ignored: tuple[str, ...]
    left_out: tuple[str, ...] = ()


@contextmanager
def documented() -> Iterator[None]:
    """Raise ``Misuse`` for a response of another shape."""
    try:
        yield
    except (KeyError, TypeError, ValueError):
        raise Misuse("the registry's response does not have the documented shape") from None


def read_registered(answer: Any) -> Registered:
    """Read the response to a registration or renewal."""
    return Registered(
        agent_id=as_text(answer["agent_id"]),
        linkable_by=tuple(as_text(name) for name in as_list(answer["linkable_by"])),
        cards=tuple(
            IssuedAnswer(
                context=as_text(one["context"]),
                agreement=None if one.get("agreement") is None else as_text(one["agreement"]["partner"]),
                key_thumbprint=as_text(one["key_thumbprint"]),
                sd_card=as_text(one["sd_card"]),
                claims=len(as_list(one["discloses"])),
                expires_at=as_count(one["exp"]),
            )
            for one in as_list(answer["cards"])
        ),
        findings=read_findings(answer["findings"]),
        log_promise=None if answer.get("log_promise") is None else as_text(answer["log_promise"]),
    )


def read_listed(one: Any) -> ListedAgent:
    """Read one agent of its owner's list."""
    return ListedAgent(
        agent_id=as_text(one["agent_id"]),
        card_format=as_text(one["card_format"]),
        updated_at=as_count(one["updated_at"]),
        expires_at=None if one["expires_at"] is None else as_count(one["expires_at"]),
    )


def read_asked(known: Any) -> Asked:
    """Read what is remembered of an agent's registration."""
    thumbprints = tuple(as_text(one) for one in as_list(known["key_thumbprints"]))
    contexts = tuple(
        (as_text(one["context"]), tuple(map(as_count, as_list(one["keys"]))) if "keys" in one else None)
        for one in as_list(known["disclosure_contexts"])
    )
    asked = Asked(contexts, thumbprints)
    asked.cards(thumbprints)
    return asked


def read_discovered(answer: Any, most: int) -> Discovered:
    """Read a page of at most so many discovered agents."""
    cursor = answer["next_cursor"]
    results, left_out = read_entries(answer["results"], _read_found, "results")
    if len(results) + len(left_out) > most:
        raise Misuse("the registry's answer has more agents than were asked for")
    return Discovered(
        results=tuple(results),
        next_cursor=None if cursor is None else as_text(cursor),
        ignored=tuple(as_text(name) for name in as_list(answer["ignored"])),
        left_out=left_out,
    )


def _read_found(one: Any) -> FoundAgent:
    return FoundAgent(as_text(one["agent_id"]), as_text(one["sd_card"]))


def read_entries(value: object, read: Callable[[Any], _Entry], name: str) -> tuple[list[_Entry], tuple[str, ...]]:
    """Read the entries of a list, and the places of malformed ones.

    Raises:
        TypeError: when there is no list, or only malformed entries.
    """
    good: list[_Entry] = []
    left_out: list[str] = []
    for number, one in enumerate(as_list(value)):
        try:
            good.append(read(one))
        except (KeyError, TypeError, ValueError):
            left_out.append(f"{name}/{number}")
    if left_out and not good:
        raise TypeError
    return good, tuple(left_out)


def read_findings(value: object) -> tuple[Finding, ...]:
    """Read findings, and log the places of malformed ones."""
    return tuple(_logged(value, _finding, "findings"))


def _logged(value: object, read: Callable[[Any], _Entry], name: str) -> list[_Entry]:
    good, left_out = read_entries(value, read, name)
    for place in left_out:
        log_left_out(place)
    return good


def log_token_end(agent: JsonObject) -> None:
    """Warn of a token that ends soon, as the registry's answer about an agent says."""
    ends_at, now = agent.get("token_expires_at"), SystemClock().now()
    if isinstance(ends_at, int) and is_instant(ends_at) and not Lifetime(0, ends_at - WARNED_SECONDS).covers(now):
        days = max(0, int(ends_at - now) // 86_400)
        _log.warning("the registry's token ends at %s, in %d days: replace it", show_instant(ends_at), days)


def log_left_out(place: str) -> None:
    """Log the place of a malformed entry."""
    _log.warning("an entry of the registry's response is malformed and ignored: %s", place)


def _finding(one: Any) -> Finding:
    part, *path = as_text(one["where"]).split("/")
    rule = {rule.value: rule for rule in Rule}[as_text(one["rule"])]
    return Finding(rule, Where(Part(part), tuple(path)), as_text(one["hint"]), Level(as_text(one["level"])))


def join_openings(fetch: Callable[[int], JsonObject]) -> JsonObject:
    """Fetch proofs and openings from leaf 0 on, with the openings of all pages."""
    answer, openings = fetch(0), list[Any]()
    page = answer
    with documented():
        for _ in range(_MOST_PAGES):
            openings += as_list(page["openings"])
            if page["next_leaf"] is None:
                return {**answer, "openings": openings, "next_leaf": None}
            page = fetch(as_count(page["next_leaf"]))
    raise Misuse("the registry's openings do not end")


def as_text(value: object) -> str:
    """Expect a string."""
    if not isinstance(value, str):
        raise TypeError
    return value


def as_count(value: object) -> int:
    """Expect a whole number."""
    if type(value) is not int:
        raise TypeError
    return value


def as_list(value: object) -> list[Any]:
    """Expect an array."""
    if not isinstance(value, list):
        raise TypeError
    return value


def check_approved(answer: JsonObject) -> None:
    """Refuse the answer to a registration that waits for a person.

    Raises:
        Refused: ``approval.pending``, with the id of the request for approval.
    """
    if answer.get("state") == "pending":
        with documented():
            review = as_text(answer["review_id"])
        hint = f"Its review is {review}. Nothing was issued: send the same registration again after the approval."
        raise Refused(Rule.APPROVAL_PENDING, Where(Part.REQUEST), hint)


def not_a_registry(status: int) -> Misuse:
    """Say that a response is not one of a registry."""
    hint = "compare host, port and scheme of the address, which is the root of the registry, without a path"
    return Misuse(f"the registry answered {status}: not a response of a registry; {hint}")


def tls_failure(error: BaseException) -> str | None:
    """Describe a TLS error, which a retry does not change; None for other errors."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        hint = "SSL_CERT_FILE names the certificate of another authority that you trust"
        return f"its certificate is not valid: {cause.verify_message}; {hint}"
    hint = "if it serves http, which is for this machine alone, write http:// in its address"
    return None if cause is None else f"TLS failed: {cause.reason}; {hint}"


def refusal_of(problem: JsonObject, status: int) -> Exception:
    """Make the refusal from a registry's problem document."""
    try:
        findings = read_findings(problem["findings"])
    except (KeyError, TypeError, ValueError):
        findings = ()
    return Refused.because(findings) if findings else not_a_registry(status)
