"""Checks of a Verifier's route with forged and stolen presentations.

The tester needs what the route would admit: an SD-Card with its Holder key, or the key of a test Issuer that the route
trusts. Checks that need more than was given are skipped.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from sdcard.conformance import Check, Response, Skipped, Target, problem_rule
from sdcard.conformance.forging import ELSEWHERE, HOUR, REMOVED, Attack, Material, disclosure, unlisted
from sdcard.encoding import JsonObject, encode_base64url
from sdcard.http_auth import INTERACTION_HEADER, SCHEME, ReceivedChallenge, parse_challenge
from sdcard.key_binding import AGENT_NONCE
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt

_REFUSING = (400, 401, 403, 413, 414, 431)


@dataclass(frozen=True, slots=True, kw_only=True)
class Route(Target):
    """A protected route.

    Attributes:
        method: of the requests; a method that changes state is the operator's choice.
        control: the response to a good presentation, or why there is none.
    """

    method: str
    material: Material
    control: list[Response | Skipped] = field(default_factory=list, repr=False)

    def request(self, authorization: str | None, *headers: tuple[str, str], method: str = "") -> Response:
        """Send a request with this ``Authorization``."""
        sent = () if authorization is None else (("Authorization", authorization),)
        return self.send(method or self.method, "", *sent, *headers)

    def present(self, presentation: str, *headers: tuple[str, str]) -> Response:
        """Send a request with this presentation."""
        return self.request(f"{SCHEME} {presentation}", *headers)

    def challenged(self, *headers: tuple[str, str], method: str = "") -> ReceivedChallenge:
        """Return a fresh challenge."""
        response = self.request(None, *headers, method=method)
        received = parse_challenge(response.values("WWW-Authenticate"))
        if received is None:
            raise Skipped(f"without a presentation the route answers {response.status}, without a challenge")
        return received

    def attack(self, *headers: tuple[str, str], method: str = "") -> Attack:
        """Return an attack on a fresh challenge.

        It requires that a good presentation passes; otherwise a refusal of a bad one proves nothing.
        """
        if not self.control:
            self.control.append(self._control())
        good = self.control[0]
        if isinstance(good, Skipped):
            raise good
        if good.status in _REFUSING:
            raise Skipped(f"a good presentation is refused with {good.status} {problem_rule(good)}".rstrip())
        return self._attack(*headers, method=method)

    def _control(self) -> Response | Skipped:
        try:
            return self.present(self._attack().bound())
        except Skipped as skipped:
            return skipped

    def _attack(self, *headers: tuple[str, str], method: str = "") -> Attack:
        return Attack(self.material, self.challenged(*headers, method=method), self.instant())


Make: TypeAlias = Callable[[Attack], str]


def _refused(rule: Rule, about: str, make: Make, name: str = "") -> Check[Route]:
    """A check that the route refuses this presentation."""

    def run(route: Route) -> str:
        return _verdict(route.present(make(route.attack())))

    return Check(f"route/{name or str(rule).replace('.', '-')}", rule, about, run)


def _verdict(response: Response) -> str:
    if response.status in _REFUSING:
        return ""
    if response.status >= 500:
        return f"The route fails with {response.status}."
    return f"The route accepts it, with {response.status}."


# -- checks that need nothing -----------------------------------------------------------------------------------------


def _challenge(route: Route) -> str:
    response = route.request(None)
    if response.status != 401:
        return f"Without a presentation it answers {response.status}, not 401."
    received = parse_challenge(response.values("WWW-Authenticate"))
    return "" if received else "The answer 401 has no challenge of the scheme SD-Card."


def _no_presentation(route: Route) -> str:
    return _verdict(route.request(None)) or _verdict(route.request("Bearer abc"))


def _fresh_nonces(route: Route) -> str:
    first, second = route.challenged().challenge.nonce, route.challenged().challenge.nonce
    if first == second:
        return "Two challenges have one nonce."
    return "" if min(len(first), len(second)) >= 22 else "A nonce has fewer than 128 bits."


def _not_cached(route: Route) -> str:
    response = route.request(None)
    return "" if "no-store" in response.value("Cache-Control") else "A challenge can be cached: no `no-store`."


def _sent(text: str) -> Callable[[Route], str]:
    return lambda route: _verdict(route.request(text))


def _two_headers(route: Route) -> str:
    return _verdict(route.present(route.attack().bound(), ("Authorization", "Bearer abc")))


def _unlisted(route: Route) -> str:
    own = unlisted(route.material.stranger, route.instant())
    return _verdict(route.present(Attack(own, route.challenged(), route.instant()).bound()))


OPEN: tuple[Check[Route], ...] = (
    Check("route/challenge", Rule.CHALLENGE_MALFORMED, "no presentation: 401 and a challenge", _challenge),
    Check(
        "route/presentation-missing", Rule.PRESENTATION_MISSING, "no presentation, or another scheme", _no_presentation
    ),
    Check("route/fresh-nonces", Rule.KB_NONCE, "two challenges have two long nonces", _fresh_nonces),
    Check("route/no-store", Rule.KB_REPLAYED, "a challenge is not cached", _not_cached),
    Check("route/request-malformed", Rule.REQUEST, "the scheme without a presentation", _sent(SCHEME)),
    Check("route/sd-jwt-format", Rule.SD_JWT_FORMAT, "a text that is no SD-JWT", _sent(f"{SCHEME} abc")),
    Check("route/limit-bytes", Rule.LIMIT_BYTES, "a header of 30,000 characters", _sent(f"{SCHEME} {'a' * 30_000}~")),
    Check("route/issuer-unknown", Rule.ISSUER_UNKNOWN, "a card of an Issuer that nobody listed", _unlisted),
)
"""Checks that need no SD-Card."""


# -- the Holder's side: RFC 9901 7.3 ----------------------------------------------------------------------------------


def _replayed(route: Route) -> str:
    text = route.attack().bound()
    first = route.present(text)
    if first.status in _REFUSING:
        raise Skipped(f"the first presentation is refused with {first.status}")
    return _verdict(route.present(text))


def _other_request(route: Route) -> str:
    return _verdict(route.present(route.attack(method="HEAD" if route.method == "GET" else "GET").bound()))


def _other_interaction(route: Route) -> str:
    header = (INTERACTION_HEADER, "conformance-1")
    attack = route.attack(header)
    if attack.asked.challenge.interaction_id != header[1]:
        raise Skipped("the route's challenges have no interaction")
    return _verdict(route.present(attack.bound(interaction_id="conformance-2"), header))


def _of_nobody(attack: Attack) -> str:
    has = attack.has
    return attack.bound(has.reissued({"kid": has.stranger.public_key.thumbprint}, signer=has.stranger))


HOLDER: tuple[Check[Route], ...] = (
    Check("route/two-headers", Rule.REQUEST, "two `Authorization` headers", _two_headers),
    Check("route/kb-replayed", Rule.KB_REPLAYED, "a presentation twice", _replayed),
    Check("route/kb-other-request", Rule.KB_OTHER_REQUEST, "the challenge of another method", _other_request),
    Check("route/kb-interaction-id", Rule.KB_INTERACTION, "the KB-JWT of another interaction", _other_interaction),
    _refused(Rule.KB_MISSING, "an SD-Card without a KB-JWT", lambda a: str(a.has.held)),
    _refused(Rule.KB_NONCE, "an invented nonce", lambda a: a.bound(nonce="invented")),
    _refused(Rule.KB_OTHER_REQUEST, "a forged nonce", lambda a: a.bound(nonce="AQ" + "A" * 50), "kb-forged-nonce"),
    _refused(
        Rule.KB_PURPOSE, "a nonce for a called agent", lambda a: a.bound(nonce=f"{AGENT_NONCE}{'A' * 52}.{'A' * 43}")
    ),
    _refused(Rule.KB_AUDIENCE, "for another audience", lambda a: a.bound(aud=ELSEWHERE)),
    _refused(Rule.KB_STALE, "created an hour ago", lambda a: a.bound(iat=int(a.now) - HOUR)),
    _refused(Rule.KB_FROM_FUTURE, "created in an hour", lambda a: a.bound(iat=int(a.now) + HOUR)),
    _refused(Rule.KB_SD_HASH, "Disclosures that the Holder did not sign over", Attack.with_added_disclosures),
    _refused(
        Rule.JWS_SIGNATURE,
        "a KB-JWT by a thief of the SD-Card",
        lambda a: a.bound(signer=a.has.stranger),
        "kb-signature",
    ),
    _refused(
        Rule.JWS_SIGNATURE, "a claim that was changed after signing", Attack.with_changed_claim, "issuer-signature"
    ),
    _refused(Rule.JWS_ALG, "a KB-JWT with `alg` none", lambda a: a.bound(header={"alg": "none"}), "kb-alg"),
    _refused(Rule.JWS_TYP, "a KB-JWT of another type", lambda a: a.bound(header={"typ": "JWT"}), "kb-typ"),
    _refused(Rule.JWS_CRIT, "an unknown critical parameter", lambda a: a.bound(header={"crit": ["x"], "x": 1})),
    _refused(Rule.JWS_FORMAT, "a KB-JWT without a signature", lambda a: a.bound().rpartition(".")[0] + "."),
    _refused(Rule.BASE64URL, "base64url with a spare bit set", Attack.with_spare_bit),
    _refused(Rule.JSON_DUPLICATE, "a nonce twice in the KB-JWT", Attack.with_nonce_twice),
    _refused(Rule.CLAIM_MISSING, "a KB-JWT without `iat`", lambda a: a.bound(iat=REMOVED), "kb-no-iat"),
    _refused(Rule.CLAIM_TYPE, "a KB-JWT whose `aud` is an array", lambda a: a.bound(aud=[a.asked.challenge.audience])),
    _refused(Rule.DISCLOSURE_UNREFERENCED, "a Disclosure that the Issuer did not make", Attack.with_foreign_disclosure),
    _refused(Rule.ISSUER_KEY_UNKNOWN, "the Issuer's name over a key of nobody", _of_nobody),
    _refused(Rule.DISCLOSURE_REPEATED, "a Disclosure twice", Attack.with_disclosure_twice),
)
"""Checks that need an SD-Card and its Holder key."""


# -- the Issuer's side: RFC 9901 7.1 ----------------------------------------------------------------------------------


def _issued(rule: Rule, about: str, make: Callable[[Material, int], SdJwt], name: str = "") -> Check[Route]:
    """A check that the route refuses an SD-Card of its trusted Issuer."""
    return _refused(rule, about, lambda a: a.bound(make(a.has, int(a.now))), name)


def _private(has: Material) -> JsonObject:
    return {"jwk": {**has.holder_key.public_key.to_jwk(), "d": encode_base64url(bytes(32))}}


def _hidden_exp(has: Material, now: int) -> SdJwt:
    return has.with_digests(disclosure("exp", now + HOUR), exp=REMOVED)


ISSUER: tuple[Check[Route], ...] = (
    _issued(Rule.EXPIRED, "an expired SD-Card", lambda has, now: has.reissued(iat=now - 2 * HOUR, exp=now - HOUR)),
    _issued(Rule.NOT_YET_VALID, "an SD-Card of tomorrow", lambda has, now: has.reissued(nbf=now + HOUR)),
    _issued(
        Rule.ISSUED_IN_FUTURE,
        "an SD-Card issued in an hour",
        lambda has, now: has.reissued(iat=now + HOUR, exp=now + 2 * HOUR),
    ),
    _issued(Rule.TOKEN_AUDIENCE, "an SD-Card for another audience", lambda has, _: has.reissued(aud=ELSEWHERE)),
    _issued(Rule.VCT, "another `vct`", lambda has, _: has.reissued(vct="urn:example:other")),
    _issued(Rule.JWS_TYP, "an SD-Card of another type", lambda has, _: has.reissued({"typ": "JWT"}), "issuer-typ"),
    _issued(Rule.JWS_ALG, "an SD-Card with `alg` none", lambda has, _: has.reissued({"alg": "none"}), "issuer-alg"),
    _issued(Rule.CLAIM_MISSING, "an SD-Card without `exp`", lambda has, _: has.reissued(exp=REMOVED), "issuer-no-exp"),
    _issued(Rule.CLAIM_VALUE, "an `exp` beyond the year 9999", lambda has, _: has.reissued(exp=1e300)),
    _issued(Rule.CLAIM_NOT_IN_CLEAR, "an `exp` in a Disclosure", _hidden_exp),
    _issued(Rule.CNF, "an SD-Card without a key", lambda has, _: has.reissued(cnf={"kid": "x"})),
    _issued(Rule.KEY_PRIVATE, "a private key in `cnf`", lambda has, _: has.reissued(cnf=_private(has))),
    _issued(Rule.STATUS_MALFORMED, "a `status` that is no reference", lambda has, _: has.reissued(status=1)),
    _issued(Rule.SD_ALG, "a digest algorithm that nobody accepts", lambda has, _: has.reissued(_sd_alg="md5")),
    _issued(Rule.SD_DIGEST_LIST, "`_sd` is no array", lambda has, _: has.reissued(x={"_sd": "x"})),
    _issued(Rule.SD_PLACEHOLDER, "`...` outside of an array", lambda has, _: has.reissued(x={"...": "x"})),
    _issued(Rule.SD_RESERVED_NAME, "`_sd_alg` in an object", lambda has, _: has.reissued(x={"_sd_alg": "sha-256"})),
    _issued(Rule.DIGEST_REPEATED, "a digest twice", lambda has, _: has.reissued(x=[{"...": "a" * 43}] * 2)),
    _issued(
        Rule.DISCLOSURE_FORMAT, "a Disclosure of four elements", lambda has, _: has.with_digests(disclosure("x", 1, 2))
    ),
    _issued(Rule.DISCLOSURE_KIND, "an array element as a claim", lambda has, _: has.with_digests(disclosure("x"))),
    _issued(Rule.DISCLOSURE_NAME, "a claim named `_sd`", lambda has, _: has.with_digests(disclosure("_sd", []))),
    _issued(
        Rule.DISCLOSURE_COLLISION,
        "a claim that is in the clear too",
        lambda has, _: has.with_digests(disclosure("name", "Other")),
    ),
    _issued(
        Rule.POLICY_FORMAT, "a card format that nobody admits", lambda has, _: has.reissued(card_format="unknown/9")
    ),
)
"""Checks that need the key of a test Issuer."""

CHECKS = (*OPEN, *HOLDER, *ISSUER)
