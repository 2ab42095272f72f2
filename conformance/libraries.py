"""The libraries: versions, how their adapters call them, and what they can do."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Library:
    """A library of others.

    Attributes:
        name: as its registry has it.
        adapter: the adapter's file, without prefix and ending.
        called: how the adapter calls it, as strictly as it allows.
        features: the needs of cases that it meets.
        omits: claims that it does not report.
    """

    name: str
    version: str
    language: str
    adapter: str
    called: str
    features: frozenset[str]
    omits: frozenset[str] = frozenset()


def _has(features: str) -> frozenset[str]:
    return frozenset(features.split())


OWN = "this one"
_HASHES = "sha-384 sha-512"
_BOUND = "key-binding kb-audience"

_ALL = (
    f"{_BOUND} jws ES384 ES512 EdDSA ML-DSA-44 ML-DSA-65 ML-DSA-87 {_HASHES} kb-alg json-form "
    "audience times exact-times clock-skew kb-times kb-iat kb-past kb-future"
)
_NOT_IN_A_CARD = frozenset({"vct", "cnf", "aud", "nbf", "card_format"})

LIBRARIES = (
    Library(
        "sdcard", OWN, "Python", "sdcard",
        "A control: `verify_presentation` with the profile's defaults.",
        _has(_ALL), _NOT_IN_A_CARD,
    ),
    Library(
        "@sd-card/verifier", OWN, "JavaScript", "verifier",
        "A control: `verifyPresentation` and `present` of our package for JavaScript.",
        _has(_ALL), _NOT_IN_A_CARD,
    ),
    Library(
        "sd-jwt", "0.10.4", "Python", "sd_jwt",
        "`SDJWTVerifier` with audience and nonce. Its JSON form is that of an early draft.",
        _has(f"jws {_BOUND} ES384 ES512 EdDSA"),
    ),
    Library(
        "openvc-core", "1.37.0", "Python", "openvc",
        "`SdJwtVcProofSuite.verify` with `require_key_binding`.",
        _has(
            f"{_BOUND} jws ES384 EdDSA {_HASHES} kb-alg audience times exact-times clock-skew kb-times kb-iat kb-past"
        ),
    ),
    Library(
        "pyeudiw", "2.2.0", "Python", "pyeudiw",
        "`SDJWTVerifier` with audience and nonce.",
        _has(f"jws {_BOUND} ES384 ES512 json-form kb-alg times exact-times"),
    ),
    Library(
        "polaris-oid4vp", "1.0.0", "Python", "polaris",
        "`verify_presentation` with `require_key_binding`, and `max_skew_seconds` as small as the vector allows.",
        _has(f"jws {_BOUND} times exact-times clock-skew kb-times kb-iat"),
    ),
    Library(
        "vouchkit", "0.0.2", "Python", "vouchkit",
        "`verify_sd_jwt_vc` with `require_key_binding`. Presentations are those of its test kit.",
        _has(f"jws {_BOUND} times exact-times"),
        frozenset({"iss", "iat", "exp", "nbf", "cnf", "vct", "aud"}),
    ),
    Library(
        "@sd-jwt/core", "0.19.0", "JavaScript", "core",
        "`SDJwtInstance.verify` with `currentDate`, `skewSeconds` and `keyBindingNonce`; signatures, digests and "
        "salts of `@sd-jwt/crypto-nodejs` 0.19.0 in its callbacks, which compare `alg` with the key.",
        _has(f"jws key-binding ES384 ES512 {_HASHES} kb-alg json-form times exact-times clock-skew"),
    ),
    Library(
        "@sd-jwt/sd-jwt-vc", "0.19.0", "JavaScript", "vc",
        "`SDJwtVcInstance.verify`, as `@sd-jwt/core`.",
        _has(f"jws key-binding ES384 ES512 {_HASHES} kb-alg json-form times exact-times clock-skew"),
    ),
    Library(
        "@meeco/sd-jwt", "1.2.1", "JavaScript", "meeco",
        "`verifySDJWT`, which implements draft 05, with callbacks as in its README: `jose` 6.2.18, with the key's "
        "algorithm alone, a maximum age, and comparisons of `typ`, `aud` and `nonce`. Callbacks do not see the SD-JWT.",
        _has(f"{_BOUND} ES384 ES512 EdDSA {_HASHES} kb-alg times exact-times clock-skew kb-times kb-iat"),
    ),
    Library(
        "com.authlete:sd-jwt", "1.11", "Java", "authlete",
        "`SDJWT.parse` and `SDObjectDecoder.decode`. Signatures, `alg`, times and the KB-JWT are its caller's: Nimbus "
        "checks the Issuer's signature.",
        _has(f"ES384 ES512 {_HASHES}"),
    ),
    Library(
        "org.keycloak:keycloak-core", "26.8.2", "Java", "keycloak",
        "`verifyPresentation` with every check of its options; with `keycloak-crypto-default` 26.6.3, the newest that "
        "could be installed.",
        _has(f"{_BOUND} jws ES384 ES512 {_HASHES} kb-alg times exact-times clock-skew kb-times kb-iat kb-past"),
    ),
    Library(
        "eu.europa.ec.eudi:eudi-lib-jvm-sdjwt-kt", "0.10.0", "Kotlin", "eudi",
        "`NimbusSdJwtOps.verify` with a challenge. Signatures, `alg` and times of the Issuer-signed JWT are its "
        "caller's: a Nimbus processor with `typ`, the key's algorithm alone, and a clock checks them.",
        _has(f"{_BOUND} ES384 ES512 {_HASHES} kb-alg json-form"),
    ),
    Library(
        "github.com/trustbloc/vc-go", "v1.3.3", "Go", "trustbloc",
        "`verifier.Parse`, which implements drafts 02 and 05, with the key's algorithm, `typ`, audience and nonce. It "
        "refuses every SD-JWT without `_sd_alg`, so most of its refusals say nothing of a vector's subject.",
        _has(f"{_BOUND} jws ES384 EdDSA {_HASHES} kb-alg times exact-times clock-skew kb-times"),
    ),
    Library(
        "sd-jwt-rs", "0.7.1", "Rust", "sd_jwt_rs",
        "`SDJWTVerifier` with audience and nonce. Its leeway is 60 s, and its JSON form is that of an early draft.",
        _has(f"jws {_BOUND} ES384 EdDSA kb-alg times kb-times"),
    ),
    Library(
        "affinidi-sd-jwt", "0.1.8", "Rust", "affinidi",
        "`verify_with_kb_freshness`. Signatures and `alg` are its caller's: `jsonwebtoken` 9.3.1 checks them.",
        _has(f"{_BOUND} ES384 EdDSA {_HASHES} kb-alg kb-iat kb-past kb-future"),
    ),
    Library(
        "sd-jwt-payload", "0.5.1", "Rust", "payload",
        "`SdJwt::parse`, `into_presentation` and `into_disclosed_object`. Signatures, `alg`, times and the KB-JWT are "
        "its caller's: `jsonwebtoken` 9.3.1 checks the Issuer's signature.",
        _has("ES384 EdDSA"),
    ),
)  # fmt: skip
