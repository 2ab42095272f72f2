"""Checks of Ed25519 public keys (RFC 8032 5.1.3).

OpenSSL takes any 32 bytes. Under a point of small order anybody can sign anything, and bytes that encode no point, or
one point in a second way, name a key that nobody has, or give one key two thumbprints.
"""

_P = 2**255 - 19
_D = -121665 * pow(121666, -1, _P) % _P
_SMALL_ORDER = frozenset(
    {
        0,
        1,
        _P - 1,
        2707385501144840649318225287225658788936804267575313519463743609750303402022,
        55188659117513257062467267217118295137698188065244968500265048394206261417927,
    }
)
"""The y coordinates of the eight points of order 1, 2, 4 and 8."""


def is_usable(encoded: bytes) -> bool:
    """Whether 32 bytes encode a point that is not of small order, canonically."""
    y = int.from_bytes(encoded, "little") & (2**255 - 1)  # without the sign of x
    if y >= _P or y in _SMALL_ORDER:
        return False
    # x² is the quotient of these two; it is a square exactly when their product is. It is not 0: x = 0 has small order.
    product = (y * y - 1) * (_D * y * y + 1) % _P
    return pow(product, (_P - 1) // 2, _P) == 1
