"""An agent that renews its SD-Cards before they expire.

SD-Cards live for days, and nothing else renews them (SD-Card 7.4.3). ``Agent.step`` does what is due and says when to
come back, so that a thread, a task or a timer can drive it. A renewal that fails leaves the last good cards.
"""

import asyncio
import hashlib
import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from sdcard.acceptance import Acceptance
from sdcard.agent_proof import ShownCard
from sdcard.claim_request import ClaimRequest
from sdcard.encoding import encode_json, frozen
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.holder import HeldSdCard, accept_sd_card, present, select_all, select_paths, with_log_proof
from sdcard.http_auth import ReceivedChallenge, check_challenge
from sdcard.instants import Clock, Instant, Lifetime
from sdcard.io.system import SystemClock, write_private_file
from sdcard.jose.jws import Signer
from sdcard.jose.keys import PublicKey
from sdcard.key_binding import Challenge
from sdcard.lenient import lenient_token
from sdcard.paths import ClaimPath
from sdcard.rules import Rule
from sdcard.transparency.promises import PROMISE_SUFFIX, verify_log_promise
from sdcard.trust import TrustedIssuers, parse_trusted_issuers

if TYPE_CHECKING:
    from sdcard.io.registry_client import Registry

DUE = 0.5
"""Share of its lifetime after which an SD-Card is renewed: 3.5 of 7 days are left to wait for a registry."""
JITTER = 0.1
"""Most of the remaining share that chance takes away, so that agents do not come at once."""
FIRST_RETRY, LAST_RETRY = 60, 3_600
"""Seconds to wait after a failed renewal: doubled each time, and at most the second."""
_LOOK = 60
"""Seconds between two looks at a folder that another process may have renewed."""
KEY_FILE = "agent.jwk"
"""The name of the private key, in the folder of SD-Cards or beside it."""
_log = logging.getLogger(__name__)


class RenewsCards(Protocol):
    """Keeps the SD-Cards of one agent and has new ones made."""

    def load(self) -> Mapping[str, HeldSdCard]:
        """Return the SD-Cards that are kept, by context."""

    def renew(self, is_due: Callable[[Mapping[str, HeldSdCard]], bool]) -> Mapping[str, HeldSdCard]:
        """Have new SD-Cards made and return them.

        Another process may have done it meanwhile; then return those.

        Raises:
            Refused, Misuse, OSError: when that fails.
        """

    def are_withdrawn(self, cards: Mapping[str, HeldSdCard]) -> bool:
        """Whether the registry removed a key that signed one of them."""


def until_renewal(held: HeldSdCard, chance: float = 0.0) -> Lifetime:
    """Return the part of an SD-Card's life in which it is not renewed yet.

    Args:
        held: the SD-Card.
        chance: from 0 to 1; the more, the later.
    """
    issued = held.issued
    lifetime = issued.expires_at - issued.issued_at
    return Lifetime(issued.issued_at, issued.issued_at + lifetime * (DUE + (1 - DUE) * JITTER * chance))


class Agent:
    """The SD-Cards and the key of an agent, renewed in time.

    Args:
        cards: keeps and renews the SD-Cards.
        signer: the key in their ``cnf``: of a file, of a PKCS#11 token, or a ``CallbackSigner``.
        chance: draws a number from 0 to 1, such as ``random.random``.
        changed: is called with the new SD-Cards by context, to publish them; again at the next step if it fails.

    Raises:
        Misuse: when the signer does not hold the key of an SD-Card.
    """

    def __init__(
        self,
        cards: RenewsCards,
        signer: Signer,
        clock: Clock,
        chance: Callable[[], float],
        changed: Callable[[Mapping[str, ShownCard]], None] | None = None,
    ) -> None:
        self._cards, self._signer, self._clock = cards, signer, clock
        self._chance, self._changed = chance, changed
        self._failures, self._waits = 0, Lifetime(clock.now(), clock.now())
        self._drawn = chance()
        self._shown: Mapping[str, ShownCard] = {}
        self._published: Mapping[str, ShownCard] = self._shown
        self._stepping = threading.Lock()
        self._take(cards.load())

    @classmethod
    def from_folder(
        cls,
        folder: str | Path,
        *,
        key: str | Path | Signer | None = None,
        registry: "Registry | None" = None,
        agent_id: str = "",
        changed: Callable[[Mapping[str, ShownCard]], None] | None = None,
    ) -> "Agent":
        """Make an agent from the folder that ``sdcard register --out`` wrote.

        Args:
            folder: with an SD-Card for each context, and ``trust.json``.
            key: the file of the private key, or a signer. By default, ``agent.jwk`` in the folder or beside it.
            registry: renews the SD-Cards. Without it, another process has to renew them in the folder.
            agent_id: the agent's id at the registry.
            changed: publishes the SD-Cards: now, and again whenever there are new ones.

        Raises:
            Refused: for a malformed trust document or key.
            Misuse: when there is no key, or others than its owner can read it.
            OSError: when a file cannot be read.
        """
        folder, clock = Path(folder), SystemClock()
        signer = key if key is not None and not isinstance(key, str | Path) else _load_key(folder, key)
        if registry is not None and not agent_id:
            raise Misuse("a registry renews an agent by its id: agent_id=")
        cards = CardFolder(folder, signer.public_key, clock, registry, agent_id)
        return cls(cards, signer, clock, random.random, changed)

    @property
    def shown(self) -> Mapping[str, ShownCard]:
        """The SD-Cards that are held now, by context."""
        return self._shown

    @property
    def clock(self) -> Clock:
        """The agent's clock."""
        return self._clock

    def show(self, context: str, paths: Sequence[str] = ()) -> ShownCard:
        """Return the SD-Card of a context, and the most that is shown of it.

        Renew it first if that is due.

        Args:
            context: the context that the SD-Card was issued for.
            paths: claims such as ``skills.0``. Without paths, everything in the SD-Card.

        Raises:
            Refused: ``path.malformed``; ``selection.not-held``.
            Misuse: when the agent has no SD-Card for the context.
        """
        if self._stepping.acquire(blocking=False):
            try:
                self.step()
            finally:
                self._stepping.release()
        if context not in self._shown:
            raise Misuse(f"the agent has no SD-Card for this context; it has: {', '.join(self._shown) or 'none'}")
        found, where = self._shown[context], Where(Part.REQUEST, ("paths",))
        if not paths:
            return found
        parsed = [ClaimPath.parse(path, where.within(number)) for number, path in enumerate(paths)]
        return ShownCard(found.held, select_paths(found.held, parsed), found.signer)

    def present(self, challenge: Challenge, *, audience: str, context: str, paths: Sequence[str] = ()) -> str:
        """Answer the challenge of a Verifier.

        Args:
            challenge: as it arrived: ``Challenge(nonce, audience)``.
            audience: the Verifier that the agent means to answer, from its own configuration. A hostile Verifier could
                relay the challenge of another one.
            context: as for ``show``.
            paths: as for ``show``.

        Raises:
            Refused: ``challenge.other-audience``; ``kb.purpose`` for a nonce for called agents; as ``show``.
            Misuse: as ``show``.
        """
        check_challenge(ReceivedChallenge(challenge, ClaimRequest()), audience, challenge.interaction_id)
        shown = self.show(context, paths)
        return str(present(shown.held, shown.allowed, challenge, shown.signer, self._clock.now()))

    def step(self) -> float:
        """Do what is due, and return the seconds until the next step.

        Never raises what a registry, a network, a disk or ``changed`` does. An SD-Card whose file is gone or not good
        is shown until it expires.
        """
        now = self._clock.now()
        if not self._waits.covers(now):
            try:
                if self._is_due(self._held()):
                    self._take(self._cards.renew(self._is_due))
                else:
                    self._take({**self._good(now), **self._cards.load()})
            except Exception as error:  # of `changed` too, which may do anything: the agent goes on and tries again
                self._failures += 1
                wait = min(FIRST_RETRY * 2 ** (self._failures - 1), LAST_RETRY)
                self._waits = Lifetime(now, now + wait * (1 - JITTER * self._chance()))
                reason = error if isinstance(error, Refused | Misuse | OSError) else type(error).__name__
                _log.warning("SD-Cards were not renewed or published (attempt %d): %s", self._failures, reason)
            else:
                self._failures, self._waits = 0, Lifetime(now, now + _LOOK)
        return min(max(self._waits.ends_at - self._clock.now(), 0.0), LAST_RETRY)

    async def run(self) -> None:
        """Step for ever, off the event loop. Cancel it to stop."""
        while True:
            await asyncio.sleep(await asyncio.to_thread(self.step))

    def _held(self) -> Mapping[str, HeldSdCard]:
        return {context: one.held for context, one in self._shown.items()}

    def _good(self, now: Instant) -> Mapping[str, HeldSdCard]:
        held = self._held()
        return {
            context: one
            for context, one in held.items()
            if Lifetime(one.issued.issued_at, one.issued.expires_at).covers(now)
        }

    def _is_due(self, cards: Mapping[str, HeldSdCard]) -> bool:
        now = self._clock.now()
        return (
            not cards
            or any(not until_renewal(held, self._drawn).covers(now) for held in cards.values())
            or self._cards.are_withdrawn(cards)
        )

    def _take(self, cards: Mapping[str, HeldSdCard]) -> None:
        """Swap all SD-Cards at once, if they are others, and publish them once."""
        if cards.keys() != self._shown.keys() or any(
            str(held.sd_jwt) != str(self._shown[context].held.sd_jwt) for context, held in cards.items()
        ):
            shown = {context: ShownCard(held, select_all(held), self._signer) for context, held in cards.items()}
            self._shown, self._drawn = frozen(shown), self._chance()
        if self._changed is not None and self._published is not self._shown:
            self._changed(self._shown)
        self._published = self._shown


class CardFolder:
    """The folder that ``sdcard register --out`` wrote, renewed at its registry.

    Processes that share the folder take turns: the second one finds new SD-Cards and asks for none.

    Args:
        folder: with an SD-Card for each context, and ``trust.json``.
        key: the public key in ``cnf``.
        registry: a client, with a token that may renew.
        agent_id: the agent's id at the registry.
        issuer: who the registry is, when not its address.
    """

    def __init__(
        self,
        folder: Path,
        key: PublicKey,
        clock: Clock,
        registry: "Registry | None" = None,
        agent_id: str = "",
        issuer: str | None = None,
    ) -> None:
        self._folder, self._key, self._clock = folder, key, clock
        self._registry, self._agent_id, self._issuer = registry, agent_id, issuer
        self._asked, self._withdrawn = Lifetime(0, 0), frozenset[str]()

    def load(self) -> Mapping[str, HeldSdCard]:
        """Read the SD-Cards in the folder.

        Those that are not good are left out and logged.
        """
        issuers = parse_trusted_issuers((self._folder / "trust.json").read_bytes())
        cards = {}
        for file in sorted(self._folder.glob("*.sd-card")):
            try:
                cards[file.stem] = self._logged(file, self._accept(lenient_token(file.read_text("utf-8")), issuers))
            except Refused as refusal:
                _log.warning("%s is ignored: %s", file.name, refusal)
        return cards

    def _logged(self, file: Path, held: HeldSdCard) -> HeldSdCard:
        """Attach the proof that is beside an SD-Card, if it is about this SD-Card."""
        beside = file.with_suffix(".tlog-proof")
        try:
            return with_log_proof(held, beside.read_text("utf-8")) if beside.is_file() else held
        except (Refused, UnicodeDecodeError) as fault:
            _log.warning("%s is ignored: %s", beside.name, fault)
            return held

    def renew(self, is_due: Callable[[Mapping[str, HeldSdCard]], bool]) -> Mapping[str, HeldSdCard]:
        """Have new SD-Cards made by the registry and write them, if it is still due."""
        with _alone(self._folder):
            kept = self.load()
            if not is_due(kept):
                return kept
            if self._registry is None:
                raise Misuse("this folder has no registry to renew its SD-Cards")
            issuers, trust = self._registry.issuer(self._issuer)
            asked = self._registry.asked(self._agent_id)
            expected = asked.cards(asked.thumbprints)
            if asked.thumbprints != (self._key.thumbprint,) or len(set(expected)) < len(expected):
                raise Misuse("an agent with several keys or partners is renewed with `sdcard agents renew`")
            answer = self._registry.renew(self._agent_id, "run_out", expected)
            texts = {one.context: one.sd_card for one in answer.cards}
            cards = {context: self._accept(text, issuers) for context, text in texts.items()}
            write_private_file(self._folder / "trust.json", encode_json(trust) + b"\n")
            for context, text in texts.items():
                write_private_file(self._folder / f"{context}.sd-card", text.encode("ascii") + b"\n")
            keep_promise(self._folder, answer.log_promise, issuers, self._clock.now())
            return cards

    def are_withdrawn(self, cards: Mapping[str, HeldSdCard]) -> bool:
        """Whether the registry removed a key that signed one. It is asked once an hour."""
        now = self._clock.now()
        if self._registry is not None and not self._asked.covers(now):
            self._asked = Lifetime(now, now + LAST_RETRY)
            try:
                issuers, _ = self._registry.issuer(self._issuer)
            except (Refused, Misuse) as fault:
                _log.warning("the keys of the registry were not fetched: %s", fault)
                return False
            texts = [str(held.sd_jwt) for held in cards.values()]
            self._withdrawn = frozenset(text for text in texts if not self._is_known(text, issuers))
        return any(str(held.sd_jwt) in self._withdrawn for held in cards.values())

    def _is_known(self, text: str, issuers: TrustedIssuers) -> bool:
        try:
            self._accept(text, issuers)
        except Refused as refusal:
            return refusal.rule is not Rule.ISSUER_KEY_UNKNOWN
        return True

    def _accept(self, text: str, issuers: TrustedIssuers) -> HeldSdCard:
        return accept_sd_card(text, Acceptance(issuers=issuers), self._key, self._clock.now())


def keep_promise(folder: Path, text: str | None, issuers: TrustedIssuers, now: Instant) -> None:
    """Verify the promise in a registry's answer, and keep it beside the SD-Cards.

    Raises:
        Refused: as ``verify_log_promise``.
    """
    if text is not None:
        verify_log_promise(text, issuers, now)
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        write_private_file(folder / f"{name}{PROMISE_SUFFIX}", text.encode("ascii") + b"\n")


def is_folder_due(folder: Path, keys: Sequence[PublicKey], clock: Clock) -> bool:
    """Whether an SD-Card in the folder is to be renewed, is not good, or is not there.

    The folder may have SD-Cards of several keys.
    """
    try:
        found = [held for key in keys for held in CardFolder(folder, key, clock).load().values()]
    except (OSError, Refused):
        return True
    count = len(list(folder.glob("*.sd-card")))
    return not found or len(found) < count or any(not until_renewal(held).covers(clock.now()) for held in found)


def _load_key(folder: Path, key: str | Path | None) -> Signer:
    from sdcard.io.key_files import load_signer

    if key is not None:
        return load_signer(Path(key))
    usual = (folder / KEY_FILE, folder.absolute().parent / KEY_FILE)
    found = next((file for file in usual if file.exists()), None)
    if found is None:
        raise Misuse(f"there is no {KEY_FILE} in {folder} or beside it: say where the private key is, with key=")
    return load_signer(found)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Keep other processes of this machine out of a renewal in the folder."""
    import fcntl

    with (folder / ".renewal").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
