"""Runners of vectors about agent cards."""

from collections.abc import Sequence

from sdcard import parse_card, parse_card_file, parse_card_signers
from sdcard.encoding import encode_json
from sdcard.errors import Finding, Misuse, Refused
from sdcard.vectors.given import OTHERS_KEYS, Given, limits_of


def run_card(vector: Given) -> Sequence[Finding]:
    """Parse a card document, or a file with one."""
    parse = parse_card_file if vector["kind"] == "card-file" else parse_card
    expected = vector.get("expectations", {})
    limits = limits_of(expected)
    try:
        signers = parse_card_signers(encode_json(expected.get("signers", {"keys": []})), limits, OTHERS_KEYS)
    except Refused as refusal:
        raise Misuse(f"`signers`: {refusal.rule.sentence}") from None
    return parse(vector["document"].encode(), limits, signers).findings
