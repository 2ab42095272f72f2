"""Refusals, findings and their hints."""

from collections.abc import Iterator
from itertools import chain, count

import pytest

from sdcard import Finding, Misuse, Refused, Rule, Where
from sdcard.errors import AND_MORE, MOST_FINDINGS, Level, Part, first_findings
from sdcard.http_auth import problem_document
from sdcard.vectors import parse_vector
from tests.shared import ROOT
from tests.world import World, digest, seal_claim

# -- The two families of error: data first, and never a value ---------------------------------------------------------


def test_a_place_is_a_part_and_the_way_to_it() -> None:
    assert str(Where(Part.KB_JWT)) == "kb-jwt"
    assert str(Where(Part.CARD, ("skills",)).within(0, "id")) == "card/skills/0/id"


def test_a_refusal_names_its_first_finding_and_keeps_them_all() -> None:
    findings = [
        Finding(Rule.CARD_MEMBER_MISSING, Where(Part.CARD, ("name",)), "Say it."),
        Finding(Rule.CARD_MEMBER_TYPE, Where(Part.CARD, ("url",)), level=Level.WARNING),
    ]
    refusal = Refused.because(findings)
    assert refusal.findings == tuple(findings)
    assert (refusal.rule, refusal.where) == (Rule.CARD_MEMBER_MISSING, Where(Part.CARD, ("name",)))
    assert str(refusal) == "card.member-missing at card/name: Say it."
    assert str(findings[1]) == f"card.member-type at card/url: {Rule.CARD_MEMBER_TYPE.sentence}"


def test_misuse_is_no_outcome() -> None:
    assert not issubclass(Misuse, Refused)
    assert issubclass(Misuse, ValueError)


@pytest.mark.parametrize("changes", [{"iat": -1}, {"nonce": "canary"}, {"aud": "canary"}, {"interaction_id": 5}])
def test_no_message_quotes_a_value(world: World, changes: dict[str, object]) -> None:
    secret = seal_claim("canary-name", {"canary": "canary", "_sd": [digest("d"), digest("d")]})
    sd_jwt = world.issuer.sd_jwt(world.issuer.claims({"_sd": [digest(secret)]}), secret)
    cheats = [
        world.holder.bind(sd_jwt, world.challenge),
        world.holder.bind(world.holder.unbound(), world.challenge, changes),
    ]
    for cheat in cheats:
        with pytest.raises(Refused) as caught:
            world.verifier.verify(cheat, world.challenge)
        assert "canary" not in f"{caught.value} {caught.value!r} {caught.value.findings}"


def many(level: Level, most: int) -> Iterator[Finding]:
    return (Finding(Rule.CARD_FORMAT, Where(Part.CARD, (number,)), "Mend it.", level) for number in range(most))


def test_an_error_is_never_lost_among_warnings() -> None:
    found = first_findings(chain(many(Level.WARNING, 5_000), many(Level.ERROR, 1), many(Level.NOTE, 10)))
    assert [finding.level for finding in found] == [Level.WARNING] * MOST_FINDINGS + [Level.ERROR]
    assert found[-1].hint == f"Mend it. {AND_MORE}"
    assert first_findings(many(Level.ERROR, MOST_FINDINGS)) == list(many(Level.ERROR, MOST_FINDINGS))


def test_the_search_stops_at_one_error_too_many() -> None:
    endless = (Finding(Rule.CARD_FORMAT, Where(Part.CARD)) for _ in count())
    assert len(first_findings(endless)) == MOST_FINDINGS
    assert first_findings([]) == []


def test_a_refusal_for_very_much_keeps_the_first_of_it() -> None:
    refusal = Refused.because(list(many(Level.ERROR, 5_000)))
    assert len(refusal.findings) == MOST_FINDINGS
    assert (refusal.findings[0], refusal.findings[-1].hint) == (next(many(Level.ERROR, 1)), f"Mend it. {AND_MORE}")
    assert AND_MORE in str(problem_document(refusal, 422)["detail"])
    assert AND_MORE not in str(problem_document(Refused.because(list(many(Level.ERROR, 3))), 422)["detail"])


def test_a_long_name_is_cut_in_the_text_of_a_place_alone() -> None:
    place = Where(Part.CARD, ("a" * 100_000, 1, "b" * 256))
    assert str(place) == f"card/{'a' * 256}…/1/{'b' * 256}"
    assert place.path[0] == "a" * 100_000


# -- What a refusal tells a person beyond the rule --------------------------------------------------------------------

# Whole sentences, in our own words, that say what was expected.

HINTS = {
    "algorithms/es256-said-to-be-another": "The key signs with ES256.",
    "encoding/payload-array": "A JSON object is expected.",
    "json-forms/both-forms": "In the general form it belongs in `signatures`.",
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
    "sd-card/cnf-private": "Send only the public key. Replace this key: it is disclosed.",
    "sd-card/cnf-published": "Make your own key; this one is in a public document.",
    "sd-card/cnf-rsa": "Use an EC key on P-256, P-384 or P-521, Ed25519, or ML-DSA.",
    "sd-card/cnf-small-order": "The point is not a valid public key.",
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
    """Return the refusal of a vector."""
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
