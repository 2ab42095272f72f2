"""Settings of an operator, and their sources."""

import difflib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, IPvAnyAddress, SecretStr, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict, SettingsError
from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from issuer_service.monitoring import LogFormat, LogLevel
from issuer_service.rate_limit import Network
from sdcard.encoding import why_not_utf8
from sdcard.errors import Misuse
from sdcard.issuer import DAY
from sdcard.lenient import lenient_document, parse_toml
from sdcard.oauth import MOST_ACTORS
from sdcard.urls import check_issuer_url, is_loopback

# -- ``Settings``: an operator's choices, read once when a process starts ---------------------------------------------

MOST_PER_MINUTE, MOST_DELEGATION_SECONDS = 10_000_000, 3_600
MOST_STATUS_TTL, MOST_STATUS_PERIOD, MOST_STATUS_LIFETIME = 43_200, 3_600, 604_800
DEFAULT_DATABASE = "sqlite:///sdcard.sqlite"


class ProofPolicy(StrEnum):
    """Policy on proof of possession at registration.

    A proof that is given is always checked.
    """

    ACCEPTED = "accepted"
    DEMANDED = "demanded"


class SubjectPer(StrEnum):
    """Scope of an agent's ``sub``. A closed set."""

    AGENT = "agent"
    """Everywhere the same, as the draft demands (SD-Card 3.1)."""
    CONTEXT = "context"
    """One for each context, and for *federation* each partner; the same after a renewal."""
    CARD = "card"
    """One for each SD-Card."""


def _split(value: object) -> object:
    """Split a list of the environment at commas."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


class Settings(BaseSettings):
    """Settings of the operator.

    Attributes:
        issuer: Public URL of the registry, the value of ``iss``. Default: host and port, on loopback only.
        database_url: SQLAlchemy URL: `sqlite:///FILE` or `postgresql+asyncpg://…`.
        replica_url: URL of one PostgreSQL standby that answers public discovery and the catalogue. Default: none.
        replica_seconds: Maximum age of the heartbeat on the replica. Beyond it, the response is 503 ``store.behind``.
        key_encryption_key: Key that encrypts the registry's keys: 32 random bytes in base64url.
        key_encryption_key_file: File with the key-encryption key, mode 0600; created for a new database.
        sign_with: ``kid`` of a key that signs SD-Cards in this process instead of the active one, until it is retired.
        pkcs11_module: Shared library of a PKCS#11 token (HSM).
        pkcs11_token: Label of the PKCS#11 token.
        pkcs11_pin: User PIN of the PKCS#11 token.
        pkcs11_pin_file: File with the PIN of the PKCS#11 token, mode 0600.
        status_ttl_seconds: How long a Verifier may cache a status list.
        status_lifetime_seconds: How long a status list is valid if the registry is unreachable.
        status_period_seconds: Publication period of status lists, at most the TTL; a change waits 10 seconds or more.
        audit_checkpoints: File for checkpoints of the audit chain. Keep copies where no attacker can change them.
        audit_checkpoint_seconds: Interval of audit checkpoints, if there are new audit records.
        audit_restored: Number of the last audit record that a restored backup lacks; needed to start on that backup.
        transparency_policy: Witnesses and quorum of the transparency log (C2SP tlog-policy). Setting it begins the log.
        transparency_seconds: Interval of the batches of the transparency log.
        transparency_batch: Leaves of each batch of the transparency log, padding included.
        transparency_networks: Private networks in which witnesses may be, such as ``10.0.0.0/8``.
        policy: Disclosure policy, TOML or JSON. Default: the built-in policy.
        card_signers: JWKS file with the keys that are trusted to sign agent cards. Default: no key is trusted.
        profile: Draft version to write: ``sd-card`` or ``agent-sd-jwt-02``.
        lifetime_days: Minimum lifetime of an SD-Card. ``exp`` is rounded up, so that many SD-Cards share it.
        proof_of_possession: ``accepted``: proofs of Holder keys are optional; ``demanded``: required.
        subject_per: One ``sub`` for each ``agent``, as the draft requires, ``context`` (pairwise) or ``card``.
        body_limit: Maximum request body in bytes. Bodies without card and keys: at most 131,072.
        host: Address to listen on. Behind a proxy, use loopback.
        port: Port to listen on.
        tls_cert: Certificate chain in PEM. It enables TLS 1.3.
        tls_key: Private key of the certificate in PEM, mode 0600 or narrower.
        stop_seconds: Timeout for open requests after a stop signal.
        trusted_proxies: Addresses and networks of proxies whose ``X-Forwarded-For`` names the client.
        address_requests_per_minute: Limit for an address, except for status lists, keys and health; 0: no limit.
        token_requests_per_minute: Limit for a token; 0: no limit.
        bad_tokens_per_minute: Limit for invalid tokens of an address, and taken ids and keys of a subject; 0: none.
        authorization_server: ``iss`` of an identity provider whose JWT access tokens are accepted (RFC 9068).
        authorization_jwks: Keys of the identity provider: an https URL, or a JWKS file.
        authorization_networks: Private networks to fetch the identity provider's keys from, such as ``10.0.0.0/8``.
        authorization_audience: Required ``aud`` of the identity provider's tokens. Default: the registry's public URL.
        authorization_limits_claim: Claim that limits a token, such as ``{"agent_id_prefixes": ["team-a-"]}``.
        authorization_limits: Limits of the identity provider's tokens without that claim: JSON, or a table in the file.
        delegation_seconds: Maximum lifetime of a delegated token.
        delegation_depth: Maximum number of actors in a chain.
        delegation_approval_seconds: Time to approve a sensitive scope and use the approval.
        catalogue: Whether ``GET /catalogue`` lists all agents of *public* to callers without a token.
        domain_checks: Whether control of the hosts of agents' cards is checked, for ``domain`` in ``issuer_checks``.
        card_checks: Whether published cards of agents are fetched and compared with the registered cards.
        check_seconds: Interval of domain and card checks. ``domain`` is lost if a check is overdue by this time.
        check_networks: Private networks in which domain and card checks may connect, such as ``10.0.0.0/8``.
        check_resolvers: IP addresses of DNS resolvers for domain checks. Default: the resolvers of the machine.
        approval_for: Skills whose agents a person approves before they get SD-Cards; ``*``: every agent.
        console: Whether the console for people is served at ``/console``.
        metrics_port: Port on 127.0.0.1 for Prometheus (``/metrics``). Default: none.
        metrics_token: Bearer token of 32 characters or more for ``GET /metrics`` on the registry's port. Default: none.
        log_format: ``json``, one object a line; ``console``, for people; ``auto``, for people on a terminal, else JSON.
        log_level: Lowest level in the log: ``debug``, ``info`` (every request), ``warning`` or ``error``.
    """

    model_config = SettingsConfigDict(env_prefix="SDCARD_", frozen=True, hide_input_in_errors=True)

    issuer: str | None = None
    database_url: str = Field(default=DEFAULT_DATABASE, repr=False)
    replica_url: str | None = Field(default=None, repr=False)
    replica_seconds: int = Field(default=60, ge=10, le=3_600)
    key_encryption_key: SecretStr | None = None
    key_encryption_key_file: Path = Path("key-encryption.key")
    sign_with: str | None = None
    pkcs11_module: Path | None = None
    pkcs11_token: str | None = None
    pkcs11_pin: SecretStr | None = None
    pkcs11_pin_file: Path | None = None
    status_ttl_seconds: int = Field(default=300, ge=1, le=MOST_STATUS_TTL)
    status_lifetime_seconds: int = Field(default=86_400, ge=60, le=MOST_STATUS_LIFETIME)
    status_period_seconds: int = Field(default=60, ge=1, le=MOST_STATUS_PERIOD)
    audit_checkpoints: Path = Path("audit.checkpoints")
    audit_checkpoint_seconds: int = Field(default=60, ge=1, le=86_400)
    audit_restored: int | None = Field(default=None, ge=1)
    transparency_policy: Path | None = None
    transparency_seconds: int = Field(default=60, ge=1, le=3_600)
    transparency_batch: int = Field(default=64, ge=1, le=65_536)
    transparency_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_split)] = ()
    policy: Path | None = None
    card_signers: Path | None = None
    profile: Literal["sd-card", "agent-sd-jwt-02"] = "sd-card"
    lifetime_days: int = Field(default=7, ge=1, le=90)
    proof_of_possession: ProofPolicy = ProofPolicy.ACCEPTED
    subject_per: SubjectPer = SubjectPer.AGENT
    body_limit: int = Field(default=1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65_535)
    tls_cert: Path | None = None
    tls_key: Path | None = None
    stop_seconds: int = Field(default=15, ge=1, le=600)
    trusted_proxies: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_split)] = ()
    address_requests_per_minute: int = Field(default=12_000, ge=0, le=MOST_PER_MINUTE)
    token_requests_per_minute: int = Field(default=6_000, ge=0, le=MOST_PER_MINUTE)
    bad_tokens_per_minute: int = Field(default=60, ge=0, le=MOST_PER_MINUTE)
    authorization_server: str | None = Field(default=None, min_length=1, max_length=200)
    authorization_jwks: str | None = Field(default=None, min_length=1)
    authorization_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_split)] = ()
    authorization_audience: str | None = Field(default=None, min_length=1)
    authorization_limits_claim: str = Field(default="urn:sd-card:limits", min_length=1)
    authorization_limits: dict[str, tuple[str, ...]] = {}
    delegation_seconds: int = Field(default=300, ge=1, le=MOST_DELEGATION_SECONDS)
    delegation_depth: int = Field(default=4, ge=1, le=MOST_ACTORS)
    delegation_approval_seconds: int = Field(default=3_600, ge=1, le=604_800)
    catalogue: bool = False
    domain_checks: bool = False
    card_checks: bool = False
    check_seconds: int = Field(default=3_600, ge=60, le=DAY)
    check_networks: Annotated[tuple[Network, ...], NoDecode, BeforeValidator(_split)] = ()
    check_resolvers: Annotated[tuple[IPvAnyAddress, ...], NoDecode, BeforeValidator(_split)] = ()
    approval_for: Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)] = ()
    console: bool = False
    metrics_port: int | None = Field(default=None, ge=1, le=65_535)
    metrics_token: SecretStr | None = Field(default=None, min_length=32)
    log_format: LogFormat = "auto"
    log_level: LogLevel = "info"

    @property
    def issuer_url(self) -> str:
        """The value of ``iss``.

        Raises:
            Misuse: as ``check_issuer_url``.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        own = f"{'https' if self.tls_cert else 'http'}://{host}:{self.port}"
        return check_issuer_url(own if self.issuer is None else self.issuer)

    @property
    def in_development(self) -> bool:
        """Whether the Issuer's URL is on loopback: only this machine can use it."""
        return is_loopback(urlsplit(self.issuer_url).hostname or "")


# -- Sources of settings: options, environment, one TOML file, defaults -----------------------------------------------
# An earlier source overrides a later one. A name that is no setting is refused, since a misspelt setting would leave
# its default in force. What is shown of the settings holds no secret.

PREFIX = "SDCARD_"
FILE_VARIABLE = "SDCARD_CONFIG"
"""Names the TOML file."""
MASK = "********"

_OTHER_VARIABLES = {FILE_VARIABLE, "SDCARD_TOKEN", "SDCARD_REGISTRY", "SDCARD_CLIENT"}
"""Those that the commands for clients read."""
_MOST_BYTES = 65_536
_PLACEHOLDERS = frozenset(
    ("sdcard", "postgres", "password", "secret", "test", "admin", "1234", "0000", "123456", "change-me", "changeme")
)
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
        file: the TOML file; None for the file that ``SDCARD_CONFIG`` names, if set.
        environment: the environment of the process; ``Settings`` reads it too.
        options: the options of a command; None for none.

    Raises:
        Misuse: for a setting that is unknown or out of range, with its name but not its value; for a file that is not
            TOML, or has a secret and can be read by others.
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
        raise Misuse('SDCARD_AUTHORIZATION_LIMITS is JSON such as {"agent_id_prefixes": ["team-a-"]}') from None
    known = {f"{PREFIX}{name.upper()}" for name in Settings.model_fields} | _OTHER_VARIABLES
    return Configuration(settings, sources, tuple(sorted(variables.keys() - known)))


def shown_value(settings: Settings, name: str) -> str:
    """A setting as text, for people; a secret is masked."""
    value = getattr(settings, name)
    if value is None:
        return ""
    if name in ("database_url", "replica_url"):
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
    Keys from public documents are refused everywhere, where the keys are read.

    Raises:
        Misuse: naming the setting.
    """
    if settings.in_development:
        if not is_loopback(settings.host):
            raise Misuse("SDCARD_ISSUER is on loopback, for development; then SDCARD_HOST is on loopback too")
        return
    for name in filter(is_secret, Settings.model_fields):
        if any(map(_is_placeholder, _secrets(getattr(settings, name)))):
            raise Misuse(f"{PREFIX}{name.upper()} is a secret from examples; a public registry needs one of its own")


def nearest(name: str, known: Iterator[str] | list[str]) -> str:
    """Suggest a known name for a misspelt one."""
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
        raise Misuse(f"{file} has unknown settings: {', '.join(unknown)}")
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
