"""What the Python adapters share: the protocol, and a clock that the driver sets."""

import base64
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

Request = Mapping[str, Any]
Answer = Mapping[str, Any]

_now = [time.time()]
time.time = lambda: _now[0]


class Unsupported(Exception):
    """The library has no function for this request."""


def unsupported(request: Request) -> Answer:
    """Say that the library cannot do this at all."""
    raise Unsupported(f"it has no function to {request['op']}")


def p256(jwk: Mapping[str, str]) -> Any:
    """Return the private key of a JWK, for libraries that take keys of ``cryptography``."""
    from cryptography.hazmat.primitives.asymmetric import ec

    number = base64.urlsafe_b64decode(jwk["d"] + "=" * (-len(jwk["d"]) % 4))
    return ec.derive_private_key(int.from_bytes(number, "big"), ec.SECP256R1())


def serve(**functions: Callable[[Request], Answer]) -> None:
    """Answer one request a line until the input ends. What the library prints goes to standard error."""
    output, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        _now[0] = request["now"]
        answer: Answer
        try:
            answer = {"outcome": "accepted", **functions.get(request["op"], unsupported)(request)}
        except Unsupported as reason:
            answer = {"outcome": "unsupported", "error": str(reason)}
        except Exception as error:  # each library has errors of its own; the driver tells refusals from crashes
            answer = {"outcome": "refused", "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=output, flush=True)


def marked(value: Any, paths: list[list[Any]], mark: Callable[[Any], Any]) -> Any:
    """Wrap the names and elements at these paths with ``mark``, as libraries with an ``SDObj`` want it."""
    within: dict[Any, list[list[Any]]] = {}
    for first, *rest in paths:
        within.setdefault(first, []).append(rest)
    if isinstance(value, list):
        inner = [marked(one, [path for path in within.get(n, []) if path], mark) for n, one in enumerate(value)]
        return [mark(one) if [] in within.get(n, []) else one for n, one in enumerate(inner)]
    if isinstance(value, dict):
        return {
            mark(name) if [] in within.get(name, []) else name: marked(
                one, [path for path in within.get(name, []) if path], mark
            )
            for name, one in value.items()
        }
    return value


def selected(value: Any, paths: list[list[Any]]) -> Any:
    """Build a tree in the shape of the claims, with True at these paths."""
    if not any(paths) or not isinstance(value, list | dict):
        return bool(paths)
    items = enumerate(value) if isinstance(value, list) else value.items()
    chosen = {name: selected(one, [path[1:] for path in paths if path[:1] == [name]]) for name, one in items}
    return list(chosen.values()) if isinstance(value, list) else {name: one for name, one in chosen.items() if one}
