"""Readiness of the registry: a transaction can be committed, and the keys sign."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol, TypeAlias

from issuer_service.keys.ring import KeysInUse
from issuer_service.logs import places
from issuer_service.stores.ports import Store
from issuer_service.stores.revisions import head
from issuer_service.stores.rows.keys import KeyUse
from sdcard.edge.database_errors import Reason, StoreUnavailable
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.instants import Instant, Lifetime
from sdcard.jose.signer import Signer
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

_WHERE = Where(Part.REGISTRY)
_KEPT_SECONDS = 2
"""Anybody may ask, so a transaction and a signature, which may be a slow token's, are not made more often."""
_PATIENCE, _COMMIT_PATIENCE = 5.0, 5.0
"""Seconds for the signer, and for the database."""
_NEEDED = (KeyUse.CARDS, KeyUse.STATUS, KeyUse.AUDIT, KeyUse.TOKENS)
_MESSAGE = b"sdcard readyz"
"""No JWS signs this: its signing input has a dot."""


_Question: TypeAlias = Callable[[], Coroutine[Any, Any, list[Finding]]]


class Keys(Protocol):
    """Knows the registry's keys."""

    async def current(self) -> KeysInUse:
        """Return the keys in use."""
        ...


class Readiness:
    """The last answer, kept for a moment.

    Of those who ask at once, one finds out; what hangs is not asked again.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._kept: Lifetime | None = None
        self._findings: tuple[Finding, ...] = ()
        self._asked = dict[str, asyncio.Task[list[Finding]]]()

    async def check(self, store: Store, keys: Keys, now: Instant) -> None:
        """Refuse when something does not work.

        Raises:
            Refused: ``registry.not-ready`` at each part that does not. Of the database it says why, by one of the few
                reasons of ``Reason``; the log says more.
        """
        async with self._turn:
            if self._kept is None or not self._kept.covers(now):
                database, signer = await asyncio.gather(
                    self._ask("database", lambda: _look_at(store), Reason.AWAY, _COMMIT_PATIENCE),
                    self._ask("signer", lambda: _try(keys), "The signer does not answer.", _PATIENCE),
                )
                self._findings = (*database, *signer)
                self._kept = Lifetime(now, now + _KEPT_SECONDS)
        if self._findings:
            raise Refused.because(self._findings)

    async def _ask(self, part: str, question: _Question, silence: str, patience: float) -> list[Finding]:
        """Check a part. A hanging check is awaited again, and not repeated meanwhile."""
        if part not in self._asked:
            self._asked[part] = asyncio.create_task(question())
        done, _ = await asyncio.wait({self._asked[part]}, timeout=patience)
        if not done:
            return [_finding(part, silence)]
        return self._asked.pop(part).result()


async def _look_at(store: Store) -> list[Finding]:
    try:
        revision = await store.revision()
    except Refused:
        revision = head()  # what keeps a reader out keeps a transaction out too, which says why
    if revision != head():
        return [_finding("migrations", "The database has another schema than this version needs.")]
    try:
        await store.check_commit()
    except Refused as refusal:
        return [_finding("database", refusal.reason if isinstance(refusal, StoreUnavailable) else Reason.AWAY)]
    return []


async def _try(keys: Keys) -> list[Finding]:
    try:
        known = await keys.current()
        signers = [known.signer(use) for use in _NEEDED]
    except Refused as refusal:
        out_of_reach = refusal.rule is Rule.SIGNER_UNAVAILABLE
        return [_finding("signer", "A key that signs is missing.")] if out_of_reach else []
    good = await asyncio.to_thread(_sign_all, signers)
    return [] if good else [_finding("signer", "The signer cannot sign.")]


def _sign_all(signers: Sequence[Signer]) -> bool:
    try:
        return all(signer.public_key.verifies(_MESSAGE, signer.sign(_MESSAGE)) for signer in signers)
    except Exception as error:  # each kind of signer fails in its own way, and all of them mean no
        _log.error("a signer failed: %s at %s", type(error).__name__, places(error))
        return False


def _finding(part: str, hint: str) -> Finding:
    return Finding(Rule.NOT_READY, _WHERE.within(part), hint)
