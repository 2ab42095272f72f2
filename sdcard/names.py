"""Claim names, header values and separators that the standards fix.

Both columns know them; nothing else is in here.
"""

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

NEVER_SELECTIVE = frozenset({"iss", "nbf", "exp", "cnf", "vct", "vct#integrity", "aka_vcts", "status"})
"""SD-JWT VC 2.2.2.2, sub-claims included (VC-5)."""

RESERVED_AT_TOP = NEVER_SELECTIVE | {"sub", "aud", "iat", "jti", SD_ALG, "card_format"}
"""A card member of such a name would be read as a claim with another meaning (SD-Card T-30)."""
