"""Mistakes of people at the command line. Each answer says what, where and how."""

import json
import re
import shlex
import shutil
import socket
import stat
import sys
from io import BytesIO, TextIOWrapper
from pathlib import Path

import pytest

from issuer_service.server import Desk
from tests.command_line import Ran, Sdcard
from tests.shared import ROOT

CHALLENGE = "--audience https://verifier.example --nonce n-0S6_WzA2Mj"
VERIFY = f"{CHALLENGE} --trust trust.json --status-unchecked offline"
REGISTER = "register georoute.json --agent-id g --key a.jwk --context public --out out --timeout 0"

Row = tuple[int, str]
"""Exit status, and words of what is wrong | where | how to mend it."""

ALONE: dict[str, Row] = {
    # documents that are broken, empty, or of another kind
    "card check cut.json": (
        1,
        "a comma or a closing bracket is expected | Line 2, column 2 | any JSON editor shows it",
    ),
    "card check empty": (1, "It is empty. | empty | An agent card is expected here."),
    "inspect empty": (1, "It is empty. | presentation | `sdcard register` and `sdcard present` write them"),
    "inspect -": (1, "It is empty. | standard input | An SD-Card or a presentation is expected here."),
    "policy check empty": (1, "It is empty. | empty | A disclosure policy is expected here."),
    f"verify shown --trust empty {CHALLENGE} --status": (1, "It is empty. | trust | trust.json"),
    "card check broken.yaml": (1, "breaks in line 3 | broken.yaml | Correct the document at this place"),
    "card check skils.json": (0, "card.member-unknown | card/skils | Did you mean skills?"),
    "card check nowhere.json": (2, "No such file | nowhere.json | `ls .` lists the files"),
    "card check georout.json": (2, "No such file | georout.json | did you mean georoute.json?"),
    "card check folder": (2, "there is no card document | folder | files of a folder end in .json, .kno, .yaml, .yml"),
    "card check --format a2a/0.4 georoute.json": (2, "a card format is one of | a2a | a2a/1.0"),
    "card convert georoute.json --to a2a/0.4": (2, "cards can be converted to | a2a/0.3 | a2a/1.0"),
    "inspect georoute.json": (1, "This is an agent card. | georoute.json | An SD-Card or a presentation is expected"),
    "inspect trust.json": (1, "This is a trust document. | trust.json | An SD-Card or a presentation is expected"),
    "inspect folder": (2, "is a folder | folder | give the name of a file in it"),
    "inspect nowhere/x": (2, "there is no folder | nowhere | mkdir -p nowhere"),
    "card check bom.json": (0, "without a byte order mark | bom.json | Save the file"),
    "card check card.yaml": (1, "card.member-missing | card/description | Add `description`"),
    "card check anchor.yaml": (1, "yaml.feature | card/x | Write the value out instead"),
    "card check big.json": (1, "limit.bytes | big.json | at most 262144 bytes"),
    "policy check georoute.json": (1, "This is an agent card. | georoute.json | A disclosure policy is expected here."),
    "policy check misspelt.toml": (1, "disclose.unknown | x/claims/descripton | known name is description"),
    "policy check broken.toml": (1, "policy.toml | Line 1, column 5 | `sdcard policy schema` prints its schema"),
    "policy explain georoute.json --policy nowhere.toml": (2, "No such file | nowhere.toml | `ls .` lists the files"),
    "policy explain georoute.json --context publik": (1, "context.unknown | policy | Known contexts: public"),
    "policy explain georoute.json --context federation": (0, "federation | without --partner | the same as public"),
    "policy explain - --policy -": (2, "standard input can be read once | standard input | give files"),
    "vectors check nowhere": (2, "is no folder | nowhere | give folders with vectors"),
    "linkability shown shown --received yesterday": (2, "takes Unix seconds | --received | such as 2026-01-31"),
    # a private key, and text in the place of a file
    "card check a.jwk": (1, "This is a private key | a.jwk | keep it secret"),
    "inspect a.jwk": (1, "This is a private key | a.jwk | replace the key if others may have read it"),
    "policy check a.jwk": (1, "This is a private key | a.jwk | keep it secret"),
    f"verify a.jwk {VERIFY}": (1, "This is a private key | a.jwk | keep it secret"),
    f"verify shown --trust a.jwk {CHALLENGE} --status": (1, "This is a private key | trust | keep it secret"),
    f"present a.jwk --key a.jwk --trust trust.json {CHALLENGE}": (1, "This is a private key | a.jwk | keep it secret"),
    REGISTER.replace("georoute.json", "a.jwk") + " --registry http://127.0.0.1:1": (
        1,
        "This is a private key | a.jwk | keep it secret",
    ),
    "agents list --registry http://127.0.0.1:1 --token-file a.jwk": (
        1,
        "This is a private key | a.jwk | keep it secret",
    ),
    # a file of another kind where a key, a token, a checkpoint or a list belongs: its content is told before its mode
    **{
        command: (1, f"This is {text} | {file} | {expected}")
        for file, text in (
            ("georoute.json", "an agent card."),
            ("trust.json", "a trust document."),
            ("policy.json", "a disclosure policy."),
            ("shown", "an SD-Card or a presentation."),
        )
        for command, expected in (
            (f"keys public {file}", "A private key is expected here"),
            (f"keys import cards {file}", "A JWKS with public keys is expected here"),
            (f"present shown --key {file} --trust trust.json {CHALLENGE}", "A private key is expected here"),
            (f"agents renew g --registry http://127.0.0.1:1 --key {file} --out x", "A private key is expected here"),
            (f"trust show signed --trust-signer {file}", "A JWKS with public keys is expected here"),
            (f"audit verify --file {file}", "An export of the audit chain is expected here"),
            (f"audit verify --checkpoint {file} --key jwks", "A file with audit checkpoints is expected here"),
            (f"audit verify --checkpoint shown --key {file}", "A JWKS with public keys is expected here"),
            (f"registry import {file} --subject me", "JSON lines of agents are expected here"),
        )
    },
    "audit verify --checkpoint jwks --key jwks": (
        1,
        "a document with public keys | jwks | audit checkpoints is expected",
    ),
    **{
        f"agents list --registry http://127.0.0.1:1 --token-file {file}": (
            1,
            f"{text} | {file} | A bearer token is expected",
        )
        for file, text in (("georoute.json", "This is an agent card."), ("trust.json", "This is a trust document."))
    },
    "inspect token": (1, "This is a bearer token. | token | It is not shown; keep it secret"),
    "keys public token": (1, "This is a bearer token. | token | A private key is expected here"),
    "register georoute.json --key georoute.json --agent-id g --context public --out x --registry http://127.0.0.1:1": (
        1,
        "This is an agent card. | georoute.json | A private key is expected here",
    ),
    "agents list --registry http://127.0.0.1:1 --token-file bearer": (2, "begins with `Bearer ` | token | token alone"),
    "agents list --registry http://127.0.0.1:1 --token-file quoted": (2, "has quotes around it | token | token alone"),
    "agents list --registry http://127.0.0.1:1 --token-file twice": (2, "has white space in it | token | on one line"),
    "agents list --registry http://127.0.0.1:1 --token-file token": (
        2,
        "Others can read the token | token | chmod 600",
    ),
    # addresses without a scheme, or with another one
    "agents list --registry registry.example": (
        2,
        "It has no scheme | registry.example | write https://registry.example",
    ),
    "agents list --registry 127.0.0.1:8080": (2, "It has no scheme | 127.0.0.1:8080 | write http://127.0.0.1:8080"),
    "agents list --registry localhost:8080": (2, "It has no scheme | localhost:8080 | write http://localhost:8080"),
    "fetch agent.example --trust trust.json --status": (1, "It has no scheme | fetched | write https://agent.example"),
    "serve --host 0.0.0.0": (2, "the issuer is an https URL | public address | --issuer https://registry.example"),
    # a database or a folder that is something else
    "token list": (2, "there is no registry at | sdcard.sqlite | --database-url or SDCARD_DATABASE_URL"),
    "token list --database-url sqlite:///georoute.json": (2, "is no SQLite database | georoute.json | --database-url"),
    "db status --database-url sqlite:///georoute.json": (2, "is no SQLite database | georoute.json | --database-url"),
    "db upgrade --database-url sqlite:///georoute.json": (2, "is no SQLite database | georoute.json | --database-url"),
    REGISTER.replace("--out out", "--out empty") + " --registry http://127.0.0.1:1": (
        2,
        "is a file | empty | --out names",
    ),
    "audit list --event card.revoked": (2, "is no event | card.revoked | cards.revoked"),
    "inspect KEY": (2, "a text was given | a file | save it in a file"),
    "card check KEY": (2, "a text was given | a file | save it in a file"),
    # keys and files
    "keys new -": (2, "`-` is no file | FILE | give the name of a file"),
    "keys new nodir/x.jwk": (2, "there is no folder nodir | nodir/x.jwk | mkdir -p nodir"),
    "keys new a.jwk": (2, "never overwritten | a.jwk | choose another name"),
    "keys public cut.jwk": (1, "json.malformed | key | Correct the document at this place"),
    "keys public open.jwk": (2, "is open to others | open.jwk | chmod 600"),
    "keys add crds": (2, "a key signs one of | cards | status, tokens, audit"),
    "keys new b.jwk --algorithm RS256": (2, "--algorithm is one of | ES256 | EdDSA"),
    f"present shown --key nokey.jwk --trust trust.json {CHALLENGE}": (
        2,
        "No such file | nokey.jwk | `ls .` lists the files",
    ),
    f"present shown --key - --trust trust.json {CHALLENGE}": (2, "`-` is no file | --key | give the name of a file"),
    "trust show -": (2, "`-` is no file | FILE | give the name of a file"),
    "trust show trust.json --trust-signer a.jwk": (
        2,
        "is not signed | trust.json | accepts only signed lists | `sdcard trust sign` makes one",
    ),
    # decisions that are left out, and options without a value
    f"verify shown --trust trust.json {CHALLENGE}": (2, "decide about the status | --status | --status-unchecked"),
    "verify shown --trust trust.json --status": (2, "give --audience and --nonce | --nonce | --unbound REASON"),
    "verify shown --trust trust.json --unbound --status": (2, "--unbound got --status | value | give the reason"),
    "verify shown --trust trust.json --unbound --status-unchecked=x": (2, "--unbound got | value | the reason"),
    f"verify shown --trust trust.json {CHALLENGE} --status-unchecked --explain": (2, "got --explain | value | reason"),
    f"register georoute.json --registry {REGISTER[23:]}": (2, "--registry got --agent-id | value | variable empty"),
    "present": (2, "Missing argument | FILE | sdcard present --help"),
    "token create": (2, "Missing option | --subject | sdcard token create --help"),
    f"verify shown --trust trust.json {CHALLENGE} --status-unchecked=": (2, "why the status | Error: | say why"),
    "agents renew g --registry http://127.0.0.1:1 --key a.jwk --out x --supersedes revok": (
        2,
        "--supersedes is | revoke | run_out",
    ),
    "verify shown --nonsens": (2, "No such option | --nonsens | sdcard verify --help"),
    "verify shown --tust trust.json": (2, "No such option | --tust | --trust"),
    "agnts list": (2, "No such command | agnts | Did you mean 'agents'"),
    "agents lst": (2, "No such command | lst | list"),
    # the registry's address and token
    f"{REGISTER} --registry https://registry.invalid": (2, "there is no host | registry.invalid | compare the address"),
    f"{REGISTER} --registry http://registry.invalid": (2, "a registry needs https | registry | https"),
    f"{REGISTER} --registry http://127.0.0.1:1": (2, "nothing listens | 127.0.0.1, port 1 | `sdcard serve` starts one"),
    f"{REGISTER} --registry 127.0.0.1:8080": (2, "needs a URL | registry | write http://127.0.0.1:8080"),
    "wait --registry http://127.0.0.1:1 --timeout 0": (2, "nothing listens | 127.0.0.1, port 1 | `sdcard serve`"),
    "agents list --registry http://127.0.0.1:1 --token-file nowhere": (
        2,
        "No such file | nowhere | `ls .` lists the files",
    ),
    "fetch http://127.0.0.1:1 --trust trust.json --status": (1, "fetch.address | fetched | --network NETWORK"),
    # settings and the registry's database
    "serve --port 99999": (2, "less than or equal to 65535 | SDCARD_PORT | Error:"),
    "serve --config broken.toml": (2, "is not TOML | broken.toml | Line 1, column 5"),
    "serve --database-url sqlite:////nope/x": (2, "there is no folder /nope | for the database | mkdir -p /nope"),
    "token list --database-url sqlite:///nowhere/x.sqlite": (2, "no registry | nowhere | SDCARD_DATABASE_URL"),
    "token create --subject x --database-url sqlite:///nowhere/x": (2, "no folder | nowhere | SDCARD_DATABASE_URL"),
    "token create --subject me --days 0": (2, "Invalid value | --days | greater than or equal to 1"),
    "keys rotate crds": (2, "a key signs one of | cards | status, tokens, audit"),
    "config show --config misspelt.conf": (2, "unknown settings | prt | meant: port?"),
    "token create --subject me --scope agents:registr": (2, "no scope | agents:registr. | mean agents:register?"),
    "approvals approve nothing --by me": (2, "there is no registry at | sdcard.sqlite | --database-url"),
    "db backup -": (2, "`-` is no file | FILE | give the name of a file"),
    # what destroys asks, or is refused
    "revoke g --registry http://127.0.0.1:1": (2, "revokes the SD-Cards | of g | Add --yes to do it"),
    "agents delete g --registry http://127.0.0.1:1": (2, "revokes all SD-Cards | of g | Add --yes to do it"),
    "agents change-keys g --registry http://127.0.0.1:1 --key a.jwk --out x": (2, "revokes | of g | --yes"),
    f"{REGISTER} --registry http://127.0.0.1:1 --supersedes revoke": (2, "revokes all earlier | of g | Add --yes"),
    "token withdraw 2744ccd10c7533bd": (2, "withdraws the token | 2744ccd10c7533bd | Add --yes"),
    "grants remove c2b1": (2, "removes the grant | c2b1 | Add --yes to do it"),
}
"""Commands in a folder without a registry."""

AT_A_REGISTRY: dict[str, Row] = {
    f"verify wrapped.txt {VERIFY}": (0, "Verified | agent: | checked"),
    f"verify crlf.txt {VERIFY}": (0, "Verified | agent: | checked"),
    f"verify shown.txt {VERIFY.replace('verifier.example', 'verifier.example/')}": (
        1,
        "kb.audience-mismatch | Presented: https://verifier.example. Expected: https://verifier.example/."
        " | character by character",
    ),
    f"verify shown.txt {VERIFY.replace('n-0S6', 'n-1S6')}": (
        1,
        "kb.nonce-mismatch | Presented: n-0S6_WzA2Mj. Expected: n-1S6_WzA2Mj. | present again for a new one",
    ),
    f"verify shown.txt {VERIFY} --now LATER": (1, "39600 s (11 h) ago | at most 300 s ago | Ask for a new challenge"),
    f"verify shown.txt {VERIFY} --interaction-id i-1": (
        1,
        "Presented: nothing. Expected: i-1. | i-1 | --interaction-id",
    ),
    "verify shown.txt --trust trust.json --unbound looking --status-unchecked offline": (
        1,
        "kb.unexpected | kb-jwt | give --audience and --nonce instead of --unbound",
    ),
    f"verify cards/public.sd-card {VERIFY}": (1, "kb.missing | presentation | `sdcard present` makes a presentation"),
    f"verify shown.txt {VERIFY.replace('trust.json', 'other.json')}": (1, "issuer.unknown | iss | trust.json"),
    f"verify cut.txt {VERIFY}": (1, "Refused | kb | again"),
    "present cards/public.sd-card --key agent.jwk --trust trust.json --audience x --path skils.0": (
        1,
        "selection.not-held | request/paths/0 | Did you mean skills?",
    ),
    "present cards/public.sd-card --key agent.jwk --trust trust.json --audience x --path skills.9": (
        1,
        "selection.not-held | of skills are counted from 0 to 2 | `sdcard inspect` lists the places",
    ),
    "present cards/public.sd-card --key other.jwk --trust trust.json --audience x": (
        1,
        "cnf.other-key | issuer-jwt/cnf/jwk | bind the agent to this one: `sdcard agents change-keys`",
    ),
    "register georoute.json --registry REGISTRY/api --agent-id m --key m.jwk --context public --out m": (
        1,
        "request.not-found | request | --registry is the root of the registry",
    ),
    "register georoute.json --registry REGISTRY --agent-id m --key m.jwk --context federation --out m": (
        0,
        "agreement.none-in-force | disclosure_contexts/0/context | as public does. Name the partner",
    ),
    "register georoute.json --registry REGISTRY --agent-id m --key m.jwk --context publik --out m": (
        1,
        "context.unknown | disclosure_contexts/0/context | Did you mean public? Known contexts: public",
    ),
    "register georoute.json --registry REGISTRY --agent-id m --key m.jwk --context public=skils --out m": (
        1,
        "disclose.unknown | disclosure_contexts/0/disclose/0 | nearest known name is skills",
    ),
    "register georoute.json --registry REGISTRY --agent-id m --key m.jwk --context public --out m --supersedes revok": (
        2,
        "--supersedes is | revoke | run_out",
    ),
    "revoke nobody --registry REGISTRY --yes": (1, "agent.unknown | request/agent_id | `sdcard agents list`"),
    "agents renew nobody --registry REGISTRY --key other.jwk --out m": (1, "agent.unknown | agent_id | agents list"),
    f"verify trailing.txt {VERIFY}": (0, "Verified | agent: | checked"),
    f"verify shown.txt {VERIFY.replace('n-0S6', 'n-1S6')} --json": (
        1,
        '"refused": true | "where": "kb-jwt/nonce" | "advice": "Give the nonce',
    ),
    "register georoute.json --registry LOCALHOST --agent-id m --key m.jwk --context public --out m": (
        2,
        "the registry is not http://localhost | its Issuer | --issuer",
    ),
    "agents list --registry REGISTRY --token-file badtoken": (1, "token.invalid | request | `sdcard token create`"),
    "agents show nobody --registry REGISTRY": (1, "agent.unknown | agent | `sdcard agents list` shows the agents"),
    "agents show agent:nobody --registry REGISTRY": (
        1,
        "agent.unknown | agent | `sdcard agents list` shows the agents",
    ),
    "agents list --registry TLS": (2, "TLS failed | cannot be reached | write http:// in its address"),
    "present cards/internal.sd-card --key agent.jwk --trust trust.json --audience x --path provider.9": (
        1,
        "selection.not-held | request/paths/0 | places",
    ),
}
"""Commands beside a registry with an agent; LATER is 11 hours after the presentation."""


def test_the_table_has_every_mistake() -> None:
    assert len(ALONE) + len(AT_A_REGISTRY) >= 64


def said(ran: Ran) -> str:
    return " ".join((ran.out + ran.err).split())


@pytest.mark.parametrize("mistake", ALONE)
def test_a_mistake_is_answered_with_what_where_and_how(
    mistake: str, sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_TOKEN", "a-token-of-no-registry")
    monkeypatch.setattr("sdcard.io.registry_client.Registry.__init__.__defaults__", (None, 0.0, None))
    monkeypatch.setattr(sys, "stdin", TextIOWrapper(BytesIO(b"")))
    assert sdcard("keys", "new", "a.jwk").status == 0
    key = Path("a.jwk").read_text(encoding="ascii")
    make_files(key)
    status, words = ALONE[mistake]

    ran = sdcard(*(key if word == "KEY" else word for word in shlex.split(mistake)))

    assert [word for word in words.split(" | ") if word not in said(ran)] == [], said(ran)
    assert (ran.status, "Traceback" in said(ran), json.loads(key)["d"] in said(ran)) == (status, False, False)


def make_files(key: str) -> None:
    shutil.copy(ROOT / "examples" / "georoute.json", "georoute.json")
    card = json.loads(Path("georoute.json").read_bytes())
    files = {
        "empty": "",
        "cut.json": '{"name":"x"\n "version":"1"}',
        "skils.json": json.dumps({**card, "skils": []}),
        "broken.yaml": "name: x\na: [b\n",
        "card.yaml": "name: x\nversion: '1'\n",
        "anchor.yaml": "x: &a y\nname: *a\n",
        "bom.json": "\ufeff" + json.dumps(card),
        "big.json": json.dumps(card) + " " * 3_000_000,
        "misspelt.toml": '[contexts.x.claims]\ndescripton = "plain"\n',
        "broken.toml": "x = \n",
        "misspelt.conf": "prt = 9\n",
        "cut.jwk": key[:50],
        "open.jwk": key,
        "shown": "eyJhIjoxfQ.e30.c2ln~",
        "policy.json": '{"contexts": {}}',
        "jwks": '{"keys": []}',
        "signed": "eyJhIjoxfQ.e30.c2ln",
        "token": f"sdcard_{'t' * 43}",
        "bearer": f"Bearer sdcard_{'t' * 43}",
        "quoted": f'"sdcard_{"t" * 43}"',
        "twice": f"sdcard_{'t' * 43} sdcard_{'t' * 43}",
        "trust.json": '{"issuers": {"https://registry.example": {"keys": []}}}',
    }
    for name, text in files.items():
        Path(name).write_text(text, encoding="utf-8")
        Path(name).chmod(0o600 if name in ("cut.jwk", "shown", "bearer") else 0o644)
    Path("folder").mkdir()


def test_a_mistake_beside_a_registry_is_answered_with_what_where_and_how(
    sdcard: Sdcard, desk: Desk, registered: Ran, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(ROOT / "examples" / "georoute.json", "georoute.json")
    shutil.copy("cards/trust.json", "trust.json")
    ((issuer, jwks),) = json.loads(Path("trust.json").read_bytes())["issuers"].items()
    Path("other.json").write_text(json.dumps({"issuers": {"https://other.example": jwks}}))
    Path("badtoken").write_text("nobody")
    for name in ("other.jwk", "m.jwk"):
        sdcard("keys", "new", name)
    presented = ("present", "cards/public.sd-card", "--key", "agent.jwk", "--trust", "trust.json")
    text = sdcard(*presented, *CHALLENGE.split()).out
    lines = [text[at : at + 76] for at in range(0, len(text), 76)]
    for name, shown in (
        ("shown", text),
        ("wrapped", "\n".join(lines)),
        ("crlf", "\r\n".join(lines)),
        ("trailing", f"{text}\n\n"),
        ("cut", text[:-9]),
    ):
        Path(f"{name}.txt").write_text(shown, encoding="ascii", newline="")
    bound = sdcard("verify", "shown.txt", *VERIFY.split(), "--json").json["key_binding"]["issued_at"]
    places = {
        "LOCALHOST": desk.address.replace("127.0.0.1", "localhost"),
        "LATER": str(int(bound) + 11 * 3600),
        "REGISTRY": issuer,
        "TLS": issuer.replace("http:", "https:"),
    }
    wrong = {}
    for mistake, (status, words) in AT_A_REGISTRY.items():
        for name, place in places.items():
            mistake = mistake.replace(name, place)
        ran = sdcard(*shlex.split(mistake))
        missing = [word for word in words.split(" | ") if word not in said(ran)]
        if missing or ran.status != status or "Traceback" in ran.err:
            wrong[mistake] = (missing, ran.status, said(ran))
    assert not wrong, "\n".join(f"{mistake}: {what}" for mistake, what in wrong.items())


def test_a_command_without_a_token_says_who_makes_one(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SDCARD_TOKEN", raising=False)
    ran = sdcard("agents", "list", "--registry", "http://127.0.0.1:1")

    assert (ran.status, ran.out) == (2, "")
    for words in ("an access token is needed", "SDCARD_TOKEN, or give --token-file", "`sdcard token create` makes one"):
        assert words in said(ran)


def test_a_file_of_another_kind_is_not_called_a_token(sdcard: Sdcard) -> None:
    for name, is_one in (("georoute.json", False), ("token", True)):
        Path(name).write_text((ROOT / "examples" / name).read_text() if not is_one else f"sdcard_{'t' * 43}")
        Path(name).chmod(0o644)
        ran = sdcard("agents", "list", "--registry", "https://registry.invalid", "--token-file", name)
        assert ("Others can read the token" in said(ran)) is is_one, said(ran)


def test_a_registry_without_its_key_encryption_key_says_what_to_restore(sdcard: Sdcard) -> None:
    assert sdcard("keys", "add", "cards").status == 0
    Path("key-encryption.key").unlink()
    for command in (("keys", "add", "cards"), ("keys", "rotate", "cards"), ("serve",)):
        ran = sdcard(*command)
        assert (ran.status, ran.out) == (2, "")
        assert "the key-encryption key is missing" in said(ran)
        assert "Restore key-encryption.key from its backup, or set SDCARD_KEY_ENCRYPTION_KEY" in said(ran)


def test_a_rotation_that_comes_too_soon_says_how_long_to_wait(sdcard: Sdcard) -> None:
    for _ in range(2):
        assert sdcard("keys", "add", "cards").status == 0
    ran = sdcard("keys", "rotate", "cards")

    assert ran.status == 2
    assert re.search(r"published for 600 s before it signs.* wait for another \d+ s, or say --at-once", said(ran))


def test_a_setting_that_there_is_not_is_named_beside_the_one_that_was_meant(
    sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SDCARD_PRT", "9")
    ran = sdcard("config", "show")

    assert (ran.status, "SDCARD_PRT is no setting (meant: SDCARD_PORT?)" in said(ran)) == (0, True)


def test_an_answer_in_a_pipe_has_no_colour(sdcard: Sdcard) -> None:
    sdcard("keys", "new", "a.jwk")
    make_files(Path("a.jwk").read_text(encoding="ascii"))
    for command in (("card", "check", "skils.json"), ("policy", "explain", "georoute.json"), ("inspect", "nowhere")):
        assert "\x1b" not in said(sdcard(*command))


def test_a_port_that_is_taken_is_named(sdcard: Sdcard) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = sdcard("serve", "--port", str(port))

    assert (ran.status, f"127.0.0.1, port {port}: it is taken; choose another" in said(ran)) == (2, True)


def test_no_message_is_wrapped_in_a_pipe(sdcard: Sdcard, monkeypatch: pytest.MonkeyPatch) -> None:
    for columns in ("40", None):
        monkeypatch.setenv("COLUMNS", columns) if columns else monkeypatch.delenv("COLUMNS")
        ran = sdcard("keys", "public", "a-folder-with-a-long-name/" * 4 + "agent.jwk")
        assert ran.err.count("\n") == 1


def test_a_mode_of_a_new_key_lets_nobody_else_in(sdcard: Sdcard) -> None:
    assert sdcard("keys", "new", "a.jwk").status == 0
    assert stat.S_IMODE(Path("a.jwk").stat().st_mode) == 0o600
