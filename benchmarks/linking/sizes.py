"""Bytes of SD-Cards of the examples, beside those from before decision 0033.

It imports none of its neighbours, so an older checkout can run this file unchanged.
"""

import json
import sys
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from sdcard import DEFAULT_POLICY, InMemorySigner, Issuer, issue_sd_card, plan_disclosure, rounded_validity
from sdcard.cards.detect import read_card
from sdcard.io.system import SystemSalts
from sdcard.status_list import StatusReference

EXAMPLES = Path(__file__).parent.parent.parent / "examples"
CARDS = ("georoute.json", "georoute.agentcard.json")
CONTEXTS = ("public", "internal", "full")
BEFORE = {
    "`georoute.json`, *public*": 1_928,
    "`georoute.json`, *internal*": 7_823,
    "`georoute.json`, *full*": 10_469,
    "`georoute.agentcard.json`, *public*": 1_681,
    "`georoute.agentcard.json`, *internal*": 4_131,
    "`georoute.agentcard.json`, *full*": 4_964,
}
"""Output of this file at the commit before decision 0033."""
STATUS = StatusReference(f"https://registry.example/status/{'0' * 32}", 99_999)


def measure_sizes() -> dict[str, tuple[int, int]]:
    """Card and context → bytes of the SD-Card as it is issued, before and now."""
    return {name: (BEFORE[name], size) for name, size in sizes_now().items()}


def sizes_now() -> dict[str, int]:
    """Card and context → bytes of the SD-Card as it is issued."""
    signer, holder = (InMemorySigner(ec.derive_private_key(number, ec.SECP256R1())) for number in (2, 3))
    found = {}
    for file in CARDS:
        card = read_card(json.loads((EXAMPLES / file).read_text(encoding="utf-8")))
        for context in CONTEXTS:
            sd_card = issue_sd_card(
                Issuer("https://registry.example", signer.public_key),
                plan_disclosure(card, DEFAULT_POLICY, context),
                signer,
                agent_id="georoute",
                holder_key=holder.public_key,
                validity=rounded_validity(1_800_000_000),
                salts=SystemSalts(),
                status=STATUS,
            )
            found[f"`{file}`, *{context}*"] = len(str(sd_card))
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(sizes_now(), indent=1) + "\n")
