"""Make the examples of the page: ``python -m inspector.examples``.

They are in ``examples.json``. Their keys are thrown away.
"""

import json
from pathlib import Path
from secrets import token_bytes
from typing import Any

from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from sdcard import (
    DEFAULT_POLICY,
    Acceptance,
    Challenge,
    ClaimPath,
    Issuer,
    TrustedIssuers,
    accept_sd_card,
    issue_sd_card,
    parse_card,
    plan_disclosure,
    present,
    rounded_validity,
    select_paths,
)
from sdcard.errors import Part, Where
from sdcard.io.system import SystemSalts
from sdcard.jose.jws import InMemorySigner
from sdcard.status_list import StatusReference, issue_status_list_token, pack_statuses
from sdcard.transparency.notes import KeyType, NoteKey, cosign_checkpoint, sign_checkpoint
from sdcard.transparency.proofs import LogProof, card_entry
from sdcard.transparency.tree import MerkleTree, leaf_hash, prove_inclusion, root_hash
from sdcard.trust import encode_trusted_issuers

ROOT = Path(__file__).resolve().parent
NOW = 1_800_000_000
ISSUER, AUDIENCE, NONCE = "https://registry.example", "https://verifier.example", "n-0S6_WzA2Mj"
LIST = f"{ISSUER}/status/1"
SHOWN = ("skills.0", "provider.organization", "supportedInterfaces.0")


def _key() -> InMemorySigner:
    return InMemorySigner(ec.generate_private_key(ec.SECP256R1()))


def logged(presentation: str) -> dict[str, str]:
    """Make a small log with an SD-Card: its policy, and the proof."""
    origin, index = "registry.example/log", 2
    log, *witnesses = [InMemorySigner(ed25519.Ed25519PrivateKey.generate()) for _ in range(3)]
    names = [f"w{number}.example" for number in (1, 2)]
    salt = token_bytes(32)
    entries = [*(token_bytes(32) for _ in range(index)), card_entry(salt, presentation.split("~")[0])]
    tree = MerkleTree(map(leaf_hash, entries))
    checkpoint = sign_checkpoint(origin, len(tree), root_hash(tree, len(tree)), log)
    lines = [cosign_checkpoint(checkpoint, *one, NOW - 5_400) for one in zip(names, witnesses, strict=True)]
    keys = [NoteKey(name, KeyType.COSIGNATURE, one.public_key) for name, one in zip(names, witnesses, strict=True)]
    policy = [f"log {NoteKey(origin, KeyType.ED25519, log.public_key)}", f"witness one {keys[0]}"]
    policy += [f"witness two {keys[1]}", "group both 2 one two", "quorum both", ""]
    proof = LogProof(salt, index, prove_inclusion(tree, index, len(tree)), f"{checkpoint}{''.join(map(str, lines))}")
    return {"log_policy": "\n".join(policy), "log_proof": str(proof)}


def examples() -> dict[str, Any]:
    """Make a presentation with its keys, another card of the agent, and its card."""
    issuer, holder, other_holder, lists = _key(), _key(), _key(), _key()
    document = (ROOT.parent / "examples" / "georoute.json").read_text(encoding="utf-8")
    card = parse_card(document.encode())
    trust = TrustedIssuers(
        {ISSUER: {issuer.public_key.thumbprint: issuer.public_key}},
        {ISSUER: {lists.public_key.thumbprint: lists.public_key}},
    )

    def presented(context: str, signer: InMemorySigner, index: int, shown: tuple[str, ...], nonce: str) -> str:
        issued = issue_sd_card(
            Issuer(ISSUER, issuer.public_key),
            plan_disclosure(card, DEFAULT_POLICY, context),
            issuer,
            agent_id="georoute",
            holder_key=signer.public_key,
            validity=rounded_validity(NOW - 1_000),
            salts=SystemSalts(),
            status=StatusReference(LIST, index),
        )
        held = accept_sd_card(str(issued), Acceptance(issuers=trust), signer.public_key, NOW)
        selection = select_paths(held, [ClaimPath.parse(one, Where(Part.REQUEST)) for one in shown])
        return str(present(held, selection, Challenge(nonce, AUDIENCE), signer, NOW - 12))

    presentation = presented("internal", holder, 4_711, SHOWN, NONCE)
    return {
        **logged(presentation),
        "presentation": presentation,
        "other": presented("public", other_holder, 815, ("skills.0",), "another nonce"),
        "keys": json.dumps(encode_trusted_issuers(trust), indent=1),
        "now": NOW,
        "audience": AUDIENCE,
        "nonce": NONCE,
        "status_list_token": issue_status_list_token(
            pack_statuses({815: 1}, 8_192, 2), LIST, lists, NOW - 600, 600, NOW + 3_600
        ),
        "card": document,
    }


if __name__ == "__main__":
    (ROOT / "examples.json").write_text(json.dumps(examples(), indent=1) + "\n", encoding="utf-8")
