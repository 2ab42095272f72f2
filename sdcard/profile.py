"""A profile is data: what another version of the SD-Card draft may change, as one value."""

from dataclasses import dataclass

_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"


@dataclass(frozen=True, slots=True)
class Profile:
    """What is written and what is accepted.

    Attributes:
        name: what people call it.
        vct, typ: written into an SD-Card.
        accepted_vcts, accepted_types: read from one; a ``vct`` that is there must be among them.
        required: claims that must be in the Issuer-signed JWT itself, in the clear.
        also_clear: card members that are in the clear beside those of the card's format.
        media_type: of a document that carries an SD-Card.
        well_known_paths: where an agent publishes one.
    """

    name: str
    vct: str
    typ: str
    accepted_vcts: frozenset[str]
    accepted_types: frozenset[str]
    required: frozenset[str]
    also_clear: tuple[str, ...]
    media_type: str
    well_known_paths: tuple[str, ...]


_REQUIRED = frozenset({"iss", "sub", "iat", "exp", "vct", "cnf"})
_MEDIA_TYPE = "application/vnd.sd-jwt+json"
_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")

SD_CARD = Profile(
    name="sd-card",
    vct=_TOKEN_TYPE + "sd-agent-card",
    typ="dc+sd-jwt",
    accepted_vcts=frozenset({_TOKEN_TYPE + "sd-agent-card"}),
    accepted_types=frozenset({"dc+sd-jwt"}),
    required=_REQUIRED,
    also_clear=(),
    media_type=_MEDIA_TYPE,
    well_known_paths=_PATHS,
)
"""Our default: explicit typing, endpoints selective."""

AGENT_SD_JWT_02 = Profile(
    name="agent-sd-jwt-02",
    vct=_TOKEN_TYPE + "sd-agent-card",
    typ="JWT",
    accepted_vcts=frozenset({_TOKEN_TYPE + "sd-agent-card", _TOKEN_TYPE + "sd-a2a-agent-card"}),
    accepted_types=frozenset({"dc+sd-jwt", "JWT"}),
    required=_REQUIRED,
    also_clear=("url",),
    media_type=_MEDIA_TYPE,
    well_known_paths=_PATHS,
)
"""What draft-nandakumar-agent-sd-jwt-02 prints: ``typ: JWT``, ``url`` in the clear, two spellings of ``vct``."""

PROFILES = {profile.name: profile for profile in (SD_CARD, AGENT_SD_JWT_02)}
