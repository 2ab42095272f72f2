"""``sdcard conformance``: play attacker against a deployment."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.keys import Networks, TrustSigner, read_egress_policy, read_trust
from sdcard.cli.options import AsJson, IssuerName, TokenFile, read_token
from sdcard.cli.output import console, print_json, print_lines, printable, progress, read_bytes, read_sd_jwt, table
from sdcard.errors import Misuse, Part
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.sdjwt.model import SdJwt
from sdcard.urls import check_secret_url, is_loopback, split_url

if TYPE_CHECKING:
    from sdcard.conformance import Check, Paced, Request, Response
    from sdcard.conformance.forging import Material
    from sdcard.io.egress_policy import EgressPolicy

app = typer.Typer(no_args_is_help=True)
_METHODS = ("GET", "HEAD", "OPTIONS")
CLOCK: Callable[[], float] = time.monotonic
PAUSE: Callable[[float], object] = time.sleep

OptionalTrust: TypeAlias = Annotated[
    Path | None, typer.Option("--trust", help="Trust document with the Issuer, as `sdcard register` writes it.")
]
Consent: TypeAlias = Annotated[
    bool, typer.Option("--i-may-test-this", help="You may attack this server. Required for other machines.")
]


@app.callback()
def group() -> None:
    """Play attacker against a deployment that you may test.

    Target and plan are printed first. At most five requests a second are sent, and redirects are not followed.
    """


@app.command("issuer")
def issuer(
    url: Annotated[str, typer.Argument(help="The Issuer's address.")],
    name: IssuerName = None,
    token_file: TokenFile = None,
    networks: Networks = None,
    consent: Consent = False,
    as_json: AsJson = False,
) -> None:
    """Test an Issuer: its metadata, its keys, and registrations that it must refuse.

    Registrations are sent only with a test token (--token-file or SDCARD_TOKEN), because they may change state.

    Example: sdcard conformance issuer http://127.0.0.1:8080
    """
    from sdcard.conformance.services import ISSUER_CHECKS, Service
    from sdcard.io.key_files import generate_jwk, parse_private_jwk
    from sdcard.jose.algorithms import SignatureAlgorithm

    client = _client(url, networks, consent)
    token = read_token(token_file) if token_file or "SDCARD_TOKEN" in os.environ else None
    holder = parse_private_jwk(generate_jwk(SignatureAlgorithm.ES256)).public_key
    clock, named = SystemClock(), name or ""
    service = Service(url=url, client=client, instant=clock.now, issuer=named, token=token, holder=holder)
    _run("issuer", url, ISSUER_CHECKS, service, as_json)


@app.command("status-list")
def status_list(
    url: Annotated[str, typer.Argument(help="The list's address, as SD-Cards name it.")],
    trust: OptionalTrust = None,
    trust_signer: TrustSigner = None,
    networks: Networks = None,
    consent: Consent = False,
    as_json: AsJson = False,
) -> None:
    """Test a status list: its media type, signature, address, times and packing.

    Without --trust its signature is not checked.

    Example: sdcard conformance status-list http://127.0.0.1:8080/status/1 --trust trust.json
    """
    from sdcard.conformance.services import LIST_CHECKS, Service

    client, clock = _client(url, networks, consent), SystemClock()
    trusted = read_trust(trust, trust_signer, clock.now()) if trust else None
    _run("status-list", url, LIST_CHECKS, Service(url=url, client=client, instant=clock.now, trusted=trusted), as_json)


@app.command("agent")
def agent(
    url: Annotated[str, typer.Argument(help="The address of its card.")],
    trust: OptionalTrust = None,
    trust_signer: TrustSigner = None,
    networks: Networks = None,
    consent: Consent = False,
    as_json: AsJson = False,
) -> None:
    """Test an agent that publishes its card.

    The checks cover content negotiation, caches, and challenges that it must not sign.

    Example: sdcard conformance agent http://127.0.0.1:9000/.well-known/agent-card.json
    """
    from sdcard.conformance.agent import CHECKS
    from sdcard.conformance.services import Service

    client, clock = _client(url, networks, consent), SystemClock()
    trusted = read_trust(trust, trust_signer, clock.now()) if trust else None
    _run("agent", url, CHECKS, Service(url=url, client=client, instant=clock.now, trusted=trusted), as_json)


@app.command("route")
def route(
    url: Annotated[str, typer.Argument(help="The route that demands an SD-Card.")],
    sd_card: Annotated[str | None, typer.Option(help="An SD-Card that the route admits, with all Disclosures.")] = None,
    key: Annotated[Path | None, typer.Option(help="Private JWK of the SD-Card's Holder.")] = None,
    issuer_key: Annotated[Path | None, typer.Option(help="Private JWK of a test Issuer that the route trusts.")] = None,
    issuer_name: IssuerName = None,
    card: Annotated[
        str | None, typer.Option(help="The card that the test Issuer issues; by default a small one.")
    ] = None,
    method: Annotated[
        str, typer.Option(help=f"The HTTP method of the requests; without --issuer-key one of {', '.join(_METHODS)}.")
    ] = "GET",
    networks: Networks = None,
    consent: Consent = False,
    as_json: AsJson = False,
) -> None:
    """Test a Verifier's route with forged, stolen, changed and repeated presentations.

    With a test Issuer's key, the tester also issues SD-Cards that must be refused. Otherwise those checks are skipped.

    Example: sdcard conformance route http://127.0.0.1:9000/tasks --issuer-key issuer.jwk --issuer https://test.example
    """
    from sdcard.conformance.route import CHECKS, Route

    if method not in _METHODS and issuer_key is None:
        raise Misuse(f"without --issuer-key the method is one of {', '.join(_METHODS)}: others may change state")
    if (sd_card is None) != (key is None) or (sd_card and issuer_key):
        raise Misuse("give --sd-card with --key, or --issuer-key with --issuer")
    client, clock = _client(url, networks, consent), SystemClock()
    material = _material(sd_card, key, issuer_key, issuer_name, card)
    _run(
        "route",
        url,
        CHECKS,
        Route(url=url, client=client, instant=clock.now, method=method, material=material),
        as_json,
    )


def _material(
    sd_card: str | None, key: Path | None, issuer_key: Path | None, issuer_name: str | None, card: str | None
) -> "Material":
    """Read or issue what the attacker has."""
    from sdcard.cards.detect import parse_card
    from sdcard.conformance.forging import CARD, Material, issue_test_card
    from sdcard.io.key_files import generate_jwk, load_signer, parse_private_jwk
    from sdcard.jose.algorithms import SignatureAlgorithm
    from sdcard.limits import DEFAULT_LIMITS
    from sdcard.sdjwt.model import parse_sd_jwt

    stranger, holder = (parse_private_jwk(generate_jwk(SignatureAlgorithm.ES256)) for _ in range(2))
    if sd_card and key:
        held = parse_sd_jwt(read_sd_jwt(sd_card), DEFAULT_LIMITS)
        if not isinstance(held, SdJwt):
            raise Misuse("--sd-card takes an SD-Card, not a presentation of one")
        return Material(held, load_signer(key), None, stranger)
    if issuer_key is None:
        return Material(None, None, None, stranger)
    if issuer_name is None:
        raise Misuse("--issuer-key needs --issuer: the name of the test Issuer")
    signer, parsed = load_signer(issuer_key), parse_card(read_bytes(card, Part.CARD) if card else CARD)
    made = issue_test_card(parsed, issuer_name, signer, holder.public_key, SystemSalts(), SystemClock().now())
    return Material(made, holder, signer, stranger)


# -- sending and reporting --------------------------------------------------------------------------------------------


class _Sender:
    """Sends requests under the egress policy."""

    def __init__(self, egress: "EgressPolicy") -> None:
        self._egress = egress

    def send(self, request: "Request") -> "Response":
        """Send a request and return any response."""
        from sdcard.conformance import MOST_BYTES, Response
        from sdcard.io.http import exchange_async, run_blocking

        sent = exchange_async(request.method, request.url, self._egress, request.headers, request.body, MOST_BYTES)
        found = run_blocking(sent)
        return Response(found.status, found.headers, found.body)


def _client(url: str, networks: list[str] | None, consent: bool) -> "Paced":
    """Make the client for a target that may be tested."""
    from sdcard.conformance import Paced

    check_secret_url(url, "a test")
    here, egress = is_loopback(split_url(url).host), read_egress_policy(networks)
    if not here and not consent:
        raise Misuse("this attacks a server on another machine: add --i-may-test-this if you may")
    return Paced(_Sender(egress.to_listed(url) if here else egress), CLOCK, PAUSE)


def _run(kind: str, url: str, checks: "Sequence[Check[Any]]", subject: Any, as_json: bool) -> None:
    """Print target and plan, run the checks, and report."""
    from sdcard.conformance import MOST_PER_SECOND, Outcome, run_checks

    sys.stderr.write(
        printable(f"Target: {url} ({kind}); {len(checks)} checks, {MOST_PER_SECOND} requests a second.") + "\n"
    )
    for check in checks:
        sys.stderr.write(printable(f"  {check.name}: {check.about}") + "\n")
    sys.stderr.flush()
    results = []
    with progress("checks", len(checks)) as tell:
        for number, result in enumerate(run_checks(checks, subject), 1):
            results.append(result)
            tell(number)
    counts = {str(one): sum(result.outcome is one for result in results) for one in Outcome}
    if as_json:
        found = [{**asdict(result), "rule": str(result.rule), "outcome": str(result.outcome)} for result in results]
        print_json({"target": url, "kind": kind, **counts, "requests": subject.client.sent, "results": found})
    else:
        rows = [(one.name, str(one.rule), str(one.outcome), one.reason) for one in results]
        console().print(table(f"{kind} {url}", ("check", "rule", "outcome", "reason"), rows))
        print_lines(", ".join(f"{count} {name}" for name, count in counts.items()))
    if counts[Outcome.FAILED]:
        raise typer.Exit(EXIT_REFUSED)
