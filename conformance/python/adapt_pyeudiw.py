"""PyPI ``pyeudiw``: its ``SDJWTVerifier``, with audience and nonce where a KB-JWT is demanded."""

import time

import pyeudiw.tools.utils
from adapter import Answer, Request, marked, selected, serve

pyeudiw.tools.utils.iat_now = lambda: int(time.time())  # before modules import it: it takes no clock

from pyeudiw.sd_jwt.common import SDObj  # noqa: E402
from pyeudiw.sd_jwt.holder import SDJWTHolder  # noqa: E402
from pyeudiw.sd_jwt.issuer import SDJWTIssuer  # noqa: E402
from pyeudiw.sd_jwt.verifier import SDJWTVerifier  # noqa: E402


def verify(request: Request) -> Answer:
    form = "json" if request["text"].startswith("{") else "compact"
    keys = [request["key"]]
    verifier = SDJWTVerifier(
        request["text"], lambda _issuer, _header: keys, request["audience"], request["nonce"], serialization_format=form
    )
    return {"claims": verifier.get_verified_payload()}


def issue(request: Request) -> Answer:
    claims = marked(request["claims"], request["hide"], SDObj)
    issuer = SDJWTIssuer(claims, request["key"], sign_alg="ES256", extra_header_parameters=request["header"])
    return {"text": issuer.sd_jwt_issuance}


def present(request: Request) -> Answer:
    holder = SDJWTHolder(request["text"])
    shown = selected(request["claims"], request["show"])
    holder.create_presentation(shown, request["nonce"], request["audience"], request["key"], sign_alg="ES256")
    return {"text": holder.sd_jwt_presentation}


serve(verify=verify, issue=issue, present=present)
