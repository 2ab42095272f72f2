"""Cases of SPIFFE IDs: of a card, and required by a route (SPIFFE-ID 2)."""

import json
from collections.abc import Iterator

from sdcard.encoding import JsonObject, JsonValue
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt
from vectors.actors import claim, claims, digest, sd_jwt
from vectors.case import Case, found

STANDARD = "SPIFFE-ID 2, decision 0051"
NEEDS = ("spiffe-id",)
ID = "spiffe://example.org/ns/prod/planner"
_LONGEST = f"spiffe://example.org/{'a' * (2048 - 21)}"
_GOOD: dict[str, str] = {
    "path": ID,
    "one-segment": "spiffe://example.org/9eebccd2-12bf-40a6-b262-65fe0487d453",
    "all-characters": "spiffe://a-1.b_2/A-z.0_9/...",
    "longest": _LONGEST,
    "longest-domain": f"spiffe://{'a' * 251}.org/a",
}
_BAD: dict[str, JsonValue] = {
    "null": None,
    "number": 5,
    "empty": "",
    "no-path": "spiffe://example.org",
    "root": "spiffe://example.org/",
    "last-slash": f"{ID}/",
    "empty-segment": "spiffe://example.org//planner",
    "dot": "spiffe://example.org/./planner",
    "dots": "spiffe://example.org/ns/../planner",
    "last-dots": "spiffe://example.org/ns/..",
    "no-domain": "spiffe:///planner",
    "upper-case-domain": "spiffe://Example.org/planner",
    "upper-case-scheme": "SPIFFE://example.org/planner",
    "other-scheme": "https://example.org/planner",
    "port": "spiffe://example.org:443/planner",
    "user": "spiffe://agent@example.org/planner",
    "query": f"{ID}?a",
    "fragment": f"{ID}#a",
    "percent": "spiffe://example.org/%70lanner",
    "percent-domain": "spiffe://ex%61mple.org/planner",
    "not-ascii": "spiffe://example.org/pl\u00e4nner",
    "not-ascii-domain": "spiffe://ex\u00e4mple.org/planner",
    "space": f" {ID}",
    "line-end": f"{ID}\n",
    "too-long": f"{_LONGEST}a",
    "too-long-domain": f"spiffe://{'a' * 252}.org/a",
}


def cards(card: JsonObject) -> Iterator[Case]:
    """Cards with a SPIFFE ID, and with something else in its place."""
    for name, text in _GOOD.items():
        document = json.dumps({**card, "spiffe_id": text})
        yield found(f"spiffe-id-{name}", "a SPIFFE ID", STANDARD, document, kind="card", needs=NEEDS)
    for name, value in _BAD.items():
        told = "card.member-value at card/spiffe_id (error)"
        document = json.dumps({**card, "spiffe_id": value})
        yield found(f"spiffe-id-{name}", "no SPIFFE ID", STANDARD, document, told, kind="card", needs=NEEDS)


def admitted() -> Iterator[Case]:
    """Requirements of a route, beside what an SD-Card shows."""

    def case(name: str, about: str, *required: str, shown: JsonValue = ID, is_good: bool, hidden: bool = False) -> Case:
        disclosure = claim("spiffe_id", shown)
        document = SdJwt(sd_jwt(claims(_sd=[digest(disclosure)])).issuer_jwt, () if hidden else (disclosure,))
        admission: JsonObject = {"formats": ["a2a/1.0"], "claims": [], "skills": [], "spiffe_ids": [*required]}
        return Case(f"spiffe-id-{name}", about, STANDARD, str(document),
                    None if is_good else Rule.POLICY_SPIFFE_ID, "" if is_good else "card/spiffe_id",
                    claims={**claims(), "spiffe_id": shown} if is_good else None,
                    expectations={"admission": admission}, needs=NEEDS)  # fmt: skip

    yield case("exact", "the required id", ID, is_good=True)
    yield case("one-of", "one of the required ids", "spiffe://example.org/x", ID, is_good=True)
    yield case("beneath", "an id beneath", "spiffe://example.org/ns/prod/", is_good=True)
    yield case("domain", "an id of the trust domain", "spiffe://example.org/", is_good=True)
    yield case("other", "another id", f"{ID}-2", is_good=False)
    yield case("longer", "an id beneath an id without a last slash", "spiffe://example.org/ns/prod", is_good=False)
    yield case("sibling", "a path that begins with the same letters", "spiffe://example.org/ns/pro/", is_good=False)
    yield case("itself", "the id above those that are required", f"{ID}/", is_good=False)
    yield case("case", "another case of letters", "spiffe://example.org/ns/prod/Planner", is_good=False)
    yield case("other-domain", "another trust domain", "spiffe://example.com/", is_good=False)
    yield case("withheld", "the id is withheld", ID, is_good=False, hidden=True)
    for name in ("dots", "empty-segment", "percent", "line-end", "number", "too-long"):
        yield case(f"shown-{name}", "what is shown is no SPIFFE ID", "spiffe://example.org/", shown=_BAD[name],
                   is_good=False)  # fmt: skip
