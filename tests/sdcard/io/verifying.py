"""A Verifier's process: verifies copies of one presentation at once, and prints each outcome as a line of its own.

Jobs are JSON on the standard input. It prints ``ready`` when it has reached the database, and begins when it is told.
"""

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from sdcard import Answering, Challenge, Expectations, Refused, Unchecked, Unsolicited, verify_presentation_async
from sdcard.encoding import encode_json
from sdcard.io.sql_replay_cache import SqlChallengeRecord, SqlReplayRecord, open_records
from sdcard.io.system import SystemSalts
from sdcard.trust import parse_trusted_issuers
from tests.external.public_cases import issuers, profile, window

AUDIENCE = "https://verifier.example"


def start(job: dict[str, Any]) -> "subprocess.Popen[str]":
    """A process that is ready for its job."""
    command = [sys.executable, "-m", "tests.sdcard.io.verifying"]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    assert started.stdin is not None
    started.stdin.write(json.dumps(job) + "\n")
    return started


def go(process: "subprocess.Popen[str]") -> None:
    """Have it begin, once it is ready."""
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    process.stdin.write("go\n")


def outcomes(*jobs: dict[str, Any]) -> list[str]:
    """Run all jobs at once, each in a process of its own, and return the outcome of every copy."""
    with ExitStack() as stack:
        processes = [stack.enter_context(start(job)) for job in jobs]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
        lines = [line for process in processes for line in process.communicate(timeout=120)[0].split()]
        assert {process.returncode for process in processes} == {0}
    return lines


def expectations(job: dict[str, Any], seen: SqlReplayRecord, issued: SqlChallengeRecord) -> Expectations:
    """Return the job's expectations: a foreign case, a challenge, or a nonce of the Holder's."""
    unchecked = Unchecked("a test of something else")
    if "case" in job:
        given = job["case"]
        return Expectations(
            issuers=issuers(given),
            profile=profile(given["accepted_typ"]),
            key_binding=Unsolicited(given["expected_aud"], seen, window(given)),
            status=unchecked,
        )
    asked = Answering(Challenge(job["nonce"], AUDIENCE), issued) if "nonce" in job else Unsolicited(AUDIENCE, seen)
    return Expectations(issuers=parse_trusted_issuers(encode_json(job["trust"])), key_binding=asked, status=unchecked)


async def work(job: dict[str, Any], together: threading.Barrier) -> None:
    """Run one thread's part of a job."""
    database = await open_records(job["url"])
    try:
        issued = SqlChallengeRecord(database, AUDIENCE, SystemSalts())
        now = job["now"]
        if "presentation" not in job:
            say((await issued.issue(now)).nonce)
            return
        expected = expectations(job, SqlReplayRecord(database), issued)

        async def copy() -> None:
            try:
                await verify_presentation_async(job["presentation"], expected, now)
                say("accepted")
            except Refused as refusal:
                say(refusal.rule)

        await asyncio.to_thread(together.wait)  # ready
        await asyncio.to_thread(together.wait)  # go
        await asyncio.gather(*(copy() for _ in range(job["tasks"])))
    finally:
        await database.close()


def say(line: str) -> None:
    """At once, and whole."""
    os.write(1, f"{line}\n".encode())


def main(arguments: Sequence[str]) -> None:
    """Do the job of the standard input."""
    job = json.loads(sys.stdin.readline())
    threads = job.get("threads", 1)
    together = threading.Barrier(threads + 1, timeout=60)
    running = [threading.Thread(target=lambda: asyncio.run(work(job, together))) for _ in range(threads)]
    for thread in running:
        thread.start()
    if "presentation" in job:
        together.wait()
        say("ready")
        assert sys.stdin.readline() == "go\n"
        together.wait()
    for thread in running:
        thread.join()


if __name__ == "__main__":
    main(sys.argv)
