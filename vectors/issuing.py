"""Cases of policies, plans, issuing, presenting, conversion and publishing."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sdcard.cards.detect import read_card
from sdcard.encoding import JsonObject, JsonValue, encode_base64url
from sdcard.issuer import Issuer, Validity, prepare_batch
from sdcard.jose.jws import join_signature
from sdcard.policy.model import DEFAULT_POLICY
from sdcard.policy.plan import plan_disclosure
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt
from sdcard.status_list import StatusReference
from vectors.actors import (
    AUDIENCE,
    HOLDER,
    ISSUER,
    ISSUER_ID,
    NONCE,
    NOW,
    STRANGER,
    Actor,
    FixedSalts,
    claim,
    claims,
    digest,
    kb_jwt,
    sd_jwt,
)
from vectors.case import Case, found, no
from vectors.tokens import accepted

ALL = ("name", "description", "version")


def policies() -> Iterator[Case]:
    """Policy documents: docs/policies.md."""

    def case(name: str, about: str, text: str, *findings: str) -> Case:
        return found(name, about, "docs/policies.md", text, *(f"{one} (error)" for one in findings), kind="policy")

    context = "[contexts.partner]\nclaims = {{ {} }}\n"
    yield case("toml", "a context in TOML", context.format('skills = "selective"'))
    yield case("json", "the same in JSON", '{"contexts":{"partner":{"claims":{"skills":"selective"}}}}')
    yield case("not-toml", "no TOML", "[contexts", "policy.toml at policy")
    yield case("empty", "nothing", "", "policy.malformed at policy")
    yield case("unknown-member", "a member that there is not", "context = 1", "policy.malformed at policy/context")
    yield case(
        "unknown-treatment",
        "a treatment that there is not",
        context.format('skills = "hidden"'),
        "policy.malformed at policy/contexts/partner/claims/skills",
    )
    yield case(
        "name", "a name with a space", '[contexts."a b"]\nclaims = {}\n', "policy.malformed at policy/contexts/a b"
    )
    yield case(
        "unknown-claim",
        "a misspelt claim",
        context.format('skils = "selective"'),
        "disclose.unknown at policy/contexts/partner/claims/skils",
    )
    yield case(
        "path",
        "no claim path",
        context.format('"skills..id" = "selective"'),
        "path.malformed at policy/contexts/partner/claims/skills..id",
    )
    both = context.format('"skills.0" = "selective", "skills.*.tags" = "withheld"')
    yield case(
        "overlap",
        "two entries that overlap and differ",
        both,
        "policy.ambiguous at policy/contexts/partner/claims/skills.*.tags",
    )
    covered = context.format('"skills.0" = "selective", "skills.*.tags" = "withheld", "skills.0.tags" = "plain"')
    yield case("overlap-covered", "an entry covers the overlap", covered)
    yield case(
        "always",
        "a member that every SD-Card shows is withheld",
        context.format('name = "withheld"'),
        "policy.always-disclosed at policy/contexts/partner/claims/name",
    )
    contains = '[contexts.partner]\nclaims = { skills = "selective" }\ncontains = ["NAME"]\n'
    yield case(
        "contains-unknown",
        "it contains a context that there is not",
        contains.replace("NAME", "other"),
        "context.unknown at policy/contexts/partner/contains/0",
    )
    yield case(
        "containment",
        "it does not show what *full* shows",
        contains.replace("NAME", "full"),
        "policy.containment at policy/contexts/partner/contains/0",
    )
    agreement = (
        '[[agreements]]\npartner = "https://p.example"\ndiscloses = ["skills"]\nexpires = 2027-01-01T00:00:00Z\n'
    )
    yield case("agreement", "an agreement", agreement)
    yield case(
        "agreements-overlap",
        "two agreements with one partner at one time",
        agreement * 2,
        "policy.ambiguous at policy/agreements/1",
    )
    yield case(
        "duplicate-member",
        "a JSON member twice",
        '{"members":["x"],"members":["y"]}',
        "json.duplicate-member at policy",
    )


def plans(card: JsonObject) -> Iterator[Case]:
    """Plans: which part of a card a context shows, and how."""
    text = json.dumps(card)

    def refused(
        name: str, rule: Rule, where: str, about: str, standard: str = "SD-Card 3.3.1", **expectations: Any
    ) -> Case:
        return no(f"plan-{name}", rule, where, about, standard, text, kind="plan", expectations=expectations)

    def planned(name: str, about: str, treatments: JsonObject, **expectations: Any) -> Case:
        return accepted(
            f"plan-{name}", about, "SD-Card 3.3.1", text, treatments, kind="plan", expectations=expectations
        )

    clear: JsonObject = dict.fromkeys(ALL, "plain")
    hidden = {name: "withheld" for name in card if name not in ALL}
    yield planned(
        "one-claim",
        "a list that names one claim",
        {**clear, **hidden, "provider": "selective"},
        context="full",
        disclose=["provider"],
    )
    yield planned("nothing", "an empty list", {**clear, **hidden}, context="full", disclose=[])
    yield refused("context", Rule.CONTEXT_UNKNOWN, "policy", "a context that there is not", context="secret")
    yield refused("claim", Rule.DISCLOSE_UNKNOWN, "policy/0", "a misspelt claim", context="full", disclose=["skils"])
    yield refused(
        "path",
        Rule.PATH_MALFORMED,
        "policy/0",
        "no claim path",
        "SD-JWT VC 4.6",
        context="full",
        disclose=["skills..id"],
    )
    yield refused(
        "ceiling",
        Rule.DISCLOSE_BEYOND_CEILING,
        "policy/0",
        "more than *public* may show",
        "docs/policies.md",
        context="public",
        disclose=["securitySchemes"],
    )
    withheld = '[contexts.x]\nclaims = { provider = "withheld", "*" = "selective" }\n'
    yield refused(
        "withheld",
        Rule.DISCLOSE_BEYOND_CEILING,
        "policy/0",
        "a claim that the policy withholds",
        "docs/policies.md",
        context="x",
        disclose=["provider"],
        policy=withheld,
    )
    yield refused(
        "partner",
        Rule.AGREEMENT_UNEXPECTED,
        "policy",
        "a partner in a context without agreements",
        "docs/policies.md",
        context="public",
        partner={"issuer": "https://partner.example", "at": NOW},
    )


class Recorded(FixedSalts):
    """Salts from a name, which are written down."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.drawn: list[JsonValue] = []

    def draw(self, count: int) -> bytes:
        """Draw and write down."""
        drawn = super().draw(count)
        self.drawn += [encode_base64url(drawn[start : start + 16]) for start in range(0, len(drawn), 16)]
        return drawn


def issued(card: JsonObject) -> Iterator[Case]:
    """SD-Cards that an Issuer writes with these salts, byte for byte."""
    text = json.dumps(card)
    base: JsonObject = {
        "issuer": ISSUER_ID,
        "issuer_key": ISSUER.jwk,
        "agent_id": "georoute",
        "iat": NOW - 3600,
        "exp": NOW + 3600,
    }

    def golden(name: str, about: str, context: str, *holders: Actor, status: JsonValue = None, **checks: Any) -> Case:
        salts, uri = Recorded(f"issue {name}"), "https://registry.example/status/1"
        keys = [one.public_key for one in holders]
        statuses = [StatusReference(uri, number) for number in range(len(keys))] if status else []
        prepared = prepare_batch(
            Issuer(ISSUER_ID, ISSUER.public_key),
            [plan_disclosure(read_card(card), DEFAULT_POLICY, context)],
            agent_id="georoute",
            holder_keys=keys,
            validity=Validity(NOW - 3600, NOW + 3600),
            salts=salts,
            statuses=statuses,
            **checks,
        )
        texts: list[JsonValue] = [
            str(SdJwt(join_signature(one.signing_input, ISSUER.sign(one.signing_input)), one.disclosures))
            for one in prepared
        ]
        more: JsonObject = (
            {"statuses": [{"uri": uri, "index": number} for number in range(len(keys))]} if status else {}
        )
        return accepted(
            f"issue-{name}",
            about,
            "RFC 9901 4, SD-Card 3.1",
            text,
            texts,
            kind="issue",
            expectations={
                **base,
                "context": context,
                "holder_keys": [one.jwk for one in holders],
                "salts": salts.drawn,
                **more,
                **{name: [*codes] for name, codes in checks.items()},
            },
            needs=("issuer-checks",) if checks else (),
        )

    for context in ("public", "internal", "full"):
        yield golden(context, f"an SD-Card for *{context}*", context, HOLDER)
    yield golden("batch", "a Batch of two, each with its status", "public", HOLDER, STRANGER, status=True)
    yield golden("checks", "an SD-Card with what its Issuer checked", "public", HOLDER, checks=("possession", "domain"))

    def refused(name: str, rule: Rule, where: str, about: str, *holders: Actor, **more: Any) -> Case:
        salts = [encode_base64url(FixedSalts(f"issue {number}").draw(1)) for number in range(99)]
        return no(
            f"issue-{name}",
            rule,
            where,
            about,
            "RFC 9901 10.1",
            text,
            kind="issue",
            expectations={
                **base,
                "context": "full",
                "holder_keys": [one.jwk for one in holders],
                "salts": salts,
                **more,
            },
        )

    yield refused("key-twice", Rule.KEY_REPEATED, "key/1", "a Batch with a key twice", HOLDER, HOLDER)
    yield refused("issuers-key", Rule.KEY_BOUND_ELSEWHERE, "key", "the Issuer's own key", ISSUER)
    yield refused(
        "too-many", Rule.LIMIT_DISCLOSURES, "card", "more Disclosures than the limit", HOLDER, limits={"disclosures": 2}
    )


def presented() -> Iterator[Case]:
    """Presentations by a Holder: RFC 9901 7.2."""
    skills, city = claim("skills", [{"id": "route"}]), claim("provider", {"organization": "Example"})
    inner = claim("city", "Springfield")
    outer = claim("x", {"_sd": [digest(inner)], "country": "US"})
    held = sd_jwt(claims(_sd=sorted(map(digest, (skills, city, outer)))), skills, city, outer, inner)
    public = {name: claims()[name] for name in ALL}
    base: JsonObject = {"holder_key": HOLDER.jwk, "audience": AUDIENCE, "nonce": NONCE}

    def case(name: str, about: str, shown: JsonObject, disclosures: tuple[str, ...], row: str, **more: Any) -> Case:
        chosen = SdJwt(held.issuer_jwt, disclosures)
        binding = {"interaction_id": more["interaction_id"]} if "interaction_id" in more else {}
        nonce = {"nonce": more["nonce"]} if "nonce" in more else {}
        presentation = f"{chosen}{kb_jwt(chosen, None, HOLDER, **nonce, **binding)}"
        result: JsonObject = {"shown": {**public, **shown}, "presentation": presentation}
        return accepted(
            f"present-{name}",
            about,
            f"RFC 9901 7.2, {row}",
            str(held),
            result,
            kind="present",
            expectations={**base, **more},
        )

    def refused(name: str, rule: Rule, where: str, about: str, document: SdJwt = held, **more: Any) -> Case:
        return no(
            f"present-{name}",
            rule,
            where,
            about,
            "RFC 9901 7.2",
            document,
            kind="present",
            expectations={**base, **more},
        )

    yield case("nothing", "nothing is selected", {}, (), "R-77, R-80", paths=[])
    yield case("claim", "one claim", {"skills": [{"id": "route"}]}, (skills,), "R-77, R-80", paths=["skills"])
    yield case(
        "order",
        "the Issuer's order, whatever the order of the paths",
        {"skills": [{"id": "route"}], "provider": {"organization": "Example"}},
        (skills, city),
        "R-78, R-80",
        paths=["provider", "skills"],
    )
    yield case(
        "parent",
        "a claim in a Disclosure, with its parent",
        {"x": {"country": "US", "city": "Springfield"}},
        (outer, inner),
        "R-77, R-79",
        paths=["x.city"],
    )
    yield case(
        "interaction", "an answer in an interaction", {}, (), "R-80, SD-Card 5.2.2", paths=[], interaction_id="i-1"
    )
    yield case(
        "agent-proof",
        "the answer of a called agent",
        {},
        (),
        "R-80, SD-Card 5.2",
        paths=[],
        nonce=f"agent-proof.{'A' * 52}.{'B' * 43}",
    )
    yield refused(
        "not-held", Rule.SELECTION, "request/paths/1", "a claim that is not in the SD-Card", paths=["skills", "y"]
    )
    yield refused("path", Rule.PATH_MALFORMED, "request/paths", "no claim path", paths=["x..y"])
    yield refused("context", Rule.CONTEXT_UNKNOWN, "policy", "a context that there is not", context="secret")
    coarse = claim(
        "skills", [{"id": "route", "name": "Route", "description": "d", "tags": ["a"], "inputModes": ["text/plain"]}]
    )
    yield refused(
        "too-coarse",
        Rule.SELECTION_COARSE,
        "policy",
        "a Disclosure shows more than the context",
        sd_jwt(claims(_sd=[digest(coarse)], supportedInterfaces=[]), coarse),
        context="public",
    )


SMALL: JsonObject = {
    "name": "A",
    "description": "d",
    "version": "1",
    "capabilities": {},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "a", "name": "A", "description": "d", "tags": ["t"]}],
}


def interfaces(version: str, **more: Any) -> JsonObject:
    """The interfaces of a small card of A2A 1.0."""
    one: JsonObject = {"url": "https://a.example", "protocolBinding": "JSONRPC", "protocolVersion": version, **more}
    return {"supportedInterfaces": [one]}


def converted() -> Iterator[Case]:
    """Conversions between card formats: docs/conversions.md."""

    def case(name: str, about: str, document: JsonObject, to: str, result: JsonValue, *findings: str) -> Case:
        return found(
            f"convert-{name}",
            about,
            "docs/conversions.md",
            json.dumps(document),
            *findings,
            kind="conversion",
            expectations={"to": to},
            result=result,
        )

    newer = {**SMALL, **interfaces("0.3.0")}
    older: JsonObject = {
        **SMALL,
        "url": "https://a.example",
        "preferredTransport": "JSONRPC",
        "protocolVersion": "0.3.0",
    }
    lost = "card.lost-in-conversion at card/supportedInterfaces/0/"
    yield case("to-0.3", "A2A 1.0 to 0.3", newer, "a2a/0.3", older)
    yield case("to-1.0", "A2A 0.3 to 1.0", older, "a2a/1.0", newer)
    yield case("same", "the format that it has", newer, "a2a/1.0", None, "card.not-convertible at card (error)")
    tenant = {**SMALL, **interfaces("0.3.0", tenant="t")}
    yield case("lost", "a member that the other format lacks", tenant, "a2a/0.3", older, f"{lost}tenant (warning)")
    first = {**SMALL, **interfaces("1.0")}
    kept: JsonObject = {**older, "protocolVersion": "1.0"}
    yield case(
        "no-0.3", "no interface of the other version", first, "a2a/0.3", kept, f"{lost}protocolVersion (warning)"
    )


def signed(older: JsonObject) -> Iterator[Case]:
    """The bytes that a card's signature covers: A2A 1.0 8.4."""
    key: JsonObject = {"key": ISSUER.jwk}
    small = {**SMALL, **interfaces("1.0")}
    protected = {"alg": "ES256", "typ": "JOSE", "kid": ISSUER.public_key.thumbprint}
    texts = (json.dumps(protected, separators=(",", ":")), json.dumps(small, sort_keys=True, separators=(",", ":")))
    yield accepted(
        "signing-input",
        "header and canonical card",
        "A2A 1.0 8.4.1, RFC 8785 3",
        json.dumps(small),
        ".".join(encode_base64url(one.encode()) for one in texts),
        kind="card-signing",
        expectations=key,
    )
    yield no(
        "signing-0.3",
        Rule.CARD_UNSIGNABLE,
        "card",
        "a card of A2A 0.3",
        "A2A 1.0 8.4.1",
        json.dumps(older),
        kind="card-signing",
        expectations=key,
    )


def published(card: JsonObject) -> Iterator[Case]:
    """Content negotiation for published cards: docs/publishing.md."""
    sd, text = "application/vnd.sd-jwt+json", str(sd_jwt(claims()))
    base: JsonObject = {
        "path": "/.well-known/agent-card.json",
        "contexts": {"public": text, "partner": text},
        "exp": NOW + 60,
        "plain": json.dumps(card),
    }

    def case(name: str, about: str, accept: str, result: JsonValue, **more: Any) -> Case:
        return accepted(
            f"published-{name}",
            about,
            "SD-Card 4.1, RFC 9110 12.5.1",
            accept,
            result,
            kind="published",
            expectations={**base, **more},
        )

    def refused(name: str, rule: Rule, where: str, about: str, accept: str, **more: Any) -> Case:
        expectations = {name: value for name, value in {**base, **more}.items() if value is not None}
        return no(
            f"published-{name}",
            rule,
            where,
            about,
            "SD-Card 4.1, RFC 9110 12.5.1",
            accept,
            kind="published",
            expectations=expectations,
        )

    body = json.dumps({"agent_card": text}, separators=(",", ":"))
    signed_form: JsonObject = {"media_type": sd, "body": body, "public": True}
    plain: JsonObject = {
        "media_type": "application/json",
        "body": json.dumps(card, separators=(",", ":")),
        "public": True,
    }
    yield case("sd-card", "the SD form is named", sd, dict(signed_form))
    yield case(
        "partner", "the SD form for a token of a context", sd, {**signed_form, "public": False}, context="partner"
    )
    for name, accept in {
        "anything": "*/*",
        "absent": "",
        "json": "application/json",
        "json-preferred": f"{sd};q=0.1, application/json",
    }.items():
        yield case(name, "the plain card", accept, plain)
    yield refused("html", Rule.REQUEST_NOT_ACCEPTABLE, "request/headers/accept", "another media type", "text/html")
    yield refused(
        "weight-zero",
        Rule.REQUEST_NOT_ACCEPTABLE,
        "request/headers/accept",
        "both forms with weight 0",
        f"{sd};q=0, application/json;q=0",
    )
    yield refused(
        "no-public",
        Rule.TOKEN_MISSING,
        "request/headers/authorization",
        "no SD-Card for everybody",
        sd,
        contexts={"partner": text},
    )
    yield refused(
        "other-context",
        Rule.TOKEN_SCOPE,
        "request/headers/authorization",
        "a token of a context that is not published",
        sd,
        context="other",
    )
    yield refused("expired", Rule.EXPIRED, "issuer-jwt/exp", "the SD-Card has expired", sd, exp=NOW)


def admitted() -> Iterator[Case]:
    """Demands of a route on a verified card: docs/protecting.md."""
    skills = claim("skills", [{"id": "route", "name": "Route"}])
    hidden = sd_jwt(claims(_sd=[digest(skills)]))
    shown = SdJwt(hidden.issuer_jwt, (skills,))
    good: JsonObject = {**claims(), "skills": [{"id": "route", "name": "Route"}]}

    def demands(**changes: Any) -> JsonObject:
        return {"admission": {"formats": ["a2a/1.0"], "claims": ["skills"], "skills": ["route"], **changes}}

    def case(name: str, about: str, document: SdJwt, rule: Rule | None = None, where: str = "", **changes: Any) -> Case:
        return Case(
            f"admission-{name}",
            about,
            "docs/protecting.md",
            str(document),
            rule,
            where,
            claims=None if rule else good,
            expectations=demands(**changes),
        )

    yield case("good", "it shows what is required", shown)
    yield case(
        "format",
        "a format that is not admitted",
        shown,
        Rule.POLICY_FORMAT,
        "issuer-jwt/card_format",
        formats=["a2a/0.3"],
    )
    yield case("claim-withheld", "a required claim is withheld", hidden, Rule.POLICY_CLAIM, "card/skills", skills=[])
    yield case(
        "skill-absent",
        "another skill is required",
        shown,
        Rule.POLICY_SKILL,
        "card/skills/*/id",
        claims=[],
        skills=["plan"],
    )
    checked = SdJwt(sd_jwt(claims(_sd=[digest(skills)], issuer_checks=["domain"])).issuer_jwt, (skills,))
    for name, codes in (("check", ["domain"]), ("check-absent", ["approved", "domain"])):
        is_good = len(codes) == 1
        yield replace(
            case(
                name,
                "it requires checks of the Issuer",
                checked,
                None if is_good else Rule.POLICY_CHECK,
                "" if is_good else "issuer-jwt/issuer_checks",
                claims=[],
                skills=[],
                checks=codes,
            ),
            claims={**good, "issuer_checks": ["domain"]} if is_good else None,
            needs=("issuer-checks",),
        )
    yield no(
        "complete-incomplete",
        Rule.CARD_INCOMPLETE,
        "card/supportedInterfaces",
        "a card with withheld members for software without SD-JWT",
        "SD-Card T-31",
        hidden,
        expectations={"complete": True},
    )
