"""A registry in memory's reach: a fresh database, a clock that tests move, counted salts, and ways to ask it."""

import asyncio
import contextlib
import hashlib
import json
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from sqlalchemy import Connection, insert
from starlette.routing import BaseRoute, Route
from starlette.testclient import TestClient

from issuer_service.access import Limit, Scope, create_token
from issuer_service.agents.new_agents_repository import add_agent
from issuer_service.agents.records import RegistrationRow, StoredResponse
from issuer_service.agents.repository import record_registration, record_registrations
from issuer_service.app import ROUTERS, _routes, create_app
from issuer_service.audit.records import AuditFound, AuditQuery
from issuer_service.audit.repository import ChainKeys
from issuer_service.audit.service import chain_waiting, find_records, verify_database, verify_state
from issuer_service.console.endpoints import router as console
from issuer_service.container import AuditCheckpoints, Container, StatusPublishing
from issuer_service.db import retention
from issuer_service.db.migrations import upgrade
from issuer_service.db.tables import registry_keys, status_lists, tokens
from issuer_service.discovery.postings_repository import DiscoverySecret
from issuer_service.discovery.records import DiscoveryQuery, FoundPage
from issuer_service.discovery.repository import find_agents
from issuer_service.keys import repository as keys_repository
from issuer_service.keys.repository import KeyState, KeyUse, RegistryKeyRow, row_values
from issuer_service.keys.ring import KeyEncryptionKey, KeyRing, KeysInUse, Vault
from issuer_service.rate_limit import UNLIMITED
from issuer_service.status.repository import LISTS
from issuer_service.tokens import TokenRow, add_token
from sdcard import InMemorySigner, Refused
from sdcard.audit_chain import Checkpoint, Verdict
from sdcard.encoding import JsonObject, encode_base64url
from sdcard.io.database import Database, open_database
from sdcard.io.sqlite import create_private
from sdcard.jose.algorithms import EC_PARAMETERS
from sdcard.jose.jws import Signer
from tests.postgres import query, sqlite
from tests.world import ISSUER, NOW, MovableClock, RecordingSalts, example, key

T = TypeVar("T")
P = ParamSpec("P")


@cache
def _prepared() -> tuple[bytes, str, Sequence[bytes]]:
    """The file of a registry on SQLite that has just begun, the token for it, and the salts that it took."""
    with TemporaryDirectory() as folder:
        desk = Desk(Path(folder), f"sqlite+aiosqlite:///{folder}/registry.sqlite")
        return desk.file.read_bytes(), desk.token, tuple(desk.salts.drawn)


on_both_databases = pytest.mark.parametrize("desk", ["sqlite", "postgresql"], indirect=True)

HOLDER = key(20)
TABLES = (
    *("agent_checks", "agents", "answers", "approvals", "audit", "audit_head", "audit_waiting", "batches", "cards"),
    "delegations",
    *("discovery_cards", "discovery_postings", "domain_proofs", "grants", "heartbeats", "holder_keys", "log_head"),
    *(
        "log_leaves",
        "log_tiles",
        "registry_keys",
        "remembered",
        "reviews",
        "sessions",
        "status_entries",
        "status_lists",
        "tokens",
        "used_nonces",
    ),
)
"""But ``secrets``, which the migration fills."""
ORDERED = {"audit_waiting": "1", "domain_proofs": "1"}
"""Tables whose second column is JSON, which PostgreSQL does not order."""
KEK_SECRET = b"desk" * 8
KEK = KeyEncryptionKey(KEK_SECRET)
VAULT = Vault(KEK)
REGISTRATION: JsonObject = {
    "agent_id": "ai-assistant-v2",
    "name": "AI Assistant Agent",
    "description": "General purpose AI assistant",
    "version": "2.1.0",
    "public_key": {
        "kty": "EC",
        "crv": "P-256",
        "x": "TCAER19Zvu3OHF4j4W4vfSVoHIP1ILilDls7vCeGemc",
        "y": "ZxjiWWbZMQGHVWKVQ4hbSIirsVfuecCE6t4jT9F2HZQ",
    },
    "disclosure_contexts": [
        {"context": "public", "disclose": ["skills", "endpoints", "operational_info"]},
        {
            "context": "internal",
            "disclose": ["skills", "endpoints", "operational_info", "provider", "security_context"],
        },
        {"context": "diagnostic", "disclose": ["operational_info", "provider"]},
    ],
}
"""The request that the SD-Card draft prints in 3.3.1, with its published key."""


def jwk(signer: InMemorySigner = HOLDER) -> JsonObject:
    """The public half, as a request carries it."""
    return dict(signer.public_key.to_jwk())


def request(agent_id: str = "ai-assistant-v2", **changes: Any) -> dict[str, Any]:
    """The draft's request with a key of our own, and changes. ``None`` leaves a member out."""
    whole = {**REGISTRATION, "public_key": jwk(), "agent_id": agent_id, **changes}
    return {name: value for name, value in whole.items() if value is not None}


def request_with_card(card: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A request for one full SD-Card of a complete card."""
    document = example() if card is None else card
    named = {name: document[name] for name in ("name", "description", "version") if name in document}
    return request(**{"card": document, **named, "disclosure_contexts": [{"context": "full"}], **changes})


def private_jwk(signer: InMemorySigner) -> JsonObject:
    """Both halves."""
    public, private = signer.public_key.to_jwk(), signer._key
    if isinstance(private, ec.EllipticCurvePrivateKey):
        size = EC_PARAMETERS[signer.public_key.algorithm].size
        return {**public, "d": encode_base64url(private.private_numbers().private_value.to_bytes(size, "big"))}
    raw: Any = private  # of Ed25519 and ML-DSA the private half is a seed
    return {**public, ("priv" if public["kty"] == "AKP" else "d"): encode_base64url(raw.private_bytes_raw())}


def key_row(
    signer: InMemorySigner, use: KeyUse = KeyUse.CARDS, state: KeyState = KeyState.ACTIVE, **changes: Any
) -> RegistryKeyRow:
    """A key of the registry, sealed under ``KEK``."""
    public = signer.public_key
    row = RegistryKeyRow(
        kid=public.thumbprint,
        use=use,
        public_jwk={**public.to_jwk(), "alg": public.algorithm.value},
        sealed=KEK.seal({"jwk": private_jwk(signer)}, public, use),
        state=state,
        created_at=NOW,
        not_before=NOW,
        activated_at=NOW,
        signs_until=None if use is KeyUse.AUDIT else 0,
    )
    return replace(row, **changes)


def seed_keys(url: str, *rows: RegistryKeyRow) -> None:
    """Put keys there as if they had always been: without an audit record."""
    values = [row_values(row) for row in rows]
    ask(url, lambda database: database.migrate(lambda connection: connection.execute(insert(registry_keys), values)))


def seed_lists(url: str) -> None:
    """Open all status lists as if they had always been: without an audit record."""
    rows = [{"list_id": hashlib.sha256(bytes([slot])).hexdigest()[:32], "slot": slot} for slot in range(LISTS)]
    ask(url, lambda database: database.migrate(lambda connection: connection.execute(insert(status_lists), rows)))


class FixedKeys:
    """Keys as a registry uses them, that never change. The database has them too."""

    def __init__(self, signers: Mapping[KeyUse, Signer]) -> None:
        published = {use: (signer.public_key,) for use, signer in signers.items()}
        own = frozenset(signer.public_key.thumbprint for signer in signers.values())
        self._keys = KeysInUse(signers, published, own)

    async def current(self) -> KeysInUse:
        return self._keys


class Unrecorded:
    """Remembers tokens as if they had always been: without an audit record."""

    def __init__(self, url: str) -> None:
        self._url = url

    async def change(self, work: object, token: TokenRow) -> None:
        assert work is add_token
        values = {name: getattr(token, name) for name in TokenRow.__slots__}
        values |= {"scopes": list(token.scopes), "limits": dict(token.limits)}
        if self._url.startswith("sqlite"):
            with sqlite(self._url).connect() as connection:
                connection.execute(insert(tokens), values)
            return
        database = open_database(self._url)
        try:
            await database.migrate(lambda connection: connection.execute(insert(tokens), values))
        finally:
            await database.close()


def all_routes() -> list[BaseRoute]:
    """Every route of a registry with a console."""
    own = [route for route in _routes().routes if isinstance(route, Route)]
    return [*own, *(route for router in (*ROUTERS, console) for route in router.routes)]


class Desk:
    """A registry, and the one who asks it.

    ``recorded``: whether the audit chain has its keys and tokens. Without them, its first record is of a test.
    """

    def __init__(self, folder: Path, url: str | None = None, *, recorded: bool = False) -> None:
        self.recorded = recorded
        self.file = folder / "registry.sqlite"
        self.url = url or f"sqlite+aiosqlite:///{self.file}"
        self.clock, self.salts, self.signer = MovableClock(), RecordingSalts("desk"), key(10)
        self.status_signer, self.audit_signer, self.token_signer = key(11), key(12), key(13)
        self.checkpoints = folder / "audit.checkpoints"
        if url is None and not recorded and not self.file.exists():
            self._begin_with(*_prepared())
        else:
            self.prepare()
            self.token = self.new_token("alice")

    def _begin_with(self, content: bytes, token: str, drawn: Sequence[bytes]) -> None:
        """Begin where another desk was when it was made, but with secrets of its own."""
        create_private(self.file)
        self.file.write_bytes(content)
        query(self.url, "UPDATE secrets SET value = randomblob(length(value))")
        self.token = token
        self.salts.drawn += drawn

    def prepare(self) -> None:
        """Tables, and a key for each use where there is none."""
        upgrade(self.url)
        if query(self.url, "SELECT kid FROM registry_keys") == [[]]:
            rows = [key_row(signer, use) for use, signer in self.signers().items()]
            if self.recorded:
                ask(self.url, changing(keys_repository.add_keys, rows))
            else:
                seed_keys(self.url, *rows)
                seed_lists(self.url)

    def signers(self) -> dict[KeyUse, InMemorySigner]:
        """Return the signer of each use."""
        cards_and_lists = {KeyUse.CARDS: self.signer, KeyUse.STATUS: self.status_signer}
        return {**cards_and_lists, KeyUse.AUDIT: self.audit_signer, KeyUse.TOKENS: self.token_signer}

    def container(self, database: Database | None = None, issuer: str = ISSUER, **changes: Any) -> Container:
        parts: dict[str, Any] = {"clock": self.clock, "salts": self.salts, **changes}
        opened = database or open_database(self.url)
        ring = KeyRing(opened, parts.pop("vault", VAULT), parts["clock"], parts.pop("sign_with", None))
        parts.setdefault("rates", UNLIMITED)
        parts.setdefault("audit", AuditCheckpoints(self.checkpoints))
        return Container(issuer, parts.pop("keys", ring), opened, **parts)

    @contextmanager
    def open(self, database: Database | None = None, peer: str = "testclient", **changes: Any) -> Iterator["OpenDesk"]:
        app = create_app(self.container(database, **changes))
        with TestClient(app, raise_server_exceptions=False, client=(peer, 50_000)) as client:
            yield OpenDesk(client, self.token)

    def new_token(
        self,
        subject: str,
        scopes: Sequence[Scope] = tuple(Scope),
        limits: Mapping[Limit, Sequence[str]] | None = None,
        lifetime: int = 3600,
    ) -> str:
        now = self.clock.now()

        def create(database: Any) -> Coroutine[Any, Any, str]:
            return create_token(database, subject, scopes, limits or {}, int(now) + lifetime, now, self.salts)

        return ask(self.url, create) if self.recorded else asyncio.run(create(Unrecorded(self.url)))

    def rows(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything that the registry remembers. Records that wait are in the chain, where that is possible."""
        chain(self.url)
        found = query(self.url, *(f"SELECT * FROM {table} ORDER BY {ORDERED.get(table, '1, 2')}" for table in TABLES))
        return {table: [tuple(map(_as_text, row)) for row in rows] for table, rows in zip(TABLES, found, strict=True)}

    def audit(self, **asked: Any) -> list[dict[str, Any]]:
        """The audit records that a query finds."""
        return [
            record for _, record in ask(self.url, lambda database: read_all(database, AuditQuery(**asked))) if record
        ]

    def verdict(self, *checkpoints: Checkpoint) -> Verdict:
        """Verify the registry's audit chain."""
        return verdict_of(self.url, *checkpoints)

    def differences(self) -> list[tuple[str, str]]:
        """List faults of the chain and of the tables beside it, except keys and tokens without a record."""
        return differences(self.url, self.recorded)

    def delete_ended(self) -> dict[str, int]:
        """Run the job that deletes rows that were kept long enough."""
        counted = Counter[str]()

        async def work() -> None:
            container = self.container()
            try:
                given = container.database, container.clock, container.salts
                await retention.delete_ended(*given, lambda table, rows: counted.update({table: rows}))
            finally:
                await container.database.close()

        asyncio.run(work())
        return dict(counted)

    def publish(self) -> None:
        """Wait until status lists show what has changed by now."""
        now = self.clock.now()
        self.clock.advance(StatusPublishing().public_at(now) - now)

    def counts(self) -> dict[str, int]:
        return {table: len(rows) for table, rows in self.rows().items()}


def ask(url: str, question: Callable[[Database], Awaitable[T]]) -> T:
    """Run a work on the registry's database, over a connection of its own."""

    async def asking() -> T:
        database = open_database(url)
        try:
            return await question(database)
        finally:
            await database.close()

    return asyncio.run(asking())


def changing(
    work: Callable[Concatenate[Connection, P], T], *arguments: P.args, **named: P.kwargs
) -> Callable[[Database], Awaitable[T]]:
    """Make a work that runs in one transaction."""
    return lambda database: database.change(work, *arguments, **named)


def reading(
    work: Callable[Concatenate[Connection, P], T], *arguments: P.args, **named: P.kwargs
) -> Callable[[Database], Awaitable[T]]:
    """Make a work that reads once."""
    return lambda database: database.read(work, *arguments, **named)


def recording(registration: RegistrationRow) -> Callable[[Database], Awaitable[StoredResponse | None]]:
    """A registration, to be written to a database."""

    async def record(database: Database) -> StoredResponse | None:
        secret = await DiscoverySecret(database).current()
        if await add_agent(database, registration, secret, ChainKeys(database)):
            return None
        return await database.change(record_registration, registration, secret)

    return record


def recording_all(registrations: Sequence[RegistrationRow]) -> Callable[[Database], Awaitable[int]]:
    """Registrations, to be written to a database at once."""

    async def record(database: Database) -> int:
        secret = await DiscoverySecret(database).current()
        return await database.change(record_registrations, registrations, secret)

    return record


def finding(query: DiscoveryQuery) -> Callable[[Database], Awaitable[FoundPage]]:
    """A search, to be asked of a database."""

    async def find(database: Database) -> FoundPage:
        return await find_agents(database, await DiscoverySecret(database).current(), query)

    return find


def differences(url: str, recorded: bool = True) -> list[tuple[str, str]]:
    """Rule and place of everything that is wrong with the chain, or not in the tables as the chain says.

    ``recorded``: as of a ``Desk``.
    """
    chain(url)
    verdict, state = ask(url, lambda database: verify_state(database, (), lambda _: None))
    own = set() if recorded else {"database/tokens", "database/registry_keys", "database/status_lists"}
    found = [(str(one.rule), str(one.where)) for one in (*verdict.findings, *state.findings)]
    return [(rule, at) for rule, at in found if rule != "audit.state-added" or at.rpartition("/")[0] not in own]


def verdict_of(url: str, *checkpoints: Checkpoint) -> Verdict:
    """Verify the audit chain of a database."""
    chain(url)
    return ask(url, lambda database: verify_database(database, checkpoints, lambda _: None))


def chain(url: str) -> None:
    """Add the audit records that wait to the chain, unless it has no head."""
    with contextlib.suppress(Refused):
        ask(url, chain_waiting)


async def read_all(database: Database, query: AuditQuery) -> list[AuditFound]:
    return [found async for found in find_records(database, query)]


def _as_text(value: Any) -> Any:
    """JSON columns are text in SQLite, and values in PostgreSQL."""
    return json.dumps(value) if isinstance(value, dict | list) else value


class OpenDesk:
    """The registry while it is open."""

    def __init__(self, client: httpx2.Client, token: str) -> None:
        self.client, self.token = client, token

    def post(self, body: bytes | str | JsonObject | dict[str, Any], **headers: str) -> httpx2.Response:
        content = json.dumps(body) if isinstance(body, dict) else body
        sent = {"content-type": "application/json", "authorization": f"Bearer {self.token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.post("/agents/register", content=content, headers=sent)

    def register(self, body: dict[str, Any], token: str | None = None) -> Any:
        """The answer to a request that is granted."""
        response = self.post(body, authorization=f"Bearer {token or self.token}")
        assert response.status_code == 201, response.text
        return response.json()

    def look_for(self, context: str = "public", token: str | None = None, **request: Any) -> httpx2.Response:
        """Look for agents: members of the query, and ``cursor``, ``max_results``, ``requester_claims``."""
        apart = ("cursor", "max_results", "requester_claims")
        body = {name: request.pop(name) for name in apart if name in request}
        headers = {"authorization": f"Bearer {token or self.token}"}
        return self.client.post(
            "/agents/discover", json={"query": request, "context": context, **body}, headers=headers
        )

    def found(self, context: str = "public", token: str | None = None, **request: Any) -> list[str]:
        """The ids of the agents on one page."""
        answer = self.look_for(context, token, **request)
        assert answer.status_code == 200, answer.text
        return [one["agent_id"] for one in answer.json()["results"]]

    def read(self) -> httpx2.Response:
        """Send a request that only needs the database: 404 if it works."""
        return self.get(f"/status/{'0' * 32}")

    def get(self, path: str) -> httpx2.Response:
        return self.client.get(path)

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, token: str | None = None, **headers: str
    ) -> httpx2.Response:
        """Anything, with a token."""
        sent = {"authorization": f"Bearer {token or self.token}"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return self.client.request(method, path, json=body, headers=sent)

    def done(self, method: str, path: str, body: dict[str, Any] | None = None, token: str | None = None) -> Any:
        """The answer to what is granted."""
        response = self.ask(method, path, body, token)
        assert response.status_code in (200, 201), response.text
        return response.json()


def findings(response: httpx2.Response) -> list[tuple[str, str]]:
    """Rule and place of everything that a problem document lists; its shape is checked on the way."""
    problem = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    assert response.headers["cache-control"] == "no-store"
    assert problem["status"] == response.status_code
    assert problem["type"] == f"urn:sd-card:rule:{problem['rule']}"
    assert (problem["rule"], problem["where"]) == (problem["findings"][0]["rule"], problem["findings"][0]["where"])
    assert problem["title"]
    assert problem["detail"]
    return [(one["rule"], one["where"]) for one in problem["findings"]]


def assert_refused(response: httpx2.Response, status: int, *expected: tuple[str, str]) -> None:
    """Exactly these findings, under this status."""
    assert (response.status_code, findings(response)) == (status, list(expected))
