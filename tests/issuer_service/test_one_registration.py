"""A law of the registry: one registration runs through few functions in few files."""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from sdcard.acceleration import KERNEL
from tests.issuer_service.desk import Desk, request
from tests.shared import ROOT
from tests.sources import name_of
from tests.world import key

OURS = (ROOT / "sdcard", ROOT / "issuer_service")
FUNCTIONS, FILES = (269 if KERNEL is None else 249), 47
"""The most that are allowed, without the native kernel or with it. Comprehensions and lambdas are no functions."""


class Trace:
    """Functions of the project that are entered while it is on, in all threads that begin after ``tracing``."""

    def __init__(self) -> None:
        self.is_on = False
        self.called = set[tuple[str, str]]()

    def note(self, frame: FrameType, event: str, argument: object) -> None:
        if self.is_on and event == "call":
            name, path = frame.f_code.co_qualname, Path(frame.f_code.co_filename)
            if not name.endswith(">") and any(path.is_relative_to(folder) for folder in OURS):
                self.called.add((name_of(path), name))


@contextmanager
def tracing() -> Iterator[Trace]:
    trace, before = Trace(), (sys.getprofile(), threading.getprofile())
    threading.setprofile(trace.note)
    sys.setprofile(trace.note)
    try:
        yield trace
    finally:
        sys.setprofile(before[0])
        threading.setprofile(before[1])


def test_one_registration_runs_through_few_functions_in_few_files(desk: Desk) -> None:
    """The second of one process: what is loaded, compiled or cached once was done by the first."""
    with tracing() as trace, desk.open() as registry:
        registry.register(request("warm-up", public_key=dict(key(40).public_key.to_jwk())))
        trace.is_on = True
        registry.register(request())
        trace.is_on = False
    called = sorted(trace.called)
    assert ("issuer_service/agents/repository.py", "record_registration") in called, "threads are traced too"
    assert len(called) <= FUNCTIONS, called
    assert len({path for path, _ in called}) <= FILES, called
