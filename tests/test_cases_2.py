"""``../shared/cases-2``: the right answer of every case, from the case's own data.

Some cases are tried beside the code that they are about; ``ELSEWHERE`` says where. A new case fails until it is here.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from sdcard import Refused, Unchecked
from sdcard.cards.detect import examine_card
from sdcard.dpop import token_hash
from sdcard.io.card_fetching import fetch_card
from sdcard.io.egress_policy import LOOPBACK
from sdcard.io.pkcs11 import _public_key
from tests.command_line import Sdcard
from tests.issuer_service.desk import Desk, OpenDesk, jwk, request_with_card
from tests.sdcard.io.test_card_fetching import serve, signed
from tests.sdcard.test_dpop import CLIENT, URL, expected, made
from tests.shared import ROOT, shared_dir
from tests.world import NOW, REMOVED, UNASKED, World, example, key

ELSEWHERE = {
    "N2-002": "tests/sdcard/jose/test_key_sets.py",
    "N2-005": "tests/sdcard/jose/test_key_sets.py",
    "N2-013": "tests/issuer_service/test_texts.py",
    "N2-026": "tests/sdcard/io/test_status_lists.py",
    "N2-031": "tests/issuer_service/delegation/test_endpoints.py",
}
HERE = {
    "N2-016", "N2-019", "N2-020", "N2-030", "N2-038", "N2-042", "N2-045", "N2-049", "N2-050", "N2-W2",
}  # fmt: skip


def case(number: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((shared_dir() / "cases-2" / f"{number}.json").read_text(encoding="utf-8"))
    found: dict[str, Any] = document["input"]
    return found


def test_every_case_is_tried() -> None:
    cases = {path.stem for path in (shared_dir() / "cases-2").glob("*.json")}

    assert cases == HERE | ELSEWHERE.keys()
    for number, file in ELSEWHERE.items():
        assert f'"{number}' in (ROOT / file).read_text(encoding="utf-8"), (number, file)
    own = Path(__file__).read_text(encoding="utf-8")
    for number in HERE:
        assert f'case("{number}")' in own


# -- the registry -----------------------------------------------------------------------------------------------------


@pytest.fixture
def registry(desk: Desk) -> Any:
    with desk.open() as opened:
        yield opened


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def registered(registry: OpenDesk, agent_id: str, number: int, **changes: Any) -> Any:
    document = {**example(), "name": f"Page {agent_id}", **changes}
    body = request_with_card(document, agent_id=agent_id, public_key=jwk(key(number)))
    body["disclosure_contexts"] = [{"context": "public"}]
    return registry.register(body)


def walk(registry: OpenDesk, size: int, between: Any) -> tuple[list[str], list[str]]:
    """The owner's list and discovery, page by page; ``between`` is done once, after the first page of both."""
    listed, found, path = list[str](), list[str](), f"/agents?limit={size}"
    cursor: dict[str, Any] = {}
    first = True
    while path or cursor is not None:
        if path:
            page = registry.done("GET", path)
            listed += [one["agent_id"] for one in page["agents"]]
            path = f"/agents?limit={size}&cursor={page['next_cursor']}" if page["next_cursor"] else ""
        if cursor is not None:
            answer = registry.look_for("public", max_results=size, text="page", **cursor).json()
            found += [one["agent_id"] for one in answer["results"]]
            cursor = {"cursor": answer["next_cursor"]} if answer["next_cursor"] else None  # type: ignore[assignment]
        if first:
            between()
            first = False
    return listed, found


def test_n2_016_pages_under_change_show_everybody_once(registry: OpenDesk) -> None:
    given = case("N2-016")
    for number in range(given["agents"]):
        registered(registry, f"p-{number}", 60 + number)

    def change() -> None:
        registered(registry, "p-0", 60, version="9.9.9")
        registered(registry, "p-1", 61)
        registered(registry, "p-8", 68)
        registry.done("DELETE", "/agents/p-7")
        registered(registry, "a-new", 90)

    assert len(given["between_pages"]) == 4
    for shown in walk(registry, given["page"], change):
        assert len(shown) == len(set(shown))
        assert {f"p-{number}" for number in range(given["agents"]) if number != 7} <= set(shown)


def test_n2_019_head_is_answered_as_get_is(registry: OpenDesk) -> None:
    given = case("N2-019")
    list_id = registered(registry, "a", 60)["cards"][0]["status"]["uri"].rpartition("/")[2]
    for path in (one.format(list_id=list_id) for one in given["paths"]):
        got, head = registry.get(path), registry.client.request(given["method"], path)

        assert (got.status_code, head.status_code, head.content) == (200, 200, b""), path
        assert head.headers["content-length"] == got.headers["content-length"]


def test_n2_020_a_verifier_in_a_browser_reads_the_keys(registry: OpenDesk) -> None:
    given = case("N2-020")
    for path in given["paths"]:
        answer = registry.client.request(given["method"], path, headers=given["headers"])

        assert answer.headers["access-control-allow-origin"] == "*", path


# -- tokens and proofs ------------------------------------------------------------------------------------------------


def test_n2_030_a_dpop_proof_is_for_one_request() -> None:
    record = expected().seen
    good = made()
    proofs: dict[str, list[str]] = {
        "two header fields": [good, made({"jti": "k"})],
        "two joined by a comma": [f"{good},{made({'jti': 'k'})}"],
        "no ath": [made({"ath": REMOVED})],
        "ath of another token": [made({"ath": token_hash("another")})],
        "htm in lower case": [made({"htm": "post"})],
        "htu with query": [made({"htu": URL + "?a=b"})],
        "htu with default port and upper-case host": [made({"htu": "https://SERVER.EXAMPLE:443/protected"})],
        "htu with %7E for ~": [made({"htu": "https://server.example/%7Eme"})],
        "htu with %2F for /": [made({"htu": "https://server.example%2Fprotected"})],
        "other path, slash at the end": [made({"htu": URL + "/"})],
        "private jwk": [made(header={"jwk": {**CLIENT.public_key.to_jwk(), "d": "AA"}})],
        "typ JWT": [made(header={"typ": "JWT"})],
        "iat 1 h old": [made({"iat": NOW - 3600})],
        "no iat": [made({"iat": REMOVED})],
        "no jti": [made({"jti": REMOVED})],
        "jti a number": [made({"jti": 5})],
        "replay": [good],
        "same jti for another URL": [made({"htu": "https://server.example/other"})],
    }
    urls = {
        "htu with %7E for ~": "https://server.example/~me",
        "same jti for another URL": "https://server.example/other",
    }
    variants = case("N2-030")["variants"]
    assert set(variants) == set(proofs)
    outcome(proofs["replay"], record=record)  # the first time
    accepted = [
        number
        for number, name in enumerate(variants, 1)
        if outcome(
            proofs[name],
            url=urls.get(name, URL),
            record=record if name in ("replay", "same jti for another URL") else expected().seen,
        )
    ]

    assert accepted == [6, 7, 8, 18]


def outcome(proof: list[str], url: str = URL, record: Any = None) -> bool:
    from sdcard import verify_dpop_proof

    try:
        verify_dpop_proof(proof, expected(url=url, seen=record), NOW)
    except Refused:
        return False
    return True


def test_n2_038_a_point_is_read_in_all_encodings() -> None:
    raw = CLIENT._key.public_key().public_bytes(*_uncompressed())  # type: ignore[union-attr]
    coordinates = {"X": raw[1:33].hex(), "Y": raw[33:].hex()}
    for name, written in case("N2-038")["CKA_EC_POINT"].items():
        encoded = bytes.fromhex("".join(coordinates.get(one, one) for one in written.split()))

        assert _public_key(encoded) == CLIENT.public_key, name


def _uncompressed() -> Any:
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    return Encoding.X962, PublicFormat.UncompressedPoint


@pytest.mark.parametrize("variant", ["base_with_path", "endpoint"])
def test_n2_042_a_card_is_found_from_a_base_with_a_path_and_from_an_endpoint(world: World, variant: str) -> None:
    variants = case("N2-042")["variants"]
    assert set(variants) == {"base_with_path", "endpoint"}
    given = variants[variant]
    with serve({given["card_at"]: signed(world)}) as server:
        base = server.url().rstrip("/")
        found = fetch_card(
            given["given"].replace("https://host.example", base),
            world.issuer.trust,
            Unchecked("a test"),
            NOW,
            LOOPBACK,
            challenges=UNASKED,
        )
    assert found.url == base + given["card_at"]


# -- the command line -------------------------------------------------------------------------------------------------


def test_n2_045_files_behind_a_byte_order_mark_are_read(sdcard: Sdcard, world: World) -> None:
    given = case("N2-045")
    assert set(given["files"]) == {"trust.json", "agent.jwk"}
    assert sdcard("keys", "new", "agent.jwk").status == 0
    from sdcard.io.key_files import load_signer
    from sdcard.trust import encode_trusted_issuers

    agent = load_signer(Path("agent.jwk"))
    card = world.issuer.issue("public", holder_key=agent.public_key)
    Path("card.sd-card").write_text(str(card), encoding="ascii")
    Path("trust.json").write_bytes(json.dumps(encode_trusted_issuers(world.issuer.trust)).encode())
    for name, content in given["files"].items():
        assert content.startswith("EF BB BF")
        Path(name).write_bytes(b"\xef\xbb\xbf" + Path(name).read_bytes())

    asked = ("--trust", "trust.json", "--audience", "https://v.example", "--nonce", "n-1", "--now", str(NOW))
    shown = sdcard("present", "card.sd-card", "--key", "agent.jwk", *asked)
    Path("shown.txt").write_text(shown.out, encoding="ascii")
    verified = sdcard("verify", "shown.txt", *asked, "--status-unchecked", "a test")

    assert [one.split()[1] for one in given["commands"]] == ["verify", "present"]
    assert (shown.status, verified.status) == (0, 0), (shown, verified)


def test_n2_049_malformed_json_says_its_line_and_what_stands_there(sdcard: Sdcard) -> None:
    Path("card.json").write_text(case("N2-049")["text"], encoding="utf-8")
    Path("comments.json").write_text('// a card\n{"name": "N"}\n', encoding="utf-8")

    trailing = "Line 2, column 13: remove the comma before the closing bracket"
    assert trailing in printed(sdcard("card", "check", "card.json"))
    assert "JSON has no comments" in printed(sdcard("card", "check", "comments.json"))


def printed(ran: Any) -> str:
    return " ".join((ran.out + ran.err).split())


def test_n2_050_deprecated_flows_are_valid_and_warned_of() -> None:
    given = case("N2-050")
    for variant in given["variants"]:
        card = json.loads(json.dumps(given["card"]))
        flows = card["securitySchemes"]["o"]["oauth2SecurityScheme"]["flows"]
        flows[variant] = flows.pop("implicit")
        examined = examine_card(json.dumps(card).encode())

        assert examined.card is not None
        [finding] = [one for one in examined.findings if "deprecates" in one.hint]
        assert finding.level == "warning"
        assert str(finding.where).endswith(f"/flows/{variant}")


def test_n2_w2_documents_that_are_no_cards_are_refused() -> None:
    cards = case("N2-W2")["cards"]
    assert len(cards) == 8
    for name, given in cards.items():
        examined = examine_card(json.dumps(given["document"]).encode())

        assert examined.card is None, name
        assert any(one.level == "error" for one in examined.findings)
