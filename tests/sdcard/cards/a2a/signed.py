"""Cards with signatures, right ones and wrong ones."""

import json
from typing import Any

from sdcard import InMemorySigner
from sdcard.cards.a2a.signatures import CardSigners
from sdcard.cards.a2a.signed_form import SPECIFICATION, WHOLE_CARD, Form, canonical_form
from sdcard.encoding import JsonObject, encode_base64url
from tests.world import changed, key

SIGNER = key(30)
TRUSTED = CardSigners.of(SIGNER.public_key)


def signature(
    card: JsonObject, form: Form = SPECIFICATION, signer: InMemorySigner = SIGNER, **header: Any
) -> JsonObject:
    """A signature over a form of the card; ``REMOVED`` takes a member out of its header."""
    good = {"alg": "ES256", "typ": "JOSE", "kid": signer.public_key.thumbprint}
    return signature_with(json.dumps(changed(good, header)).encode(), card, form, signer)


def signature_with(
    header: bytes, card: JsonObject, form: Form = SPECIFICATION, signer: InMemorySigner = SIGNER
) -> JsonObject:
    """A signature with any bytes as its protected header."""
    made = canonical_form(card, form)
    assert made is not None
    protected = encode_base64url(header)
    signing_input = f"{protected}.{encode_base64url(made.payload)}".encode()
    return {"protected": protected, "signature": encode_base64url(signer.sign(signing_input))}


def signed(card: JsonObject, *signatures: JsonObject) -> JsonObject:
    """The card with these signatures."""
    return {**card, "signatures": list(signatures)}


def over_all(card: JsonObject, **header: Any) -> JsonObject:
    """A card with a signature over all of it."""
    return signed(card, signature(card, WHOLE_CARD, **header))
