"""Claim names, interaction ids, and profiles: versions of the SD-Card draft."""

import re
from dataclasses import dataclass
from typing import TypeGuard

from sdcard.errors import Misuse

SEPARATOR = "~"
"""RFC 9901 4."""

SD = "_sd"
SD_ALG = "_sd_alg"
ELLIPSIS = "..."
RESERVED_ANYWHERE = frozenset({SD, ELLIPSIS})
"""RFC 9901 4.1."""

CNF = "cnf"
"""RFC 7800."""

KB_TYP = "kb+jwt"
SD_HASH = "sd_hash"
INTERACTION_ID = "interaction_id"
"""RFC 9901 4.3; the last one is SD-Card 5.2.2."""
LOG_PROOF = "log_proof"
"""A proof that the SD-Card is in a transparency log, in a KB-JWT (decision 0048)."""

ISSUER_CHECKS = "issuer_checks"
"""Our own claim; see ``sdcard.issuer_checks``."""

NEVER_SELECTIVE = frozenset({"iss", "nbf", "exp", "cnf", "vct", "vct#integrity", "aka_vcts", "status", ISSUER_CHECKS})
"""SD-JWT VC 2.2.2.2, sub-claims included (VC-5). No Holder may hide what the Issuer checked."""

RESERVED_AT_TOP = NEVER_SELECTIVE | {"sub", "aud", "iat", "jti", SD_ALG, "card_format"}
"""A card member with such a name would have another meaning as a claim (SD-Card T-30)."""


# -- Profiles ---------------------------------------------------------------------------------------------------------

FIXED = frozenset({"iss", "sub", "iat", "exp", "cnf"})
"""Claims that every profile requires, because each is an attribute of a ``VerifiedCard``. ``vct`` is optional."""

_TOKEN_TYPE = "urn:ietf:params:oauth:token-type:"


@dataclass(frozen=True, slots=True)
class Profile:
    """The names and types of a version of the draft.

    Attributes:
        name: its name for people.
        vct, typ: written into an SD-Card.
        accepted_vcts, accepted_types: accepted when reading one.
        required: claims that must be in the Issuer-signed JWT, in the clear; ``FIXED`` is always included.
        also_clear: card members in the clear, beside those of the card's format.

    Raises:
        Misuse: for other types, and for ``required`` without all of ``FIXED`` or with a reserved name.
    """

    name: str
    vct: str
    typ: str
    accepted_vcts: frozenset[str]
    accepted_types: frozenset[str]
    required: frozenset[str]
    also_clear: tuple[str, ...]

    def __post_init__(self) -> None:
        for names in (self.accepted_vcts, self.accepted_types, self.required):
            if type(names) is not frozenset or not all(type(name) is str for name in names):
                raise Misuse("what a profile accepts and requires are frozensets of str")
        if type(self.also_clear) is not tuple:
            raise Misuse("the members that a profile has in the clear are a tuple")
        if not self.required >= FIXED:
            raise Misuse(f"every profile requires {', '.join(sorted(FIXED))}: a VerifiedCard has them all")
        if not self.required.isdisjoint({*RESERVED_ANYWHERE, SD_ALG}):
            raise Misuse("what a profile requires are claims")


_REQUIRED = FIXED | {"vct"}

SD_CARD = Profile(
    name="sd-card",
    vct=_TOKEN_TYPE + "sd-agent-card",
    typ="dc+sd-jwt",
    accepted_vcts=frozenset({_TOKEN_TYPE + "sd-agent-card"}),
    accepted_types=frozenset({"dc+sd-jwt"}),
    required=_REQUIRED,
    also_clear=(),
)
"""The default profile: explicit typing, selective endpoints."""

AGENT_SD_JWT_02 = Profile(
    name="agent-sd-jwt-02",
    vct=_TOKEN_TYPE + "sd-agent-card",
    typ="JWT",
    accepted_vcts=frozenset({_TOKEN_TYPE + "sd-agent-card", _TOKEN_TYPE + "sd-a2a-agent-card"}),
    accepted_types=frozenset({"dc+sd-jwt", "JWT"}),
    required=_REQUIRED,
    also_clear=("url",),
)
"""The examples of draft-nandakumar-agent-sd-jwt-02: ``typ: JWT``, ``url`` in the clear, two values of ``vct``."""

PROFILES = {profile.name: profile for profile in (SD_CARD, AGENT_SD_JWT_02)}


# -- Interaction ids in KB-JWTs, headers and tokens (SD-Card 5.2.2) ---------------------------------------------------

MAX_INTERACTION = 128
"""Characters."""
INTERACTION_PATTERN = rf"[!-~]{{1,{MAX_INTERACTION}}}"
"""Visible ASCII characters, and no space."""

_INTERACTION = re.compile(INTERACTION_PATTERN)


def is_interaction_id(value: object) -> TypeGuard[str]:
    """Narrow a value to an interaction id that a header can carry."""
    return isinstance(value, str) and _INTERACTION.fullmatch(value) is not None
