"""Every entrance for texts, with what people do to texts: forgiven where people come in, refused where programs do."""

import asyncio
import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from issuer_service.agents.reading import Terms
from issuer_service.cli.audit import read_lines
from issuer_service.importing import read_line
from issuer_service.settings import ProofPolicy, read_configuration
from sdcard import DEFAULT_POLICY, SD_CARD, Misuse, Refused, parse_card, parse_card_file, parse_trusted_issuers
from sdcard.cards.a2a.signatures import NOBODY
from sdcard.cli.keys import read_trust
from sdcard.cli.mcp_tools import Document, Token, check_card, inspect_sd_card
from sdcard.cli.options import read_token
from sdcard.cli.output import read_sd_jwt, read_text
from sdcard.encoding import parse_json_object
from sdcard.errors import Part, Where
from sdcard.io import key_files
from sdcard.io.published_keys import load_from
from sdcard.io.verifier import read_trust_file
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.limits import DEFAULT_LIMITS
from sdcard.oauth import parse_credentials, parse_server_keys
from sdcard.policy.document import parse_policy
from sdcard.sdjwt.model import parse_sd_jwt, to_flattened, to_general
from sdcard.trust import issue_trust_list
from sdcard.vectors import parse_vector
from tests.shared import ROOT
from tests.sources import PRODUCT, files, name_of
from tests.world import ISSUER, NOW, World, key

BOM = b"\xef\xbb\xbf"
WHERE: Where = Where(Part.REQUEST)
JWKS = key_files.public_jwks(key(1).public_key)
TRUST = {"issuers": {"https://registry.example": JWKS}}
JWK = key_files.generate_jwk(SignatureAlgorithm.ES256)
CARD = json.loads((ROOT / "examples" / "georoute.json").read_bytes())
LINE = {"card": CARD, "agent_id": "georoute", "public_key": key(1).public_key.to_jwk()}
TERMS = Terms(
    DEFAULT_POLICY,
    SD_CARD,
    frozenset(),
    frozenset(),
    DEFAULT_LIMITS,
    NOW,
    604_800,
    NOBODY,
    ISSUER,
    ProofPolicy.ACCEPTED,
)
VECTOR = (ROOT / "vectors" / "cards" / "byte-order-mark.json").read_bytes()


def file(data: bytes) -> Path:
    """A file that only its owner reads, in the folder of the test."""
    path = Path("given")
    path.unlink(missing_ok=True)
    path.touch(0o600)
    path.write_bytes(data)
    return path


def server_keys(data: bytes) -> Any:
    async def load() -> bytes:
        return (await load_from(str(file(data)))()).data

    return parse_server_keys(asyncio.run(load()))


def checked(data: bytes) -> Any:
    """Return the answer of the MCP tool, or raise the refusal in it."""
    found = check_card(Document(document=data.decode("utf-8")))
    if not found.valid:
        raise Misuse(" ".join(str(one) for one in found.findings))
    return found.format


DOCUMENTS: dict[str, tuple[Any, Callable[[bytes], Any]]] = {
    "a card file": (CARD, lambda data: parse_card_file(data).document),
    "a card file in YAML": ("name: A\n", lambda data: parse_card_file(data)),
    "a policy in JSON": ({"ladder": [4, 8]}, parse_policy),
    "a policy in TOML": ("ladder = [4, 8]\n", parse_policy),
    "a trust document": (TRUST, parse_trusted_issuers),
    "a trust document of a Verifier": (TRUST, lambda data: read_trust_file(file(data)).keys),
    "a trust document at the command line": (TRUST, lambda data: read_trust(file(data), None, NOW)),
    "a private key": (JWK, lambda data: key_files.load_signer(file(data)).public_key),
    "a private key to import": (JWK, lambda data: key_files.load_private_jwk(file(data))),
    "public keys": (JWKS, lambda data: key_files.load_public_keys(file(data))),
    "whether it is a key set": (JWKS, lambda data: key_files.is_key_set(file(data))),
    "signers of cards": (JWKS, lambda data: key_files.load_card_signers(file(data))),
    "keys of an authorization server": (JWKS, server_keys),
    "settings": ("port = 1001\n", lambda data: read_configuration(file(data), {}, {}).settings),
    "a vector": (json.loads(VECTOR), lambda data: parse_vector(data).expected),
    "a line of an import": (LINE, lambda data: read_line(data, ["public"], TERMS, 1 << 20)),
    "a line of an audit export": ({"a": 1}, lambda data: [parse_json_object(one, WHERE, 8) for one in lines(data)]),
    "a card for a model": (CARD, checked),
}
"""Entrance → a good document, as JSON or as text; how it is read."""
IN_YAML_OR_TOML = {"a card file in YAML", "a policy in TOML", "settings"}


def lines(data: bytes) -> list[bytes]:
    return [b"".join(read_lines(io.BytesIO(data.replace(b"\n", b" ")), 1 << 20))] if data.strip() else [b""]


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def encoded(document: Any) -> bytes:
    return document.encode() if isinstance(document, str) else json.dumps(document, indent=1).encode()


def why(read: Callable[[bytes], Any], data: bytes) -> str:
    """Return the message for a person about a refused text."""
    with pytest.raises((Refused, Misuse)) as refused:
        read(data)
    return str(refused.value)


@pytest.mark.parametrize("entrance", DOCUMENTS)
def test_a_byte_order_mark_and_white_space_are_no_part_of_a_document(entrance: str) -> None:
    document, read = DOCUMENTS[entrance]
    good = encoded(document)
    if entrance == "a card file in YAML":
        assert why(read, good) == why(read, BOM + good)
        return
    expected = read(good)

    for handled in (BOM + good, good + b"\r\n", b"\r\n" + good, BOM + b"\r\n" + good + b"\n\n"):
        assert same(read(handled), expected), handled[:20]


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


@pytest.mark.parametrize("entrance", DOCUMENTS)
@pytest.mark.parametrize("empty", [b"", b" \r\n", BOM, BOM + b"\n"])
def test_an_empty_document_is_called_empty(entrance: str, empty: bytes) -> None:
    if entrance != "settings":  # TOML may be empty, and settings are all optional
        assert "empty" in why(DOCUMENTS[entrance][1], empty)


@pytest.mark.parametrize("entrance", DOCUMENTS)
def test_what_breaks_says_its_line_and_column(entrance: str) -> None:
    broken = b'a = 1\nb = = "canary"\n' if entrance != "a card file in YAML" else b'a: b\nc: [canary\nd: "'
    if entrance not in IN_YAML_OR_TOML:
        broken = b'{"a": 1,\n "b": [canary],\n "c": 1}'
    said = why(DOCUMENTS[entrance][1], broken)

    line = 1 if "audit export" in entrance else 4 if "YAML" in entrance else 2
    assert re.search(rf"[Ll]ine {line if 'YAML' not in entrance else '[34]'}, column [0-9]+", said), said
    assert "canary" not in said


@pytest.mark.parametrize("entrance", sorted(DOCUMENTS.keys() - IN_YAML_OR_TOML))
@pytest.mark.parametrize("comment", [b'{\n// note\n"a": 1}', b'{ "a": 1 /* note */ }', b'{\n# note\n"a": 1}'])
def test_comments_in_json_are_called_comments(entrance: str, comment: bytes) -> None:
    assert "JSON has no comments" in why(DOCUMENTS[entrance][1], comment)


def test_a_card_file_that_begins_with_a_comment_is_json_with_comments() -> None:
    for begins in (b"// a card\n{}", b"/* a card */ {}", BOM + b"// x\n{}"):
        assert "JSON has no comments" in why(parse_card_file, begins)


@pytest.mark.parametrize("entrance", sorted(DOCUMENTS.keys() - {"a card for a model", "a line of an audit export"}))
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_called_by_its_name(entrance: str, encoding: str) -> None:
    document, read = DOCUMENTS[entrance]
    text = "\ufeff" * (encoding == "utf-16-be") + encoded(document).decode()

    assert "It is UTF-16: save it as UTF-8." in why(read, text.encode(encoding))


# -- tokens -----------------------------------------------------------------------------------------------------------


HANDLED: dict[str, Callable[[str], str]] = {
    "as it is": lambda text: text,
    "byte order mark": lambda text: f"\ufeff{text}",
    "white space": lambda text: f" \r\n\t{text} \r\n",
    "both": lambda text: f"\ufeff\n{text}\n",
    "wrapped": lambda text: re.sub("(.{76})", r"\1\n", text),
    "wrapped by Windows": lambda text: re.sub("(.{64})", r"\1\r\n", text),
    "indented": lambda text: re.sub("(.{76})", r"\1 \n    ", text),
    "quoted-printable": lambda text: re.sub("(.{75})", r"\1=\r\n", text),
}


def from_standard_input(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(text.encode())))
    return read_sd_jwt("-")


def token_in_variable(text: str, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("SDCARD_TOKEN", text)
    return read_token(None)


def trust_list(text: str, _: pytest.MonkeyPatch) -> Any:
    Path("signers").write_text(json.dumps(key_files.public_jwks(key(2).public_key)), encoding="ascii")
    return read_trust(file(text.encode()), Path("signers"), NOW)


TOKENS: dict[str, Callable[[str, pytest.MonkeyPatch], Any]] = {
    "an SD-JWT in a file": lambda text, _: read_sd_jwt(str(file(text.encode()))),
    "an SD-JWT at standard input": from_standard_input,
    "a bearer token in a file": lambda text, _: read_text(str(file(text.encode()))),
    "a bearer token in a variable": token_in_variable,
    "a trust list": trust_list,
    "an SD-JWT for a model": lambda text, _: inspect_sd_card(Token(sd_card=text)),
}


@pytest.mark.parametrize("handled", HANDLED)
@pytest.mark.parametrize("entrance", TOKENS)
def test_what_handling_does_to_a_token_is_forgiven(
    entrance: str, handled: str, world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = str(world.issuer.issue("full"))
    if entrance == "a trust list":
        good = issue_trust_list(parse_trusted_issuers(json.dumps(TRUST).encode()), key(2), NOW - 5, NOW + 500)
    read = TOKENS[entrance]

    assert same(read(HANDLED[handled](good), monkeypatch), read(good, monkeypatch))


@pytest.mark.parametrize("handled", HANDLED)
@pytest.mark.parametrize("form", [to_flattened, to_general])
def test_what_handling_does_to_a_json_form_is_forgiven(handled: str, form: Callable[[Any], str], world: World) -> None:
    compact = str(world.issuer.issue("full"))
    text = HANDLED[handled](form(parse_sd_jwt(compact, DEFAULT_LIMITS)))

    assert str(parse_sd_jwt(read_sd_jwt(str(file(text.encode()))), DEFAULT_LIMITS)) == compact


def test_a_secret_in_a_file_may_stand_behind_a_byte_order_mark() -> None:
    assert key_files.load_secret(file(BOM + b"1234\r\n")) == "1234"


@pytest.mark.parametrize("entrance", ["an SD-JWT in a file", "an SD-JWT for a model"])
def test_an_empty_sd_jwt_is_called_empty(entrance: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(data: bytes) -> Any:
        return parse_sd_jwt(str(TOKENS[entrance](data.decode(), monkeypatch)), DEFAULT_LIMITS)

    assert "It is empty." in why(read, b"")
    assert "It is empty." in why(read, BOM + b"\r\n")


# -- entrances for programs -------------------------------------------------------------------------------------------


STRICT: dict[str, Callable[[bytes], Any]] = {
    "a body": lambda data: parse_json_object(data, WHERE, 8),
    "a fetched card": parse_card,
    "a fetched JWKS": parse_server_keys,
    "a presentation": lambda data: parse_sd_jwt(data.decode(), DEFAULT_LIMITS),
}


@pytest.mark.parametrize("entrance", STRICT)
def test_programs_send_no_byte_order_mark_and_are_told_so(entrance: str) -> None:
    said = why(STRICT[entrance], BOM + b'{"keys": []}')

    if entrance != "a presentation":
        assert "Line 1, column 1: remove the byte order mark." in said
        assert "Line 2, column 2: " in why(STRICT[entrance], b'{"a": 1,\n 1}')
    assert "It is empty." in why(STRICT[entrance], b"")


def test_programs_send_a_presentation_and_a_token_on_one_line(world: World) -> None:
    good = str(world.issuer.issue("full"))
    for name, handled in HANDLED.items():
        if name != "as it is":
            with pytest.raises(Refused):
                parse_credentials([f"Bearer {handled('a' * 200)}"])
            with pytest.raises(Refused):
                world.holder.accept(handled(good))


# -- nothing else reads files -----------------------------------------------------------------------------------------


READERS = {
    "sdcard/io/key_files.py", "sdcard/io/published_keys.py", "sdcard/cli/output.py", "issuer_service/cli/audit.py",
    "sdcard/cli/card_files.py",
    "issuer_service/settings.py", "sdcard/cli/invocation.py",
}  # fmt: skip
"""Modules that read files of people themselves, and forgive."""
ELSEWHERE = {
    "issuer_service/cli/db.py": "read_line forgives",
    "issuer_service/container.py": "parse_policy forgives",
    "sdcard/io/agent.py": "a folder that register wrote; lenient_token and parse_trusted_issuers forgive",
    "sdcard/cli/log.py": "a file of its own",
    "sdcard/io/system.py": "what Linux says about processes",
    "sdcard/io/verifier.py": "parse_trusted_issuers forgives",
    "issuer_service/audit/service.py": "the registry's own file",
    "sdcard/io/used_nonces.py": "a file of its own",
    "issuer_service/db/backups.py": "the registry's own database",
    "issuer_service/transparency/terms.py": "the operator's log and policy, which parse functions of the core read",
    "issuer_service/db/migrations/__init__.py": "the registry's own database",
    "issuer_service/cli/demo.py": "our own example",
    "issuer_service/console/endpoints.py": "our own style",
    "issuer_service/wellknown.py": "our own page",
}
_READS = re.compile(r"""open\("rb"\)|\.read_bytes\(|\.read_text\(|stdin\.buffer|, "rb" """)


def test_every_module_that_reads_files_forgives_or_has_a_reason() -> None:
    reading = set()
    for path in files(*PRODUCT):
        text, name = path.read_text(encoding="utf-8"), name_of(path)
        if _READS.search(text):
            reading.add(name)
            assert name in ELSEWHERE or "sdcard.lenient" in text, name
    assert reading - ELSEWHERE.keys() == READERS
