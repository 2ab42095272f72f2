"""Cases for the branches of RFC 9901 7.1 and 7.3.

Each step is tried at every depth at which it applies.
"""

from collections.abc import Iterator
from typing import Any

from sdcard.encoding import JsonObject, JsonValue
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt
from vectors.actors import (
    AUDIENCE,
    HOLDER,
    NONCE,
    NOW,
    bound,
    claim,
    claims,
    decoy,
    digest,
    element,
    jwt,
    kb_jwt,
    raw,
    sd_jwt,
)
from vectors.case import Case, no, yes

ANSWER: JsonObject = {"audience": AUDIENCE, "nonce": NONCE}
UNBOUND: JsonObject = {"unbound": "the case is about something else"}
CITY, STREET = claim("city", "Springfield"), claim("street", "Main Street 1")
ELEMENT = element("DE")


def outer(*disclosures: str, **more: JsonValue) -> str:
    """A Disclosure of the claim `address` that refers to these Disclosures."""
    return claim("address", {"_sd": [digest(one) for one in disclosures], **more})


def under(*disclosures: str) -> SdJwt:
    """An SD-JWT that refers to the first Disclosure, and has all of them."""
    return sd_jwt(claims(_sd=[digest(disclosures[0])]), *disclosures)


def accepted() -> Iterator[Case]:
    """Digests in every position, and what is left when some have no Disclosure."""
    good = claims()

    def case(name: str, shown: JsonObject, about: str, step: str, document: SdJwt) -> Case:
        return yes(name, {**good, **shown}, about, f"RFC 9901 7.1 step {step}", document)

    place: JsonObject = {"...": digest(ELEMENT)}
    yield case(
        "digest-in-array-object",
        {"list": [{"city": "Springfield"}]},
        "`_sd` in an object of an array",
        "3.b, R-56",
        sd_jwt(claims(list=[{"_sd": [digest(CITY)]}]), CITY),
    )
    yield case(
        "digest-in-nested-array",
        {"list": [["DE"], []]},
        "`...` in an array of an array",
        "3.b, R-56",
        sd_jwt(claims(list=[[place], [{"...": decoy()}]]), ELEMENT),
    )
    yield case(
        "digest-in-deep-object",
        {"a": {"b": {"c": {"city": "Springfield"}}}},
        "`_sd` at the fourth level",
        "3.b, R-56",
        sd_jwt(claims(a={"b": {"c": {"_sd": [digest(CITY)]}}}), CITY),
    )
    three = claim("a", {"_sd": [digest(outer(CITY))]})
    yield case(
        "recursive-three-levels",
        {"a": {"address": {"city": "Springfield"}}},
        "a Disclosure in a Disclosure in one",
        "3.c.ii.5, R-63",
        under(three, outer(CITY), CITY),
    )
    yield case(
        "recursive-child-first",
        {"a": {"address": {"city": "Springfield"}}},
        "the innermost Disclosure first",
        "3.c.ii.5, R-50, R-63",
        SdJwt(under(three).issuer_jwt, (CITY, outer(CITY), three)),
    )
    array = element([place, "FR"], 7)
    yield case(
        "recursive-element-array",
        {"list": [["DE", "FR"]]},
        "an array element that is an array with a digest",
        "3.c.iii.3, R-63",
        sd_jwt(claims(list=[{"...": digest(array)}]), array, ELEMENT),
    )
    listed = claim("list", [place, "FR"])
    yield case(
        "recursive-claim-array",
        {"list": ["DE", "FR"]},
        "a claim that is an array with a digest",
        "3.c.ii.5, R-63",
        under(listed, ELEMENT),
    )
    yield case(
        "recursive-element-withheld",
        {"list": ["FR"]},
        "a digest in a disclosed array, without its Disclosure",
        "3.d, R-58, R-66",
        under(listed),
    )
    yield case(
        "recursive-emptied-object",
        {"address": {}},
        "a disclosed object without its only claim",
        "3.e, R-58, R-67",
        under(outer(CITY)),
    )
    yield case(
        "every-element-withheld",
        {"list": []},
        "an array of digests without Disclosures",
        "3.d, R-66",
        sd_jwt(claims(list=[{"...": decoy("d1")}, {"...": decoy("d2")}])),
    )
    values: list[JsonValue] = ["first", None, False, 0, "", [], {}]
    shown = [element(value, number) for number, value in enumerate(values)]
    yield case(
        "elements-keep-their-places",
        {"list": ["clear", *values, "clear"]},
        "falsy values between clear ones",
        "3.c.iii.2, R-65",
        sd_jwt(claims(list=["clear", *({"...": digest(one)} for one in shown), "clear"]), *shown),
    )
    same = claim("name", "Springfield")
    yield case(
        "same-name-at-another-level",
        {"address": {"name": "Springfield"}},
        "a name that exists one level higher",
        "3.c.ii.3, R-61, R-62",
        sd_jwt(claims(address={"_sd": [digest(same)]}), same),
    )
    empty = raw('["salt","",{"a":1}]')
    yield case("empty-claim-name", {"": {"a": 1}}, "a claim with an empty name", "3.c.ii.4, R-62", under(empty))
    yield case(
        "like-a-digest",
        {"list": [decoy("text")]},
        "a text that looks like a digest stays",
        "3.b, R-56",
        sd_jwt(claims(list=[decoy("text")])),
    )


def refused() -> Iterator[Case]:
    """The refusals of step 3 to 5 inside of Disclosures and arrays."""

    def case(name: str, rule: Rule, where: str, about: str, step: str, document: object) -> Case:
        return no(name, rule, where, about, f"RFC 9901 7.1 step {step}", document)

    def child(text: str, **more: JsonValue) -> SdJwt:
        return under(outer(text, **more), text)

    second = "disclosure/1"
    yield case(
        "element-as-claim-within",
        Rule.DISCLOSURE_KIND,
        second,
        "two elements, and the digest in a disclosed `_sd`",
        "3.c.ii.1, R-59",
        child(ELEMENT),
    )
    listed = claim("list", [{"...": digest(CITY)}])
    yield case(
        "claim-as-element-within",
        Rule.DISCLOSURE_KIND,
        second,
        "three elements, and the digest in a disclosed array",
        "3.c.iii.1, R-64",
        under(listed, CITY),
    )
    for name, reserved in {"sd": "_sd", "ellipsis": "..."}.items():
        yield case(
            f"disclosed-name-{name}-within",
            Rule.DISCLOSURE_NAME,
            second,
            f"the claim `{reserved}` in a Disclosure",
            "3.c.ii.2, R-60",
            child(claim(reserved, [])),
        )
    yield case(
        "claim-in-clear-within",
        Rule.DISCLOSURE_COLLISION,
        second,
        "the claim is in the clear in its parent",
        "3.c.ii.3, R-61",
        child(CITY, city="Other"),
    )
    other = raw('["other","city","Shelbyville"]')
    yield case(
        "claim-twice-within",
        Rule.DISCLOSURE_COLLISION,
        "disclosure/2",
        "two Disclosures of one claim in a parent",
        "3.c.ii.3, R-61",
        under(outer(CITY, other), CITY, other),
    )
    nothing = raw('["other","city",null]')
    both = sd_jwt(claims(_sd=[digest(CITY), digest(nothing)]), CITY, nothing)
    yield case(
        "claim-twice-null",
        Rule.DISCLOSURE_COLLISION,
        second,
        "the second one of a claim is null",
        "3.c.ii.3, R-61",
        both,
    )
    place: JsonObject = {"...": digest(ELEMENT)}
    yield case(
        "digest-twice-in-arrays",
        Rule.DIGEST_REPEATED,
        "issuer-jwt/b/0",
        "one digest in two arrays",
        "4, R-69",
        sd_jwt(claims(a=[place], b=[place]), ELEMENT),
    )
    yield case(
        "digest-twice-in-one-array",
        Rule.DIGEST_REPEATED,
        "issuer-jwt/a/1",
        "one digest twice in an array",
        "4, R-69",
        sd_jwt(claims(a=[place, place]), ELEMENT),
    )
    yield case(
        "digest-twice-in-both-places",
        Rule.DIGEST_REPEATED,
        "issuer-jwt",
        "one digest in `_sd` and in an array",
        "4, R-69",
        sd_jwt(claims(_sd=[decoy()], a=[{"...": decoy()}])),
    )
    yield case(
        "digest-twice-in-a-disclosure",
        Rule.DIGEST_REPEATED,
        "disclosure/0",
        "one digest twice in a Disclosure",
        "4, R-69",
        under(outer(CITY, CITY), CITY),
    )
    a, b = claim("a", {"_sd": [decoy()]}), claim("b", {"_sd": [decoy()]})
    yield case(
        "digest-twice-in-two-disclosures",
        Rule.DIGEST_REPEATED,
        second,
        "one digest in two Disclosures",
        "4, R-69",
        sd_jwt(claims(_sd=[digest(a), digest(b)]), a, b),
    )
    alone = SdJwt(under(claim("a", {"_sd": [digest(outer(CITY))]}), outer(CITY)).issuer_jwt, (outer(CITY), CITY))
    yield case(
        "disclosures-without-their-root",
        Rule.DISCLOSURE_UNREFERENCED,
        "disclosure/0",
        "two levels without the first",
        "5, R-70",
        alone,
    )
    nowhere = claim("a", digest(CITY))
    yield case(
        "digest-as-a-value",
        Rule.DISCLOSURE_UNREFERENCED,
        second,
        "the digest stands in a claim, not in `_sd`",
        "5, R-56, R-70",
        under(nowhere, CITY),
    )


def key_bindings() -> Iterator[Case]:
    """Steps 1, 3 and 4 of RFC 9901 7.3, with presentations of every shape."""
    shown = sd_jwt(claims(_sd=sorted(map(digest, (STREET, CITY)))), CITY)
    good = {**claims(), "city": "Springfield"}
    bare = sd_jwt(claims())

    def case(name: str, rule: Rule, where: str, about: str, step: str, document: str, **more: Any) -> Case:
        standard = f"RFC 9901 7.3 step {step}"
        return no(name, rule, where, about, standard, document, **{"key_binding": ANSWER, **more})

    yield yes(
        "answer-without-disclosures",
        claims(),
        "an answer that shows nothing",
        "RFC 9901 7.3 step 3, R-83, R-84",
        bound(bare),
        key_binding=ANSWER,
    )
    yield yes(
        "answer-two-disclosures",
        {**good, "street": "Main Street 1"},
        "two Disclosures before the KB-JWT",
        "RFC 9901 7.3 step 3, R-83, R-84",
        bound(SdJwt(shown.issuer_jwt, (CITY, STREET))),
        key_binding=ANSWER,
    )
    yield case(
        "missing-without-disclosures", Rule.KB_MISSING, "presentation", "the SD-JWT alone", "1, R-81, R-82", str(bare)
    )
    yield yes(
        "not-required",
        good,
        "key binding is not required, and the card has a key",
        "RFC 9901 7.3 step 1, R-81",
        shown,
        key_binding=UNBOUND,
    )
    yield case(
        "followed-by-tilde",
        Rule.KB_MISSING,
        "presentation",
        "a KB-JWT where a Disclosure belongs",
        "3, R-83",
        f"{bound(shown)}~",
    )
    yield case(
        "kb-jwt-twice", Rule.BASE64URL, "disclosure/1", "two KB-JWTs", "3, R-83", f"{bound(shown)}~{kb_jwt(shown)}"
    )
    tampered = SdJwt(shown.issuer_jwt, (claim("city", "Shelbyville"),))
    yield case(
        "good-binding-bad-disclosure",
        Rule.DISCLOSURE_UNREFERENCED,
        "disclosure/0",
        "the Holder signed over a Disclosure of its own",
        "4, R-84",
        bound(tampered),
    )
    forged = SdJwt(jwt(claims(), None, HOLDER), ())
    yield case(
        "good-binding-bad-issuer",
        Rule.ISSUER_KEY_UNKNOWN,
        "issuer-header/kid",
        "the Holder signed the SD-JWT",
        "4, R-84",
        bound(forged),
    )
    expired = sd_jwt(claims(exp=NOW))
    yield case(
        "good-binding-expired",
        Rule.EXPIRED,
        "issuer-jwt/exp",
        "the SD-JWT has expired, the KB-JWT is new",
        "4, R-84",
        bound(expired),
    )
