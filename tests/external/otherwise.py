"""What we answer otherwise than a public vector says: every case by name, with our answer and the reason.

Nothing else in ``tests/external`` may disagree with a vector, and a test that runs a folder asserts that it met every
name listed here for it.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Our answer and why. ``rule`` and ``at`` are those of the refusal; without them the answer is in the reason."""

    reason: str
    rule: str = ""
    at: str = ""


NO_RSA = Otherwise("RSA is refused on purpose: the sets of algorithms are closed", "key.unsupported", "key")
NO_HMAC = Otherwise("HMAC is refused on purpose: with a shared key anybody who verifies can sign", "key.private", "key")
NO_TYP = Otherwise("of an early draft, without `typ`; RFC 9901 9.11, RFC 8725 3.11", "jws.typ", "issuer-header/typ")
NO_JWE = Otherwise("encrypted, and nothing of ours is: a text of five parts is no JWS", "jws.format", "issuer-jwt")
EMPTY_OBJECT = Otherwise(
    'unsound, as the manifest says: RFC 9901 7.1 step 3.e leaves the empty object, {"is_over": {}}; we do too'
)
KID_NUMBER = Otherwise(
    "`kid` is a number, and RFC 7515 4.1.4 wants a string; the manifest allows both answers",
    "jws.header",
    "issuer-header/kid",
)
ES521 = Otherwise(
    "the JWK's `alg` is ES521, which is no algorithm; without it or with ES512 the signature verifies",
    "key.unsupported",
    "key/alg",
)
JUNK = Otherwise(
    "unsound: `?` is no character of base64url (RFC 7515 2), and the same file refuses it elsewhere", "key.private", "key"
)
SAME_TEXT = Otherwise("unsound: byte for byte the text of 357, which is valid; the padding it speaks of is not there")


def _each(prefix: str, numbers: Iterable[int], answer: Otherwise) -> dict[str, Otherwise]:
    return {f"{prefix}/{number}": answer for number in numbers}


OTHERWISE: dict[str, Otherwise] = {
    "sd-jwt-python/sdjwtpy-test-header_mod-issuance": KID_NUMBER,
    "sd-jwt-python/sdjwtpy-test-header_mod-presentation": KID_NUMBER,
    "eudi-sdjwt-kt/eudi-example-issuance-rs256": NO_RSA,
    "eudi-sdjwt-kt/eudi-example-presentation-rs256": NO_RSA,
    "eudi-sdjwt-kt/eudi-json-ex1": NO_TYP,
    "eudi-sdjwt-kt/eudi-spec-example-1": NO_TYP,
    "eudi-sdjwt-kt/eudi-spec-example-2": NO_TYP,
    "eudi-sdjwt-kt/eudi-spec-example-3": NO_TYP,
    "sd-jwt-tests/sdjwttests-array_none_disclosed": EMPTY_OBJECT,
    "sd-jwt-tests/sdjwtjs-array_none_disclosed": EMPTY_OBJECT,
}
"""``folder/case`` → our answer."""
