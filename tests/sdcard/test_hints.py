"""What a refusal tells a person beyond the rule: whole sentences, in our own words, that say what was expected."""

import pytest

from sdcard import Refused, Rule
from sdcard.errors import Where
from sdcard.vectors import parse_vector
from tests.shared import ROOT

HINTS = {
    "algorithms/es256-said-to-be-another": "The key signs with ES256.",
    "encoding/payload-array": "A JSON object is expected.",
    "json-forms/both-forms": "The general form has it within `signatures`.",
    "json-forms/crit-unprotected": "An unprotected header is not signed.",
    "json-forms/disclosures-at-top": "It belongs in the unprotected header.",
    "json-forms/disclosures-in-second-signature": "Only the first signature may have it.",
    "json-forms/disclosures-numbers": "Each Disclosure is a string.",
    "json-forms/disclosures-string": "An array of Disclosures is expected.",
    "json-forms/header-array": "A JSON object is expected.",
    "json-forms/no-signatures": "An array with one signature or more is expected.",
    "json-forms/parameter-twice": "A parameter is in the protected header too.",
    "json-forms/payload-absent": "A string that is not empty is expected.",
    "jws/typ-absent": "Expected: dc+sd-jwt.",
    "key-binding/audience-array": "The claim must be a single string.",
    "key-binding/exp": "The KB-JWT has expired.",
    "key-binding/nbf": "The KB-JWT is not valid yet.",
    "key-binding/nonce-too-long": "A nonce has 1 to 256 characters.",
    "key-binding/typ-absent": "Expected: kb+jwt.",
    "sd-card/cnf-for-encryption": "The key is not for signatures.",
    "sd-card/cnf-of-another-alg": "The key's type signs with another algorithm.",
    "sd-card/cnf-off-curve": "The point is not on the curve.",
    "sd-card/cnf-private": "Send the public half only, and replace this key: it was sent.",
    "sd-card/cnf-published": "Make a key of your own; this one stands in a public document.",
    "sd-card/cnf-rsa": "Use an EC key on P-256, P-384 or P-521, Ed25519, or ML-DSA.",
    "sd-card/cnf-small-order": "This is no point that a key can be.",
    "sd-jwt/claim-as-element": "An array element has a salt and a value only.",
    "sd-jwt/element-as-claim": "An object's claim needs salt, name and value.",
    "sd-jwt/no-tilde": "There is no `~`.",
    "sd-jwt/sd-alg-nested": "`_sd_alg` belongs at the top level.",
    "trust/key-long-x": "The member must encode exactly 32 bytes.",
    "trust/key-no-y": "The member must be a string.",
}
SILENT = (
    "algorithms/es256-flipped",
    "times/exp-now",
    "times/nbf-1-after-now",
    "key-binding/replayed",
    "sd-jwt/digest-twice",
)
"""Vectors whose rule needs no more words: its own sentence is told."""


def refusal(name: str, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """What is raised for a vector."""
    raised: list[Refused] = []
    make = Refused.__init__

    def record(self: Refused, rule: Rule, where: Where, hint: str = "") -> None:
        make(self, rule, where, hint)
        raised.append(self)

    monkeypatch.setattr(Refused, "__init__", record)
    parse_vector((ROOT / "vectors" / f"{name}.json").read_bytes()).run()
    return raised[-1]


@pytest.mark.parametrize("name", HINTS)
def test_a_person_is_told_what_was_expected(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal(name, monkeypatch).findings[0].hint == HINTS[name]


@pytest.mark.parametrize("name", SILENT)
def test_without_more_words_the_rule_speaks_for_itself(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = refusal(name, monkeypatch)

    assert refused.findings[0].hint == ""
    assert str(refused) == f"{refused.rule} at {refused.where}: {refused.rule.sentence}"
