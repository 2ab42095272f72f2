"""``Settings``: what an operator chooses, read once, at the edge, from the environment (``SDCARD_…``) or arguments."""

import ipaddress
import re
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from sdcard.errors import Misuse
from sdcard.issuer import DAY

MOST_STATUS_TTL = 43_200
MOST_STATUS_LIFETIME = 604_800
DEFAULT_DATABASE = "sqlite+aiosqlite:///sdcard.sqlite"

_ORIGIN = re.compile(r"https?://(?:[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?|\[[0-9a-f:.]+\])(?::[1-9][0-9]{0,4})?")


class Settings(BaseSettings):
    """What an operator chooses.

    Attributes:
        issuer: the registry's public URL, which becomes ``iss``. Without it, host and port give one, on loopback only.
        database_url: of SQLAlchemy, with an asynchronous driver.
        key_encryption_key: what the keys in the database are sealed with: 32 random bytes in base64url.
        key_encryption_key_file: the same in a file, mode 0600; it is made for a new database.
        sign_with: ``kid`` of a key that signs SD-Cards in this process in place of the active one, until it is retired.
        pkcs11_module: the shared library of a PKCS#11 token (HSM) that has keys of the registry.
        pkcs11_token: the token's label.
        pkcs11_pin: its user's PIN.
        pkcs11_pin_file: the same in a file, mode 0600.
        status_ttl_seconds: how long a Verifier may keep a status list, so how long a revocation takes to be seen.
        status_lifetime_seconds: how long a status list can be used at all, should the registry be out of reach.
        audit_checkpoints: the file that checkpoints of the audit chain are added to. Keep it, or copies of it, where
            whoever can change the database cannot change it.
        audit_checkpoint_seconds: how often one is made, when something was recorded since the last one.
        policy: a file with the disclosure policy, TOML or JSON; without one, the built-in policy.
        card_signers: a JWKS file with the keys that are trusted to sign agent cards. Without it nobody is, and every
            signature of a card is reported as one that no trusted key can verify.
        profile: which draft is written: ``sd-card`` or ``agent-sd-jwt-02``.
        lifetime_days: of an SD-Card.
        proof_of_possession: ``accepted``: Holder keys are registered with or without; ``demanded``: never without.
        body_limit: the longest request body that is read, in bytes.
        host: where to listen. Behind a proxy, loopback is enough.
        port: where to listen.
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
    audit_checkpoints: Path = Path("audit.checkpoints")
    audit_checkpoint_seconds: int = Field(default=60, ge=1, le=86_400)
    policy: Path | None = None
    card_signers: Path | None = None
    profile: Literal["sd-card", "agent-sd-jwt-02"] = "sd-card"
    lifetime_days: int = Field(default=7, ge=1, le=90)
    proof_of_possession: Literal["accepted", "demanded"] = "accepted"
    body_limit: int = Field(default=1024 * 1024, ge=1024, le=64 * 1024 * 1024)
    host: str = "127.0.0.1"
    port: int = Field(default=8080, ge=1, le=65_535)

    @property
    def issuer_url(self) -> str:
        """The value of ``iss``.

        Raises:
            Misuse: as ``check_issuer_url``.
        """
        host = f"[{self.host}]" if ":" in self.host else self.host
        return check_issuer_url(f"http://{host}:{self.port}" if self.issuer is None else self.issuer)

    @property
    def lifetime(self) -> int:
        """How long an SD-Card lives, in seconds."""
        return self.lifetime_days * DAY


def check_issuer_url(text: str) -> str:
    """Give back the URL of an Issuer: scheme, lower-case host, perhaps a port, and nothing else.

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


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the host."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
