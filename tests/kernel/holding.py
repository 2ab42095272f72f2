"""Compare what a Holder does: accept an SD-Card, select paths, and present any choice of Disclosures."""

import random
from typing import Any

from sdcard import Acceptance, Challenge, Misuse, Refused, accept_sd_card, present, select_paths
from sdcard.encoding import decode_json_object
from sdcard.errors import Part, Where
from sdcard.holder import HeldSdCard, Selection
from sdcard.jose.jws import InMemorySigner, Signer
from sdcard.paths import ClaimPath
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding
from tests.kernel.comparing import same, without_kernel
from tests.kernel.reading import NAMES, concealed
from tests.kernel.verifying import EXPECTED
from vectors.actors import AUDIENCE, HOLDER, NOW, claims, jwt

ACCEPTANCE = Acceptance(issuers=EXPECTED.issuers, published_keys=frozenset())
IN_MEMORY = InMemorySigner(HOLDER._key)
TEXTS = ("n", AUDIENCE, "é€😀", 'a "quoted" one', "back\\slash", "a\nb", "\x7f", " ")


def drawn_paths(drawn: random.Random) -> list[ClaimPath]:
    """Paths, of which few name what is there."""
    segments: tuple[Any, ...] = (*NAMES, 0, 1, 2, None)
    lengths = drawn.choices((1, 1, 2, 3), k=drawn.choice((0, 1, 1, 2, 40)))
    return [
        ClaimPath(tuple(drawn.choice(NAMES[:5] if at == 0 else segments) for at in range(length))) for length in lengths
    ]


def selected(held: HeldSdCard, paths: list[ClaimPath]) -> object:
    """The selection, or the refusal."""
    try:
        return select_paths(held, paths).disclosures
    except Refused as refusal:
        return refusal.findings


def presented(held: HeldSdCard, selection: Selection, challenge: Challenge, signer: Signer) -> object:
    """Present, and return all but the signature of the KB-JWT; or the misuse."""
    try:
        made = present(held, selection, challenge, signer, NOW + 0.5)
    except Misuse as misuse:
        return str(misuse)
    assert isinstance(made, SdJwtWithKeyBinding)
    signing_input, _, signature = made.kb_jwt.rpartition(".")
    decoded = decode_json_object(signing_input.partition(".")[2], Where(Part.KB_JWT), 9)
    return made.sd_jwt, signing_input, decoded, len(signature)


def chosen(drawn: random.Random, texts: tuple[str, ...]) -> tuple[str, ...]:
    """Some Disclosures in any order; now and then one twice, or of another SD-JWT."""
    some = drawn.sample(texts, drawn.randrange(len(texts) + 1))
    kind = drawn.random()
    if kind < 0.1 and some:
        some.append(some[0])
    elif kind < 0.2:
        some.append(drawn.choice(("WyJhIl0", "", "é", "\ud800")))
    return tuple(some)


def compare_holding(drawn: random.Random) -> str:
    """Hold an SD-Card both ways."""
    made: list[str] = []
    payload: Any = {**concealed(drawn, 4, made, at_top=True), **claims()}
    text = str(SdJwt(jwt(payload), tuple(made)))

    def accepted() -> HeldSdCard | Refused:
        try:
            return accept_sd_card(text, ACCEPTANCE, HOLDER.public_key, NOW)
        except Refused as refusal:
            return refusal

    held = accepted()
    with without_kernel():
        slow = accepted()
    if isinstance(slow, Refused) or isinstance(held, Refused):
        same("accepting", repr(held), repr(slow))
        return "refused"
    paths, selection = drawn_paths(drawn), Selection(chosen(drawn, slow.sd_jwt.disclosures))
    challenge = Challenge(drawn.choice(TEXTS[:-1]), AUDIENCE, interaction_id=drawn.choice((None, *TEXTS[:-1])))
    signer: Signer = drawn.choice((IN_MEMORY, HOLDER))
    with without_kernel():
        slowly = selected(slow, paths), presented(slow, selection, challenge, signer)
    same("holding", (selected(held, paths), presented(held, selection, challenge, signer)), slowly)
    same("accepting", held.issued, slow.issued)
    of_kernel = held._issued.verified.processed.kernel is not None
    return f"ordinary, {'accepted' if of_kernel else 'declined'}"
