"""The cases of the vectors, topic by topic.

Expected outcomes are written by hand, never taken from what our code answers.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from sdcard.cards.detect import read_card
from sdcard.disclosable import Disclosable, DisclosableArray, DisclosableObject, Treatment
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.issuer import Issuer, Validity, issue_sd_card
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.policy.model import DEFAULT_POLICY
from sdcard.policy.plan import plan_disclosure
from sdcard.profile import AGENT_SD_JWT_02, SD_CARD
from sdcard.rules import Rule
from sdcard.sdjwt.model import DigestAlgorithm, SdJwt, SdJwtWithKeyBinding, to_flattened, to_general
from vectors import agent_proofs, branches, certificates, crafted, domains, issuing, logs, spiffe_ids, tokens, written
from vectors.actors import (
    AUDIENCE,
    CARD_SIGNER,
    HOLDER,
    ISSUER,
    ISSUER_ID,
    NONCE,
    NOW,
    REMOVED,
    STRANGER,
    Actor,
    FixedSalts,
    bound,
    claim,
    claims,
    decoy,
    digest,
    element,
    header,
    jwt,
    kb_jwt,
    raw,
    resigned,
    sd_jwt,
    trust,
)
from vectors.case import RULES, Case, found, no, yes

UNBOUND: JsonObject = {"unbound": "the case is about something else"}
ANSWER: JsonObject = {"audience": AUDIENCE, "nonce": NONCE}
UNASKED: JsonObject = {"audience": AUDIENCE}
LIST = "https://registry.example/status/1"
BEYOND_DATES = {"above": 253_402_300_800, "below": -1, "1e300": 1e300, "minus-1e300": -1e300, "400-digits": 10**399}
"""Numbers outside the years 1970 to 9999, just and by far."""
OURS = ("sd-card",)
"""What a vector needs whose answer RFC 9901 and the RFCs beneath it leave open, or recommend at most."""

# -- SD-JWT: digests and Disclosures ----------------------------------------------------------------------------------

STREET, CITY = claim("street", "Main Street 1"), claim("city", "Springfield")


def accepted_sd_jwts() -> Iterator[Case]:
    """Vary Disclosures, and digests without one (RFC 9901 4.2 and 7.1)."""
    good = claims()
    two = sd_jwt(claims(_sd=sorted(map(digest, (STREET, CITY)))), STREET, CITY)
    both = {**good, "street": "Main Street 1", "city": "Springfield"}
    yield yes("object-claims", both, "two claims of an object", "RFC 9901 4.1.1, 4.2.1, R-12, R-16, R-62", two)
    turned = SdJwt(two.issuer_jwt, (CITY, STREET))
    yield yes("any-order", both, "Disclosures in another order than digests", "RFC 9901 7.1, R-50", turned)
    one = SdJwt(two.issuer_jwt, (CITY,))
    yield yes("withheld-claim", {**good, "city": "Springfield"}, "one of two claims", "RFC 9901 7.1, R-58, R-67", one)
    yield yes("nothing-disclosed", good, "no Disclosure at all", "RFC 9901 7.1, R-58", SdJwt(two.issuer_jwt, ()))
    yield yes("nothing-selective", good, "an SD-JWT without digests", "RFC 9901 4, R-2", sd_jwt(good))
    yield yes("empty-digest-list", good, "`_sd` is empty", "RFC 9901 4.2.4.1, R-26", sd_jwt(claims(_sd=[])))
    named = sd_jwt(claims(_sd_alg="sha-256", _sd=[digest(CITY)]), CITY)
    yield yes("named-sha-256", {**good, "city": "Springfield"}, "`_sd_alg` is removed", "RFC 9901 7.1, R-68", named)
    address = sd_jwt(claims(address={"_sd": [digest(CITY)], "country": "US"}), CITY)
    nested: JsonObject = {**good, "address": {"country": "US", "city": "Springfield"}}
    yield yes("nested-object", nested, "`_sd` in an inner object", "RFC 9901 4.2.4.1, R-25, R-56", address)
    emptied = sd_jwt(claims(address={"_sd": [digest(CITY)]}))
    yield yes("emptied-object", {**good, "address": {}}, "an emptied object stays", "RFC 9901 7.1, R-67", emptied)
    outer = claim("address", {"_sd": [digest(CITY)], "country": "US"})
    recursive = sd_jwt(claims(_sd=[digest(outer)]), outer, CITY)
    yield yes("recursive", nested, "a Disclosure that holds a digest", "RFC 9901 4.2.6, R-31, R-63", recursive)
    parent_only: JsonObject = {**good, "address": {"country": "US"}}
    alone = SdJwt(recursive.issuer_jwt, (outer,))
    yield yes("recursive-parent-only", parent_only, "the parent without its child", "RFC 9901 7.1, R-58", alone)
    hidden: list[JsonValue] = ["DE", None, {}, "FR"]
    elements = [element(value, number) for number, value in enumerate(hidden)]
    places: list[JsonValue] = ["US"]
    places += [{"...": digest(one)} for one in elements]
    array = sd_jwt(claims(nationalities=places), *elements[:3])
    shown: JsonObject = {**good, "nationalities": ["US", "DE", None, {}]}
    yield yes(
        "array-elements", shown, "null and {} stay, a withheld element vanishes", "RFC 9901 7.1, R-65, R-66", array
    )
    deep = element({"_sd": [digest(CITY)], "inner": [{"...": digest(elements[0])}]}, 9)
    mixed = sd_jwt(claims(places=[{"...": digest(deep)}]), deep, CITY, elements[0])
    inside: JsonObject = {**good, "places": [{"inner": ["DE"], "city": "Springfield"}]}
    yield yes(
        "recursive-array",
        inside,
        "objects and arrays in a disclosed element",
        "RFC 9901 4.2.6, 7.1, R-31, R-56, R-63",
        mixed,
    )
    blurred = sd_jwt(claims(_sd=[decoy(), digest(CITY)], list=[1, {"...": decoy("d2")}]), CITY)
    rest: JsonObject = {**good, "list": [1], "city": "Springfield"}
    yield yes("decoys", rest, "decoys in an object and an array", "RFC 9901 4.2.5, R-29, R-58", blurred)
    spaced = raw(' [ "salt" ,\r\n\t"c\\u0069ty" , "Spr\\u0069ngfield" ] ')
    free = sd_jwt(claims(_sd=[digest(spaced)]), spaced)
    yield yes("free-spelling", {**good, "city": "Springfield"}, "white space and escapes", "RFC 9901 4.2.1, R-21", free)
    values: JsonValue = [2**70, -0.5, 1.0, 1, True, None, "ü \U0001f600", {"": []}]
    kept = claim("values", values)
    every = sd_jwt(claims(_sd=[digest(kept)]), kept)
    yield yes("every-json-type", {**good, "values": values}, "values are kept exactly", "RFC 9901 4.2.1, R-19", every)


def refused_sd_jwts() -> Iterator[Case]:
    """RFC 9901 7.1, steps 3 to 5."""
    at, step3 = "disclosure/0", "RFC 9901 7.1 step 3"
    city = [digest(CITY)]

    def one(disclosure: str) -> SdJwt:
        return sd_jwt(claims(_sd=[digest(disclosure)]), disclosure)

    def placed(disclosure: str) -> SdJwt:
        return sd_jwt(claims(list=[{"...": digest(disclosure)}]), disclosure)

    for name in ("SHA-256", "sha-256-64", "sha256", "md5"):
        document = sd_jwt(claims(_sd_alg=name, _sd=city), CITY)
        yield no(f"sd-alg-{name.lower() if name != 'SHA-256' else 'upper-case'}", Rule.SD_ALG, "issuer-jwt/_sd_alg",
                 f"`_sd_alg` is {name}", "RFC 9901 4.1.1, R-13, R-54", document)  # fmt: skip
    yield no("sd-alg-null", Rule.SD_ALG, "issuer-jwt/_sd_alg", "`_sd_alg` is null", "RFC 9901 4.1.1, R-13, R-54",
             sd_jwt(claims(_sd_alg=None)))  # fmt: skip
    yield no("sd-alg-nested", Rule.SD_RESERVED_NAME, "issuer-jwt/address", "`_sd_alg` in an inner object",
             "RFC 9901 4.1.1, R-11", sd_jwt(claims(address={"_sd_alg": "sha-256"})), needs=OURS)  # fmt: skip
    yield no("sd-alg-in-disclosure", Rule.SD_RESERVED_NAME, at, "`_sd_alg` in a disclosed value",
             "RFC 9901 4.1.1, R-11", one(claim("address", {"_sd_alg": "sha-256"})), needs=OURS)  # fmt: skip
    for name, value in {"string": digest(CITY), "number-in-it": [*city, 1], "null": None}.items():
        yield no(f"digest-list-{name}", Rule.SD_DIGEST_LIST, "issuer-jwt", "`_sd` is no array of strings",
                 "RFC 9901 4.2.4.1, R-25", sd_jwt(claims(_sd=value)), needs=OURS)  # fmt: skip
    for name, member in {"with-company": {"...": digest(CITY), "a": 1}, "number": {"...": 5}}.items():
        yield no(f"placeholder-{name}", Rule.SD_PLACEHOLDER, "issuer-jwt/list/0", "no placeholder of the right shape",
                 "RFC 9901 4.2.4.2, R-28", sd_jwt(claims(list=[member])), needs=OURS)  # fmt: skip
    yield no("placeholder-outside-array", Rule.SD_PLACEHOLDER, "issuer-jwt/a", "`...` in an object that is no element",
             "RFC 9901 4.1, R-7", sd_jwt(claims(a={"...": digest(CITY)})), needs=OURS)  # fmt: skip
    twice = "RFC 9901 7.1 step 4, R-8, R-69"
    yield no("digest-twice", Rule.DIGEST_REPEATED, "issuer-jwt", "one digest twice in `_sd`", twice,
             sd_jwt(claims(_sd=city * 2), CITY))  # fmt: skip
    yield no("decoy-twice", Rule.DIGEST_REPEATED, "issuer-jwt", "a digest without a Disclosure, at two levels", twice,
             sd_jwt(claims(a={"_sd": [decoy()]}, _sd=[decoy()])))  # fmt: skip
    outer = claim("address", {"_sd": [digest(CITY)]})
    yield no("digest-twice-recursive", Rule.DIGEST_REPEATED, "disclosure/1", "in the payload and in a Disclosure",
             twice, sd_jwt(claims(_sd=[digest(CITY), digest(outer)]), CITY, outer))  # fmt: skip
    shapes = {"one-element": ('["salt"]', "R-22"), "four-elements": ('["salt","a",1,2]', "R-16"),
              "number-as-salt": ('[1,"a",1]', "R-17"), "number-as-name": ('["salt",1,1]', "R-18, R-60"),
              "object": ('{"a":1}', "R-16, R-22"), "string": ('"salt"', "R-16, R-22")}  # fmt: skip
    for name, (text, row) in shapes.items():
        yield no(f"disclosure-{name}", Rule.DISCLOSURE_FORMAT, at, "no array of a salt, perhaps a name, and a value",
                 f"RFC 9901 4.2.1, 4.2.2, {row}", one(raw(text)),
                 needs=OURS if name == "number-as-salt" else ())  # fmt: skip
    yield no("element-as-claim", Rule.DISCLOSURE_KIND, at, "two elements, and the digest in `_sd`",
             f"{step3}, R-59", one(element("x")))  # fmt: skip
    yield no("claim-as-element", Rule.DISCLOSURE_KIND, at, "three elements, and the digest in an array",
             f"{step3}, R-64", placed(CITY))  # fmt: skip
    for name, reserved in {"sd": "_sd", "ellipsis": "...", "sd-alg": "_sd_alg"}.items():
        yield no(f"disclosed-name-{name}", Rule.DISCLOSURE_NAME, at, f"a Disclosure of the claim `{reserved}`",
                 f"{step3}, R-11, R-18, R-60", one(claim(reserved, [])),
                 needs=OURS if name == "sd-alg" else ())  # fmt: skip
    yield no("claim-in-clear-too", Rule.DISCLOSURE_COLLISION, at, "the disclosed claim is in the clear too",
             f"{step3}, R-61", one(claim("name", "Other")))  # fmt: skip
    first, second = claim("city", "Springfield"), raw('["other","city","Shelbyville"]')
    pair = sd_jwt(claims(_sd=[digest(first), digest(second)]), first, second)
    yield no("claim-disclosed-twice", Rule.DISCLOSURE_COLLISION, "disclosure/1", "two Disclosures of one claim",
             f"{step3}, R-61", pair)  # fmt: skip
    yield no("disclosure-twice", Rule.DISCLOSURE_REPEATED, "disclosure/1", "one Disclosure sent twice",
             "RFC 9901 4, 7.1 step 5, R-70, R-78", sd_jwt(claims(_sd=city), CITY, CITY), needs=OURS)  # fmt: skip
    step5 = "RFC 9901 7.1 step 5, R-70"
    yield no("disclosure-foreign", Rule.DISCLOSURE_UNREFERENCED, "disclosure/1", "of another SD-JWT", step5,
             sd_jwt(claims(_sd=city), CITY, STREET))  # fmt: skip
    yield no("disclosure-tampered", Rule.DISCLOSURE_UNREFERENCED, at, "another value than the Issuer's", step5,
             sd_jwt(claims(_sd=city), claim("city", "Shelbyville")))  # fmt: skip
    yield no("disclosure-orphan", Rule.DISCLOSURE_UNREFERENCED, at, "a child whose parent is not there", step5,
             sd_jwt(claims(_sd=[digest(outer)]), CITY))  # fmt: skip
    respelt = raw(json.dumps(["salt", "city", "Springfield"]))
    other = raw('["salt","city","Springfield"]')
    yield no("disclosure-respelt", Rule.DISCLOSURE_UNREFERENCED, at, "the same JSON in another spelling",
             "RFC 9901 4.2.3, R-21, R-23, R-55", sd_jwt(claims(_sd=[digest(respelt)]), other))  # fmt: skip
    hexadecimal = hashlib.sha256(CITY.encode()).hexdigest()
    yield no("digest-in-hex", Rule.DISCLOSURE_UNREFERENCED, at, "the digest is hexadecimal",
             "RFC 9901 4.2.3, R-24", sd_jwt(claims(_sd=[hexadecimal]), CITY))  # fmt: skip
    good = sd_jwt(claims(_sd=city), CITY)
    yield no("no-tilde", Rule.SD_JWT_FORMAT, "presentation", "a JWT without a final `~`", "RFC 9901 4, R-2",
             good.issuer_jwt)  # fmt: skip
    yield no("empty-text", Rule.SD_JWT_FORMAT, "presentation", "nothing at all", "RFC 9901 4, R-1", "")
    yield no("empty-disclosure", Rule.BASE64URL, at, "`~~`", "RFC 9901 4, R-5", f"{good.issuer_jwt}~~{CITY}~")


# -- JWS: the Issuer-signed JWT ---------------------------------------------------------------------------------------


def jws() -> Iterator[Case]:
    """RFC 9901 7.1 step 2; RFC 7515; RFC 8725."""
    good, good_jwt = claims(), jwt(claims())
    foreign = header(jwk=STRANGER.jwk)
    kid = header(kid=REMOVED)
    yield yes("no-kid", good, "no `kid`, and the Issuer has one key", "RFC 7515 4.1.4", f"{jwt(good, kid)}~")
    extra = header(cty="x", custom={"a": 1}, jku="https://attacker.example/jwks", x5u="https://attacker.example")
    yield yes("other-parameters", good, "parameters that are never looked at", "RFC 8725 3.10, JWK-13",
              f"{jwt(good, extra)}~")  # fmt: skip
    for part in ("", ".", f"{good_jwt}.x", good_jwt.rpartition(".")[0] + "."):
        number = part.count(".") if part else 9
        yield no({9: "no-jwt", 1: "one-dot", 3: "four-parts", 2: "no-signature"}[number], Rule.JWS_FORMAT, "issuer-jwt",
                 "not three parts that are not empty", "RFC 7515 7.1, R-5", f"{part}~")  # fmt: skip
    for name in ("alg", "typ", "kid"):
        yield no(f"{name}-number", Rule.JWS_HEADER, f"issuer-header/{name}", f"`{name}` is a number",
                 "RFC 7515 4.1", f"{jwt(good, header(**{name: 1}))}~")  # fmt: skip
    alg = "issuer-header/alg"
    for name in ("none", "HS256", "RS256", "ES384", "es256", "EdDSA"):
        spelling = "lower-case" if name == "es256" else name.lower()
        yield no(f"alg-{spelling}", Rule.JWS_ALG, alg, f"`alg` is {name}, the key is of ES256",
                 "RFC 9901 7.1 step 2.a, R-6, R-51; RFC 8725 3.1", f"{jwt(good, header(alg=name))}~")  # fmt: skip
    yield no("alg-absent", Rule.JWS_ALG, alg, "no `alg`", "RFC 7515 4.1.1", f"{jwt(good, header(alg=REMOVED))}~")
    yield no("b64-alone", Rule.JWS_CRIT, "issuer-header/b64", "`b64` without `crit`", "RFC 7797 6, R-52, JWK-9",
             f"{jwt(good, header(b64=False))}~", needs=OURS)  # fmt: skip
    for name, value in {"unknown": ["exp"], "empty": [], "b64": ["b64"]}.items():
        yield no(f"crit-{name}", Rule.JWS_CRIT, "issuer-header/crit", "`crit` with nothing that is understood",
                 "RFC 7515 4.1.11, R-52, JWK-9", f"{jwt(good, header(crit=value, b64=True))}~",
                 needs=OURS if name == "b64" else ())  # fmt: skip
    for name, typ in {
        "jwt": "JWT",
        "kb-jwt": "kb+jwt",
        "absent": REMOVED,
        "media-type": "application/dc+sd-jwt",
    }.items():
        yield no(f"typ-{name}", Rule.JWS_TYP, "issuer-header/typ", "the token is of another type",
                 "RFC 8725 3.11, R-9, VC-1", f"{jwt(good, header(typ=typ))}~", needs=OURS)  # fmt: skip
    at, section = "issuer-jwt/signature", "RFC 9901 7.1 step 2.b, R-52"
    signing_input, _, text = good_jwt.rpartition(".")
    message = signing_input.encode()
    genuine = ISSUER.sign(message)
    r, s = genuine[:32], genuine[32:]
    flipped = bytes((*genuine[:10], genuine[10] ^ 1, *genuine[11:]))
    bad = {"flipped": flipped, "der": ISSUER.der(message), "short": genuine[:-1], "long": genuine + b"\0",
           "zero": bytes(64), "s-above-order": r + b"\xff" * 32, "halves-swapped": s + r,
           "by-another-key": STRANGER.sign(message)}  # fmt: skip
    for name, signature in bad.items():
        yield no(f"signature-{name}", Rule.JWS_SIGNATURE, at, "not this key's signature in JOSE form",
                 f"{section}; RFC 7518 3.4, JWK-8", f"{resigned(good_jwt, signature)}~")  # fmt: skip
    yield no("payload-changed", Rule.JWS_SIGNATURE, at, "another payload than the signed one", section,
             f"{'.'.join((signing_input.split('.')[0], raw(encode_json(claims(name='Other'))), text))}~")  # fmt: skip
    yield no("header-jwk", Rule.JWS_SIGNATURE, at, "signed with the key in the header",
             "RFC 8725 3.10, R-53, JWK-13", f"{jwt(good, foreign, STRANGER)}~")  # fmt: skip


def trusted() -> Iterator[Case]:
    """RFC 9901 7.1 step 2.c; RFC 7517."""
    good = sd_jwt(claims())
    here: JsonObject = {**ISSUER.jwk, "kid": ISSUER.public_key.thumbprint}

    def keys(*entries: JsonValue) -> JsonObject:
        return {"issuers": {ISSUER_ID: {"keys": list(entries)}}}

    yield yes("two-keys", claims(), "`kid` chooses among the Issuer's keys", "RFC 7515 4.1.4", good,
              trust=trust(STRANGER, ISSUER))  # fmt: skip
    rsa: JsonObject = {"kty": "RSA", "n": "AQAB", "e": "AQAB", "kid": "rsa"}
    unusable: dict[str, JsonValue] = {
        "without-y": {**STRANGER.jwk, "y": None, "kid": "b"},
        "with-padding": {**STRANGER.jwk, "x": f"{STRANGER.jwk['x']}=", "kid": "b"},
        "akp-without-alg": {"kty": "AKP", "pub": "AAAA", "kid": "b"},
        "for-encryption-of-its-kid": {**STRANGER.jwk, "use": "enc", "kid": here["kid"]},
        "the-same-again": {**here, "use": "sig"},
        "private": {**STRANGER.jwk, "d": "bm90IGEgcmVhbCBvbmU", "kid": "b"},
        "no-object": "key",
    }
    for name, beside in unusable.items():
        yield yes(f"unusable-beside-{name}", claims(), "an entry that cannot be used leaves the others",
                  "RFC 7517 4.5, 5, JWK-5", good, trust=keys(beside, here), needs=OURS)  # fmt: skip
    spoilt: JsonObject = {"issuers": {"https://other.example": {"keys": {}}, ISSUER_ID: {"keys": [here]}}}
    yield yes("issuer-unusable-beside", claims(), "an Issuer that cannot be used leaves the others", "trust", good,
              trust=spoilt, needs=OURS)  # fmt: skip
    yield yes("unknown-kind-of-key", claims(), "a key of an unknown kind is left out", "RFC 7517 5, JWK-5", good,
              trust=keys(rsa, here))  # fmt: skip
    yield no("issuer-unknown", Rule.ISSUER_UNKNOWN, "issuer-jwt/iss", "an Issuer that nobody trusts",
             "RFC 9901 7.1 step 2.c, R-53", sd_jwt(claims(iss="https://rogue.example")))  # fmt: skip
    yield no("issuer-with-slash", Rule.ISSUER_UNKNOWN, "issuer-jwt/iss", "`iss` is compared exactly", "RFC 7519 4.1.1",
             sd_jwt(claims(iss=f"{ISSUER_ID}/")))  # fmt: skip
    yield no("issuer-absent", Rule.ISSUER_UNKNOWN, "issuer-jwt/iss", "no `iss`", "RFC 9901 7.1 step 2.c, R-53",
             sd_jwt(claims(iss=REMOVED)), needs=OURS)  # fmt: skip
    at = "issuer-header/kid"
    yield no("key-unknown", Rule.ISSUER_KEY_UNKNOWN, at, "the Issuer has no key of this `kid`",
             "RFC 9901 7.1 step 2.c, JWK-4", good, trust=trust(STRANGER))  # fmt: skip
    yield no("no-kid-two-keys", Rule.ISSUER_KEY_UNKNOWN, at, "keys are not tried one after another", "JWK-4",
             f"{jwt(claims(), header(kid=REMOVED))}~", trust=trust(STRANGER, ISSUER), needs=OURS)  # fmt: skip
    two: JsonObject = {"issuers": {ISSUER_ID: {"keys": [STRANGER.jwk]}, "https://other.example": {"keys": [here]}}}
    yield no("key-of-another-issuer", Rule.ISSUER_KEY_UNKNOWN, at, "a key speaks for its own Issuer only",
             "RFC 9901 7.1 step 2.c, R-53", good,
             trust=two)  # fmt: skip
    yield no("no-issuers", Rule.TRUST_MALFORMED, "trust", "a trust document without Issuers", "trust", good,
             trust={"issuers": {}})  # fmt: skip
    yield yes("expires-later", claims(), "a trust document that expires in a second", "trust",
              good, trust=trust() | {"exp": NOW + 1})  # fmt: skip
    yield no("expired", Rule.TRUST_EXPIRED, "trust/exp", "a trust document that has expired", "trust", good,
             trust=trust() | {"exp": NOW}, needs=OURS)  # fmt: skip
    yield no("exp-text", Rule.CLAIM_TYPE, "trust/exp", "a trust document whose `exp` is text", "trust", good,
             trust=trust() | {"exp": str(NOW)}, needs=OURS)  # fmt: skip
    yield yes("exp-last", claims(), "a trust document until the last second of 9999", "trust", good,
              trust=trust() | {"exp": 253_402_300_799})  # fmt: skip
    for kind, value in BEYOND_DATES.items():
        yield no(f"exp-{kind}", Rule.CLAIM_VALUE, "trust/exp", "a trust document whose `exp` is beyond the years of "
                 "dates", "trust", good, trust=trust() | {"exp": value}, needs=OURS)  # fmt: skip
    first = f"trust/issuers/{ISSUER_ID}/keys"
    yield no("kid-twice", Rule.TRUST_MALFORMED, f"{first}/1/kid", "two keys of one `kid`", "RFC 7517 4.5, JWK-4", good,
             trust=keys(here, {**STRANGER.jwk, "kid": here["kid"]}), needs=OURS)  # fmt: skip
    yield no("private-key", Rule.KEY_PRIVATE, f"{first}/0", "a private member in a public document", "JWK-6", good,
             trust=keys({**here, "d": "bm90IGEgcmVhbCBvbmU"}), needs=OURS)  # fmt: skip
    faults: dict[str, tuple[str, JsonObject]] = {
        "off-curve": ("", {"y": here["x"]}),
        "long-x": ("/x", {"x": f"AAAA{here['x']}"}),
        "no-y": ("/y", {"y": None}),
    }
    for name, (place, change) in faults.items():
        yield no(f"key-{name}", Rule.KEY_MALFORMED, f"{first}/0{place}", "no point of the curve", "JWK-1, JWK-2", good,
                 trust=keys({**here, **change}))  # fmt: skip


# -- times ------------------------------------------------------------------------------------------------------------


def times() -> Iterator[Case]:
    """Vary times around each bound, by one second (RFC 7519 4.1.4 to 4.1.6)."""
    for name, change, rule, skew in (
        ("exp-1-after-now", {"exp": NOW + 1}, None, 0),
        ("exp-now", {"exp": NOW}, Rule.EXPIRED, 0),
        ("exp-1-before-now", {"exp": NOW - 1}, Rule.EXPIRED, 0),
        ("exp-fraction", {"exp": NOW + 0.5}, None, 0),
        ("exp-within-skew", {"exp": NOW - 59}, None, 60),
        ("exp-at-skew", {"exp": NOW - 60}, Rule.EXPIRED, 60),
        ("nbf-1-before-now", {"nbf": NOW - 1}, None, 0),
        ("nbf-now", {"nbf": NOW}, None, 0),
        ("nbf-1-after-now", {"nbf": NOW + 1}, Rule.NOT_YET_VALID, 0),
        ("nbf-at-skew", {"nbf": NOW + 60}, None, 60),
        ("nbf-beyond-skew", {"nbf": NOW + 61}, Rule.NOT_YET_VALID, 60),
        ("iat-now", {"iat": NOW}, None, 0),
        ("iat-1-after-now", {"iat": NOW + 1}, Rule.ISSUED_IN_FUTURE, 0),
        ("iat-at-skew", {"iat": NOW + 60}, None, 60),
    ):
        expectations: JsonObject = {"clock_skew": skew} if skew else {}
        claim_name = next(iter(change))
        case = (f"{claim_name} {change[claim_name] - NOW:+} s, clock skew {skew} s", "RFC 7519 4.1, R-71, JWK-12",
                sd_jwt(claims(**change)))  # fmt: skip
        if rule:
            needs = OURS if claim_name == "iat" else ()
            yield no(name, rule, f"issuer-jwt/{claim_name}", *case, expectations=expectations, needs=needs)
        else:
            yield yes(name, claims(**change), *case, expectations=expectations)
    for name in ("exp", "nbf", "iat"):
        for kind, value in {"string": str(NOW), "true": True, "null": None}.items():
            yield no(f"{name}-{kind}", Rule.CLAIM_TYPE, f"issuer-jwt/{name}", f"`{name}` is no number",
                     "RFC 7519 2, JWK-12", sd_jwt(claims(**{name: value})),
                     needs=OURS if name == "iat" else ())  # fmt: skip
    yield from _bounds_of_dates()
    yield from _lifetimes()


def _bounds_of_dates() -> Iterator[Case]:
    """Vary a NumericDate at and beyond the years 1970 and 9999."""
    standard, last = "RFC 7519 2", 253_402_300_799
    yield yes("exp-last", claims(exp=last), "`exp` is the last second of 9999", standard, sd_jwt(claims(exp=last)))
    yield yes("nbf-first", claims(nbf=0), "`nbf` is the first second of 1970", standard, sd_jwt(claims(nbf=0)))
    yield yes("iat-first", claims(iat=0), "`iat` is the first second of 1970", standard, sd_jwt(claims(iat=0)))
    yield no("exp-first", Rule.EXPIRED, "issuer-jwt/exp", "`exp` is the first second of 1970", standard,
             sd_jwt(claims(exp=0)))  # fmt: skip
    yield no("nbf-last", Rule.NOT_YET_VALID, "issuer-jwt/nbf", "`nbf` is the last second of 9999", standard,
             sd_jwt(claims(nbf=last)))  # fmt: skip
    yield no("iat-last", Rule.ISSUED_IN_FUTURE, "issuer-jwt/iat", "`iat` is the last second of 9999", standard,
             sd_jwt(claims(iat=last)), needs=OURS)  # fmt: skip
    for name in ("exp", "nbf", "iat"):
        for kind, value in BEYOND_DATES.items():
            yield no(f"{name}-{kind}", Rule.CLAIM_VALUE, f"issuer-jwt/{name}", f"`{name}` is beyond the years of dates",
                     standard, sd_jwt(claims(**{name: value})), needs=OURS)  # fmt: skip


def _lifetimes() -> Iterator[Case]:
    """Vary the longest accepted time from ``iat`` to ``exp``."""
    hour = claims(iat=NOW - 600, exp=NOW + 3_000)
    for name, longest in {"at": 3_600, "below": 3_601}.items():
        yield yes(f"lifetime-{name}", hour, f"an SD-JWT of an hour, where {longest} s are accepted", "policy",
                  sd_jwt(hour), expectations={"max_lifetime": longest})  # fmt: skip
    yield no("lifetime-above", Rule.LIFETIME, "issuer-jwt/exp", "an SD-JWT of an hour, where 3599 s are accepted",
             "policy", sd_jwt(hour), expectations={"max_lifetime": 3_599}, needs=OURS)  # fmt: skip


# -- key binding ------------------------------------------------------------------------------------------------------


def key_bindings() -> Iterator[Case]:
    """RFC 9901 4.3 and 7.3. The Verifier's decision stands before it looks."""
    shown, good = sd_jwt(claims(_sd=sorted(map(digest, (STREET, CITY)))), CITY), {**claims(), "city": "Springfield"}
    section = "RFC 9901 7.3 step 5"

    def accepted(name: str, about: str, standard: str, document: str, key_binding: JsonObject = ANSWER) -> Case:
        needs = () if "nonce" in key_binding else ("unsolicited",)
        return yes(name, good, about, standard, document, key_binding=key_binding, needs=needs)

    def refused(name: str, rule: Rule, where: str, about: str, standard: str, document: str, **more: Any) -> Case:
        place = f"kb-{where}" if where.startswith(("jwt", "header")) else where
        return no(name, rule, place, about, standard, document, **{"key_binding": ANSWER, **more})

    yield accepted("answer", "an answer to the challenge", f"{section}, R-84 to R-94", bound(shown))
    yield accepted("unsolicited", "the Holder chose the nonce", "RFC 9901 7.3, R-90", bound(shown, nonce="x"), UNASKED)
    yield refused("unsolicited-agent-proof", Rule.KB_PURPOSE, "jwt/nonce", "a nonce for a called agent",
                  "SD-Card 5.2", bound(shown, nonce="agent-proof.x"), key_binding=UNASKED,
                  needs=(*OURS, "unsolicited"))  # fmt: skip
    yield accepted("extra-claims", "claims that nobody asked for", "RFC 9901 4.3, R-48",
                   bound(shown, interaction_id="i", exp=NOW + 1, nbf=NOW, extra={"a": 1}))  # fmt: skip
    yield accepted("interaction", "the interaction that was asked for", "SD-Card 5.2.2",
                   bound(shown, interaction_id="i-1"), {**ANSWER, "interaction_id": "i-1"})  # fmt: skip
    for name, moved in {"oldest": -300, "newest": 60, "fraction": -0.5}.items():
        yield accepted(f"iat-{name}", f"created {moved} s from now", f"{section}.e, R-89",
                       bound(shown, iat=NOW + moved))  # fmt: skip
    yield accepted("narrow-window", "as old as a narrower window allows", f"{section}.e, R-89",
                   bound(shown, iat=NOW - 10), {**ANSWER, "past": 10, "future": 0})  # fmt: skip
    yield refused("missing", Rule.KB_MISSING, "presentation", "a KB-JWT is demanded, none is there",
                  "RFC 9901 7.3 step 2, R-82", str(shown))  # fmt: skip
    yield refused("missing-unsolicited", Rule.KB_MISSING, "presentation", "the same without a challenge",
                  "RFC 9901 7.3 step 2, R-82", str(shown), key_binding=UNASKED, needs=("unsolicited",))  # fmt: skip
    yield refused("unexpected", Rule.KB_UNEXPECTED, "jwt", "a KB-JWT is there, none is expected",
                  "RFC 9901 7.3, R-3, R-93", bound(shown), key_binding=UNBOUND, needs=OURS)  # fmt: skip
    freshness = f"{section}.e, R-89"
    yield refused("stale", Rule.KB_STALE, "jwt/iat", "created 301 s ago", freshness, bound(shown, iat=NOW - 301))
    yield refused("from-future", Rule.KB_FROM_FUTURE, "jwt/iat", "created in 61 s", freshness,
                  bound(shown, iat=NOW + 61))  # fmt: skip
    for kind, iat in BEYOND_DATES.items():
        yield refused(f"iat-{kind}", Rule.CLAIM_VALUE, "jwt/iat", "`iat` is beyond the years of dates", "RFC 7519 2",
                      bound(shown, iat=iat), needs=OURS)  # fmt: skip
    for claim_name in ("exp", "nbf"):
        yield refused(f"{claim_name}-1e300", Rule.CLAIM_VALUE, f"jwt/{claim_name}",
                      f"`{claim_name}` is beyond the years of dates", "RFC 7519 2",
                      bound(shown, **{claim_name: 1e300}), needs=OURS)  # fmt: skip
    yield refused("stale-narrow", Rule.KB_STALE, "jwt/iat", "too old for a narrower window", freshness,
                  bound(shown, iat=NOW - 11), key_binding={**ANSWER, "past": 10})  # fmt: skip
    yield refused("nonce", Rule.KB_NONCE, "jwt/nonce", "an answer to another challenge", f"{section}.f, R-90",
                  bound(shown, nonce="another"))  # fmt: skip
    longest = "\U0001f511" * 256
    yield yes("nonce-longest", good, "a nonce of 256 characters", f"{section}.f", bound(shown, nonce=longest),
              key_binding={**ANSWER, "nonce": longest}, needs=OURS)  # fmt: skip
    yield refused("nonce-too-long", Rule.CLAIM_VALUE, "jwt/nonce", "a nonce that no record can keep", f"{section}.f",
                  bound(shown, nonce="n" * 257), key_binding=UNASKED, needs=(*OURS, "unsolicited"))  # fmt: skip
    yield refused("audience", Rule.KB_AUDIENCE, "jwt/aud", "for another Verifier", f"{section}.f, R-90",
                  bound(shown, aud="https://other.example"))  # fmt: skip
    yield refused("audience-with-slash", Rule.KB_AUDIENCE, "jwt/aud", "`aud` is compared exactly",
                  f"{section}.f, R-90", bound(shown, aud=f"{AUDIENCE}/"))  # fmt: skip
    yield refused("audience-array", Rule.CLAIM_TYPE, "jwt/aud", "`aud` is an array", "RFC 9901 4.3, R-44",
                  bound(shown, aud=[AUDIENCE]))  # fmt: skip
    answer = kb_jwt(shown)
    others = {
        "disclosure-added": SdJwt(shown.issuer_jwt, (CITY, STREET)),
        "disclosure-dropped": SdJwt(shown.issuer_jwt, ()),
    }
    for name, other in others.items():
        yield refused(name, Rule.KB_SD_HASH, "jwt/sd_hash", "the KB-JWT was made for other Disclosures",
                      f"{section}.g, R-91", f"{other}{answer}")  # fmt: skip
    both = SdJwt(shown.issuer_jwt, (CITY, STREET))
    turned = SdJwt(shown.issuer_jwt, (STREET, CITY))
    yield refused("disclosures-reordered", Rule.KB_SD_HASH, "jwt/sd_hash", "the same Disclosures in another order",
                  f"{section}.g, R-46, R-91", f"{turned}{kb_jwt(both)}")  # fmt: skip
    yield refused("sd-hash-without-tilde", Rule.KB_SD_HASH, "jwt/sd_hash", "`sd_hash` leaves the last `~` out",
                  "RFC 9901 4.3.1, R-46", bound(shown, sd_hash=digest(str(shown)[:-1])))  # fmt: skip
    long = sd_jwt(claims(_sd_alg="sha-512"))
    yield refused("sd-hash-fixed-sha-256", Rule.KB_SD_HASH, "jwt/sd_hash", "sha-256, and `_sd_alg` is sha-512",
                  "RFC 9901 4.3.1, R-47", bound(long), needs=("sha-512",))  # fmt: skip
    yield refused("interaction-other", Rule.KB_INTERACTION, "jwt/interaction_id", "of another interaction",
                  "SD-Card 5.2.2", bound(shown, interaction_id="i-2"),
                  key_binding={**ANSWER, "interaction_id": "i-1"}, needs=OURS)  # fmt: skip
    yield refused("interaction-absent", Rule.KB_INTERACTION, "jwt/interaction_id", "of no interaction",
                  "SD-Card 5.2.2", bound(shown), key_binding={**ANSWER, "interaction_id": "i-1"},
                  needs=OURS)  # fmt: skip
    yield refused("replayed", Rule.KB_REPLAYED, "jwt/nonce", "the challenge was answered before", "RFC 9901 9.5, R-90",
                  bound(shown), key_binding={**ANSWER, "answered": True}, needs=OURS)  # fmt: skip
    yield refused("replayed-unsolicited", Rule.KB_REPLAYED, "jwt/nonce", "the Holder's nonce was used before",
                  "RFC 9901 9.5, R-90", bound(shown, nonce="x"), key_binding={**UNASKED, "seen": ["w", "x"]},
                  needs=(*OURS, "unsolicited"))  # fmt: skip
    for name, typ in {
        "jwt": "JWT",
        "absent": REMOVED,
        "issuer": SD_CARD.typ,
        "media-type": "application/kb+jwt",
    }.items():
        yield refused(f"typ-{name}", Rule.JWS_TYP, "header/typ", "`typ` is not kb+jwt", f"{section}.d, R-41, R-88",
                      bound(shown, {"typ": typ}))  # fmt: skip
    for name in ("none", "HS256", "ES384"):
        yield refused(f"alg-{name.lower()}", Rule.JWS_ALG, "header/alg", f"`alg` is {name}, the key is of ES256",
                      f"{section}.b, R-42, R-86", bound(shown, {"alg": name}))  # fmt: skip
    yield refused("alg-none-unsigned", Rule.JWS_FORMAT, "jwt", "`alg` is none, no signature", f"{section}.b, R-42",
                  bound(shown, {"alg": "none"}).rpartition(".")[0] + ".")  # fmt: skip
    yield refused("crit", Rule.JWS_CRIT, "header/crit", "`crit` in the KB-JWT", "RFC 7515 4.1.11, JWK-9",
                  bound(shown, {"crit": ["x"], "x": 1}))  # fmt: skip
    yield refused("another-key", Rule.JWS_SIGNATURE, "jwt/signature", "signed with another key than in `cnf`",
                  f"{section}.c, R-87", bound(shown, None, STRANGER))  # fmt: skip
    yield refused("header-jwk", Rule.JWS_SIGNATURE, "jwt/signature", "the key in the header counts for nothing",
                  "RFC 9901 4.3.2, R-49", bound(shown, {"jwk": STRANGER.jwk}, STRANGER))  # fmt: skip
    yield refused("issuers-key", Rule.JWS_SIGNATURE, "jwt/signature", "the Issuer's key is not the Holder's",
                  f"{section}.c, R-87", bound(shown, None, ISSUER))  # fmt: skip
    for name, row in {"iat": "R-43", "nonce": "R-45", "aud": "R-44", "sd_hash": "R-46"}.items():
        yield refused(f"no-{name.replace('_', '-')}", Rule.CLAIM_MISSING, f"jwt/{name}", f"no `{name}`",
                      f"RFC 9901 4.3, {row}", bound(shown, **{name: REMOVED}))  # fmt: skip
        yield refused(f"{name.replace('_', '-')}-type", Rule.CLAIM_TYPE, f"jwt/{name}", f"`{name}` has another type",
                      f"RFC 9901 4.3, {row}", bound(shown, **{name: ["x"]}))  # fmt: skip
    yield refused("exp", Rule.EXPIRED, "jwt/exp", "the KB-JWT has expired", f"{section}.h, R-92",
                  bound(shown, exp=NOW))  # fmt: skip
    yield refused("nbf", Rule.NOT_YET_VALID, "jwt/nbf", "the KB-JWT is not valid yet", f"{section}.h, R-92",
                  bound(shown, nbf=NOW + 1))  # fmt: skip
    text = bound(shown)
    yield refused("tilde-after-kb-jwt", Rule.KB_MISSING, "presentation", "the KB-JWT stands among the Disclosures",
                  "RFC 9901 4, R-1, R-4", f"{text}~")  # fmt: skip


# -- SD-Card ----------------------------------------------------------------------------------------------------------


PRIME = "_____wAAAAEAAAAAAAAAAAAAAAD_______________8"
BESIDE_0, BESIDE_5 = "ZkhceA4vg9ckM71dhKBrtlQcKvMdrocXKL-FahdPk_Q", "1zJddkbNYNgKknOM6zRfhEz_rzWEECLKsXb2kt6N4dc"
"""P-256's prime; the `y` of the point whose `x` is 0, and the `x` of a point whose `y` is 5."""


def sd_cards() -> Iterator[Case]:
    """Make cases beyond RFC 9901: required claims, `vct`, `cnf`, status, contexts."""
    for name in ("sub", "iat", "exp", "vct", "cnf"):
        yield no(f"no-{name}", Rule.CLAIM_MISSING, f"issuer-jwt/{name}", f"no `{name}`", "RFC 9901 7.1 step 6, R-72",
                 sd_jwt(claims(**{name: REMOVED})), needs=OURS)  # fmt: skip
    never = "RFC 9901 9.7, R-34, VC-5, HAIP-4"
    for name, standard in {"exp": never, "cnf": never, "sub": "SD-Card 3.1, VC-6"}.items():
        hidden = claim(name, claims()[name])
        document = sd_jwt(claims(**{name: REMOVED}, _sd=[digest(hidden)]), hidden)
        yield no(f"selective-{name}", Rule.CLAIM_NOT_IN_CLEAR, f"issuer-jwt/{name}", f"`{name}` can be withheld",
                 standard, document, needs=OURS)  # fmt: skip
    inside = claim("jwk", HOLDER.jwk)
    yield no("selective-within-cnf", Rule.CLAIM_NOT_IN_CLEAR, "issuer-jwt/cnf", "a part of `cnf` can be withheld",
             "SD-JWT VC 2.2.2.2, VC-5", sd_jwt(claims(cnf={"_sd": [digest(inside)]}), inside), needs=OURS)  # fmt: skip
    yield no("sub-number", Rule.CLAIM_TYPE, "issuer-jwt/sub", "`sub` is a number", "RFC 7519 4.1.2",
             sd_jwt(claims(sub=1)), needs=OURS)  # fmt: skip
    yield no("sub-empty", Rule.CLAIM_VALUE, "issuer-jwt/sub", "`sub` is empty", "RFC 7519 4.1.2",
             sd_jwt(claims(sub="")), needs=OURS)  # fmt: skip
    yield no("vct-other", Rule.VCT, "issuer-jwt/vct", "a credential of another type", "SD-Card 3.1, VC-3",
             sd_jwt(claims(vct="https://other.example/id")), needs=OURS)  # fmt: skip
    aud = claims(aud=["https://a.example", AUDIENCE])
    yield yes("audience", aud, "`aud` names this Verifier among others", "RFC 7519 4.1.3, R-71",
              bound(sd_jwt(aud)), key_binding=ANSWER)  # fmt: skip
    for name, rule, audience in (("other", Rule.TOKEN_AUDIENCE, "https://a.example"), ("type", Rule.CLAIM_TYPE, [1])):
        yield no(f"audience-{name}", rule, "issuer-jwt/aud", "`aud` does not name this Verifier",
                 "RFC 7519 4.1.3, R-71", bound(sd_jwt(claims(aud=audience))), key_binding=ANSWER)  # fmt: skip
    malformed: dict[str, JsonValue] = {"string": "x", "kid-only": {"kid": "1"}, "jku": {"jku": "https://a.example"},
                                       "empty-jwk": {"jwk": {}}, "null": None}  # fmt: skip
    for name, value in malformed.items():
        yield no(f"cnf-{name}", Rule.CNF, "issuer-jwt/cnf", "`cnf` holds no key", "RFC 7800 3.2, R-85, VC-8",
                 sd_jwt(claims(cnf=value)), needs=OURS)  # fmt: skip
    yield from _confirmations()
    a5: JsonObject = {"kty": "EC", "crv": "P-256", "x": "TCAER19Zvu3OHF4j4W4vfSVoHIP1ILilDls7vCeGemc",
                      "y": "ZxjiWWbZMQGHVWKVQ4hbSIirsVfuecCE6t4jT9F2HZQ"}  # fmt: skip
    keys: dict[str, tuple[Rule, str, JsonObject]] = {
        "private": (Rule.KEY_PRIVATE, "", {**HOLDER.jwk, "d": "bm90IGEgcmVhbCBvbmU"}),
        "rsa": (Rule.KEY_UNSUPPORTED, "", {"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
        "symmetric": (Rule.KEY_PRIVATE, "", {"kty": "oct", "k": "c2VjcmV0"}),
        "secp256k1": (Rule.KEY_UNSUPPORTED, "", {**HOLDER.jwk, "crv": "secp256k1"}),
        "for-encryption": (Rule.KEY_UNSUPPORTED, "/use", {**HOLDER.jwk, "use": "enc"}),
        "of-another-alg": (Rule.KEY_UNSUPPORTED, "/alg", {**HOLDER.jwk, "alg": "ES384"}),
        "off-curve": (Rule.KEY_MALFORMED, "", {**HOLDER.jwk, "y": HOLDER.jwk["x"]}),
        "small-order": (Rule.KEY_MALFORMED, "/x", {"kty": "OKP", "crv": "Ed25519", "x": f"AQ{'A' * 41}"}),
        "published": (Rule.KEY_PUBLISHED, "", a5),
        "x-prime": (Rule.KEY_MALFORMED, "", {**HOLDER.jwk, "x": PRIME, "y": BESIDE_0}),
        "y-above-prime": (Rule.KEY_MALFORMED, "", {**HOLDER.jwk, "x": BESIDE_5, "y": PRIME[:-1] + "Q"}),
        "ops-text": (Rule.KEY_UNSUPPORTED, "/key_ops", {**HOLDER.jwk, "key_ops": "verify"}),
        "ops-other": (Rule.KEY_UNSUPPORTED, "/key_ops", {**HOLDER.jwk, "key_ops": ["sign"]}),
        "ml-dsa-no-alg": (Rule.KEY_MALFORMED, "/alg", {"kty": "AKP", "pub": "AA"}),
        "ml-dsa-other-alg": (Rule.KEY_UNSUPPORTED, "/alg", {"kty": "AKP", "alg": "ML-DSA-1", "pub": "AA"}),
        "ml-dsa-no-pub": (Rule.KEY_MALFORMED, "/pub", {"kty": "AKP", "alg": "ML-DSA-44"}),
        "ml-dsa-short": (Rule.KEY_MALFORMED, "/pub", {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AA"}),
        "ml-dsa-zero": (Rule.KEY_MALFORMED, "/pub", {"kty": "AKP", "alg": "ML-DSA-44", "pub": raw(bytes(1312))}),
    }
    for name, (rule, member, jwk) in keys.items():
        yield no(f"cnf-{name}", rule, f"issuer-jwt/cnf/jwk{member}", "the key in `cnf` cannot be used",
                 "RFC 7517 4, RFC 7800 3.2, JWK-1 to JWK-6; SD-Card T-19", sd_jwt(claims(cnf={"jwk": jwk})),
                 needs=OURS)  # fmt: skip
    older = claims(vct="urn:ietf:params:oauth:token-type:sd-a2a-agent-card")
    yield yes("draft-02", older, "`typ` and `vct` as the draft prints them", "draft-nandakumar-agent-sd-jwt-02",
              f"{jwt(older, header(typ='JWT'))}~", expectations={"profile": AGENT_SD_JWT_02.name},
              needs=OURS)  # fmt: skip
    yield from _statuses()
    yield from _contexts()
    yield from _issuer_checks()


def _issuer_checks() -> Iterator[Case]:
    """Vary ``issuer_checks``, and what a Verifier requires of it."""
    section = "docs/decisions/0045"
    needs = (*OURS, "issuer-checks")
    good: dict[str, list[JsonValue]] = {"all": ["approved", "domain", "possession"], "none": [],
                                        "unknown": ["audited-2027", "domain"]}  # fmt: skip
    for name, codes in good.items():
        shown = claims(issuer_checks=codes)
        yield yes(f"checks-{name}", shown, "codes of what the Issuer checked", section, sd_jwt(shown), needs=needs)
    bad: dict[str, tuple[Rule, JsonValue]] = {
        "null": (Rule.CLAIM_TYPE, None), "string": (Rule.CLAIM_TYPE, "domain"), "object": (Rule.CLAIM_TYPE, {}),
        "number": (Rule.CLAIM_TYPE, ["domain", 1]), "repeated": (Rule.CLAIM_VALUE, ["domain", "domain"]),
        "upper-case": (Rule.CLAIM_VALUE, ["Domain"]), "host": (Rule.CLAIM_VALUE, ["agent.example"]),
        "empty-code": (Rule.CLAIM_VALUE, [""]), "long": (Rule.CLAIM_VALUE, ["a" * 33]),
        "many": (Rule.CLAIM_VALUE, [f"a{number}" for number in range(17)]),
    }  # fmt: skip
    for name, (rule, value) in bad.items():
        yield no(f"checks-{name}", rule, "issuer-jwt/issuer_checks", "`issuer_checks` is no list of codes", section,
                 sd_jwt(claims(issuer_checks=value)), needs=needs)  # fmt: skip
    hidden, inside = claim("issuer_checks", ["domain"]), element("domain")
    for name, document in {
        "selective": sd_jwt(claims(_sd=[digest(hidden)]), hidden),
        "selective-code": sd_jwt(claims(issuer_checks=[{"...": digest(inside)}]), inside),
    }.items():
        yield no(f"checks-{name}", Rule.CLAIM_NOT_IN_CLEAR, "issuer-jwt/issuer_checks",
                 "`issuer_checks` can be withheld", section, document, needs=needs)  # fmt: skip
    approved = claims(issuer_checks=["approved", "domain"])
    yield yes("checks-required", approved, "what the Verifier requires was checked", section, sd_jwt(approved),
              expectations={"required_checks": ["domain", "approved"]}, needs=needs)  # fmt: skip
    for name, given in {"missing": approved, "nothing": claims(issuer_checks=[]), "unsaid": claims()}.items():
        yield no(f"checks-required-{name}", Rule.POLICY_CHECK, "issuer-jwt/issuer_checks",
                 "the Verifier requires a check that the Issuer does not confirm", section, sd_jwt(given),
                 expectations={"required_checks": ["possession"]}, needs=needs)  # fmt: skip


def _confirmations() -> Iterator[Case]:
    """Vary ``cnf``: one key, and each confirmation method beside `jwk` (RFC 7800 3.1)."""
    section = "RFC 7800 3.1; RFC 8705 3.1, RFC 9203 3.3, RFC 9449 6"
    beside: dict[str, tuple[str, JsonValue]] = {
        "jwe": ("jwe", "e30.e30.e30.e30.e30"),
        "jku": ("jku", "https://a.example/jwks"),
        "x5t": ("x5t#S256", "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0"),
        "osc": ("osc", {"id": "AQ", "ms": "AQ"}),
        "jkt-of-another": ("jkt", STRANGER.public_key.thumbprint),
        "jkt-number": ("jkt", 5),
        "kid-number": ("kid", 5),
    }
    for name, (member, value) in beside.items():
        yield no(f"cnf-beside-{name}", Rule.CNF, "issuer-jwt/cnf", f"`jwk` with `{member}` beside it", section,
                 sd_jwt(claims(cnf={"jwk": HOLDER.jwk, member: value})), needs=OURS)  # fmt: skip
    legal: dict[str, tuple[str, JsonValue]] = {
        "kid": ("kid", "holder-1"),
        "jkt": ("jkt", HOLDER.public_key.thumbprint),
        "unknown": ("x-unregistered", {"a": 1}),
    }
    for name, (member, value) in legal.items():
        given = claims(cnf={"jwk": HOLDER.jwk, member: value})
        yield yes(f"cnf-beside-{name}", given, f"`jwk` with a legal `{member}` beside it", section,
                  bound(sd_jwt(given)), key_binding=ANSWER)  # fmt: skip


def _statuses() -> Iterator[Case]:
    listed = claims(status={"status_list": {"idx": 7, "uri": LIST}})
    section = "Token Status List 7.1, 8.3, VC-15, TSL-13, TSL-14"

    def known(**values: int) -> JsonObject:
        return {"statuses": {LIST: {name.lstrip("_"): value for name, value in values.items()}}}

    yield yes("status-valid", listed, "the list says 0", section, sd_jwt(listed), expectations=known(_7=0))
    yield yes("status-none", claims(), "no status claim", section, sd_jwt(claims()), expectations=known(_7=1))
    refusals = {"revoked": (Rule.STATUS_REVOKED, known(_7=1)), "suspended": (Rule.STATUS_SUSPENDED, known(_7=2)),
                "other-value": (Rule.STATUS_UNAVAILABLE, known(_7=3)),
                "unavailable": (Rule.STATUS_UNAVAILABLE, known(_8=0))}  # fmt: skip
    for name, (rule, expectations) in refusals.items():
        yield no(f"status-{name}", rule, "issuer-jwt/status", "the list does not say 0", section, sd_jwt(listed),
                 expectations=expectations)  # fmt: skip
    malformed: dict[str, JsonValue] = {
        "string": "x", "empty": {}, "null": None, "array": [], "of-another-kind": {"other": {}},
        "no-uri": {"status_list": {"idx": 7}}, "uri-empty": {"status_list": {"idx": 7, "uri": ""}},
        "fraction": {"status_list": {"idx": 7.5, "uri": LIST}},
    }  # fmt: skip
    for name, value in malformed.items():
        yield no(f"status-unchecked-{name}", Rule.STATUS_MALFORMED, "issuer-jwt/status",
                 "a malformed status, though the Verifier asks nobody", "Token Status List 6, TSL-9",
                 sd_jwt(claims(status=value)), needs=OURS)  # fmt: skip
    for name, idx in {"negative": -1, "string": "7", "true": True}.items():
        yield no(f"status-index-{name}", Rule.STATUS_MALFORMED, "issuer-jwt/status", "`idx` is no index",
                 "Token Status List 6, TSL-9", sd_jwt(claims(status={"status_list": {"idx": idx, "uri": LIST}})),
                 expectations=known(_7=0))  # fmt: skip


def _contexts() -> Iterator[Case]:
    """Issue the five contexts of both A2A generations.

    The expectation is the plan's, not its own.
    """
    for generation, document in CARDS.items():
        for context in DEFAULT_POLICY.contexts:
            plan = plan_disclosure(read_card(document), DEFAULT_POLICY, context)
            name = f"{context}-a2a-{generation}"
            issued = issue_sd_card(
                Issuer(ISSUER_ID, ISSUER.public_key), plan, ISSUER, agent_id="georoute", holder_key=HOLDER.public_key,
                validity=Validity(NOW - 3600, NOW + 3600), salts=FixedSalts(name),
            )  # fmt: skip
            members = _shown(plan.root)
            assert isinstance(members, dict)
            registered = claims(card_format=plan.card_format, name=REMOVED, description=REMOVED, version=REMOVED)
            yield yes(f"context-{name}", {**registered, **members}, f"everything that {context} shows",
                      "SD-Card 3.3.1", bound(issued.sd_jwt), key_binding=ANSWER)  # fmt: skip


def _shown(part: Disclosable) -> JsonValue:
    """A plan's tree without what it withholds."""
    if isinstance(part, DisclosableObject):
        return {name: _shown(inner) for name, (how, inner) in part.members.items() if how is not Treatment.WITHHELD}
    if isinstance(part, DisclosableArray):
        return [_shown(inner) for how, inner in part.elements if how is not Treatment.WITHHELD]
    return part


# -- Holder -----------------------------------------------------------------------------------------------------------


def holders() -> Iterator[Case]:
    """RFC 9901 7.2: what a Holder does with what its Issuer sends."""
    good = claims(_sd=[digest(CITY)])
    sent, shown = sd_jwt(good, CITY), {**claims(), "city": "Springfield"}
    yield yes("received", shown, "an SD-Card for us", "RFC 9901 7.2, R-76", sent)
    listed = claims(status={"status_list": {"idx": 7, "uri": LIST}})
    yield yes(
        "with-status", listed, "an SD-Card with a status", "RFC 9901 7.2, R-76", sd_jwt(listed), needs=("status",)
    )
    yield no(
        "with-kb-jwt", Rule.KB_UNEXPECTED, "kb-jwt", "an Issuer sends no KB-JWT", "RFC 9901 7.2, R-75", bound(sent)
    )
    yield no("another-holder", Rule.CNF_OTHER_KEY, "issuer-jwt/cnf/jwk", "bound to another key", "RFC 9901 7.2, R-76",
             sd_jwt(claims(STRANGER)), needs=OURS)  # fmt: skip
    yield no("status-malformed", Rule.STATUS_MALFORMED, "issuer-jwt/status", "a status that nobody can check",
             "Token Status List 6, TSL-9", sd_jwt(claims(status={"other": 1})), needs=(*OURS, "status"))  # fmt: skip
    yield no("expired", Rule.EXPIRED, "issuer-jwt/exp", "an expired SD-Card", "RFC 9901 7.2, R-76",
             sd_jwt(claims(exp=NOW)))  # fmt: skip
    yield no("tampered", Rule.DISCLOSURE_UNREFERENCED, "disclosure/0", "a changed Disclosure", "RFC 9901 7.2, R-76",
             sd_jwt(good, STREET))  # fmt: skip


# -- algorithms -------------------------------------------------------------------------------------------------------


def algorithms() -> Iterator[Case]:
    """RFC 7518 3.4, RFC 8037, RFC 9864, RFC 9964, and the digests of RFC 9901 4.1.1."""
    shown: JsonObject = {"city": "Springfield"}
    for algorithm in SignatureAlgorithm:
        issuer, holder = Actor("issuer", algorithm), Actor("holder", algorithm)
        name, needs = algorithm.lower(), () if algorithm is SignatureAlgorithm.ES256 else (algorithm.value,)
        for role, sent, trusted_key in (
            ("both", bound(sd_jwt(claims(holder, _sd=[digest(CITY)]), CITY, signer=issuer), None, holder), issuer),
            ("issuer", bound(sd_jwt(claims(_sd=[digest(CITY)]), CITY, signer=issuer)), issuer),
            ("holder", bound(sd_jwt(claims(holder, _sd=[digest(CITY)]), CITY), None, holder), ISSUER),
        ):
            expected = {**claims(HOLDER if role == "issuer" else holder), **shown}
            yield yes(f"{name}-{role}", expected, f"{algorithm} by {role}", "RFC 9901 4.1, 4.3, R-6, R-42", sent,
                      key_binding=ANSWER, trust=trust(trusted_key), needs=needs)  # fmt: skip
        good = jwt(claims(_sd=[digest(CITY)]), None, issuer)
        signature = issuer.sign(good.rpartition(".")[0].encode())
        flipped = bytes((*signature[:40], signature[40] ^ 1, *signature[41:]))
        for fault, bad in {"flipped": flipped, "short": signature[:-1]}.items():
            yield no(f"{name}-{fault}", Rule.JWS_SIGNATURE, "issuer-jwt/signature", f"no signature of {algorithm}",
                     "RFC 9901 7.1 step 2.b, R-52", f"{resigned(good, bad)}~{CITY}~", trust=trust(issuer),
                     needs=needs)  # fmt: skip
        other = "ML-DSA-87" if algorithm is SignatureAlgorithm.ML_DSA_44 else "ML-DSA-44"
        yield no(f"{name}-said-to-be-another", Rule.JWS_ALG, "issuer-header/alg", f"`alg` is {other}",
                 "RFC 9901 7.1 step 2.a, R-51", f"{jwt(claims(), header(issuer, alg=other), issuer)}~",
                 trust=trust(issuer), needs=needs)  # fmt: skip
    edwards = Actor("issuer", SignatureAlgorithm.EDDSA)
    named = f"{jwt(claims(), header(edwards, alg='Ed25519'), edwards)}~"
    yield yes("ed25519-by-name", claims(), "`alg` is Ed25519", "RFC 9864 2.2", named,
              trust=trust(edwards), needs=(*OURS, "EdDSA"))  # fmt: skip
    for digests in DigestAlgorithm:
        hashed = claims(_sd_alg=digests.value, _sd=[digest(CITY, digests)])
        document = bound(sd_jwt(hashed, CITY), None, HOLDER, digests)
        needs, row = ((), "R-14, ") if digests is DigestAlgorithm.SHA_256 else ((digests.value,), "")
        yield yes(digests.value, {**claims(), **shown}, f"digests and `sd_hash` of {digests}",
                  f"RFC 9901 4.1.1, 4.3.1, R-13, {row}R-47", document, key_binding=ANSWER, needs=needs)  # fmt: skip
        wrong = claims(_sd_alg=digests.value, _sd=[DigestAlgorithm.SHA_512.digest(CITY)[:43]])
        yield no(f"{digests}-other-digest", Rule.DISCLOSURE_UNREFERENCED, "disclosure/0", "a digest of another kind",
                 "RFC 9901 7.1 step 3, R-55", sd_jwt(wrong, CITY), needs=needs)  # fmt: skip


# -- encodings and limits ---------------------------------------------------------------------------------------------


def encodings() -> Iterator[Case]:
    """RFC 7515 2, RFC 8259, RFC 8725 2.4: one spelling, or a refusal."""
    good = encode_json(claims())
    strict = "RFC 7515 2, R-5, JWK-10"
    disclosures = {"padding": f"{raw('[1,2]')}=", "standard-alphabet": "+/+/", "white-space": f"{CITY} ",
                   "line-break": f"{CITY}\n", "one-character": f"{CITY}AAA"[: len(CITY) // 4 * 4 + 1],
                   "not-ascii": "é" * 4}  # fmt: skip
    for name, text in disclosures.items():
        yield no(f"disclosure-{name}", Rule.BASE64URL, "disclosure/0", "a Disclosure in another spelling", strict,
                 f"{jwt(claims(_sd=[decoy()]))}~{text}~")  # fmt: skip
    stray = raw('["s","a",11]')
    assert len(stray) % 4 == 0
    bits = raw('["s","a",1]')
    yield no("disclosure-stray-bits", Rule.BASE64URL, "disclosure/0", "bits left over in the last character", strict,
             sd_jwt(claims(_sd=[digest(f"{bits[:-1]}{chr(ord(bits[-1]) + 1)}")]),
                    f"{bits[:-1]}{chr(ord(bits[-1]) + 1)}"), needs=OURS)  # fmt: skip
    protected, payload, signature = jwt(claims()).split(".")
    yield no("signature-stray-bits", Rule.BASE64URL, "issuer-jwt/signature", "another text of the same signature",
             strict, f"{protected}.{payload}.{signature[:-1]}{chr(ord(signature[-1]) + 1)}~", needs=OURS)  # fmt: skip
    yield no("signature-padding", Rule.BASE64URL, "issuer-jwt/signature", "`=` after the signature", strict,
             f"{protected}.{payload}.{signature}==~")  # fmt: skip
    yield no("line-break-at-end", Rule.JWS_FORMAT, "kb-jwt", "a line break after the last `~`", "RFC 9901 4, R-5",
             f"{protected}.{payload}.{signature}~\n", key_binding=ANSWER)  # fmt: skip
    unique = "RFC 7515 4, RFC 7519 4, R-57, JWK-11"
    texts: dict[str, tuple[Rule, str, bytes]] = {
        "not-utf8": (Rule.UTF8, "RFC 8259 8.1, R-57", b'"a":"\xff"'),
        "duplicate": (Rule.JSON_DUPLICATE, unique, b'"name":"Other"'),
        "duplicate-escaped": (Rule.JSON_DUPLICATE, unique, b'"n\\u0061me":"Other"'),
        "duplicate-nested": (Rule.JSON_DUPLICATE, unique, b'"a":[{"b":1,"b":1}]'),
        "nan": (Rule.JSON_NUMBER, "RFC 8259 6, R-57", b'"a":NaN'),
        "infinity": (Rule.JSON_NUMBER, "RFC 8259 6, R-57", b'"a":-Infinity'),
        "number-too-large": (Rule.JSON_NUMBER, "RFC 8259 6", b'"a":1e400'),
        "number-too-precise": (Rule.JSON_NUMBER, "RFC 8259 6", b'"a":0.12345678901234567890'),
        "lone-surrogate": (Rule.JSON_SURROGATE, "RFC 8259 8.2", b'"a":"\\ud800"'),
        "trailing-comma": (Rule.JSON_MALFORMED, "RFC 8259 2", b'"a":1,'),
        "single-quotes": (Rule.JSON_MALFORMED, "RFC 8259 2", b"'a':1"),
        "leading-zero": (Rule.JSON_MALFORMED, "RFC 8259 6", b'"a":01'),
        "control-character": (Rule.JSON_MALFORMED, "RFC 8259 7", b'"a":"\n"'),
    }
    open_to_readers = {"number-too-large", "number-too-precise", "lone-surrogate", "duplicate", "duplicate-escaped",
                       "duplicate-nested"}  # fmt: skip
    for name, (rule, standard, member) in texts.items():
        needs = OURS if name in open_to_readers else ()
        yield no(f"payload-{name}", rule, "issuer-jwt", "the payload is no strict JSON", standard,
                 f"{jwt(good[:-1] + b',' + member + b'}')}~", needs=needs)  # fmt: skip
    for name in ("not-utf8", "duplicate-nested", "nan", "lone-surrogate", "trailing-comma"):
        rule, standard, member = texts[name]
        bad = raw(b'["salt","a",{' + member + b"}]")
        yield no(f"disclosed-{name}", rule, "disclosure/0", "a Disclosure is no strict JSON", standard,
                 sd_jwt(claims(_sd=[digest(bad)]), bad), needs=OURS if name in open_to_readers else ())  # fmt: skip
    twice = encode_json(header())[:-1] + b',"alg":"ES256"}'
    yield no("header-duplicate", Rule.JSON_DUPLICATE, "issuer-header", "`alg` twice", unique,
             f"{jwt(good, twice)}~", needs=OURS)  # fmt: skip
    for name, octets in {"array": b"[]", "string": b'"x"', "empty-text": b" ", "two-values": good + b"{}",
                       "byte-order-mark": b"\xef\xbb\xbf" + good}.items():  # fmt: skip
        yield no(f"payload-{name}", Rule.JSON_MALFORMED, "issuer-jwt", "the payload is no JSON object",
                 "RFC 7519 7.2", f"{jwt(octets)}~", needs=OURS if name == "byte-order-mark" else ())  # fmt: skip
    twice_kb = jwt(encode_json({"iat": NOW, "aud": AUDIENCE, "nonce": NONCE})[:-1] + b',"nonce":"other"}',
                   {"alg": "ES256", "typ": "kb+jwt"}, HOLDER)  # fmt: skip
    yield no("kb-jwt-duplicate", Rule.JSON_DUPLICATE, "kb-jwt", "`nonce` twice in a KB-JWT", unique,
             f"{sd_jwt(claims())}{twice_kb}", key_binding=ANSWER)  # fmt: skip


def limits() -> Iterator[Case]:
    """Bounds on work, one below and one above. The case says which bounds it asks for."""
    shown = sd_jwt(claims(_sd=sorted(map(digest, (STREET, CITY)))), STREET, CITY)
    both = {**claims(), "street": "Main Street 1", "city": "Springfield"}
    size = len(str(shown))

    def bounds(**numbers: int) -> JsonObject:
        return {"limits": {**numbers}}

    for name, rule, where, reach in (
        ("presentation_bytes", Rule.LIMIT_BYTES, "presentation", size),
        ("disclosures", Rule.LIMIT_DISCLOSURES, "presentation", 2),
        ("digests", Rule.LIMIT_DIGESTS, "issuer-jwt", 2),
    ):
        yield yes(f"{name.replace('_', '-')}-at", both, f"as many {name} as allowed", "limits", shown,
                  expectations=bounds(**{name: reach}))  # fmt: skip
        yield no(f"{name.replace('_', '-')}-above", rule, where, f"one too many of {name}", "limits", shown,
                 expectations=bounds(**{name: reach - 1}))  # fmt: skip
    parts = str(shown).split(".", 2)
    signature, *disclosures = parts[2].split("~")[:-1]
    plain: JsonObject = {"disclosures": list[JsonValue](disclosures), "note": "é"}
    form: JsonObject = {"payload": parts[1], "protected": parts[0], "signature": signature, "header": plain}
    document = json.dumps(form, ensure_ascii=False)
    yield yes("json-bytes-at", both, "as many bytes as allowed, with a character of two", "limits", document,
              expectations=bounds(presentation_bytes=len(document.encode())))  # fmt: skip
    yield no("json-bytes-above", Rule.LIMIT_BYTES, "presentation", "as many characters as allowed, and a byte more",
             "limits", document, expectations=bounds(presentation_bytes=len(document)))  # fmt: skip
    yield no("characters-beyond-16-bits", Rule.SD_JWT_FORMAT, "presentation", "as many characters as allowed", "limits",
             "😀" * 9, expectations=bounds(presentation_bytes=9))  # fmt: skip
    nested: JsonValue = 1
    for _ in range(11):
        nested = [nested]
    deep = claims(a=nested)
    yield yes("depth-at", deep, "as deep as allowed", "limits", sd_jwt(deep), expectations=bounds(json_depth=12))
    yield no("depth-above", Rule.JSON_DEPTH, "issuer-jwt", "one level too deep", "limits", sd_jwt(deep),
             expectations=bounds(json_depth=11))  # fmt: skip
    many = "limits: at most 32,768 objects and arrays"
    old: JsonObject = {"exp": NOW - 1, "cnf": {"jwk": HOLDER.jwk}}
    for name, count, rule, where in (
        ("containers-at", 32_764, Rule.EXPIRED, "issuer-jwt/exp"),
        ("containers-above", 32_765, Rule.LIMIT_CONTAINERS, "issuer-jwt"),
    ):
        yield no(name, rule, where, "as many objects and arrays as allowed, or one more", many,
                 sd_jwt(claims(**old, a=[[]] * count)), needs=OURS)  # fmt: skip
    brackets = b"[" * 63 + b"[]" * 32_736 + b"[["
    yield no("containers-before-depth", Rule.LIMIT_CONTAINERS, "issuer-jwt", "too deep after too many", many,
             f"{jwt(brackets)}~", needs=OURS)  # fmt: skip
    inner = claim("b", [[[1]]])
    outer = claim("a", {"_sd": [digest(inner)]})
    yield no("depth-through-disclosures", Rule.JSON_DEPTH, "disclosure/1", "each is shallow, the result is deep",
             "limits", sd_jwt(claims(x={"_sd": [digest(outer)]}), outer, inner),
             expectations=bounds(json_depth=5))  # fmt: skip


# -- JSON forms -------------------------------------------------------------------------------------------------------


def json_forms() -> Iterator[Case]:
    """RFC 9901 8; RFC 7515 7.2."""
    plain = sd_jwt(claims(_sd=sorted(map(digest, (STREET, CITY)))), STREET, CITY)
    with_kb = SdJwtWithKeyBinding(plain, kb_jwt(plain))
    shown = {**claims(), "street": "Main Street 1", "city": "Springfield"}
    section = "RFC 9901 8.1, R-96 to R-98"
    for name, write in {"flattened": to_flattened, "general": to_general}.items():
        yield yes(name, shown, f"{name}, without a KB-JWT", section, write(plain))
        yield yes(f"{name}-with-kb-jwt", shown, f"{name}, with a KB-JWT", section, write(with_kb), key_binding=ANSWER)
    flat: dict[str, Any] = json.loads(to_flattened(with_kb))
    general: dict[str, Any] = json.loads(to_general(with_kb))
    first = general["signatures"][0]
    bare = {name: value for name, value in flat.items() if name != "header"}

    def text(base: dict[str, Any], **changes: Any) -> str:
        return json.dumps({**base, **changes})

    def head(**changes: Any) -> str:
        return text(flat, header={**flat["header"], **changes})

    none = {**claims()}
    yield yes("no-unprotected-header", none, "no header, so no Disclosures", section, text(bare))
    yield yes("white-space", shown, "white space and unknown members", "RFC 7515 7.2.1",
              json.dumps({**flat, "extra": 1}, indent=3), key_binding=ANSWER)  # fmt: skip
    other = {"protected": raw("{}"), "signature": raw("x"), "header": {"kid": "2"}}
    yield yes("second-signature", shown, "the first signature counts", "RFC 9901 8.2",
              text(general, signatures=[first, other]), key_binding=ANSWER, needs=OURS)  # fmt: skip
    nameless = SdJwt(jwt(claims(), header(kid=REMOVED)), ())
    form = json.loads(to_flattened(nameless))
    yield yes("unprotected-kid", none, "an unprotected `kid` of nobody's is not looked at", "RFC 9901 8.1, R-100",
              text(form, header={"kid": "x"}), needs=OURS)  # fmt: skip
    at = "presentation"
    for name, member in {"disclosures": [STREET], "kb_jwt": "x"}.items():
        spelt = name.replace("_", "-")
        yield no(f"{spelt}-at-top", Rule.SD_JWT_FORMAT, f"{at}/{name}", f"`{name}` outside the header",
                 "RFC 9901 8.1, R-96, R-97", text(flat, **{name: member}), key_binding=ANSWER, needs=OURS)  # fmt: skip
        later = {**other, "header": {name: member}}
        yield no(f"{spelt}-in-second-signature", Rule.SD_JWT_FORMAT, f"{at}/signatures/1/header/{name}",
                 f"`{name}` in a later signature", "RFC 9901 8.3, R-99", text(general, signatures=[first, later]),
                 key_binding=ANSWER, needs=OURS)  # fmt: skip
    shapes: dict[str, tuple[str, str]] = {
        "disclosures-string": ("/header/disclosures", head(disclosures=CITY)),
        "disclosures-numbers": ("/header/disclosures", head(disclosures=[1])),
        "kb-jwt-null": ("/header/kb_jwt", head(kb_jwt=None)),
        "header-array": ("/header", text(flat, header=[])),
        "payload-absent": ("/payload", text({"protected": "x", "signature": "x"})),
        "signature-empty": ("/signature", text(flat, signature="")),
        "no-signatures": ("/signatures", text(general, signatures=[])),
        "both-forms": ("/protected", text(general, protected=first["protected"])),
    }
    for name, (place, document) in shapes.items():
        yield no(name, Rule.SD_JWT_FORMAT, f"{at}{place}", "the shape of neither form", "RFC 7515 7.2, RFC 9901 8",
                 document, key_binding=ANSWER)  # fmt: skip
    yield no("parameter-twice", Rule.JWS_HEADER, f"{at}/header", "`alg` is protected and unprotected",
             "RFC 7515 7.2.1, R-101", head(alg="ES256"), key_binding=ANSWER)  # fmt: skip
    yield no("crit-unprotected", Rule.JWS_CRIT, f"{at}/header/crit", "`crit` that nobody signed", "RFC 7515 4.1.11",
             head(crit=["x"]), key_binding=ANSWER)  # fmt: skip
    yield no("member-twice", Rule.JSON_DUPLICATE, at, "`payload` twice", "RFC 7515 4, R-57",
             f'{text(flat)[:-1]},"payload":"x"}}', key_binding=ANSWER)  # fmt: skip
    yield no("reordered", Rule.KB_SD_HASH, "kb-jwt/sd_hash", "`sd_hash` is over the order of `disclosures`",
             "RFC 9901 8.1, R-98", head(disclosures=[CITY, STREET]), key_binding=ANSWER)  # fmt: skip
    yield no("kb-jwt-absent", Rule.KB_MISSING, at, "a KB-JWT is demanded, none is there", "RFC 9901 7.3 step 2, R-82",
             to_flattened(plain), key_binding=ANSWER)  # fmt: skip
    unsigned = {name: value for name, value in header().items() if name != "alg"}
    form = json.loads(to_flattened(SdJwt(jwt(claims(), unsigned), ())))
    yield no("alg-unprotected", Rule.JWS_ALG, "issuer-header/alg", "`alg` stands in the unprotected header only",
             "RFC 9901 8.1, R-100", text(form, header={"alg": "ES256"}), needs=OURS)  # fmt: skip


# -- cards ------------------------------------------------------------------------------------------------------------

PROVIDER: JsonObject = {"organization": "Example Geo", "url": "https://geo.example"}
CARD_1_0: JsonObject = {
    "name": "GeoRoute",
    "description": "Plans routes",
    "version": "1.2.0",
    "supportedInterfaces": [
        {"url": "https://georoute.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"},
        {"url": "https://georoute.example/b", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t"},
    ],
    "provider": PROVIDER,
    "documentationUrl": "https://georoute.example/docs",
    "capabilities": {"streaming": True, "extensions": [{"uri": "https://geo.example/x", "required": False}]},
    "securitySchemes": {"key": {"apiKeySecurityScheme": {"location": "header", "name": "X-Key"}}},
    "securityRequirements": [{"schemes": {"key": {"list": []}}}],
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [
        {"id": "route", "name": "Route", "description": "Finds a way", "tags": ["a"], "examples": ["To Springfield"]},
        {"id": "traffic", "name": "Traffic", "description": "Says where not to go", "tags": ["b"]},
    ],
}
CARD_0_3: JsonObject = {
    **{name: value for name, value in CARD_1_0.items() if name not in ("supportedInterfaces", "securityRequirements")},
    "protocolVersion": "0.3.0",
    "url": "https://georoute.example/a2a",
    "preferredTransport": "JSONRPC",
    "securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}},
    "security": [{"key": []}],
}
CARDS = {"0.3": CARD_0_3, "1.0": CARD_1_0}


def cards() -> Iterator[Case]:
    """A2A agent cards as a registry reads them: every finding, errors first."""

    def case(name: str, about: str, document: JsonValue, *findings: str, **more: Any) -> Case:
        """The first error refuses; without one the card is accepted."""
        text = document if isinstance(document, str) else json.dumps(document)
        first = next((one for one in findings if one.endswith("(error)")), "").removesuffix(" (error)")
        rule, _, where = first.partition(" at ")
        return Case(name, about, "A2A AgentCard", text, RULES[rule] if rule else None, where, kind="card",
                    findings=findings, **more)  # fmt: skip

    def with_(**changes: Any) -> JsonObject:
        return {name: value for name, value in {**CARD_1_0, **changes}.items() if value is not REMOVED}

    yield case("a2a-1.0", "a card of A2A 1.0", CARD_1_0)
    yield case("a2a-0.3", "a card of A2A 0.3", CARD_0_3)
    yield case("unknown-member", "a member that A2A does not name is kept", with_(x_own=1),
               "card.member-unknown at card/x_own (note)")  # fmt: skip
    yield case("signatures", "signatures are dropped", with_(signatures=[{"protected": "x", "signature": "y"}]),
               "card.signatures at card/signatures (note)",
               "card.signature-untrusted at card/signatures/0 (warning)")  # fmt: skip
    yield case("no-card", "an object that is no card", {"hello": 1}, "card.format at card (error)")
    yield case("no-name", "a required member is not there", with_(name=REMOVED),
               "card.member-missing at card/name (error)")  # fmt: skip
    yield case("name-number", "a member of another type", with_(name=1), "card.member-type at card/name (error)")
    yield case("dangerous-url", "a URL that runs something", with_(documentationUrl="javascript:alert(1)"),
               "card.member-value at card/documentationUrl (error)")  # fmt: skip
    skill = CARD_1_0["skills"]
    assert isinstance(skill, list)
    yield case("skill-id-twice", "two skills of one id", with_(skills=[skill[0], skill[0]]),
               "card.ambiguous at card/skills/1/id (error)")  # fmt: skip
    yield case("reserved-member", "a member that would be taken for a claim", with_(exp=1),
               "card.reserved-member at card/exp (error)")  # fmt: skip
    yield case("hidden-digests", "a member named `_sd` deep inside", with_(provider={**PROVIDER, "_sd": []}),
               "card.reserved-member at card/provider/_sd (error)")  # fmt: skip
    two = with_(name=1, version=REMOVED)
    yield case("two-errors", "all that is wrong at once", two, "card.member-type at card/name (error)",
               "card.member-missing at card/version (error)")  # fmt: skip
    yield case("duplicate-member", "a member twice", '{"name":"A","name":"B"}', "json.duplicate-member at card (error)")
    yield case("secret", "a text that looks like a token", with_(x_key="client_secret=abcd1234"),
               "card.member-unknown at card/x_key (note)", "card.secret at card/x_key (warning)")  # fmt: skip
    yield case("personal-data", "a mail address of a person", with_(description="Ask jane.doe@example.com."),
               "card.personal-data at card/description (warning)")  # fmt: skip
    yield case("internal-host", "a host inside a network", with_(documentationUrl="https://10.0.0.1/docs"),
               "card.internal-host at card/documentationUrl (warning)")  # fmt: skip
    yield case("too-large", "more bytes than allowed", CARD_1_0, "limit.bytes at card (error)",
               expectations={"limits": {"card_bytes": 100}})  # fmt: skip
    yield case("too-many-values", "16,385 values in a member", with_(x_own=[0] * 16_385),
               "limit.containers at card (error)")  # fmt: skip


AGENTCARD: JsonObject = {
    "agent_id": "01JZ8Q4TB6V0M3XN5R7YKCWD2F",
    "name": "A",
    "version": "1.0.0",
    "capabilities": [{"id": "text.a", "description": "A."}],
    "endpoint": {"protocol": "https", "url": "https://a.example"},
}
README_ENDPOINT: JsonObject = {"protocol": "http", "url": "https://a.example", "health_url": "https://a.example/health"}
NOT_THE_DRAFT = "agentcard.dialect at card (note)"


def agentcards() -> Iterator[Case]:
    """AgentCard cards, by the draft unless only another dialect takes them."""

    def case(name: str, about: str, standard: str, document: JsonValue, *findings: str, **more: Any) -> Case:
        text = document if isinstance(document, str) else json.dumps(document)
        return found(f"agentcard-{name}", about, f"AgentCard draft-00 {standard}", text, *findings, kind="card",
                     **more)  # fmt: skip

    def cost(literal: str) -> str:
        return json.dumps(AGENTCARD)[:-1] + f', "pricing": {{"base_cost_joules": {literal}}}}}'

    floor = "agentcard.cost-floor at card/pricing/base_cost_joules (error)"
    yield case("minimal", "the five members that are required", "2", AGENTCARD)
    yield case("fetched-otherwise", "fetched by http, and its endpoint has https", "8.5, AEV-20", AGENTCARD,
               "agentcard.fetched-otherwise at card/endpoint/url (warning)",
               expectations={"source": "http://a.example/card"})  # fmt: skip
    yield case("embedded", "a JSON string that holds the card", "3, AEV-18", json.dumps(json.dumps(AGENTCARD)))
    yield case("embedded-twice", "a string in a string", "3, AEV-18", json.dumps(json.dumps(json.dumps(AGENTCARD))),
               "json.malformed at card (error)")  # fmt: skip
    yield case("line-feed", "an id with a line feed behind it", "2.1, AEV-2", AGENTCARD | {"agent_id": f"{'0' * 26}\n"},
               "card.member-value at card/agent_id (error)")  # fmt: skip
    yield case("not-128-bits", "an id that no ULID is", "2.1, AEV-3", AGENTCARD | {"agent_id": "8" + "0" * 25},
               "card.member-value at card/agent_id (warning)")  # fmt: skip
    yield case("at-the-floor", "exactly the Landauer limit", "2.6.1, AEV-13", cost("2.854e-21"))
    yield case("below-the-floor", "a cost that nothing physical has", "2.6.1, AEV-13", cost("2.853999e-21"), floor)
    yield case("rounds-to-zero", "a cost that is zero in binary only", "2.6.1, AEV-13", cost("1e-400"),
               "json.number at card (error)")  # fmt: skip
    yield case("rounds-to-the-floor", "a cost that is the limit in binary only", "2.6.1, AEV-13",
               cost("2.8539999999999999999e-21"), "json.number at card (error)")  # fmt: skip
    other: JsonObject = {"protocol": "https", "url": "http://a.example"}
    yield case("other-scheme", "a URL that does not fit its protocol", "2.5.2, AEV-11", AGENTCARD | {"endpoint": other},
               "card.member-value at card/endpoint/url (error)")  # fmt: skip
    schema: JsonValue = [{"id": "text.a", "description": "A.", "input_schema": {"type": 5}}]
    yield case("no-schema", "what is no JSON Schema", "2.4.3, AEV-9", AGENTCARD | {"capabilities": schema},
               "card.member-value at card/capabilities/0/input_schema/type (error)")  # fmt: skip
    tier: JsonObject = {"pacr:trust_tier": "verified"}
    yield case("trust-tier", "an agent that vouches for itself", "8.4, AEV-21", AGENTCARD | {"metadata": tier},
               "agentcard.self-declared at card/metadata/pacr:trust_tier (note)")  # fmt: skip
    yield case("readme", "a card as the project's README has it", "AEV-23", AGENTCARD | {"endpoint": README_ENDPOINT},
               NOT_THE_DRAFT)  # fmt: skip
    socket: JsonObject = {"protocol": "websocket", "url": "wss://a.example"}
    yield case("readme-protocol", "a protocol that only the README has", "2.5.1, AEV-23",
               AGENTCARD | {"endpoint": socket}, "card.member-value at card/endpoint/protocol (error)")  # fmt: skip


SIGNED: JsonObject = {
    "name": "Café Route",
    "description": "",
    "version": "1.2.0",
    "supportedInterfaces": [
        {"url": "https://georoute.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "capabilities": {"streaming": False, "extensions": [{"uri": "https://geo.example/x", "params": {"n": 1}}]},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"]}],
}
"""A card of which A2A 1.0 signs every member."""


def card_signatures() -> Iterator[Case]:
    """Vary signatures of A2A cards, over canonical forms that are written here."""
    signers: JsonObject = {"signers": {"keys": [{**CARD_SIGNER.jwk, "kid": CARD_SIGNER.public_key.thumbprint}]}}
    at = "card/signatures"

    def case(name: str, about: str, standard: str, card: JsonObject, made: list[JsonObject], *findings: str) -> Case:
        document = json.dumps({**card, "signatures": list[JsonValue](made)})
        found = [one if " at " in one else f"{one} at {at}/0" for one in findings]
        found = [one if one.endswith(")") else f"{one} ({LEVELS[one.split(' ')[0]]})" for one in found]
        errors = [one for one in found if one.endswith("(error)")]
        others = [one for one in found if not one.endswith("(error)")]
        general = [] if card.get("description") else ["card.member-value at card/description (warning)"]
        general += ["card.member-unknown at card/x-own (note)"] if "x-own" in card else []
        rule, _, where = errors[0].removesuffix(" (error)").partition(" at ") if errors else ("", "", "")
        told = [*errors, *general, f"card.signatures at {at} (note)", *others]
        if errors:  # a refusal leaves notes out
            told = [one for one in told if not one.endswith("(note)")]
        return Case(name, about, standard, document, RULES[rule] if rule else None, where, kind="card",
                    findings=tuple(told), expectations=signers, needs=("card-signatures",))  # fmt: skip

    invalid, header_fault = f"card.signature-invalid at {at}/0/signature", f"card.signature-invalid at {at}/0/protected"
    good, own = signature(jcs(SIGNED)), {**SIGNED, "x-own": 1}

    yield case("specification", "over the form of A2A 1.0", "A2A 1.0 8.4.1", SIGNED, [good], "card.signature-verified")
    defaults: JsonObject = {**SIGNED, "securitySchemes": {}, "capabilities": {"streaming": False, "extensions": [
        {"uri": "https://geo.example/x", "required": False, "params": {"n": 1}}]}}  # fmt: skip
    yield case("defaults", "what neither is REQUIRED nor `optional` is left out at its default", "A2A 1.0 8.4.1",
               defaults, [good], "card.signature-verified")  # fmt: skip
    yield case("unknown-member", "a member that A2A does not name is not signed", "A2A 1.0 8.4.1, 5.7", own, [good],
               "card.signature-verified", "card.unsigned-member at card/x-own")  # fmt: skip
    yield case("whole-card", "RFC 8785 over the card as it is", "RFC 8785 3", own, [signature(jcs(own))],
               "card.signature-verified")  # fmt: skip
    sdk = {name: value for name, value in SIGNED.items() if value != ""}
    bare = "card.unsigned-member at card/description"
    yield case("sdk-1.3", "over the form of a2a-sdk 1.3, without what is empty", "A2A 1.0 8.4.1", SIGNED,
               [signature(jcs(sdk))], "card.signature-verified", bare)  # fmt: skip
    escaped = json.dumps(sdk, sort_keys=True, separators=(",", ":")).replace('"n":1', '"n":1.0')
    yield case("sdk-1.0", "over the form of a2a-sdk 1.0, with escapes and floats", "A2A 1.0 8.4.1", SIGNED,
               [signature(escaped)], "card.signature-verified", bare)  # fmt: skip
    former = json.dumps({name: v for name, v in CARD_0_3.items() if name not in SDK_0_3_LEAVES_OUT}
                        | {"securitySchemes": {"key": {"in": "header", "name": "X-Key"}}},
                        sort_keys=True, separators=(",", ":"))  # fmt: skip
    yield case("sdk-0.3", "a 0.3 card over the form of a2a-sdk 0.3, which drops a requirement without scopes",
               "A2A 0.3.0", CARD_0_3, [signature(former)], "card.signature-verified",
               "card.unsigned-member at card/security")  # fmt: skip
    yield case("no-trusted-key", "by a key that nobody listed", "A2A 1.0 8.4.3", SIGNED,
               [signature(jcs(SIGNED), STRANGER)], "card.signature-untrusted")  # fmt: skip
    yield case("own-key", "by a stranger's key that the header brings along", "RFC 8725 3.10", SIGNED,
               [signature(jcs(SIGNED), STRANGER, jwk=STRANGER.jwk, jku="https://evil.example/jwks.json")],
               "card.signature-untrusted")  # fmt: skip
    yield case("posing", "by a stranger under the name of a trusted key", "RFC 7515 5.2", SIGNED,
               [signature(jcs(SIGNED), STRANGER, kid=CARD_SIGNER.public_key.thumbprint)], invalid)  # fmt: skip
    yield case("changed", "another version than was signed", "A2A 1.0 8.4.3", {**SIGNED, "version": "1.2.1"}, [good],
               invalid)  # fmt: skip
    yield case("added-default", "an `optional` member that was added with its default", "A2A 1.0 8.4.1",
               {**SIGNED, "iconUrl": "https://georoute.example/i.png"}, [good], invalid)  # fmt: skip
    for name, changes in HEADER_FAULTS.items():
        yield case(name, f"a header with {json.dumps(changes)}", "RFC 7515 4.1, RFC 8725 3.1, 3.11", SIGNED,
                   [signature(jcs(SIGNED), **changes)], header_fault)  # fmt: skip
    yield case("no-kid", "a header that names no key", "A2A 1.0 8.4.2", SIGNED, [signature(jcs(SIGNED), kid=REMOVED)],
               "card.signature-untrusted")  # fmt: skip
    outside: JsonObject = {"header": {"kid": CARD_SIGNER.public_key.thumbprint}}
    yield case("unprotected-kid", "a header that names its key where nobody signed it", "RFC 7515 7.2.1", SIGNED,
               [signature(jcs(SIGNED), kid=REMOVED) | outside], "card.signature-untrusted")  # fmt: skip
    yield case("kid-twice", "a key named in both headers", "RFC 7515 7.2.1", SIGNED, [good | outside],
               f"card.signature-invalid at {at}/0/header")  # fmt: skip
    yield case("one-of-two", "one that verifies beside a stranger's", "A2A 1.0 8.4.3", SIGNED,
               [good, signature(jcs(SIGNED), STRANGER)], "card.signature-verified",
               f"card.signature-untrusted at {at}/1 (note)")  # fmt: skip
    yield case("one-is-invalid", "one that verifies beside an invalid one by the same key", "A2A 1.0 8.4.3", SIGNED,
               [good, signature(jcs({**SIGNED, "version": "1"}))], "card.signature-verified",
               f"card.signature-invalid at {at}/1/signature")  # fmt: skip
    extension: JsonObject = {"uri": "https://geo.example/x", "params": {"n": 2**53 + 1}}
    large: JsonObject = {**SIGNED, "capabilities": {"extensions": [extension]}}
    yield case("no-canonical-form", "an integer that no double holds", "RFC 8785 3.2.2.3, D", large,
               [signature(jcs(large))], invalid)  # fmt: skip
    yield case("too-many", "seventeen signatures", "limits", SIGNED, [good] * 17,
               f"card.member-value at {at} (error)")  # fmt: skip


LEVELS = {
    "card.signature-verified": "note",
    "card.signature-untrusted": "warning",
    "card.signature-invalid": "error",
    "card.unsigned-member": "warning",
}
HEADER_FAULTS: dict[str, dict[str, Any]] = {
    "alg-none": {"alg": "none"},
    "alg-hs256": {"alg": "HS256"},
    "alg-es384": {"alg": "ES384"},
    "typ-jwt": {"typ": "JWT"},
    "crit": {"crit": ["x-own"], "x-own": 1},
    "b64": {"b64": False, "crit": ["b64"]},
}
SDK_0_3_LEAVES_OUT = ("protocolVersion", "preferredTransport", "security")


def jcs(document: JsonObject) -> str:
    """RFC 8785, for documents with ASCII names and without floats."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def signature(payload: str, signer: Actor = CARD_SIGNER, **changes: Any) -> JsonObject:
    """An ``AgentCardSignature`` over any payload, under a header with changes."""
    good = {"alg": "ES256", "typ": "JOSE", "kid": signer.public_key.thumbprint}
    members = {name: value for name, value in {**good, **changes}.items() if value is not REMOVED}
    protected = raw(json.dumps(members))
    return {"protected": protected, "signature": raw(signer.sign(f"{protected}.{raw(payload)}".encode()))}


def card_files() -> Iterator[Case]:
    """Cards in files: JSON as editors save it, and of YAML what JSON can say."""
    whole = "".join(f"{name}: {json.dumps(value)}\n" for name, value in CARD_1_0.items())

    def case(name: str, about: str, text: str, *findings: str, standard: str = "YAML 1.2.2", **more: Any) -> Case:
        first = next((one for one in findings if one.endswith("(error)")), "").removesuffix(" (error)")
        rule, _, where = first.partition(" at ")
        return Case(name, about, standard, text, RULES[rule] if rule else None, where, kind="card-file",
                    findings=findings, **more)  # fmt: skip

    yield case("byte-order-mark", "JSON behind a byte order mark", "\ufeff" + json.dumps(CARD_1_0),
               "encoding.byte-order-mark at card (warning)", standard="RFC 8259 8.1")  # fmt: skip
    yield case("yaml", "the same card in YAML", whole)
    kept = "card.member-unknown at card/x_own (note)"
    yield case("yaml-date", "YAML 1.1 takes it for a date, YAML 1.2 for text", whole + "x_own: 2026-11-28\n",
               "yaml.ambiguous at card/x_own (warning)", kept)  # fmt: skip
    yield case("yaml-no", "`no` is text", whole + "x_own: no\n", "yaml.ambiguous at card/x_own (warning)", kept)
    for name, about, text, finding in (
        ("yaml-flow", "an unclosed list", "x_own: [", "yaml.malformed at card"),
        ("yaml-alias", "an alias", "x_own: &a 1\nx_two: *a\n", "yaml.feature at card/x_own"),
        ("yaml-tag", "a tag", "x_own: !!str 1\n", "yaml.feature at card/x_own"),
        ("yaml-merge", "a merge", "x_own: {<<: {a: 1}}\n", "yaml.feature at card/x_own"),
        ("yaml-two-documents", "a second document", whole + "---\n" + whole, "yaml.feature at card"),
        ("yaml-number-key", "a key that is no string", "1: a\n", "yaml.feature at card"),
        ("yaml-duplicate-key", "a key twice", "x_own: {a: 1, 'a': 1}\n", "json.duplicate-member at card/x_own/a"),
        ("yaml-infinite", "a number that JSON has not", "x_own: .inf\n", "json.number at card/x_own"),
        ("yaml-line-separator", "a line break of YAML 1.1 alone", "x_own: a\u2028b\n", "yaml.ambiguous at card"),
    ):
        yield case(name, about, text if text.startswith(whole) else whole + text, f"{finding} (error)")
    yield case("yaml-text", "a text that is no mapping", "an agent\n", "yaml.malformed at card (error)")
    yield case("yaml-too-large", "more bytes of YAML than allowed", whole, "limit.bytes at card (error)",
               standard="limits", expectations={"limits": {"yaml_bytes": 100}})  # fmt: skip


KNO: JsonObject = {
    "$schema": "agent-card@0.2.1",
    "id": "01KKSY7MK56WAKNP2QVKKZ1RXP",
    "name": "Drift Agent",
    "url": "https://agent.example/a2a",
    "version": "1.0.0",
    "capabilities": {"streaming": True},
    "authentication": {"schemes": ["Bearer"]},
    "skills": [{"id": "find", "name": "Find"}],
    "ownership": {"context": "tenant", "possibility_slug": "springfield"},
    "perception": {"domains": ["schemas"], "refresh": "on-change"},
    "goals": [{"id": "no-drift", "description": "Nothing drifts", "metric": "findings", "target": "0"}],
    "boundaries": ["MUST NOT modify files"],
    "budget_override": {"max_phase_tokens": 1000, "warn_threshold_pct": 0.8},
}


def kno_cards() -> Iterator[Case]:
    """Vary KNO agent cards 0.2.1: rules of its JSON Schema, and of its prose."""

    def case(name: str, about: str, row: str, changes: JsonObject, *findings: str) -> Case:
        first = next((one for one in findings if one.endswith("(error)")), "").removesuffix(" (error)")
        rule, _, where = first.partition(" at ")
        return Case(f"kno-{name}", about, f"KNO agent-card-schema 0.2.1 ({row})", json.dumps({**KNO, **changes}),
                    RULES[rule] if rule else None, where, kind="card", findings=findings)  # fmt: skip

    def one(name: str, about: str, row: str, changes: JsonObject, rule: str, place: str, level: str = "error") -> Case:
        return case(name, about, row, changes, f"card.{rule} at card/{place} ({level})")

    goal: JsonObject = {"id": "a", "description": "b", "metric": "c", "target": "0"}
    yield case("card", "a card with a persona", "KNO-1", {})
    yield one("no-ownership", "nobody owns the agent", "KNO-1", {"ownership": None}, "member-missing", "ownership")
    yield one("id", "an id of 25 characters", "KNO-2", {"id": "01KKSY8ABC123DEF456GHI789"}, "member-value", "id",
              "warning")  # fmt: skip
    yield one("schema", "a version that there is not", "KNO-3", {"$schema": "agent-card@0.3.0"}, "member-value",
              "$schema")  # fmt: skip
    service: JsonObject = {"$schema": "service-config@0.3.0", "subtype": "agent-card"}
    yield case("service", "a service that is an agent", "KNO-3", service)
    yield case("blueprint", "what cards are made from", "KNO-3", {"$schema": "agent-blueprint@0.2.0"},
               "card.format at card (error)")  # fmt: skip
    yield one("version", "a version without its quotes", "KNO-4", {"version": 0.1}, "member-type", "version")
    yield one("secret", "a secret for credentials", "KNO-8",
              {"authentication": {"schemes": ["Bearer"], "credentials": "client_secret"}}, "member-value",
              "authentication/credentials")  # fmt: skip
    yield one("no-skills", "an agent without skills", "KNO-10", {"skills": []}, "member-value", "skills")
    yield one("tenant", "a tenant without a slug", "KNO-13", {"ownership": {"context": "tenant"}}, "member-missing",
              "ownership/possibility_slug")  # fmt: skip
    yield one("platform", "a platform with a slug", "KNO-14",
              {"ownership": {"context": "platform", "possibility_slug": "x"}}, "ambiguous",
              "ownership/possibility_slug", "warning")  # fmt: skip
    yield one("refresh", "a refresh that there is not", "KNO-16", {"perception": {"refresh": "hourly"}},
              "member-value", "perception/refresh")  # fmt: skip
    yield one("two-targets", "a target and a query for it", "KNO-18", {"goals": [{**goal, "target_query": "x"}]},
              "ambiguous", "goals/0/target_query")  # fmt: skip
    yield one("target", "a target that is a number", "KNO-18", {"goals": [{**goal, "target": 0}]}, "member-type",
              "goals/0/target")  # fmt: skip
    yield one("boundary", "a boundary of unclear strictness", "KNO-19", {"boundaries": ["Never sleep"]},
              "member-value", "boundaries/0", "warning")  # fmt: skip
    budgets: tuple[tuple[str, JsonObject, str], ...] = (
        ("percent", {"warn_threshold_pct": 80}, "member-value"),
        ("no-tokens", {"max_phase_tokens": 0}, "member-value"),
        ("tokens-true", {"max_phase_tokens": True}, "member-type"),
        ("tokens-fraction", {"max_phase_tokens": 1.0}, "member-type"),
    )
    for name, budget, rule in budgets:
        place = f"budget_override/{next(iter(budget))}"
        yield one(name, "a budget that cannot be kept", "KNO-20", {"budget_override": budget}, rule, place)
    yield case("older", "members that its version has not", "KNO-22", {"$schema": "agent-card@0.1.0"},
               *(f"card.ambiguous at card/{name} (warning)"
                 for name in ("perception", "goals", "boundaries", "budget_override")))  # fmt: skip


TOPICS = {
    "sd-jwt": (accepted_sd_jwts, refused_sd_jwts, branches.accepted, branches.refused),
    "jws": (jws,),
    "trust": (trusted,),
    "certificates": (certificates.certificates, crafted.crafted),
    "times": (times,),
    "key-binding": (key_bindings, branches.key_bindings),
    "agent-proof": (agent_proofs.challenges, agent_proofs.proofs),
    "sd-card": (sd_cards,),
    "holder": (holders,),
    "algorithms": (algorithms,),
    "encoding": (encodings,),
    "limits": (limits,),
    "json-forms": (json_forms,),
    "cards": (cards, card_files, kno_cards, agentcards, lambda: spiffe_ids.cards(CARD_1_0)),
    "card-signatures": (card_signatures,),
    "admission": (issuing.admitted, spiffe_ids.admitted),
    "policies": (issuing.policies, lambda: issuing.plans(CARD_1_0)),
    "issuing": (lambda: issuing.issued(CARD_1_0), issuing.presented),
    "publishing": (lambda: issuing.published(CARD_1_0),),
    "conversions": (issuing.converted, lambda: issuing.signed(CARD_0_3)),
    "status-lists": (tokens.status_lists,),
    "trust-lists": (tokens.trust_lists,),
    "dpop": (tokens.dpops,),
    "registration": (tokens.possessions,),
    "delegation": (tokens.access_tokens, tokens.delegated_tokens),
    "http": (tokens.headers, tokens.nonces),
    "audit": (tokens.audit_chains,),
    "log": (logs.proofs, logs.submissions),
    "domains": (lambda: domains.controls(CARD_1_0),),
    "written": (written.written,),
}
"""Folder → what makes its cases."""
