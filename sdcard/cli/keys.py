"""``sdcard keys`` and ``sdcard trust``, with the options of trusted Issuers."""

from ipaddress import ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from sdcard.cli.app import JoinedGroup
from sdcard.cli.options import SECONDS_PER_DAY, AsJson, completing, parse_now
from sdcard.cli.output import (
    console,
    print_json,
    print_lines,
    print_result,
    read_bytes,
    show_instant,
    show_left_out,
    table,
)
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Instant
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.lenient import decode_token
from sdcard.status_list import Checked, Status, Unchecked
from sdcard.trust import (
    TrustedIssuers,
    encode_trusted_issuers,
    issue_trust_list,
    parse_trusted_issuers,
    verify_trust_list,
)

if TYPE_CHECKING:
    from sdcard.io.egress_policy import EgressPolicy
    from sdcard.io.published_keys import IssuerKeys


# -- ``sdcard keys``: keys in files. An entry point adds the registry's keys ------------------------------------------

AlgorithmName: TypeAlias = Annotated[
    str,
    typer.Option(
        "--algorithm", autocompletion=completing(SignatureAlgorithm), help=f"One of {', '.join(SignatureAlgorithm)}."
    ),
]
app = typer.Typer(cls=JoinedGroup, no_args_is_help=True)


@app.callback()
def group() -> None:
    """Make keys in files; list, add, rotate and remove the registry's own."""


@app.command("new")
def new(
    file: Annotated[Path, typer.Argument(help="The file to create, with the private JWK; it must not exist.")],
    algorithm: AlgorithmName = "ES256",
    as_json: AsJson = False,
) -> None:
    """Make a private key in a file that only you can read.

    Example: sdcard keys new agent.jwk
    """
    from sdcard.io.key_files import create_key_file

    key = create_key_file(file, find_algorithm(algorithm)).public_key
    document = {"file": str(file), "thumbprint": key.thumbprint, "public_key": key.to_jwk()}
    print_result(as_json, document, f"{file}: {algorithm}, thumbprint {key.thumbprint}")


@app.command("public")
def public(files: Annotated[list[Path], typer.Argument(help="Files with private JWKs.")]) -> None:
    """Print the public keys as a JWKS.

    Example: sdcard keys public issuer.jwk next.jwk > issuer.jwks
    """
    from sdcard.io.key_files import load_signer, public_jwks

    print_json(public_jwks(*(load_signer(file).public_key for file in files)))


def find_algorithm(name: str) -> SignatureAlgorithm:
    """Return the algorithm of ``--algorithm``."""
    if name not in SignatureAlgorithm._value2member_map_:
        raise Misuse(f"--algorithm is one of {', '.join(SignatureAlgorithm)}")
    return SignatureAlgorithm(name)


# -- ``sdcard trust``, and the options of all commands that need trusted Issuers --------------------------------------

TrustFile: TypeAlias = Annotated[
    Path, typer.Option("--trust", help="Trust document, as `sdcard register` writes it; or a trust list.")
]
TrustSigner: TypeAlias = Annotated[
    Path | None, typer.Option("--trust-signer", help="A JWKS with the keys that may sign the trust list.")
]
Networks: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--network", help="A network to fetch from besides public addresses, such as 10.0.0.0/8 (repeatable)."
    ),
]
FetchStatus: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--status", help="Fetch the status list that the SD-Card names. This or --status-unchecked is required."
    ),
]
StatusUnchecked: TypeAlias = Annotated[
    str | None, typer.Option("--status-unchecked", metavar="REASON", help="Do not check the status, for this reason.")
]
Refresh: TypeAlias = Annotated[bool, typer.Option("--refresh", help="Fetch the Issuer's current keys.")]

trust_app = typer.Typer(no_args_is_help=True)


@trust_app.callback()
def group_of_trust() -> None:
    """Sign a list of trusted Issuers, or show one."""


@trust_app.command("sign")
def sign(
    trust: Annotated[Path, typer.Argument(metavar="FILE", help="The trust document.")],
    key: Annotated[Path, typer.Option(help="The private JWK that signs; it signs nothing else.")],
    days: Annotated[int, typer.Option(min=1, max=366, help="Days until the list expires.")] = 30,
) -> None:
    """Sign a trust document, and print it as a trust list.

    Example: sdcard trust sign trust.json --key signer.jwk --days 7 > trust.jwt
    """
    from sdcard.io.key_files import load_signer

    now = int(parse_now(None))
    issuers = parse_trusted_issuers(read_bytes(str(trust), Part.TRUST))
    if issuers.left_out:  # what is signed says what its author wrote, or is not signed
        raise Refused.because(issuers.left_out)
    print_lines(issue_trust_list(issuers, load_signer(key), now, now + days * SECONDS_PER_DAY))


@trust_app.command("show")
def show(
    trust: Annotated[Path, typer.Argument(metavar="FILE", help="A trust document, or a trust list.")],
    trust_signer: TrustSigner = None,
    as_json: AsJson = False,
) -> None:
    """Show who is trusted, and until when.

    Example: sdcard trust show trust.jwt --trust-signer signer.jwks
    """
    now = parse_now(None)
    issuers = read_trust(trust, trust_signer, now)
    issuers.check_current(now)
    if as_json:
        print_json(encode_trusted_issuers(issuers))
        return
    until = "for ever" if issuers.expires_at is None else f"until {show_instant(issuers.expires_at)}"
    rows = [
        (issuer, use, kid, key.algorithm.value)
        for use, listed in (("cards", issuers.keys), ("status lists", issuers.status_keys))
        for issuer, keys in listed.items()
        for kid, key in keys.items()
    ]
    rows += [
        (issuer, "both", "x5c root", one.hex())
        for issuer, roots in issuers.roots.items()
        for one in roots.fingerprints()
    ]
    console().print(table(f"Trusted {until}", ("Issuer", "signs", "key", "algorithm"), rows))


def read_trust(file: Path, signer: Path | None, now: Instant) -> TrustedIssuers:
    """Read the trusted Issuers of a file, and report unusable entries.

    With a signer, only signed lists are accepted.
    """
    data = read_bytes(str(file), Part.TRUST)
    text = decode_token(data, Where(Part.TRUST))
    if signer is None:
        if not text.startswith("{") and text.count(".") == 2:
            raise Misuse(f"{file} is a signed trust list: give the key of its signer with --trust-signer FILE")
        issuers = parse_trusted_issuers(data)
    elif text.startswith("{"):
        raise Misuse(
            f"{file} is not signed, and --trust-signer accepts only signed lists: `sdcard trust sign` makes one"
        )
    else:
        from sdcard.io.key_files import load_key_set

        signers = load_key_set(signer)
        show_left_out(signers.left_out)
        issuers = verify_trust_list(text, [key for _, key in signers.pairs()], now)
    show_left_out(issuers.left_out)
    return issuers


def read_egress_policy(networks: list[str] | None) -> "EgressPolicy":
    """Return the egress policy of ``--network``."""
    from sdcard.io.egress_policy import EgressPolicy

    try:
        return EgressPolicy(tuple(ip_network(text) for text in networks or ()))
    except ValueError:
        raise Misuse("--network takes an address or a network, such as 10.0.0.0/8") from None


def decide_status(
    fetch: bool, unchecked: str | None, issuers: "TrustedIssuers | IssuerKeys", network: list[str] | None = None
) -> Status:
    """Combine ``--status`` and ``--status-unchecked``, of which exactly one is given."""
    if fetch is (unchecked is not None):
        raise Misuse("decide about the status: --status fetches it, --status-unchecked REASON does not")
    if unchecked is not None:
        return Unchecked(unchecked)
    from sdcard.io.status_lists import FetchedStatusLists

    return Checked(FetchedStatusLists(issuers, egress=read_egress_policy(network)))
