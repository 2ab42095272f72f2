"""A process that ends while threads run in the kernel, forks, and brings large inputs and odd arguments."""

import os
import subprocess
import sys

from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import acceleration
from sdcard.encoding import encode_base64url
from sdcard.jose.jws import InMemorySigner

ENDING = """
import threading, time
from sdcard import acceleration
from vectors.actors import ISSUER
point, message, signature = ISSUER.public_key._point, b"m" * 999, ISSUER.sign(b"m" * 999)

def verify():
    while True:
        assert acceleration.verifies(point, message, signature)

for work in (verify, verify, acceleration.signature_queue().work):
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
    """A child's signatures have random numbers of their own."""
    signer = InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
    signatures = {signer.sign(b"m")[:32]}
    for number in range(1, 9):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, signer.sign(b"m"))
            os._exit(0)
        os.waitpid(child, 0)
        signatures |= {os.read(reader, 32), signer.sign(b"m")[:32]}
        if len(signatures) != 1 + 2 * number:
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


def check_odd_arguments() -> None:
    """Arguments of another type or range decline."""
    odd = (None, 5, -1, 2**99, "\ud800", b"a", "", object(), ("a",), [1])
    names = ("read_jws", "read_sd_jwt", "read_point", "verifies")
    for name, count in zip(names, (2, 4, 2, 3), strict=True):
        for one in odd:
            if getattr(acceleration, name)(*[one] * count):
                raise SystemExit(f"{name} accepts {one!r}")


def check_process() -> None:
    """Check all of it."""
    check_end()
    check_forks()
    check_large_inputs()
    check_odd_arguments()
