"""HTTP statuses of rules, and problem documents."""

import json

import pytest

from issuer_service.problems import _OF_A_KIND, _OF_HTTP, STATUS, problem_response
from sdcard import Finding, Refused, Rule, Where
from sdcard.errors import AND_MORE, Level, Part
from sdcard.rules import Kind

WHERE = Where(Part.CARD, ("skills", 0))


def test_every_rule_has_the_status_of_its_kind_and_only_rules_of_http_another() -> None:
    statuses = {kind: {STATUS[rule] for rule in Rule if rule.kind is kind and rule not in _OF_HTTP} for kind in Kind}

    assert statuses == {kind: {status} for kind, status in _OF_A_KIND.items()}
    assert len(set(_OF_A_KIND.values()) | set(_OF_HTTP.values())) == len(_OF_A_KIND) + len(_OF_HTTP)
    assert {str(rule).partition(".")[0] for rule in _OF_HTTP} == {"request"}
    assert set(STATUS) == set(Rule)


def test_every_rule_makes_a_problem_document() -> None:
    for rule in Rule:
        response = problem_response(Refused(rule, WHERE, "a hint"))

        document = json.loads(bytes(response.body))
        assert document == {
            "type": f"urn:sd-card:rule:{rule}",
            "title": rule.sentence,
            "status": response.status_code,
            "detail": "a hint",
            "rule": rule.value,
            "where": "card/skills/0",
            "findings": [{"rule": rule.value, "level": "error", "where": "card/skills/0", "hint": "a hint"}],
        }
        assert 400 <= response.status_code <= 503, rule
        assert response.media_type == "application/problem+json", rule
        assert ("www-authenticate" in response.headers) == (response.status_code in (401, 403)), rule
        assert ("connection" in response.headers) == (response.status_code == 408), rule
        assert ("retry-after" in response.headers) == (response.status_code == 503), rule


def test_only_the_registry_itself_is_to_blame_for_a_500() -> None:
    assert [rule for rule, status in STATUS.items() if status == 500] == [Rule.REGISTRY_FAILED]


def test_the_first_finding_names_the_problem() -> None:
    refusal = Refused.because([
        Finding(Rule.KEY_PRIVATE, WHERE), Finding(Rule.CARD_SIGNATURES, WHERE, level=Level.WARNING)
    ])  # fmt: skip

    document = json.loads(bytes(problem_response(refusal).body))

    assert document["rule"] == "key.private"
    assert document["detail"] == Rule.KEY_PRIVATE.sentence
    assert [one["level"] for one in document["findings"]] == ["error", "warning"]


@pytest.mark.parametrize(("count", "listed"), [(199, 199), (200, 200), (201, 200)])
def test_an_answer_lists_two_hundred_findings_and_says_that_there_are_more(count: int, listed: int) -> None:
    refusal = Refused.because([Finding(Rule.CARD_MEMBER_TYPE, WHERE)] * count)

    document = json.loads(bytes(problem_response(refusal).body))

    assert len(document["findings"]) == listed
    assert (AND_MORE in document["detail"]) == (count == 201)
