"""PyPI ``sd-jwt`` 0.10.4: a Disclosure that no digest refers to is ignored, not refused (RFC 9901 7.1 step 5).

Exit status 0: it still is.
"""

from jwcrypto.jwk import JWK
from sd_jwt.common import SDObj
from sd_jwt.issuer import SDJWTIssuer
from sd_jwt.verifier import SDJWTVerifier

key = JWK.generate(kty="EC", crv="P-256")
one, other = (SDJWTIssuer({"iss": "x", SDObj("name"): name}, key).sd_jwt_issuance for name in ("one", "other"))
token = f"{one}{other.split('~')[1]}~"
print("accepted:", SDJWTVerifier(token, lambda _issuer, _header: key).get_verified_payload())
