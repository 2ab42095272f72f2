"""PyPI ``openvc-core``: ``SdJwtVcProofSuite.verify``, with key binding required where it is demanded."""

import json
from datetime import UTC, datetime

from adapter import Answer, Request, Unsupported, p256, serve
from openvc.keys import P256SigningKey
from openvc.proof.sd_jwt import SdJwtVcProofSuite, _b64url_decode


def verify(request: Request) -> Answer:
    bound = request["nonce"] is not None
    verified = SdJwtVcProofSuite(leeway_s=request["skew"]).verify(
        request["text"],
        public_key_jwk=request["key"],
        audience=request["audience"],
        nonce=request["nonce"],
        require_key_binding=bound,
        kb_max_age_s=request["past"],
        now=datetime.fromtimestamp(request["now"], UTC),
    )
    return {"claims": verified.claims}


def issue(request: Request) -> Answer:
    if any(len(path) > 1 for path in request["hide"]):
        raise Unsupported("it hides top-level claims only")
    claims = {name: value for name, value in request["claims"].items() if name != "cnf"}
    text = SdJwtVcProofSuite().issue(
        claims,
        signing_key=P256SigningKey(p256(request["key"]), request["header"]["kid"]),
        disclosable=[path[0] for path in request["hide"]],
        holder_jwk=request["claims"]["cnf"]["jwk"],
    )
    return {"text": text}


def present(request: Request) -> Answer:
    """Present what is left in the text: its Holder has no selection, and its caller drops Disclosures."""
    if any(len(path) > 1 for path in request["show"]):
        raise Unsupported("it selects nothing")
    issuer_jwt, *disclosures, _ = request["text"].split("~")
    names = [path[0] for path in request["show"]]
    kept = [one for one in disclosures if json.loads(_b64url_decode(one))[1] in names]
    holder_key = P256SigningKey(p256(request["key"]), "holder")
    text = SdJwtVcProofSuite().create_presentation(
        "~".join((issuer_jwt, *kept, "")), holder_key=holder_key, audience=request["audience"], nonce=request["nonce"]
    )
    return {"text": text}


serve(verify=verify, issue=issue, present=present)
