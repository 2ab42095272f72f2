"""``docs/http.md``: every request of a registry, from its OpenAPI document."""

import json
from typing import Any

from issuer_service.app import openapi_document

_HEAD = """# HTTP

<!-- Written by `python -m pages` from openapi.json; a test proves it current. -->

What a registry answers. The whole of it, for programs: [openapi.json](openapi.json), which every registry also serves.
Refusals are problem documents (RFC 9457) whose `rule` is [one of these](rules.md); those of `/token`, `/introspect`
and `/revoke` are OAuth's.

Where GET is answered, HEAD is: the same headers, and no body. Answers below `/.well-known/` and `/status/` can be read
by scripts of any origin (`Access-Control-Allow-Origin: *`); no other answer can.
"""


def http_page() -> str:
    """The page."""
    document = json.loads(json.dumps(openapi_document(), sort_keys=True))
    text = _HEAD + "\n| request | what it does |\n|---|---|\n"
    sections = ""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            text += f"| [`{name}`](#{_anchor(name)}) | {_line(operation.get('summary', ''))} |\n"
            sections += _section(name, operation, document)
    return text + sections


def _section(name: str, operation: dict[str, Any], document: dict[str, Any]) -> str:
    text = f"\n## {name}\n\n{operation.get('description') or operation.get('summary') or ''}\n".replace("``", "`")
    if operation.get("security"):
        text += "\nWith a bearer token.\n"
    rows = [
        f"| `{one['name']}` | in the {one['in']} | {_type(one['schema'], document)} | "
        f"{'yes' if one.get('required') else 'no'} | {_line(one.get('description', ''))} |\n"
        for one in operation.get("parameters", [])
    ]
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        schema = _resolved(content["schema"], document)
        for member, inner in schema.get("properties", {}).items():
            required = "yes" if member in schema.get("required", []) else "no"
            description = _line(inner.get("description", ""))
            rows.append(f"| `{member}` | `{media_type}` | {_type(inner, document)} | {required} | {description} |\n")
    if rows:
        text += "\n| name | where | type | required | what |\n|---|---|---|---|---|\n" + "".join(rows)
    text += "\n| answer | what |\n|---|---|\n"
    for status, answer in operation["responses"].items():
        text += f"| {status} | {_line(answer.get('description', ''))} |\n"
    return text


def _resolved(schema: dict[str, Any], document: dict[str, Any]) -> dict[str, Any]:
    if reference := schema.get("$ref"):
        found: dict[str, Any] = document["components"]["schemas"][reference.rpartition("/")[2]]
        return found
    return schema


def _type(schema: dict[str, Any], document: dict[str, Any]) -> str:
    if options := schema.get("anyOf") or schema.get("oneOf"):
        return " or ".join(_type(one, document) for one in options)
    if "enum" in schema:
        return " or ".join(f"`{one}`" for one in schema["enum"])
    if "const" in schema:
        return f"`{schema['const']}`"
    if schema.get("type") == "array":
        return f"array of {_type(schema.get('items', {}), document)}"
    return str(_resolved(schema, document).get("type", "any"))


def _line(text: str) -> str:
    """Escape a text for a cell of a table."""
    return " ".join(text.replace("``", "`").replace("|", "\\|").split())


def _anchor(heading: str) -> str:
    kept = "".join(sign for sign in heading.lower() if sign.isalnum() or sign in "-_ ")
    return kept.replace(" ", "-")
