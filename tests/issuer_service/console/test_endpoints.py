"""Pages of the console permit what their token permits over the API, and are audited alike."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from typing import Any

import pytest

from issuer_service.access import Limit, Scope
from issuer_service.agents import lifecycle as service
from issuer_service.console import endpoints
from issuer_service.console import session as forms
from issuer_service.console.session import is_link
from issuer_service.container import AgentChecks
from issuer_service.rate_limit import UNLIMITED, RateLimits
from tests.browser import attacks
from tests.browser.console import set_card
from tests.issuer_service.console.conftest import NewVisitor
from tests.issuer_service.console.visitor import Visitor, checked, rule_of
from tests.issuer_service.delegation.office import Office
from tests.issuer_service.delegation.test_service_approvals import pending
from tests.issuer_service.desk import Desk, OpenDesk, jwk, on_both_databases, request, request_with_card
from tests.issuer_service.test_app import BrokenSalts
from tests.postgres import query
from tests.world import example, key

AGENT = "ai-assistant-v2"
NEEDS = {
    Scope.AGENTS_MANAGE: ("/agents", f"/agents/{AGENT}", f"/agents/{AGENT}/revoke"),
    Scope.DELEGATIONS_APPROVE: ("/approvals", "/approvals/x/approve"),
    Scope.AGENTS_APPROVE: ("/reviews", "/reviews/x/approve"),
    Scope.AUDIT_READ: ("/audit", "/audit?interaction_id=task-1"),
}
DOES = {
    Scope.AGENTS_MANAGE: tuple(f"/agents/{AGENT}/{one}" for one in ("revoke", "suspend", "reinstate")),
    Scope.DELEGATIONS_APPROVE: ("/approvals/x/approve", "/approvals/x/deny"),
    Scope.AGENTS_APPROVE: ("/reviews/x/approve", "/reviews/x/reject"),
}


def events(desk: Desk) -> list[tuple[Any, ...]]:
    found = [(record["event"], record["subject"], record.get("interaction_id")) for record in desk.audit()]
    return [one for one in found if not one[0].startswith(("agent.", "grant.", "session.", "token."))]


# -- scopes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", NEEDS)
def test_what_a_token_is_not_for_is_refused_and_not_offered(
    desk: Desk, registry: OpenDesk, visitor: NewVisitor, scope: Scope
) -> None:
    registry.register(request())
    someone = visitor().signed_in(desk.new_token("alice", [one for one in Scope if one is not scope]))
    for path in NEEDS[scope]:
        answer = someone.get(path)
        assert (answer.status_code, rule_of(answer)) == (403, "token.scope"), path
        assert f'href="/console{NEEDS[scope][0]}"' not in answer.text
    for path in DOES.get(scope, ()):
        answer = someone.post(path)
        assert (answer.status_code, rule_of(answer)) == (403, "token.scope"), path
    assert events(desk) == []


@pytest.mark.parametrize("scope", NEEDS)
def test_one_scope_is_enough_for_its_pages_and_leads_there(desk: Desk, visitor: NewVisitor, scope: Scope) -> None:
    someone = visitor().signed_in(desk.new_token("alice", [scope]))
    first = NEEDS[scope][0]

    assert someone.get("").headers["location"] == f"/console{first}"
    links = re.findall(r'<li><a href="/console(/[a-z]+)"', someone.shown(first))
    assert links == [first, "/session"]


def test_a_token_that_is_for_nothing_here_is_told_so(desk: Desk, visitor: NewVisitor) -> None:
    someone = visitor().signed_in(desk.new_token("alice", [Scope.AGENTS_DISCOVER]))

    assert someone.get("").headers["location"] == "/console/session"


def test_the_session_page_describes_every_scope(desk: Desk, visitor: NewVisitor) -> None:
    shown = visitor().signed_in(desk.new_token("alice", [Scope.AGENTS_MANAGE])).shown("/session")

    described = re.findall(r"<code>([a-z]+:[a-z]+)</code> <span>([^<]+)</span>", shown)
    assert [scope for scope, text in described if text.strip()] == list(Scope)


# -- agents -----------------------------------------------------------------------------------------------------------


@on_both_databases
def test_an_agent_s_page_shows_what_was_issued(desk: Desk, registry: OpenDesk, alice: Visitor) -> None:
    answer = registry.register(request(), desk.token)
    page = alice.shown(f"/agents/{AGENT}")

    for text in (AGENT, f"agent:{AGENT}", key(20).public_key.thumbprint, answer["batch_id"], "General purpose AI"):
        assert text in page
    for context in ("public", "internal", "diagnostic"):
        assert re.search(
            rf'<th scope="row"><bdi>{context}</bdi></th>\s*<td[^>]*><span class="state valid">1 valid', page
        )
    assert [name for name in ("suspend", "reinstate", "revoke") if f'/{name}"' in page] == ["suspend", "revoke"]


@on_both_databases
@pytest.mark.parametrize("name", ["revoke", "suspend", "reinstate"])
def test_a_change_asks_first_and_is_recorded_as_by_the_api(
    desk: Desk, registry: OpenDesk, alice: Visitor, name: str
) -> None:
    registry.register(request())
    if name == "reinstate":
        registry.done("POST", f"/agents/{AGENT}/suspend", {"context": "public"})
    before = events(desk)
    asked = alice.shown(f"/agents/{AGENT}/{name}")
    assert events(desk) == before, "asking changes nothing"
    done = alice.post(f"/agents/{AGENT}/{name}", context="public", interaction_id="task-1")

    event = {"revoke": "cards.revoked", "suspend": "cards.suspended", "reinstate": "cards.reinstated"}[name]
    assert re.search(r"<strong>[13] SD-Cards?</strong>", asked)
    assert done.status_code == 200
    assert "1 SD-Card is" in done.text
    assert events(desk) == [*before, (event, "alice", "task-1")]
    assert "Nothing changed" in alice.post(f"/agents/{AGENT}/{name}", context="public").text
    shown = alice.shown(f"/agents/{AGENT}")
    assert f"1 {dict(revoke='revoked', suspend='suspended', reinstate='valid')[name]}" in shown


def test_all_sd_cards_change_where_no_context_is_chosen(desk: Desk, registry: OpenDesk, alice: Visitor) -> None:
    registry.register(request())
    done = alice.post(f"/agents/{AGENT}/revoke", context="", interaction_id="")

    assert "3 SD-Cards are revoked." in done.text
    page = alice.shown(f"/agents/{AGENT}")
    assert '/revoke"' not in page
    assert "None of the SD-Cards" in alice.shown(f"/agents/{AGENT}/revoke")


def test_where_a_page_does_not_go_back_far_enough_it_says_so(
    desk: Desk, registry: OpenDesk, alice: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "MOST_BATCHES", 1)
    for _ in range(2):
        registry.register(request(supersedes="run_out"))
    page, asked = alice.shown(f"/agents/{AGENT}"), alice.shown(f"/agents/{AGENT}/reinstate")

    assert "There are older ones" in page
    assert 'reinstate"' in page
    assert "at least 0 SD-Cards" in asked
    assert "6 SD-Cards are suspended." in alice.post(f"/agents/{AGENT}/suspend").text


@pytest.mark.parametrize("form", [{"interaction_id": "a b"}, {"interaction_id": "x" * 129}])
def test_what_the_api_refuses_the_console_refuses(
    desk: Desk, registry: OpenDesk, alice: Visitor, form: dict[str, str]
) -> None:
    registry.register(request())
    answer = alice.post(f"/agents/{AGENT}/revoke", **form)

    assert answer.status_code == 422
    assert events(desk) == []


@pytest.mark.parametrize("agent_id", ["bobs", "nobody", "..%2Fbobs", "é", "a b", "x" * 200])
def test_agents_of_others_and_none_look_the_same(desk: Desk, registry: OpenDesk, alice: Visitor, agent_id: str) -> None:
    registry.register(request("bobs"), desk.new_token("bob"))
    for path in ("", "/revoke"):
        assert alice.get(f"/agents/{agent_id}{path}").status_code == 404
    for name in ("revoke", "suspend", "reinstate") if "%2F" not in agent_id else ():
        answer = alice.post(f"/agents/{agent_id}/{name}")
        assert (answer.status_code, rule_of(answer)) == (404, "agent.unknown")
    assert events(desk) == []
    assert "bobs" not in alice.shown("/agents")


@on_both_databases
def test_a_thread_is_shown_without_records_that_the_chain_cannot_take(
    desk: Desk, registry: OpenDesk, alice: Visitor
) -> None:
    registry.register(request())
    query(desk.url, "UPDATE audit_waiting SET record = '{}'")

    assert "Not shown: records of the registry that wait for the audit chain (" in alice.shown(
        "/audit?interaction_id=task-1"
    )


def test_limits_of_a_token_hold_here_too(desk: Desk, registry: OpenDesk, visitor: NewVisitor) -> None:
    registry.register(request())
    someone = visitor().signed_in(desk.new_token("alice", tuple(Scope), {Limit.AGENT_ID_PREFIXES: ["team-"]}))

    assert AGENT not in someone.shown("/agents")
    for answer in (someone.get(f"/agents/{AGENT}"), someone.post(f"/agents/{AGENT}/revoke")):
        assert (answer.status_code, rule_of(answer)) == (403, "token.limit")
    assert 'href="/console/audit"' not in someone.shown("/agents")
    answer = someone.get("/audit?interaction_id=task-1")
    assert (answer.status_code, rule_of(answer)) == (403, "token.limit")


@on_both_databases
def test_agents_are_found_by_how_their_ids_begin_page_after_page(
    desk: Desk, registry: OpenDesk, visitor: NewVisitor, alice: Visitor
) -> None:
    names = [f"team-{n:02}" for n in range(51)] + ["Team-x", "other"]
    for number, name in enumerate(names):
        registry.register(request(name, public_key=jwk(key(200 + number)), disclosure_contexts=[{"context": "public"}]))

    def listed(page: str) -> list[str]:
        return re.findall(r'<th scope="row"><a href="/console/agents/([^"]+)">', page)

    first = alice.shown("/agents?begins=team-")
    onward = re.search(r'href="/console(/agents\?cursor=[^"]+)" rel="next"', first)
    assert onward
    second = alice.shown(onward[1].replace("&amp;", "&"))
    assert (listed(first), listed(second)) == (names[:50], ["team-50"])
    assert 'rel="next"' not in second
    assert listed(alice.shown("/agents?begins=team-0")) == names[:10]
    assert listed(alice.shown("/agents?begins=team-07")) == ["team-07"]
    assert "None of your agents" in alice.shown("/agents?begins=nobody")
    limited = visitor().signed_in(desk.new_token("alice", tuple(Scope), {Limit.AGENT_ID_PREFIXES: ["team-1", "Team"]}))
    assert listed(limited.shown("/agents?begins=team")) == names[10:20]
    assert listed(limited.shown("/agents?begins=team-12")) == ["team-12"]
    assert listed(limited.shown("/agents?begins=team-2")) == []
    assert len(listed(limited.shown("/agents"))) == 11


@pytest.mark.parametrize("query", ["cursor=x", "cursor=YQ&cursor=YQ"])
def test_queries_that_mean_nothing_are_refused(alice: Visitor, query: str) -> None:
    answer = alice.get(f"/agents?{query}")

    assert (answer.status_code, rule_of(answer)) == (422, "request.malformed")


@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/agents?begins=%25", "%"),
        ("/agents?begins=a%20b", "a b"),
        ("/agents?begins=" + "x" * 129, "x" * 129),
        ("/audit?interaction_id=a%20b", "a b"),
        ("/audit?interaction_id=%E2%80%AE", "\\u202e"),
    ],
)
def test_a_search_that_nothing_can_match_is_asked_again_where_it_was(alice: Visitor, path: str, sent: str) -> None:
    answer = alice.get(path)

    assert answer.status_code == 422
    assert f'value="{sent}"' in answer.text
    assert re.search(r'role="alert" id="complaint">An (agent|interaction) id has 1 to 128', answer.text)


def test_an_agent_is_found_by_the_subject_of_its_sd_cards_too(registry: OpenDesk, alice: Visitor) -> None:
    registry.register(request())

    assert f'<a href="/console/agents/{AGENT}">' in alice.shown(f"/agents?begins=agent:{AGENT}")


def test_the_console_is_there_with_a_slash_as_well(alice: Visitor) -> None:
    answer = alice.get("/")

    assert (answer.status_code, answer.headers["location"]) == (303, "/console")


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS"])
@pytest.mark.parametrize("path", ["/agents", "/agents/x/revoke", "", "/style.css"])
def test_a_method_that_no_page_has_is_answered_with_a_page(alice: Visitor, method: str, path: str) -> None:
    answer = checked(alice.client.request(method, f"/console{path}"))

    assert (answer.status_code, rule_of(answer)) == (405, "request.method")
    assert answer.headers["content-type"].startswith("text/html")
    assert "GET" in answer.headers["allow"]


def test_a_bug_is_answered_with_a_page_that_shows_nothing_of_it(desk: Desk) -> None:
    with desk.open(console=True, salts=BrokenSalts()) as registry:
        answer = Visitor(registry).get("/sign-in")

    assert (answer.status_code, rule_of(answer)) == (500, "registry.failed")
    assert answer.headers["content-type"].startswith("text/html")
    assert "canary-in-an-exception" not in answer.text


def test_a_page_that_cannot_be_made_is_answered_with_a_document(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("canary-in-an-exception")

    monkeypatch.setattr(endpoints, "page", broken)
    monkeypatch.setattr(forms, "page", broken)
    with desk.open(console=True) as registry:
        answer = Visitor(registry).client.get("/console/sign-in")

    assert (answer.status_code, answer.json()["rule"]) == (500, "registry.failed")
    assert answer.headers["content-type"] == "application/problem+json"
    assert "canary-in-an-exception" not in answer.text + caplog.text


def test_an_address_that_asks_too_often_is_told_so_by_a_page_and_elsewhere_by_a_document(desk: Desk) -> None:
    rates = RateLimits(RateLimits.for_addresses(60), UNLIMITED.tokens, UNLIMITED.failures)
    with desk.open(console=True, rates=rates) as registry:
        someone = Visitor(registry)
        answers = [someone.get("/sign-in") for _ in range(40)]
        api = registry.ask("GET", "/agents", token="sdcard_x")
    refused = [one for one in answers if one.status_code == 429]

    assert refused
    assert {rule_of(one) for one in refused} == {"rate.exceeded"}
    assert all(one.headers["content-type"].startswith("text/html") and one.headers["retry-after"] for one in refused)
    assert (api.status_code, api.headers["content-type"]) == (429, "application/problem+json")


@pytest.mark.parametrize(
    "path", ["/nowhere", *(f"/{one}/x/fly" for one in ("agents", "approvals", "reviews")), "/agents/x/revoke/y"]
)
def test_what_is_not_there_is_a_page_that_says_so(alice: Visitor, path: str) -> None:
    answer = alice.get(path)

    assert (answer.status_code, rule_of(answer)) == (404, "request.not-found")


def test_an_unknown_action_does_nothing(desk: Desk, registry: OpenDesk, alice: Visitor) -> None:
    registry.register(request())

    assert [alice.post(f"/agents/{AGENT}/{one}").status_code for one in ("delete", "renew", "REVOKE")] == [404] * 3
    assert alice.post("/approvals/x/use").status_code == 404
    assert alice.post("/reviews/x/use").status_code == 404
    assert events(desk) == []


# -- hostile text -----------------------------------------------------------------------------------------------------


class Read(HTMLParser):
    """A page as a browser takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags, self.attributes = set[str](), set[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_card_text_is_shown_and_never_more_than_text(desk: Desk, registry: OpenDesk, alice: Visitor) -> None:
    registry.register(request_with_card(agent_id="hostile"))
    set_card(desk.url, "hostile", attacks.card())
    page = alice.shown("/agents/hostile")
    read = Read()
    read.feed(page)

    assert read.tags & {"script", "img", "svg", "iframe", "style", "object", "embed", "b"} == set()
    assert {name for name in read.attributes if name.startswith("on") or name in ("style", "src")} == set()
    unseen = "[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u2028\u2029\ufeff\x00-\x09\x0b-\x1f]"
    assert not re.search(unseen, page)
    assert "\\u202e" in page
    assert "&lt;script&gt;window.hit = 1&lt;/script&gt;" in page
    links = re.findall(r'<a href="([^"]*)"([^>]*)>', page.partition("What its card says")[2])
    assert links == [("https://evil.example/track?card=1", ' rel="noopener noreferrer"')]
    assert "icon.png" not in page
    assert len(page) < 60_000


@pytest.mark.parametrize(
    ("text", "link"),
    [
        ("https://a.example/b?c=d#e", True),
        ("https://a.example:8443", True),
        ("https://user@a.example/", False),
        ("https://user:pass@evil.example/", False),
        ("https://a.example/\"onmouseover='x'", False),
        ("https://a.example\\@evil.example", False),
        ("https://a.example/ b", False),
        ("https://a.example/\u202e", False),
        ("https://ä.example/", False),
        ("HTTPS://a.example/", False),
        ("http://a.example/", False),
        ("javascript:window.hit=1", False),
        ("//evil.example/x.png", False),
        ("https://a.example/\n", False),
        ("https://a.example/" + "x" * 3_000, False),
        (7, False),
    ],
)
def test_only_plain_https_is_a_link(text: object, link: bool) -> None:
    assert is_link(text) is link


# -- approvals --------------------------------------------------------------------------------------------------------


@pytest.fixture
def office(desk: Desk, registry: OpenDesk) -> Office:
    return Office(desk, registry)


def waiting(office: Office) -> str:
    office.grant("a", "b", sensitive=["pay"])
    return pending(office.show("a", "b", "pay read", interaction_id="task-1"))


@on_both_databases
@pytest.mark.parametrize(("word", "event"), [("approve", "approval.granted"), ("deny", "approval.denied")])
def test_a_person_decides_after_being_asked(
    desk: Desk, visitor: NewVisitor, office: Office, word: str, event: str
) -> None:
    handle = waiting(office)
    paul = visitor().signed_in(office.tokens["paul"])
    listed = paul.shown("/approvals")
    asked = paul.shown(f"/approvals/{handle}/{word}")
    for page in (listed, asked):
        for text in ("alice", "agent:a", "agent:b", "pay", "read", "task-1"):
            assert text in page
    assert [one[0] for one in events(desk)] == ["approval.asked"]
    done = paul.post(f"/approvals/{handle}/{word}")

    assert done.status_code == 200
    assert events(desk)[1:] == [(event, "paul", "task-1")]
    assert "Nothing waits." in paul.shown("/approvals")
    for again in (paul.get(f"/approvals/{handle}/{word}"), paul.post(f"/approvals/{handle}/{word}")):
        assert (again.status_code, rule_of(again)) == (404, "approval.decided")


def test_nobody_approves_their_own(desk: Desk, visitor: NewVisitor, office: Office) -> None:
    handle = waiting(office)
    alice = visitor().signed_in(office.tokens["alice"])
    listed = alice.shown("/approvals")
    answer = alice.post(f"/approvals/{handle}/approve")

    assert "You asked for this: another person has to approve it." in listed
    assert (f"{handle}/approve" in listed, f"{handle}/deny" in listed) == (False, True)

    assert (answer.status_code, rule_of(answer)) == (403, "approval.self")
    assert [one[0] for one in events(desk)] == ["approval.asked"]


# -- audit ------------------------------------------------------------------------------------------------------------


@on_both_databases
def test_the_thread_of_an_interaction_goes_through_agents_of_others(
    desk: Desk, visitor: NewVisitor, office: Office
) -> None:
    handle = waiting(office)
    auditor = visitor().signed_in(desk.new_token("auditor", [Scope.AUDIT_READ]))
    visitor().signed_in(office.tokens["paul"]).post(f"/approvals/{handle}/approve")
    office.registry.done("POST", "/agents/b/suspend", {"interaction_id": "task-1"}, office.tokens["bob"])
    office.registry.done("POST", "/agents/c/suspend", {"interaction_id": "task-2"}, office.tokens["carol"])
    page = auditor.shown("/audit?interaction_id=task-1")

    named = re.findall(r"<strong><bdi>([a-z.-]+)</bdi></strong>", page)
    assert named == ["approval.asked", "approval.granted", "cards.suspended"]
    assert "No record is of the interaction" in auditor.shown("/audit?interaction_id=task-3")
    assert auditor.shown("/audit") == auditor.shown("/audit?interaction_id=")


def test_a_long_thread_is_read_in_pages(desk: Desk, registry: OpenDesk, alice: Visitor) -> None:
    registry.register(request())
    for _ in range(51):
        for name in ("suspend", "reinstate"):
            registry.done("POST", f"/agents/{AGENT}/{name}", {"interaction_id": "a&b=<i>"})
    first = alice.shown("/audit?interaction_id=a%26b%3D%3Ci%3E")
    onward = re.search(r'href="/console(/audit\?[^"]+)" rel="next"', first)
    assert onward
    second = alice.shown(onward[1].replace("&amp;", "&"))

    assert (first.count('<li class="block">'), second.count('<li class="block">')) == (100, 2)
    assert "<i>" not in first
    assert 'rel="next"' not in second


@pytest.mark.parametrize("query", ["interaction_id=x&after=-1", "interaction_id=x&after=" + "9" * 30])
def test_what_names_no_interaction_is_refused(alice: Visitor, query: str) -> None:
    answer = alice.get(f"/audit?{query}")

    assert (answer.status_code, rule_of(answer)) == (422, "request.malformed")


# -- faults -----------------------------------------------------------------------------------------------------------


def test_a_database_that_is_gone_is_a_page_that_says_so(desk: Desk, registry: OpenDesk, alice: Visitor) -> None:
    desk.file.rename(desk.file.with_suffix(".gone"))
    answer = alice.get("/agents")

    assert (answer.status_code, rule_of(answer)) == (503, "store.unavailable")
    assert answer.headers["retry-after"]


# -- registrations that wait for a person ------------------------------------------------------------------------------

REVIEWED = request_with_card(
    {**example(), "name": "<b>Name</b>\u202e"},
    agent_id="a",
    disclosure_contexts=[
        {"context": "full", "disclose": ["skills", "name"]},
        {"context": "federation", "partner": "https://p.example/?a&b"},
    ],
)


@pytest.fixture
def demanding(desk: Desk) -> Iterator[OpenDesk]:
    with desk.open(console=True, approval_for=frozenset("*")) as opened:
        yield opened


@pytest.fixture
def paul(desk: Desk, demanding: OpenDesk) -> Visitor:
    return Visitor(demanding).signed_in(desk.new_token("paul"))


def test_a_person_approves_after_seeing_all_that_is_covered(demanding: OpenDesk, paul: Visitor) -> None:
    review = demanding.post(REVIEWED).json()["review_id"]

    listed = paul.shown("/reviews")
    assert f"/console/reviews/{review}/approve" in listed
    asked = paul.shown(f"/reviews/{review}/approve")
    assert "The agent is not registered." in asked
    thumbprint = key(20).public_key.thumbprint
    for shown in (listed, asked):
        text = " ".join(re.sub("</?(bdi|code)>", "", shown).split())
        keys = f"with the Holder keys {thumbprint}</li>"
        assert f"<li>federation (https://p.example/?a&amp;b) shows its default, {keys}" in text
        assert f"<li>full shows only name, skills, {keys}" in text
    assert "&lt;b&gt;Name&lt;/b&gt;\\u202e" in asked
    assert "<b>Name" not in asked
    assert "\u202e" not in asked
    for skill in REVIEWED["card"]["skills"]:
        assert skill["id"] in asked

    done = paul.post(f"/reviews/{review}/approve")

    assert (done.status_code, "a is approved." in done.text) == (200, True)
    assert "Nothing waits." in paul.shown("/reviews")
    assert demanding.post(REVIEWED).status_code == 201
    for again in (paul.get(f"/reviews/{review}/approve"), paul.post(f"/reviews/{review}/approve")):
        assert (again.status_code, rule_of(again)) == (404, "approval.decided")


def test_a_change_says_what_differs_and_a_rejection_needs_a_reason(demanding: OpenDesk, paul: Visitor) -> None:
    first = demanding.post(REVIEWED).json()["review_id"]
    paul.post(f"/reviews/{first}/approve")
    demanding.register(REVIEWED)
    changed = {**REVIEWED, "card": {**REVIEWED["card"], "description": "Other", "version": "9"}}
    changed |= {"description": "Other", "version": "9"}
    review = demanding.post(changed).json()["review_id"]

    asked = paul.shown(f"/reviews/{review}/reject")
    assert "<li><bdi>description</bdi></li><li><bdi>version</bdi></li>" in asked
    without = paul.post(f"/reviews/{review}/reject")
    assert (without.status_code, rule_of(without)) == (422, "request.malformed")
    assert "is rejected." in paul.post(f"/reviews/{review}/reject", reason="Too vague.").text
    assert demanding.post(changed).json()["findings"][0]["hint"] == "The reason: Too vague."


def test_nobody_approves_their_own_registration(desk: Desk, demanding: OpenDesk) -> None:
    review = demanding.post(REVIEWED).json()["review_id"]
    alice = Visitor(demanding).signed_in(desk.token)
    assert f"/console/reviews/{review}/approve" not in alice.shown("/reviews")
    answer = alice.post(f"/reviews/{review}/approve")
    assert (answer.status_code, rule_of(answer)) == (403, "approval.self")


def test_pages_of_registrations_lead_on(demanding: OpenDesk, paul: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("issuer_service.reviews.service.MOST_LISTED", 1)
    for number in range(2):
        demanding.post(request(f"agent-{number}", public_key=jwk(key(30 + number))))
    first = paul.shown("/reviews")
    cursor = first.partition("/console/reviews?cursor=")[2].partition('"')[0]
    rest = paul.shown(f"/reviews?cursor={cursor}")
    assert {"agent-0" in first, "agent-0" in rest} == {True, False}
    assert ("First page" in rest, "Next page" in rest) == (True, False)


def test_the_page_of_an_agent_shows_what_the_registry_checked(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("issuer_service.app._CHECKING_SECONDS", 3_600.0)
    with desk.open(console=True) as registry:
        registry.register(REVIEWED)
        assert "What the registry checks" not in Visitor(registry).signed_in(desk.token).shown("/agents/a")
    with desk.open(console=True, approval_for=frozenset("*"), checks=AgentChecks(domains=True)) as registry:
        alice, paul = (Visitor(registry).signed_in(one) for one in (desk.token, desk.new_token("paul")))
        assert "No person approved the agent" in alice.shown("/agents/a")
        paul.post(f"/reviews/{registry.post(REVIEWED).json()['review_id']}/approve")
        registry.register(REVIEWED)
        shown = alice.shown("/agents/a")
    assert "A person approved the agent" in shown
    assert "none yet" in shown
    assert "<bdi>georoute-agent.example.com</bdi>: control is not proved" in shown
    assert "<code>domain.pending</code>" in shown
