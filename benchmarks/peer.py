"""The same work, done by PyPI ``sd-jwt`` 0.10.4, the reference implementation, as its documentation says."""

import json
import time
from functools import cache
from typing import Any

from jwcrypto.jwk import JWK
from sd_jwt.common import SDObj
from sd_jwt.holder import SDJWTHolder
from sd_jwt.issuer import SDJWTIssuer
from sd_jwt.verifier import SDJWTVerifier

from benchmarks.work import AUDIENCE, CARD, ISSUER, NONCE, SELECTIVE, SHOWN, Work

NOW = int(time.time())


@cache
def _keys(work: Work) -> tuple[JWK, JWK]:
    return JWK.from_pyca(work.issuer_key), JWK.from_pyca(work.holder_key)


def issue(work: Work) -> str:
    """Claims → SD-JWT as text."""
    issuer, holder = _keys(work)
    claims: dict[Any, Any] = {
        (SDObj(name) if name in SELECTIVE else name): value for name, value in json.loads(CARD).items()
    }
    claims |= {"iss": ISSUER, "sub": "agent:a", "iat": NOW, "exp": NOW + 600_000, "vct": "card"}
    made = SDJWTIssuer(claims, issuer, holder, extra_header_parameters={"typ": "dc+sd-jwt"})
    return str(made.sd_jwt_issuance)


def present(work: Work, issuance: str) -> str:
    """Three claims of seven, with a KB-JWT, as text."""
    held = SDJWTHolder(issuance)
    held.create_presentation(dict.fromkeys(SHOWN, True), NONCE, AUDIENCE, _keys(work)[1])
    return str(held.sd_jwt_presentation)


def verify(work: Work, presentation: str) -> Any:
    """Text → claims. It looks at no time, ``typ`` or ``vct``."""
    issuer, _ = _keys(work)
    return SDJWTVerifier(presentation, lambda _issuer, _header: issuer, AUDIENCE, NONCE).get_verified_payload()
