"""The tester itself: its pace, its outcomes, and what it never does."""

from typing import Any

from sdcard.conformance import Check, Outcome, Paced, Request, Response, Skipped, Target, problem_rule, run_checks
from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule
from tests.world import NOW


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        self.now, self.sent = 100.0, list[float]()

    def read(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds

    def send(self, request: Request) -> Response:
        self.sent.append(self.now)
        return Response(200)


def test_at_most_five_requests_a_second_are_sent() -> None:
    clock = Clock()
    client = Paced(clock, clock.read, clock.pause)
    for _ in range(23):
        client.send(Request("GET", "https://a.example"))

    assert client.sent == len(clock.sent) == 23
    assert max(sum(start <= one < start + 1 for one in clock.sent) for start in clock.sent) <= 5


def test_a_slow_server_is_not_sent_to_faster() -> None:
    clock = Clock()
    client = Paced(clock, clock.read, clock.pause)
    for seconds in (0, 3, 0, 0, 0):
        clock.pause(seconds)
        client.send(Request("GET", "https://a.example"))

    assert all(later - earlier >= 0.199 for earlier, later in zip(clock.sent, clock.sent[1:], strict=False))


def test_a_clock_that_stands_still_lets_no_burst_through() -> None:
    """Every request waits, whatever the clock says after the pause."""
    pauses: list[float] = []
    client = Paced(Clock(), lambda: 100.0, pauses.append)
    for _ in range(4):
        client.send(Request("GET", "https://a.example"))

    assert len(pauses) == 3
    assert min(pauses) >= 0.199


def test_a_check_passes_fails_or_is_skipped_with_a_reason() -> None:
    def refuses(_: Any) -> str:
        raise Refused(Rule.FETCH_FAILED, Where(Part.FETCHED), "It took too long.")

    def skips(_: Any) -> str:
        raise Skipped("it needs a key")

    runs = {"good": lambda _: "", "bad": lambda _: "It is open.", "refuses": refuses, "skips": skips}
    checks: list[Check[None]] = [Check(name, Rule.FETCH_FAILED, name, run) for name, run in runs.items()]

    assert [(one.name, one.outcome, one.reason) for one in run_checks(checks, None)] == [
        ("good", Outcome.PASSED, ""),
        ("bad", Outcome.FAILED, "It is open."),
        (
            "refuses",
            Outcome.FAILED,
            "fetch.failed at fetched: The document at the address could not be fetched. It took too long.",
        ),
        ("skips", Outcome.SKIPPED, "it needs a key"),
    ]


def test_a_response_is_read_whatever_it_is() -> None:
    assert problem_rule(Response(400, (), b'{"rule":"kb.stale"}')) == "kb.stale"
    assert [
        problem_rule(Response(400, (), body)) for body in (b"", b"[]", b'{"rule":1}', b'{"rule":"x"}', b"\xff")
    ] == [""] * 5
    found = Response(200, (("vary", "Accept"), ("vary", "Cookie"), ("content-type", "Text/HTML; charset=x")))
    assert (found.values("VARY"), found.value("Vary"), found.media_type) == (
        ["Accept", "Cookie"],
        "Accept, Cookie",
        "text/html",
    )


def test_a_token_is_in_no_text_of_a_target() -> None:
    target = Target(url="https://a.example", client=Clock(), instant=lambda: NOW, token="secret")

    assert "secret" not in repr(target)
    assert "secret" not in repr(Request("GET", "https://a.example", (("Authorization", "Bearer secret"),), b"secret"))
