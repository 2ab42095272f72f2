"""Every parameter of every public function and class, with values of its type that are out of range or hostile.

A call returns, or raises ``Refused`` or ``Misuse``; never ``KeyError``, ``UnicodeEncodeError`` or the like.
"""

import asyncio
import enum
import inspect
import json
import math
import types
import typing
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

import pytest

import sdcard
from sdcard import (
    AGENT_SD_JWT_02,
    DEFAULT_POLICY,
    Card,
    CardSigners,
    Challenge,
    ClaimPath,
    ClaimRequest,
    FreshnessWindow,
    Issuer,
    Limits,
    Misuse,
    Refused,
    TrustedIssuers,
    VerificationCache,
    Where,
    create_dpop_proof,
    issue_trust_list,
    parse_card,
    rounded_validity,
    select_all,
)
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.errors import Part
from sdcard.issuer import Validity
from sdcard.policy.context import Partner
from sdcard.policy.model import DisclosurePolicy
from sdcard.status_list import StatusReference
from sdcard.transparency.notes import parse_checkpoint
from sdcard.trust import encode_trusted_issuers
from tests.sdcard.test_pickling import SAMPLES
from tests.world import AUDIENCE, ISSUER, NOW, World, example, key
from vectors.logs import POLICY as LOG_POLICY
from vectors.logs import WITNESSES, proof


def nested(depth: int) -> dict[str, Any]:
    outer: dict[str, Any] = {}
    inner = outer
    for _ in range(depth):
        inner["a"] = {}
        inner = inner["a"]
    return outer


HUGE = 10**400
TEXTS = [
    *("", " ", "\n", "\0", "\ud800", "é", "\u202e", "~", ".", "..", "a.b.c", "[", "/", "/~2", "%", "agent:"),
    *("https://", "https://[", "https://a:99999/", "a" * 200, "a" * 100_000),
]
BYTES = [
    *(b"", b"\xff", b"null", b"[]", b"{}", b"1e999", b'"\\ud800"', b"\xef\xbb\xbf{}", b'{"a":1,"a":2}'),
    *(b"[" * 100_000, b"1" * 5_000),
]
WHOLE = [-1, 0, 1, 2**63, HUGE, -HUGE]
NUMBERS = [*WHOLE, 0.5, 1e-300, 1e300, -1e300, math.inf, -math.inf, math.nan]
DEEP = nested(5_000)
OBJECTS: list[dict[str, Any]] = [
    *({}, DEEP, {"\ud800": 1}, {"": None}, {"a": math.nan}, {"a": HUGE}, {"_sd": [1]}, {"...": 1}, {"cnf": 5}),
    *({"skills": 5}, {"skills": [None]}, {"name": []}, {"card_format": []}),
]
JSON: list[Any] = [None, True, 5, HUGE, math.nan, math.inf, "\ud800", "\0", [], [[]], *OBJECTS]
MANY = 70
"""So often a member of a sequence is repeated."""


def cards() -> Iterator[Card]:
    """Cards that nobody read."""
    for card_format in KNOWN_FORMATS.values():
        for document in OBJECTS:
            try:
                yield Card(card_format, document)
            except Refused:
                continue


VALUES: dict[type, Callable[[], list[Any]]] = {
    str: lambda: TEXTS,
    bytes: lambda: BYTES,
    bool: lambda: [True, False],
    int: lambda: WHOLE,
    float: lambda: NUMBERS,
    object: lambda: JSON,
    Hashable: lambda: [None, 0, "", ()],
    type(None): lambda: [None],
    Where: lambda: [Where(Part.REQUEST), Where(Part.CARD, ("\ud800", 0))],
    Card: lambda: list(cards()),
    ClaimPath: lambda: [ClaimPath(segments) for segments in ((), (HUGE,), ("\ud800",), (None,) * 1_000)],
    ClaimRequest: lambda: [ClaimRequest(), ClaimRequest((ClaimPath(("\ud800",)),))],
    TrustedIssuers: lambda: [TrustedIssuers({}), TrustedIssuers({"": {}}), TrustedIssuers({ISSUER: {}})],
    sdcard.PublicKey: lambda: [key(7).public_key],
    FreshnessWindow: lambda: [FreshnessWindow(0, 0)],
    Validity: lambda: [Validity(0, 1), Validity(NOW, NOW + 1)],
    StatusReference: lambda: [StatusReference("\ud800", 1), StatusReference("x", HUGE)],
    Limits: lambda: [Limits(**{field.name: bound for field in fields(Limits)}) for bound in (0, 1, 2)],
    Challenge: lambda: [Challenge("n", AUDIENCE), Challenge("\0", "a" * 100_000)],
    DisclosurePolicy: lambda: [DisclosurePolicy({})],
    CardSigners: lambda: [CardSigners({}), CardSigners.of(key(7).public_key)],
    Issuer: lambda: [Issuer("https://[", key(1).public_key), Issuer("https://a.example", key(7).public_key)],
    sdcard.Profile: lambda: [AGENT_SD_JWT_02],
    sdcard.LogPolicy: lambda: [sdcard.parse_log_policy(LOG_POLICY)],
    sdcard.InLog: lambda: [sdcard.InLog(sdcard.parse_log_policy(LOG_POLICY), "\ud800")],
    sdcard.LogNotAsked: lambda: [sdcard.LogNotAsked()],
    Partner: lambda: [Partner("\ud800", NOW, 3_600)],
}
"""Type → values. Of a protocol, or a type that only results have, there are none but the good one."""


def values(annotation: Any, good: Any) -> list[Any]:
    """Values of an annotation. ``good``: one that works, as far as there is one."""
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if isinstance(annotation, str):  # of a recursive alias
        return JSON
    if origin in (typing.Union, types.UnionType):
        return [value for one in inner for value in values(one, good)]
    if origin is tuple and len(inner) == 2 and inner[1] is not Ellipsis:
        return []
    if origin in (tuple, frozenset):
        members = [one for one in values(inner[0], None) if isinstance(one, Hashable)]
        pair = [origin([one, one]) for one in members[:3]] if origin is tuple else []
        return [origin(), *(origin([one]) for one in members), *pair]
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if "JsonValue" in str(annotation):
            return OBJECTS
        first = next(iter(good.values())) if isinstance(good, Mapping) and good else None
        return [{}, *({name: first} for name in TEXTS if first), *({"a": one} for one in values(inner[1], first))]
    if isinstance(origin, type) and issubclass(origin, Iterable):
        first = list(good)[:1] if isinstance(good, (list, tuple)) else []
        return [[], (), *([one] for one in values(inner[0], None)), first * 2, first * MANY]
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return list(annotation)
    return VALUES[annotation]() if annotation in VALUES else []


@contextmanager
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


def arguments(world: World, name: str) -> dict[str, Any]:
    """A good value for each name of a parameter; some of one function alone."""
    held, document = world.holder.accept(), json.dumps(example()).encode()
    card, kid = parse_card(document), world.issuer.signer.public_key.thumbprint
    of_issuer = {"signer": world.issuer.signer}
    verified: dict[str, Any] = {"presentation": world.holder.present(world.challenge)}
    verified["expectations"] = world.verifier.expectations(world.verifier.answering(world.challenge))
    proven = {"values": [create_dpop_proof(world.holder.signer, "GET", "https://a.example/", None, world.salts, NOW)]}
    trusted = json.dumps(encode_trusted_issuers(world.issuer.trust)).encode()
    signed = issue_trust_list(world.issuer.trust, world.issuer.signer, NOW, NOW + 100)
    logged = str(proof(held.sd_jwt.issuer_jwt, *WITNESSES))
    checkpoint = logged.partition("\n\n")[2]
    own: dict[str, dict[str, Any]] = {
        "check_admission": {"card": SAMPLES["VerifiedCard"](World()), "policy": SAMPLES["AdmissionPolicy"](world)},
        "accept_sd_card": {"text": str(world.holder.card)},
        "issue_sd_card": of_issuer,
        "issue_trust_list": of_issuer,
        "verify_trust_list": {"text": signed, "signers": [world.issuer.signer.public_key]},
        "verify_presentation": verified,
        "verify_presentation_async": verified,
        "verify_dpop_proof": proven,
        "verify_dpop_proof_async": proven,
        "parse_trusted_issuers": {"data": trusted},
        "parse_card_signers": {"data": b'{"keys":[]}'},
        "DisclosurePolicy.padded_size": {"count": 4},
        "VerificationCache": {"max_bytes": 100_000},
        "VerificationCache.store": {"size": 1_000},
        "parse_log_policy": {"text": LOG_POLICY},
        "LogPolicy.verify": {"text": checkpoint},
        "LogPolicy.check_log": {"checkpoint": parse_checkpoint(checkpoint)},
        "LogPolicy.check_witnesses": {"checkpoint": parse_checkpoint(checkpoint)},
        "with_log_proof": {"proof": logged},
        "InLog": {"policy": sdcard.parse_log_policy(LOG_POLICY)},
        "InMemorySigner": {"key": key(3)._key},
    }
    shared = {
        "now": NOW,
        "issued_at": NOW,
        "expires_at": NOW + 100,
        "validity": rounded_validity(NOW),
        "acceptance": world.holder.acceptance,
        "holder_key": world.holder.key,
        "key": world.holder.key,
        "card": card,
        "target": "a2a/0.3",
        "claims": {},
        "document": example(),
        "card_format": card.format,
        "signer": world.holder.signer,
        "method": "GET",
        "url": "https://a.example/x",
        "access_token": None,
        "salts": world.salts,
        "held": held,
        "selection": select_all(held),
        "allowed": select_all(held),
        "issuer": world.issuer.issuer,
        "issuers": world.issuer.trust,
        "policy": DEFAULT_POLICY,
        "context": "full",
        "plan": world.issuer.plan("full"),
        "plans": [world.issuer.plan("full")],
        "holder_keys": [world.holder.key],
        "agent_id": "a",
        "audience": AUDIENCE,
        "data": document,
        "value": world.holder.key.to_jwk(),
        "where": Where(Part.REQUEST),
        "request": ClaimRequest.of("skills"),
        "paths": [ClaimPath(("skills",))],
        "sd_jwt": world.issuer.issue().sd_jwt,
        "expected": SAMPLES["DpopExpectations"](world),
        "threads": 2,
        "presentations": [("x", world.verifier.expectations(world.verifier.unsolicited()))],
        "kid": kid,
        "header": {"kid": kid, "alg": "ES256"},
        "challenge": world.challenge,
        "text": "skills",
        "texts": ["skills"],
        "name": "full",
        "disclose": None,
        "signers": CardSigners({}),
        "partner": None,
        "message": b"m",
        "signature": b"s",
        "entry": 1,
        "alg": None,
        "place": ("skills", 0),
        "other": ClaimPath(("skills",)),
        "findings": (),
        "segments": (),
        "size": 10,
    }
    return {**shared, **own.get(name, {})}


def public() -> dict[str, tuple[str, str]]:
    """Public callables of the core: name → class and method; or a function's name and nothing."""
    found = dict[str, tuple[str, str]]()
    for name in sdcard.__all__:
        if sdcard._HOME[name].startswith("io."):
            continue  # it uses files or the network: tests/sdcard/io has its hostile values
        one = getattr(sdcard, name)
        if not inspect.isclass(one):
            found |= {name: (name, "")} if inspect.isfunction(one) else {}
        elif not issubclass(one, enum.Enum) and not getattr(one, "_is_protocol", False) and one is not Misuse:
            found[name] = (name, "")
            for method, code in inspect.getmembers(one, callable):
                if not method.startswith("_") and (inspect.isfunction(code) or inspect.ismethod(code)):
                    found[f"{name}.{method}"] = (name, method)
    return found


PUBLIC = public()
WITHOUT_PARAMETERS = {"VerificationCache.clear", "PartialCard.complete", "VerifiedCard.complete", "WithoutToken"}
WITHOUT_PARAMETERS |= {"PublicKey.to_jwk"}
ONE_VALUE = {
    "signer sources salts pool seen issued source": "a protocol: what it does is its own",
    "key _key": "a key of the library for cryptography",
    "card_format format": "our own description of a format",
    "sd_jwt _issued root agreement selection allowed held plan acceptance": "only results of ours have this type",
    "contexts agreements": "only a parsed policy has them",
    "checkpoint": "only a parsed text has this type",
    "policy card token expected expectations presentations key_binding status requirement": "made of what is tried",
}
"""Parameters for which there is no value but the good one, and why."""


def call(function: Callable[..., Any], given: Mapping[str, Any], signature: inspect.Signature) -> None:
    """Call with values by name, and await."""
    kinds = signature.parameters
    variable = [name for name in kinds if kinds[name].kind is inspect.Parameter.VAR_POSITIONAL]
    before = [given[name] for name in kinds if variable and name not in variable]
    named = {} if variable else {name: given[name] for name in kinds if name in given}
    answer = function(*before, *(given[name] for name in variable if name in given), **named)
    if inspect.isawaitable(answer):
        asyncio.run(asyncio.wait_for(_awaited(answer), 10))


async def _awaited(answer: Any) -> Any:
    return await answer


@pytest.mark.parametrize("name", sorted(PUBLIC.keys() - WITHOUT_PARAMETERS))
def test_a_value_out_of_range_is_refused_or_misuse(world: World, name: str) -> None:
    of, method = PUBLIC[name]
    one = getattr(sdcard, of)
    made: dict[str, Callable[[], object]] = {"VerificationCache": VerificationCache, "InMemorySigner": lambda: key(3)}
    sample = SAMPLES[of](world) if of in SAMPLES else made[of]() if of in made else None
    function = getattr(sample, method) if method else one
    signature = inspect.signature(function, eval_str=True)
    with pool() as threads:
        good = {**arguments(world, name), "pool": threads}
        given = {p: getattr(sample, p, good.get(p)) if not method else good.get(p) for p in signature.parameters}
        kinds = signature.parameters
        single = [p for p in kinds if kinds[p].kind is not inspect.Parameter.VAR_POSITIONAL]
        needed = [p for p in single if kinds[p].default is inspect.Parameter.empty]
        wanted = {p: given[p] for p in needed}
        for p, parameter in signature.parameters.items():
            tried = values(parameter.annotation, given[p])
            assert tried or any(p in names.split() for names in ONE_VALUE), p
            for value in tried:
                try:
                    call(function, {**wanted, p: value}, signature)
                except (Refused, Misuse):
                    continue


@pytest.mark.parametrize("now", [-1, HUGE, math.nan, math.inf, -math.inf, 1e300])
def test_no_instant_is_misuse_wherever_an_instant_is_given(world: World, now: float) -> None:
    tried = 0
    for name, (of, method) in PUBLIC.items():
        sample = SAMPLES[of](world) if method and of in SAMPLES else None
        function = getattr(sample, method) if method and sample else getattr(sdcard, of)
        if name in WITHOUT_PARAMETERS or "now" not in inspect.signature(function).parameters:
            continue
        signature = inspect.signature(function, eval_str=True)
        good = {p: one for p, one in arguments(world, name).items() if p in signature.parameters}
        with pool() as threads, pytest.raises(Misuse, match="an instant"):
            call(function, {**good, **({"pool": threads} if name == "verify_many" else {}), "now": now}, signature)
        tried += 1
    assert tried >= 12


def test_a_document_that_nobody_read_is_refused_before_it_is_used() -> None:
    for card_format in KNOWN_FORMATS.values():
        with pytest.raises(Refused, match=r"json\.depth"):
            Card(card_format, nested(200))
    shown = sdcard.PartialCard(declared_format="a2a/1.0", members=nested(100), emptied=frozenset())
    with pytest.raises(Refused, match=r"card\.incomplete"):
        shown.complete()
