"""A self-contained HTML file from the sources.

Script and style are inline, and known to the CSP by hash.
"""

import base64
import hashlib
import json
import os
import re
from functools import cache
from pathlib import Path

from inspector.data import page_data

SOURCES = Path(__file__).resolve().parent
PACKAGE = SOURCES.parent / "packages" / "verifier" / "src"
SHARED = ("json", "inflate", "ml-dsa", "keys", "sd-jwt", "claims", "status", "trust", "paths", "formats", "log-proofs")
"""Modules of the package that the page is made of, each after those that it imports."""
_TYPES = re.compile(r"/\*\*.*?\*/\s*", re.DOTALL)
"""Comments of the package with its types, which the page does not need."""
_COMMENT = re.compile(r"^ *//.*\n", re.MULTILINE)
"""A line that is nothing but a comment."""
_IMPORT = re.compile(r"^import .*;\n", re.MULTILINE)
_EXPORT = re.compile(r"^export (?:class|const|(?:async )?function) (\w+)", re.MULTILINE)
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
    """Join the package's modules and all scripts in one function.

    The scripts are in the order of their names. Nothing is global except what tests call.
    """
    facts = {"DATA": page_data(), "EXAMPLES": json.loads(_read("examples.json"))}
    constants = [f"const {name} = {_as_script(value)};\n" for name, value in facts.items()]
    modules = [_as_function(name) for name in SHARED]
    parts = [path.read_text(encoding="utf-8") for path in sorted((SOURCES / "script").glob("*.js"))]
    return _COMMENT.sub("", '(() => {\n"use strict";\n' + "\n".join((*constants, *modules, *parts)) + "})();\n")


def _as_function(name: str) -> str:
    """Turn a module of the package into a function that is called once.

    So the module keeps its own names. Its exports become constants of the page: a script that takes such a name again
    does not run.
    """
    text = _TYPES.sub("", (PACKAGE / f"{name}.js").read_text(encoding="utf-8"))
    exported = ", ".join(_EXPORT.findall(text))
    inside = _EXPORT.sub(lambda found: found[0].removeprefix("export "), _IMPORT.sub("", text))
    return f"const {{ {exported} }} = (() => {{\n{inside}\nreturn {{ {exported} }};\n}})();\n"


def _as_script(value: object) -> str:
    """JSON that can stand within a script element."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).replace("<", "\\u003c")


def _read(name: str) -> str:
    return (SOURCES / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
