"""Warnings about secrets, personal data, internal hosts and hidden text in cards.

A program can only guess, so these are warnings. Each names a place and quotes nothing.
SD-Card 7.4.3 (SDC-25), AgentCard AEV-22, KNO-8.
"""

import re
from collections.abc import Iterator
from ipaddress import ip_address
from urllib.parse import urlsplit

from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Finding, Level, Part, Where
from sdcard.paths import Place
from sdcard.rules import Rule
from sdcard.urls import is_loopback

_SECRET_TEXT = re.compile(
    r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"
    r"|(?<![\w-])eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10}"  # a signed JWT
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    r"|\b(?:gh[oprsu]_|hf_|npm_|[rs]k_live_|sk-(?:ant-|live-|proj-)?)[A-Za-z0-9]{16}"
    r"|\b(?:github_pat_|glpat-|xox[abeprs]-|pypi-|ya29\.|SG\.)[\w.-]{16}"
    r"|\bAIza[\w-]{35}"
    r"|\b(?:Bearer|Basic) {1,3}(?=[\w.~+/-]{0,64}[0-9])[\w.~+/-]{16}"
    r"|\b(?:password|passwd)[\"']? ?= ?[\"']?[^\s\"'{<$*]{4}"
    r"|\b(?:client[_-]?secret|api[_-]?key|(?:access|refresh)[_-]token|private[_-]key)"
    r"[\"']? ?[=:] ?[\"']?[^\s\"'{<$*]{4}"
    r"|[?&](?:token|key|sig|signature|secret|code)=[\w.~+/%-]{16}",
    re.ASCII | re.IGNORECASE,
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f"  # controls, but for tab and line ends
    "\u202a-\u202e\u2066-\u2069"  # turn what follows round
    "\u00ad\u200b\u2060-\u2064\ufeff\U000e0000-\U000e007f]"  # have no shape of their own
)
_FLAG = re.compile("\U0001f3f4[\U000e0020-\U000e007e]{1,8}\U000e007f")
"""An emoji such as the flag of Scotland, which is spelt with characters that have no shape."""
_PLACEHOLDER = re.compile(r"[<${*\[]|your|xxx", re.IGNORECASE)
_SECRET_NAMES = frozenset(
    {"password", "passwd", "secret", "clientsecret", "apikey", "accesstoken", "refreshtoken", "privatekey", "secretkey"}
)
_HAS_PARTS = (dict, list)
_PRIVATE_JWK = frozenset({"d", "k", "p", "q", "dp", "dq", "qi", "priv"})

_EMAIL = re.compile(r"(?<![\w.+-])([\w.+-]{1,64})@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b", re.ASCII)
_OFFICES = frozenset(
    {
        *("abuse", "admin", "agent", "agents", "api", "billing", "contact", "dev", "hello", "help", "info", "legal"),
        *("noreply", "no-reply", "office", "ops", "press", "privacy", "sales", "security", "service", "support"),
        *("team", "webmaster"),
    }
)
"""Mail addresses of an office, not of a person."""
_PHONE = re.compile(r"(?<![\w+])\+[1-9](?:[ ().-]{0,2}[0-9]){7,14}(?![\w])", re.ASCII)
_CARD_NUMBER = re.compile(r"[0-9](?<![\w.-][0-9])(?:[ -]?[0-9]){12,18}(?![\w-])", re.ASCII)

_HOST_AND_PORT = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^\s:/?#@\[\]]{1,253}):[0-9]{1,5}")
_INSIDE = (
    *(".local", ".localhost", ".internal", ".intranet", ".lan", ".corp", ".home", ".private", ".localdomain"),
    ".home.arpa",
)

_HARMLESS = re.compile(r"(?:[!-,./;<>?A-~-]{0,18} )*+[!-,./;<>?A-~-]{0,18}|[ -*,-9;<>?A-~]{0,12}")
"""Most texts: short ASCII words, without digits unless the text is short. They have no sign of anything looked for."""

_BESIDE_CLIENT = frozenset({"mcp", "stdio"})
"""Schemes of programs on the user's machine, where a loopback address is right."""


def suspicious(document: JsonObject) -> Iterator[Finding]:
    """Find values that look secret, personal, internal or deceptive."""
    waiting: list[tuple[JsonValue, Place]] = [(document, ())]
    while waiting:
        value, place = waiting.pop()
        if isinstance(value, dict):
            yield from _suspicious_members(value, place)
            waiting += [(inner, (*place, name)) for name, inner in reversed(value.items()) if _is_looked_at(inner)]
        elif isinstance(value, list):
            parts = reversed(list(enumerate(value)))
            waiting += [(inner, (*place, index)) for index, inner in parts if _is_looked_at(inner)]
        elif isinstance(value, str):
            yield from _suspicious_text(value, place)


def _is_looked_at(value: JsonValue) -> bool:
    """Whether a value has parts, or is a text that a quick match does not clear."""
    if isinstance(value, str):
        return "--" in value or _HARMLESS.fullmatch(value) is None
    return isinstance(value, _HAS_PARTS)


def holds_secret(text: str) -> bool:
    """Whether a text contains something like a key, a token or a password."""
    return (_may_hold_secret(text) and bool(_SECRET_TEXT.search(text))) or _has_password(text)


def is_deceptive(text: str) -> bool:
    """Whether hidden characters make people see another text than programs."""
    if text.isprintable():  # nothing that is hidden is
        return False
    return bool(_HIDDEN.search(text)) and bool(_HIDDEN.search(_FLAG.sub("", text)))


def _may_hold_secret(text: str) -> bool:
    """Whether the text has a sign of a secret, or 19 characters without a space."""
    if "=" in text or ":" in text or "-----" in text:
        return True
    if len(text) < 19:
        return False
    lowered = text.lower()
    return "bearer " in lowered or "basic " in lowered or max(map(len, text.split()), default=0) >= 19


def _suspicious_members(members: JsonObject, place: Place) -> Iterator[Finding]:
    for name, value in members.items() if _may_be_suspicious(" ".join(members)) else ():
        if is_deceptive(name):
            yield _deceptive((*place, name))
        if isinstance(value, str) and value and _plain(name) in _SECRET_NAMES and not _is_reported_elsewhere(value):
            yield _secret((*place, name))
    if "kty" in members and any(isinstance(members.get(name), str) for name in _PRIVATE_JWK):
        yield _secret(place)


def _may_be_suspicious(names: str) -> bool:
    """Whether one of these names may be hidden, or be the name of a secret."""
    plain = _plain(names)
    return not plain.isprintable() or "pass" in plain or "secret" in plain or "token" in plain or "key" in plain


def _is_reported_elsewhere(value: str) -> bool:
    """Whether no finding is due here.

    The value is a placeholder, or ``_suspicious_text`` reports it.
    """
    return bool(_PLACEHOLDER.match(value)) or holds_secret(value)


def _suspicious_text(text: str, place: Place) -> Iterator[Finding]:
    if is_deceptive(text):
        yield _deceptive(place)
    if holds_secret(text):
        yield _secret(place)
    if _is_personal(text):
        hint = "Name a role instead of a person, such as support@example.com: every recipient keeps the card."
        yield _warning(Rule.CARD_PERSONAL, place, hint)
    host = _host(text)
    if host and _is_inside(host):
        hint = "Readers cannot reach this host. Give a public one, or ignore this on one machine."
        yield _warning(Rule.CARD_INTERNAL_HOST, place, hint)


def _deceptive(place: Place) -> Finding:
    hint = "Remove characters that have no shape or turn the text round: people see another text than programs read."
    return _warning(Rule.CARD_MEMBER_VALUE, place, hint)


def _secret(place: Place) -> Finding:
    hint = "Remove it, and replace it wherever it is used: this looks like a key, a token or a password."
    return _warning(Rule.CARD_SECRET, place, hint)


def _warning(rule: Rule, place: Place, hint: str) -> Finding:
    return Finding(rule, Where(Part.CARD, place), hint, Level.WARNING)


def _plain(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


def _has_password(text: str) -> bool:
    """Whether a URL carries a password before its host."""
    try:
        return "@" in text and "://" in text and bool(urlsplit(text).password)
    except ValueError:
        return False


def _is_personal(text: str) -> bool:
    if "@" in text and any(found[1].lower() not in _OFFICES for found in _EMAIL.finditer(text)):
        return True
    if "+" in text and _PHONE.search(text):
        return True
    if not _CARD_NUMBER.search(text):
        return False
    return any(_is_payment_card([int(c) for c in found[0] if c.isdigit()]) for found in _CARD_NUMBER.finditer(text))


def _is_payment_card(digits: list[int]) -> bool:
    """Whether check digit (ISO/IEC 7812) and first digit are of a payment card."""
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return digits[0] in (3, 4, 5, 6) and (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0


def _host(text: str) -> str:
    """Return the host if the whole text is a URL or a gRPC address; otherwise nothing.

    A single word before a colon and digits may be anything, such as the name of a block chain.
    """
    if len(text) > 2048:
        return ""
    address = _HOST_AND_PORT.fullmatch(text)
    if address:
        host = address[1].strip("[]")
        return host if "." in host or ":" in host or host.lower() == "localhost" else ""
    try:
        parts = urlsplit(text) if "://" in text and " " not in text else None
    except ValueError:
        return ""
    host = (parts.hostname or "") if parts else ""
    return "" if parts and parts.scheme in _BESIDE_CLIENT and is_loopback(host) else host


def _is_inside(host: str) -> bool:
    host = host.rstrip(".").lower()
    if host[-1:].isalpha() and ":" not in host:  # as no address ends
        return "." not in host or host.endswith(_INSIDE)
    try:
        return not ip_address(host).is_global
    except ValueError:
        return bool(host) and ("." not in host or host.endswith(_INSIDE))
