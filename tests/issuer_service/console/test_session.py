"""Sessions of the console, also by an identity provider."""

import hashlib
import re
from collections.abc import Sequence

import pytest

from issuer_service.access import EXTERNAL, Limit, Scope
from issuer_service.console.session import COOKIE, FIRST_COOKIE, HEADERS, SESSION_SECONDS
from issuer_service.rate_limit import UNLIMITED, RateLimits
from issuer_service.tokens import MOST_SESSIONS, withdraw_token
from tests.identity import CLAIMS, LIMITS, SERVER, Source, access_token, server
from tests.issuer_service.console.conftest import NewVisitor
from tests.issuer_service.console.visitor import FORM, SAME_SITE, Visitor, rule_of
from tests.issuer_service.desk import Desk, OpenDesk, ask, on_both_databases, request
from tests.postgres import query
from tests.world import NOW

# -- Who is signed in: with what, for how long, and that nobody else is -----------------------------------------------

PAGES = (
    *("", "/agents", "/agents/x", "/agents/x/revoke", "/approvals", "/approvals/x/approve", "/audit", "/session"),
    *("/nowhere", "/agents/x/fly", "/approvals/x/fly"),
)
POSTS = ("/agents/x/revoke", "/agents/x/suspend", "/agents/x/reinstate", "/approvals/x/approve", "/approvals/x/deny")


def changes(desk: Desk) -> list[str]:
    """Return the audit records, except those of tokens and sessions."""
    return [one["event"] for one in desk.audit() if not one["event"].startswith(("session.", "token."))]


def sessions(desk: Desk) -> list[list[object]]:
    return [list(row) for row in query(desk.url, "SELECT digest, token, subject, expires_at FROM sessions")[0]]


def test_sessions_of_the_future_do_not_count_and_keep_nobody_out(desk: Desk, visitor: NewVisitor) -> None:
    token = desk.new_token("alice", lifetime=100 * 86_400)
    desk.clock.advance(10 * 86_400)
    later = [visitor().signed_in(token) for _ in range(MOST_SESSIONS + 1)]
    desk.clock.advance(-10 * 86_400)

    assert later[-1].get("/session").status_code == visitor().get("/session").status_code == 303
    assert "alice" in visitor().signed_in(token).shown("/session")


# -- signing in -------------------------------------------------------------------------------------------------------


@on_both_databases
def test_a_session_is_opened_with_a_token_that_is_kept_nowhere(desk: Desk, visitor: NewVisitor) -> None:
    someone = visitor()
    answer = someone.sign_in(f"  {desk.token}\n")
    page = someone.shown("/session")

    assert (answer.status_code, answer.headers["location"]) == (303, "/console")
    assert "alice" in page
    secret = someone.secret
    assert secret is not None
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (secret, desk.token)]
    assert sessions(desk) == [[*digests, "alice", desk.clock.now() + SESSION_SECONDS]]
    for text in (page, str(answer.headers), str(dict(someone.client.cookies)), answer.text):
        assert desk.token not in text
    assert secret not in page


def test_cookies_are_for_this_host_over_tls_and_for_no_script_or_other_site(desk: Desk, visitor: NewVisitor) -> None:
    someone = visitor()
    first = someone.get("/sign-in").headers["set-cookie"]
    both = someone.sign_in(desk.token).headers.get_list("set-cookie")
    out = someone.post("/sign-out").headers["set-cookie"]

    for cookie in (first, *both, out):
        name, *attributes = cookie.split("; ")
        assert name.startswith("__Host-sdcard-console")
        assert {"HttpOnly", "Secure", "SameSite=strict", "Path=/"} <= set(attributes)
        assert not any(one.lower().startswith("domain") for one in attributes)
    assert re.fullmatch(rf"{COOKIE}=[A-Za-z0-9_-]{{43}}", both[0].split("; ")[0])
    assert (both[1].split("; ")[0], "Max-Age=0" in both[1]) == (f'{FIRST_COOKIE}=""', True)
    assert (out.split("; ")[0], "Max-Age=0" in out) == (f'{COOKIE}=""', True)


@pytest.mark.parametrize("token", ["", "x", "sdcard_" + "A" * 43, "é", "a\0b", "a b", "Bearer x", "x" * 9_000])
def test_what_is_no_token_opens_nothing_and_is_not_repeated(desk: Desk, visitor: NewVisitor, token: str) -> None:
    someone = visitor()
    answer = someone.sign_in(token)

    assert answer.status_code == 401
    assert "Not signed in." in answer.text
    assert len(token) < 9 or token not in answer.text
    assert (sessions(desk), someone.secret) == ([], None)


def test_an_expired_token_opens_nothing(desk: Desk, visitor: NewVisitor) -> None:
    token = desk.new_token("bob", lifetime=10)
    desk.clock.advance(10)

    assert visitor().sign_in(token).status_code == 401


def test_signing_in_again_ends_the_session_that_there_was(desk: Desk, visitor: NewVisitor, alice: Visitor) -> None:
    before = alice.secret
    alice.client.cookies.set(FIRST_COOKIE, "A" * 43, domain="registry.example", path="/")
    alice.signed_in(desk.new_token("bob"))

    assert alice.secret != before
    assert [row[2] for row in sessions(desk)] == ["bob"]


def test_bad_tokens_are_counted_against_their_address_as_the_api_counts_them(desk: Desk) -> None:
    rates = RateLimits(UNLIMITED.addresses, UNLIMITED.tokens, RateLimits.for_failures(60))
    with desk.open(console=True, rates=rates) as registry:
        someone = Visitor(registry)
        statuses = [someone.sign_in("wrong").status_code for _ in range(11)]
        good = someone.sign_in(desk.token)
        api = registry.ask("GET", "/agents")
        bad = registry.ask("GET", "/agents", token="sdcard_x")

    assert statuses == [401] * 10 + [429]
    assert good.status_code == 303
    assert api.status_code == 200
    assert bad.status_code == 429, "they share their bucket"


def test_pages_count_towards_what_a_token_may_ask(desk: Desk) -> None:
    with desk.open(
        console=True, rates=RateLimits(UNLIMITED.addresses, RateLimits.for_tokens(60), UNLIMITED.failures)
    ) as opened:
        someone = Visitor(opened)
        someone.signed_in(desk.token)
        statuses = [someone.get("/session").status_code for _ in range(10)]

    assert statuses == [200] * 9 + [429]


# -- without a session ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", PAGES)
def test_without_a_session_every_page_leads_to_the_way_in(visitor: NewVisitor, path: str) -> None:
    answer = visitor().get(path)

    assert (answer.status_code, answer.headers["location"], answer.content) == (303, "/console/sign-in", b"")


@pytest.mark.parametrize("path", [*POSTS, "/sign-out"])
def test_without_a_session_nothing_is_done(desk: Desk, visitor: NewVisitor, path: str) -> None:
    answer = visitor().send(path, {"csrf": "x"})

    assert (answer.status_code, rule_of(answer)) == (401, "token.missing")


@pytest.mark.parametrize("cookie", ["", "x", "A" * 43, "A" * 44, "a=b", '"x"'])
def test_a_cookie_that_is_none_of_ours_opens_nothing(visitor: NewVisitor, cookie: str) -> None:
    answer = visitor().get("/session", cookie=f"{COOKIE}={cookie}")

    assert answer.status_code == 303


def test_a_bearer_token_in_a_header_is_no_session(desk: Desk, visitor: NewVisitor) -> None:
    assert visitor().get("/session", authorization=f"Bearer {desk.token}").status_code == 303


# -- how a session ends -----------------------------------------------------------------------------------------------


def test_a_session_ends_after_an_hour(desk: Desk, visitor: NewVisitor) -> None:
    someone = visitor().signed_in(desk.new_token("bob", lifetime=10 * SESSION_SECONDS))
    desk.clock.advance(SESSION_SECONDS - 1)
    assert someone.get("/session").status_code == 200
    desk.clock.advance(1)
    assert someone.get("/session").status_code == 303


def test_a_session_ends_with_its_token(desk: Desk, visitor: NewVisitor) -> None:
    someone = visitor().signed_in(desk.new_token("bob", lifetime=60))
    desk.clock.advance(59)
    assert someone.get("/session").status_code == 200
    desk.clock.advance(1)
    assert someone.get("/session").status_code == 303


@on_both_databases
def test_a_withdrawn_token_ends_its_sessions_at_once(desk: Desk, registry: OpenDesk, alice: Visitor) -> None:
    registry.register(request())
    csrf = alice.csrf()
    name = hashlib.sha256(desk.token.encode()).hexdigest()[:16]
    ask(desk.url, lambda database: withdraw_token(database, name, desk.clock.now()))

    assert alice.get("/agents").status_code == 303
    answer = alice.send("/agents/ai-assistant-v2/revoke", {"csrf": csrf})
    assert (answer.status_code, rule_of(answer)) == (401, "token.missing")
    assert changes(desk) == ["agent.registered"]


@on_both_databases
def test_signing_out_ends_the_session_wherever_its_cookie_is(desk: Desk, alice: Visitor, visitor: NewVisitor) -> None:
    stolen = alice.secret
    assert stolen
    answer = alice.post("/sign-out")
    thief = visitor()
    thief.client.cookies.set(COOKIE, stolen, domain="registry.example", path="/")

    assert (answer.status_code, answer.headers["location"]) == (303, "/console/sign-in")
    assert thief.get("/session").status_code == alice.get("/session").status_code == 303
    assert sessions(desk) == []


def test_a_token_has_so_many_sessions_and_no_more(desk: Desk, visitor: NewVisitor) -> None:
    everyone = []
    for _ in range(MOST_SESSIONS + 1):
        everyone.append(visitor().signed_in(desk.token))
        desk.clock.advance(1)

    assert [one.get("/session").status_code for one in everyone] == [303] + [200] * MOST_SESSIONS


# -- forms that others made -------------------------------------------------------------------------------------------


FOREIGN: Sequence[dict[str, str]] = (
    {},
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    {"sec-fetch-site": "same-site", "origin": "https://other.registry.example"},
    {"sec-fetch-site": "none"},
    {"sec-fetch-site": "same-origin", "origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "https://evil.example"},
    {"origin": "http://registry.example"},
    {"origin": "https://registry.example.evil.example"},
    {"referer": "https://registry.example/console/agents"},
)


@pytest.mark.parametrize("headers", FOREIGN)
@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", "/agents/ai-assistant-v2/revoke"])
def test_a_form_from_elsewhere_does_nothing(
    desk: Desk, registry: OpenDesk, alice: Visitor, path: str, headers: dict[str, str]
) -> None:
    registry.register(request())
    csrf = alice.csrf("/sign-in" if path == "/sign-in" else "/session")
    before = sessions(desk)
    answer = alice.send(path, {"csrf": csrf, "token": desk.token}, headers)

    assert (answer.status_code, rule_of(answer)) == (403, "console.forged")
    assert sessions(desk) == before
    assert changes(desk) == ["agent.registered"]


def test_a_browser_that_says_only_its_origin_is_believed(alice: Visitor) -> None:
    answer = alice.send("/sign-out", {"csrf": alice.csrf()}, {"origin": "https://registry.example"})

    assert answer.status_code == 303


@pytest.mark.parametrize("path", ["/sign-in", "/sign-out", *POSTS])
@pytest.mark.parametrize("csrf", ["absent", "empty", "wrong", "another session's", "of signing in"])
def test_a_form_without_the_session_s_own_value_does_nothing(
    desk: Desk, visitor: NewVisitor, alice: Visitor, path: str, csrf: str
) -> None:
    other = visitor()
    first = other.csrf("/sign-in")
    values = {
        "absent": {},
        "empty": {"csrf": ""},
        "wrong": {"csrf": "A" * 43},
        "another session's": {"csrf": other.signed_in(desk.new_token("bob")).csrf()},
        "of signing in": {"csrf": first},
    }
    answer = alice.send(path, {**values[csrf], "token": desk.token})

    assert (answer.status_code, rule_of(answer)) == (403, "console.forged")
    assert alice.get("/session").status_code == 200


@pytest.mark.parametrize(
    ("media_type", "body", "status", "rule"),
    [
        ("application/json", "{}", 415, "request.media-type"),
        ("multipart/form-data; boundary=x", "--x--", 415, "request.media-type"),
        ("text/plain", "csrf=x", 415, "request.media-type"),
        (FORM, "csrf=" + "x" * 20_000, 413, "limit.bytes"),
        (FORM, "csrf=a&csrf=a", 422, "request.malformed"),
        (FORM, "csrf=%ff", 422, "request.malformed"),
        (FORM, "csrf", 422, "request.malformed"),
        (FORM, "&".join(f"a{n}=1" for n in range(100)), 422, "request.malformed"),
    ],
)
def test_a_body_is_a_small_form(alice: Visitor, media_type: str, body: str, status: int, rule: str) -> None:
    answer = alice.send("/sign-out", body, SAME_SITE, media_type)

    assert (answer.status_code, rule_of(answer)) == (status, rule)
    assert alice.get("/session").status_code == 200


# -- headers ----------------------------------------------------------------------------------------------------------


def test_headers_let_nothing_in_and_nothing_out() -> None:
    assert HEADERS["Content-Security-Policy"].split("; ") == [
        *("default-src 'none'", "style-src 'self'", "img-src 'none'", "form-action 'self'"),
        *("frame-ancestors 'none'", "base-uri 'none'"),
    ]
    assert "unsafe" not in HEADERS["Content-Security-Policy"]
    assert HEADERS["Referrer-Policy"] == "no-referrer"
    assert HEADERS["X-Content-Type-Options"] == "nosniff"


def test_the_style_is_given_to_everybody_and_names_nothing_outside(visitor: NewVisitor) -> None:
    answer = visitor().get("/style.css")

    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/css; charset=utf-8")
    assert not re.search(r"url\(|@import|@font-face", answer.text)


def test_no_page_has_a_script_or_a_style_of_its_own(registry: OpenDesk, alice: Visitor) -> None:
    registry.register(request())
    for path in ("/agents", "/agents/ai-assistant-v2", "/agents/ai-assistant-v2/revoke", "/approvals", "/audit"):
        assert not re.search(r"<script|<style|\sstyle=|\son[a-z]+=|javascript:|<img", alice.shown(path)), path


def test_a_visitor_from_another_site_is_redirected(visitor: NewVisitor) -> None:
    someone = visitor()

    assert "You came from another site." in someone.get("/sign-in", sec_fetch_site="cross-site").text
    assert "You came from another site." not in someone.get("/sign-in", sec_fetch_site="none").text


# -- where it is served -----------------------------------------------------------------------------------------------


def test_without_the_setting_there_is_no_console(desk: Desk) -> None:
    with desk.open() as registry:
        answers = [registry.client.get(f"/console{path}").status_code for path in ("", "/sign-in", "/style.css")]

    assert answers == [404, 404, 404]


def test_the_api_knows_no_cookie(alice: Visitor) -> None:
    answer = alice.client.get("/agents")

    assert (answer.status_code, answer.json()["rule"]) == (401, "token.missing")


def test_who_is_signed_in_and_for_what(desk: Desk, visitor: NewVisitor) -> None:
    limits = {Limit.AGENT_ID_PREFIXES: ["team-"], Limit.SKILL_IDS: []}
    someone = visitor().signed_in(desk.new_token("bob", [Scope.AGENTS_MANAGE], limits))
    page = someone.shown("/session")

    assert "bob" in page
    for scope in Scope:
        given = f"<code>{scope.value}</code>" in page.partition("What the token is for")[2]
        assert given
    assert page.count(">yes<") == 1
    assert page.count(">no<") == len(Scope) - 1
    assert "<bdi>team-</bdi>" in page
    assert re.search(r"skill_ids</dt><dd>nothing", page)


@pytest.mark.parametrize("pasted", ["\ufeff{}", " {}\r\n", "\ufeff\n{}\n"])
def test_what_pasting_adds_to_a_token_is_forgiven(desk: Desk, visitor: NewVisitor, pasted: str) -> None:
    visitor().signed_in(pasted.format(desk.token))


def test_a_token_that_was_pasted_in_lines_is_one(desk: Desk, visitor: NewVisitor) -> None:
    visitor().signed_in(f"{desk.token[:20]}\r\n{desk.token[20:]}")


# -- Sessions of people who come with an access token of an identity provider (RFC 9068) ------------------------------

AGENT = "ai-assistant-v2"
SUBJECT = f"{EXTERNAL}{SERVER} alice"


def test_a_person_of_the_identity_provider_does_what_the_token_is_for_and_nothing_else(desk: Desk) -> None:
    with desk.open(console=True, authorization_server=server()) as registry:
        assert registry.post(request(), authorization=f"Bearer {access_token()}").status_code == 201
        someone = Visitor(registry).signed_in(access_token())
        session, agents = someone.shown("/session"), someone.shown("/agents")
        suspended = someone.post(f"/agents/{AGENT}/suspend", context="public", interaction_id="task-1")
        refused = [someone.get(path) for path in ("/approvals", "/audit?interaction_id=task-1")]

    assert f"<bdi>{SUBJECT}</bdi>" in session
    assert f"/console/agents/{AGENT}" in agents
    assert "1 SD-Card is suspended." in suspended.text
    assert {(one.status_code, rule_of(one)) for one in refused} == {(403, "token.scope")}
    last = desk.audit()[-1]
    assert (last["event"], last["subject"], last["interaction_id"]) == ("cards.suspended", SUBJECT, "task-1")


def test_the_registry_s_own_alice_and_the_provider_s_see_nothing_of_each_other(desk: Desk) -> None:
    with desk.open(console=True, authorization_server=server()) as registry:
        registry.register(request())
        theirs, ours = Visitor(registry).signed_in(access_token()), Visitor(registry).signed_in(desk.token)
        answers = [one.get(f"/agents/{AGENT}").status_code for one in (theirs, ours)]

    assert answers == [404, 200]


def test_the_session_ends_with_the_token(desk: Desk) -> None:
    with desk.open(console=True, authorization_server=server()) as registry:
        someone = Visitor(registry).signed_in(access_token({"exp": NOW + 60}))
        desk.clock.advance(59)
        before = someone.get("/agents").status_code
        desk.clock.advance(1)
        after = someone.get("/agents")

    assert before == 200
    assert (after.status_code, after.headers["location"]) == (303, "/console/sign-in")


def test_the_provider_is_needed_to_sign_in_and_not_afterwards(desk: Desk) -> None:
    source = Source()
    with desk.open(console=True, authorization_server=server(source)) as registry:
        someone = Visitor(registry).signed_in(access_token())
        asked, source.data = source.asked, None
        later = someone.get("/agents").status_code
    with desk.open(console=True, authorization_server=server(source)) as registry:
        without = Visitor(registry).sign_in(access_token())

    assert (later, asked) == (200, 1)
    assert (without.status_code, rule_of(without)) == (503, "token.keys-unavailable")
    assert without.headers["retry-after"]


def test_limits_of_the_token_hold_at_the_console(desk: Desk) -> None:
    limited = {LIMITS: {"agent_id_prefixes": ["other-"]}, "scope": "agents:manage audit:read"}
    with desk.open(console=True, authorization_server=server()) as registry:
        assert registry.post(request(), authorization=f"Bearer {access_token()}").status_code == 201
        someone = Visitor(registry).signed_in(access_token(limited))
        session, agents = someone.shown("/session"), someone.shown("/agents")
        changed = someone.post(f"/agents/{AGENT}/suspend", context="")

    assert "<bdi>other-</bdi>" in session
    assert "/console/audit" not in session, "a token for some agents only does not open the thread"
    assert AGENT not in agents
    assert changed.status_code in (403, 404)
    assert [one["event"] for one in desk.audit()] == ["agent.registered", "session.opened"]


@pytest.mark.parametrize(
    "changes",
    [{"exp": NOW}, {"aud": "https://other.example"}, {"iss": "https://idp.example"}, {"sub": None}],
    ids=["expired", "for another", "of another", "of nobody"],
)
def test_a_token_that_the_api_refuses_opens_no_session(desk: Desk, changes: dict[str, object]) -> None:
    token = access_token(changes)
    with desk.open(console=True, authorization_server=server()) as registry:
        someone = Visitor(registry)
        answer = someone.sign_in(token)

    assert answer.status_code == 401
    assert someone.secret is None
    assert token not in answer.text
    assert str(CLAIMS["sub"]) not in answer.text
