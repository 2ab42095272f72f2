"""With the core alone: issue, accept, present, verify, refuse."""

import importlib.util

from cryptography.hazmat.primitives.asymmetric import ec

import sdcard
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.system import SystemClock, SystemSalts

clock, salts = SystemClock(), SystemSalts()
registry, agent = (sdcard.InMemorySigner(ec.generate_private_key(ec.SECP256R1())) for _ in range(2))
card = sdcard.parse_card(
    b'{"name":"GeoRoute","description":"Plans routes.","version":"1.2.0","capabilities":{},"defaultInputModes":'
    b'["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"route","name":"Route","description":"Plans.",'
    b'"tags":["maps"]}],"supportedInterfaces":[{"url":"https://geo.example/a2a","protocolBinding":"JSONRPC",'
    b'"protocolVersion":"1.0"}]}'
)
issued = sdcard.issue_sd_card(
    sdcard.Issuer("https://registry.example", registry.public_key),
    sdcard.plan_disclosure(card, sdcard.DEFAULT_POLICY, "internal"),
    registry,
    agent_id="georoute",
    holder_key=agent.public_key,
    validity=sdcard.rounded_validity(clock.now()),
    salts=salts,
)
trusted = sdcard.TrustedIssuers.of("https://registry.example", registry.public_key)
held = sdcard.accept_sd_card(str(issued), sdcard.Acceptance(issuers=trusted), agent.public_key, clock.now())
challenges = MemoryChallengeRecord("https://verifier.example", salts)
challenge = challenges.issue(clock.now())
presentation = str(sdcard.present(held, sdcard.select_all(held), challenge, agent, clock.now()))
expectations = sdcard.Expectations(
    issuers=trusted, key_binding=sdcard.Answering(challenge, challenges), status=sdcard.Unchecked("there is no list")
)
verified = sdcard.verify_presentation(presentation, expectations, clock.now())
assert verified.subject == "agent:georoute", verified
try:
    sdcard.verify_presentation(presentation, expectations, clock.now())
    refused = None
except sdcard.Refused as refusal:
    refused = refusal.rule
assert refused is sdcard.Rule.KB_REPLAYED, refused
assert all(importlib.util.find_spec(name) is None for name in ("typer", "fastapi", "sqlalchemy"))
assert all(getattr(sdcard, name) for name in sdcard.__all__)
