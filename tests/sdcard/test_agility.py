"""Every algorithm for the Issuer's key with every algorithm for the Holder's: issued, held, presented, verified."""

import pytest

from sdcard import Acceptance, Issuer, TrustedIssuers, accept_sd_card, issue_sd_card, rounded_validity, select_all
from sdcard.encoding import same_json
from sdcard.holder import present
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.sdjwt.model import to_flattened, to_general
from tests.world import AGENT_ID, ISSUER, World, decode_part, key_of, payload_of, raises_rule


@pytest.mark.parametrize("holding", SignatureAlgorithm)
@pytest.mark.parametrize("issuing", SignatureAlgorithm)
def test_every_issuer_key_with_every_holder_key(
    world: World, issuing: SignatureAlgorithm, holding: SignatureAlgorithm
) -> None:
    registry, agent, now = key_of(issuing, 1), key_of(holding, 2), world.clock.now()
    trust = TrustedIssuers.of(ISSUER, registry.public_key)

    card = issue_sd_card(
        Issuer(ISSUER, registry.public_key),
        world.issuer.plan("internal"),
        registry,
        agent_id=AGENT_ID,
        holder_key=agent.public_key,
        validity=rounded_validity(now),
        salts=world.salts,
    )
    assert payload_of(card.sd_jwt)["cnf"] == {"jwk": agent.public_key.to_jwk()}

    held = accept_sd_card(str(card), Acceptance(issuers=trust), agent.public_key, now)
    for write in (str, to_flattened, to_general):
        challenge = world.verifier.challenge()
        bound = present(held, select_all(held), challenge, agent, now)
        assert decode_part(bound.kb_jwt.split(".")[0])["alg"] == holding.value
        verified = world.verifier.verify(write(bound), challenge, issuers=trust)
        assert same_json(verified.members, held.issued.members)
        assert verified.holder_key == agent.public_key

    stranger = key_of(holding, 3)
    challenge = world.verifier.challenge()
    stolen = world.holder.bind(card.sd_jwt, challenge, header={"alg": holding.value}, signer=stranger)
    with raises_rule("jws.signature", at="kb-jwt/signature"):
        world.verifier.verify(stolen, challenge, issuers=trust)
