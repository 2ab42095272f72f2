"""This library, as a control: ``verify_presentation`` with the profile's defaults."""

import json

from adapter import Answer, Request, serve

from sdcard import (
    Answering,
    Challenge,
    Expectations,
    FreshnessWindow,
    Unbound,
    Unchecked,
    parse_trusted_issuers,
    verify_presentation,
)
from sdcard.jose.keys import PUBLISHED_KEYS, VECTOR_KEYS
from sdcard.key_binding import ConsumedByCaller, KeyBinding


def verify(request: Request) -> Answer:
    trust = {"issuers": {"https://registry.example": {"keys": [request["key"]]}}}
    binding: KeyBinding = Unbound("the vector demands none")
    if request["nonce"] is not None:
        window = FreshnessWindow(request["past"], request["future"])
        binding = Answering(Challenge(request["nonce"], request["audience"], window), ConsumedByCaller())
    expectations = Expectations(
        issuers=parse_trusted_issuers(json.dumps(trust).encode()),
        clock_skew=request["skew"],
        published_keys=PUBLISHED_KEYS - VECTOR_KEYS,
        key_binding=binding,
        status=Unchecked("no other library is asked to check it"),
    )
    card = verify_presentation(request["text"], expectations, request["now"])
    registered = {"iss": card.issuer, "sub": card.subject, "iat": card.issued_at, "exp": card.expires_at}
    return {"claims": {**registered, **card.members}}


serve(verify=verify)
