"""Texts that people handle: what is forgiven before they are read.

Editors put a byte order mark in front, people copy white space, and mail and base64 tools wrap long lines at 76
columns. None of that changes what a text says. So every entrance for people forgives it, by the functions here: files,
standard input, tokens in variables, console forms, MCP tools; the inspector page has the same in its script.
Entrances for programs forgive nothing: request bodies, headers, fetched documents. ``docs/concepts.md`` has the table.
"""

import codecs
import re
import tomllib
from typing import Any

from sdcard.encoding import why_not_utf8
from sdcard.errors import Refused, Where
from sdcard.rules import Rule

_SPACE = " \t\r\n"
_BREAK = re.compile(r"[\r\n]+")
_SOFT_BREAK = re.compile(r"=\r?\n")
_POSITION = re.compile(r"\(at ([^()]*)\)")
_STRING = re.compile(r'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def lenient_document(data: bytes) -> bytes:
    """A document in JSON, TOML or YAML, without a byte order mark (RFC 8259 8.1).

    White space around it is its own.
    """
    return data.removeprefix(codecs.BOM_UTF8)


def lenient_token(text: str) -> str:
    """Clean a pasted token: no byte order mark, outer white space or line breaks.

    No such text has line breaks of its own. In a JSON form only those within strings go, where JSON permits none.
    """
    text = text.removeprefix("\ufeff").strip(_SPACE)
    if text.startswith("{"):
        return _STRING.sub(lambda found: _joined(found[0]), _SOFT_BREAK.sub("\n", text))
    return _joined(text)


def _joined(text: str) -> str:
    """Join lines, without blanks and ``=`` of quoted-printable (RFC 2045 6.7)."""
    *wrapped, last = _BREAK.split(text)
    return "".join(line.strip(" \t").removesuffix("=") for line in wrapped) + last.lstrip(" \t") if wrapped else text


def decode_token(data: bytes, where: Where) -> str:
    """The bytes of a file → ``lenient_token`` of their text.

    Raises:
        Refused: ``encoding.utf8``.
    """
    try:
        return lenient_token(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused(Rule.UTF8, where, why_not_utf8(data)) from None


def parse_toml(text: str) -> dict[str, Any]:
    """TOML → its tables.

    Raises:
        ValueError: with a hint for a person, the line and column where it breaks.
        RecursionError: for a text that nests too deeply.
    """
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also for a number that is too long for the interpreter
        position = _POSITION.search(str(error))
        hint = f"{position[1].capitalize()}: no TOML from there." if position else ""
    raise ValueError(hint)
