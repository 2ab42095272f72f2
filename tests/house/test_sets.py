"""Decision 0027 names every set that is read, and says whether its members are independent."""

import re

from tests.shared import ROOT
from tests.sources import PRODUCT, files, name_of

PAGE = ROOT / "docs" / "decisions" / "0027-members-of-a-set.md"
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and "---" not in line
][1:]
SOURCES = files(*PRODUCT)
READS_KEYS = re.compile(r"\b(parse_key_set|read_key_set|load_key_set|load_public_keys|parse_trusted_issuers)\(")
ONE_KEY = {
    "sdcard/cli/card_files.py",
    "sdcard/dpop.py",
    "sdcard/io/key_files.py",
    "sdcard/jose/claims.py",
    "sdcard/vectors/given.py",
    "issuer_service/db/backups.py",
    "issuer_service/discovery/renewal.py",
    "issuer_service/keys/ring.py",
    "issuer_service/agents/checks.py",
    "issuer_service/agents/lifecycle.py",
    "issuer_service/agents/reading.py",
    "issuer_service/reviews/service.py",
}
"""Modules that parse single keys: of a token, a request or a row. A key set has one reader."""


def listed() -> set[str]:
    return {name for row in ROWS for name in re.findall(r"`([^`]+\.(?:py|js))`", row[1])}


def test_each_set_has_a_reader_and_a_kind() -> None:
    assert ROWS
    assert [row for row in ROWS if len(row) != 4 or row[2] not in ("independent", "one document") or not row[3]] == []
    assert [name for name in sorted(listed()) if not (ROOT / name).is_file()] == []


def test_no_set_is_named_twice() -> None:
    names = [row[0] for row in ROWS]
    assert sorted(set(names)) == sorted(names)


def test_every_module_that_reads_key_sets_is_in_the_table() -> None:
    readers = {name_of(path) for path in SOURCES if READS_KEYS.search(path.read_text(encoding="utf-8"))}
    clients = {"sdcard/jose/key_sets.py", "sdcard/trust.py", "sdcard/vectors/given.py", "issuer_service/cli/audit.py"}
    clients |= {"issuer_service/cli/token.py"}  # one key
    clients |= {"sdcard/conformance/services.py"}
    assert readers - clients - listed() == set()


def test_no_module_beside_the_one_reader_parses_the_keys_of_a_set() -> None:
    parsing = {name_of(path) for path in SOURCES if "parse_public_jwk" in path.read_text(encoding="utf-8")}
    own = {"sdcard/__init__.py", "sdcard/jose/keys.py", "sdcard/jose/key_sets.py", "sdcard/oauth.py"}
    signers = {"sdcard/cards/a2a/signatures.py"}
    assert parsing == ONE_KEY | own | signers
