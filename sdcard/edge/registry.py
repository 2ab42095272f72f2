"""A client of a registry, over HTTP: register an agent, fetch the registry's keys. Needs the ``cli`` extra."""

from typing import Any

import httpx2

from sdcard.encoding import JsonObject, encode_json, parse_json_object
from sdcard.errors import Finding, Level, Misuse, Part, Refused, Where
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule
from sdcard.trust import TrustedIssuers, parse_key_set

MAX_ANSWER = 16 * 1024 * 1024
TIMEOUT = 30.0


class Registry:
    """One registry at one address. No redirect is followed; answers are bounded in size and time."""

    def __init__(self, address: str, token: str | None = None) -> None:
        self._address = address.rstrip("/")
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}

    def register(self, body: JsonObject) -> JsonObject:
        """``POST /agents/register``: the registry's answer.

        Raises:
            Refused: with the registry's findings, when it refuses.
            Misuse: when it cannot be reached, or answers as no registry does.
        """
        return self._call("POST", "/agents/register", encode_json(body))

    def issuer(self) -> tuple[TrustedIssuers, JsonObject]:
        """The registry as an Issuer: its keys, and the trust document that says the same.

        Fetching does not make it trusted: whoever keeps the result decides that.

        Raises:
            Misuse: as for ``register``.
        """
        metadata = self._call("GET", "/.well-known/jwt-vc-issuer")
        name, jwks = metadata.get("issuer"), self._call("GET", "/.well-known/jwks.json")
        if not isinstance(name, str):
            raise Misuse("the registry's metadata names no issuer")
        return TrustedIssuers({name: parse_key_set(jwks, Where(Part.TRUST))}), {"issuers": {name: jwks}}

    def _call(self, method: str, path: str, body: bytes | None = None) -> JsonObject:
        headers = {**self._headers, "Accept": "application/json", "Content-Type": "application/json"}
        try:
            with (
                httpx2.Client(timeout=TIMEOUT, follow_redirects=False, trust_env=False) as client,
                client.stream(method, self._address + path, content=body, headers=headers) as answer,
            ):
                data = _bounded(answer)
        except httpx2.InvalidURL:
            raise Misuse("the registry's address is no URL") from None
        except httpx2.HTTPError as error:
            raise Misuse(f"the registry cannot be reached: {type(error).__name__}") from None
        try:
            document = parse_json_object(data, Where(Part.REQUEST), DEFAULT_LIMITS.json_depth)
        except Refused:
            raise Misuse(f"the registry's answer ({answer.status_code}) is not JSON") from None
        if answer.status_code >= 400:
            raise _refusal(document, answer.status_code)
        return document


def _bounded(answer: Any) -> bytes:
    data = bytearray()
    for chunk in answer.iter_bytes():
        data += chunk
        if len(data) > MAX_ANSWER:
            raise Misuse("the registry's answer is too long")
    return bytes(data)


def _refusal(problem: JsonObject, status: int) -> Exception:
    """The registry's problem document as the refusal it came from."""
    findings = problem.get("findings")
    rules = {rule.value: rule for rule in Rule}
    read = [
        Finding(rules[str(one["rule"])], _where(str(one.get("where", ""))), str(one.get("hint", "")),
                Level(str(one.get("level", "error"))))
        for one in (findings if isinstance(findings, list) else [])
        if isinstance(one, dict) and one.get("rule") in rules
    ]  # fmt: skip
    return Refused.because(read) if read else Misuse(f"the registry answered {status}")


def _where(text: str) -> Where:
    part, *path = text.split("/")
    return Where(Part(part) if part in Part._value2member_map_ else Part.REQUEST, tuple(path))
