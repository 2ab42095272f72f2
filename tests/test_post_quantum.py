"""``docs/post-quantum.md`` is true: the way goes through, and the sizes are those that it says."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from issuer_service.keys.repository import KeyState
from sdcard import Acceptance, Issuer, Limits, TrustedIssuers, accept_sd_card, issue_sd_card, rounded_validity
from sdcard.encoding import encode_json
from sdcard.errors import Part, Where
from sdcard.holder import present, select_all
from sdcard.jose import algorithms as ml_dsa
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import InMemorySigner, parse_jws
from sdcard.sdjwt.model import SdJwt, parse_sd_jwt
from sdcard.trust import parse_key_set
from tests.issuer_service.desk import Desk, OpenDesk, jwk, key_row, request, seed_keys
from tests.shared import ROOT
from tests.world import AGENT_ID, ISSUER, World, key, key_of, raises_rule

OLD, NEXT = key_of(SignatureAlgorithm.ES256, 10), key_of(SignatureAlgorithm.ML_DSA_65, 31)
AGENT, AGENT_PQ = key(32), key_of(SignatureAlgorithm.ML_DSA_65, 32)


@pytest.fixture
def desk(tmp_path: Any) -> Desk:
    """A registry with two keys: one signs, the other is the next one."""
    desk = Desk(tmp_path)
    assert desk.signer.public_key == OLD.public_key
    seed_keys(desk.url, key_row(NEXT, state=KeyState.NEXT))
    return desk


@contextmanager
def signing_with(desk: Desk, signer: InMemorySigner) -> Iterator[OpenDesk]:
    """The registry, on the one database, with one of its keys; it publishes both."""
    with desk.open(sign_with=signer.public_key.thumbprint) as registry:
        yield registry


def registering(registry: OpenDesk, *agents: InMemorySigner) -> list[str]:
    """The public SD-Cards of one agent, one for each key."""
    body = request(public_key=None, public_keys=[jwk(one) for one in agents], disclosure_contexts=[{"context": "full"}])
    return [one["sd_card"] for one in registry.register(body)["cards"]]


def trusting(registry: OpenDesk) -> TrustedIssuers:
    return TrustedIssuers({ISSUER: parse_key_set(registry.get("/.well-known/jwks.json").json(), Where(Part.TRUST))})


def kid_of(card: str) -> object:
    arrived = parse_sd_jwt(card, Limits())
    assert isinstance(arrived, SdJwt)
    return parse_jws(arrived.issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, 64).header["kid"]


def verify(world: World, card: str, agent: InMemorySigner, trust: TrustedIssuers) -> str:
    """Verify a presentation with this trust."""
    everyone = TrustedIssuers.of(ISSUER, OLD.public_key, NEXT.public_key)
    held = accept_sd_card(card, Acceptance(issuers=everyone), agent.public_key, world.clock.now())
    challenge = world.verifier.challenge()
    text = str(present(held, select_all(held), challenge, agent, world.clock.now()))
    return world.verifier.verify(text, challenge, issuers=trust).subject


def test_a_registry_moves_while_old_verifiers_still_work(
    world: World, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = "agent:ai-assistant-v2"
    with signing_with(desk, OLD) as one, signing_with(desk, NEXT) as other:
        both = trusting(one)
        assert both.keys[ISSUER].keys() == trusting(other).keys[ISSUER].keys()
        with monkeypatch.context() as without_ml_dsa:
            without_ml_dsa.setattr(ml_dsa, "_module", None)
            old = trusting(one)
        classical, mixed = registering(one, AGENT, AGENT_PQ)
        half, post_quantum = registering(other, AGENT, AGENT_PQ)
    assert set(both.keys[ISSUER]) == {OLD.public_key.thumbprint, NEXT.public_key.thumbprint}
    assert set(old.keys[ISSUER]) == {OLD.public_key.thumbprint}
    assert [kid_of(card) == OLD.public_key.thumbprint for card in (classical, mixed, half, post_quantum)] == [
        *(True, True),
        *(False, False),
    ]

    for card, agent in ((classical, AGENT), (mixed, AGENT_PQ), (half, AGENT), (post_quantum, AGENT_PQ)):
        assert verify(world, card, agent, both) == subject
    assert verify(world, classical, AGENT, old) == subject
    for card, agent in ((half, AGENT), (post_quantum, AGENT_PQ)):
        with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
            verify(world, card, agent, old)

    only_new = TrustedIssuers.of(ISSUER, NEXT.public_key)
    assert verify(world, post_quantum, AGENT_PQ, only_new) == subject
    with raises_rule("issuer.key-unknown", at="issuer-header/kid"):
        verify(world, classical, AGENT, only_new)


def test_a_verifier_without_ml_dsa_refuses_such_a_holder_key(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    card = world.issuer.issue("public", holder_key=AGENT_PQ.public_key)
    challenge = world.verifier.challenge()
    text = world.holder.bind(card.sd_jwt, challenge, header={"alg": "ML-DSA-65"}, signer=AGENT_PQ)
    monkeypatch.setattr(ml_dsa, "_module", None)
    with raises_rule("key.unsupported", at="issuer-jwt/cnf/jwk"):
        world.verifier.verify(text, challenge)


def sizes(world: World, algorithm: SignatureAlgorithm) -> list[int]:
    registry, agent, now = key_of(algorithm, 1), key_of(algorithm, 2), world.clock.now()
    signature = registry.sign(b"")
    issued = {
        context: issue_sd_card(
            Issuer(ISSUER, registry.public_key),
            world.issuer.plan(context),
            registry,
            agent_id=AGENT_ID,
            holder_key=agent.public_key,
            validity=rounded_validity(now),
            salts=world.salts,
        )
        for context in ("public", "internal")
    }
    acceptance = Acceptance(issuers=TrustedIssuers.of(ISSUER, registry.public_key))
    held = accept_sd_card(str(issued["internal"]), acceptance, agent.public_key, now)
    presented = present(held, select_all(held), world.challenge, agent, now)
    in_a_jws = len(str(issued["public"]).split("~")[0].split(".")[2])
    cnf = len(encode_json({"jwk": dict(agent.public_key.to_jwk())}))
    return [len(signature), in_a_jws, cnf, *(len(str(card)) for card in issued.values()), len(str(presented))]


def test_the_sizes_are_those_of_the_document(world: World) -> None:
    text = (ROOT / "docs" / "post-quantum.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\w-]+) \| ([\d |]+) \|$", text, re.MULTILINE)
    stated = {name: [int(number) for number in numbers.split(" | ")] for name, numbers in rows}
    assert stated == {algorithm.value: sizes(world, algorithm) for algorithm in SignatureAlgorithm}
