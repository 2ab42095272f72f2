"""Logs: one line an event, as JSON or for a person, on standard error.

Clients choose texts; JSON escapes their line breaks and control characters. The message of an exception
may quote what was sent, or a secret, so an exception is logged by its type and the places it passed. Of what other
libraries log, the first line is kept, and nothing below a warning.
"""

import logging
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, Literal, TypeAlias

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

LogFormat: TypeAlias = Literal["json", "console"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

_OURS = ("issuer_service", "sdcard")
_MOST_CHARACTERS = 2_000
_MOST_FRAMES = 8


@contextmanager
def logging_to(stream: IO[str] | None, form: LogFormat, level: LogLevel) -> Iterator[None]:
    """Log there for as long as the block lasts; None is standard error as it is then."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(formatter(form))
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
    """Renders a record of ``logging``, with what its ``extra`` says, on one line."""
    renderer: Processor = structlog.processors.JSONRenderer() if form == "json" else _render_for_people
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
