"""``docs/public-api.txt``: the public names with their types, for reviews."""

import enum
import inspect
import re
from collections.abc import Iterator
from types import UnionType
from typing import Any

import sdcard
from sdcard.rules import Rule

_HEAD = """\
# The typed public API of sdcard: what a release may not change without saying so in CHANGELOG.md.
# Written by `python -m pages`; a test proves it current.
"""
_JSON = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"


def signatures_page() -> str:
    """Write a paragraph for each name."""
    return _HEAD + "".join(f"\n{text}" for name in sorted(sdcard.__all__) for text in _told(name))


def _told(name: str) -> Iterator[str]:
    found = getattr(sdcard, name)
    if inspect.isclass(found):
        yield "".join(f"{line}\n" for line in (_class_line(name, found), *_members(found)))
    elif inspect.isfunction(found):
        yield f"{_function('def', name, found)}\n"
    else:
        yield f"{name} = {_short(found)}\n" if isinstance(found, UnionType) else f"{name}: {type(found).__name__}\n"


def _class_line(name: str, found: type) -> str:
    bases = ", ".join(base.__name__ for base in found.__bases__ if base is not object)
    return f"class {name}({bases})" if bases else f"class {name}"


def _members(found: type) -> Iterator[str]:
    """List fields, members of an enumeration, and methods.

    Members that Python adds are left out.
    """
    if found is Rule:
        yield "    # its members are in docs/rules.md"
    elif issubclass(found, enum.Enum):
        yield from (f"    {one.name} = {one.value!r}" for one in found)
    else:
        made = vars(found).get("__init__")
        if inspect.isfunction(made) and not getattr(found, "_is_protocol", False):
            yield _function("    def", "__init__", made)
    for name, value in sorted(vars(found).items()):
        if name.startswith("_"):
            continue
        if isinstance(value, property):
            yield f"    {name}: {_short(inspect.signature(value.fget).return_annotation) if value.fget else ''}"
        elif isinstance(value, staticmethod | classmethod):
            yield _function(f"    {type(value).__name__}", name, value.__func__)
        elif inspect.isfunction(value):
            yield _function("    def", name, value)


def _function(kind: str, name: str, found: Any) -> str:
    signature = inspect.signature(found)
    parameters = ", ".join(_parameters(signature))
    marked = "async " if inspect.iscoroutinefunction(found) else ""
    return f"{kind} {marked}{name}({parameters}) -> {_short(signature.return_annotation)}"


def _parameters(signature: inspect.Signature) -> Iterator[str]:
    """Write parameters as in the source; a default that is not plain is `…`."""
    seen_star = False
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and not seen_star:
            seen_star = True
            yield "*"
        stars = "*" if one.kind is one.VAR_POSITIONAL else "**" if one.kind is one.VAR_KEYWORD else ""
        text = stars + one.name
        seen_star = seen_star or one.kind is one.VAR_POSITIONAL
        if one.annotation is not one.empty:
            text += f": {_short(one.annotation)}"
        if one.default is not one.empty:
            text += f" = {one.default!r}" if _is_plain(one.default) else " = …"
        yield text


def _is_plain(default: object) -> bool:
    return default is None or (isinstance(default, str | int | tuple) and not isinstance(default, enum.Enum))


def _short(annotation: Any) -> str:
    """A type without the modules that it is from."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b(?:[a-z_][\w]*\.)+(?=[A-Za-z_])", "", text)
    return re.sub(rf"'?{re.escape(_JSON)}'?", "JsonValue", text)
