"""Log lines: one an event, nothing in them breaks out of its line, no exception speaks."""

import io
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from issuer_service.monitoring import LogFormat, LogLevel, logging_to

OURS = logging.getLogger("issuer_service.test")
FOREIGN = logging.getLogger("foreign.library")
HOSTILE = 'a\nb\r\u2028\x1b[31m\x00"}{\\'


def logged(act: Callable[[], None], form: LogFormat = "json", level: LogLevel = "info") -> list[str]:
    stream = io.StringIO()
    with logging_to(stream, form, level):
        act()
    return stream.getvalue().splitlines()


def one(act: Callable[[], None]) -> dict[str, Any]:
    (line,) = logged(act)
    document: dict[str, Any] = json.loads(line)
    return document


def test_an_event_is_one_json_object_with_time_level_and_origin() -> None:
    event = one(lambda: OURS.info("request", extra={"status": 201}))

    assert event.pop("timestamp").endswith("Z")
    assert event == {"event": "request", "level": "info", "logger": "issuer_service.test", "status": 201}


@pytest.mark.parametrize("form", ["json", "console"])
def test_hostile_text_stays_on_its_line_and_does_nothing_to_a_terminal(form: LogFormat) -> None:
    lines = logged(lambda: OURS.error("%s", HOSTILE, extra={"client": HOSTILE}), form)

    assert len(lines) == 1
    assert lines[0].isprintable()
    if form == "json":
        assert json.loads(lines[0])["client"] == HOSTILE


def fail() -> None:
    raise ValueError("canary-in-an-exception")


@pytest.mark.parametrize("log", [OURS, FOREIGN])
@pytest.mark.parametrize("form", ["json", "console"])
def test_an_exception_is_its_type_and_its_places(log: logging.Logger, form: LogFormat) -> None:
    def act() -> None:
        try:
            fail()
        except ValueError:
            log.exception("it failed", stack_info=True)

    (line,) = logged(act, form)

    assert "canary" not in line
    assert "ValueError" in line
    assert "fail:" in line


def test_of_a_message_of_another_library_the_first_line_is_kept() -> None:
    assert one(lambda: FOREIGN.error("a task failed\ncanary"))["event"] == "a task failed"
    assert len(one(lambda: FOREIGN.error("x" * 100_000))["event"]) < 3_000


def test_the_level_is_for_our_events_and_others_are_heard_when_they_warn() -> None:
    def act() -> None:
        for log in (OURS, FOREIGN):
            log.debug("debug")
            log.info("info")
            log.warning("warning")

    def heard(level: LogLevel) -> list[tuple[str, str]]:
        return [(event["logger"][:7], event["event"]) for event in map(json.loads, logged(act, level=level))]

    assert heard("info") == [("issuer_", "info"), ("issuer_", "warning"), ("foreign", "warning")]
    assert heard("debug")[0] == ("issuer_", "debug")
    assert heard("error") == [("foreign", "warning")]


def test_logging_is_as_before_when_the_block_is_over() -> None:
    root = logging.getLogger()
    before = (root.level, list(root.handlers), logging.getLogger("issuer_service").level)

    logged(lambda: None, level="debug")

    assert (root.level, root.handlers, logging.getLogger("issuer_service").level) == before
