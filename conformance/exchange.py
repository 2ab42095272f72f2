"""Who verifies what the other one issues or presents, between each library and this one."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from conformance.libraries import Library
from conformance.peers import Peer
from conformance.scores import same
from sdcard import Acceptance, Challenge, ClaimPath, Expectations, Misuse, Refused, Unchecked, parse_trusted_issuers
from sdcard.cards.detect import read_card
from sdcard.encoding import encode_base64url, encode_json
from sdcard.errors import Part, Where
from sdcard.holder import accept_sd_card, present, select_paths
from sdcard.issuer import Issuer, Validity, issue_sd_card
from sdcard.jose.keys import PUBLISHED_KEYS, VECTOR_KEYS
from sdcard.key_binding import Answering, ConsumedByCaller
from sdcard.policy.model import DEFAULT_POLICY
from sdcard.policy.plan import plan_disclosure
from sdcard.verifier import verify_presentation
from vectors.actors import AUDIENCE, HOLDER, ISSUER, ISSUER_ID, NONCE, NOW, Actor, FixedSalts, claims, header, trust

Shape = tuple[dict[str, Any], list[list[Any]], list[list[Any]]]

SHAPES: Mapping[str, Shape] = {
    "members": ({}, [["description"], ["version"]], [["description"]]),
    "nested": (
        {"provider": {"organization": "Geo", "url": "https://geo.example"}},
        [["provider", "organization"], ["provider", "url"]],
        [["provider", "url"]],
    ),
    "elements": ({"defaultInputModes": ["a/a", "b/b", "c/c"]}, [["defaultInputModes", n] for n in (0, 2)],
                 [["defaultInputModes", 2]]),
    "recursive": (
        {"provider": {"organization": "Geo", "url": "https://geo.example"}},
        [["provider"], ["provider", "url"]],
        [["provider"], ["provider", "url"]],
    ),
}  # fmt: skip
"""What is hidden → more claims, the hidden places, and the places to show."""
CARD: dict[str, Any] = {
    "name": "GeoRoute",
    "description": "Plans routes",
    "version": "1.2.0",
    "documentationUrl": "https://georoute.example/docs",
    "supportedInterfaces": [
        {"url": "https://georoute.example/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
    ],
    "provider": {"organization": "Geo", "url": "https://geo.example"},
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [
        {"id": "route", "name": "Route", "description": "Finds a way", "tags": ["a"]},
        {"id": "traffic", "name": "Traffic", "description": "Says where not to go", "tags": ["b"]},
    ],
}
NAMES = ("iss", "sub", "iat", "exp", "vct", "cnf", "card_format")
"""Claims that are no members of a card."""
SHOWN = ("documentationUrl", "provider.url", "skills.1.name")

_ISSUER_KEY = {**ISSUER.jwk, "kid": ISSUER.public_key.thumbprint}

COLUMNS = (
    *(f"it issues, we accept: {shape}" for shape in SHAPES),
    *(f"it issues and presents, we verify: {shape}" for shape in SHAPES),
    "we issue, it presents, we verify",
    "we issue, it verifies",
    "we issue and present, it verifies",
)


def exchange(library: Library, peer: Peer) -> dict[str, str]:
    """Column → ``yes``, ``–`` for what the library does not have, or ``no`` with the reason."""
    return {column: _attempt(step) for column, step in zip(COLUMNS, _steps(library, peer), strict=True)}


class _NotOffered(Exception):
    pass


class _Failed(Exception):
    pass


def _attempt(step: Callable[[], None]) -> str:
    try:
        step()
    except _NotOffered:
        return "–"
    except _Failed as failure:
        return f"no: {failure}"
    except Refused as refusal:
        return f"no: `{refusal.rule}` at {refusal.where}"
    except Misuse as misuse:
        return f"no: {misuse}"
    return "yes"


def _steps(library: Library, peer: Peer) -> Iterator[Callable[[], None]]:
    for shape in SHAPES.values():
        yield partial(lambda one: _accepted(_issued(peer, one)), shape)
    for shape in SHAPES.values():
        yield partial(_both, peer, shape)
    card = _our_card()
    yield lambda: _shows(
        _presented(peer, card, _read(card), [["documentationUrl"]]), _members(_presentation("documentationUrl"))
    )
    yield lambda: _read_by(library, peer, card, None)
    yield lambda: _read_by(library, peer, _presentation(*SHOWN), NONCE)


# -- theirs -----------------------------------------------------------------------------------------------------------


def _ask(peer: Peer, request: Mapping[str, Any]) -> Mapping[str, Any]:
    answer = peer.ask({"now": NOW, "skew": 0, "past": 300, "future": 60, "nonce": None, "audience": None, **request})
    if answer["outcome"] == "unsupported":
        raise _NotOffered
    if answer["outcome"] != "accepted":
        raise _Failed(answer["error"])
    return answer


def _both(peer: Peer, shape: Shape) -> None:
    more, hide, show = shape
    whole = {**claims(), **more}
    expected = _visible(whole, [path for path in hide if path not in show])
    _shows(_presented(peer, _issued(peer, shape), whole, show), {n: v for n, v in expected.items() if n not in NAMES})


def _visible(whole: Any, hidden: list[list[Any]]) -> Any:
    """Take the hidden places out of the claims."""
    if not isinstance(whole, dict | list):
        return whole
    items = enumerate(whole) if isinstance(whole, list) else whole.items()
    kept = {
        name: _visible(value, [path[1:] for path in hidden if path[0] == name])
        for name, value in items
        if [name] not in hidden
    }
    return list(kept.values()) if isinstance(whole, list) else kept


def _issued(peer: Peer, shape: Shape) -> str:
    more, hide, _ = shape
    request = {"claims": {**claims(), **more}, "hide": hide, "header": header(), "key": _private(ISSUER)}
    text = str(_ask(peer, {"op": "issue", **request})["text"])
    if len([part for part in text.split("~")[1:] if part]) != len(hide):
        raise _Failed("it hides other places than asked")
    return text


def _presented(peer: Peer, text: str, whole: dict[str, Any], show: list[list[Any]]) -> str:
    request = {"text": text, "claims": whole, "show": show, "key": _private(HOLDER), "issuer_key": _ISSUER_KEY}
    return str(_ask(peer, {"op": "present", "audience": AUDIENCE, "nonce": NONCE, **request})["text"])


def _read_by(library: Library, peer: Peer, text: str, nonce: str | None) -> None:
    request = {"text": text, "key": _ISSUER_KEY, "nonce": nonce, "audience": AUDIENCE if nonce else None}
    found = _ask(peer, {"op": "verify", **request})["claims"]
    if not same(*({n: v for n, v in one.items() if n not in library.omits} for one in (found, _read(text)))):
        raise _Failed("it reads other claims")


def _private(actor: Actor) -> dict[str, str]:
    number = actor._key.private_numbers().private_value.to_bytes(32, "big")
    return {**{name: str(value) for name, value in actor.jwk.items()}, "d": encode_base64url(number)}


# -- ours -------------------------------------------------------------------------------------------------------------


def _acceptance() -> Acceptance:
    return Acceptance(issuers=parse_trusted_issuers(encode_json(trust())), published_keys=PUBLISHED_KEYS - VECTOR_KEYS)


def _accepted(text: str) -> None:
    accept_sd_card(text, _acceptance(), HOLDER.public_key, NOW)


def _members(text: str) -> Mapping[str, Any]:
    """Verify a presentation with the public API, and return the members of the card."""
    terms = _acceptance()
    expectations = Expectations(
        issuers=terms.issuers,
        published_keys=terms.published_keys,
        key_binding=Answering(Challenge(NONCE, AUDIENCE), ConsumedByCaller()),
        status=Unchecked("an exchange between libraries"),
    )
    return verify_presentation(text, expectations, NOW).members


def _shows(text: str, expected: Mapping[str, Any]) -> None:
    if not same(dict(_members(text)), dict(expected)):
        raise _Failed("it shows other claims than selected")


def _our_card() -> str:
    plan = plan_disclosure(read_card(CARD), DEFAULT_POLICY, "full")
    card = issue_sd_card(
        Issuer(ISSUER_ID, ISSUER.public_key),
        plan,
        ISSUER,
        agent_id="georoute",
        holder_key=HOLDER.public_key,
        validity=Validity(NOW - 3600, NOW + 3600),
        salts=FixedSalts("exchange"),
    )
    return str(card)


def _read(text: str) -> dict[str, Any]:
    """Return the Processed SD-JWT Payload, with the rules of a Holder."""
    sd_jwt = f"{text.rpartition('~')[0]}~"
    return dict(accept_sd_card(sd_jwt, _acceptance(), HOLDER.public_key, NOW).issued.verified.processed.claims)


def _presentation(*paths: str) -> str:
    held = accept_sd_card(_our_card(), _acceptance(), HOLDER.public_key, NOW)
    selection = select_paths(held, [ClaimPath.parse(path, Where(Part.REQUEST)) for path in paths])
    return str(present(held, selection, Challenge(NONCE, AUDIENCE), HOLDER, NOW))
