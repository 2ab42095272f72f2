"""Our vectors: in the documented format, current, complete over the rules, and usable without a line of our code."""

import base64
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
from sdcard.jose.algorithms import DigestAlgorithm, SignatureAlgorithm
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS, VECTOR_KEYS, PublicKey
from sdcard.key_binding import ConsumedByCaller
from sdcard.vectors import ACCEPTED, NEEDS, parse_vector
from tests.groups import unavailable
from tests.shared import ROOT
from tests.world import raises_rule
from vectors.actors import CARD_SIGNER, HOLDER, STRANGER, Actor
from vectors.cases import TOPICS
from vectors.generate import NOT_TRIGGERED, generate, stale

FILES = sorted(file for topic in TOPICS for file in (ROOT / "vectors" / topic).glob("*.json"))
VECTORS = {f"{file.parent.name}/{file.stem}": file.read_bytes() for file in FILES}
GOOD: dict[str, Any] = json.loads(VECTORS["key-binding/answer"])
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
    first, second, *_ = sorted(files)

    assert stale({**files, first: files[first] + b" "}) == [first]
    assert stale({name: data for name, data in files.items() if name not in (first, second)}) == [second]


def test_every_rule_has_a_vector_or_a_reason_for_having_none() -> None:
    shown = {rule for data in VECTORS.values() for rule in parse_vector(data).rules}

    assert shown | NOT_TRIGGERED.keys() == set(Rule)
    assert shown & NOT_TRIGGERED.keys() == set()


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
        ({"extra": 1}, "member `extra`"),
        ({"format": "sd-card-vectors/2"}, "`format` is sd-card-vectors/1"),
        ({"kind": "other"}, "`kind` one of"),
        ({"where": "kb-jwt"}, "member `where`"),
        ({"findings": []}, "member `findings`"),
        ({"expect": "kb.stale"}, "has no `where`"),
        ({"expect": "kb.nonsense", "where": "kb-jwt"}, "member `claims`"),
        ({"needs": ["rsa"]}, "`needs` are among"),
        ({"needs": "status"}, "array of strings"),
        ({"now": True}, "`now` is"),
        ({"document": 1}, "`document` is a string"),
        ({"expectations": []}, "`expectations` is an object"),
        ({"expectations": {}}, "has no `key_binding`"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "extra": 1}}, "member `extra`"),
        ({"expectations": {"key_binding": {"unbound": "x", "nonce": "y"}}}, "member `nonce`"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "limits": {"digests": 0}}}, "positive whole"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "limits": {"salts": 1}}}, "member `salts`"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "clock_skew": "1"}}, "whole number"),
        ({"expectations": {"key_binding": {"unbound": "x"}, "profile": "x"}}, "`profile` is one of"),
        ({"expectations": {"key_binding": {"audience": "a", "nonce": "n", "seen": []}}}, "no `seen`"),
        ({"expectations": {"key_binding": {"audience": "a", "past": 1.5}}}, "whole seconds"),
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

    with pytest.raises(Misuse, match="holder_key"):
        parse_vector(json.dumps(document).encode())


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
    assert {one["outcome"] for one in counts["differing"]} == {"accepts what must be refused"}
