"""Terms of the transparency log: witnesses, batches and their interval."""

from dataclasses import dataclass, field

from issuer_service.settings import Settings
from sdcard.io.egress_policy import EgressPolicy
from sdcard.transparency.policy import LogPolicy, parse_log_policy

LONGEST_SECONDS = 30.0
"""For one batch with its witnesses, so that a stop does not wait for longer."""
_SECONDS = 5.0
"""For the answer of a witness."""
NO_WITNESSES = LogPolicy((), {}, {}, None)


@dataclass(frozen=True, slots=True)
class LogTerms:
    """Terms of the transparency log.

    Attributes:
        policy: the witnesses, their addresses, and the quorum of a checkpoint.
        seconds: the interval of batches.
        batch: the number of leaves of each batch.
        egress: addresses at which witnesses may be.
    """

    policy: LogPolicy = NO_WITNESSES
    seconds: int = 60
    batch: int = 64
    egress: EgressPolicy = field(default_factory=lambda: EgressPolicy(seconds=_SECONDS))


def read_log_terms(settings: Settings) -> LogTerms | None:
    """Read the policy about witnesses; None without one.

    Raises:
        Refused: ``log.policy-malformed``.
        OSError: when the file cannot be read.
    """
    if settings.transparency_policy is None:
        return None
    policy = parse_log_policy(settings.transparency_policy.read_text(encoding="utf-8"))
    egress = EgressPolicy(settings.transparency_networks, seconds=_SECONDS)
    return LogTerms(policy, settings.transparency_seconds, settings.transparency_batch, egress)
