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
    return frozenset(features.split()) | {"key-binding"}


_HASHES = "sha-384 sha-512"

LIBRARIES = (
    Library(
        "sdcard", "this one", "Python", "sdcard",
        "`verify_presentation` with the profile's defaults: the control.",
        _has(
            f"ES384 ES512 EdDSA ML-DSA-44 ML-DSA-65 ML-DSA-87 {_HASHES} kb-alg json-form "
            "audience times clock-skew kb-times kb-iat kb-past kb-future kb-audience"
        ),
        frozenset({"vct", "cnf", "aud", "nbf", "card_format"}),
    ),
    Library(
        "sd-jwt", "0.10.4", "Python", "sd_jwt",
        "`SDJWTVerifier` with audience and nonce. Its JSON form is that of an early draft.",
        _has("ES384 ES512 EdDSA kb-audience"),
    ),
    Library(
        "openvc-core", "1.37.0", "Python", "openvc",
        "`SdJwtVcProofSuite.verify` with `require_key_binding`.",
        _has(f"ES384 EdDSA {_HASHES} kb-alg audience times clock-skew kb-times kb-iat kb-past kb-audience"),
    ),
    Library(
        "pyeudiw", "2.2.0", "Python", "pyeudiw",
        "`SDJWTVerifier` with audience and nonce.",
        _has("ES384 ES512 json-form kb-alg times kb-audience"),
    ),
    Library(
        "polaris-oid4vp", "1.0.0", "Python", "polaris",
        "`verify_presentation` with `require_key_binding`, and `max_skew_seconds` as small as the vector allows.",
        _has("times clock-skew kb-times kb-iat kb-audience"),
    ),
    Library(
        "vouchkit", "0.0.2", "Python", "vouchkit",
        "`verify_sd_jwt_vc` with `require_key_binding`. Presentations are those of its test kit.",
        _has("times kb-audience"),
        frozenset({"iss", "iat", "exp", "nbf", "cnf", "vct", "aud"}),
    ),
    Library(
        "@sd-jwt/core", "0.19.0", "JavaScript", "core",
        "`SDJwtInstance.verify` with `currentDate`, `skewSeconds` and `keyBindingNonce`; signatures, digests and "
        "salts of `@sd-jwt/crypto-nodejs` 0.19.0 in its callbacks, which compare `alg` with the key.",
        _has(f"ES384 ES512 {_HASHES} kb-alg json-form times clock-skew"),
    ),
    Library(
        "@sd-jwt/sd-jwt-vc", "0.19.0", "JavaScript", "vc",
        "`SDJwtVcInstance.verify`, as `@sd-jwt/core`.",
        _has(f"ES384 ES512 {_HASHES} kb-alg json-form times clock-skew"),
    ),
    Library(
        "@meeco/sd-jwt", "1.2.1", "JavaScript", "meeco",
        "`verifySDJWT`, which implements draft 05, with callbacks as in its README: `jose` 6.2.18, with the key's "
        "algorithm alone, a maximum age, and comparisons of `typ`, `aud` and `nonce`. Callbacks do not see the SD-JWT.",
        _has(f"ES384 ES512 EdDSA {_HASHES} kb-alg times clock-skew kb-times kb-iat kb-audience"),
    ),
)  # fmt: skip
