"""Lenient reading of texts that people handle.

Editors add a byte order mark, people copy white space, and mail and base64 tools wrap long lines at 76 columns. None of
these change the meaning. Every input for people accepts them through these functions: files, standard input, tokens in
variables, console forms, MCP tools; the inspector page does the same. Inputs for programs do not: request bodies,
headers, fetched documents. ``docs/concepts.md`` has the table.
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
    """Remove the byte order mark of a JSON, TOML or YAML document (RFC 8259 8.1)."""
    return data.removeprefix(codecs.BOM_UTF8)


def lenient_token(text: str) -> str:
    """Clean a pasted token: no byte order mark, outer white space or line breaks.

    In a JSON form, only line breaks within strings are removed, because JSON permits none there.
    """
    text = text.removeprefix("\ufeff").strip(_SPACE)
    if text.startswith("{"):
        return _STRING.sub(lambda found: _joined(found[0]), _SOFT_BREAK.sub("\n", text))
    return _joined(text)


def _joined(text: str) -> str:
    """Join lines; remove white space around breaks and ``=`` (RFC 2045 6.7)."""
    *wrapped, last = _BREAK.split(text)
    return "".join(line.strip(" \t").removesuffix("=") for line in wrapped) + last.lstrip(" \t") if wrapped else text


def decode_token(data: bytes, where: Where) -> str:
    """Decode the bytes of a file, and clean them as ``lenient_token``.

    Raises:
        Refused: ``encoding.utf8``.
    """
    try:
        return lenient_token(data.decode("utf-8"))
    except UnicodeDecodeError:
        raise Refused(Rule.UTF8, where, why_not_utf8(data)) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: with a hint that has line and column.
        RecursionError: for a text that nests too deeply.
    """
    try:
        return tomllib.loads(text)
    except ValueError as error:  # also for a number that is too long for the interpreter
        position = _POSITION.search(str(error))
        hint = f"{position[1].capitalize()}: no TOML from there." if position else ""
    raise ValueError(hint)
