"""Every call of a library, made to raise every exception that the library has: what comes out is ours.

A library's call is here once. Who adds a library to ``sdcard`` or ``issuer_service`` says here how it is called.
"""

import asyncio
import inspect
import os
import sqlite3
import ssl
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import asyncpg
import cryptography.exceptions
import dns.asyncresolver
import dns.exception
import dns.resolver
import httpcore2
import httpx2
import jsonschema.exceptions
import jwcrypto.common
import jwcrypto.jwe
import jwcrypto.jwk
import pytest
import referencing.exceptions
import rfc8785
import sqlalchemy.exc
import yaml
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from issuer_service import server as tls
from issuer_service.keys import ring as sealing
from issuer_service.keys.repository import KeyUse
from sdcard import Misuse, Refused, status_list
from sdcard import oauth as oauth_keys
from sdcard.audit_chain import record_digest
from sdcard.cards import documents
from sdcard.cards.a2a import signed_form as forms
from sdcard.cards.agentcard import shared as identity
from sdcard.cli import output
from sdcard.encoding import parse_json
from sdcard.errors import Part, Where, foreign_code
from sdcard.io import http as fetching
from sdcard.io import key_files
from sdcard.io.database import open_database
from sdcard.io.domain_lookups import DomainLookups
from sdcard.io.egress_policy import LOOPBACK, EgressPolicy
from sdcard.io.key_files import generate_jwk
from sdcard.io.registry_client import Registry
from sdcard.jose import algorithms as ml_dsa
from sdcard.jose import keys as jose_keys
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import InMemorySigner
from sdcard.policy import document as policies
from sdcard.rules import Rule
from tests.sources import PRODUCT, files, imported
from tests.world import key, key_of

WHERE = Where(Part.KEY)
NOWHERE = "http://127.0.0.1:9"
NO_RECORDS = (dns.resolver.NXDOMAIN, dns.resolver.NoAnswer)
COMMON: list[type[Exception]] = [
    ValueError, TypeError, KeyError, IndexError, AttributeError, RuntimeError, RecursionError, OverflowError,
    MemoryError, ArithmeticError, AssertionError, NotImplementedError, UnicodeDecodeError, UnicodeEncodeError, EOFError,
    BufferError,
]  # fmt: skip
Plant = Callable[[pytest.MonkeyPatch, Callable[..., Any]], Callable[[], Any]]
"""Puts a function that raises into the place of a library's, and gives what calls it."""


def all_of(*modules: ModuleType) -> list[type[Exception]]:
    """Every exception class of these modules."""
    found = {
        one
        for module in modules
        for one in vars(module).values()
        if inspect.isclass(one) and issubclass(one, Exception) and not issubclass(one, Warning)
    }
    return sorted(found, key=lambda one: one.__qualname__)


def made(error: type[Exception]) -> Exception:
    """An instance, whatever its constructor asks for; its text must not come out."""
    found = error.__new__(error)
    BaseException.__init__(found, "canary")
    return found


def verify(patch: pytest.MonkeyPatch, fail: Callable[..., Any], algorithm: SignatureAlgorithm) -> Callable[[], Any]:
    public = replace(key_of(algorithm).public_key, _key=SimpleNamespace(verify=fail))
    assert public.verifies(b"m", bytes(algorithm.signature_size)) is False
    raise Misuse("not verified, as is documented")


def rsa(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
    assert oauth_keys.RsaKey(SimpleNamespace(verify=fail), "t").verifies(b"m", b"s") is False  # type: ignore[arg-type]
    raise Misuse("not verified, as is documented")


def sign(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
    signer = InMemorySigner(key(1)._key)
    signer._key, signer._native = SimpleNamespace(sign=fail), None
    return lambda: signer.sign(b"m")


def at(module: Any, name: str, call: Callable[[], Any], *, method: str = "") -> Plant:
    """The name in a module, or a method of the class of this name, fails."""

    def plant(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
        if method:
            failing = SimpleNamespace(x=1, y=1, **{method: fail})
            patch.setattr(module, name, lambda *_, **__: failing)
        else:
            patch.setattr(module, name, fail)
        return call

    return plant


def yaml_events(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
    def events(*_: Any, **__: Any) -> Iterator[Any]:
        yield fail()

    patch.setattr(yaml, "parse", events)
    return lambda: documents.parse_yaml(b"a: b", WHERE, 8)


def fetched() -> Any:
    return fetching.fetch("http://127.0.0.1:9/x", LOOPBACK, ("application/json",), 10)


def resolved(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: fetching.fetch("https://a.example/x", EgressPolicy(resolve=fail), ("application/json",), 10)


def certificate(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
    folder = Path(os.environ["PYTEST_FOLDER"])
    for name in ("cert", "key"):
        (folder / name).touch(0o600)
    patch.setattr(ssl.SSLContext, "load_cert_chain", fail)
    return lambda: tls.tls_context(folder / "cert", folder / "key")


def from_database(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
    async def ask() -> None:
        database = open_database("sqlite://")
        try:
            await database.read(lambda connection: fail())
        finally:
            await database.close()

    return lambda: asyncio.run(ask())


ES, ED, ML = (one.to_jwk() for one in (key(1).public_key, key_of(SignatureAlgorithm.EDDSA).public_key,
                                       key_of(SignatureAlgorithm.ML_DSA_44).public_key))  # fmt: skip
RSA = {"kid": "k", "kty": "RSA", "e": "AQAB", "n": "3" + "f" * 341}
PRIVATE = generate_jwk(SignatureAlgorithm.ES256)
KEK = sealing.KeyEncryptionKey(bytes(32))
SEALED = KEK.seal({"a": 1}, key(1).public_key, KeyUse.CARDS)
CRYPTOGRAPHY = all_of(cryptography.exceptions)
JWCRYPTO = all_of(jwcrypto.common, jwcrypto.jwk, jwcrypto.jwe)
SCHEMA = all_of(jsonschema.exceptions, referencing.exceptions)
HTTP = all_of(httpx2, httpcore2, ssl)
SQL = all_of(sqlalchemy.exc, sqlite3, asyncpg)
OURS_IN_SQL: tuple[type[Exception], ...] = (sqlite3.ProgrammingError, sqlite3.Warning)
OURS_IN_SQL += (sqlalchemy.exc.IntegrityError, sqlalchemy.exc.DataError, sqlalchemy.exc.ProgrammingError)
OURS_IN_SQL += (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.CompileError)
"""Wrong statements: our own bugs, which are logged as such and answered with 500 (``reachable``)."""

CALLS: dict[str, tuple[list[type[Exception]], Plant]] = {
    "cryptography: verify ES256": (CRYPTOGRAPHY, lambda p, f: verify(p, f, SignatureAlgorithm.ES256)),
    "cryptography: verify EdDSA": (CRYPTOGRAPHY, lambda p, f: verify(p, f, SignatureAlgorithm.EDDSA)),
    "cryptography: verify ML-DSA": (CRYPTOGRAPHY, lambda p, f: verify(p, f, SignatureAlgorithm.ML_DSA_44)),
    "cryptography: verify RS256": (CRYPTOGRAPHY, rsa),
    "cryptography: sign": (CRYPTOGRAPHY, sign),
    "cryptography: a point": (
        CRYPTOGRAPHY,
        at(ec, "EllipticCurvePublicNumbers", lambda: read_key(ES), method="public_key"),
    ),
    "cryptography: Ed25519": (CRYPTOGRAPHY, at(ed25519, "Ed25519PublicKey", lambda: read_key(ED))),
    "cryptography: ML-DSA": (CRYPTOGRAPHY, at(ml_dsa, "public_key_of", lambda: read_key(ML))),
    "cryptography: RSA": (
        CRYPTOGRAPHY,
        at(oauth_keys, "RSAPublicNumbers", lambda: oauth_keys._parse_rsa(RSA, WHERE), method="public_key"),
    ),
    "jwcrypto: JWK": (JWCRYPTO, at(key_files, "JWK", lambda: key_files.parse_private_jwk(PRIVATE))),
    "jwcrypto: generate": (JWCRYPTO, at(key_files, "_generate", lambda: generate_jwk(SignatureAlgorithm.ES256))),
    "jwcrypto: seal": (JWCRYPTO, at(sealing, "JWE", lambda: KEK.seal({}, key(1).public_key, KeyUse.CARDS))),
    "jwcrypto: open": (JWCRYPTO, at(sealing, "JWE", lambda: KEK.open(SEALED, key(1).public_key, KeyUse.CARDS))),
    "jsonschema: policies": (SCHEMA, lambda patch, fail: policy(patch, fail)),
    "pyyaml": (all_of(yaml, yaml.error, yaml.reader, yaml.scanner, yaml.parser), yaml_events),
    "rfc8785: cards": (all_of(rfc8785), at(rfc8785, "dumps", lambda: forms.canonical_json({}))),
    "rfc8785: audit": (all_of(rfc8785), at(rfc8785, "dumps", lambda: record_digest({"at": 0.5}))),
    "ulid": (all_of(sys.modules["ulid"]) if "ulid" in sys.modules else [], lambda p, f: ulid(p, f)),
    "zlib: status lists": (all_of(zlib), at(status_list, "zlib", lambda: inflate())),
    "zlib: gzip": (all_of(zlib), at(fetching, "zlib", lambda: fetching._inflate(b"x", 10))),
    "dnspython: a query": (
        [one for one in all_of(dns.exception, dns.resolver) if not issubclass(one, NO_RECORDS)],
        at(dns.asyncresolver, "Resolver", lambda: query(), method="resolve"),
    ),
    "httpx2: a fetch": (HTTP, at(httpx2.AsyncClient, "stream", fetched)),
    "httpx2: a client": (HTTP, at(httpx2, "AsyncClient", fetched)),
    "httpx2: the registry": (HTTP, at(httpx2.Client, "stream", lambda: Registry(NOWHERE, "t", 0.0).nonce())),
    "ssl: authorities": (HTTP, at(ssl.SSLContext, "load_verify_locations", lambda: fetching._tls("x"))),
    "the resolver": (HTTP, resolved),
    "ssl: a certificate": (all_of(ssl), certificate),
    "SQLAlchemy, sqlite3, asyncpg": (SQL, from_database),
}


def ulid(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
    import ulid as library

    patch.setattr(library.ULID, "from_bytes", fail)
    return lambda: identity.new_agent_id(1.0, bytes(10))


def policy(patch: pytest.MonkeyPatch, fail: Callable[..., Any]) -> Callable[[], Any]:
    patch.setattr(policies, "_VALIDATOR", SimpleNamespace(iter_errors=fail))
    return lambda: policies.parse_policy(b"{}")


def read_key(jwk: Any) -> Any:
    return jose_keys.parse_public_jwk(jwk, WHERE)


def query() -> Any:
    return asyncio.run(DomainLookups()._ask("a.example"))


def inflate() -> Any:
    return status_list.parse_status_list({"bits": 1, "lst": "AAAA"}, WHERE, 100)


@pytest.mark.parametrize("call", CALLS)
def test_whatever_a_library_raises_comes_out_as_ours(
    call: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    documented, plant = CALLS[call]
    monkeypatch.setenv("PYTEST_FOLDER", str(tmp_path))
    own = (*OURS_IN_SQL, asyncpg.PostgresError) if call.startswith("SQL") else ()
    common = [] if call.startswith("SQL") else COMMON
    if "verify" in call:  # that has no room for more than it may raise
        common = [one for one in COMMON if issubclass(one, jose_keys.LIBRARY_FAILS)]
    for error in [*documented, *common]:
        if issubclass(error, OSError) and not issubclass(error, ssl.SSLError) and call.startswith("ssl: a cert"):
            continue  # documented: the file cannot be read
        planted = made(error)

        def fail(*_: Any, error: Exception = planted, **__: Any) -> Any:
            raise error

        with monkeypatch.context() as patch, pytest.raises((Refused, Misuse, *own)) as raised:
            plant(patch, fail)()
        if not is_own(raised.value):
            assert "canary" not in str(raised.value), error


def is_own(error: BaseException) -> bool:
    """Whether it is said to be a bug of ours: a wrong statement."""
    sqlstate = str(getattr(error, "sqlstate", "") or "")
    return isinstance(error, OURS_IN_SQL) or sqlstate.startswith(("21", "22", "23", "42"))


def test_the_libraries_document_as_many_exceptions_as_were_counted() -> None:
    counted = {"cryptography: sign": 6, "jwcrypto: JWK": 10, "httpx2: a fetch": 30, "SQLAlchemy, sqlite3, asyncpg": 100}
    assert {name: len(CALLS[name][0]) >= least for name, least in counted.items()} == dict.fromkeys(counted, True)


def test_the_fast_readers_of_json_are_only_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    from sdcard import encoding

    for error in (ValueError, TypeError, UnicodeDecodeError, UnicodeEncodeError):

        def fail(*_: Any, error: type[Exception] = error, **__: Any) -> Any:
            raise made(error)

        monkeypatch.setattr(encoding, "_orjson", SimpleNamespace(loads=fail, dumps=fail, OPT=0))
        assert parse_json(b'{"a": 1}', WHERE, 8) == {"a": 1}


def test_refusals_and_misuse_of_ours_pass() -> None:
    for ours in (Refused(Rule.CNF, WHERE), Misuse("m")):
        with pytest.raises(type(ours)) as raised, foreign_code(Misuse, "another"):
            raise ours
        assert raised.value is ours
    for passing in (KeyboardInterrupt, asyncio.CancelledError, SystemExit):
        with pytest.raises(passing), foreign_code(Misuse, "another"):
            raise passing


# -- files ------------------------------------------------------------------------------------------------------------


WRITERS: dict[str, Callable[[Path], Any]] = {
    "a key": lambda path: key_files.create_key_file(path),
    "a secret": lambda path: key_files.create_private_file(path, "x"),
    "an SD-Card": lambda path: output.write_private_file(path, b"x"),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("name", ["fsync", "link", "write", "replace", "rename"])
def test_a_file_that_cannot_be_written_whole_is_not_there(
    writer: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        if name == "write":
            patch.setattr(os, "fdopen", lambda *_, **__: fail())
        else:
            patch.setattr(os, name, fail)
        try:
            WRITERS[writer](tmp_path / "file")
        except OSError:
            assert list(tmp_path.iterdir()) == []
        else:
            assert [one.name for one in tmp_path.iterdir()] == ["file"]


# -- nothing else calls a library -------------------------------------------------------------------------------------


WRAPPED = {
    "cryptography", "jwcrypto", "jsonschema", "yaml", "rfc8785", "ulid", "zlib", "gzip", "httpx2", "ssl", "sqlalchemy",
    "sqlite3", "asyncpg", "orjson", "pybase64", "pkcs11", "sdcard_native", "dns",
}  # fmt: skip
"""Tried here, and in ``tests/sdcard/io/test_pkcs11.py``."""
FRAMES = {
    "a2a": "calls us", "mcp": "calls us", "mcp_types": "types", "fastapi": "calls us", "starlette": "calls us",
    "pydantic": "checks our own shapes; the framework answers what it refuses", "pydantic_settings": "as pydantic",
    "uvicorn": "calls us", "httpx": "calls us", "typer": "calls us", "rich": "prints", "anyio": "calls us",
    "structlog": "writes logs", "prometheus_client": "counts", "jinja2": "our own templates",
    "alembic": "our own scripts", "pytest": "runs the fixtures of sdcard.testing",
    "uvloop": "runs us", "h11": "calls us", "markupsafe": "our own templates", "pydantic_core": "as pydantic",
}  # fmt: skip
"""Libraries that call our code, or that are given nothing of a stranger's."""


def test_every_library_is_wrapped_or_has_a_reason() -> None:
    found = {name.partition(".")[0] for path in files(*PRODUCT) for name in imported(path)}
    foreign = {one for one in found if one not in sys.stdlib_module_names} - {"sdcard", "issuer_service", "inspector"}

    assert foreign - WRAPPED - FRAMES.keys() == set()
