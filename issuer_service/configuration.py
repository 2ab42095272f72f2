"""Sources of settings: options, environment, one TOML file, defaults.

An earlier source overrides a later one.

A name that is no setting is refused, since a misspelt setting would leave its default in force. What is shown of the
settings holds no secret.
"""

import difflib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from pydantic import SecretStr, ValidationError
from pydantic_settings import SettingsError
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from issuer_service.settings import Settings
from sdcard.encoding import why_not_utf8
from sdcard.errors import Misuse
from sdcard.lenient import lenient_document, parse_toml
from sdcard.urls import is_loopback

PREFIX = "SDCARD_"
FILE_VARIABLE = "SDCARD_CONFIG"
"""Names the TOML file."""
MASK = "********"

_OTHER_VARIABLES = {FILE_VARIABLE, "SDCARD_TOKEN"}
"""Those that the commands for clients read."""
_MOST_BYTES = 65_536
_PLACEHOLDERS = {
    "sdcard",
    "postgres",
    "password",
    "secret",
    "test",
    "admin",
    "1234",
    "0000",
    "123456",
    "change-me",
    "changeme",
}
"""What examples and habits put where a secret belongs."""


class Source(StrEnum):
    """Source of a setting's value."""

    OPTION = "option"
    ENVIRONMENT = "environment"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The settings, and of each where it comes from.

    ``unknown``: variables that look like settings and are none.
    """

    settings: Settings
    sources: Mapping[str, Source]
    unknown: tuple[str, ...] = field(default=())


def read_configuration(
    file: Path | None, environment: Mapping[str, str], options: Mapping[str, object]
) -> Configuration:
    """Read the settings.

    Args:
        file: the TOML file; None: the one that ``SDCARD_CONFIG`` names, if it does.
        environment: the process's; ``Settings`` reads it too.
        options: what a command was given; None: nothing.

    Raises:
        Misuse: for a setting that is out of bounds or unknown, naming it and never its value; for a file that is not
            TOML, or holds a secret and is open to others.
        OSError: when the file cannot be read.
    """
    variables = {name.upper(): value for name, value in environment.items() if name.upper().startswith(PREFIX)}
    named = variables.get(FILE_VARIABLE)
    file = file or (Path(named) if named else None)
    written = _read_file(file) if file else {}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    sources = {name: _source(name, given, variables, written) for name in Settings.model_fields}
    passed: dict[str, Any] = {name: written[name] for name, source in sources.items() if source is Source.FILE}
    try:
        settings = Settings(**passed, **given)
    except ValidationError as error:
        raise Misuse("; ".join(_faults(error, sources))) from None
    except SettingsError:  # of a variable that is not the JSON that it has to be; the message may quote it
        raise Misuse("SDCARD_AUTHORIZATION_LIMITS is a JSON object: kind of limit to list of texts") from None
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _OTHER_VARIABLES
    return Configuration(settings, sources, tuple(sorted(variables.keys() - known)))


def shown_value(settings: Settings, name: str) -> str:
    """A setting as text, for people; a secret is masked."""
    value = getattr(settings, name)
    if value is None:
        return ""
    if name == "database_url":
        return _without_password(value)
    if is_secret(name):
        return MASK
    if isinstance(value, dict):
        return json.dumps(value)
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return str(value)


def is_secret(name: str) -> bool:
    """Whether the setting holds a secret, or may."""
    info = Settings.model_fields[name]
    return info.repr is False or SecretStr in (info.annotation, *getattr(info.annotation, "__args__", ()))


def check_fit_to_serve(settings: Settings) -> None:
    """Refuse development secrets in production, and a public development registry.

    A registry is for development when its Issuer's URL is on loopback: no other machine can then check its SD-Cards.
    Keys that stand in public documents are refused everywhere, where the keys are read.

    Raises:
        Misuse: naming the setting.
    """
    if settings.in_development:
        if not is_loopback(settings.host):
            raise Misuse("SDCARD_ISSUER is on loopback, for development; then SDCARD_HOST is on loopback too")
        return
    for name in filter(is_secret, Settings.model_fields):
        if any(map(_is_placeholder, _secrets(getattr(settings, name)))):
            raise Misuse(f"{PREFIX}{name.upper()} holds a secret for development; outside of it make one of your own")


def nearest(name: str, known: Iterator[str] | list[str]) -> str:
    """A hint at what a misspelt name may have been meant to be."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f" (meant: {found[0]}?)" if found else ""


def _source(
    name: str, options: Mapping[str, object], variables: Mapping[str, str], written: Mapping[str, object]
) -> Source:
    if name in options:
        return Source.OPTION
    if f"{PREFIX}{name.upper()}" in variables:
        return Source.ENVIRONMENT
    return Source.FILE if name in written else Source.DEFAULT


def _read_file(file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        mode = os.fstat(stream.fileno()).st_mode
        data = stream.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise Misuse(f"{file} has more than {_MOST_BYTES} bytes")
    try:
        document = parse_toml(lenient_document(data).decode("utf-8"))
    except UnicodeDecodeError:
        raise Misuse(f"{file} is not UTF-8. {why_not_utf8(data)}".rstrip()) from None
    except RecursionError:
        raise Misuse(f"{file} is not TOML: it nests too deeply") from None
    except ValueError as error:
        raise Misuse(f"{file} is not TOML. {error}".rstrip()) from None
    known = list(Settings.model_fields)
    unknown = [f"{name[:64]}{nearest(name, known)}" for name in document if name not in known]
    if unknown:
        raise Misuse(f"{file} has settings that there are not: {', '.join(unknown)}")
    if mode & (stat.S_IRWXO | stat.S_IWGRP) and any(_holds_secret(name, document[name]) for name in document):
        raise Misuse(f"{file} holds a secret and is open to others; chmod 600 it")
    return document


def _holds_secret(name: str, value: object) -> bool:
    return is_secret(name) and any(_secrets(value))


def _faults(error: ValidationError, sources: Mapping[str, Source]) -> Iterator[str]:
    for fault in error.errors(include_url=False, include_input=False, include_context=False):
        name = str(fault["loc"][0]) if fault["loc"] else ""
        origin = f"{name} in the file" if sources.get(name) is Source.FILE else f"{PREFIX}{name.upper()}"
        yield f"{origin}: {fault['msg']}"


def _secrets(value: object) -> list[str]:
    """List the secret parts of a value: all of it, or the password of a URL."""
    if value is None or value == "":
        return []
    if isinstance(value, SecretStr):
        return [value.get_secret_value()]
    text = str(value)
    try:
        password = make_url(text).password
    except (ArgumentError, ValueError):
        return [text]
    return [password] if password else []


def _is_placeholder(secret: str) -> bool:
    """Words of examples, the same character over and over, or nothing at all."""
    return secret.lower() in _PLACEHOLDERS or len(set(secret)) <= 1


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return MASK
