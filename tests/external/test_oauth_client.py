"""Authlib, a client that others wrote, exchanges, verifies, examines and revokes tokens at a registry that serves."""

import json
import subprocess
from pathlib import Path
from typing import Any

from issuer_service.server import address_of, bind, running
from sdcard.delegation_chain import SD_AGENT_CARD_TYPE
from tests.built import python_with
from tests.issuer_service.delegation.office import Office
from tests.issuer_service.desk import Desk
from tests.shared import ROOT

WANTED = ROOT / "tests" / "oauth" / "authlib.txt"
CLIENT = """
import json, sys, time
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oauth2.rfc8414 import AuthorizationServerMetadata
from joserfc import jwt
from joserfc.jwk import KeySet

asked = json.load(sys.stdin)
get = OAuth2Session()
metadata = get.get(asked["issuer"] + "/.well-known/oauth-authorization-server", withhold_token=True).json()
shown = AuthorizationServerMetadata(metadata)
for name in ("response_types_supported", "grant_types_supported", "token_endpoint_auth_methods_supported",
             "introspection_endpoint_auth_methods_supported", "revocation_endpoint_auth_methods_supported"):
    getattr(shown, "validate_" + name)()
client = OAuth2Session(asked["client"], asked["secret"], token_endpoint_auth_method="client_secret_basic",
                       revocation_endpoint_auth_method="client_secret_basic")
form = dict(grant_type=metadata["grant_types_supported"][0], **asked["form"])
token = client.fetch_token(metadata["token_endpoint"], **form)
keys = KeySet.import_key_set(get.get(metadata["jwks_uri"], withhold_token=True).json())
read = jwt.decode(token["access_token"], keys)
assert read.header["typ"] == "at+jwt"
refused = None
try:
    client.fetch_token(metadata["token_endpoint"], **form)
except AuthlibBaseError as error:
    refused = [error.error, error.description]
owner = OAuth2Session(asked["owner"], asked["owner_secret"], token_endpoint_auth_method="client_secret_basic")
def active():
    return owner.introspect_token(metadata["introspection_endpoint"], token["access_token"]).json()["active"]
before = active()
revoked = client.revoke_token(metadata["revocation_endpoint"], token["access_token"]).status_code
print(json.dumps({"token": dict(token), "claims": read.claims, "refused": refused, "before": before,
                  "revoked": revoked, "after": active()}))
"""


def test_a_client_that_others_wrote(tmp_path: Path) -> None:
    desk, listening = Desk(tmp_path), bind()
    address = address_of(listening)
    with desk.open(issuer=address) as registry:
        office = Office(desk, registry, issuer=address)
        office.grant("a", "b")
        form = {
            "subject_token": office.presentation("a", interaction_id="task-1"),
            "subject_token_type": SD_AGENT_CARD_TYPE,
            "audience": "agent:b",
            "scope": "read write",
        }
    asked = {"issuer": address, "client": "alice", "secret": office.tokens["alice"], "form": form}
    asked |= {"owner": "bob", "owner_secret": office.tokens["bob"]}
    with running(desk.container(issuer=address), listening):
        answer = ask_authlib(asked)

    assert answer["token"]["token_type"] == "Bearer"
    assert answer["token"]["scope"] == "read write"
    claims = answer["claims"]
    assert (claims["iss"], claims["aud"], claims["sub"]) == (address, "agent:b", "agent:a")
    assert (claims["client_id"], claims["interaction_id"]) == ("alice", "task-1")
    error, description = answer["refused"]
    assert (error, description.split(" ")[0]) == ("invalid_request", "proof.nonce")
    assert (answer["before"], answer["revoked"], answer["after"]) == (True, 200, False)


def ask_authlib(asked: dict[str, Any]) -> Any:
    """Return the output of the client."""
    ran = subprocess.run(
        [python_with("authlib", WANTED), "-I", "-c", CLIENT], input=json.dumps(asked), capture_output=True, text=True,
        timeout=60, env={"AUTHLIB_INSECURE_TRANSPORT": "1", "no_proxy": "*"}, check=False,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr[-2000:]
    return json.loads(ran.stdout)
