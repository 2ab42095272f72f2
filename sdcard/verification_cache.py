"""A bounded cache of verified SD-Cards and parsed keys.

A caller creates one ``VerificationCache`` for its process and passes it to ``verify_presentation``, ``verify_many``,
``accept_sd_card`` and ``present``. Without one, nothing is stored between calls. The core has no other cache.

Entries:

- an SD-Card, identified by its exact Issuer-signed JWT and Disclosures, the Issuer's key, the profile and the limits.
  Its signature, its digests, the claims that the profile requires and its ``cnf`` were checked.
- a public key of a ``cnf`` claim, by its coordinates.
- for a Holder, the SD-JWT of an accepted text, and the ``sd_hash`` of a presented selection.

Trust, times, ``aud``, status, published keys and single use are never stored: they are checked at every call. Only
SD-Cards of trusted Issuers are stored, so a forged text takes no space.

Side channel: a stored SD-Card verifies in about a third of the time. An attacker who has an SD-Card, presents it and
measures the time precisely learns whether the process verified it before. Do not share a cache between tenants that
must not learn this. A stored SD-Card stays in memory, with its Disclosures, until newer entries replace it.
"""

from collections import deque
from collections.abc import Hashable
from contextlib import suppress
from typing import Any

from sdcard.errors import Misuse

DEFAULT_CACHE_BYTES = 67_108_864
"""Room for about 1,000 SD-Cards of the usual size."""
_SLOT = 4_096
"""Bytes. The size of an entry is counted in slots, so that the oldest entries are evicted without a lock."""


class VerificationCache:
    """A bounded cache of verified SD-Cards and parsed keys.

    The oldest entries are evicted first. Threads may share a cache: each step is one call into a dict or a deque, which
    is atomic. If two threads store the same entry, it is only evicted earlier.

    Args:
        max_bytes: the most that all entries take, by an estimate that is high for usual SD-Cards.

    Raises:
        Misuse: if ``max_bytes`` is not a whole number from 4,096 on.
    """

    def __init__(self, max_bytes: int = DEFAULT_CACHE_BYTES) -> None:
        if type(max_bytes) is not int or max_bytes < _SLOT:
            raise Misuse(f"a cache has at least {_SLOT} bytes")
        self._slots = max_bytes // _SLOT
        self._entries: dict[Hashable, Any] = {}
        self._order: deque[Hashable] = deque()

    def __repr__(self) -> str:
        return f"VerificationCache({len(self._entries)} entries)"

    def find(self, key: Hashable) -> Any:
        """Return the entry of a key, or None."""
        return self._entries.get(key)

    def store(self, key: Hashable, entry: object, size: int) -> None:
        """Store an entry of about ``size`` bytes, and evict the oldest ones."""
        slots = max(1, -(-size // _SLOT))
        if slots > self._slots:
            return
        self._entries[key] = entry
        self._order.extend([key] * slots)
        while len(self._order) > self._slots:
            with suppress(IndexError):  # another thread dropped it
                self._entries.pop(self._order.popleft(), None)

    def clear(self) -> None:
        """Evict every entry."""
        self._order.clear()  # first: an entry without a slot would never leave
        self._entries.clear()
