"""PyPI ``pyeudiw`` 2.2.0: in the JSON form ``sd_hash`` is not compared (RFC 9901 7.3 step 5.g, 8.1).

Exit status 0: it still is not.
"""

import json

from cryptojwt.jwk.ec import new_ec_key
from pyeudiw.sd_jwt.common import SDObj
from pyeudiw.sd_jwt.holder import SDJWTHolder
from pyeudiw.sd_jwt.issuer import SDJWTIssuer
from pyeudiw.sd_jwt.verifier import SDJWTVerifier

issuer, holder = (new_ec_key("P-256").serialize(private=True) for _ in range(2))
public = {name: value for name, value in issuer.items() if name != "d"}
issued = SDJWTIssuer({"iss": "x", SDObj("name"): "hidden"}, issuer, holder, serialization_format="json")
presentation = SDJWTHolder(issued.sd_jwt_issuance, "json")
presentation.create_presentation(True, "nonce", "verifier", holder, sign_alg="ES256")

document = json.loads(presentation.sd_jwt_presentation)
document["header"]["disclosures"] = []
verifier = SDJWTVerifier(json.dumps(document), lambda _issuer, _header: [public], "verifier", "nonce", "json")
print("accepted, without the Disclosure that the Holder signed:", verifier.get_verified_payload())
