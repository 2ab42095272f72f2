"""A process that ends while the kernel works, forks, gets signals, and brings large inputs and odd arguments."""

import os
import resource
import signal
import subprocess
import sys
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import acceleration
from sdcard.encoding import encode_base64url
from sdcard.jose.jws import InMemorySigner
from vectors.actors import HOLDER, ISSUER, NOW, claim, claims, digest, jwt

ENDING = """
import threading, time
from sdcard import acceleration
from vectors.actors import ISSUER
key, message, signature = ISSUER.public_key._native, b"m" * 999, ISSUER.sign(b"m" * 999)

def verify():
    while True:
        assert key.verifies(message, signature)

queue = acceleration.queue()
queue.add_sd_jwt("e30.e30.AAAA", (), 9, 9)
for work in (verify, verify, queue.work, queue.work):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.1)
"""
MEGABYTE = 1 << 20


def check_end() -> None:
    """The interpreter ends while daemon threads work."""
    for _ in range(5):
        ran = subprocess.run([sys.executable, "-c", ENDING], capture_output=True, text=True, timeout=60)
        if (ran.returncode, ran.stderr) != (0, ""):
            raise SystemExit(f"the interpreter ended with {ran.returncode}: {ran.stderr}")


def check_forks() -> None:
    """A child's signatures and salts have random numbers of their own."""
    signer = InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
    template = acceleration.template((["a"], 4, [True], [], b"[1]"))
    assert template is not None

    def drawn() -> bytes:
        """The start of a signature, and of a Disclosure with its salt."""
        written = acceleration.write([(template, None, "e30", [], b"}")], None)
        assert written is not None
        return signer.sign(b"m")[:32] + written[0][1][0][:32].encode()

    drawn_ones = [drawn()]
    for number in range(1, 9):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, drawn())
            os._exit(0)
        os.waitpid(child, 0)
        drawn_ones += [os.read(reader, 64), drawn()]
        if any(len({one[part] for one in drawn_ones}) != 1 + 2 * number for part in (slice(32), slice(32, 64))):
            raise SystemExit("two processes used one random number")


def check_large_inputs() -> None:
    """Texts of 64 MB are read or declined."""
    for payload, accepted in (
        (b'{"a":"' + b"x" * 64 * MEGABYTE + b'"}', True),
        (b"[" * 64 * MEGABYTE, False),
        (b'{"a":[' + b"[]," * 20 * MEGABYTE + b"0]}", False),
    ):
        text = f"e30.{encode_base64url(payload)}.AAAA"
        if (acceleration.read_jws(text, 64) is not None) is not accepted:
            raise SystemExit("a large input is not read as it should be")
        if (acceleration.read_sd_jwt(text, (), 64, 9, None) is not None) is not accepted:
            raise SystemExit("a large SD-JWT is not read as it should be")
        acceleration.read_sd_jwt("e30.e30.AAAA", (encode_base64url(payload), "A" * 64 * MEGABYTE), 64, 9, None)


ODD: tuple[Any, ...] = (None, 5, -1, 2**99, "\ud800", b"a", "", object(), ("a",), [1], float("nan"), 1e999)
STEPS = {"accept": 6, "bound": 9, "select": 1, "present": 8}
FUNCTIONS = {"split": 2, "read_jws": 2, "read_sd_jwt": 5, "read_key": 2, "write": 2, "template": 1}


def check_odd_arguments() -> None:
    """Arguments of another type or range decline."""
    text, disclosures = accepted()
    read = acceleration.read_sd_jwt(text, disclosures, 64, 99, None)
    queue = acceleration.queue()
    if read is None or queue is None:
        raise SystemExit("the kernel declines what is ordinary")
    steps = [(read, STEPS), (queue, {"add_sd_jwt": 4, "sd_jwt": 1}), (HOLDER.public_key._native, {"verifies": 2})]
    called = [(acceleration, FUNCTIONS), *steps]
    for owner, counts in called:
        for name, count in counts.items():
            for one in ODD:
                found = getattr(owner, name)(*[one] * count)
                if found not in (None, False):
                    raise SystemExit(f"{name} accepts {one!r}: {found!r}")
    key = ISSUER.public_key._native
    if key is None:
        raise SystemExit("the kernel declines the Issuer's key")
    good = (key, NOW, NOW, None, None, None)
    if read.accept(*good) is None:
        raise SystemExit("the kernel declines what is ordinary")
    for at, _ in enumerate(good):
        for one in ODD:
            odd: Any = (*good[:at], one, *good[at + 1 :])
            if read.accept(*odd) is not None and not is_good(at, one):
                raise SystemExit(f"accept takes {one!r} as argument {at}")


def is_good(at: int, one: Any) -> bool:
    """Whether this argument of ``accept`` means what it says: early instants, no bounds, or an audience of no use."""
    return (
        (at == 1 and one in (5, -1))
        or (at == 2 and one in (2**99, 1e999))
        or (at == 3 and one in (None, 2**99, 1e999))
        or (at == 4 and (one is None or one == ""))
        or (at == 5 and one is None)
    )


def accepted() -> tuple[str, tuple[str, ...]]:
    """An ordinary SD-JWT."""
    made = claim("a", 1)
    return jwt({**claims(), "_sd": [digest(made)]}), (made,)


def check_many_calls() -> None:
    """100,000 calls of each step in sequence do not take more memory than a few."""
    text, disclosures = accepted()
    for number in range(100_001):
        read = acceleration.read_sd_jwt(text, disclosures, 64, 99, None)
        assert read is not None
        read.members()
        read.select([("a",)])
        acceleration.read_sd_jwt(text, ("AA",), 64, 99, None)
        if number % 10 == 0:
            read.present(disclosures, disclosures, "e30", NOW, "a", "n", None, None)
        if number == 1_000:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > 8_192:
        raise SystemExit(f"{grown:,} kB more after 100,000 calls")


def check_signals() -> None:
    """A signal's handler may raise between two calls, and in a batch."""

    def interrupt(*_: object) -> None:
        raise InterruptedError

    text, disclosures = accepted()
    kept = signal.signal(signal.SIGALRM, interrupt)
    interrupted = 0
    try:
        for number in range(200):
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.0005 + number / 1e6)
                for _ in range(10_000):
                    acceleration.read_sd_jwt(text, disclosures, 64, 99, None)
            except InterruptedError:
                interrupted += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, kept)
    if interrupted != 200:
        raise SystemExit(f"{interrupted} of 200 signals were seen")


def check_process() -> None:
    """Check all of it."""
    check_end()
    check_forks()
    check_many_calls()
    check_signals()
    check_large_inputs()
    check_odd_arguments()
