"""Attacks on an Issuer and on a status list: healthy ones pass, and each planted fault is found."""

import json
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from sdcard import TrustedIssuers
from sdcard.conformance import Check, Outcome, Request, Response, Result, run_checks
from sdcard.conformance.forging import CARD
from sdcard.conformance.services import ISSUER_CHECKS, LIST_CHECKS, Service
from sdcard.encoding import encode_base64url
from sdcard.jose.jws import encode_signing_input, join_signature
from tests.issuer_service.desk import Desk
from tests.sdcard.conformance.broken import HOLDER, STRANGER, AppClient, named
from tests.world import ISSUER, NOW, key

Change = Callable[[Request, Response], Response]
LIST = "https://registry.example/status/1"
SIGNER = key(44)


class Changed:
    """A client in front of a broken server."""

    def __init__(self, client: Any, change: Change) -> None:
        self._client, self._change = client, change

    def send(self, request: Request) -> Response:
        return self._change(request, self._client.send(request))


def failed(found: list[Result]) -> set[str]:
    return {one.name for one in found if one.outcome is Outcome.FAILED}


def document(response: Response, value: Any) -> Response:
    return Response(200, (("content-type", "application/json"),), json.dumps(value).encode())


# -- an Issuer --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def registry() -> Iterator[tuple[AppClient, str]]:
    with TemporaryDirectory() as folder:
        desk = Desk(Path(folder))
        with desk.open() as opened:
            client = AppClient(None)
            client._client = opened.client  # type: ignore[assignment]
            yield client, desk.token


def issuer(registry: tuple[AppClient, str], change: Change | None = None, token: bool = True) -> Service:
    client, secret = registry
    return Service(
        url=ISSUER,
        client=client if change is None else Changed(client, change),
        instant=lambda: NOW,
        token=secret if token else None,
        holder=HOLDER.public_key,
    )


def test_our_registry_passes_every_check(registry: tuple[AppClient, str]) -> None:
    found = list(run_checks(ISSUER_CHECKS, issuer(registry)))

    assert [(one.name, one.reason) for one in found if one.outcome is not Outcome.PASSED] == []


def test_without_a_test_token_no_request_could_change_anything(registry: tuple[AppClient, str]) -> None:
    client, _ = registry
    before = len(client.requests)
    found = list(run_checks(ISSUER_CHECKS, issuer(registry, token=False)))
    sent = client.requests[before:]

    assert {one.outcome for one in found} == {Outcome.PASSED, Outcome.SKIPPED}
    assert all("token" in one.reason for one in found if one.outcome is Outcome.SKIPPED)
    assert {request.method for request in sent} <= {"GET", "DELETE", "POST"}
    assert [one for one in sent if one.method == "POST" and one.body != b"{}"] == []
    assert [one for one in sent if one.method == "DELETE" and "/.well-known/" not in one.url] == []


def accepting(rule: str) -> Change:
    return lambda request, response: Response(201, (), b"{}") if named(response) == rule else response


def of_jwks(name: str, change: Callable[[list[Any]], list[Any]]) -> Change:
    def changed(request: Request, response: Response) -> Response:
        if request.url.endswith(f"/{name}.json"):
            return document(response, {"keys": change(json.loads(response.body)["keys"])})
        return response

    return changed


PUBLISHED = {"kty": "EC", "crv": "P-256", "kid": "x"} | {
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU", "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
}  # fmt: skip
"""The key of RFC 7515 A.3."""


def same_keys(request: Request, response: Response) -> Response:
    return document(response, PUBLISHED_KEYS) if request.url.endswith("jwks.json") else response


PUBLISHED_KEYS = {"keys": [{**STRANGER.public_key.to_jwk(), "kid": "a"}]}


def other_issuer(request: Request, response: Response) -> Response:
    if request.url.endswith("/jwt-vc-issuer"):
        return document(response, {**json.loads(response.body), "issuer": "https://other.example"})
    return response


def other_holder(request: Request, response: Response) -> Response:
    if request.method == "POST" and response.status == 201:
        return document(response, {"cards": [{"sd_card": "x"}]})
    return response


ISSUER_FAULTS: dict[str, tuple[Change, str]] = {
    "metadata of another Issuer": (other_issuer, "issuer/metadata"),
    "a private key is published": (of_jwks("jwks", lambda keys: [{**keys[0], "d": "A" * 43}]), "issuer/key-private"),
    "no point": (of_jwks("jwks", lambda keys: [*keys, {**keys[0], "kid": "b", "x": "AA"}]), "issuer/key-malformed"),
    "the key of a standard": (of_jwks("jwks", lambda keys: [PUBLISHED]), "issuer/key-published"),
    "keys without names": (of_jwks("jwks", lambda keys: [{**keys[0], "kid": ""}]), "issuer/key-ids"),
    "one key for everything": (same_keys, "issuer/key-repeated"),
    "unknown paths are found": (accepting("request.not-found"), "issuer/request-not-found"),
    "every method": (accepting("request.method"), "issuer/request-method"),
    "no token": (accepting("token.missing"), "issuer/token-missing"),
    "any token": (accepting("token.invalid"), "issuer/token-invalid"),
    "any media type": (accepting("request.media-type"), "issuer/request-media-type"),
    "any bytes": (accepting("json.malformed"), "issuer/json-malformed"),
    "a member twice": (accepting("json.duplicate-member"), "issuer/json-duplicate"),
    "any depth": (accepting("json.depth"), "issuer/json-depth"),
    "private keys of Holders": (accepting("key.private"), "issuer/holder-private-key"),
    "any document": (accepting("card.format"), "issuer/card-format"),
    "any agent id": (accepting("agent-id.malformed"), "issuer/agent-id"),
    "any context": (accepting("context.unknown"), "issuer/context"),
    "contexts twice": (accepting("context.repeated"), "issuer/context-repeated"),
    "SD-Cards that do not verify": (other_holder, "issuer/registration"),
}  # fmt: skip
"""Fault → server, and the check that finds it."""


@pytest.mark.parametrize("fault", ISSUER_FAULTS)
def test_a_broken_issuer_is_found(registry: tuple[AppClient, str], fault: str) -> None:
    change, check = ISSUER_FAULTS[fault]
    needed = [one for one in ISSUER_CHECKS if one.name in (check, "issuer/registration")]

    assert check in failed(list(run_checks(needed, issuer(registry, change))))


def test_keys_at_another_origin_are_not_fetched(registry: tuple[AppClient, str]) -> None:
    def elsewhere(request: Request, response: Response) -> Response:
        if request.url.endswith("/jwt-vc-issuer"):
            return document(response, {"issuer": ISSUER, "jwks_uri": "https://victim.example/keys"})
        return response

    client, _ = registry
    before = len(client.requests)
    found = list(run_checks(ISSUER_CHECKS, issuer(registry, elsewhere)))

    assert {one.reason for one in found if one.name == "issuer/key-published"} == {
        "`jwks_uri` is at another origin, which is not tested"
    }
    assert all(one.url.startswith(ISSUER) for one in client.requests[before:])


# -- a status list ----------------------------------------------------------------------------------------------------


class Listed:
    """A server with a status list."""

    def __init__(self, **changes: Any) -> None:
        self._media_type = changes.pop("media_type", "application/statuslist+jwt")
        self._ignores_time = changes.pop("ignores_time", False)
        self._accepts_all = changes.pop("accepts_all", False)
        self._status = changes.pop("status", 200)
        signer = changes.pop("signer", SIGNER)
        header = {
            "alg": "ES256",
            "typ": "statuslist+jwt",
            "kid": SIGNER.public_key.thumbprint,
            **changes.pop("header", {}),
        }
        packed = {"bits": 1, "lst": encode_base64url(zlib.compress(bytes(16)))}
        good = {"sub": LIST, "iat": NOW - 10, "exp": NOW + 600, "ttl": 60, "status_list": packed, **changes}
        payload = {name: value for name, value in good.items() if value is not None}
        signing_input = encode_signing_input(header, payload)
        self._token = join_signature(signing_input, signer.sign(signing_input))

    def send(self, request: Request) -> Response:
        if request.method != "GET":
            return Response(200 if self._accepts_all else 405)
        if "?" in request.url and not self._ignores_time:
            return Response(501)
        return Response(self._status, (("content-type", self._media_type),), self._token.encode())


def list_results(client: Any, checks: tuple[Check[Service], ...] = LIST_CHECKS, trusted: bool = True) -> list[Result]:
    trust = TrustedIssuers(
        {ISSUER: {"k": STRANGER.public_key}}, {ISSUER: {SIGNER.public_key.thumbprint: SIGNER.public_key}}
    )
    return list(
        run_checks(checks, Service(url=LIST, client=client, instant=lambda: NOW, trusted=trust if trusted else None))
    )


LIST_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "absent": ({"status": 404}, "list/status-unavailable"),
    "another media type": ({"media_type": "text/plain"}, "list/status-unavailable"),
    "another type": ({"header": {"typ": "JWT"}}, "list/jws-typ"),
    "signed by a stranger": ({"signer": STRANGER}, "list/jws-signature"),
    "not signed": ({"header": {"alg": "none"}}, "list/jws-signature"),
    "of another address": ({"sub": f"{LIST}0"}, "list/status-list-other"),
    "expired": ({"exp": NOW - 1}, "list/time-expired"),
    "of tomorrow": ({"iat": NOW + 3600, "exp": NOW + 7200}, "list/time-issued"),
    "not compressed": ({"status_list": {"bits": 1, "lst": "AAAA"}}, "list/malformed"),
    "without an end": ({"exp": None}, "list/claim-missing"),
    "the present for the past": ({"ignores_time": True}, "list/status-list-time"),
    "every method": ({"accepts_all": True}, "list/request-method"),
}
"""Fault → server, and the check that finds it."""


def test_a_healthy_status_list_passes_every_check() -> None:
    found = list_results(Listed())

    assert [(one.name, one.outcome, one.reason) for one in found if one.outcome is not Outcome.PASSED] == []


@pytest.mark.parametrize("fault", LIST_FAULTS)
def test_a_broken_status_list_is_found(fault: str) -> None:
    changes, check = LIST_FAULTS[fault]

    assert check in failed(list_results(Listed(**changes)))


def test_a_text_that_is_no_token_is_found() -> None:
    class Text:
        def send(self, request: Request) -> Response:
            return Response(200, (("content-type", "application/statuslist+jwt"),), b"hello")

    assert "list/jws-format" in failed(list_results(Text()))


def test_without_the_issuer_the_signature_is_not_checked() -> None:
    found = list_results(Listed(), trusted=False)

    assert {one.reason for one in found if one.outcome is Outcome.SKIPPED} == {"it needs the trusted Issuer: --trust"}


def test_a_status_list_of_our_registry_passes(registry: tuple[AppClient, str]) -> None:
    client, token = registry
    service = issuer(registry)
    keys = service.keys("status_jwks_uri")
    sent = (("Content-Type", "application/json"), ("Authorization", f"Bearer {token}"))
    body = json.dumps({**registration(), "public_key": {**key(45).public_key.to_jwk()}}).encode()
    answer = client.send(Request("POST", f"{ISSUER}/agents/register", sent, body)).document()
    cards: Any = answer["cards"]
    trusted = TrustedIssuers({ISSUER: service.keys("jwks_uri")}, {ISSUER: keys})
    listed = Service(url=cards[0]["status"]["uri"], client=client, instant=lambda: NOW, trusted=trusted)
    found = list(run_checks(LIST_CHECKS, listed))

    assert [(one.name, one.outcome, one.reason) for one in found if one.outcome is not Outcome.PASSED] == []


def registration() -> dict[str, Any]:
    card = json.loads(CARD)
    named = {name: card[name] for name in ("name", "description", "version")}
    return {**named, "card": card, "agent_id": "listed", "disclosure_contexts": [{"context": "public"}]}
