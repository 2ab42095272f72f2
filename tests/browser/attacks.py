"""A card, tokens and a policy whose author wants to do more than be read."""

import json
from typing import Any

from sdcard.encoding import encode_base64url

SCRIPTS = (
    "<script>window.hit = 1</script>",
    "<img src=x onerror='window.hit = 1'>",
    '"><svg onload=window.hit=1>',
    "</textarea></pre></code><iframe src=https://evil.example/></iframe>",
    "{{7*7}}${7*7}",
    "javascript:window.hit=1",
    "JaVaScRiPt:window.hit=1",
    "data:text/html,<script>window.hit=1</script>",
    "https://evil.example/\"onmouseover='window.hit=1'",
    "https://user:pass@evil.example/",
    "//evil.example/x.png",
    "file:///etc/passwd",
)
TRICKS = (
    "safe\u202egnp.exe",
    "\u2066isolate\u2069",
    "zero\u200bwidth\u200d\ufeff",
    "bell\x07 escape\x1b[31mred",
    "line\nbreak\r\ntab\t\u2028\u2029",
    "tag\U000e0041\U000e007f",
    "soft\u00adhyphen \u3164filler",
)
NAMES = (
    "__proto__",
    "constructor",
    "prototype",
    "toString",
    "hasOwnProperty",
    "valueOf",
    "length",
    "innerHTML",
    "then",
)


def card() -> dict[str, Any]:
    """Valid enough to be drawn; every text of it is an attack."""
    texts = [*SCRIPTS, *TRICKS]
    skills = [
        {"id": f"skill-{number}", "name": text, "description": text, "tags": [text, "x" * 5_000], "iconUrl": text}
        for number, text in enumerate(texts)
    ]
    polluted: dict[str, Any] = {name: {name: {"polluted": "yes"}} for name in NAMES}
    return {
        "name": SCRIPTS[0],
        "description": TRICKS[0],
        "version": "1.0",
        "iconUrl": "https://evil.example/icon.png",
        "documentationUrl": "javascript:window.hit=1",
        "provider": {"organization": SCRIPTS[1], "url": "https://evil.example/track?card=1"},
        "supportedInterfaces": [
            {"url": text, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"} for text in SCRIPTS
        ],
        "capabilities": {"extensions": [{"uri": text} for text in texts], **polluted},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": skills,
        **polluted,
        "\u202ename": "turned round",
        "<b>bold</b>": "name of a member",
        "giant": "A" * 100_000,
        "many": list(range(2_000)),
        "deep": deep(50),
    }


def deep(levels: int) -> Any:
    """Objects within objects."""
    value: Any = SCRIPTS[0]
    for _ in range(levels):
        value = {"deeper": value}
    return value


def encoded(value: Any) -> str:
    """JSON as base64url."""
    return encode_base64url(json.dumps(value).encode())


def sd_card() -> str:
    """The same as an SD-JWT with a KB-JWT, unsigned: what a page shows of it, nobody vouches for."""
    header = {"alg": "ES256", "typ": "dc+sd-jwt", "kid": SCRIPTS[0], **{name: SCRIPTS[1] for name in NAMES}}
    claims = {
        **card(),
        "iss": SCRIPTS[5],
        "sub": TRICKS[0],
        "iat": 1e308,
        "exp": -1e308,
        "cnf": {"jwk": {"kty": "__proto__"}},
    }
    claims |= {
        "status": {"status_list": {"uri": "javascript:window.hit=1", "idx": 2**70}},
        "_sd": ["x" * 43, SCRIPTS[2]],
    }
    key_binding = {"aud": SCRIPTS[1], "nonce": TRICKS[3], "iat": 1e300, "sd_hash": SCRIPTS[0], "constructor": 1}
    signature = encode_base64url(bytes(64))
    first = f"{encoded(header)}.{encoded(claims)}.{signature}"
    return f"{first}~{encoded({'alg': 'ES256', 'typ': 'kb+jwt'})}.{encoded(key_binding)}.{signature}"


HUGE = {
    "a long text": "x" * 3_000_000,
    "a token begun again and again": "eyJ" * 1_000_000,
    "many parts": "a~" * 200_000,
    "deep JSON": "[" * 200_000,
    "deep objects": '{"a":' * 100_000,
    "a long JSON string": '{"a": "' + "x" * 2_000_000 + '"}',
    "many members": "{" + ",".join(f'"m{number}": {number}' for number in range(20_000)) + "}",
}
