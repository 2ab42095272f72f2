"""A card that attacks terminals, shown by every command that prints of a card or database, at two widths.

What must hold: no control, format or bidirectional character and no markup takes effect; no line is wider than the
terminal; and what is cut says so.
"""

import itertools
import json
import re
import shutil
import socket
import sqlite3
import unicodedata
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.cells import cell_len

from issuer_service.server import Desk
from sdcard.io.system import printable
from sdcard.publishing import SD_MEDIA_TYPE
from tests.command_line import Sdcard
from tests.sdcard.io.fetchers import ok, serving
from tests.shared import ROOT

TRICK = "\x1b[31m\x1b]8;;https://evil.example\x07\x9b2J[bold]b[/bold][link=https://evil.example]l[/link]\r\u202e\u2066\u200b\x00"
WIDE = "漢字🦊" * 12
END = "the-very-end"
LONG = f"{TRICK} {'long ' * 20}{'x' * 90}{WIDE} {END}"


def attack_card() -> dict[str, Any]:
    """The example, with the trick wherever an author can write what he likes."""
    card: dict[str, Any] = json.loads((ROOT / "examples" / "georoute.json").read_text(encoding="utf-8"))
    card["name"] = f"Evil {TRICK} {END}"
    card["description"] = LONG
    card["provider"]["organization"] = LONG
    card[f"x-{TRICK}"] = LONG
    for skill in card["skills"]:
        skill["name"], skill["description"], skill["tags"] = LONG, LONG, [LONG]
    card["skills"][0][f"x-{TRICK}{'y' * 60}"] = LONG
    return card


COMMANDS = {
    "card check": ("card", "check", "attack.json"),
    "card convert": ("card", "convert", "attack.json", "--to", "a2a/0.3"),
    "policy explain": ("policy", "explain", "attack.json"),
    "policy explain of one": ("policy", "explain", "attack.json", "--context", "public"),
    "register": ("register", "attack.json", "--registry", "{registry}", "--agent-id", "{agent}", "--key", "a.jwk",
                 "--context", "public", "--context", "full", "--out", "more"),
    "inspect": ("inspect", "cards/full.sd-card"),
    "inspect a presentation": ("inspect", "shown"),
    "verify": ("verify", "shown", "--trust", "cards/trust.json", "--status",
               "--audience", "https://v.example", "--nonce", "n-0S6_WzA2Mj"),
    "linkability": ("linkability", "cards/public.sd-card", "cards/full.sd-card"),
    "linkability of three": ("linkability", "cards/public.sd-card", "cards/full.sd-card", "shown"),
    "discover": ("discover", "--registry", "{registry}", "--text", "evil"),
    "agents list": ("agents", "list", "--registry", "{registry}"),
    "agents show": ("agents", "show", "{agent}", "--registry", "{registry}"),
    "agents domains": ("agents", "domains", "{agent}", "--registry", "{registry}"),
    "fetch": ("fetch", "{host}", "--trust", "cards/trust.json", "--network", "127.0.0.1", "--status-unchecked", LONG),
    "fetch of an SD-Card": ("fetch", "{host}sd", "--trust", "cards/trust.json", "--network", "127.0.0.1", "--status"),
    "token list": ("token", "list"),
    "token withdraw": ("token", "withdraw", "{token}", "--yes"),
    "grants list": ("grants", "list"),
    "grants remove": ("grants", "remove", "a grant", "--yes"),
    "approvals list": ("approvals", "list"),
    "approvals approve": ("approvals", "approve", "an approval", "--by", "paula"),
    "approvals deny": ("approvals", "deny", "another", "--by", TRICK.replace("\0", "")),
    "reviews list": ("reviews", "list"),
    "reviews show": ("reviews", "show", "a review"),
    "reviews approve": ("reviews", "approve", "a review", "--by", "paula"),
    "reviews reject": ("reviews", "reject", "another", "--by", TRICK.replace("\0", ""), "--reason", "No contract."),
    "audit verify": ("audit", "verify"),
    "audit verify of a file": ("audit", "verify", "--file", "records"),
    "audit export": ("audit", "export"),
    "audit export of one": ("audit", "export", "--agent-id", LONG.replace("\0", "")),
    "trust show": ("trust", "show", "cards/trust.json"),
    "vectors check": ("vectors", "check", "vectors"),
    "policy check": ("policy", "check", "policy.json"),
    "a file that is not there": ("inspect", LONG.replace("\0", "")),
    "a key that is not there": ("present", "shown", "--key", "a.jwk", "--trust", "cards/trust.json", "--audience", "a",
                                "--path", LONG),
}  # fmt: skip
PLAIN_LINES = {
    "policy check", "card convert", "agents show", "agents domains", "token withdraw", "grants list", "approvals list",
    "reviews list", "reviews show", "audit export",
}  # fmt: skip
"""What is for copying or for programs, whole however long."""


@pytest.fixture(scope="module")
def made() -> dict[str, Path]:
    """The folder of each agent that was registered."""
    return {}


@pytest.fixture
def attacked(
    name: str, made: dict[str, Path], sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch, width: int
) -> str:
    """The card, registered, with its SD-Cards in ``cards`` and a presentation in ``shown``; the agent's id.

    What registers it again, and so withdraws its SD-Cards, has an agent of its own.
    """
    agent = f"evil-{width}" if name == "register" else "evil"
    monkeypatch.setenv("SDCARD_TOKEN", desk.token)
    if agent not in made:
        made[agent] = prepare(agent, sdcard, desk)
    else:
        shutil.copytree(made[agent], Path(), dirs_exist_ok=True)
    return agent


def prepare(agent: str, sdcard: Sdcard, desk: Desk) -> Path:
    """Register the card, and return a copy of the folder with all that came of it."""
    Path("attack.json").write_text(json.dumps(attack_card()), encoding="utf-8")
    Path("policy.json").write_text(json.dumps({LONG: 1, "contexts": {LONG: {LONG: LONG}}}), encoding="utf-8")
    folder = Path("vectors", TRICK.replace("\0", "").replace("/", ""))
    folder.mkdir(parents=True)
    vector = json.loads(next(iter(sorted((ROOT / "vectors" / "encoding").glob("*.json")))).read_text(encoding="utf-8"))
    (folder / "one.json").write_text(json.dumps(vector | {"about": LONG, "expected": "x.y"}), encoding="utf-8")
    assert sdcard("keys", "new", "a.jwk").status == 0
    ran = sdcard("register", "attack.json", "--registry", desk.address, "--agent-id", agent, "--key", "a.jwk",
                 "--context", "public", "--context", "full", "--out", "cards", "--json")  # fmt: skip
    assert ran.status == 0, ran
    ran = sdcard("present", "cards/full.sd-card", "--key", "a.jwk", "--trust", "cards/trust.json",
                 "--audience", "https://v.example", "--nonce", "n-0S6_WzA2Mj")  # fmt: skip
    assert ran.status == 0, ran
    Path("shown").write_text(ran.out, encoding="ascii")
    return Path(shutil.copytree(Path(), Path(f"../{agent}-prepared").resolve()))


@pytest.fixture
def host(attacked: str) -> Iterator[str]:
    """Serve the card as written, and at ``sd`` as an SD-Card."""
    plain = ok(Path("attack.json").read_bytes(), "application/json")
    sealed = json.dumps({"agent_card": Path("cards/full.sd-card").read_text(encoding="ascii").strip()}).encode()

    def answer(connection: socket.socket) -> None:
        asked = server.requests[-1]
        connection.sendall(ok(sealed, SD_MEDIA_TYPE) if asked.startswith(b"GET /sd") else plain)

    with serving(answer) as server:
        yield server.url()


@pytest.fixture
def token(attacked: str, sdcard: Sdcard) -> str:
    """Make a database whose every text is an attack, as a writer could; return the name of its one token."""
    assert sdcard("token", "create", "--subject", "me").status == 0
    name: str = sdcard("token", "list", "--json").json["tokens"][0]["name"]
    record = ("agent.registered", 1, LONG, LONG, "b", json.dumps({LONG: [LONG]}), LONG, "0" * 64, "0" * 64)
    with closing(sqlite3.connect("sdcard.sqlite")) as database, database:
        database.execute("UPDATE tokens SET subject = ?, scopes = ?", (LONG, json.dumps([LONG])))
        scopes = (json.dumps([LONG]), json.dumps([LONG]))
        database.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?, 1, 4000000000)", ("a grant", LONG, LONG, *scopes))
        for approval in ("an approval", "another"):
            database.execute(
                "INSERT INTO approvals VALUES (?, ?, ?, ?, ?, ?, ?, 'pending', 1, 4000000000, '', '[]')",
                (approval, approval, LONG, scopes[0], LONG, scopes[0], LONG),
            )
        card = Path("attack.json").read_text(encoding="utf-8")
        for review in ("a review", "another"):
            database.execute(
                "INSERT INTO reviews VALUES (?, ?, ?, ?, ?, 'a2a/1.0', ?, 'pending', ?, '', 1, 4000000000)",
                (review, review, LONG, LONG, scopes[0], card, LONG),
            )
        places = ", ".join("?" * len(record))
        database.execute(f"INSERT OR REPLACE INTO audit VALUES (1, {places}, NULL, NULL, NULL, NULL, NULL)", record)
    Path("records").write_text(json.dumps({"sequence": LONG, LONG: LONG}) + f"\n{LONG}\n", encoding="utf-8")
    return name


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("name", COMMANDS)
def test_no_text_of_a_card_does_anything_to_a_terminal(
    name: str,
    width: int,
    attacked: str,
    sdcard: Sdcard,
    desk: Desk,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    filled = {"{registry}": desk.address, "{agent}": attacked}
    if name.startswith("fetch"):
        filled["{host}"] = request.getfixturevalue("host")
    if name.partition(" ")[0] in ("token", "grants", "approvals", "reviews", "audit"):
        filled["{token}"] = request.getfixturevalue("token")

    ran = sdcard(*(_filled(one, filled) for one in COMMANDS[name]))

    printed = ran.out + ran.err
    assert "Traceback" not in printed
    assert {f"U+{ord(c):04X}" for c in printed if unicodedata.category(c)[0] == "C" and c != "\n"} == set()
    if name not in PLAIN_LINES:
        assert [line for line in ran.out.splitlines() if cell_len(line) > width] == []


def _filled(text: str, filled: Mapping[str, str]) -> str:
    for name, value in filled.items():
        text = text.replace(name, value)
    return text


@pytest.mark.parametrize("width", [80, 60])
@pytest.mark.parametrize("name", ["inspect", "verify", "discover"])
def test_what_is_shown_is_whole_or_says_that_it_is_cut(
    name: str, width: int, attacked: str, sdcard: Sdcard, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    ran = sdcard(*(_filled(one, {"{registry}": desk.address}) for one in COMMANDS[name]))

    begins = r"\u001b[31m"
    shown = [cell[at:] for cell in columns(ran.out) for at in starts(cell, begins) if not cell[:at].endswith("x-")]
    texts = [spelt(text) for text in (f"{TRICK} {END}", LONG) for spelt in (as_json, as_text)]
    for one in shown:
        assert any(is_whole_or_cut(one, text) for text in texts), one
    assert len(shown) >= (1 if name == "discover" else 2)


def columns(printed: str) -> list[str]:
    """Each column of each table, its lines joined and without white space."""
    lines, found = printed.splitlines(), list[str]()
    for number, line in enumerate(lines[1:], 1):
        if not line.startswith(" ─"):
            continue
        edges = [one.start() for one in re.finditer(r"(?<=  )\S", lines[number - 1])]
        body = list(itertools.takewhile(str.strip, lines[number + 1 :]))
        for left, right in itertools.pairwise([*edges, None]):
            found.append("".join("".join(row[left:right] for row in body).split()))
    return found


def starts(text: str, begins: str) -> list[int]:
    return [one.start() for one in re.finditer(re.escape(begins), text)]


def as_json(text: str) -> str:
    return "".join(printable(json.dumps(text, ensure_ascii=False)[1:-1]).split())


def as_text(text: str) -> str:
    return "".join(printable(text).split())


def is_whole_or_cut(shown: str, text: str) -> bool:
    """Whether the text stands there to its end, or as far as a mark that it goes on."""
    same = next((at for at, (one, other) in enumerate(zip(shown, text, strict=False)) if one != other), len(shown))
    return shown.startswith(text) or shown[same : same + 1] == "…"
