"""Values per audience: the ``sub`` of SD-Cards, and search terms."""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from issuer_service.agents.reading import Registration
from issuer_service.container import Container
from issuer_service.discovery.records import Audience, DiscoveryRow
from issuer_service.keys.ring import KeysInUse
from issuer_service.settings import SubjectPer
from sdcard.encoding import encode_json
from sdcard.pairwise import CODE_BYTES, code_of, pairwise_id
from sdcard.policy.plan import DisclosurePlan, Term, terms_of
from sdcard.salts import SaltSource

# -- Subjects of SD-Cards: the setting ``subject_per`` ----------------------------------------------------------------
# Pure but for the salts that are passed in.
#
# ``context``: a keyed hash of agent and audience. So the name is the same after each renewal, and there is no race.
# ``card``: random. Both are kept with the SD-Card, and by that the registry finds the agent again.

_PURPOSE = b"sd-card subject"
"""Separates pairwise ids from all other uses of the registry's secret."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """Makes the ids in ``sub``.

    Attributes:
        secret: the registry's own: 32 random bytes.
    """

    per: SubjectPer
    secret: bytes = field(repr=False)
    salts: SaltSource = field(repr=False)

    def id_of(self, agent_id: str, audience: Audience) -> str:
        """Return the part of ``sub`` after ``agent:`` of a new SD-Card for this audience."""
        if self.per is SubjectPer.AGENT:
            return agent_id
        return self.fresh() if self.per is SubjectPer.CARD else pairwise_id(self._derive(agent_id, audience))

    def fresh(self) -> str:
        """A pairwise id that was never used."""
        return pairwise_id(self.salts.draw(1))

    def _derive(self, agent_id: str, audience: Audience) -> bytes:
        named = encode_json([agent_id, audience.context, audience.partner])
        return hashlib.blake2b(named, key=self.secret, digest_size=CODE_BYTES, person=_PURPOSE).digest()


async def subjects_of(container: Container) -> Subjects:
    """Return the source of the SD-Cards' subjects."""
    return Subjects(container.subject_per, await container.discovery_secret.current(), container.salts)


def kept(subject: str) -> str | None:
    """Return the stored pairwise id of an SD-Card's ``sub``.

    None for the agent's own id.
    """
    agent_id = subject.removeprefix("agent:")
    return None if code_of(agent_id) is None else agent_id


# -- Search terms of an agent: only what its SD-Card for each context can show. Pure ----------------------------------


def decided_by(container: Container, keys: KeysInUse) -> str:
    """Digest of the policy and keys that decided the discovery entries.

    A key that is published no more vouches for none.
    """
    return _named(container.decided_by, keys.past)


@lru_cache(16)
def _named(decided_by: str, past: frozenset[str]) -> str:
    return hashlib.sha256(" ".join([decided_by, *sorted(past)]).encode()).hexdigest()


def discovery_rows(registration: Registration, decided: str, step: int, per: SubjectPer) -> tuple[DiscoveryRow, ...]:
    """Compute the discovery entries of a registration, one for each plan's audience.

    If two plans have the same audience, the first is used.

    Args:
        registration: the request. SD-Cards for discovery are bound to the first key of their context. With pairwise
            subjects each context has its own key while keys last, so that no key links contexts.
        decided: see ``DiscoveryRow.decided_by``.
        step: the step in seconds on which SD-Cards end.
        per: the scope of an agent's ``sub``: the agent, a context or an SD-Card.
    """
    rows: dict[Audience, DiscoveryRow] = {}
    of_plans = zip(registration.plans, registration.disclose, registration.holders, strict=True)
    for number, (plan, disclose, holders) in enumerate(of_plans):
        row = DiscoveryRow(
            audience=Audience(plan.context, plan.agreement.partner if plan.agreement else ""),
            terms=as_texts(terms_of(plan, registration.card.format)),
            disclose=disclose,
            holder_key=dict(holders[0 if per is SubjectPer.AGENT else number % len(holders)].to_jwk()),
            until=plan.agreement.last_end(step) if plan.agreement else None,
            decided_by=decided,
        )
        rows.setdefault(row.audience, row)
    return tuple(rows.values())


def as_texts(terms: Iterable[Term]) -> tuple[str, ...]:
    """Terms as they are kept and asked for."""
    return tuple([f"{criterion}:{text}" for criterion, text in terms])


def disclosed_in(plans: Sequence[DisclosurePlan]) -> dict[str, tuple[str, ...]]:
    """Audience → the claims that it can be shown."""
    disclosed: dict[str, tuple[str, ...]] = {}
    for plan in plans:
        audience = f"{plan.context} {plan.agreement.partner}" if plan.agreement else plan.context
        disclosed[audience] = tuple(dict.fromkeys((*disclosed.get(audience, ()), *plan.discloses)))
    return disclosed
