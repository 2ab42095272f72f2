"""Subjects of SD-Cards: the setting ``subject_per``.

Pure but for the salts that are passed in.

``context``: a keyed hash of agent and audience. So the name is the same after each renewal, and there is no race.
``card``: random. Both are kept with the SD-Card, and by that the registry finds the agent again.
"""

import hashlib
from dataclasses import dataclass, field

from issuer_service.discovery.records import Audience
from issuer_service.settings import SubjectPer
from sdcard.encoding import encode_json
from sdcard.pairwise import CODE_BYTES, code_of, pairwise_id
from sdcard.salts import SaltSource

_PURPOSE = b"sd-card subject"
"""So that nothing else that is made with the registry's secret is ever a pairwise id."""


@dataclass(frozen=True, slots=True)
class Subjects:
    """Makes the ids in ``sub``.

    Attributes:
        per: the setting.
        secret: the registry's own: 32 random bytes.
        salts: randomness.
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


def kept(subject: str) -> str | None:
    """Return the stored pairwise id of an SD-Card's ``sub``.

    None for the agent's own id.
    """
    agent_id = subject.removeprefix("agent:")
    return None if code_of(agent_id) is None else agent_id
