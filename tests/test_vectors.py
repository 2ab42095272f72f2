"""Our vectors: in the documented format, current, complete over the rules, and usable without a line of our code."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from sdcard import (
    DEFAULT_POLICY,
    Answering,
    Challenge,
    Expectations,
    Misuse,
    Refused,
    Rule,
    Unchecked,
    Where,
    parse_public_jwk,
    parse_trusted_issuers,
    verify_presentation,
)
from sdcard.errors import Part
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS, VECTOR_KEYS, PublicKey
from sdcard.key_binding import ConsumedByCaller
from sdcard.sdjwt.model import DigestAlgorithm
from sdcard.vectors import _RUNNERS, ACCEPTED, KINDS, NEEDS, parse_vector
from sdcard.vectors.tokens import _WRITERS
from tests.groups import unavailable
from tests.shared import ROOT
from tests.world import raises_rule
from vectors.actors import CARD_SIGNER, HOLDER, STRANGER, Actor
from vectors.cases import TOPICS
from vectors.generate import NOT_TRIGGERED, generate, stale
from vectors.manifest import GENERIC_NEEDS, RELEASED, VERSION, manifest, released_digest
from vectors.rows import cited, in_order
from vectors.steps import STEPS, vectors_of

FILES = sorted(file for topic in TOPICS for file in (ROOT / "vectors" / topic).glob("*.json"))
VECTORS = {f"{file.parent.name}/{file.stem}": file.read_bytes() for file in FILES}
GOOD: dict[str, Any] = json.loads(VECTORS["key-binding/answer"])
MANIFEST = json.loads((ROOT / "vectors" / "manifest.json").read_bytes())
PAGE = (ROOT / "docs" / "vectors.md").read_text(encoding="utf-8")


def parsed(**changes: Any) -> str:
    """The outcome of a good vector with changes."""
    return parse_vector(json.dumps({**GOOD, **changes}).encode()).run()


@pytest.mark.parametrize("name", VECTORS)
def test_the_outcome_is_the_expected_one(name: str) -> None:
    vector = parse_vector(VECTORS[name])

    assert vector.run() == vector.expected


def test_regenerating_changes_nothing() -> None:
    assert stale(generate()) == []


def test_a_change_is_noticed() -> None:
    files = generate()
    page, vector = "docs/rules.md", "vectors/sd-jwt/recursive.json"

    assert stale({**files, page: files[page] + b" "}) == [page]
    assert stale({name: data for name, data in files.items() if name not in (page, vector)}) == [vector]


def test_every_rule_has_a_vector_or_a_reason_for_having_none() -> None:
    shown = {rule for data in VECTORS.values() for rule in parse_vector(data).rules}

    assert shown | NOT_TRIGGERED.keys() == set(Rule)
    assert shown & NOT_TRIGGERED.keys() == set()


# -- manifest, schema and steps ---------------------------------------------------------------------------------------


def test_the_schemas_are_valid_and_so_is_the_manifest() -> None:
    schemas = [json.loads((ROOT / "vectors" / name).read_bytes()) for name in ("schema.json", "manifest.schema.json")]

    for schema in schemas:
        Draft202012Validator.check_schema(schema)
    assert [error.message for error in Draft202012Validator(schemas[1]).iter_errors(MANIFEST)] == []


@pytest.mark.parametrize("topic", TOPICS)
def test_every_vector_is_valid_by_the_published_schema(topic: str) -> None:
    validator = Draft202012Validator(json.loads((ROOT / "vectors" / MANIFEST["schema"]).read_bytes()))
    wrong = {
        name: [error.message for error in validator.iter_errors(json.loads(data))]
        for name, data in VECTORS.items()
        if name.startswith(f"{topic}/")
    }

    assert wrong
    assert {name: found for name, found in wrong.items() if found} == {}


def test_every_kind_of_the_schema_has_vectors() -> None:
    assert {one["kind"] for one in MANIFEST["vectors"]} == KINDS.keys()


def test_the_manifest_lists_every_vector_with_its_bytes() -> None:
    assert [one["file"] for one in MANIFEST["vectors"]] == sorted(f"{name}.json" for name in VECTORS)
    for one in MANIFEST["vectors"]:
        data = VECTORS[one["file"].removesuffix(".json")]
        vector = json.loads(data)
        assert one["sha256"] == hashlib.sha256(data).hexdigest()
        assert (one["kind"], one["expect"]) == (vector["kind"], vector["expect"])
        assert one.get("needs", []) == vector.get("needs", [])


def test_released_vectors_keep_their_names_and_bytes() -> None:
    """A wrong vector is removed by hand: the digest changes with a reason in CHANGELOG.md."""
    versions = {one["since"] for one in MANIFEST["vectors"]}

    assert RELEASED
    assert versions <= RELEASED.keys() | {VERSION}
    assert VERSION not in RELEASED
    assert {version: released_digest(version, MANIFEST["vectors"]) for version in RELEASED} == RELEASED


def test_a_changed_vector_changes_the_digest_of_its_release_alone() -> None:
    listed = [{"file": "a/b.json", "sha256": "0", "since": "1.0"}, {"file": "a/c.json", "sha256": "1", "since": "1.10"}]
    digests = [released_digest(version, listed) for version in ("1.0", "1.9", "1.10")]
    listed[1]["sha256"] = "2"

    assert digests[0] == digests[1]
    assert [released_digest(version, listed) for version in ("1.0", "1.9")] == digests[:2]
    assert released_digest("1.10", listed) != digests[2]


def test_a_vector_keeps_the_version_that_added_it() -> None:
    files = {f"vectors/{name}.json": VECTORS[name] for name in ("key-binding/answer", "key-binding/stale")}
    before: Any = {"vectors": [{"file": "key-binding/answer.json", "since": "0.9"}]}
    listed: Any = manifest(files, before)["vectors"]

    assert [one["since"] for one in listed] == ["0.9", VERSION]


def test_generic_vectors_need_nothing_of_the_profile() -> None:
    generic = [one for one in MANIFEST["vectors"] if one["profile"] == "sd-jwt"]

    assert len(generic) > 200
    assert {one["kind"] for one in generic} == {"verify", "accept"}
    assert {need for one in generic for need in one.get("needs", [])} == GENERIC_NEEDS


NUMBERS = {**{f"{step.number} {step.demand}": step for step in STEPS}}


@pytest.mark.parametrize("number", NUMBERS)
def test_every_step_of_the_standard_has_vectors(number: str) -> None:
    step = NUMBERS[number]
    found = vectors_of(step, {f"vectors/{name}.json": data for name, data in VECTORS.items()})

    assert found
    assert not step.refuses or not all(found.values())


def test_every_row_of_both_sections_is_in_a_step() -> None:
    listed = {row for step in STEPS for row in cited(step.rows)}
    missing = {row for row, section in in_order() if re.match(r"RFC 9901 7\.[13]\b", section)} - listed

    assert missing == {"R-73", "R-74"}, "no partial result, and no proof of completeness: of every vector"


FEATURES = [
        *(f"algorithms/{one.lower()}-{role}" for one in SignatureAlgorithm for role in ("issuer", "holder", "both")),
        *(f"algorithms/{algorithm}" for algorithm in DigestAlgorithm),
        *(f"sd-card/context-{name}-a2a-{version}" for name in DEFAULT_POLICY.contexts for version in ("0.3", "1.0")),
        *(f"json-forms/{form}{kb}" for form in ("flattened", "general") for kb in ("", "-with-kb-jwt")),
        *("key-binding/answer", "key-binding/unsolicited", "key-binding/interaction", "sd-card/draft-02"),
        *(f"sd-jwt/{name}" for name in ("object-claims", "array-elements", "recursive", "recursive-array", "decoys")),
]  # fmt: skip


def test_every_feature_has_an_accepting_vector() -> None:
    assert [one for one in FEATURES if one not in VECTORS or parse_vector(VECTORS[one]).expected != ACCEPTED] == []


def test_every_need_is_used_and_explained() -> None:
    assert {need for data in VECTORS.values() for need in parse_vector(data).needs} == NEEDS
    assert [need for need in sorted(NEEDS) if f"`{need}`" not in PAGE] == []


def test_a_rule_without_a_vector_needs_something_else_than_a_document() -> None:
    """It depends on an HTTP API, a database, another system, an address, a witness, or bytes that are no text."""
    assert len(set(NOT_TRIGGERED.values())) == 6
    assert [rule for rule in NOT_TRIGGERED if rule.startswith(("sd", "digest.", "disclosure.", "jws."))] == []


def test_every_kind_is_explained_and_run() -> None:
    assert [kind for kind in KINDS if f"`{kind}`" not in PAGE] == []
    assert _RUNNERS.keys() == KINDS.keys()


GOLDEN = {
    *("audit-record", "agent-nonce", "challenge", "checkpoint", "delegated-token", "dpop", "nonce", "possession"),
    *("status-list", "trust-list"),
}


def test_every_text_that_is_written_has_a_golden_vector() -> None:
    written = {json.loads(data)["expectations"]["writes"] for name, data in VECTORS.items() if name[:8] == "written/"}

    assert written == GOLDEN == _WRITERS.keys()


@pytest.mark.parametrize("name", [name for name in VECTORS if name.startswith(("written/", "issuing/issue-"))])
def test_a_golden_vector_with_another_byte_fails(name: str) -> None:
    """Its inputs make no other text, and its signature has to be valid."""
    document = json.loads(VECTORS[name])
    if document["expect"] != ACCEPTED:
        return
    texts = document["result"] if "result" in document else [document["document"]]
    changed = [text[:-6] + ("A" if text[-6] != "A" else "B") + text[-5:] for text in texts]
    document |= {"result": changed} if "result" in document else {"document": changed[0]}

    vector = parse_vector(json.dumps(document).encode())
    with suppress(ValueError):
        assert vector.run() != vector.expected


def test_every_member_is_explained() -> None:
    members = {name for data in VECTORS.values() for name in json.loads(data)}
    inner = {name for data in VECTORS.values() for name in json.loads(data).get("expectations", {})}

    assert [name for name in sorted(members | inner) if f"`{name}`" not in PAGE] == []


def test_no_private_key_is_in_a_vector() -> None:
    """A vector about private keys holds a text that looks like one."""
    for data in VECTORS.values():
        for key in re.findall(r"\{[^{}]*\"kty\"[^{}]*\}", data.decode()):
            private = {name: value for name, value in json.loads(key).items() if name in PRIVATE_MEMBERS}
            assert private in ({}, {"d": "bm90IGEgcmVhbCBvbmU"})


def keys_in(value: object) -> Iterator[PublicKey]:
    """Every usable key in a JSON value, and in the headers and payloads of the tokens in its texts."""
    if isinstance(value, dict):
        if "kty" in value:
            with suppress(Refused):
                yield parse_public_jwk(value, Where(Part.KEY))
        yield from keys_in(list(value.values()))
    elif isinstance(value, list):
        for one in value:
            yield from keys_in(one)
    elif isinstance(value, str):
        for part in re.findall(r"eyJ[A-Za-z0-9_-]+|WyJ[A-Za-z0-9_-]+", value):
            with suppress(ValueError):
                yield from keys_in(json.loads(base64.urlsafe_b64decode(part + "===")))


def test_every_key_of_the_vectors_is_published_so_nobody_trusts_it_by_mistake() -> None:
    """Every reader of ``vectors/actors.py`` can sign with them."""
    made = {Actor(role, one).public_key for role in ("issuer", "holder") for one in SignatureAlgorithm}
    met = {key for data in VECTORS.values() for key in keys_in(json.loads(data))}

    assert {key.thumbprint for key in made | {STRANGER.public_key, CARD_SIGNER.public_key}} == VECTOR_KEYS
    assert made <= met
    assert [key.thumbprint for key in met if key.thumbprint not in PUBLISHED_KEYS] == []


def test_what_a_reader_of_vectors_accepts_a_verifier_refuses() -> None:
    issuers = parse_trusted_issuers(json.dumps(GOOD["trust"]).encode())
    binding = Answering(Challenge("n-0S6_WzA2Mj", "https://verifier.example"), ConsumedByCaller())
    expectations = Expectations(issuers=issuers, key_binding=binding, status=Unchecked("the case is another"))

    assert parsed() == ACCEPTED
    with raises_rule("key.published", at="issuer-header/kid"):
        verify_presentation(GOOD["document"], expectations, GOOD["now"])
    with raises_rule("key.published", at="issuer-jwt/cnf/jwk"):
        verify_presentation(
            GOOD["document"],
            replace(expectations, published_keys=frozenset({HOLDER.public_key.thumbprint})),
            GOOD["now"],
        )


# -- the loader -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"extra": 1}, "'extra' was unexpected"),
        ({"format": "sd-card-vectors/2"}, "`format` is sd-card-vectors/1"),
        ({"kind": "other"}, "`kind` one of"),
        ({"where": "kb-jwt"}, "where: 'kb-jwt' should not"),
        ({"findings": []}, "'findings' was unexpected"),
        ({"expect": "kb.stale"}, "'where' is a required property"),
        ({"expect": "kb.nonsense", "where": "kb-jwt"}, "claims: {"),
        ({"needs": ["rsa"]}, "needs/0: 'rsa' is not one of"),
        ({"needs": "status"}, "needs: 'status' is not of type 'array'"),
        ({"now": True}, "now: True is not of type 'number'"),
        ({"now": -1}, "less than the minimum"),
        ({"document": 1}, "document: 1 is not of type 'string'"),
        ({"expectations": []}, "expectations: [] is not of type 'object'"),
        ({"expectations": {}}, "'key_binding' is a required property"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "extra": 1}}, "'extra' was unexpected"),
        ({"expectations": {"key_binding": {"unbound": "x", "nonce": "y"}}}, "'nonce' was unexpected"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "limits": {"digests": 0}}}, "less than the minimum"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "limits": {"json_depth": 129}}}, "at most 128"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "limits": {"salts": 1}}}, "'salts' was unexpected"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "clock_skew": "1"}}, "not of type 'integer'"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "profile": "x"}}, "'x' is not one of"),
        ({"expectations": {"key_binding": {"audience": "a", "nonce": "n", "seen": []}}}, "'seen' was unexpected"),
        ({"expectations": {"key_binding": {"audience": "a", "past": 1.5}}}, "1.5 is not of type 'integer'"),
    ],
)  # fmt: skip
def test_what_is_not_of_the_format_is_misuse(changes: dict[str, Any], what: str) -> None:
    with pytest.raises(Misuse, match=re.escape(what)):
        parsed(**changes)


def test_an_unknown_rule_is_misuse() -> None:
    document = {**GOOD, "expect": "kb.nonsense", "where": "kb-jwt"}
    del document["claims"]

    with pytest.raises(Misuse, match="no rule"):
        parse_vector(json.dumps(document).encode())


@pytest.mark.parametrize("text", [b"", b"[]", b"\xff", b'{"format":"x","format":"x"}'])
def test_a_text_that_is_no_strict_object_is_misuse(text: bytes) -> None:
    with pytest.raises(Misuse):
        parse_vector(text)


def test_a_holder_key_that_is_none_is_misuse() -> None:
    document = json.loads(VECTORS["holder/received"])
    document["expectations"]["holder_key"] = {"kty": "RSA"}

    with pytest.raises(Misuse, match="a key of the settings"):
        parse_vector(json.dumps(document).encode()).run()


def test_other_claims_than_the_expected_ones_do_not_pass() -> None:
    assert parsed(claims={**GOOD["claims"], "city": "Shelbyville"}) != ACCEPTED
    assert parsed(claims={**GOOD["claims"], "exp": float(GOOD["claims"]["exp"])}) != ACCEPTED


# -- the living example -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of ``vectors/node`` with its modules. Where they cannot be had the test is skipped; in CI it fails."""
    folder = tmp_path_factory.mktemp("check") / "node"
    shutil.copytree(ROOT / "vectors" / "node", folder, ignore=shutil.ignore_patterns("node_modules"))
    reason = "needs node and npm"
    if shutil.which("npm"):
        install = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"]
        done = subprocess.run(install, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        if done.returncode == 0:
            return folder
        reason = f"npm ci failed: {done.stderr[-300:]}"
    return unavailable(reason)


def test_npms_library_accepts_every_vector_that_must_be_accepted(node: Path) -> None:
    """It may accept more. A refusal or another reading would be a fault of the vector."""
    command = ["node", "check.mjs", "--json", str(ROOT / "vectors")]
    done = subprocess.run(command, cwd=node, capture_output=True, text=True, timeout=120, check=True)
    counts = json.loads(done.stdout)

    assert counts["agree"] > 130
    assert counts["agree"] + counts["differ"] + counts["skipped"] == len(FILES)
    other = {one["file"]: one["outcome"] for one in counts["differing"] if one["expect"] == ACCEPTED}
    assert other == {"sd-jwt/empty-claim-name.json": "gives other claims"}, "it drops a claim with an empty name"
    assert len(other) < counts["differ"]
