"""Compare how keys are read and signatures verified: mutated coordinates, ``r`` and ``s`` at the edges."""

import random
from base64 import urlsafe_b64decode

from sdcard import acceleration
from sdcard.encoding import encode_base64url
from sdcard.errors import Part, Refused, Where
from sdcard.jose.keys import PublicKey, parse_public_jwk
from tests.kernel.comparing import Difference, same, without_kernel
from tests.kernel.reading import spoilt
from vectors.actors import HOLDER, ISSUER

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""Of P-256: ``s`` and ``ORDER - s`` sign the same."""


def compare_key(drawn: random.Random) -> str:
    """Read coordinates both ways."""
    jwk = {**drawn.choice((ISSUER, HOLDER)).public_key.to_jwk()}
    if ordinary := drawn.random() < 0.3:
        pass
    elif drawn.random() < 0.5:
        name = drawn.choice("xy")
        jwk[name] = spoilt(drawn, jwk[name].encode()).decode("utf-8", "replace")
    else:
        jwk["x"], jwk["y"] = (
            encode_base64url(drawn.choice((bytes(32), b"\xff" * 32, drawn.randbytes(32)))) for _ in "xy"
        )
    read = acceleration.read_key(jwk["x"], jwk["y"])
    try:
        with without_kernel():
            key = parse_public_jwk(jwk, Where(Part.KEY))
    except Refused as refusal:
        if read is not None:
            raise Difference(f"the kernel takes the key {jwk}; Python: {refusal}") from None
        return "refused"
    if read is None:
        return "ordinary, declined" if ordinary else "declined"
    same("key", (read.thumbprint, read.point), (key.thumbprint, point_of(key)))
    return "ordinary, accepted" if ordinary else "accepted"


def point_of(key: PublicKey) -> bytes:
    """The uncompressed point."""
    return b"\4" + b"".join(urlsafe_b64decode(key.to_jwk()[name] + "=") for name in "xy")


SIGNED = [(actor, message, actor.sign(message)) for actor in (ISSUER, HOLDER) for message in (b"", b"a", b"m" * 999)]
EDGES = [number.to_bytes(32, "big") for number in (0, 1, ORDER - 1, ORDER, ORDER + 1, 2**256 - 1)]


def compare_signature(drawn: random.Random) -> str:
    """Verify a signature both ways."""
    actor, message, signature = drawn.choice(SIGNED)
    r, s = signature[:32], signature[32:]
    kind = drawn.random()
    if ordinary := kind < 0.2:
        pass
    elif kind < 0.4:
        s = (ORDER - int.from_bytes(s, "big")).to_bytes(32, "big")
    elif kind < 0.6:
        r, s = drawn.choice((r, *EDGES)), drawn.choice((s, *EDGES))
    elif kind < 0.8:
        signature = spoilt(drawn, signature)
        r, s = signature[:32], signature[32:]
    else:
        actor, message, _ = drawn.choice(SIGNED)
    jwk = actor.public_key.to_jwk()
    native = acceleration.read_key(jwk["x"], jwk["y"])
    quick = native is not None and native.verifies(message, r + s)
    with without_kernel():
        slow = parse_public_jwk(jwk, Where(Part.KEY)).verifies(message, r + s)
    if quick and not slow:
        raise Difference(f"the kernel takes {(r + s).hex()} over {message!r}")
    return ("ordinary, " if ordinary else "") + ("accepted" if quick else "declined" if slow else "refused")
