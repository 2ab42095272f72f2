"""Actions at the console: their texts, and the number of SD-Cards they change."""

from collections.abc import Mapping
from dataclasses import dataclass

from issuer_service.lifecycle.schemas import AgentShown, IssuedForContext
from issuer_service.status.service import REINSTATE, REVOKE, SUSPEND, Change
from issuer_service.stores.delegation_ports import ApprovalState


@dataclass(frozen=True, slots=True)
class Action:
    """Something to be confirmed.

    Attributes:
        verb, done: what it is called, and what it has been once it is done.
        means: what follows from it, in a sentence or two.
        final: whether nothing leads back.
    """

    verb: str
    done: str
    means: str
    final: bool


STATUS_ACTIONS: Mapping[str, tuple[Action, Change]] = {
    "suspend": (
        Action("Suspend", "suspended", "Verifiers refuse them until they are reinstated.", False),
        SUSPEND,
    ),
    "reinstate": (
        Action("Reinstate", "valid again", "Verifiers accept them again. What was revoked stays revoked.", False),
        REINSTATE,
    ),
    "revoke": (
        Action(
            "Revoke for ever",
            "revoked",
            "Verifiers refuse them from now on. Nothing leads back: the agent has to be given new ones.",
            True,
        ),
        REVOKE,
    ),
}
DECISIONS: Mapping[str, tuple[Action, ApprovalState]] = {
    "approve": (
        Action("Approve", "approved", "The client can make this one exchange, once.", True),
        ApprovalState.APPROVED,
    ),
    "deny": (
        Action("Deny", "denied", "The client is refused, and would have to ask anew.", True),
        ApprovalState.DENIED,
    ),
}


def concerned(agent: AgentShown, change: Change, context: str | None = None) -> int:
    """Count the SD-Cards that would change, as far as an agent's page goes back."""
    named = [one for batch in agent.batches for one in batch.contexts if context in (None, one.context)]
    return sum(_with(one, change) for one in named)


def contexts_of(agent: AgentShown) -> list[str]:
    """The contexts that the agent has SD-Cards of."""
    return sorted({one.context for batch in agent.batches for one in batch.contexts})


def _with(one: IssuedForContext, change: Change) -> int:
    counted = {"VALID": one.valid, "SUSPENDED": one.suspended, "INVALID": one.revoked}
    return sum(counted[status.name] for status in change.before)
