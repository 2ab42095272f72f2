"""The same hostile inputs at each peer, as in `docs/peers.md`: 55 to refuse, 30 to accept.

Each is called as its documentation says, with the key, audience, nonce and clock of the case wherever it takes them. A
column of ours stands beside them. The document's tables are compared with what is measured, number by number.
"""

import base64
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from jwcrypto.jwk import JWK
from openvc.proof import _verify_common
from openvc.proof import sd_jwt as openvc
from openvc.proof.errors import ProofError
from sd_jwt.verifier import SDJWTVerifier

from sdcard import Misuse, Refused
from sdcard.encoding import JsonObject, same_json
from tests.external import public_cases as cases
from tests.external import vectors
from tests.external.node_peers import NodePeer, PeerRefused
from tests.shared import ROOT

RFC_9901 = "rfc9901"
PROFILE_ONLY = ("needs a non-empty string vct", "needs a W3C VCDM @context")
"""What `openvc-core` says of an SD-JWT that it has verified and that is no SD-JWT VC, as hardly any of these is."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """An input, the Verifier's expectations and the required outcome."""

    name: str
    text: str
    keys: list[dict[str, str]]
    key_binding: bool
    audience: str | None
    nonce: str | None
    now: int
    leeway: int
    kb_max_age: int
    ours: Callable[[], JsonObject]
    reject: str | None
    """The category of the flaw, or None for an input that must be accepted."""
    include: Mapping[str, Any]
    absent: list[str]

    def key(self) -> dict[str, str]:
        """The Issuer's key, by `kid` where keys have one: every peer leaves that to its caller."""
        if all("kid" not in key for key in self.keys):
            return self.keys[0]
        kid = json.loads(base64.urlsafe_b64decode(self.text.split(".")[0] + "==")).get("kid")
        for key in self.keys:
            if key["kid"] == kid:
                return key
        raise PeerRefused("the caller: no such key")

    def agrees(self, claims: JsonObject) -> bool:
        return not any(name in claims for name in self.absent) and all(
            name in claims and same_json(claims[name], value) for name, value in self.include.items()
        )


def _members(given: dict[str, Any]) -> JsonObject:
    return cases.verify(given).members


def attempts() -> Iterator[Attempt]:
    for name, given, expected in cases.presentations():
        yield Attempt(
            name,
            given["presentation"],
            given["issuer_jwks"]["keys"],
            given["require_key_binding"],
            given["expected_aud"],
            given["expected_nonce"],
            given["now"],
            given["leeway_s"],
            given["kb_max_age_s"],
            partial(_members, given),
            expected["check"].split("|")[0] if expected["result"] == "reject" else None,
            expected.get("claims_include", {}),
            expected.get("claims_absent", []),
        )
    for case in vectors.manifest(RFC_9901):
        if case["kind"] in ("sd-jwt", "sd-jwt+kb"):
            text = vectors.read_text(RFC_9901, case["file"])
            yield _of_the_rfc(case, text, None)
    for case in vectors.read_json(RFC_9901, "derived_negative.json"):
        yield _of_the_rfc(case, case["token"], case["rule"])


def _of_the_rfc(case: dict[str, Any], text: str, reject: str | None) -> Attempt:
    required = case.get("key_binding") == "required"
    return Attempt(
        case["id"],
        text,
        [dict(vectors.key_of(RFC_9901, case).to_jwk())],
        required,
        case["expected_aud"] if required else None,
        case["expected_nonce"] if required else None,
        case["clock"],
        0,
        300,
        lambda: vectors.run(RFC_9901, case, text).processed.claims,
        reject,
        vectors.read_json(RFC_9901, case["expected_payload_file"]) if "expected_payload_file" in case else {},
        [],
    )


# -- the peers, as documented -----------------------------------------------------------------------------------------


def by_us(attempt: Attempt) -> JsonObject:
    """Ours, with every expectation of the case."""
    return attempt.ours()


def by_sd_jwt(attempt: Attempt) -> JsonObject:
    """It takes no instant and no list of types: times and `typ` are its caller's."""
    key = JWK(**attempt.key())
    verifier = SDJWTVerifier(attempt.text, lambda _issuer, _header: key, attempt.audience, attempt.nonce)
    claims: JsonObject = verifier.get_verified_payload()
    return claims


def by_openvc(attempt: Attempt) -> JsonObject:
    """Beneath its profile: it is let read the type of RFC 9901's examples, and that an input is no SD-JWT VC counts as
    acceptance, since it finds that last, after signature, Disclosures and times. A KB-JWT is verified before that only
    where it is required, so it is required wherever there is one."""
    accepted = openvc._ACCEPTED_ISSUER_TYP | {"example+sd-jwt"}
    try:
        return openvc_plainly(attempt, accepted, attempt.key_binding or not attempt.text.endswith("~"))
    except ProofError as refusal:
        if any(words in str(refusal) for words in PROFILE_ONLY):
            return dict(attempt.include)
        raise


def openvc_plainly(attempt: Attempt, accepted: frozenset[str], key_binding: bool) -> JsonObject:
    """Its clock is set: it takes an instant for the KB-JWT only."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (_verify_common, openvc):
            patch.setattr(module, "time", SimpleNamespace(time=lambda: attempt.now))
        patch.setattr(openvc, "_ACCEPTED_ISSUER_TYP", accepted)
        verified = openvc.SdJwtVcProofSuite(leeway_s=attempt.leeway).verify(
            attempt.text,
            public_key_jwk=attempt.key(),
            audience=attempt.audience if attempt.key_binding else "nobody",
            nonce=attempt.nonce if attempt.key_binding else "none",
            require_key_binding=key_binding,
            kb_max_age_s=attempt.kb_max_age,
        )
    return verified.claims


def by_node(node: NodePeer, peer: str) -> Callable[[Attempt], JsonObject]:
    def verify(attempt: Attempt) -> JsonObject:
        claims: JsonObject = node.ask(
            peer,
            "verify",
            text=attempt.text,
            issuer_key=attempt.key(),
            key_binding=attempt.key_binding,
            nonce=attempt.nonce,
            audience=attempt.audience,
            now=attempt.now,
            leeway=attempt.leeway,
        )
        return claims

    return verify


# -- the tables -------------------------------------------------------------------------------------------------------

FLAWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "the parts of the text": ("RFC 9901 4", ("R-2", "R-3", "format")),
    "base64url": ("RFC 9901 4, 4.2.1; RFC 7515 2", ("encoding",)),
    "a JSON member twice": ("RFC 7515 4", ("duplicate_member",)),
    "signature, `alg` and key of the Issuer": (
        "RFC 9901 7.1 step 2",
        ("R-52", "alg", "issuer_key", "issuer_signature"),
    ),
    "`crit`": ("RFC 7515 4.1.11", ("crit",)),
    "`typ`": ("RFC 9901 9.11; RFC 8725 3.11", ("typ",)),
    "`_sd_alg` where it does not belong": ("RFC 9901 4.1.1", ("sd_alg",)),
    "a reserved claim name": ("RFC 9901 7.1 step 3.c.ii.2", ("reserved_name",)),
    "a claim that is there already": ("RFC 9901 7.1 step 3.c.ii.3", ("claim_collision",)),
    "a digest or a Disclosure twice": ("RFC 9901 7.1 steps 4 and 5", ("duplicate_digest",)),
    "a Disclosure that nothing refers to": ("RFC 9901 7.1 step 5", ("R-70", "unreferenced_disclosure")),
    "expiry, and times that are none": ("RFC 9901 7.1 step 6; RFC 7519 4.1.4", ("R-71", "expired", "time_type")),
    "key binding missing, unsigned or without a key": (
        "RFC 9901 7.3 steps 2 and 5.a to 5.c",
        ("R-82", "R-87", "cnf", "kb_signature", "key_binding_missing"),
    ),
    "another nonce or audience, or none expected": ("RFC 9901 7.3 step 5.f", ("R-90", "verifier_misuse")),
    "`sd_hash`": ("RFC 9901 7.3 step 5.g", ("R-91", "kb_sd_hash")),
}
"""What is wrong with an input → the section that has it refused, and how the two collections call it."""

FLAW_OF = {name: flaw for flaw, (_, names) in FLAWS.items() for name in names}
COLUMNS = ("sdcard", "`sd-jwt`", "`openvc-core`", "`@sd-jwt/core`", "`@meeco/sd-jwt`")


@pytest.fixture(scope="module")
def measured(node: NodePeer) -> dict[str, dict[str, str]]:
    """Column → input → `accepts`, `refuses`, or `differs` where it accepts other claims than expected."""
    peers: list[Callable[[Attempt], JsonObject]] = [
        by_us,
        by_sd_jwt,
        by_openvc,
        by_node(node, "core"),
        by_node(node, "meeco"),
    ]
    inputs = list(attempts())
    return {
        column: {attempt.name: _outcome(peer, attempt) for attempt in inputs}
        for column, peer in zip(COLUMNS, peers, strict=True)
    }


def _outcome(peer: Callable[[Attempt], JsonObject], attempt: Attempt) -> str:
    """A peer refuses in whatever way it fails; of ours only a typed refusal counts, and a crash fails the test."""
    try:
        return "accepts" if attempt.agrees(peer(attempt)) else "differs"
    except (Refused, Misuse):
        return "refuses"
    except Exception:  # peers have no error type of their own: KeyError, ValueError and others are how they refuse
        if peer is by_us:
            raise
        return "refuses"


def document() -> str:
    return (ROOT / "docs" / "peers.md").read_text(encoding="utf-8")


def row(*cells: object) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def test_the_document_tells_how_many_each_accepts_wrongly(measured: dict[str, dict[str, str]]) -> None:
    inputs = list(attempts())
    negative = [one.name for one in inputs if one.reject]
    positive = [one.name for one in inputs if not one.reject]
    assert (len(negative), len(positive), len(inputs)) == (55, 30, len({one.name for one in inputs}))
    wrongly_accepted = [f"{sum(measured[one][name] != 'refuses' for name in negative)} of 55" for one in COLUMNS]
    wrongly_refused = [f"{sum(measured[one][name] != 'accepts' for name in positive)} of 30" for one in COLUMNS]
    assert row("accepted, though to be refused", *wrongly_accepted) in document()
    assert row("refused, though to be accepted", *wrongly_refused) in document()


def test_the_document_tells_which_flaws_each_accepts(measured: dict[str, dict[str, str]]) -> None:
    inputs = [one for one in attempts() if one.reject]
    total = Counter(FLAW_OF[one.reject] for one in inputs if one.reject)
    accepted = {
        column: Counter(FLAW_OF[one.reject] for one in inputs if one.reject and measured[column][one.name] != "refuses")
        for column in COLUMNS
    }
    rows = [
        row(flaw, section, total[flaw], *(accepted[column][flaw] or "–" for column in COLUMNS))
        for flaw, (section, _) in FLAWS.items()
    ]
    assert [one for one in rows if one not in document()] == []


def test_what_is_accepted_has_the_expected_claims(measured: dict[str, dict[str, str]]) -> None:
    positive = {one.name for one in attempts() if not one.reject}
    assert [(c, n) for c in COLUMNS for n in sorted(positive) if measured[c][n] == "differs"] == []


def test_openvc_by_itself_accepts_only_what_is_an_sd_jwt_vc() -> None:
    """The document says so: RFC 9901 A.3, issued and presented, from the RFC and from one more generator."""
    accepted = []
    for attempt in attempts():
        try:
            claims = openvc_plainly(attempt, openvc._ACCEPTED_ISSUER_TYP, attempt.key_binding)
        except (ProofError, PeerRefused, ValueError):
            continue
        assert attempt.agrees(claims)
        accepted.append((attempt.reject, claims["vct"]))
    assert (len(accepted), {rejected for rejected, _ in accepted}) == (4, {None})


def test_the_document_names_the_versions() -> None:
    package = json.loads((ROOT / "tests" / "node" / "package.json").read_text(encoding="utf-8"))
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for name in ("sd-jwt", "openvc-core"):
        version = project.partition(f'"{name}==')[2].partition('"')[0]
        assert f"`{name}` {version}" in document()
    for name, version in package["dependencies"].items():
        assert f"`{name}` {version}" in document()
