"""The peers on npm, in a Node process of their own.

``npm_peers.mjs`` runs beside the libraries that ``tests/node`` names.

Node's OpenSSL is another one, and so is its way there: their ratios are to one signature and two verifications by
``node:crypto`` alone in that process, measured before and after in every round.
"""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec

from benchmarks.work import AUDIENCE, CARD, ISSUER, LIFETIME, NONCE, SELECTIVE, SHOWN, TYPE, Work
from sdcard.encoding import encode_base64url
from sdcard.jose.keys import public_key
from tests.external.node_peers import installed

NAMES = {"core": "@sd-jwt/core 0.19.0", "meeco": "@meeco/sd-jwt 1.2.1"}
LEAVES_OUT = {
    "core": "unreferenced Disclosures, repeated members and digests, overwritten claims, age of the KB-JWT; "
    "its caller checks `aud`; its Holder verifies no signature",
    "meeco": "`sd_hash`, `typ`, rules for Disclosures; its caller checks the JWT; its Holder verifies no signature",
}
"""Checks that each peer omits."""


def measure(work: Work, rounds: int, repeats: int, check: Any) -> dict[str, float]:
    """Microseconds of each step, in the least disturbed round.

    Args:
        work: keys.
        rounds: of all steps in turn.
        repeats: of each step in a round.
        check: is called with each peer's name and presentation before anything is measured.
    """
    folder = installed()
    shutil.copy(Path(__file__).with_suffix(".mjs"), folder)
    job = {
        "card": CARD.decode(),
        "issuer": ISSUER,
        "audience": AUDIENCE,
        "nonce": NONCE,
        "type": TYPE,
        "lifetime": LIFETIME,
        "selective": SELECTIVE,
        "shown": SHOWN,
        "issuer_key": _private_jwk(work.issuer_key),
        "holder_key": _private_jwk(work.holder_key),
        "rounds": rounds,
        "repeats": repeats,
    }
    command = ["node", str(folder / "npm_peers.mjs")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(job) + "\n")
        process.stdin.flush()
        for name, made in json.loads(process.stdout.readline()).items():
            check(NAMES[name], made["presented"])
        process.stdin.write("{}\n")
        process.stdin.close()
        least: dict[str, float] = json.loads(process.stdout.readline())
    return least


def versions() -> dict[str, str]:
    """Node's, and its OpenSSL's."""
    script = "console.log(JSON.stringify([process.version, process.versions.openssl]))"
    answer = subprocess.run(["node", "-e", script], check=True, capture_output=True, text=True)
    node, openssl = json.loads(answer.stdout)
    return {"node": node.removeprefix("v"), "node's OpenSSL": openssl}


def _private_jwk(key: ec.EllipticCurvePrivateKey) -> dict[str, str]:
    secret = key.private_numbers().private_value.to_bytes(32, "big")
    return {**public_key(key.public_key()).to_jwk(), "d": encode_base64url(secret)}
