"""The same work done by the peers on PyPI.

Each is used as its documentation says, with its key objects built once.

``sd-jwt`` 0.10.4 is the reference implementation. ``openvc-core`` 1.37.0 verifies SD-JWT VCs; its Holder presents every
Disclosure it is given, so its caller picks them out of the text first. ``vouchkit`` 0.0.2 verifies, and has its issuing
and presenting in a test kit, which hides every claim but those it knows.
"""

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from jwcrypto.jwk import JWK
from openvc.keys import P256SigningKey
from openvc.proof.sd_jwt import SdJwtVcProofSuite
from sd_jwt.common import SDObj
from sd_jwt.holder import SDJWTHolder
from sd_jwt.issuer import SDJWTIssuer
from sd_jwt.verifier import SDJWTVerifier
from vouchkit import verify_sd_jwt_vc
from vouchkit.testkit import TestHolder, TestIssuer

from benchmarks.work import AUDIENCE, CARD, ISSUER, LIFETIME, NONCE, SELECTIVE, SHOWN, TYPE, Work
from sdcard.encoding import decode_base64url
from sdcard.errors import Part, Where

NOW = int(time.time())
CLAIMS: dict[str, Any] = json.loads(CARD)
WHERE = Where(Part.DISCLOSURE)


@dataclass(frozen=True, slots=True)
class Peer:
    """A library that does the three steps.

    Attributes:
        name: with its version.
        issue: → what its Holder is given.
        present: what was issued → text, from the text that was issued.
        present_parsed: the same from what a Holder may keep in memory; None when the library keeps nothing.
        verify: presentation → claims.
        leaves_out: what it does not do of what we do.
    """

    name: str
    issue: Callable[[], str]
    present: Callable[[str], str] | None
    present_parsed: Callable[[], str] | None
    verify: Callable[[str], Any]
    leaves_out: str


def pypi_peers(work: Work) -> list[Peer]:
    """All of them."""
    return [sd_jwt(work), openvc(work), vouchkit(work)]


def sd_jwt(work: Work) -> Peer:
    """The reference implementation."""
    issuer, holder = JWK.from_pyca(work.issuer_key), JWK.from_pyca(work.holder_key)

    def issue() -> str:
        claims: dict[Any, Any] = {(SDObj(name) if name in SELECTIVE else name): value for name, value in CLAIMS.items()}
        claims |= {"iss": ISSUER, "sub": "agent:a", "iat": NOW, "exp": NOW + LIFETIME, "vct": TYPE}
        made = SDJWTIssuer(claims, issuer, holder, extra_header_parameters={"typ": "dc+sd-jwt"})
        return str(made.sd_jwt_issuance)

    def show(held: SDJWTHolder) -> str:
        held.create_presentation(dict.fromkeys(SHOWN, True), NONCE, AUDIENCE, holder)
        return str(held.sd_jwt_presentation)

    kept = SDJWTHolder(issue())
    return Peer(
        "sd-jwt 0.10.4",
        issue,
        lambda text: show(SDJWTHolder(text)),
        lambda: show(kept),
        lambda text: SDJWTVerifier(text, lambda _issuer, _header: issuer, AUDIENCE, NONCE).get_verified_payload(),
        "times, `typ`, `vct`, age of the KB-JWT; its Holder verifies no signature",
    )


def openvc(work: Work) -> Peer:
    """The verifier of SD-JWT VCs."""
    suite = SdJwtVcProofSuite()
    issuer, holder = P256SigningKey(work.issuer_key, kid="issuer"), P256SigningKey(work.holder_key, kid="holder")
    issuer_jwk, holder_jwk = issuer.public_jwk(), holder.public_jwk()

    def issue() -> str:
        claims = CLAIMS | {"iss": ISSUER, "sub": "agent:a"}
        return suite.issue(
            claims, signing_key=issuer, disclosable=SELECTIVE, holder_jwk=holder_jwk, vct=TYPE, expires_in_s=LIFETIME
        )

    def present(text: str) -> str:
        jwt, *disclosures, _ = text.split("~")
        chosen = [one for one in disclosures if json.loads(decode_base64url(one, WHERE))[1] in SHOWN]
        given = "~".join([jwt, *chosen, ""])
        return suite.create_presentation(given, holder_key=holder, audience=AUDIENCE, nonce=NONCE)

    def verify(text: str) -> Any:
        return suite.verify(
            text, public_key_jwk=issuer_jwk, audience=AUDIENCE, nonce=NONCE, require_key_binding=True, expected_vct=TYPE
        ).claims

    return Peer(
        "openvc-core 1.37.0",
        issue,
        present,
        None,
        verify,
        "repeated members, `NaN`; its Holder selects no Disclosures and verifies no signature",
    )


def vouchkit(work: Work) -> Peer:
    """The toolkit of relying parties; its issuing and presenting are a test kit's."""
    issuer, holder = TestIssuer(ISSUER, work.issuer_key), TestHolder(work.holder_key)
    issuer_jwk, holder_jwk = issuer.public_jwk, holder.public_jwk
    selective = {name: CLAIMS[name] for name in SELECTIVE}

    def make() -> tuple[str, dict[str, str]]:
        made: tuple[str, dict[str, str]] = issuer.issue(selective, vct=TYPE, holder_jwk=holder_jwk, lifetime=LIFETIME)
        return made

    def issue() -> str:
        jwt, disclosures = make()
        return "~".join([jwt, *disclosures.values(), ""])

    jwt, disclosures = make()
    return Peer(
        "vouchkit 0.0.2",
        issue,
        None,
        lambda: holder.present(jwt, disclosures, list(SHOWN), aud=AUDIENCE, nonce=NONCE),
        lambda text: verify_sd_jwt_vc(text, issuer_jwk, expected_aud=AUDIENCE, expected_nonce=NONCE).claims,
        "`typ` of the Issuer's JWT; it issues only the seven claims, without plain claims",
    )
