"""A registry with agents, an exchange and a registration that wait, and a browser in front of its console."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page
from sqlalchemy import update

from issuer_service.access import Scope
from issuer_service.app import create_app
from issuer_service.db.tables import agents
from sdcard.encoding import JsonObject
from sdcard.io.database import open_database
from tests.browser.pages import follow
from tests.issuer_service.delegation.office import Office
from tests.issuer_service.desk import Desk, OpenDesk, jwk, request_with_card
from tests.served import served
from tests.world import example, key

CONTEXTS: list[JsonObject] = [{"context": name} for name in ("public", "internal", "diagnostic")]


class Reception:
    """The console, served: where it is, and tokens of people."""

    def __init__(self, desk: Desk, office: Office, address: str, review: str) -> None:
        self.desk, self.office, self.address, self.review = desk, office, address, review
        self.token = desk.new_token("alice@example.org")
        self.reader = desk.new_token("auditor@example.org", [Scope.AUDIT_READ])

    def sign_in(self, page: Page, token: str | None = None) -> None:
        """Sign in on the page."""
        page.goto(f"{self.address}/console")
        page.fill("#token", token or self.token)
        follow(page, "main button")

    def go(self, page: Page, path: str) -> None:
        """To another page."""
        page.goto(self.url(path))

    def url(self, path: str) -> str:
        """Return the address of a page. ``REVIEW`` is the id of the registration that waits."""
        return f"{self.address}/console{path.replace('REVIEW', self.review)}"

    def set_card(self, agent_id: str, card: JsonObject) -> None:
        """Whatever a database may hold."""
        set_card(self.desk.url, agent_id, card)


def set_card(url: str, agent_id: str, card: JsonObject) -> None:
    """Put a card there that nobody checked."""
    changed = update(agents).where(agents.c.agent_id == agent_id).values(card=json.dumps(card))

    async def write() -> None:
        database = open_database(url)
        try:
            await database.change(lambda connection: connection.execute(changed))
        finally:
            await database.close()

    asyncio.run(write())


@contextmanager
def reception(folder: Path) -> Iterator[Reception]:
    """A console for as long as the block lasts."""
    desk = Desk(folder)
    with desk.open() as registry:
        office = Office(desk, registry)
        _fill(desk, registry, office)
    with desk.open(approval_for=frozenset("*")) as demanding:
        card = {**example(), "name": "Waiting", "description": "A very long word: " + "x" * 300}
        asked = request_with_card(card, agent_id="waiting", public_key=jwk(key(130)))
        review = demanding.post(asked, authorization=f"Bearer {office.tokens['bob']}").json()["review_id"]
    with served(create_app(desk.container(console=True))) as address:
        yield Reception(desk, office, address, review)


def _fill(desk: Desk, registry: OpenDesk, office: Office) -> None:
    token = desk.new_token("alice@example.org")
    for number, name in enumerate(("georoute", "georoute-staging", "parcels", "timetable", "weather-alerts")):
        body = request_with_card(
            example(), agent_id=name, public_key=jwk(key(120 + number)), disclosure_contexts=CONTEXTS
        )
        registry.register(body, token)
    registry.done("POST", "/agents/georoute/suspend", {"context": "diagnostic"}, token)
    registry.done("POST", "/agents/timetable/revoke", {}, token)
    office.grant("a", "b", sensitive=["pay"])
    office.show("a", "b", "pay read", interaction_id="order-4711")
    registry.done("POST", "/agents/b/suspend", {"interaction_id": "order-4711"}, office.tokens["bob"])
    registry.done("POST", "/agents/b/reinstate", {"interaction_id": "order-4711"}, office.tokens["bob"])
