"""The core's verification of a compact JWS for vectors that are no JWTs."""

from sdcard import Limits, PublicKey, Refused, Rule
from sdcard.encoding import decode_base64url, parse_json_object
from sdcard.errors import Part, Where
from sdcard.jose.jws import Jws, verify_jws

HEADER, PAYLOAD = Where(Part.ISSUER_HEADER), Where(Part.ISSUER_JWT)
_TYP = "test"


def check_jws(text: str, key: PublicKey) -> None:
    """Verify a JWS whose payload may be anything and that has no ``typ``.

    ``parse_jws`` demands claims, and ``verify_jws`` a type; here both are stood in for. The rest is the core's.
    """
    parts = text.split(".")
    if len(parts) != 3 or not all(parts):
        raise Refused(Rule.JWS_FORMAT, PAYLOAD)
    header = parse_json_object(decode_base64url(parts[0], HEADER), HEADER, Limits().json_depth)
    assert "typ" not in header
    decode_base64url(parts[1], PAYLOAD)
    signature = decode_base64url(parts[2], PAYLOAD.within("signature"))
    jws = Jws({**header, "typ": _TYP}, {}, f"{parts[0]}.{parts[1]}".encode(), signature, HEADER, PAYLOAD)
    verify_jws(jws, key, (_TYP,))
