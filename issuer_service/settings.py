"""``Settings``: an operator's choices, read once when a process starts.

``configuration`` lists their sources.
"""

import re
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from issuer_service.connections import Network
from issuer_service.logs import LogFormat, LogLevel
from sdcard.errors import Misuse
from sdcard.issuer import DAY
from sdcard.oauth import MOST_ACTORS
from sdcard.urls import is_loopback

MOST_PER_MINUTE = 10_000_000
MOST_DELEGATION_SECONDS = 3_600
MOST_STATUS_TTL = 43_200
MOST_STATUS_PERIOD = 3_600
MOST_STATUS_LIFETIME = 604_800
DEFAULT_DATABASE = "sqlite:///sdcard.sqlite"

_ORIGIN = re.compile(r"https?://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?")


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
        issuer: the registry's public URL, which becomes ``iss``. Without it, host and port give one, on loopback only.
        database_url: of SQLAlchemy: `sqlite:///FILE` or `postgresql+asyncpg://…`.
        key_encryption_key: what the keys in the database are sealed with: 32 random bytes in base64url.
        key_encryption_key_file: the same in a file, mode 0600; it is made for a new database.
        sign_with: ``kid`` of a key that signs SD-Cards in this process instead of the active one, until it is retired.
        pkcs11_module: the shared library of a PKCS#11 token (HSM) that has keys of the registry.
        pkcs11_token: the token's label.
        pkcs11_pin: its user's PIN.
        pkcs11_pin_file: the same in a file, mode 0600.
        status_ttl_seconds: how long a Verifier may keep a status list. A revocation is seen so long after it is public.
        status_lifetime_seconds: how long a status list can be used at all, should the registry be out of reach.
        status_period_seconds: how often all status lists are published anew, at most the seconds above. A revocation is
            public at the next such instant that is at least 10 seconds away.
        audit_checkpoints: the file that checkpoints of the audit chain are added to. Keep it, or copies of it, where
            an attacker who can change the database cannot change it.
        audit_checkpoint_seconds: how often one is made, when something was recorded since the last one.
        audit_restored: the number of the last record that a restored backup lacks. A registry does not start on a
            database that is older than its checkpoints say, except for checkpoints up to this record.
        policy: a file with the disclosure policy, TOML or JSON; without one, the built-in policy.
        card_signers: a JWKS file with the keys that are trusted to sign agent cards. Without it nobody is, and every
            signature of a card is reported as one that no trusted key can verify.
        profile: which draft is written: ``sd-card`` or ``agent-sd-jwt-02``.
        lifetime_days: how long an SD-Card lives at least. It begins and ends on steps as long as this, at most 30 days.
        proof_of_possession: ``accepted``: Holder keys are registered with or without; ``demanded``: never without.
        subject_per: for what an agent has one ``sub``: ``agent``, as the draft demands; ``context``, each with another
            name that only this registry can resolve; or ``card``, a new name in each SD-Card.
        body_limit: the longest request body that is read, in bytes. Without card and keys: 131,072 at most.
        host: where to listen. Behind a proxy, loopback is enough.
        port: where to listen.
        tls_cert: the registry's certificate and those that lead to its authority, in PEM; with it, TLS 1.3 is spoken.
        tls_key: the certificate's private key, in PEM, in a file of mode 0600 or narrower.
        stop_seconds: how long what was asked may take to be answered once the registry was told to stop.
        trusted_proxies: addresses and networks of proxies whose ``X-Forwarded-For`` says who a client is.
        address_requests_per_minute: of one address, to whatever but status lists, keys and health; 0: no limit.
        token_requests_per_minute: with one token; 0: no limit.
        bad_tokens_per_minute: from one address; 0: no limit. Good tokens from there are served all the same. As many
            agent ids and keys in a subject's registrations may be another agent's; then it registers none for a while.
        authorization_server: the ``iss`` of an identity provider whose JWT access tokens count too (RFC 9068).
        authorization_jwks: its keys: an https URL, or a JWKS file.
        authorization_networks: where its keys may be fetched from beside public addresses, such as ``10.0.0.0/8``.
        authorization_audience: what its tokens call this registry in ``aud``; without it, the registry's public URL.
        authorization_limits_claim: the claim of its tokens that holds limits: an object, kind to list of texts.
        authorization_limits: the limits of its tokens without that claim; as JSON, or a table in the file.
        delegation_seconds: how long a delegated token lives at most.
        delegation_depth: how many may hand on a subject's authority, one after another.
        delegation_approval_seconds: in how much time a sensitive scope is approved and used, or never.
        console: whether pages for people are served at ``/console``, where they sign in with a token.
        metrics_port: a port on 127.0.0.1 at which Prometheus reads ``/metrics``; without it, nowhere.
        log_format: ``json``, one object a line, or ``console``, for people.
        log_level: the least that is logged: ``debug``, ``info`` (every request), ``warning`` or ``error``.
    """

    model_config = SettingsConfigDict(env_prefix="SDCARD_", frozen=True, hide_input_in_errors=True)

    issuer: str | None = None
    database_url: str = Field(default=DEFAULT_DATABASE, repr=False)
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
    console: bool = False
    metrics_port: int | None = Field(default=None, ge=1, le=65_535)
    log_format: LogFormat = "json"
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
        """Whether the Issuer's URL leads nowhere but to this machine.

        Nobody else can rely on such a registry.
        """
        return is_loopback(urlsplit(self.issuer_url).hostname or "")

    @property
    def lifetime(self) -> int:
        """Return the lifetime of an SD-Card in seconds."""
        return self.lifetime_days * DAY


def check_issuer_url(text: str) -> str:
    """Check the URL of an Issuer and return it.

    It has a scheme, a lower-case host, perhaps a port, and nothing else.

    ``iss`` is compared as text, so there is one spelling. Without TLS anybody between could replace the keys that the
    registry publishes; plain http is for loopback alone.

    SD-JWT VC 4.1.

    Raises:
        Misuse: for anything else.
    """
    if not _ORIGIN.fullmatch(text):
        raise Misuse("the issuer is a URL like https://registry.example: no user, path, query, fragment or last slash")
    if text.startswith("http:") and not is_loopback(urlsplit(text).hostname or ""):
        raise Misuse("the issuer is an https URL; http is for loopback hosts only")
    return text
