"""``sdcard conformance`` against routes in JavaScript."""

from typing import Any

import httpx2
import pytest

from sdcard.cards.detect import parse_card
from sdcard.conformance import Outcome, Request, Response, run_checks
from sdcard.conformance.forging import CARD, Material, issue_test_card
from sdcard.conformance.route import CHECKS, Route
from tests.runtimes.conftest import Peer
from tests.runtimes.test_with_python import serving
from tests.world import ISSUER, NOW, World, key


class Sender:
    """Sends the tester's requests with a client of the test."""

    def __init__(self, http: httpx2.Client) -> None:
        self._http = http

    def send(self, request: Request) -> Response:
        found = self._http.request(request.method, request.url, headers=list(request.headers))
        return Response(found.status_code, tuple(found.headers.multi_items()), found.content)


@pytest.mark.parametrize("kind", ["express", "worker"])
def test_a_route_in_javascript_passes_every_check(kind: str, world: World, peer: Peer) -> None:
    document = parse_card(CARD.replace(b'"id": "test"', b'"id": "route-optimizer-traffic"'))
    issuer, holder = world.issuer.signer, world.holder.signer
    card = issue_test_card(document, ISSUER, issuer, holder.public_key, world.salts, NOW)
    material = Material(card, holder, issuer, key(43))
    with serving(kind, world, peer) as (origin, transport), httpx2.Client(transport=transport, trust_env=False) as http:
        sender: Any = Sender(http)
        url = f"{origin}/tasks"
        route = Route(url=url, client=sender, instant=lambda: NOW, method="POST", material=material)
        found = list(run_checks(CHECKS, route))

    others = {one.name: one.outcome for one in found if one.outcome is not Outcome.PASSED}
    assert others.keys() <= {"route/kb-other-request"}, "express routes no other method here, so there is no challenge"
    assert Outcome.FAILED not in others.values()
