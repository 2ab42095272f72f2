"""The page's verdicts are the core's, over all vectors; what it cannot check reads "not checked here"."""

import base64
import json
import zlib
from collections import Counter
from typing import Any

from sdcard import Limits, Refused, parse_public_jwk
from sdcard.encoding import JsonObject, encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.jose.keys import PRIVATE_MEMBERS, PUBLISHED_KEYS, VECTOR_KEYS
from sdcard.linkability.comparison import report_linkability
from sdcard.status_list import (
    StatusList,
    check_status_value,
    issue_status_list_token,
    pack_statuses,
    verify_status_list_token,
)
from sdcard.vectors import ACCEPTED
from tests.browser.pages import Watched
from tests.external.vectors import manifest, read_json, read_text, run
from tests.sdcard.cards.a2a.signed import SIGNER
from tests.shared import ROOT
from vectors.cases import TOPICS

VECTORS = {
    f"{file.parent.name}/{file.stem}": json.loads(file.read_bytes())
    for topic in TOPICS
    for file in sorted((ROOT / "vectors" / topic).glob("*.json"))
    if topic != "certificates"  # the page trusts keys, not roots
}
PUBLISHED = sorted(PUBLISHED_KEYS - VECTOR_KEYS)
ELSEWHERE = {
    "key-binding/replayed": "kb.replayed",
    "key-binding/replayed-unsolicited": "kb.replayed",
    "key-binding/unsolicited-agent-proof": "kb.purpose",
    "sd-card/status-other-value": "status.unavailable",
    "sd-card/status-revoked": "status.revoked",
    "sd-card/status-suspended": "status.suspended",
    "sd-card/status-unavailable": "status.unavailable",
}
"""Vectors that a page cannot judge: it remembers no nonces, and a vector's statuses have no status list token."""


def options_of(vector: dict[str, Any]) -> dict[str, Any]:
    """A vector's expectations, as the page takes them."""
    given = vector["expectations"]
    options = {"now": vector["now"], "keys": json.dumps(vector["trust"]), "published": PUBLISHED}
    options |= {ours: given[theirs] for theirs, ours in RENAMED.items() if theirs in given}
    if vector["kind"] == "accept":
        return options | {"holderKey": json.dumps(given["holder_key"])}
    binding = given["key_binding"]
    if "unbound" in binding:
        return options | {"keyBinding": "unbound"}
    chosen = {name: binding.get(name) for name in ("audience", "nonce")}
    window = {name: binding[name] for name in ("past", "future") if name in binding}
    return options | {"keyBinding": chosen | window | {"interactionId": binding.get("interaction_id")}}


RENAMED = {"profile": "profile", "clock_skew": "skew", "limits": "limits", "max_lifetime": "maxLifetime"}


def states(found: dict[str, Any], rule: str) -> set[str]:
    return {row["state"] for row in found["rows"] if row["rule"] == rule}


def test_every_vector_of_tokens_has_the_verdict_of_the_core(watched: Watched) -> None:
    chosen = {
        name: one
        for name, one in VECTORS.items()
        if one["kind"] in {"verify", "accept"}
        and not {"admission", "complete", "required_checks"} & one["expectations"].keys()
    }
    found = watched.run_all("sdJwt", [[one["document"], options_of(one)] for one in chosen.values()])
    seen: Counter[str] = Counter()
    for (name, vector), answer in zip(chosen.items(), found, strict=True):
        if name in ELSEWHERE:
            assert answer["refusal"] is None, name
            assert vector["expect"] == ELSEWHERE[name]
            assert states(answer, ELSEWHERE[name]) == {"unchecked"}, name
            seen["not checked here"] += 1
        elif vector["expect"] == ACCEPTED:
            assert answer["refusal"] is None, name
            assert "passed" in states(answer, "jws.signature"), name
            seen["accepted"] += 1
        else:
            assert answer["refusal"] == f"{vector['expect']} at {vector['where']}", name
            assert "refused" in states(answer, vector["expect"]), name
            seen["refused"] += 1
    assert seen["accepted"] > 100
    assert seen["refused"] > 300
    assert seen["not checked here"] == len(ELSEWHERE)


def test_every_proof_of_a_log_has_the_verdict_of_the_core(watched: Watched) -> None:
    chosen = {name: one for name, one in VECTORS.items() if one["kind"] == "log-proof"}
    trust = json.dumps(VECTORS["sd-card/status-valid"]["trust"])
    rows = []
    for one in chosen.values():
        log = {"logPolicy": one["expectations"]["policy"], "logProof": one["document"]}
        options = {"now": one["now"], "keys": trust, "published": PUBLISHED, "keyBinding": "unbound"} | log
        rows.append([f"{one['expectations']['issuer_jwt']}~", options])
    found = watched.run_all("sdJwt", rows)
    verdicts = {name: answer["refusal"] or ACCEPTED for name, answer in zip(chosen, found, strict=True)}
    assert verdicts == {
        name: f"{one['expect']} at {one['where']}" if "where" in one else ACCEPTED for name, one in chosen.items()
    }
    for one, answer in zip(chosen.values(), found, strict=True):
        assert one["expect"] != ACCEPTED or answer["log"] == one["result"]
    assert len({one["expect"] for one in chosen.values()}) == 9


CHECKED_OF_CARDS = {
    *("encoding.utf8", "json.malformed", "json.duplicate-member", "json.number", "json.surrogate", "json.depth"),
    *("limit.bytes", "card.format", "card.signature-invalid", "card.signature-untrusted", "card.signature-verified"),
}


def test_every_vector_of_cards_has_the_verdict_of_the_core_where_the_page_has_one(watched: Watched) -> None:
    chosen = {name: one for name, one in VECTORS.items() if one["kind"] == "card"}
    rows = []
    for one in chosen.values():
        given = one.get("expectations", {})
        keys = json.dumps(given["signers"]) if "signers" in given else ""
        rows.append(
            [one["document"], {"now": 0, "keys": keys, "published": PUBLISHED, "limits": given.get("limits", {})}]
        )
    found = watched.run_all("card", rows)
    seen: Counter[str] = Counter()
    for (name, vector), answer in zip(chosen.items(), found, strict=True):
        rule = vector["expect"]
        if answer["refusal"] is not None:
            assert answer["refusal"] == f"{rule} at {vector['where']}", name
            seen["refused"] += 1
            continue
        assert rule not in CHECKED_OF_CARDS, name
        assert rule == ACCEPTED or states(answer, rule) == {"unchecked"}, name
        seen["accepted" if rule == ACCEPTED else "not checked here"] += 1
        said = [finding for finding in vector.get("findings", []) if finding.startswith("card.signature-")]
        assert [one for one in answer["signatures"] if one] == [
            finding.partition(" ")[0] for finding in said if given_keys(vector)
        ], name
    assert min(seen[verdict] for verdict in ("accepted", "refused", "not checked here")) > 20


def given_keys(vector: dict[str, Any]) -> bool:
    return "signers" in vector.get("expectations", {})


# -- those of others --------------------------------------------------------------------------------------------------

FOLDERS = ("rfc9901", "sd-jwt-python", "ietf-sd-jwt-draft", "ietf-sd-jwt-vc", "eudi-sdjwt-kt")
KINDS = ("sd-jwt", "sd-jwt+kb", "jws-json-flattened", "jws-json-flattened+kb", "jws-json-general+kb")


def external() -> list[tuple[str, dict[str, Any], str]]:
    """Folder, case and text of every SD-JWT that comes with a key."""
    found = []
    for folder in FOLDERS:
        for case in manifest(folder):
            if case["kind"] in KINDS and "file" in case:
                found.append((folder, case, read_text(folder, case["file"])))
    found += [("rfc9901", case, case["token"]) for case in read_json("rfc9901", "derived_negative.json")]
    return found


def core(folder: str, case: dict[str, Any], text: str) -> str:
    try:
        run(folder, case, text)
    except Refused as refusal:
        return f"{refusal.rule} at {refusal.where}".replace(" at key", " at trust")
    return ACCEPTED


def test_every_sd_jwt_of_others_has_the_verdict_of_the_core(watched: Watched) -> None:
    cases = external()
    rows = []
    for folder, case, text in cases:
        bound = case.get("key_binding") == "required"
        binding = {"audience": case["expected_aud"], "nonce": case["expected_nonce"]} if bound else "unbound"
        keys = json.dumps(read_json(folder, case.get("key_file", "issuer_public.jwk.json")))
        rows.append(
            [text, {"now": case["clock"], "published": [], "keys": keys, "profile": "any", "keyBinding": binding}]
        )
    found = watched.run_all("sdJwt", rows)
    seen: Counter[str] = Counter()
    for (folder, case, text), answer in zip(cases, found, strict=True):
        expected = core(folder, case, text)
        if expected.startswith("jws.typ "):  # a profile says which types there are, and these have none
            assert "unchecked" in states(answer, "jws.typ")
            seen["not checked here"] += 1
            continue
        assert (answer["refusal"] or ACCEPTED) == expected, f"{folder}/{case['id']}"
        seen["accepted" if expected == ACCEPTED else "refused"] += 1
    assert seen == {"accepted": 106, "refused": 18, "not checked here": 4}


def test_every_text_of_the_json_suite_is_read_as_the_core_reads_it(watched: Watched) -> None:
    cases = read_json("json-test-suite", "test_parsing.json")
    texts = [
        zlib.decompress(base64.b64decode(one["zlib_b64"])) if "zlib_b64" in one else base64.b64decode(one["b64"])
        for one in cases
    ]
    found = watched.run_all("json", [[list(text)] for text in texts])
    seen: Counter[str] = Counter()
    for case, text, answer in zip(cases, texts, found, strict=True):
        assert answer == json_verdict(text), case["name"]
        seen["kept" if answer == "kept" else "refused"] += 1
    assert seen == {"kept": 96, "refused": 222}


NUMBERS = (
    *("0", "-0", "1.0", "1.10", "0.1", "1e0", "100e-2", "1e22", "1e23", "123456789012345678", "9007199254740993"),
    *(
        "9007199254740993.0",
        "0.30000000000000004",
        "0.1000000000000000055511151231257827",
        "1e-400",
        "5e-324",
        "4.9e-324",
    ),
    *(
        "1E400",
        "-1e400",
        "0e999999999999",
        "0e999999999999999999",
        "0e1000000000000000000",
        "0e-1999999999999999997",
        "0e-1999999999999999998",
        "0e99999999999999999999",
        "0.0",
        "-0.0",
        "1e1000000000000000000",
        "00",
        "1.",
        ".5",
        "+1",
    ),
    *(
        "-",
        "1e",
        "0x1",
        "NaN",
        "-NaN",
        "Infinity",
        "-Infinity",
        "1" * 4300,
        "1" * 4301,
        "-" + "1" * 4300,
        "1" * 30 + ".0",
        "2e-1",
    ),
)


def json_verdict(data: bytes) -> str:
    from sdcard.encoding import parse_json

    try:
        parse_json(data, Where(Part.REQUEST), Limits().json_depth)
    except Refused as refusal:
        return str(refusal.rule)
    return "kept"


def test_numbers_are_kept_or_refused_as_in_the_core(watched: Watched) -> None:
    found = watched.run_all("json", [[list(number.encode())] for number in NUMBERS])

    assert dict(zip(NUMBERS, found, strict=True)) == {number: json_verdict(number.encode()) for number in NUMBERS}


# -- status lists, links, keys ----------------------------------------------------------------------------------------

NOW = 1_800_000_000
LIST = "https://registry.example/status/1"
OTHER_LIST = "https://registry.example/status/2"


def list_cases() -> list[tuple[str, str]]:
    """Status list tokens, good and bad, about ``LIST``."""
    key = SIGNER
    statuses = pack_statuses({1: 1, 2: 2, 3: 3}, 64, 2)

    def token(
        statuses: StatusList = statuses, uri: str = LIST, at: int = NOW - 9, ttl: int = 60, end: int = NOW + 9
    ) -> str:
        return issue_status_list_token(statuses, uri, key, at, ttl, end)

    def changed(**claims: Any) -> str:
        return signed({"sub": LIST, "iat": NOW - 9, "status_list": statuses.to_claim()} | claims)

    compressed = statuses.to_claim()["lst"]
    assert isinstance(compressed, str)
    longer = encode_base64url(base64.urlsafe_b64decode(compressed + "=" * (-len(compressed) % 4)) + b"x")
    bomb = encode_base64url(zlib.compress(bytes(Limits().status_list_bytes + 1), 9))
    return [
        ("good", token()),
        ("1 bit", token(pack_statuses({1: 1}, 64, 1))),
        ("8 bits", token(pack_statuses({2: 200}, 64, 8))),
        ("short", token(pack_statuses({}, 4, 2))),
        ("other list", token(uri=OTHER_LIST)),
        ("from the future", token(at=NOW + 1)),
        ("expired", token(end=NOW)),
        ("tampered", token()[:-4] + "AAAA"),
        ("no iat", changed(iat=None)),
        ("ttl zero", changed(ttl=0)),
        ("not yet valid", changed(nbf=NOW + 1)),
        ("for another Verifier", changed(aud="x")),
        ("ttl text", changed(ttl="60")),
        ("three bits", changed(status_list={"bits": 3, "lst": compressed})),
        ("true bits", changed(status_list={"bits": True, "lst": compressed})),
        ("no zlib", changed(status_list={"bits": 1, "lst": "AAAA"})),
        ("cut", changed(status_list={"bits": 1, "lst": encode_base64url(b"x\x9c")})),
        ("goes on", changed(status_list={"bits": 2, "lst": longer})),
        ("bomb", changed(status_list={"bits": 1, "lst": bomb})),
        ("no base64url", changed(status_list={"bits": 1, "lst": "A=="})),
    ]


def signed(claims: dict[str, Any]) -> str:
    parts = [{"alg": "ES256", "typ": "statuslist+jwt"}, claims]
    text = ".".join(encode_base64url(encode_json(part)) for part in parts)
    return f"{text}.{encode_base64url(SIGNER.sign(text.encode()))}"


def judged_list(text: str, index: int) -> str:
    try:
        token = verify_status_list_token(text, LIST, SIGNER.public_key, NOW, Limits())
        check_status_value(token.statuses.status(index))
    except Refused as refusal:
        return f"{refusal.rule} at {refusal.where}"
    return ACCEPTED


def test_every_status_list_token_has_the_verdict_of_the_core(watched: Watched) -> None:
    """Behind an SD-Card that refers to it, as a person would paste it."""
    card = VECTORS["sd-card/status-valid"]
    entry = json.loads(base64.urlsafe_b64decode(card["document"].split(".")[1] + "=="))["status"]["status_list"]
    keys = json.dumps(SIGNER.public_key.to_jwk())
    cases = [(name, text) for name, text in list_cases()]
    assert entry["uri"] == LIST
    options = options_of(card) | {"now": NOW, "statusKeys": keys}
    found = watched.run_all("sdJwt", [[card["document"], options | {"statusToken": text}] for _, text in cases])
    verdicts = {name: answer["refusal"] or ACCEPTED for (name, _), answer in zip(cases, found, strict=True)}
    assert verdicts == {name: judged_list(text, entry["idx"]) for name, text in cases}
    assert len(set(verdicts.values())) == 15


def test_links_are_those_of_the_core(watched: Watched) -> None:
    texts = [
        one["document"]
        for name, one in VECTORS.items()
        if one["expect"] == ACCEPTED and "document" in one and one["kind"] == "verify"
    ]
    pairs = [(texts[i], texts[(i + step) % len(texts)]) for step in (1, 40) for i in range(len(texts))]
    found = watched.run_all("links", [list(pair) for pair in pairs])
    kinds: Counter[str] = Counter()
    for pair, links in zip(pairs, found, strict=True):
        (expected,) = report_linkability(pair).pairs
        assert [(one["what"], one["how"], one["verdict"]) for one in links] == [
            (one.what, one.how, one.verdict) for one in expected.links
        ]
        for one, ours in zip(expected.links, links, strict=True):
            assert sorted(ours["places"]) == sorted([str(here), str(there)] for here, there in one.places)
            kinds[one.what] += 1
    assert len(pairs) > 100
    assert len(kinds) >= 25


def test_keys_of_wycheproof_are_read_as_the_core_reads_them(watched: Watched) -> None:
    """A key that the core refuses is never one here."""
    groups = read_json("wycheproof", "json_web_key_test.json")["testGroups"]
    given = [group[name] for group in groups for name in ("public", "private") if isinstance(group.get(name), dict)]
    whole = [key for one in given for key in one.get("keys", [one])]
    keys = [*whole, *({name: value for name, value in key.items() if name not in PRIVATE_MEMBERS} for key in whole)]
    found = watched.run_all("key", [[json.dumps(key)] for key in keys])
    assert found == [judged_key(key) for key in keys]
    assert len(keys) == 78


def judged_key(key: JsonObject) -> str:
    try:
        return parse_public_jwk(key, Where(Part.TRUST)).thumbprint
    except Refused as refusal:
        return f"{refusal.rule} at {refusal.where}"
