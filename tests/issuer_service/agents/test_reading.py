"""Bad requests: each gets a clear refusal at its place, and leaves nothing behind."""

import json
import re
from typing import Any

import pytest

from issuer_service.agents.schemas import RegistrationRequest, read_section
from sdcard import Refused
from sdcard.io.key_files import create_key_file
from sdcard.jose.keys import PUBLISHED_KEYS
from tests.issuer_service.desk import Desk, OpenDesk, assert_refused, findings, jwk, request, request_with_card
from tests.world import example, key

Expected = tuple[str, str]


@pytest.fixture(autouse=True)
def nothing_is_left_behind(desk: Desk) -> Any:
    before = desk.rows()
    yield
    assert desk.rows() == before


def contexts(*entries: Any) -> dict[str, Any]:
    return request_with_card(disclosure_contexts=list(entries))


PRIVATE = {**jwk(), "d": "jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI"}
OFF_CURVE = {**jwk(), "y": jwk()["x"]}

BAD: dict[str, tuple[dict[str, Any], int, list[Expected]]] = {
    "an unknown context": (
        contexts({"context": "pubic"}),
        422,
        [("context.unknown", "request/disclosure_contexts/0/context")],
    ),
    "a context given twice": (
        contexts({"context": "public"}, {"context": "full"}, {"context": "public"}),
        422,
        [("context.repeated", "request/disclosure_contexts/2/context")],
    ),
    "an unknown claim": (
        contexts({"context": "full", "disclose": ["skills", "skils"]}),
        422,
        [("disclose.unknown", "request/disclosure_contexts/0/disclose/1")],
    ),
    "a text that is no path": (
        contexts({"context": "full", "disclose": ["skills..id"]}),
        422,
        [("path.malformed", "request/disclosure_contexts/0/disclose/0")],
    ),
    "a claim above the ceiling": (
        contexts({"context": "public", "disclose": ["security_context"]}),
        422,
        [("disclose.beyond-ceiling", "request/disclosure_contexts/0/disclose/0")],
    ),
    "no context": (request(disclosure_contexts=[]), 422, [("request.malformed", "request/disclosure_contexts")]),
    "too many contexts": (
        request(disclosure_contexts=[{"context": "public"}] * 17),
        422,
        [("request.malformed", "request/disclosure_contexts")],
    ),
    "too many entries": (
        contexts({"context": "full", "disclose": ["skills"] * 65}),
        422,
        [("request.malformed", "request/disclosure_contexts/0/disclose")],
    ),
    "an entry of 257 characters": (
        contexts({"context": "full", "disclose": ["x" * 257]}),
        422,
        [("request.malformed", "request/disclosure_contexts/0/disclose/0")],
    ),
    "a context that is a text": (
        request(disclosure_contexts=["public"]),
        422,
        [("request.malformed", "request/disclosure_contexts/0")],
    ),
    "a misspelt member of a context": (
        contexts({"context": "full", "disclosed": ["skills"]}),
        422,
        [("request.malformed", "request/disclosure_contexts/0/disclosed")],
    ),
    "a list that is null": (
        contexts({"context": "full"}) | {"disclosure_contexts": [{"context": "full", "disclose": None}]},
        422,
        [("request.malformed", "request/disclosure_contexts/0/disclose")],
    ),
    "a private key": (request(public_key=PRIVATE), 422, [("key.private", "request/public_key")]),
    "a key off its curve": (request(public_key=OFF_CURVE), 422, [("key.malformed", "request/public_key")]),
    "a key in padded base64": (
        request(public_key={**jwk(), "x": f"{jwk()['x']}="}),
        422,
        [("encoding.base64url", "request/public_key/x")],
    ),
    "a key of another kind": (
        request(public_key={"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
        422,
        [("key.unsupported", "request/public_key")],
    ),
    "a key that is a text": (request(public_key="key"), 422, [("request.malformed", "request/public_key")]),
    "a key given twice": (
        request(public_key=None, public_keys=[jwk(), jwk()]),
        422,
        [("key.repeated", "request/public_keys/1")],
    ),
    "a key given twice under other names": (
        request(public_key=None, public_keys=[jwk(), jwk(key(21)), {**jwk(), "kid": "another"}]),
        422,
        [("key.repeated", "request/public_keys/2")],
    ),
    "no key": (request(public_key=None), 422, [("request.malformed", "request/public_key")]),
    "both kinds of key": (request(public_keys=[jwk()]), 422, [("request.malformed", "request/public_key")]),
    "an empty list of keys": (
        request(public_key=None, public_keys=[]),
        422,
        [("request.malformed", "request/public_keys")],
    ),
    "65 keys": (
        request(public_key=None, public_keys=[jwk(key(n)) for n in range(65)]),
        422,
        [("request.malformed", "request/public_keys")],
    ),
    "keys of contexts that are none, or repeated": (
        request(
            public_key=None,
            public_keys=[jwk(), jwk(key(21))],
            disclosure_contexts=[{"context": "public", "keys": [0, 2, 0]}, {"context": "internal", "keys": [1]}],
        ),
        422,
        [("request.malformed", f"request/disclosure_contexts/0/keys/{place}") for place in (1, 2)],
    ),
    "a key of no context": (
        request(
            public_key=None, public_keys=[jwk(), jwk(key(21))], disclosure_contexts=[{"context": "public", "keys": [0]}]
        ),
        422,
        [("request.malformed", "request/public_keys/1")],
    ),
    **{
        f"keys of a context that are {keys}": (
            request(disclosure_contexts=[{"context": "public", "keys": keys}]),
            422,
            [("request.malformed", f"request/disclosure_contexts/0/keys{place}")],
        )
        for keys, place in [
            *((list[object](), ""), (None, ""), ([0] * 65, "")),
            *(([one], "/0") for one in (-1, 0.0, "0", True)),
        ]
    },
    "a card with exp": (request_with_card({**example(), "exp": 1}), 422, [("card.reserved-member", "card/exp")]),
    "a card with _sd deep inside": (
        request_with_card({**example(), "x": {"y": [{"_sd": []}]}}),
        422,
        [("card.reserved-member", "card/x/y/0/_sd")],
    ),
    "a card of no known format": (request(card={"hello": "world"}), 422, [("card.format", "card")]),
    "a card in a text that is no JSON": (request(card="card"), 400, [("json.malformed", "card")]),
    "a card that is a number": ({**request(), "card": 7}, 422, [("request.malformed", "request/card")]),
    "a card that is null": ({**request(), "card": None}, 422, [("request.malformed", "request/card")]),
    "a card with another name and version": (
        request_with_card(name="Another", version="9"),
        422,
        [("card.disagrees", "request/name"), ("card.disagrees", "request/version")],
    ),
    "a card of more than the permitted size": (
        request_with_card({**example(), "x": "a" * 262_144}),
        413,
        [("limit.bytes", "card")],
    ),
    "a card of too many parts": (
        request_with_card({**example(), **{f"x{n}": n for n in range(4_100)}}),
        413,
        [("limit.disclosures", "card")],
    ),
    "an unknown member": (request(agentid="x"), 422, [("request.malformed", "request/agentid")]),
    "an unknown member with a long name": ({**request(), "x" * 65: 1}, 422, [("request.malformed", "request")]),
    "a version that is a number": (request(version=2.1), 422, [("request.malformed", "request/version")]),
    "no name": (request(name=None), 422, [("request.malformed", "request/name")]),
}


@pytest.mark.parametrize("what", BAD)
def test_a_bad_request_is_refused_at_its_place(registry: OpenDesk, what: str) -> None:
    body, status, expected = BAD[what]

    assert_refused(registry.post(body), status, *expected)


@pytest.mark.parametrize(
    "agent_id", ["", ".hidden", "-x", "a b", "a/b", "a\n", "a\u0000", "ä", "a:b", "../a", "a" * 129, "a" * 300, "a%2e"]
)
def test_an_odd_agent_id_is_refused(registry: OpenDesk, agent_id: str) -> None:
    assert_refused(registry.post(request(agent_id)), 422, ("agent-id.malformed", "request/agent_id"))


def test_every_published_key_is_refused(registry: OpenDesk) -> None:
    ours = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}
    response = registry.post(request(public_key=None, public_keys=[jwk(), ours]))

    assert_refused(response, 422, ("key.published", "request/public_keys/1"))
    assert len(PUBLISHED_KEYS) >= 4


def test_a_key_of_the_registry_is_nobody_elses(desk: Desk) -> None:
    with desk.open() as registry:
        for own in (desk.signer, desk.status_signer):
            response = registry.post(request(public_key=None, public_keys=[jwk(), jwk(own)]))
            assert_refused(response, 409, ("key.bound-elsewhere", "request/public_keys/1"))


def test_everything_is_reported_at_once(registry: OpenDesk) -> None:
    body = {
        "agent_id": "-",
        "name": 1,
        "description": "d",
        "version": "1",
        "public_keys": [jwk(), PRIVATE, jwk(), {"kty": "oct", "k": "AA"}],
        "card": {**example(), "exp": 1, "_sd": []},
        "disclosure_contexts": [{"context": "pubic"}, {"context": "full"}, {"context": "full"}],
        "extra": 1,
    }

    assert_refused(
        registry.post(body),
        422,
        ("agent-id.malformed", "request/agent_id"),
        ("request.malformed", "request/name"),
        ("key.private", "request/public_keys/1"),
        ("key.repeated", "request/public_keys/2"),
        ("key.private", "request/public_keys/3"),
        ("card.reserved-member", "card/exp"),
        ("card.reserved-member", "card/_sd"),
        ("card.disagrees", "request/name"),
        ("card.disagrees", "request/description"),
        ("card.disagrees", "request/version"),
        ("context.unknown", "request/disclosure_contexts/0/context"),
        ("context.repeated", "request/disclosure_contexts/2/context"),
        ("request.malformed", "request/extra"),
    )


def test_every_bad_entry_of_every_context_is_reported(registry: OpenDesk) -> None:
    body = contexts(
        {"context": "public", "disclose": ["skils", "skills", "security_context"]},
        {"context": "full", "disclose": ["nam", "*"]},
    )

    assert_refused(
        registry.post(body),
        422,
        ("disclose.unknown", "request/disclosure_contexts/0/disclose/0"),
        ("disclose.beyond-ceiling", "request/disclosure_contexts/0/disclose/2"),
        ("disclose.unknown", "request/disclosure_contexts/1/disclose/0"),
    )


def test_the_hint_names_the_nearest_claim_and_the_known_contexts(registry: OpenDesk) -> None:
    unknown_claim = registry.post(contexts({"context": "full", "disclose": ["skils"]})).json()
    unknown_context = registry.post(contexts({"context": "pubic"})).json()

    assert "skills" in unknown_claim["findings"][0]["hint"]
    assert "public" in unknown_context["findings"][0]["hint"]


def test_a_million_errors_give_a_short_answer(registry: OpenDesk) -> None:
    response = registry.post({f"m{n}": 1 for n in range(5_000)})

    assert response.status_code == 422
    assert len(response.json()["findings"]) == 200
    assert "more findings" in response.json()["detail"]


def test_too_much_work_in_one_batch_is_refused(registry: OpenDesk) -> None:
    card = {**example(), **{f"x{n}": n for n in range(4_000)}}
    body = request_with_card(card, public_key=None, public_keys=[jwk(key(n)) for n in range(100, 164)])

    assert_refused(registry.post(body), 413, ("limit.disclosures", "request"))


def test_a_batch_of_too_many_bytes_is_refused(registry: OpenDesk) -> None:
    card = {**example(), "x": "a" * 250_000}
    every = [{"context": name} for name in ("public", "internal", "diagnostic", "federation", "full")]
    keys = [jwk(key(n)) for n in range(100, 164)]
    body = request_with_card(card, public_key=None, public_keys=keys, disclosure_contexts=every)

    assert_refused(registry.post(body), 413, ("limit.bytes", "request"))


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"", "json.malformed"),
        (b"hello", "json.malformed"),
        (b"[]", "json.malformed"),
        (b'"text"', "json.malformed"),
        (b'{"agent_id":', "json.malformed"),
        (b'\xff{"agent_id":1}', "encoding.utf8"),
        (b'{"agent_id":"a","agent_id":"b"}', "json.duplicate-member"),
        (b'{"card":{"x":1,"x":2}}', "json.duplicate-member"),
        (b'{"card":{"x":NaN}}', "json.number"),
        (b'{"card":{"x":-Infinity}}', "json.number"),
        (b'{"card":{"x":1e999}}', "json.number"),
        (b'{"name":"\\ud800"}', "json.surrogate"),
        (b'{"card":' + b"[" * 20_000 + b"]" * 20_000 + b"}", "json.depth"),
        (b'{"card":' + b'{"a":' * 20_000 + b"1" + b"}" * 20_000 + b"}", "json.depth"),
        (b'{"card":' + b"[" * 500_000, "json.depth"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_body_that_is_no_sound_json_is_refused(registry: OpenDesk, body: bytes, rule: str) -> None:
    assert_refused(registry.post(body), 400, (rule, "request"))


def test_a_number_of_thousands_of_digits_is_refused(registry: OpenDesk) -> None:
    response = registry.post(b'{"card":{"x":' + b"9" * 5_000 + b"}}")

    assert response.status_code == 400
    assert findings(response)[0][0] == "json.number"


def test_a_private_key_of_a_file_is_refused_and_not_repeated(
    registry: OpenDesk, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("keys") / "agent.jwk"
    create_key_file(file)
    private = json.loads(file.read_text())

    response = registry.post(request(public_key=private))

    assert_refused(response, 422, ("key.private", "request/public_key"))
    assert private["d"] not in response.text


@pytest.mark.parametrize("value", [7, 1.5, True, [], [[]], {"a": 1}, "x"])
@pytest.mark.parametrize("name", sorted(RegistrationRequest.model_fields))
def test_a_member_of_the_wrong_type_is_refused_at_places_of_the_document(name: str, value: object) -> None:
    """No place names a type of ours."""
    try:
        read_section(RegistrationRequest, {**request(), name: value})
    except Refused as refusal:
        names = {str(part) for finding in refusal.findings for part in finding.where.path if isinstance(part, str)}
        assert all(re.fullmatch("[a-z_]+", one) for one in names), names
