"""PyPI ``sd-jwt``: ``SDJWTVerifier`` with audience and nonce where a KB-JWT is demanded."""

from adapter import Answer, Request, marked, selected, serve
from jwcrypto.jwk import JWK
from sd_jwt.common import SDObj
from sd_jwt.holder import SDJWTHolder
from sd_jwt.issuer import SDJWTIssuer
from sd_jwt.verifier import SDJWTVerifier


def verify(request: Request) -> Answer:
    key, form = JWK(**request["key"]), "json" if request["text"].startswith("{") else "compact"
    verifier = SDJWTVerifier(
        request["text"], lambda _issuer, _header: key, request["audience"], request["nonce"], serialization_format=form
    )
    return {"claims": verifier.get_verified_payload()}


def issue(request: Request) -> Answer:
    claims = marked(request["claims"], request["hide"], SDObj)
    issuer = SDJWTIssuer(claims, JWK(**request["key"]), sign_alg="ES256", extra_header_parameters=request["header"])
    return {"text": issuer.sd_jwt_issuance}


def present(request: Request) -> Answer:
    holder = SDJWTHolder(request["text"])
    shown = selected(request["claims"], request["show"])
    key = JWK(**request["key"])
    holder.create_presentation(shown, request["nonce"], request["audience"], key, sign_alg="ES256")
    return {"text": holder.sd_jwt_presentation}


serve(verify=verify, issue=issue, present=present)
