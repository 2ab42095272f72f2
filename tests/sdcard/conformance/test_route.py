"""Attacks on a Verifier's route: a healthy one passes, and each planted fault is found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.routing import Mount

from sdcard.conformance import Outcome, Response, Result, run_checks
from sdcard.conformance.forging import Material
from sdcard.conformance.route import CHECKS, HOLDER, ISSUER, OPEN
from tests.sdcard.conformance import broken
from tests.sdcard.conformance.broken import Responses, accepting, middleware, route_of, without_header


def results(app: object, material: Material | None = None, rule: str | None = None) -> list[Result]:
    subject = route_of(app)
    checks = [check for check in CHECKS if rule in (None, check.rule)]
    return list(run_checks(checks, subject if material is None else replace(subject, material=material)))


def failed(found: list[Result]) -> set[str]:
    return {one.name for one in found if one.outcome is Outcome.FAILED}


REFUSED = sorted({str(check.rule) for check in CHECKS} - {"challenge.malformed", "kb.purpose"})
"""Rules whose enforcement a fault drops. The middleware refuses a nonce of another purpose by its form."""
PUBLISHING: dict[str, tuple[Callable[[], Callable[[Response], Response]], set[str]]] = {
    "no challenge": (lambda: without_header("www-authenticate"), {"route/challenge", "route/fresh-nonces"}),
    "one nonce for everybody": (broken.one_nonce, {"route/fresh-nonces"}),
    "a challenge that caches keep": (lambda: without_header("cache-control"), {"route/no-store"}),
    "a nonce of any form": (lambda: accepting("kb.nonce-mismatch"), {"route/kb-purpose"}),
}
"""Fault → the server, and the checks of which at least one finds it."""


def test_a_healthy_route_passes_every_check() -> None:
    found = results(middleware())

    assert [(one.name, one.outcome, one.reason) for one in found if one.outcome is not Outcome.PASSED] == []
    assert len(found) == len(CHECKS) == len({one.name for one in found})


def fastapi() -> Any:
    app = FastAPI()

    @app.get("/other")
    def other() -> str:
        return "open"

    app.mount("/", middleware())
    return app


def starlette() -> Any:
    return Starlette(routes=[Mount("/", middleware())])


@pytest.mark.parametrize("make", [fastapi, starlette])
def test_the_middleware_passes_inside_of_frameworks(make: Callable[[], Any]) -> None:
    found = results(make())

    assert [(one.name, one.reason) for one in found if one.outcome is not Outcome.PASSED] == []


@pytest.mark.parametrize("rule", REFUSED)
def test_a_route_that_does_not_enforce_a_rule_is_found(rule: str) -> None:
    assert failed(results(Responses(middleware(), accepting(rule)), rule=rule))


def test_there_is_a_fault_for_at_least_thirty_rules() -> None:
    assert len(REFUSED) >= 30


@pytest.mark.parametrize("fault", PUBLISHING)
def test_a_route_with_wrong_challenges_is_found(fault: str) -> None:
    change, checks = PUBLISHING[fault]

    assert failed(results(Responses(middleware(), change()))) & checks


def test_a_fault_of_one_rule_is_no_finding_of_the_others() -> None:
    found = failed(results(Responses(middleware(), accepting("kb.sd-hash"))))

    assert found == {"route/kb-sd-hash"}


def test_a_route_that_fails_is_found_and_not_taken_for_a_refusal() -> None:
    def crashes(response: Response) -> Response:
        return Response(500) if broken.named(response) == "sd.alg" else response

    [found] = [one for one in results(Responses(middleware(), crashes)) if one.outcome is Outcome.FAILED]

    assert (found.name, found.reason) == ("route/sd-alg", "The route fails with 500.")


def test_without_a_card_only_the_checks_that_need_none_run() -> None:
    found = results(middleware(), Material(None, None, None, broken.STRANGER))

    assert {one.name for one in found if one.outcome is Outcome.PASSED} == {check.name for check in OPEN}
    assert all("needs" in one.reason for one in found if one.outcome is Outcome.SKIPPED)


def test_without_the_issuers_key_the_checks_of_the_holder_run() -> None:
    whole = route_of(middleware()).material
    found = results(middleware(), Material(whole.card, whole.holder, None, whole.stranger))

    assert {one.name for one in found if one.outcome is Outcome.PASSED} == {check.name for check in (*OPEN, *HOLDER)}
    assert {one.name for one in found if one.outcome is Outcome.SKIPPED} == {check.name for check in ISSUER}


def test_where_a_good_presentation_is_refused_nothing_is_concluded() -> None:
    def refuses(response: Response) -> Response:
        return Response(403) if response.status == 200 else response

    found = results(Responses(middleware(), refuses))
    skipped = [one for one in found if one.outcome is Outcome.SKIPPED]

    assert {one.name for one in skipped} == {check.name for check in (*HOLDER, *ISSUER)}
    assert {one.reason for one in skipped} == {"a good presentation is refused with 403"}


def test_a_route_that_admits_everybody_fails_and_has_no_challenge() -> None:
    assert failed(results(broken.admits)) >= {"route/challenge", "route/presentation-missing"}
