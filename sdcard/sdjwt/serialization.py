"""Text ⇄ SD-JWT and SD-JWT+KB (RFC 9901 4, 8): the one entrance for every form, and the compact form itself."""

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.limits import Limits
from sdcard.names import SEPARATOR
from sdcard.rules import Rule
from sdcard.sdjwt.json_form import parse_json_form
from sdcard.sdjwt.values import AnySdJwt, SdJwt, SdJwtWithKeyBinding

__all__ = ["SdJwt", "SdJwtWithKeyBinding", "parse_sd_jwt", "read_issuer_jwt"]

_WHERE = Where(Part.PRESENTATION)


def parse_sd_jwt(text: str, limits: Limits) -> AnySdJwt:
    """Text → whichever of the two it is. What starts with ``{`` is in a JSON form (R-95), else compact (VC-2, HAIP-6).

    The parts are checked where they are read; an empty Disclosure is refused there.

    Raises:
        Refused: ``sd-jwt.format``, ``limit.bytes`` or ``limit.disclosures``; for a JSON form also what
            ``parse_json_form`` refuses with.
        Misuse: for something that is no text.
    """
    if not isinstance(text, str):
        raise Misuse("an SD-JWT is a str")
    _check_size(text, limits)
    if not text.startswith("{"):
        return _parse_compact(text, limits)
    parsed = parse_json_form(text, limits)
    sd_jwt = parsed.sd_jwt if isinstance(parsed, SdJwtWithKeyBinding) else parsed
    _check_count(len(sd_jwt.disclosures), limits)
    return parsed


def read_issuer_jwt(text: str, limits: Limits) -> str:
    """The Issuer-signed JWT of a text, which is not verified. Of the compact form nothing else is read.

    Raises:
        Refused: ``sd-jwt.format`` or ``limit.bytes``; for a JSON form as ``parse_sd_jwt``.
        Misuse: for something that is no text.
    """
    if isinstance(text, str) and not text.startswith("{"):
        _check_size(text, limits)
        issuer_jwt, separator, _ = text.partition(SEPARATOR)
        if not separator:
            raise Refused(Rule.SD_JWT_FORMAT, _WHERE, "There is no `~`.")
        return issuer_jwt
    arrived = parse_sd_jwt(text, limits)
    return (arrived.sd_jwt if isinstance(arrived, SdJwtWithKeyBinding) else arrived).issuer_jwt


def _parse_compact(text: str, limits: Limits) -> AnySdJwt:
    """What follows the last ``~`` decides (R-1 to R-5, R-50, R-83). ``find`` is faster in long texts than ``split``."""
    parts: list[str] = []
    start = 0
    for _ in range(limits.disclosures + 2):  # no more are made than it takes to see that there are too many
        end = text.find(SEPARATOR, start)
        if end < 0:
            break
        parts.append(text[start:end])
        start = end + 1
    if not parts:
        raise Refused(Rule.SD_JWT_FORMAT, _WHERE, "There is no `~`." if text else "It is empty.")
    _check_count(len(parts) - 1, limits)
    sd_jwt = SdJwt(parts[0], tuple(parts[1:]))
    return SdJwtWithKeyBinding(sd_jwt, text[start:]) if start < len(text) else sd_jwt


def _check_size(text: str, limits: Limits) -> None:
    if len(text) > limits.presentation_bytes:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)


def _check_count(disclosures: int, limits: Limits) -> None:
    if disclosures > limits.disclosures:
        raise Refused(Rule.LIMIT_DISCLOSURES, _WHERE)
