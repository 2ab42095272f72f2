"""Cases of signed lists, proofs, tokens, headers and audit records.

They follow the standards and docs, and use none of our code beside the keys.
"""

import base64
import hashlib
import hmac
import json
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

from sdcard.encoding import JsonObject, JsonValue
from sdcard.rules import Rule
from vectors import deflate
from vectors.actors import (
    AUDIENCE,
    CARD_SIGNER,
    HOLDER,
    ISSUER,
    ISSUER_ID,
    NOW,
    REMOVED,
    STRANGER,
    Actor,
    bound,
    changed,
    claims,
    jwt,
    resigned,
    sd_jwt,
    trust,
)
from vectors.case import Case, found, no

KEYS: JsonObject = {"keys": [{**ISSUER.jwk, "kid": ISSUER.public_key.thumbprint}]}


def base64url(data: bytes) -> str:
    """Base64url without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def accepted(name: str, about: str, standard: str, document: str, result: JsonValue, **more: Any) -> Case:
    """A document that is accepted with this result."""
    return Case(name, about, standard, document, result=result, **more)


def header(typ: object, signer: Actor = ISSUER, /, **changes: Any) -> JsonObject:
    """The header of a token, with changes."""
    good = {"alg": signer.algorithm.value, "typ": typ, "kid": signer.public_key.thumbprint}
    return changed(good, changes)


# -- status lists -----------------------------------------------------------------------------------------------------

LIST = "https://registry.example/status/1"


ZEROS = "eNpjYBgFo2AUjIJRMApGwVAHAAfQAAE"
"""2000 zero bytes, compressed."""


def compressed(data: bytes) -> str:
    """The claim `lst`. Level 0 has the same bytes in every version of ZLIB."""
    return base64url(zlib.compress(data, 0))


def status_list(claims_changes: Mapping[str, Any] | None = None, signer: Actor = ISSUER, **changes: Any) -> str:
    """A Status List Token with 16 entries of 2 bits: 1 is revoked, 2 suspended."""
    packed: JsonObject = {"bits": 2, "lst": compressed(bytes([0b00100100, 0, 0, 0]))}
    good = {"sub": LIST, "iat": NOW - 10, "exp": NOW + 600, "ttl": 60, "status_list": packed}
    return jwt(changed(good, claims_changes or {}), header("statuslist+jwt", signer, **changes), signer)


def status_lists() -> Iterator[Case]:
    """Token Status List 4, 5 and 8.3."""
    kind: dict[str, Any] = {"kind": "status-list", "expectations": {"uri": LIST, "key": ISSUER.jwk}}
    read: JsonObject = {
        "uri": LIST,
        "iat": NOW - 10,
        "exp": NOW + 600,
        "ttl": 60,
        "bits": 2,
        "size": 16,
        "statuses": {"1": 1, "2": 2},
    }

    def refused(name: str, rule: Rule, where: str, about: str, section: str, document: str, **more: Any) -> Case:
        return no(
            name, rule, f"status-list{where}", about, f"Token Status List {section}", document, **{**kind, **more}
        )

    def lst(**change: JsonValue) -> str:
        return status_list({"status_list": {"bits": 2, "lst": compressed(bytes(4)), **change}})

    yield accepted("list", "two entries that are not valid", "Token Status List 5.1, 8.3", status_list(), read, **kind)
    plain: JsonObject = {**read, "exp": None, "ttl": None}
    yield accepted(
        "no-exp-no-ttl",
        "`exp` and `ttl` are optional",
        "Token Status List 5.1",
        status_list({"exp": REMOVED, "ttl": REMOVED}),
        plain,
        **kind,
    )
    for bits in (1, 4, 8):
        token = status_list({"status_list": {"bits": bits, "lst": compressed(b"\x01\x80")}})
        last = {1: {"0": 1, "15": 1}, 4: {"0": 1, "3": 8}, 8: {"0": 1, "1": 128}}[bits]
        yield accepted(
            f"bits-{bits}",
            f"{bits} bits for each entry, the lowest first",
            "Token Status List 4.1",
            token,
            {**read, "bits": bits, "size": 16 // bits, "statuses": dict(last)},
            **kind,
        )
    yield refused(
        "other-list",
        Rule.STATUS_LIST_OTHER,
        "/sub",
        "the token is of another list",
        "8.3",
        status_list({"sub": f"{LIST}0"}),
    )
    other: JsonObject = {"uri": f"{LIST}/", "key": ISSUER.jwk}
    yield refused(
        "other-uri",
        Rule.STATUS_LIST_OTHER,
        "/sub",
        "`sub` is compared exactly",
        "8.3",
        status_list(),
        expectations=other,
    )
    wrong: dict[str, JsonObject] = {"bits-3": {"bits": 3}, "bits-text": {"bits": "2"}, "no-lst": {"lst": None}}
    for name, value in wrong.items():
        yield refused(name, Rule.STATUS_LIST_MALFORMED, "/status_list", "no list of this shape", "4.2", lst(**value))
    for name, data in {
        "not-compressed": bytes(4),
        "cut-off": zlib.compress(bytes(4), 0)[:-1],
        "bytes-after": zlib.compress(bytes(4), 0) + b"x",
        "raw-deflate": zlib.compress(bytes(4), 0)[2:-4],
    }.items():
        yield refused(
            name, Rule.STATUS_LIST_MALFORMED, "/status_list/lst", "no ZLIB stream", "4.1", lst(lst=base64url(data))
        )
    for name, about, data in deflate.bad():
        yield refused(
            name, Rule.STATUS_LIST_MALFORMED, "/status_list/lst", about, "4.1, RFC 1951 3.2", lst(lst=base64url(data))
        )
    for name, about, data in deflate.good():
        none: JsonObject = {**read, "statuses": {}}
        yield accepted(name, about, "Token Status List 4.1, RFC 1951 3.2", lst(lst=base64url(data)), none, **kind)
    yield refused("lst-base64", Rule.BASE64URL, "/status_list/lst", "base64 with padding", "4.2", lst(lst="eJw="))
    small: JsonObject = {"uri": LIST, "key": ISSUER.jwk, "limits": {"status_list_bytes": 1000}}
    yield refused(
        "too-large",
        Rule.LIMIT_BYTES,
        "/status_list/lst",
        "it inflates beyond the limit",
        "11.1",
        lst(lst=ZEROS),
        expectations=small,
    )
    far = [deflate.FIXED[0], *deflate.copied(285) * 96, *deflate.copied(257)[:2], deflate.FIXED_DISTANCES[29], (0, 13)]
    size = 1 + 96 * 258 + 3
    token = lst(lst=base64url(deflate.fixed(*far, size=size)))
    yield accepted("distance-29", "the largest distance", "Token Status List 4.1, RFC 1951 3.2", token,
                   {**read, "size": 4 * size, "statuses": {}}, **kind)  # fmt: skip
    for size in (1000, 1001):
        token = status_list({"status_list": {"bits": 1, "lst": base64url(deflate.zeros(size))}})
        about = f"{size} bytes where 1,000 are allowed"
        if size == 1000:
            entries: JsonObject = {**read, "bits": 1, "size": 8000, "statuses": {}}
            limit: dict[str, Any] = {**kind, "expectations": small}
            yield accepted("inflated-at-limit", about, "Token Status List 11.1", token, entries, **limit)
        else:
            where = "/status_list/lst"
            yield refused("inflated-above", Rule.LIMIT_BYTES, where, about, "11.1", token, expectations=small)
    head, body, end = str(lst()).split(".")
    for name, token in (("header-empty", f".{body}.{end}"), ("payload-empty", f"{head}..{end}")):
        yield refused(name, Rule.JWS_FORMAT, "", "a part that is empty", "5.1, RFC 7515 7.1", token)
    even = next(one for one in (status_list({"x": "x" * size}) for size in range(4)) if len(one) % 2 == 0)
    for name, room, rule, token in (
        ("token-too-large", len(even) - 2, Rule.LIMIT_BYTES, even),
        ("token-of-emoji", 100, Rule.JWS_FORMAT, "\U0001f600" * 100),
        ("token-of-emoji-too-large", 100, Rule.LIMIT_BYTES, "\U0001f600" * 101),
    ):
        yield refused(
            name,
            rule,
            "",
            "a token that is too large, or just not",
            "11.1",
            token,
            expectations={**small, "limits": {"status_list_bytes": room // 2}},
        )
    yield accepted(
        "token-at-limit",
        "a token that is as large as allowed",
        "Token Status List 11.1",
        even,
        read,
        **{**kind, "expectations": {**small, "limits": {"status_list_bytes": len(even) // 2}}},
    )
    letter = f"{status_list()[:-1]}\xe9"
    yield refused("token-not-ascii", Rule.JWS_FORMAT, "", "a letter that is not ASCII", "5.1", letter)
    yield refused("typ", Rule.JWS_TYP, "/typ", "an ordinary JWT", "5.1", status_list(typ="JWT"))
    yield refused("alg-none", Rule.JWS_ALG, "/alg", "`alg` is none", "5.1", status_list(alg="none"))
    yield refused(
        "other-key",
        Rule.JWS_SIGNATURE,
        "/signature",
        "signed by the Holder",
        "8.3",
        jwt(
            {"sub": LIST, "iat": NOW, "status_list": {"bits": 2, "lst": compressed(bytes(4))}},
            header("statuslist+jwt"),
            HOLDER,
        ),
    )
    for name in ("sub", "iat", "status_list"):
        yield refused(
            f"no-{name.replace('_', '-')}",
            Rule.CLAIM_MISSING,
            f"/{name}",
            f"no `{name}`",
            "5.1",
            status_list({name: REMOVED}),
        )
    yield refused("expired", Rule.EXPIRED, "/exp", "`exp` is now", "8.3", status_list({"exp": NOW}))
    yield refused("future", Rule.ISSUED_IN_FUTURE, "/iat", "issued in the future", "8.3", status_list({"iat": NOW + 1}))
    yield refused("not-before", Rule.NOT_YET_VALID, "/nbf", "valid in the future", "8.3", status_list({"nbf": NOW + 1}))
    yield refused(
        "addressed",
        Rule.TOKEN_AUDIENCE,
        "/aud",
        "for another audience",
        "8.3",
        status_list({"aud": "https://x.example"}),
    )
    for name, ttl in {"zero": 0, "negative": -1}.items():
        yield refused(f"ttl-{name}", Rule.CLAIM_VALUE, "/ttl", f"`ttl` is {ttl}", "5.1", status_list({"ttl": ttl}))


# -- trust lists ------------------------------------------------------------------------------------------------------


def trust_list(changes: Mapping[str, Any] | None = None, signer: Actor = CARD_SIGNER, **header_changes: Any) -> str:
    """A trust list of one Issuer."""
    good = {**trust(), "iat": NOW - 10, "exp": NOW + 600}
    return jwt(changed(good, changes or {}), header("sdcard-trust+jwt", signer, **header_changes), signer)


def trust_lists() -> Iterator[Case]:
    """Signed trust lists: docs/trust.md."""
    kind: dict[str, Any] = {"kind": "trust-list", "expectations": {"signers": {"keys": [CARD_SIGNER.jwk]}}}

    def refused(
        name: str, rule: Rule, where: str, about: str, document: str, standard: str = "trust", **more: Any
    ) -> Case:
        return no(name, rule, f"trust{where}", about, standard, document, **{**kind, **more})

    yield accepted("list", "a signed list of one Issuer", "trust", trust_list(), {**trust(), "exp": NOW + 600}, **kind)
    two: JsonObject = {"signers": {"keys": [ISSUER.jwk, CARD_SIGNER.jwk]}}
    yield accepted(
        "list-second-signer",
        "signed by one of two pinned keys",
        "trust",
        trust_list(),
        {**trust(), "exp": NOW + 600},
        **{**kind, "expectations": two},
    )
    yield refused(
        "list-stranger", Rule.TRUST_SIGNER, "/kid", "signed by a key that is not pinned", trust_list(None, STRANGER)
    )
    yield refused("list-no-kid", Rule.TRUST_SIGNER, "/kid", "names no key", trust_list(kid=REMOVED))
    yield refused(
        "list-own-key",
        Rule.TRUST_SIGNER,
        "/kid",
        "brings its own key",
        trust_list(None, STRANGER, jwk=STRANGER.jwk),
        "RFC 8725 3.10",
    )
    posing = trust_list(None, STRANGER, kid=CARD_SIGNER.public_key.thumbprint)
    yield refused("list-posing", Rule.JWS_SIGNATURE, "/signature", "a stranger under the name of a pinned key", posing)
    yield refused("list-typ", Rule.JWS_TYP, "/typ", "an SD-Card's `typ`", trust_list(typ="dc+sd-jwt"), "RFC 8725 3.11")
    yield refused("list-alg-none", Rule.JWS_ALG, "/alg", "`alg` is none", trust_list(alg="none"), "RFC 8725 3.1")
    yield refused("list-expired", Rule.TRUST_EXPIRED, "/exp", "`exp` is now", trust_list({"exp": NOW}))
    yield refused("list-future", Rule.ISSUED_IN_FUTURE, "/iat", "issued in 61 s", trust_list({"iat": NOW + 61}))
    for name in ("iat", "exp"):
        yield refused(f"list-no-{name}", Rule.CLAIM_MISSING, f"/{name}", f"no `{name}`", trust_list({name: REMOVED}))
    yield refused("list-no-issuers", Rule.TRUST_MALFORMED, "", "no Issuers", trust_list({"issuers": {}}))
    yield refused(
        "list-addressed",
        Rule.TOKEN_AUDIENCE,
        "/aud",
        "for another audience",
        trust_list({"aud": "x"}),
        "RFC 7519 4.1.3",
    )
    yield refused("list-not-ascii", Rule.JWS_FORMAT, "", "a letter that is not ASCII", f"{trust_list()[:-1]}\xe9")
    yield refused("list-not-before", Rule.NOT_YET_VALID, "/nbf", "valid in 61 s", trust_list({"nbf": NOW + 61}))
    yield refused(
        "list-not-jws", Rule.JWS_FORMAT, "", "the document without a signature", json.dumps(trust()), "RFC 7515 7.1"
    )


# -- DPoP -------------------------------------------------------------------------------------------------------------

URL = "https://api.example/tasks"
TOKEN = "Kz~8mXK1EalYznwH-LC-1fBAo.4Ljp~zsPE_NeO.gxU"
ATH = base64url(hashlib.sha256(TOKEN.encode()).digest())


def dpop(changes: Mapping[str, Any] | None = None, signer: Actor = HOLDER, **header_changes: Any) -> str:
    """A DPoP proof without an access token."""
    good = {"jti": "-BwC3ESc6acc2lTc", "htm": "POST", "htu": URL, "iat": NOW}
    protected = changed({"typ": "dpop+jwt", "alg": signer.algorithm.value, "jwk": signer.jwk}, header_changes)
    return jwt(changed(good, changes or {}), protected, signer)


def dpops() -> Iterator[Case]:
    """RFC 9449 4.3, 7 and 11.1."""
    request: JsonObject = {"method": "POST", "url": f"{URL}?a=1"}
    bound_to: dict[str, Any] = {"token": {"text": TOKEN, "claims": {"cnf": {"jkt": HOLDER.public_key.thumbprint}}}}
    read: JsonObject = {"jkt": HOLDER.public_key.thumbprint, "iat": NOW, "jti": "-BwC3ESc6acc2lTc", "nonce": None}

    def good(name: str, about: str, check: str, document: str, result: JsonObject | None = None, **more: Any) -> Case:
        return accepted(
            name,
            about,
            f"RFC 9449 {check}",
            document,
            {**read, **(result or {})},
            kind="dpop",
            expectations={**request, **more},
        )

    def refused(name: str, rule: Rule, where: str, about: str, check: str, document: str, **more: Any) -> Case:
        return no(
            name, rule, where, about, f"RFC 9449 {check}", document, kind="dpop", expectations={**request, **more}
        )

    yield good("proof", "a proof without an access token", "4.2, 4.3", dpop())
    yield good("proof-with-token", "a proof for a bound access token", "4.3, 7.1", dpop({"ath": ATH}), **bound_to)
    yield good(
        "proof-server-nonce", "a proof with a nonce of the server", "8", dpop({"nonce": "eyJ7S"}), {"nonce": "eyJ7S"}
    )
    yield good(
        "htu-normalized",
        "an upper-case host and the default port",
        "4.3 check 9",
        dpop({"htu": "HTTPS://API.example:443/tasks"}),
    )
    yield refused("missing", Rule.DPOP_MISSING, "dpop", "no header", "4.3 check 1", "")
    yield refused("two-headers", Rule.DPOP_REPEATED, "dpop", "two headers", "4.3 check 1", f"{dpop()}\n{dpop()}")
    yield refused(
        "two-values", Rule.DPOP_REPEATED, "dpop", "two values in one header", "4.3 check 1", f"{dpop()}, {dpop()}"
    )
    yield refused("not-jwt", Rule.JWS_FORMAT, "dpop", "not a JWT", "4.3 check 2", "x")
    for name in ("jti", "htm", "htu", "iat"):
        yield refused(
            f"no-{name}", Rule.CLAIM_MISSING, f"dpop/{name}", f"no `{name}`", "4.3 check 3", dpop({name: REMOVED})
        )
    yield refused("typ", Rule.JWS_TYP, "dpop-header/typ", "an ordinary JWT", "4.3 check 4", dpop(typ="JWT"))
    yield refused("alg-none", Rule.JWS_ALG, "dpop-header/alg", "`alg` is none", "4.3 check 5", dpop(alg="none"))
    yield refused(
        "alg-hs256", Rule.JWS_ALG, "dpop-header/alg", "a symmetric algorithm", "4.3 check 5", dpop(alg="HS256")
    )
    yield refused("no-jwk", Rule.JWS_HEADER, "dpop-header/jwk", "no key", "4.3 check 6", dpop(jwk=REMOVED))
    yield refused(
        "other-signer",
        Rule.JWS_SIGNATURE,
        "dpop/signature",
        "another key signed",
        "4.3 check 6",
        dpop(None, STRANGER, jwk=HOLDER.jwk),
    )
    private = {**HOLDER.jwk, "d": "bm90IGEgcmVhbCBvbmU"}
    yield refused(
        "private-key", Rule.KEY_PRIVATE, "dpop-header/jwk", "a private member", "4.3 check 7", dpop(jwk=private)
    )
    for method in ("GET", "post"):
        yield refused(
            f"method-{'other' if method == 'GET' else 'lower-case'}",
            Rule.DPOP_METHOD,
            "dpop/htm",
            f"`htm` is {method}",
            "4.3 check 8",
            dpop({"htm": method}),
        )
    for name, url in {
        "path": "https://api.example/other",
        "host": "https://evil.example/tasks",
        "scheme": "http://api.example/tasks",
        "port": "https://api.example:8443/tasks",
        "relative": "/tasks",
    }.items():
        yield refused(f"url-{name}", Rule.DPOP_URL, "dpop/htu", f"another {name}", "4.3 check 9", dpop({"htu": url}))
    yield refused(
        "stale", Rule.DPOP_STALE, "dpop/iat", "created 301 s ago", "4.3 check 11, 11.1", dpop({"iat": NOW - 301})
    )
    yield refused(
        "from-future", Rule.DPOP_FROM_FUTURE, "dpop/iat", "created in 61 s", "4.3 check 11", dpop({"iat": NOW + 61})
    )
    yield refused(
        "token-hash",
        Rule.DPOP_TOKEN_HASH,
        "dpop/ath",
        "for another access token",
        "4.3 check 12",
        dpop({"ath": base64url(hashlib.sha256(b"x").digest())}),
        **bound_to,
    )
    yield refused(
        "no-token-hash",
        Rule.CLAIM_MISSING,
        "dpop/ath",
        "without a hash of the access token",
        "4.3 check 12",
        dpop(),
        **bound_to,
    )
    yield refused(
        "other-key",
        Rule.DPOP_OTHER_KEY,
        "dpop-header/jwk",
        "the token is bound to another key",
        "4.3 check 12, 6",
        dpop({"ath": ATH}, STRANGER),
        **bound_to,
    )
    for name, cnf in {
        "no-cnf": {},
        "jwk": {"cnf": {"jwk": HOLDER.jwk}},
        "two-bindings": {"cnf": {"jkt": HOLDER.public_key.thumbprint, "x5t#S256": "x"}},
    }.items():
        yield refused(
            f"token-{name}",
            Rule.DPOP_UNBOUND,
            "access-token/cnf",
            "the token is not bound to exactly one key",
            "6.1, 7.1",
            dpop({"ath": ATH}),
            token={"text": TOKEN, "claims": cnf},
        )
    nonces: dict[str, Any] = {"nonces": ["eyJ7S", "eyJ8T"]}
    shown = dpop({"nonce": "eyJ8T"})
    yield good("nonce-of-the-server", "one of the server's present nonces", "8, 9", shown, {"nonce": "eyJ8T"}, **nonces)
    for name, document in {"no-nonce": dpop(), "other-nonce": dpop({"nonce": "eyJ8"})}.items():
        yield refused(name, Rule.DPOP_NONCE, "dpop/nonce", "no present nonce of the server", "8, 9", document, **nonces)
    yield refused("replayed", Rule.DPOP_REPLAYED, "dpop/jti", "used before", "11.1", dpop(), seen=["-BwC3ESc6acc2lTc"])
    yield refused("expired", Rule.EXPIRED, "dpop/exp", "`exp` is now", "4.2", dpop({"exp": NOW}))


# -- possession -------------------------------------------------------------------------------------------------------


def possession(changes: Mapping[str, Any] | None = None, signer: Actor = HOLDER, **header_changes: Any) -> str:
    """A proof of possession."""
    good = {"aud": ISSUER_ID, "sub": "agent:georoute", "iat": NOW, "nonce": "r-1"}
    protected = changed({"alg": signer.algorithm.value, "typ": "sd-card-possession+jwt"}, header_changes)
    return jwt(changed(good, changes or {}), protected, signer)


def possessions() -> Iterator[Case]:
    """Proofs of possession at registration: SD-Card T-26."""
    settings: JsonObject = {"key": HOLDER.jwk, "audience": ISSUER_ID, "agent_id": "georoute"}
    kind: dict[str, Any] = {"kind": "possession", "expectations": settings}

    def refused(name: str, rule: Rule, where: str, about: str, document: str, standard: str = "SD-Card T-26") -> Case:
        return no(f"possession-{name}", rule, f"possession{where}", about, standard, document, **kind)

    yield accepted("possession", "a proof of possession", "SD-Card T-26", possession(), "r-1", **kind)
    yield refused("stale", Rule.PROOF_STALE, "/iat", "created 301 s ago", possession({"iat": NOW - 301}))
    yield refused("from-future", Rule.PROOF_FROM_FUTURE, "/iat", "created in 61 s", possession({"iat": NOW + 61}))
    yield refused(
        "audience", Rule.PROOF_AUDIENCE, "/aud", "for another registry", possession({"aud": "https://x.example"})
    )
    yield refused("agent", Rule.PROOF_AGENT, "/sub", "for another agent", possession({"sub": "agent:other"}))
    yield refused("nonce", Rule.PROOF_NONCE, "/nonce", "a nonce of 257 characters", possession({"nonce": "n" * 257}))
    yield refused("no-nonce", Rule.CLAIM_MISSING, "/nonce", "no nonce", possession({"nonce": REMOVED}))
    yield refused("thief", Rule.JWS_SIGNATURE, "/signature", "signed by another key", possession(None, STRANGER))
    yield refused("kb-jwt", Rule.JWS_TYP, "-header/typ", "a KB-JWT", possession(typ="kb+jwt"), "RFC 8725 3.11")
    yield refused("alg-none", Rule.JWS_ALG, "-header/alg", "`alg` is none", possession(alg="none"), "RFC 8725 3.1")
    yield refused("expired", Rule.EXPIRED, "/exp", "`exp` is now", possession({"exp": NOW}))


# -- access tokens ----------------------------------------------------------------------------------------------------

ME, OTHER, USER = "agent:georoute", "agent:planner", "jwt:https://idp.example alice"


def access_token(changes: Mapping[str, Any] | None = None, signer: Actor = ISSUER, **header_changes: Any) -> str:
    """A delegated token for this agent, with which another agent acts for a user."""
    return jwt(token_claims(**(changes or {})), header("at+jwt", signer, **header_changes), signer)


def token_claims(**changes: Any) -> JsonObject:
    """The claims of that token, with changes."""
    good = {
        "iss": ISSUER_ID,
        "aud": ME,
        "sub": USER,
        "act": {"sub": OTHER},
        "client_id": "planner",
        "scope": "plan read",
        "jti": "t-1",
        "iat": NOW - 10,
        "exp": NOW + 600,
        "interaction_id": "i-1",
    }
    return changed(good, changes)


def access_tokens() -> Iterator[Case]:
    """RFC 9068 4 and RFC 8693 4.1, 4.4."""
    server: JsonObject = {"issuer": ISSUER_ID, "audience": ME, "keys": KEYS}
    names: JsonObject = {"registry": "https://other.example", "names": ["agent:georoute"]}
    at = "access-token"

    def refused(name: str, rule: Rule, where: str, about: str, standard: str, document: str, **more: Any) -> Case:
        return no(name, rule, f"{at}{where}", about, standard, document, kind=at, expectations={**server, **more})

    yield accepted(
        "access-token",
        "an access token with an actor",
        "RFC 9068 4",
        access_token(),
        token_claims(),
        kind=at,
        expectations=server,
    )
    may: JsonObject = {"sub": "agent:georoute"}
    yield accepted(
        "may-act",
        "`may_act` names the actor",
        "RFC 8693 4.4",
        access_token({"may_act": may}),
        token_claims(may_act=may),
        kind=at,
        expectations={**server, "actor": names},
    )
    for name, value in {
        "other": {"sub": "agent:other"},
        "other-issuer": {"iss": "https://x.example", "sub": "agent:georoute"},
        "text": "agent:georoute",
    }.items():
        yield refused(
            f"may-act-{name}",
            Rule.DELEGATION_MAY_ACT,
            "/may_act",
            "`may_act` does not permit this actor",
            "RFC 8693 4.4",
            access_token({"may_act": value}),
            actor=names,
        )
    for name, act in {"text": "agent:x", "no-subject": {}, "inner": {"sub": OTHER, "act": 1}}.items():
        place = "/act/act" if name == "inner" else "/act"
        yield refused(
            f"act-{name}",
            Rule.DELEGATION_ACT,
            place,
            "`act` names no party",
            "RFC 8693 4.1",
            access_token({"act": act}),
        )
    yield refused("access-token-typ", Rule.JWS_TYP, "/typ", "an ID token", "RFC 9068 4", access_token(typ="JWT"))
    yield refused(
        "access-token-alg-none", Rule.JWS_ALG, "/alg", "`alg` is none", "RFC 9068 4", access_token(alg="none")
    )
    yield refused(
        "access-token-audience",
        Rule.TOKEN_AUDIENCE,
        "/aud",
        "for another server",
        "RFC 9068 4",
        access_token({"aud": OTHER}),
    )
    yield refused(
        "access-token-issuer",
        Rule.ISSUER_UNKNOWN,
        "/iss",
        "of another server",
        "RFC 9068 4",
        access_token({"iss": "https://x.example"}),
    )
    yield refused(
        "access-token-expired", Rule.EXPIRED, "/exp", "`exp` is now", "RFC 9068 4", access_token({"exp": NOW})
    )
    yield refused(
        "access-token-future",
        Rule.ISSUED_IN_FUTURE,
        "/iat",
        "issued in 61 s",
        "RFC 9068 4",
        access_token({"iat": NOW + 61}),
    )
    yield refused(
        "access-token-signature",
        Rule.JWS_SIGNATURE,
        "/signature",
        "a signature of zeros",
        "RFC 9068 4",
        resigned(access_token(), bytes(64)),
    )
    for name in ("aud", "exp", "iat", "sub", "client_id", "jti"):
        yield refused(
            f"access-token-no-{name.replace('_', '-')}",
            Rule.CLAIM_MISSING,
            f"/{name}",
            f"no `{name}`",
            "RFC 9068 2.2",
            access_token({name: REMOVED}),
        )


def delegated_tokens() -> Iterator[Case]:
    """Delegated tokens at their target, and the next delegation: SD-Card 7.3."""
    server: JsonObject = {"issuer": ISSUER_ID, "audience": ME, "keys": KEYS}
    onwards: JsonObject = {
        "actor": ME,
        "target": "agent:weather",
        "most_actors": 4,
        "scope": "read",
        "permitted": ["read", "plan"],
    }
    at = "access-token"

    def good(name: str, about: str, document: str, result: JsonValue, **more: Any) -> Case:
        return accepted(
            name,
            about,
            "SD-Card 7.3, RFC 8693 4.1",
            document,
            result,
            kind="delegated-token",
            expectations={**server, **more},
        )

    def refused(
        name: str, rule: Rule, where: str, about: str, document: str, standard: str = "SD-Card 7.3", **more: Any
    ) -> Case:
        return no(name, rule, where, about, standard, document, kind="delegated-token", expectations={**server, **more})

    def following(**changes: Any) -> dict[str, Any]:
        return {"next": changed(onwards, changes)}

    def acting(*actors: str) -> JsonObject:
        act: JsonObject | None = None
        for actor in actors:
            act = {"sub": actor} if act is None else {"sub": actor, "act": act}
        return act or {}

    yield good("delegated", "an agent acts for a user", access_token(), token_claims())
    yield good(
        "delegated-next",
        "this agent hands on a narrower scope",
        access_token(),
        {"parties": [USER, OTHER, ME], "scopes": ["read"], "interaction_id": "i-1"},
        **following(),
    )
    jkt: JsonObject = {"cnf": {"jkt": HOLDER.public_key.thumbprint}}
    bound_token = access_token(jkt)
    ath = base64url(hashlib.sha256(bound_token.encode()).digest())
    call: dict[str, Any] = {"bound": {"method": "POST", "url": URL, "proofs": [dpop({"ath": ath})]}}
    yield good("delegated-bound", "a bound token with its proof", bound_token, token_claims(**jkt), **call)
    yield refused(
        "delegated-bound-as-bearer",
        Rule.DPOP_MISSING,
        f"{at}/cnf",
        "a bound token without a proof",
        bound_token,
        "RFC 9449 7.2",
    )
    yield refused(
        "delegated-bearer-with-proof",
        Rule.DPOP_UNBOUND,
        f"{at}/cnf",
        "a bearer token with a proof",
        access_token(),
        "RFC 9449 7.1",
        **call,
    )
    yield refused(
        "delegated-other-key",
        Rule.ISSUER_KEY_UNKNOWN,
        f"{at}/kid",
        "a key that the registry does not have",
        access_token(None, STRANGER),
    )
    yield refused(
        "delegated-two-targets", Rule.CLAIM_TYPE, f"{at}/aud", "`aud` is an array", access_token({"aud": [ME]})
    )
    for name, act in {
        "other-member": {"sub": OTHER, "iss": ISSUER_ID},
        "subject-again": {"sub": USER},
        "actor-twice": acting(OTHER, "agent:b", OTHER),
        "target-acted": {"sub": ME},
        "too-many": acting(*(f"agent:a{number}" for number in range(13))),
    }.items():
        yield refused(
            f"delegated-act-{name}",
            Rule.DELEGATION_ACT,
            f"{at}/act",
            "no valid chain of actors",
            access_token({"act": act}),
            "RFC 8693 4.1",
        )
    request = "request"
    yield refused(
        "delegated-scope",
        Rule.DELEGATION_SCOPE,
        f"{request}/scope",
        "a scope that the token lacks",
        access_token(),
        **following(scope="write", permitted=["write"]),
    )
    yield refused(
        "delegated-scope-grant",
        Rule.DELEGATION_SCOPE,
        f"{request}/scope",
        "a scope that the grant lacks",
        access_token(),
        **following(permitted=["plan"]),
    )
    yield refused(
        "delegated-scope-spaces",
        Rule.DELEGATION_SCOPE,
        f"{request}/scope",
        "two spaces between scopes",
        access_token(),
        "RFC 6749 3.3",
        **following(scope="plan  read"),
    )
    for name, target in {"actor": OTHER, "subject": USER, "itself": ME}.items():
        yield refused(
            f"delegated-cycle-{name}",
            Rule.DELEGATION_CYCLE,
            f"{request}/audience",
            "back to an earlier party",
            access_token(),
            **following(target=target),
        )
    yield refused(
        "delegated-too-deep",
        Rule.DELEGATION_DEPTH,
        f"{request}/audience",
        "two may act, this is the third",
        access_token({"act": acting("agent:a", "agent:b")}),
        **following(most_actors=2),
    )
    yield refused(
        "delegated-other-interaction",
        Rule.DELEGATION_INTERACTION,
        f"{request}/interaction_id",
        "another interaction than the token's",
        access_token(),
        **following(interaction_id="i-2"),
    )


# -- headers and nonces -----------------------------------------------------------------------------------------------


def headers() -> Iterator[Case]:
    """Values of `WWW-Authenticate` and of `Authorization`."""
    me: JsonObject = {"audience": AUDIENCE}
    good = f'SD-Card nonce="n-1", audience="{AUDIENCE}"'

    def asked(name: str, about: str, value: str, result: JsonValue, **more: Any) -> Case:
        return accepted(
            f"challenge-{name}", about, "RFC 9110 11.6.1", value, result, kind="challenge", expectations={**me, **more}
        )

    def refused(
        name: str, rule: Rule, where: str, about: str, value: str, standard: str = "RFC 9110 11.6.1", **more: Any
    ) -> Case:
        return no(
            f"challenge-{name}",
            rule,
            f"challenge{where}",
            about,
            standard,
            value,
            kind="challenge",
            expectations={**me, **more},
        )

    read: JsonObject = {"nonce": "n-1", "audience": AUDIENCE, "interaction_id": None, "requested": []}
    yield asked("plain", "a challenge", good, read)
    yield asked(
        "requested",
        "a challenge that requests claims",
        f'{good}, requested="[\\"skills\\",\\"provider\\"]"',
        {**read, "requested": ["skills", "provider"]},
    )
    yield asked("beside-bearer", "beside another scheme in one header", f'Bearer realm="x", error="y", {good}', read)
    yield asked("second-header", "in the second header", f"Basic\n{good}", read)
    yield asked("lower-case", "the scheme in lower case", good.replace("SD-Card", "sd-card"), read)
    yield asked("none", "another scheme alone", 'Bearer realm="x"', None)
    yield asked(
        "of-interaction",
        "of the interaction of the request",
        f'{good}, interaction_id="i-1"',
        {**read, "interaction_id": "i-1"},
        interaction_id="i-1",
    )
    yield refused(
        "other-audience",
        Rule.CHALLENGE_AUDIENCE,
        "/audience",
        "the challenge of another server",
        'SD-Card nonce="n-1", audience="https://other.example"',
        "RFC 9901 7.3",
    )
    for name, value, mine in (("other", "i-2", "i-1"), ("unasked", "i-2", None)):
        yield refused(
            f"interaction-{name}",
            Rule.CHALLENGE_INTERACTION,
            "/interaction_id",
            "of another interaction",
            f'{good}, interaction_id="{value}"',
            "SD-Card 5.2.2",
            **({"interaction_id": mine} if mine else {}),
        )
    yield refused(
        "interaction-dropped",
        Rule.CHALLENGE_INTERACTION,
        "/interaction_id",
        "without the interaction of the request",
        good,
        "SD-Card 5.2.2",
        interaction_id="i-1",
    )
    yield refused(
        "agent-nonce",
        Rule.KB_PURPOSE,
        "/nonce",
        "a nonce for a called agent",
        good.replace("n-1", "agent-proof.x"),
        "RFC 9901 9.5",
    )
    yield refused("twice", Rule.CHALLENGE_MALFORMED, "", "two challenges", f"{good}\n{good}")
    yield refused("nonce-twice", Rule.CHALLENGE_MALFORMED, "", "a parameter twice", f'{good}, nonce="n-2"')
    yield refused("no-nonce", Rule.CHALLENGE_MALFORMED, "/nonce", "no nonce", f'SD-Card audience="{AUDIENCE}"')
    yield refused(
        "requested-index",
        Rule.CHALLENGE_MALFORMED,
        "/requested",
        "a path with an index",
        f'{good}, requested="[\\"skills.0\\"]"',
    )
    yield refused(
        "requested-path",
        Rule.PATH_MALFORMED,
        "/requested/0",
        "no claim path",
        f'{good}, requested="[\\"skills..id\\"]"',
        "SD-JWT VC 4.6",
    )

    for name, entry in (("number", "1"), ("129-characters", f'\\"{"a" * 129}\\"')):
        yield refused(
            f"requested-{name}",
            Rule.CHALLENGE_MALFORMED,
            "/requested/0",
            "an entry that is no short text",
            f'{good}, requested="[{entry}]"',
        )
    longest = "a" * 128
    yield asked(
        "requested-128-characters",
        "the longest entry",
        f'{good}, requested="[\\"{longest}\\"]"',
        {**read, "requested": [longest]},
    )
    segment = json.dumps(json.dumps(['"\\ud800"']))
    yield refused(
        "requested-surrogate",
        Rule.PATH_MALFORMED,
        "/requested/0",
        "a segment that is no text",
        f"{good}, requested={segment}",
    )
    padded = [f'{good}, requested="[{" " * size}]"' for size in range(4000 - len(good) - 16, 4001 - len(good))]
    yield asked("longest", "a challenge of 4,000 characters", next(one for one in padded if len(one) == 4000), read)
    too_long = next(one for one in padded if len(one) == 4001)
    yield refused("too-long", Rule.CHALLENGE_MALFORMED, "", "a challenge of 4,001 characters", too_long)

    presentation = bound(sd_jwt(claims()))
    at = "request/headers/authorization"

    def sent(name: str, scheme: str, rule: Rule | None, about: str, value: str, result: JsonValue = None) -> Case:
        standard = "RFC 6750 2.1" if scheme == "Bearer" else "RFC 9110 11.6.2"
        return Case(
            f"authorization-{name}",
            about,
            standard,
            value,
            rule,
            at if rule else "",
            kind="authorization",
            expectations={"scheme": scheme},
            result=result,
        )

    yield sent("presentation", "SD-Card", None, "a presentation", f"SD-Card {presentation}", presentation)
    yield sent("longest", "SD-Card", None, "8,000 characters", f"SD-Card {'a' * 8000}", "a" * 8000)
    yield sent("too-long", "SD-Card", Rule.LIMIT_BYTES, "8,001 characters", f"SD-Card {'a' * 8001}")
    yield sent("absent", "SD-Card", Rule.PRESENTATION_MISSING, "no header", "")
    yield sent("other-scheme", "SD-Card", Rule.PRESENTATION_MISSING, "another scheme", "Bearer abc")
    yield sent("twice", "SD-Card", Rule.REQUEST, "two headers", f"SD-Card {presentation}\nSD-Card {presentation}")
    yield sent("empty", "SD-Card", Rule.REQUEST, "the scheme alone", "SD-Card")
    yield sent("no-scheme", "SD-Card", Rule.REQUEST, "no scheme", "=a b")
    yield sent("parameters", "SD-Card", Rule.REQUEST, "parameters where a presentation belongs", 'SD-Card a="b"')
    yield sent("bearer", "Bearer", None, "a bearer token", "Bearer abc.def", "abc.def")
    yield sent("bearer-absent", "Bearer", Rule.TOKEN_MISSING, "no header", "")
    yield sent("bearer-other-scheme", "Bearer", Rule.TOKEN_MISSING, "another scheme", "Basic abc")
    yield sent("bearer-twice", "Bearer", Rule.TOKEN_INVALID, "two headers", "Bearer abc\nBearer def")
    yield sent("bearer-comma", "Bearer", Rule.TOKEN_INVALID, "two tokens in one header", "Bearer abc, Bearer def")


SECRET = hashlib.sha256(b"sd-card-vectors/1 nonce key").digest()
RANDOM = hashlib.sha256(b"sd-card-vectors/1 nonce randomness").digest()[:16]
TERMS: JsonObject = {
    "key": base64url(SECRET),
    "purpose": "presentation",
    "audience": AUDIENCE,
    "lifetime": 300,
    "origin": "https://verifier.example",
    "method": "POST",
    "path": "/tasks",
}


def stateless(made_at: int = NOW, **changes: Any) -> str:
    """A stateless nonce, by the docstring of ``sdcard/nonces.py``."""
    terms = changed(TERMS, changes)
    path = str(terms["path"]) + (f"\n{terms['service']}" if "service" in terms else "")
    fields: list[Any] = [terms[name] for name in ("purpose", "audience", "lifetime", "origin", "method")]
    fields += [path, terms.get("interaction_id"), ""]
    made = b"\x01" + made_at.to_bytes(6, "big") + RANDOM
    covered = b"".join(len(one).to_bytes(4, "big") + one for one in (b"sd-card challenge", made))
    for one in fields:
        text = b"" if one is None else str(one).encode()
        covered += (b"\xff" * 4 if one is None else len(text).to_bytes(4, "big")) + text
    key = base64.urlsafe_b64decode(f"{terms['key']}=")
    return base64url(made + hmac.digest(key, covered, "sha256")[:16])


def nonces() -> Iterator[Case]:
    """Stateless nonces: docs/presenting.md."""
    standard = "RFC 9901 7.3 step 5.f, 9.5"

    def case(name: str, about: str, nonce: str, rule: Rule | None = None, **more: Any) -> Case:
        return Case(
            f"nonce-{name}",
            about,
            standard,
            nonce,
            rule,
            "kb-jwt/nonce" if rule else "",
            kind="nonce",
            expectations={**TERMS, **more},
            result=None if rule else NOW + 300,
        )

    yield case("fresh", "made now", stateless())
    yield Case(
        "nonce-oldest", "made 300 s ago", standard, stateless(NOW - 300), kind="nonce", expectations=TERMS, result=NOW
    )
    yield case(
        "service", "through a Service", stateless(service="https://service.example"), service="https://service.example"
    )
    yield case("interaction", "of an interaction", stateless(interaction_id="i-1"), interaction_id="i-1")
    expired, other = Rule.KB_CHALLENGE_EXPIRED, Rule.KB_OTHER_REQUEST
    yield case("expired", "made 301 s ago", stateless(NOW - 301), expired)
    yield case("from-future", "made in 61 s", stateless(NOW + 61), expired)
    ahead = stateless(NOW + 60)
    yield Case("nonce-ahead", "made in 60 s", standard, ahead, kind="nonce", expectations=TERMS, result=NOW + 360)
    changes: dict[str, dict[str, Any]] = {
        "audience": {"audience": "https://other.example"},
        "purpose": {"purpose": "called-agent"},
        "method": {"method": "GET"},
        "path": {"path": "/other"},
        "origin": {"origin": "https://other.example"},
        "lifetime": {"lifetime": 301},
        "service": {"service": "https://service.example"},
        "interaction": {"interaction_id": "i-1"},
        "empty-interaction": {"interaction_id": ""},
        "key": {"key": base64url(bytes(32))},
    }
    for name, change in changes.items():
        yield case(f"other-{name}", f"made with another {name}", stateless(**change), other)
    flipped = bytearray(base64.urlsafe_b64decode(stateless()))
    flipped[10] ^= 1
    yield case("changed-randomness", "one bit of the randomness was changed", base64url(bytes(flipped)), other)
    yield case("not-a-nonce", "51 characters", stateless()[:-1], Rule.KB_NONCE)


# -- audit records ----------------------------------------------------------------------------------------------------


def canonical(document: JsonObject) -> str:
    """RFC 8785, for ASCII and whole numbers."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def record(sequence: int, previous: str, **event: JsonValue) -> JsonObject:
    """An audit record with its digest."""
    content: JsonObject = {"action": "agent.registered", "at": NOW, **event, "sequence": sequence, "previous": previous}
    text = b"sd-card audit record 1\n" + canonical(content).encode()
    return {**content, "digest": hashlib.sha256(text).hexdigest()}


def chain(count: int = 3, **event: JsonValue) -> list[JsonObject]:
    """A chain of audit records."""
    records: list[JsonObject] = []
    for number in range(1, count + 1):
        previous = str(records[-1]["digest"]) if records else "0" * 64
        records.append(record(number, previous, agent=f"a{number}", **event))
    return records


def checkpoint(at: JsonObject, signer: Actor = ISSUER) -> str:
    """A checkpoint of the chain at this record."""
    payload: JsonObject = {"iss": ISSUER_ID, "iat": NOW, "sequence": at["sequence"], "digest": at["digest"]}
    return jwt(payload, header("sdcard-audit-checkpoint+jwt", signer), signer)


def audit_chains() -> Iterator[Case]:
    """Audit records: docs/audit.md."""
    good, rewritten = chain(), chain(reason="x")
    head: JsonObject = {name: good[2][name] for name in ("sequence", "digest")}

    def case(
        name: str, about: str, records: list[JsonObject] | str, *findings: str, result: JsonValue = None, **more: Any
    ) -> Case:
        text = records if isinstance(records, str) else "\n".join(map(canonical, records))
        listed = [f"audit.{finding} (error)" for finding in findings]
        return found(
            name,
            about,
            "docs/audit.md",
            text,
            *listed,
            kind="audit-chain",
            result=result,
            **({"expectations": more} if more else {}),
        )

    yield case("chain", "three records", good, result={"records": 3, "head": head, "confirmed": 0})
    yield case(
        "chain-head",
        "three records and their head",
        good,
        result={"records": 3, "head": head, "confirmed": 0},
        head=head,
    )
    yield case(
        "chain-checkpoint",
        "a checkpoint of the second record",
        good,
        result={"records": 3, "head": head, "confirmed": 2},
        checkpoints=[checkpoint(good[1])],
        keys=KEYS,
    )
    yield case(
        "chain-empty",
        "no record",
        "",
        result={"records": 0, "head": {"sequence": 0, "digest": "0" * 64}, "confirmed": 0},
    )
    yield case(
        "record-changed",
        "a value was changed",
        [good[0], {**good[1], "agent": "b"}, good[2]],
        "record-changed at audit/2",
    )
    yield case(
        "record-unreadable",
        "a record is no JSON",
        f"{canonical(good[0])}\n{{\n{canonical(good[2])}",
        "record-malformed at audit/2",
    )
    yield case(
        "record-bad-digest",
        "a digest that is no hexadecimal text",
        [good[0], {**good[1], "digest": "x"}, good[2]],
        "record-malformed at audit/2",
    )
    yield case("record-missing", "the second record is missing", [good[0], good[2]], "record-missing at audit/2")
    yield case("record-twice", "a record twice", [good[0], good[1], good[1], good[2]], "out-of-order at audit/2")
    yield case(
        "record-replaced",
        "the second record was replaced, with a right digest",
        [good[0], rewritten[1], good[2]],
        "link-broken at audit/2",
        "link-broken at audit/3",
    )
    yield case(
        "head-other", "the head has another digest", good, "head-differs at audit/3", head={**head, "digest": "1" * 64}
    )
    yield case("head-missing", "the head is missing", good, "head-differs at audit/3", head=None)
    yield case(
        "head-before-the-end",
        "records after the head",
        good,
        "head-differs at audit/3",
        head={"sequence": 2, "digest": good[1]["digest"]},
    )
    yield case(
        "cut-off-before-the-head", "the last record was cut off", good[:2], "record-missing at audit/3", head=head
    )
    yield case(
        "checkpoint-other",
        "the chain was rewritten after a checkpoint",
        rewritten,
        "checkpoint-differs at audit/2",
        checkpoints=[checkpoint(good[1])],
        keys=KEYS,
    )
    yield case(
        "rolled-back",
        "a checkpoint has a record that is gone",
        good[:2],
        "rolled-back at audit/3",
        checkpoints=[checkpoint(good[2])],
        keys=KEYS,
    )
    yield no(
        "checkpoint-stranger",
        Rule.ISSUER_KEY_UNKNOWN,
        "audit-checkpoint/kid",
        "a checkpoint by a stranger",
        "docs/audit.md",
        "\n".join(map(canonical, good)),
        kind="audit-chain",
        findings=("issuer.key-unknown at audit-checkpoint/kid (error)",),
        expectations={"checkpoints": [checkpoint(good[1], STRANGER)], "keys": KEYS},
    )
