"""Options that several commands share, and what the commands read for them."""

import os
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from sdcard.cli.output import printable, read_bytes, read_text
from sdcard.errors import Misuse, Part
from sdcard.given_text import check_given_text
from sdcard.instants import Instant, is_instant, parse_rfc3339
from sdcard.io.system import SystemClock
from sdcard.issuer_checks import IssuerCheck
from sdcard.lenient import lenient_token
from sdcard.policy.model import DEFAULT_POLICY, DisclosurePolicy
from sdcard.profile import PROFILES, Profile

if TYPE_CHECKING:
    from sdcard.io.registry_client import Registry

SECONDS_PER_DAY = 86_400


def matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin as typed."""
    return [str(name) for name in names if name.startswith(incomplete)]


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Make a shell completion of names that are known without a request."""

    def complete(incomplete: str) -> list[str]:
        return matching(names, incomplete)

    return complete


complete_contexts = completing(DEFAULT_POLICY.contexts)

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
ProfileName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--profile",
        autocompletion=completing(PROFILES),
        help="The draft that defines the format of the SD-Cards: " + " or ".join(PROFILES) + ".",
    ),
]
RequireCheck: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--require-check",
        metavar="CODE",
        autocompletion=completing(IssuerCheck),
        help="A check that the issuer must confirm: " + ", ".join(IssuerCheck) + " (repeatable).",
    ),
]
RequireSpiffeId: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--require-spiffe-id",
        metavar="ID",
        help="A SPIFFE ID that the card must show. With a slash at its end, any beneath it (repeatable: one of them).",
    ),
]
PolicyFile: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--policy", metavar="FILE|-", help="A disclosure policy in TOML or JSON, instead of the built-in one."
    ),
]
Now: TypeAlias = Annotated[
    str | None, typer.Option("--now", help="The time to use instead of the clock: Unix seconds or RFC 3339.")
]

# -- Registry ---------------------------------------------------------------------------------------------------------

RegistryAddress: TypeAlias = Annotated[
    str, typer.Option("--registry", envvar="SDCARD_REGISTRY", help="The registry's address.")
]
Timeout: TypeAlias = Annotated[
    float, typer.Option("--timeout", min=0, max=3600, help="How long to wait for the registry, in seconds.")
]
Yes: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do it without asking for confirmation.")]
YesRevoke: TypeAlias = Annotated[
    bool, typer.Option("--yes", help="Do not ask before earlier SD-Cards are revoked (--supersedes revoke).")
]
TokenFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--token-file", help="A file with the token. If it is bound to a key, SDCARD_TOKEN_KEY names the key's file."
    ),
]
IssuerName: TypeAlias = Annotated[
    str | None, typer.Option("--issuer", help="The registry's name, `iss`, if it differs from the address.")
]
SearchContext: TypeAlias = Annotated[
    str,
    typer.Option(
        "--context", autocompletion=complete_contexts, help="The context to search. The token must permit it."
    ),
]
KeyFiles: TypeAlias = Annotated[
    list[Path], typer.Option("--key", help="A file with a private JWK of the agent, which is not sent (repeatable).")
]
OutDirectory: TypeAlias = Annotated[Path, typer.Option("--out", help="The folder for the SD-Cards and trust.json.")]
Supersedes: TypeAlias = Annotated[
    str,
    typer.Option(
        "--supersedes",
        autocompletion=completing(("revoke", "run_out")),
        help="revoke: revoke earlier SD-Cards; run_out: let them expire.",
    ),
]


# -- Confirmation and waiting -----------------------------------------------------------------------------------------


def confirm(what: str, yes: bool) -> None:
    """Ask on a terminal before a command destroys something.

    Raises:
        Misuse: without ``--yes`` where nobody can be asked, and when the answer is not yes.
    """
    if yes:
        return
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise Misuse(f"{what} Add --yes to do it")
    sys.stderr.write(printable(f"{what} Do it? [y/N] "))
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Misuse("nothing was done")


def confirm_superseding(supersedes: str, agent: str, yes: bool) -> None:
    """Confirm ``--supersedes revoke``, and refuse an unknown value."""
    if supersedes not in ("revoke", "run_out"):
        raise Misuse("--supersedes is revoke or run_out")
    if supersedes == "revoke":
        confirm(f"This revokes all earlier SD-Cards of {agent} for ever; --supersedes run_out does not.", yes)


def connect(registry: str, token_file: Path | None) -> "Registry":
    """Return a client of the registry with the token, and the key that it is bound to."""
    from sdcard.io.key_files import load_signer
    from sdcard.io.registry_client import Registry

    key = os.environ.get("SDCARD_TOKEN_KEY", "")
    return Registry(registry, read_token(token_file), key=load_signer(Path(key)) if key else None)


def wait_until_ready(registry: "Registry", seconds: float) -> None:
    """Wait until the registry is ready, and say so on standard error."""

    def waiting(reason: str) -> None:
        sys.stderr.write(printable(f"Waiting up to {seconds:g} s, until the registry is ready: {reason}") + "\n")

    registry.wait_until_ready(seconds, waiting)


# -- Reading ----------------------------------------------------------------------------------------------------------


def read_policy(source: str | None) -> DisclosurePolicy:
    """Read the policy in a file; without a file, return the built-in policy."""
    from sdcard.policy.document import parse_policy

    return DEFAULT_POLICY if source is None else parse_policy(read_bytes(source, Part.POLICY))


def find_profile(name: str) -> Profile:
    """Return the profile of this name."""
    if name not in PROFILES:
        raise Misuse(f"known profiles: {', '.join(PROFILES)}")
    return PROFILES[name]


def parse_now(text: str | None) -> Instant:
    """Parse ``--now``; None is the machine's clock."""
    return SystemClock().now() if text is None else parse_instant(text, "--now")


def parse_instant(text: str, option: str) -> Instant:
    """Parse an instant: Unix seconds, or RFC 3339 with an offset."""
    instant = int(text) if text.isascii() and text.isdigit() and len(text) <= 12 else parse_rfc3339(text)
    if not is_instant(instant):
        raise Misuse(f"{option} takes Unix seconds, or an instant with an offset, such as 2026-01-31T12:00:00Z")
    return instant


def read_agent_id(text: str) -> str:
    """Read an agent's id; its name in tokens and grants begins with ``agent:``."""
    return text.removeprefix("agent:")


def read_token(file: Path | None) -> str:
    """Read the bearer token from the file, else from SDCARD_TOKEN."""
    from sdcard.oauth import check_token

    token = read_text(str(file)) if file else lenient_token(os.environ.get("SDCARD_TOKEN", ""))
    if not token:
        raise Misuse(
            "an access token is needed: set SDCARD_TOKEN, or give --token-file; `sdcard token create` makes one"
        )
    check_given_text(token.encode("utf-8", "replace"), Part.ACCESS_TOKEN, str(file or "SDCARD_TOKEN"))
    if file and file.is_file() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        sys.stderr.write(printable(f"Others can read the token in {file}: chmod 600 it") + "\n")
    return check_token(token)
