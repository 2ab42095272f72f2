"""Bearer tokens as requests carry them (RFC 6750)."""

import re
from collections.abc import Sequence

from sdcard.errors import Part, Refused, Where
from sdcard.rules import Rule

WHERE = Where(Part.REQUEST, ("headers", "authorization"))
_CREDENTIALS = re.compile(r"(?i:bearer) +([A-Za-z0-9._~+/-]+=*)")
_OTHER_SCHEME = re.compile(r"(?!bearer\b)[A-Za-z0-9!#$%&'*+.^_`|~-]+(?: .*)?", re.IGNORECASE | re.DOTALL)


def parse_credentials(authorization: Sequence[str]) -> str:
    """The bearer token: exactly one header of exactly one spelling (RFC 6750 2.1).

    Args:
        authorization: the values of all ``Authorization`` headers.

    Raises:
        Refused: ``token.missing`` or ``token.invalid``.
    """
    match = _CREDENTIALS.fullmatch(authorization[0]) if len(authorization) == 1 else None
    if match:
        return match.group(1)
    if all(map(_OTHER_SCHEME.fullmatch, authorization)):
        raise Refused(Rule.TOKEN_MISSING, WHERE)
    raise Refused(Rule.TOKEN_INVALID, WHERE, "Send one header: Authorization: Bearer and the token.")
