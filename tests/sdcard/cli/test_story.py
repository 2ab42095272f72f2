"""An agent developer's and a Verifier's day at the command line, over a real registry."""

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from issuer_service.server import Desk
from sdcard import Limits, to_flattened, to_general
from sdcard.io.key_files import load_signer
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.sdjwt.model import AnySdJwt, parse_sd_jwt
from tests.command_line import Ran, Sdcard
from tests.sdcard.cards.kno.cards import CANARY, kno
from tests.shared import ROOT
from vectors.logs import POLICY, proof

ASK = ("--audience", "https://verifier.example", "--nonce", "n-0S6_WzA2Mj")
TRUST = ("--trust", "cards/trust.json")


@pytest.fixture
def shown(sdcard: Sdcard, registered: Ran) -> Path:
    """A skill of the internal card, as an answer to ``ASK``."""
    ran = sdcard("present", "cards/internal.sd-card", "--key", "agent.jwk", *TRUST, *ASK, "--path", "skills.0")
    assert ran.status == 0, ran
    file = Path("shown.txt")
    file.write_text(ran.out, encoding="ascii")
    return file


def test_registering_keeps_the_cards_where_only_their_owner_reads_them(registered: Ran) -> None:
    files = [one["file"] for one in registered.json["cards"]]
    assert files == ["cards/public.sd-card", "cards/internal.sd-card"]
    assert registered.json["linkable_by"] == ["cnf", "sub"]
    assert [stat.S_IMODE(Path(file).stat().st_mode) for file in files] == [0o600, 0o600]


def test_a_card_in_yaml_is_registered(sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", desk.token)
    document = {name: value for name, value in kno().items() if name != "description"}
    Path("agent.kno").write_text(yaml.safe_dump(document), encoding="utf-8")
    assert sdcard("keys", "new", "agent.jwk").status == 0

    ran = sdcard("register", "agent.kno", "--registry", desk.address, "--agent-id", "kno", "--key", "agent.jwk",
                 "--context", "full", "--out", "cards", "--json")  # fmt: skip
    assert (ran.status, ran.json["findings"]) == (0, [])
    shown = sdcard("inspect", "cards/full.sd-card", "--json").out
    assert '"card_format": "kno"' in shown
    assert CANARY not in shown


def test_what_was_chosen_is_what_a_verifier_sees(sdcard: Sdcard, shown: Path) -> None:
    ran = sdcard("verify", str(shown), *TRUST, "--status", *ASK, "--json")

    assert ran.status == 0
    assert sorted(ran.json["members"]) == ["description", "name", "skills", "version"]
    assert [skill["id"] for skill in ran.json["members"]["skills"]] == ["route-optimizer-traffic"]
    assert ran.json["card_format"] == "a2a/1.0"
    assert ran.json["complete"] is False
    assert "card/supportedInterfaces" in ran.json["missing"]


def test_a_person_reads_the_same(sdcard: Sdcard, shown: Path) -> None:
    ran = sdcard("verify", str(shown), *TRUST, "--status", *ASK)

    assert ran.status == 0
    assert "route-optimizer-traffic" in ran.out


def test_standard_input_is_read_too(sdcard: Sdcard, shown: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with shown.open() as stream:
        monkeypatch.setattr("sys.stdin", stream)
        ran = sdcard("verify", "-", *TRUST, "--status", *ASK, "--json")

    assert ran.json["verified"] is True


@pytest.mark.parametrize(
    ("instead", "rule", "where"),
    [
        (("--audience", "https://verifier.example", "--nonce", "another"), "kb.nonce-mismatch", "kb-jwt/nonce"),
        (("--audience", "https://other.example", "--nonce", "n-0S6_WzA2Mj"), "kb.audience-mismatch", "kb-jwt/aud"),
        ((*ASK, "--now", "2099-01-01T00:00:00Z"), "time.expired", "issuer-jwt/exp"),
        ((*ASK, "--interaction-id", "i-1"), "kb.interaction-id", "kb-jwt/interaction_id"),
        (("--unbound", "just looking"), "kb.unexpected", "kb-jwt"),
    ],
)
def test_a_refusal_names_rule_and_place_and_exits_with_1(
    sdcard: Sdcard, shown: Path, instead: tuple[str, ...], rule: str, where: str
) -> None:
    ran = sdcard("verify", str(shown), *TRUST, "--status", *instead, "--json")

    assert ran.status == 1
    assert (ran.json["rule"], ran.json["where"]) == (rule, where)


def test_a_refusal_for_a_person_goes_to_standard_error(sdcard: Sdcard, shown: Path) -> None:
    ran = sdcard(
        "verify", str(shown), *TRUST, "--status", "--audience", "https://verifier.example", "--nonce", "another"
    )

    assert (ran.status, ran.out) == (1, "")
    assert "kb.nonce-mismatch at kb-jwt/nonce" in ran.err


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--audience", "https://verifier.example"),
        ("--nonce", "n"),
        ("--unbound", "why", "--nonce", "n"),
        (*ASK, "--profile", "nobody's"),
        (*ASK, "--now", "yesterday"),
        (*ASK, "--now", "2026-01-01T00:00:00"),
    ],
)
def test_a_decision_left_out_is_misuse(sdcard: Sdcard, shown: Path, arguments: tuple[str, ...]) -> None:
    ran = sdcard("verify", str(shown), *TRUST, "--status", *arguments, "--json")

    assert ran.status == 2
    assert "misuse" in ran.json


def test_a_card_is_verified_without_key_binding_when_that_is_said(sdcard: Sdcard, registered: Ran) -> None:
    ran = sdcard(
        "verify", "cards/public.sd-card", *TRUST, "--status", "--unbound", "checking what I was given", "--json"
    )

    assert ran.status == 0
    assert ran.json["key_binding"] == {"unbound": "checking what I was given"}


def test_a_proof_of_the_transparency_log_is_presented_and_explained(sdcard: Sdcard, registered: Ran) -> None:
    issuer_jwt = Path("cards/internal.sd-card").read_text(encoding="ascii").partition("~")[0]
    made = str(proof(issuer_jwt, "w1.example", "w2.example", at=1_700_000_000))
    Path("internal.tlog-proof").write_text(made, encoding="utf-8", newline="\r\n")
    Path("policy.txt").write_text(POLICY, encoding="utf-8-sig")
    key, log = ("--key", "agent.jwk", *TRUST, *ASK), ("--log-policy", "policy.txt")
    plain = sdcard("present", "cards/internal.sd-card", *key)
    logged = sdcard("present", "cards/internal.sd-card", *key, "--log-proof", "internal.tlog-proof")
    Path("plain.txt").write_text(plain.out, encoding="ascii")
    Path("logged.txt").write_text(logged.out, encoding="ascii")

    ran = sdcard("verify", "logged.txt", *TRUST, "--status", *ASK, *log, "--json")
    assert ran.json["log"]["origin"] == "registry.example/log"
    assert ran.json["log"]["witnesses"] == {"one": 1_700_000_000, "two": 1_700_000_000}
    beside = sdcard("verify", "plain.txt", *TRUST, "--status", *ASK, *log, "--log-proof", "internal.tlog-proof")
    assert "leaf 5 of 9 in registry.example/log; cosigned by one" in " ".join(beside.out.split())
    assert "not asked for" in sdcard("verify", "plain.txt", *TRUST, "--status", *ASK).out
    explained = sdcard("verify", "plain.txt", *TRUST, "--status", *ASK, *log, "--explain", "--json")
    assert (explained.status, explained.json["rule"]) == (1, "log.proof-missing")
    steps = {one["step"]: one for one in explained.json["explanation"]["rules"] if one["outcome"] == "refused"}
    assert steps["proof of a log"]["where"] == "log/proof"
    shown = sdcard("verify", "logged.txt", *TRUST, "--status", *ASK, *log, "--explain")
    assert "SD-Card is in the log" in " ".join(shown.out.split())
    alone = sdcard("verify", "plain.txt", *TRUST, "--status", *ASK, "--log-proof", "internal.tlog-proof")
    assert (alone.status, "--log-policy" in alone.err) == (2, True)
    other = sdcard("present", "cards/public.sd-card", *key, "--log-proof", "internal.tlog-proof", "--json")
    assert (other.status, other.json["rule"]) == (1, "log.inclusion")
    Path("policy.txt").write_bytes(b"\xff")
    assert sdcard("verify", "plain.txt", *TRUST, "--status", *ASK, *log, "--json").json["rule"] == "encoding.utf8"


def test_inspect_shows_places_and_claims_nothing(sdcard: Sdcard, shown: Path) -> None:
    ran = sdcard("inspect", str(shown), "--json")

    assert ran.status == 0
    assert ran.json["verified"] is False
    assert ran.json["kind"] == "SD-JWT+KB"
    assert {"skills", "skills.0", "skills.0.tags"} <= {one["place"] for one in ran.json["disclosures"]}
    assert ran.json["key_binding"]["payload"]["aud"] == "https://verifier.example"


def test_inspect_reads_for_a_person(sdcard: Sdcard, registered: Ran) -> None:
    ran = sdcard("inspect", "cards/public.sd-card")

    assert ran.status == 0
    assert "not verified" in ran.out
    assert "skills.0" in ran.out


@pytest.mark.parametrize("encode", [to_flattened, to_general])
def test_a_json_form_is_read_wherever_the_compact_form_is(
    sdcard: Sdcard, shown: Path, encode: Callable[[AnySdJwt], str]
) -> None:
    document = encode(parse_sd_jwt(shown.read_text(encoding="ascii").strip(), Limits()))
    Path("shown.json").write_text(document.replace('"payload"', '"x": "\u00e9", "payload"') + "\n", encoding="utf-8")

    compact = sdcard("inspect", str(shown), "--json").json
    assert sdcard("inspect", "shown.json", "--json").json == compact
    verified = sdcard("verify", "shown.json", *TRUST, "--status", *ASK, "--json")
    assert (verified.status, verified.json["verified"]) == (0, True)


@pytest.mark.parametrize("text", ["", "no tilde", "~", "a.b.c~", "\udcff"])
def test_what_is_no_sd_jwt_is_refused(sdcard: Sdcard, text: str) -> None:
    Path("x").write_bytes(text.encode("utf-8", "surrogateescape"))

    assert sdcard("inspect", "x", "--json").status == 1


def test_a_path_that_the_card_does_not_hold_is_refused(sdcard: Sdcard, registered: Ran) -> None:
    ran = sdcard("present", "cards/public.sd-card", "--key", "agent.jwk", *TRUST, *ASK, "--path", "provider", "--json")

    assert (ran.status, ran.json["rule"]) == (1, "selection.not-held")


def test_a_context_narrows_a_presentation(sdcard: Sdcard, registered: Ran) -> None:
    ran = sdcard("present", "cards/internal.sd-card", "--key", "agent.jwk", *TRUST, *ASK, "--context", "public")
    Path("shown.txt").write_text(ran.out, encoding="ascii")

    members = sdcard("verify", "shown.txt", *TRUST, "--status", *ASK, "--json").json["members"]

    assert {name for skill in members["skills"] for name in skill} == {"id", "name"}


def test_a_presentation_without_a_nonce_gets_one(sdcard: Sdcard, registered: Ran) -> None:
    ran = sdcard(
        "present", "cards/public.sd-card", "--key", "agent.jwk", *TRUST, "--audience", "https://v.example", "--json"
    )

    assert len(ran.json["nonce"]) == 22


def test_another_key_cannot_present(sdcard: Sdcard, registered: Ran) -> None:
    sdcard("keys", "new", "other.jwk")

    ran = sdcard("present", "cards/public.sd-card", "--key", "other.jwk", *TRUST, *ASK, "--json")

    assert (ran.status, ran.json["rule"]) == (1, "cnf.other-key")


def test_keys_are_never_overwritten(sdcard: Sdcard) -> None:
    assert sdcard("keys", "new", "agent.jwk").status == 0
    before = Path("agent.jwk").read_bytes()

    assert sdcard("keys", "new", "agent.jwk", "--json").status == 2
    assert Path("agent.jwk").read_bytes() == before
    assert sdcard("keys", "new", "other.jwk", "--algorithm", "RS256", "--json").status == 2


@pytest.mark.parametrize("algorithm", SignatureAlgorithm)
def test_a_key_is_made_for_every_algorithm_and_published(sdcard: Sdcard, algorithm: SignatureAlgorithm) -> None:
    made = sdcard("keys", "new", "agent.jwk", "--algorithm", algorithm.value, "--json").json
    (published,) = sdcard("keys", "public", "agent.jwk").json["keys"]

    assert published == {**made["public_key"], "kid": made["thumbprint"], "alg": algorithm.value, "use": "sig"}
    assert load_signer(Path("agent.jwk")).public_key.algorithm is algorithm


def test_an_agent_with_a_post_quantum_key(sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", desk.token)
    sdcard("keys", "new", "pq.jwk", "--algorithm", "ML-DSA-65")
    card, registry = str(ROOT / "examples" / "georoute.json"), ("--registry", desk.address)
    asked = ("--agent-id", "post-quantum", "--key", "pq.jwk", "--context", "public", "--out", "pq")

    assert sdcard("register", card, *registry, *asked).status == 0
    trust = ("--trust", "pq/trust.json")
    ran = sdcard("present", "pq/public.sd-card", "--key", "pq.jwk", *trust, *ASK)
    Path("pq.txt").write_text(ran.out, encoding="ascii")

    assert sdcard("verify", "pq.txt", *trust, "--status", *ASK, "--json").json["subject"] == "agent:post-quantum"


def test_a_registry_refusal_arrives_with_its_places(
    sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", desk.token)
    sdcard("keys", "new", "agent.jwk")

    ran = sdcard(
        "register", str(ROOT / "examples" / "georoute.json"), "--registry", desk.address, "--agent-id", "refused",
        "--key", "agent.jwk", "--context", "publik", "--context", "public=skils", "--out", "cards", "--json",
    )  # fmt: skip

    assert ran.status == 1
    assert [(f["rule"], f["where"]) for f in ran.json["findings"]] == [
        ("context.unknown", "request/disclosure_contexts/0/context"),
        ("disclose.unknown", "request/disclosure_contexts/1/disclose/0"),
    ]
    assert [file.name for file in Path("cards").iterdir()] == ["trust.json"]


def test_a_wrong_token_is_refused(sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", "nobody")
    sdcard("keys", "new", "agent.jwk")
    arguments = (
        "register", str(ROOT / "examples" / "georoute.json"), "--agent-id", "a", "--key", "agent.jwk",
        "--context", "public", "--out", "cards", "--json",
    )  # fmt: skip

    assert sdcard(*arguments, "--registry", desk.address).json["rule"] == "token.invalid"
    assert sdcard(*arguments, "--registry", "http://127.0.0.1:0").status == 2
    monkeypatch.delenv("SDCARD_TOKEN")
    assert sdcard(*arguments, "--registry", desk.address).status == 2


def test_a_token_is_made_for_a_new_database(sdcard: Sdcard) -> None:
    database = ("--database-url", "sqlite+aiosqlite:///new.sqlite")

    ran = sdcard("token", "create", "--subject", "team-a", "--agent-id-prefix", "team-a.", *database, "--json")

    assert ran.status == 0
    assert ran.json["token"].startswith("sdcard_")
    assert Path("new.sqlite").exists()
    assert sdcard("token", "create", "--subject", "x", "--scope", "everything", *database, "--json").status == 2


def test_hostile_text_reaches_no_terminal(sdcard: Sdcard, registered: Ran, desk: Desk) -> None:
    card = json.loads((ROOT / "examples" / "georoute.json").read_bytes())
    card["description"] = "\x1b[31mred\x1b[0m [bold]markup[/bold] \u202eedoc"
    Path("hostile.json").write_text(json.dumps(card), encoding="utf-8")
    sdcard("keys", "new", "hostile.jwk")
    sdcard(
        "register", "hostile.json", "--registry", desk.address, "--agent-id", "hostile", "--key", "hostile.jwk",
        "--context", "public", "--out", "cards",
    )  # fmt: skip

    for command in (("inspect",), ("verify", *TRUST, "--status", "--unbound", "looking")):
        ran = sdcard(command[0], "cards/public.sd-card", *command[1:])
        assert ran.status == 0
        assert "\x1b[31m" not in ran.out
        assert "\u202e" not in ran.out
        assert "[bold]markup[/bold]" in ran.out


def test_nothing_is_asked_for_when_the_answer_could_not_be_kept(
    sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", desk.token)
    sdcard("keys", "new", "agent.jwk")
    card = ("register", str(ROOT / "examples" / "georoute.json"), "--registry", desk.address, "--key", "agent.jwk")
    Path("blocked", "public.sd-card").mkdir(parents=True)
    Path("file").touch()

    for out in ("blocked", "file/below", "/proc/nowhere"):
        ran = sdcard(*card, "--agent-id", "kept", "--context", "public", "--out", out, "--json")
        assert ran.status == 2, out
    ran = sdcard(*card, "--agent-id", "kept", "--context", "../escaped", "--out", "cards", "--json")
    assert ran.status == 2

    assert sdcard(*card, "--agent-id", "kept", "--context", "public", "--out", "cards", "--json").status == 0


def test_registering_again_keeps_files_private(sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", desk.token)
    sdcard("keys", "new", "agent.jwk")
    Path("cards").mkdir()
    Path("cards/public.sd-card").touch(mode=0o666)

    ran = sdcard(
        "register", str(ROOT / "examples" / "georoute.json"), "--registry", desk.address, "--agent-id", "again",
        "--key", "agent.jwk", "--context", "public", "--out", "cards", "--json",
    )  # fmt: skip

    assert ran.status == 0
    assert stat.S_IMODE(Path("cards/public.sd-card").stat().st_mode) == 0o600
    assert sorted(file.name for file in Path("cards").iterdir()) == ["public.sd-card", "trust.json"]
