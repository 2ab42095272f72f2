"""Compare how SD-JWTs are written: random plans, under the same salts."""

import random
from typing import Any

from sdcard import acceleration
from sdcard.disclosable import DisclosableArray, DisclosableObject, Treatment
from sdcard.encoding import JsonObject, encode_json
from sdcard.errors import Misuse
from sdcard.limits import DEFAULT_LIMITS
from sdcard.profile import RESERVED_AT_TOP
from sdcard.salts import SALT_BYTES
from sdcard.sdjwt.issuance import Job, describe, write_all
from sdcard.sdjwt.model import DigestAlgorithm
from tests.kernel.comparing import same
from tests.kernel.reading import NAMES, VALUES, value

CARD_NAMES = tuple(name for name in NAMES if name not in RESERVED_AT_TOP)


class SeededSalts:
    """Salts that follow from a seed; some sources repeat themselves."""

    def __init__(self, seed: int, repeats: bool) -> None:
        self._drawn, self._repeats = random.Random(seed), repeats

    def draw(self, count: int) -> bytes:
        salts = [self._drawn.randbytes(SALT_BYTES) for _ in range(count)]
        return b"".join(salts[:1] * count if self._repeats else salts)


IN_CARDS = (*VALUES, 1e-9, 1e22, 2**70)
TREATMENTS = (Treatment.PLAIN, Treatment.PLAIN, Treatment.SELECTIVE, Treatment.SELECTIVE, Treatment.WITHHELD)


def treated(drawn: random.Random, depth: int, kind: float) -> Any:
    """A part of a plan."""
    if kind < 0.4:
        return value(drawn, 2) if drawn.random() < 0.8 else drawn.choice(IN_CARDS)
    least = drawn.choice((0, 0, 1, 2, 5))
    inner = [(drawn.choice(TREATMENTS), treated(drawn, depth - 1, drawn.random() * (depth > 0))) for _ in range(4)]
    parts = inner[: drawn.randrange(5)]
    if kind < 0.7:
        return DisclosableArray(tuple(parts), least)
    return DisclosableObject(dict(zip(drawn.sample(CARD_NAMES, len(parts)), parts, strict=True)), least)


def compare_issuing(drawn: random.Random) -> str:
    """Write SD-JWTs of a plan both ways, in one call."""
    root, sizes = treated(drawn, 3, 0.9), drawn.choice(((4, 8, 64), (1, 2), (16,)))

    def padded(count: int) -> int:
        return next((size for size in sizes if size >= count), -(-count // sizes[-1]) * sizes[-1])

    template = acceleration.template(describe(root, padded))
    if template is None:
        return "declined"
    claims: JsonObject = {"iss": "https://a.example", "z": value(drawn, 1)}
    names = {"a": "other"} if drawn.random() < 0.2 else {}
    seed, repeats, count = drawn.getrandbits(64), drawn.random() < 0.05, drawn.choice((1, 1, 2, 3))

    def written(kept: list[acceleration.Template | None]) -> object:
        job: Job = (root, kept, DigestAlgorithm.SHA_256, padded, "e30", names, claims)
        try:
            return write_all([job] * count, SeededSalts(seed, repeats), DEFAULT_LIMITS)
        except Misuse as misuse:
            return str(misuse)

    slow = written([None])
    same("issuing", written([template]), slow)
    salts = b"".join(SeededSalts(seed, repeats).draw(one) for one in template.draws)
    replaced = [(encode_json(name), encode_json(one)) for name, one in names.items()]
    quick = acceleration.write([(template, salts, "e30", replaced, encode_json(claims)[1:])], None)
    return "declined" if quick is None else "accepted"
