"""A self-contained HTML file from the sources.

Script and style are inline, and known to the CSP by hash.
"""

import base64
import hashlib
import json
import os
from functools import cache
from pathlib import Path

from inspector.data import page_data

SOURCES = Path(__file__).resolve().parent
PAGE = SOURCES.parent / "build" / "inspector.html"


def write_page() -> Path:
    """Write the page into ``build``, at once for all who read it, and return its path."""
    PAGE.parent.mkdir(exist_ok=True)
    part = PAGE.with_suffix(f".{os.getpid()}")
    part.write_bytes(joined().encode())
    part.replace(PAGE)
    return PAGE


@cache
def joined() -> str:
    """The page."""
    script, style = _script(), _read("style.css")
    policy = "; ".join(
        (
            "default-src 'none'",
            "connect-src 'none'",
            f"script-src '{_hash(script)}'",
            f"style-src '{_hash(style)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )
    page = _read("page.html")
    for name, text in {"policy": policy, "style": style, "script": script}.items():
        page = page.replace("{{" + name + "}}", text, 1)
    return page


def _script() -> str:
    """Join all scripts, in the order of their names, in one function.

    Nothing is global except what tests call.
    """
    parts = [path.read_text(encoding="utf-8") for path in sorted((SOURCES / "script").glob("*.js"))]
    facts = {"DATA": page_data(), "EXAMPLES": json.loads(_read("examples.json"))}
    constants = [f"const {name} = {_as_script(value)};\n" for name, value in facts.items()]
    return '(() => {\n"use strict";\n' + "\n".join((*constants, *parts)) + "})();\n"


def _as_script(value: object) -> str:
    """JSON that can stand within a script element."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (SOURCES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
