"""The public vectors that get another answer here: each by name, with the answer and the reason.

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
NO_RSA_IN_SET = Otherwise(
    "RSA is refused on purpose; a key set of RSA keys alone has no usable key", "key.unsupported", "key/keys/0"
)
_SHARED = "HMAC is refused on purpose: with a shared key a verifier can sign"
NO_HMAC = Otherwise(_SHARED, "key.private", "key")
NO_HMAC_IN_SET = Otherwise(_SHARED, "key.private", "key/keys/0")
NO_JWE = Otherwise("nothing of ours is encrypted: a text of five parts is no JWS", "jws.format", "issuer-jwt")
NO_TYP = Otherwise("of an early draft, without `typ`; RFC 9901 9.11, RFC 8725 3.11", "jws.typ", "issuer-header/typ")
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
    "unsound: `?` is no character of base64url (RFC 7515 2), and the same group refuses it elsewhere; and it is HMAC",
    "key.private",
    "key",
)
SAME_TEXT = Otherwise("refused for its HMAC key, but unsound: byte for byte the text of 357, which is valid")
DUPLICATE = Otherwise(
    "RFC 8259 4 lets a reader do as it likes; RFC 7515 4 and RFC 7519 4 let us refuse, and two readers cannot differ",
    "json.duplicate-member",
    "request",
)
TYPE_METADATA = Otherwise(
    "of its eleven figures we read `typ`, `cnf` and claim paths; type metadata is not ours to read"
)
NO_PATH_IN_ISSUER = Otherwise(
    "no function of ours derives the address of issuer metadata yet; the registry serves it for an issuer without path"
)


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
    **_each(
        "wycheproof/json_web_signature",
        (33, *range(259, 276), 287, 288, *range(320, 324), *range(325, 329), 345, 346, 349, 350),
        NO_RSA,
    ),
    **_each("wycheproof/json_web_signature", (1, 348, 352, 357, 358, 359, 376, 377), NO_HMAC),
    **_each("wycheproof/json_web_signature", (347, 351), ES521),
    **_each("wycheproof/json_web_signature", (372, 373), JUNK),
    **_each("wycheproof/json_web_signature", (367, 370), SAME_TEXT),
    **_each("wycheproof/json_web_key", (2, 13, 14, 15), NO_HMAC_IN_SET),
    **_each("wycheproof/json_web_key", (5,), NO_RSA_IN_SET),
    **_each("wycheproof/json_web_crypto", (1,), NO_HMAC),
    **_each("wycheproof/json_web_crypto", (33,), NO_RSA),
    **_each("wycheproof/json_web_crypto", (48,), NO_HMAC_IN_SET),
    **_each("wycheproof/json_web_crypto", (50, 67), NO_JWE),
    "jose-rfcs/rfc7638-3.1": NO_RSA,
    "json-test-suite/y_object_duplicated_key.json": DUPLICATE,
    "json-test-suite/y_object_duplicated_key_and_value.json": DUPLICATE,
    "ietf-sd-jwt-vc/sdjwtvc-draft-json-blocks": TYPE_METADATA,
    "ietf-sd-jwt-vc/sdjwtvc-issuer-metadata-url": NO_PATH_IN_ISSUER,
}
"""``folder/case`` → our answer."""
