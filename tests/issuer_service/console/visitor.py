"""A user with a browser in front of the console: keeps cookies, reads forms, and sends them as Chromium does."""

import re
from collections.abc import Mapping
from html import unescape
from urllib.parse import urlencode

import httpx2
from starlette.testclient import TestClient

from issuer_service.console.session import COOKIE, HEADERS
from tests.issuer_service.desk import OpenDesk
from tests.world import ISSUER

SAME_SITE = {"sec-fetch-site": "same-origin", "origin": "null"}
"""What Chromium says of a form of ours, under our Referrer-Policy."""
FORM = "application/x-www-form-urlencoded"
_CSRF = re.compile(r'name="csrf" value="([^"]+)"')


class Visitor:
    """A browser. ``client`` keeps the cookies."""

    def __init__(self, registry: OpenDesk) -> None:
        opened = registry.client
        assert isinstance(opened, TestClient)
        self.client = TestClient(opened.app, ISSUER, raise_server_exceptions=False, follow_redirects=False)
        self.client.portal = opened.portal  # connections to a database belong to one event loop

    def get(self, path: str, **headers: str) -> httpx2.Response:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        return checked(self.client.get(f"/console{path}", headers=sent))

    def shown(self, path: str) -> str:
        """The page, which is there."""
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return answer.text

    def csrf(self, path: str = "/session") -> str:
        """Return the CSRF token of a page's forms."""
        found = _CSRF.search(self.get(path).text)
        assert found, path
        return unescape(found[1])

    def send(
        self, path: str, form: Mapping[str, str] | str, headers: Mapping[str, str] = SAME_SITE, media_type: str = FORM
    ) -> httpx2.Response:
        """Send a form unchanged."""
        body = form if isinstance(form, str) else urlencode(form)
        sent = {"content-type": media_type, **headers}
        return checked(self.client.post(f"/console{path}", content=body, headers=sent))

    def post(self, path: str, **form: str) -> httpx2.Response:
        """Send a form of one of our pages."""
        return self.send(path, {"csrf": self.csrf(), **form})

    def sign_in(self, token: str) -> httpx2.Response:
        """Try to."""
        return self.send("/sign-in", {"csrf": self.csrf("/sign-in"), "token": token})

    def signed_in(self, token: str) -> "Visitor":
        """Do."""
        answer = self.sign_in(token)
        assert (answer.status_code, answer.headers.get("location")) == (303, "/console"), answer.text
        return self

    @property
    def secret(self) -> str | None:
        """Return the session cookie of the browser."""
        return self.client.cookies.get(COOKIE)


def checked(answer: httpx2.Response) -> httpx2.Response:
    """Every answer of the console has its headers, whatever it is."""
    assert {name: answer.headers.get(name) for name in HEADERS} == HEADERS, answer.headers
    if not answer.headers["content-type" if answer.content else "location"].startswith("text/css"):
        assert answer.headers["cache-control"] == "no-store"
    return answer


def rule_of(answer: httpx2.Response) -> str:
    """Return the rule of a page's refusal."""
    found = re.search(r"<li><code>([a-z.-]+)</code>", answer.text)
    assert found, answer.text
    return found[1]
