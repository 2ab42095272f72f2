"""Whether the registry can do its work now: its database answers and has this version's tables, its keys sign."""

import asyncio
import logging
from collections.abc import Sequence
from typing import Protocol

from issuer_service.keys.ring import KeysInUse
from issuer_service.logs import places
from issuer_service.stores.ports import Store
from issuer_service.stores.revisions import head
from issuer_service.stores.rows.keys import KeyUse
from sdcard.errors import Finding, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.signer import Signer
from sdcard.rules import Rule

_log = logging.getLogger(__name__)

_WHERE = Where(Part.REGISTRY)
_KEPT_SECONDS = 2
"""Anybody may ask; so the signer, which may be a slow token, is not asked more often."""
_PATIENCE = 5.0
_NEEDED = (KeyUse.CARDS, KeyUse.STATUS, KeyUse.AUDIT, KeyUse.TOKENS)
_MESSAGE = b"sdcard readyz"
"""No JWS signs this: its signing input has a dot."""


class Keys(Protocol):
    """Knows the registry's keys."""

    async def current(self) -> KeysInUse:
        """Those in use."""
        ...


class Readiness:
    """What was found out last. Of those who ask at once, one finds out; a signer that hangs is not asked again."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._since: Instant | None = None
        self._findings: tuple[Finding, ...] = ()
        self._signing: asyncio.Task[bool] | None = None

    async def check(self, store: Store, keys: Keys, now: Instant) -> None:
        """Refuse when something does not work.

        Raises:
            Refused: ``registry.not-ready`` at each part that does not, and nothing of why: that is in the log.
        """
        async with self._turn:
            if self._since is None or not 0 <= now - self._since < _KEPT_SECONDS:
                self._findings = tuple([*await _look_at(store), *await self._try(keys)])
                self._since = now
        if self._findings:
            raise Refused.because(self._findings)

    async def _try(self, keys: Keys) -> list[Finding]:
        if self._signing is None:
            try:
                known = await keys.current()
                signers = [known.signer(use) for use in _NEEDED]
            except Refused as refusal:
                out_of_reach = refusal.rule is Rule.SIGNER_UNAVAILABLE
                return [_finding("signer", "A key that signs is missing.")] if out_of_reach else []
            self._signing = asyncio.create_task(asyncio.to_thread(_sign_all, signers))
        done, _ = await asyncio.wait({self._signing}, timeout=_PATIENCE)
        if not done:
            return [_finding("signer", "The signer does not answer.")]
        good, self._signing = self._signing.result(), None
        return [] if good else [_finding("signer", "The signer cannot sign.")]


async def _look_at(store: Store) -> list[Finding]:
    try:
        revision = await store.revision()
    except Refused:
        return [_finding("database", "The database does not answer.")]
    if revision != head():
        return [_finding("migrations", "The database has another schema than this version needs.")]
    return []


def _sign_all(signers: Sequence[Signer]) -> bool:
    try:
        return all(signer.public_key.verifies(_MESSAGE, signer.sign(_MESSAGE)) for signer in signers)
    except Exception as error:  # each kind of signer fails in its own way, and all of them mean no
        _log.error("a signer failed: %s at %s", type(error).__name__, places(error))
        return False


def _finding(part: str, hint: str) -> Finding:
    return Finding(Rule.NOT_READY, _WHERE.within(part), hint)
