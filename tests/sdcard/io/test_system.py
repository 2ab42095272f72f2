"""The machine's clock and random numbers."""

import subprocess
import sys
import time

import pytest

from sdcard.io.system import SystemClock, SystemSalts, sees_other_workers
from tests.shared import ROOT


def test_the_clock_tells_unix_seconds() -> None:
    before = time.time()
    assert before <= SystemClock().now() <= time.time()


def test_salts_are_long_enough_and_never_the_same() -> None:
    drawn = SystemSalts().draw(1_000)
    assert len(drawn) == 16_000
    assert len({drawn[start : start + 16] for start in range(0, 16_000, 16)}) == 1_000
    assert SystemSalts().draw(2) != SystemSalts().draw(2)


# -- workers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "environment", "several"),
    [
        ([], {}, False),
        (["uvicorn", "api:app", "--workers", "4"], {}, True),
        (["uvicorn", "api:app", "--workers=2"], {}, True),
        (["gunicorn", "-w", "3", "api:app"], {}, True),
        (["gunicorn", "-w3", "api:app"], {}, True),
        (["uvicorn", "api:app", "--workers", "1"], {}, False),
        (["uvicorn", "api:app", "--port", "9001", "--limit-max-requests", "4"], {}, False),
        (["serve", "--network", "10", "--new-w", "4", "--workers", "many"], {}, False),
        ([], {"WEB_CONCURRENCY": "2"}, True),
        ([], {"WEB_CONCURRENCY": "1"}, False),
        ([], {"WEB_CONCURRENCY": "auto"}, False),
        ([], {"WEB_CONCURRENCY": "²"}, False),
        ([], {"GUNICORN_CMD_ARGS": "--bind=127.0.0.1 --workers=3"}, True),
    ],
)
def test_a_command_and_an_environment_tell_of_several_workers(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], environment: dict[str, str], several: bool
) -> None:
    for name in ("WEB_CONCURRENCY", "GUNICORN_CMD_ARGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "argv", ["python", *arguments])
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert sees_other_workers() is several


WORKERS = """
import multiprocessing, os, sys, time
sys.path.insert(0, ROOT)
from sdcard.io.system import sees_other_workers

def work(barrier, answers):
    barrier.wait(30)
    answers.put(sees_other_workers())
    barrier.wait(30)

if __name__ == "__main__":
    found = []
    for count in (1, 2):
        context = multiprocessing.get_context("fork")
        barrier, answers = context.Barrier(count), context.Queue()
        workers = [context.Process(target=work, args=(barrier, answers)) for _ in range(count)]
        [one.start() for one in workers]
        found.append([answers.get(timeout=30) for _ in workers])
        [one.join() for one in workers]
    print(found)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of siblings")
def test_workers_see_their_siblings() -> None:
    script = WORKERS.replace("ROOT", repr(str(ROOT)))
    ran = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    assert ran.stdout.strip() == "[[False], [True, True]]"
