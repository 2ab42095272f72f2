"""PyPI ``polaris-oid4vp``: ``verify_presentation``. It always wants a nonce and an audience."""

from adapter import Answer, Request, serve
from polaris_oid4vp.sdjwt import verify_presentation


class Refusal(Exception):
    """A verdict that is not ``authentic``."""


def verify(request: Request) -> Answer:
    bound = request["nonce"] is not None
    verdict = verify_presentation(
        request["text"],
        expected_nonce=request["nonce"] or "none was demanded",
        expected_audience=request["audience"] or "none was demanded",
        issuer_jwks=[request["key"]],
        now=request["now"],
        max_skew_seconds=request["skew"],
        require_key_binding=bound,
    )
    if not verdict.authentic:
        raise Refusal(f"{verdict.code}: {verdict.reason}")
    return {"claims": verdict.claims}


serve(verify=verify)
