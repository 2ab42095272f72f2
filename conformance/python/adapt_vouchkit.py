"""PyPI ``vouchkit``: ``verify_sd_jwt_vc``; its test kit presents."""

from adapter import Answer, Request, p256, serve
from vouchkit import sdjwt
from vouchkit.testkit import TestHolder


def verify(request: Request) -> Answer:
    verified = sdjwt.verify_sd_jwt_vc(
        request["text"],
        request["key"],
        expected_aud=request["audience"],
        expected_nonce=request["nonce"],
        require_key_binding=request["nonce"] is not None,
        now=request["now"],
    )
    return {"claims": verified.claims}


def present(request: Request) -> Answer:
    issuer_jwt, *disclosures, _ = request["text"].split("~")
    parsed = {one.name: one.b64 for one in map(sdjwt._parse_disclosure, disclosures)}
    names = [path[0] for path in request["show"]]
    holder = TestHolder(p256(request["key"]))
    text = holder.present(
        issuer_jwt, parsed, names, aud=request["audience"], nonce=request["nonce"], now=int(request["now"])
    )
    return {"text": text}


serve(verify=verify, present=present)
