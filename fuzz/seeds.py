"""Seeds of the fuzzer: the vectors, whole and in parts that the targets sign."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.targets import PROVED, Target
from sdcard.dpop import create_dpop_proof
from sdcard.encoding import decode_base64url, encode_json
from sdcard.errors import Part, Refused, Where
from sdcard.profile import RESERVED_AT_TOP, SD_HASH
from vectors.actors import HOLDER, NOW, FixedSalts, claims

VECTORS = Path(__file__).parent.parent / "vectors"
PATHS = ("name", "skills.0.name", "skills.*.id", "skills..id")
VALUES = ("{}", "[]", "null", "true", "0", "-1", "1.5", "1e400", '""', '"\\ud800"', "~", ".")
GOOD = claims()

_PROOF = create_dpop_proof(HOLDER, "POST", PROVED.url, "token", FixedSalts("dpop"), NOW).encode()
OTHERS = {
    Target.SIGNED_CARD: (b"", b'\0,"kid":"k"', b',"iconUrl":"https://a.example/i.png"\0,"kid":"k","typ":"JOSE"'),
    Target.POLICY: (
        b"{}",
        b'{"contexts":{"a":{"claims":{"skills.*.id":"plain"},"contains":["public"]}}}',
        b'[contexts.a.claims]\nskills = "selective"\n',
        b'[agreements."https://p.example"]\nclaims = ["skills"]\n',
    ),
    Target.TRUST_LIST: (b"", b'"x":1', b'"exp":1', b'"iss":"https://a.example","nbf":1.5'),
    Target.STATUS_LIST: (b"", b'"ttl":5', b'"exp":1', b'"status_list":{"bits":8,"lst":"eNpjAAAAAQAB"}'),
    Target.POSSESSION: (
        b"",
        b'{"alg":"ES256","typ":"sd-card-possession+jwt"}\0"sub":"agent:a","iat":%d,"nonce":"n"' % NOW,
        b'{"alg":"ES256","typ":"sd-card-possession+jwt","crit":[]}\0"sub":["agent:a"],"iat":"0"',
    ),
    Target.DPOP: (
        b"",
        b'"jwk":%s\0"jti":"j","htm":"POST","htu":"https://server.example/a/b"' % encode_json(HOLDER.jwk),
        b'"jwk":%s\0"jti":"j","htm":"POST","htu":"HTTPS://Server.example:443/%%61/./c/../b#"' % encode_json(HOLDER.jwk),
        b'"jwk":{"kty":"EC"}\0"jti":"","htm":"post","htu":"https://[::1]/"',
    ),
    Target.DPOP_FIELD: (b"", b"a.b.c", b"a\0b", _PROOF),
    Target.CHALLENGE: (
        b'SD-Card nonce="n", audience="https://a.example", interaction_id=i, requested="[\\"skills.*.id\\"]"',
        b'Bearer realm="a", SD-Card nonce=n, audience=a\0Negotiate abc==',
        b"SD-Card nonce=n",
    ),
    Target.CREDENTIALS: (b"SD-Card a.b.c~d~e.f.g", b"SD-Card a~\0SD-Card b~", b"Bearer a"),
}
"""For targets that no vector is for."""


def seeds() -> list[bytes]:
    """Inputs of the fuzzer, each once, in a fixed order."""
    found = {Target.PATH.seed(path.encode()) for path in PATHS}
    found |= {target.seed(data) for target, inputs in OTHERS.items() for data in inputs}
    for file in VECTORS.glob("*/*.json"):
        vector = json.loads(file.read_bytes())
        if vector.get("format"):
            found.update(_of_vector(vector))
    return sorted(found)


def write_seeds(folder: Path) -> None:
    """Write a file for each seed, named by its content."""
    folder.mkdir(parents=True, exist_ok=True)
    for seed in seeds():
        (folder / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)


def write_words(file: Path) -> None:
    """A libFuzzer dictionary: names that the standards know, and values of every kind."""
    words = [
        *(json.dumps(name) + ":" for name in sorted(RESERVED_AT_TOP | {"...", "nonce", "aud", "alg", "typ"})),
        *VALUES,
    ]
    file.write_text("".join(f"{json.dumps(word)}\n" for word in words), encoding="ascii")


def _of_vector(vector: dict[str, Any]) -> Iterator[bytes]:
    document: str = vector["document"]
    if vector["kind"] == "card":
        yield Target.CARD.seed(document.encode())
        return
    if vector["kind"] == "card-file":
        yield Target.CARD_FILE.seed(document.encode())
        return
    if vector["kind"] == "policy":
        yield Target.POLICY.seed(document.encode())
        return
    if vector["kind"] == "log-submission":
        yield Target.LOG_SUBMISSION.seed(document.encode())
        return
    if vector["kind"] == "log-proof":
        yield Target.LOG_PROOF.seed(document.encode())
        yield Target.LOG_POLICY.seed(vector["expectations"]["policy"].encode())
        return
    if "trust" not in vector:
        return
    yield Target.PRESENTATION.seed(document.encode())
    yield Target.RECEIVED.seed(document.encode())
    yield Target.TRUST.seed(encode_json(vector["trust"]))
    yield from (Target.KEY.seed(encode_json(key)) for key in _keys(vector))
    jwt, *disclosures, kb_jwt = document.split("~") if "~" in document else ("", "")
    protected, payload = _parts(jwt)
    shown = [decoded for one in disclosures if (decoded := _decoded(one))]
    yield Target.PAYLOAD.seed(b"\0".join((_members(payload, GOOD), *shown)))
    yield Target.HEADER.seed(protected)
    bound_header, bound = _parts(kb_jwt)
    yield Target.KB_JWT.seed(bound_header + b"\0" + _members(bound, {SD_HASH: ""}))


def _parts(jwt: str) -> tuple[bytes, bytes]:
    protected, _, rest = jwt.partition(".")
    return _decoded(protected), _decoded(rest.partition(".")[0])


def _decoded(text: str) -> bytes:
    try:
        return decode_base64url(text, Where(Part.PRESENTATION))
    except Refused:
        return b""


def _members(payload: bytes, given: dict[str, Any]) -> bytes:
    """Return an object's new members without braces; nothing for other values."""
    try:
        members = json.loads(payload)
    except ValueError:
        return b""
    if not isinstance(members, dict):
        return b""
    return json.dumps({name: value for name, value in members.items() if name not in given}).encode()[1:-1]


def _keys(vector: dict[str, Any]) -> Iterator[Any]:
    for issuer in vector["trust"]["issuers"].values():
        yield from issuer.get("keys", [])
