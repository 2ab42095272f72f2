"""The front of a Verifier: trust from a file, and every other part chosen.

``Verifier`` has the system's clock and randomness, its own record of answered challenges, a cache, and the Issuers'
status lists and present keys, which it fetches. The functions beneath it are in ``sdcard.verifier``.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from sdcard.errors import Misuse
from sdcard.instants import Clock
from sdcard.io.replay_cache import MemoryChallengeRecord, warn_about_workers
from sdcard.io.system import SystemClock, SystemSalts, sees_other_workers
from sdcard.issuer_checks import check_codes
from sdcard.key_binding import Answering, Challenge
from sdcard.salts import SaltSource
from sdcard.status_list import Checked, CheckedAsync, Unchecked
from sdcard.transparency.proofs import NOT_ASKED, LogDecision
from sdcard.trust import TrustedIssuers, parse_trusted_issuers
from sdcard.verification_cache import VerificationCache
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation

if TYPE_CHECKING:
    from sdcard.io.published_keys import IssuerKeys

_log = logging.getLogger(__name__)
NEEDS_HTTP = "fetching keys and status lists needs httpx2: install the extra `http` of sdcard"


class Verifier:
    """Challenges agents and verifies their presentations. It is thread-safe.

    One process has one Verifier for an audience. Its challenges are unknown to other processes, and after a restart.

    Args:
        issuers: the trusted Issuers; ``IssuerKeys`` also fetches the keys that they have now.
        audience: the Verifier's own name, such as its https origin. Agents sign for it.
        status: by default, the Issuers' status lists are fetched. ``Unchecked("reason")`` does without.
        log: ``InLog(policy)`` if each SD-Card must be in a transparency log; by default no log is asked for.
        clock: by default, the system's.
        salts: by default, the system's randomness.
        required_checks: codes of checks that an Issuer must confirm, such as ``domain``.

    Raises:
        Misuse: for a status source that is awaited, or when fetching needs an extra that is not installed.
    """

    def __init__(
        self,
        issuers: "TrustedIssuers | IssuerKeys",
        audience: str,
        *,
        status: Checked | Unchecked | None = None,
        log: LogDecision = NOT_ASKED,
        clock: Clock | None = None,
        salts: SaltSource | None = None,
        required_checks: tuple[str, ...] = (),
    ) -> None:
        if isinstance(status, CheckedAsync):
            raise Misuse("a Verifier awaits nothing: give it Checked, or await verify_presentation_async")
        self._issuers, self._clock = issuers, clock or SystemClock()
        self._status = fetched_status(issuers) if status is None else status
        check_codes(required_checks)
        self._required_checks = required_checks
        self._log = log
        self._challenges = own_challenges(audience, salts)
        self._cache = VerificationCache()

    @classmethod
    def from_trust_file(
        cls, path: str | Path, *, audience: str, status: Checked | Unchecked | None = None, log: LogDecision = NOT_ASKED
    ) -> "Verifier":
        """Make a Verifier that trusts the Issuers in a file.

        ``sdcard register`` writes such a file. An Issuer is trusted because it is in the file; the keys that it has now
        are fetched.

        Raises:
            Refused: for a malformed trust document.
            Misuse: as the constructor.
            OSError: when the file cannot be read.
        """
        return cls(present_keys(read_trust_file(path)), audience, status=status, log=log)

    def challenge(self, interaction_id: str | None = None) -> Challenge:
        """Make a challenge for one agent.

        It is valid for five minutes, and nothing is stored. Send its ``nonce`` and ``audience``, and keep it until the
        answer comes.
        """
        return self._challenges.issue(self._clock.now(), None, interaction_id)

    def verify(self, presentation: str, challenge: Challenge) -> VerifiedCard:
        """Verify the answer to a challenge of this Verifier.

        Each challenge is answered once.

        Raises:
            Refused: with the rule that the presentation breaks, and its place.
        """
        now = self._clock.now()
        self._challenges.check(challenge, now)
        issuers = self._issuers
        if not isinstance(issuers, TrustedIssuers):
            issuers = issuers.for_presentation(presentation, now)
        expectations = Expectations(
            issuers=issuers,
            key_binding=Answering(challenge, self._challenges),
            status=self._status,
            required_checks=self._required_checks,
            log=self._log,
        )
        return verify_presentation(presentation, expectations, now, self._cache)


def read_trust_file(path: str | Path) -> TrustedIssuers:
    """Read a trust document. Unusable entries are left out and logged.

    Raises:
        Refused: when it is malformed.
        OSError: when it cannot be read.
    """
    issuers = parse_trusted_issuers(Path(path).read_bytes())
    for finding in issuers.left_out:
        _log.warning("an entry of the trust document is ignored: %s", finding)
    return issuers


def own_challenges(audience: str, salts: SaltSource | None = None) -> MemoryChallengeRecord:
    """Make the challenge record of one process.

    It has a key of its own, so it refuses the challenges of other workers. It warns when there are several workers.
    """
    record = MemoryChallengeRecord(audience, salts or SystemSalts())
    if sees_other_workers():
        warn_about_workers()
    return record


def present_keys(issuers: TrustedIssuers) -> "IssuerKeys":
    """Make the trusted Issuers' present keys, which are fetched from their metadata.

    Raises:
        Misuse: without the extra ``http``.
    """
    try:
        from sdcard.io.published_keys import IssuerKeys
    except ModuleNotFoundError:
        raise Misuse(NEEDS_HTTP) from None
    return IssuerKeys(issuers)


def fetched_status(issuers: "TrustedIssuers | IssuerKeys") -> Checked:
    """Decide to check the status with fetched lists.

    Raises:
        Misuse: without the extra ``http``.
    """
    try:
        from sdcard.io.status_lists import FetchedStatusLists
    except ModuleNotFoundError:
        raise Misuse(NEEDS_HTTP) from None
    return Checked(FetchedStatusLists(issuers))
