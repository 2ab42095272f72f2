"""Arguments of every command: client profile, swallowed options, and ``-``."""

import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from sdcard.errors import Misuse

PROFILE_VARIABLE: Final = "SDCARD_CLIENT"
"""Names the client profile; else it is ``sdcard/client.toml`` in ``XDG_CONFIG_HOME`` or ``~/.config``."""
PROFILE_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "registry": ("registry",),
    "issuer": ("registry",),
    "token_file": ("registry",),
    "out": ("registry",),
    "key": ("registry", "nonce"),
    "trust": ("trust",),
    "trust_signer": ("trust",),
}
"""Option that a client profile can set → it applies to commands that have one of these options too."""
_NO_PROFILE = {"mcp"}
"""Commands whose options decide what a stranger can reach."""
_MOST_BYTES = 65_536


def check_arguments(command: Any) -> None:
    """Make a command read the profile, and refuse wrong arguments.

    An option must not swallow another one, and ``-`` must not be taken for a file.
    """
    parse = command.parse_args

    def parse_args(context: Any, arguments: list[str]) -> Any:
        _check_not_swallowed(command, arguments)
        context.default_map = _defaults(command)
        rest = parse(context, arguments)
        _check_streams(command, context.params)
        return rest

    command.parse_args = parse_args


# -- Options that got another option as their value -------------------------------------------------------------------


def _check_not_swallowed(command: Any, arguments: Sequence[str]) -> None:
    """Refuse an option whose value is an option: its own value is missing."""
    options = [one for one in command.params if one.param_type_name == "option"]
    every = {"--help", *(name for one in options for name in (*one.opts, *one.secondary_opts))}
    taking = {name: one for one in options if not one.is_flag for name in one.opts}
    for name, value in pairwise(arguments):
        if name == "--":
            return
        is_reason = name in taking and taking[name].metavar == "REASON"
        if name in taking and (value.partition("=")[0] in every or (is_reason and value.startswith("-"))):
            got = value.partition("=")[0]
            needed = "give the reason first, in quotes" if is_reason else "give its value; is a variable empty?"
            raise Misuse(f"{name} got {got} as its value: {needed}")


# -- Standard input and output ----------------------------------------------------------------------------------------


def _check_streams(command: Any, given: Mapping[str, Any]) -> None:
    """Refuse ``-`` for a file, and standard input for two arguments."""
    readers = 0
    for one in command.params:
        value = given.get(one.name)
        values = value if isinstance(value, list | tuple) else [value]
        if Path("-") in values:
            name = one.opts[0] if one.param_type_name == "option" else (one.metavar or one.name.upper())
            raise Misuse(f"`-` is no file for {name}: give the name of a file (./- if it is called so)")
        readers += values.count("-") if "|-" in (one.metavar or "") else 0
    if readers > 1:
        raise Misuse("standard input can be read once: give files for the others")


# -- The client profile -----------------------------------------------------------------------------------------------


def _defaults(command: Any) -> dict[str, Any]:
    """Return the options of the client profile that apply to this command."""
    names = {one.name for one in command.params if one.param_type_name == "option"}
    wanted = {name for name, beside in PROFILE_OPTIONS.items() if name in names and names.intersection(beside)}
    if not wanted or command.name in _NO_PROFILE:
        return {}
    return {name: value for name, value in _read_profile() if name in wanted}


def _read_profile() -> Iterator[tuple[str, Any]]:
    """Read the options of the profile. Paths in it are relative to its folder.

    Raises:
        Misuse: when it is not TOML, has an unknown option, or others can change it.
        OSError: when the file that ``SDCARD_CLIENT`` names cannot be read.
    """
    named = os.environ.get(PROFILE_VARIABLE)
    config = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config")
    file = (Path(named) if named else config / "sdcard" / "client.toml").expanduser()
    if not named and not file.is_file():
        return
    from sdcard.lenient import lenient_document, parse_toml

    with file.open("rb") as stream:
        if sys.platform != "win32" and os.fstat(stream.fileno()).st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Misuse(f"others can change the client profile {file}; chmod 600 it")
        data = stream.read(_MOST_BYTES)
    try:
        document = parse_toml(lenient_document(data).decode())
    except (ValueError, RecursionError) as error:
        raise Misuse(f"the client profile {file} is not TOML. {error}".rstrip()) from None
    for name, value in document.items():
        if name not in PROFILE_OPTIONS:
            near = get_close_matches(name, PROFILE_OPTIONS, 1)
            said = f"the nearest option is {near[0]}" if near else f"it can set {', '.join(PROFILE_OPTIONS)}"
            raise Misuse(f"the client profile {file} sets {name[:64]}, which is no option of it: {said}")
        values = value if name == "key" and isinstance(value, list) else [value]
        if not all(isinstance(one, str) for one in values):
            raise Misuse(f"the client profile {file}: {name} is a text in quotes")
        if name not in ("registry", "issuer"):
            values = [str(file.parent / Path(one).expanduser()) for one in values]
        yield name, values if name == "key" else values[0]
