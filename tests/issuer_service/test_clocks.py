"""A clock that is wrong for one step of the lifecycle, and right again: then everything works, and nothing is lost."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx2
import pytest

from issuer_service.access import Limit, Scope
from issuer_service.audit.service import make_checkpoint
from issuer_service.delegation import repository as delegation_repository
from issuer_service.delegation.records import GrantExists, GrantRow
from issuer_service.keys import service
from issuer_service.keys.repository import KeyUse
from issuer_service.keys.ring import STALE
from issuer_service.keys.service import LEAD
from issuer_service.rate_limit import RateLimits
from sdcard import (
    DEFAULT_POLICY,
    Acceptance,
    AdmissionPolicy,
    Challenge,
    Checked,
    Expectations,
    HeldSdCard,
    Misuse,
    NothingRequired,
    Refused,
    TrustedIssuers,
    Unsolicited,
    VerifiedCard,
    accept_sd_card,
    new_challenge,
    present,
    select_all,
    verify_presentation,
)
from sdcard.audit_chain import verify_checkpoint
from sdcard.cards.detect import KNOWN_FORMATS
from sdcard.delegation_chain import ACCESS_TOKEN_TYPE, SD_AGENT_CARD_TYPE, TOKEN_EXCHANGE
from sdcard.instants import MAX_SKEW
from sdcard.io.egress_policy import LOOPBACK
from sdcard.io.published_keys import IssuerKeys
from sdcard.io.replay_cache import MemoryChallengeRecord, MemoryReplayRecord
from sdcard.io.status_lists import FetchedStatusLists
from sdcard.issuer import DAY
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.key_binding import Unbound
from sdcard.possession import prove_possession
from sdcard.web.authenticate import SdCardMiddleware
from tests.issuer_service.console.visitor import Visitor
from tests.issuer_service.desk import (
    HOLDER,
    VAULT,
    Desk,
    OpenDesk,
    ask,
    assert_refused,
    changing,
    differences,
    jwk,
    on_both_databases,
    reading,
    request,
    request_with_card,
)
from tests.sdcard.web.protecting import shows
from tests.sdcard.web.test_authenticate import call, challenged, credentials
from tests.world import AUDIENCE, ISSUER, decode_part, key

JUMPS = {"+1 h": 3_600, "-1 h": -3_600, "+10 d": 10 * DAY, "-10 d": -10 * DAY}
EARLIER = 30 * DAY
"""Since when the tokens of callers are there: no jump leads behind it."""
TEXT = {"text": "route"}


class Life:
    """A registry with agents, their Holders, and a Verifier that keeps keys, status lists and nonces."""

    def __init__(self, desk: Desk, registry: OpenDesk, issuer: str) -> None:
        self.desk, self.registry, self.issuer = desk, registry, issuer
        self.keys = IssuerKeys(TrustedIssuers({issuer: {}}), LOOPBACK)
        self.lists = FetchedStatusLists(self.keys, LOOPBACK)
        self.seen = MemoryReplayRecord()
        self.numbers = iter(range(200, 10_000))
        self.signers: dict[str, Any] = {}
        self.cards: dict[str, str] = {}
        self.revoked: dict[str, str] = {}
        self.app = SdCardMiddleware(
            shows,
            policy=AdmissionPolicy(
                issuers=TrustedIssuers({issuer: {}}),
                formats=frozenset(KNOWN_FORMATS),
                requirement=NothingRequired("a walk through wrong clocks"),
            ),
            audience=AUDIENCE,
            challenges=MemoryChallengeRecord(AUDIENCE, desk.salts),
            status=Checked(self.lists),
            clock=desk.clock,
            issuer_keys=self.keys,
        )
        self.visitor = Visitor(registry)
        limits = {Limit.CONTEXTS: list(DEFAULT_POLICY.contexts)}
        self.seeker = desk.new_token("seeker", (Scope.AGENTS_DISCOVER,), limits, lifetime=400 * DAY)
        self.owner = desk.new_token("alice", lifetime=400 * DAY)
        desk.clock.advance(EARLIER)
        for agent in ("stays", "goes", "is-deleted", "delegates", "receives"):
            self.register(agent)
        self.token = self.exchange()

    def register(self, agent: str, **changes: Any) -> httpx2.Response:
        signer = self.signers.setdefault(agent, key(next(self.numbers)))
        asked = {"public_key": jwk(signer), "disclosure_contexts": [{"context": "public"}], **changes}
        answer = self.post("/agents/register", request_with_card(agent_id=agent, **asked))
        if answer.status_code == 201:
            self.cards[agent] = answer.json()["cards"][0]["sd_card"]
        return answer

    def post(self, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        return checked(self.registry.ask("POST", path, body, self.owner, **headers))

    def held(self, agent: str) -> HeldSdCard:
        trusted = self.keys.for_presentation(self.cards[agent], self.now)
        return accept_sd_card(self.cards[agent], Acceptance(issuers=trusted), self.signers[agent].public_key, self.now)

    def verify(self, agent: str) -> VerifiedCard:
        """Make a presentation now and verify it."""
        held, challenge = self.held(agent), new_challenge(AUDIENCE, self.desk.salts)
        text = str(present(held, select_all(held), challenge, self.signers[agent], self.now))
        expected = Expectations(
            issuers=self.keys.for_presentation(text, self.now),
            key_binding=Unsolicited(AUDIENCE, self.seen),
            status=Checked(self.lists),
        )
        return verify_presentation(text, expected, self.now)

    def verify_found(self, text: str) -> VerifiedCard:
        """Verify an SD-Card from discovery."""
        trusted = self.keys.for_presentation(text, self.now)
        expected = Expectations(issuers=trusted, key_binding=Unbound("found"), status=Checked(self.lists))
        return verify_presentation(text, expected, self.now)

    def call(self, agent: str) -> int:
        """The status that the middleware answers a Holder with, who answers its challenge now."""
        asked = challenged(self.app)
        held = self.held(agent)
        text = str(present(held, select_all(held), asked.challenge, self.signers[agent], self.now))
        return call(self.app, credentials(text)).status

    def use_console(self) -> int:
        """Sign in anew, and the status of the first page then."""
        checked(self.visitor.get("/agents"))
        checked(self.visitor.sign_in(self.owner))
        return checked(self.visitor.get("/agents")).status_code

    def find(self) -> dict[str, str]:
        """Everybody who is found, with the SD-Card of each."""
        found, cursor = dict[str, str](), dict[str, str]()
        while True:
            answer = checked(self.registry.look_for("public", self.seeker, **TEXT, max_results=2, **cursor))
            if answer.status_code != 200:
                return found
            found |= {one["agent_id"]: one["sd_card"] for one in answer.json()["results"]}
            if answer.json()["next_cursor"] is None:
                return found
            cursor = {"cursor": answer.json()["next_cursor"]}

    def grant(self) -> None:
        now = int(self.now)
        row = GrantRow(
            self.desk.salts.draw(1).hex(), "agent:delegates", "agent:receives", ("read",), (), now, now + DAY
        )
        with suppress(GrantExists):
            ask(self.desk.url, changing(delegation_repository.add_grant, row))

    def exchange(self) -> str | None:
        """A delegated token, if it is given."""
        self.grant()
        nonce = self.post("/nonces")
        if nonce.status_code != 201:
            return None
        held = self.held("delegates")
        challenge = Challenge(nonce.json()["nonce"], f"{self.issuer}/token")
        shown = present(held, select_all(held), challenge, self.signers["delegates"], self.now)
        form = {
            "grant_type": TOKEN_EXCHANGE,
            "subject_token": str(shown),
            "subject_token_type": SD_AGENT_CARD_TYPE,
            "requested_token_type": ACCESS_TOKEN_TYPE,
            "audience": "agent:receives",
            "scope": "read",
        }
        answer = checked(self.form("/token", form))
        return str(answer.json()["access_token"]) if answer.status_code == 200 else None

    def form(self, path: str, form: dict[str, str]) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self.owner}"}
        return checked(self.registry.client.post(path, data=form, headers=headers))

    def is_active(self, token: str) -> bool:
        return bool(self.form("/introspect", {"token": token}).json()["active"])

    def add_key(self, use: KeyUse) -> None:
        ask(self.desk.url, lambda database: service.add_key(database, VAULT, use, SignatureAlgorithm.ES256, self.now))

    def rotate(self, use: KeyUse) -> None:
        """Add a key, and rotate when that is permitted."""
        self.add_key(use)
        self.desk.clock.advance(LEAD)
        ask(self.desk.url, lambda database: service.rotate(database, VAULT, use, self.now, at_once=False))
        self.desk.clock.advance(STALE)

    def checkpoint(self) -> None:
        keys, file = self.desk.audit_signer, self.desk.checkpoints
        ask(self.desk.url, lambda database: make_checkpoint(database, file, keys, self.issuer, self.now))

    @property
    def now(self) -> Any:
        return self.desk.clock.now()


def checked(answer: httpx2.Response) -> httpx2.Response:
    """Whatever the clock says, the registry answers; it never fails."""
    assert answer.status_code < 500, answer.text
    return answer


@contextmanager
def living(desk: Desk, **changes: Any) -> Iterator[Life]:
    """A registry that others reach over HTTP too, by its address on loopback."""
    opened: list[OpenDesk] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answer = opened[0].client.get(self.path)
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers["content-type"])
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    issuer = f"http://127.0.0.1:{http.server_port}"
    thread = threading.Thread(target=http.serve_forever, daemon=True, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        with desk.open(issuer=issuer, rates=RateLimits(), console=True, **changes) as registry:
            opened.append(registry)
            yield Life(desk, registry, issuer)
    finally:
        http.shutdown()
        http.server_close()
        thread.join()


# -- steps, each of which happens while the clock is wrong ------------------------------------------------------------


def register(life: Life) -> None:
    life.register("new")


def register_again(life: Life) -> None:
    life.register("stays")


def find(life: Life) -> None:
    life.find()


def fetch_lists(life: Life) -> None:
    for list_id, *_ in life.desk.rows()["status_lists"]:
        assert life.registry.get(f"/status/{list_id}").status_code == 200


def verify(life: Life) -> None:
    for agent in life.cards:
        try:
            life.verify(agent)
        except Refused:
            continue


def call_protected(life: Life) -> None:
    for agent in life.cards:
        with suppress(Refused):
            assert life.call(agent) < 500


def use_console(life: Life) -> None:
    life.use_console()


def revoke(life: Life) -> None:
    if life.post("/agents/goes/revoke", {}).status_code == 200:
        life.revoked["goes"] = life.cards["goes"]


def delete(life: Life) -> None:
    answer = checked(life.registry.ask("DELETE", "/agents/is-deleted", None, life.owner))
    if answer.status_code == 200:
        life.revoked["is-deleted"] = life.cards["is-deleted"]


def suspend_and_reinstate(life: Life) -> None:
    life.post("/agents/stays/suspend", {})
    life.post("/agents/stays/reinstate", {})


def renew(life: Life) -> None:
    answer = life.post("/agents/stays/renew", {})
    if answer.status_code == 201:
        life.cards["stays"] = answer.json()["cards"][0]["sd_card"]


def add_keys(life: Life) -> None:
    for use in (KeyUse.CARDS, KeyUse.STATUS, KeyUse.TOKENS):
        life.add_key(use)


def rotate_keys(life: Life) -> None:
    for use in (KeyUse.CARDS, KeyUse.STATUS):
        life.rotate(use)


def delegate(life: Life) -> None:
    try:
        life.exchange()
    except Refused:  # its Holder has no SD-Card that counts then
        return


def revoke_token(life: Life) -> None:
    assert life.token is not None
    assert life.form("/revoke", {"token": life.token}).status_code == 200
    life.token = None


def checkpoint(life: Life) -> None:
    life.checkpoint()


STEPS: dict[str, Callable[[Life], None]] = {
    one.__name__: one
    for one in (
        *(register, register_again, find, fetch_lists, verify, revoke, delete, suspend_and_reinstate, renew),
        *(add_keys, rotate_keys, delegate, revoke_token, checkpoint, call_protected, use_console),
    )
}


# -- and what has to hold when it is right again ----------------------------------------------------------------------


def assert_everything_works(life: Life) -> None:
    """Every step works, for a caller, a Holder and a Verifier that lived through it."""
    assert life.registry.get("/readyz").status_code == 200
    assert_agents_are_found(life)
    for agent in {"stays", "delegates", "receives"} | ({"new"} & life.cards.keys()):
        answer = life.post(f"/agents/{agent}/renew", {"supersedes": "revoke"})
        assert answer.status_code == 201, answer.text
        life.cards[agent] = answer.json()["cards"][0]["sd_card"]
        life.desk.clock.advance(301)  # status lists are kept by Verifiers for so long
        assert life.verify(agent).subject == f"agent:{agent}"
        assert life.call(agent) == 200
    assert life.use_console() == 200
    nonce = life.post("/nonces").json()["nonce"]
    signer = life.signers["proven"] = key(next(life.numbers))
    proof = prove_possession(signer, life.issuer, "proven", nonce, life.now)
    assert life.register("proven", proofs=[proof]).status_code == 201
    assert life.verify("proven").subject == "agent:proven"
    token = life.exchange()
    assert token is not None
    assert life.is_active(token)
    for use in (KeyUse.CARDS, KeyUse.STATUS, KeyUse.TOKENS):
        rotate_whatever_comes_next(life, use)
    assert life.register("last").status_code == 201
    assert life.verify("last").subject == "agent:last"
    assert_agents_are_found(life)
    life.checkpoint()
    assert_nothing_is_lost(life)


def rotate_whatever_comes_next(life: Life, use: KeyUse) -> None:
    """A rotation that has to wait, waits for its ten minutes and no longer."""
    try:
        life.rotate(use)
    except Misuse:
        life.desk.clock.advance(LEAD)
        ask(life.desk.url, lambda database: service.rotate(database, VAULT, use, life.now, at_once=False))
        life.desk.clock.advance(STALE)


def assert_agents_are_found(life: Life) -> None:
    found = life.find()
    assert found.keys() == life.cards.keys() - life.revoked.keys()
    for agent, text in found.items():
        assert life.verify_found(text).subject == f"agent:{agent}"


def assert_nothing_is_lost(life: Life) -> None:
    registered = {one["agent_id"] for one in life.registry.done("GET", "/agents?limit=100", token=life.owner)["agents"]}
    assert registered == life.cards.keys() - ({"is-deleted"} & life.revoked.keys())
    for agent, text in life.revoked.items():
        life.cards[agent] = text
        with pytest.raises(Refused, match=r"status\.revoked"):
            life.verify(agent)
    keys = {life.desk.audit_signer.public_key.thumbprint: life.desk.audit_signer.public_key}
    seen = [verify_checkpoint(line, keys) for line in life.desk.checkpoints.read_text("ascii").splitlines()]
    assert life.desk.verdict(*seen).findings == ()
    seeded = ("database/tokens/", "database/registry_keys/", "database/status_lists/")  # of the desk, without records
    assert [where for _, where in differences(life.desk.url) if not where.startswith(seeded)] == []


def take_wrongly(life: Life, step: str, jump: str) -> None:
    """Take a step by a clock that is wrong, and set the clock right."""
    token, right = life.token, life.now
    life.desk.clock.advance(JUMPS[jump])
    STEPS[step](life)
    life.desk.clock.advance(right - life.now)
    if token is not None and life.token is None:
        assert not life.is_active(token), "what was revoked stays so"


@pytest.mark.slow
@on_both_databases
@pytest.mark.parametrize("jump", JUMPS)
def test_a_clock_that_is_wrong_at_every_step_and_right_in_between_spoils_nothing(desk: Desk, jump: str) -> None:
    with living(desk) as life:
        for step in STEPS:
            take_wrongly(life, step, jump)
            assert_agents_are_found(life)
        assert_everything_works(life)


@pytest.mark.slow
@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("step", STEPS)
def test_a_clock_that_was_wrong_for_one_step_spoils_nothing(desk: Desk, step: str, jump: str) -> None:
    with living(desk) as life:
        take_wrongly(life, step, jump)
        assert_everything_works(life)


# -- what is left of a time when the clock was ahead ------------------------------------------------------------------


@contextmanager
def ahead(desk: Desk, seconds: float = 10 * DAY) -> Iterator[None]:
    desk.clock.advance(seconds)
    yield
    desk.clock.advance(-seconds)


def test_a_token_made_in_the_future_counts_from_then_on(desk: Desk, registry: OpenDesk) -> None:
    with ahead(desk):
        token = desk.new_token("bob")
    with ahead(desk, MAX_SKEW):
        nearly = desk.new_token("carol")

    refused = registry.ask("GET", "/agents", token=token)
    assert_refused(refused, 401, ("token.invalid", "request/headers/authorization"))
    assert registry.ask("GET", "/agents", token=nearly).status_code == 200
    with ahead(desk):
        assert registry.ask("GET", "/agents", token=token).status_code == 200


def test_an_answer_made_in_the_future_is_not_given_again(desk: Desk, registry: OpenDesk) -> None:
    desk.token = registry.token = desk.new_token("alice", lifetime=100 * DAY)
    body = request()
    with ahead(desk):
        first = registry.post(body, idempotency_key="a")
    second, third = (registry.post(body, idempotency_key="a") for _ in range(2))

    assert (first.status_code, second.status_code, third.status_code) == (201, 201, 201)
    assert first.content != second.content == third.content


def test_an_answer_outlives_a_clock_that_went_back(desk: Desk, registry: OpenDesk) -> None:
    desk.clock.advance(10 * DAY)
    registry.token = desk.new_token("alice", lifetime=100 * DAY)
    first = registry.post(request(), idempotency_key="a")
    with ahead(desk, -10 * DAY):
        registry.post(request("other", public_key=jwk(key(44))), idempotency_key="b")

    assert registry.post(request(), idempotency_key="a").content == first.content


def test_nonces_of_the_future_are_not_usable_and_do_not_take_the_place_of_those_of_now(
    desk: Desk, registry: OpenDesk
) -> None:
    registry.token = desk.new_token("alice", lifetime=100 * DAY)
    with ahead(desk):
        future = [registry.done("POST", "/nonces")["nonce"] for _ in range(300)]
    nonce = registry.done("POST", "/nonces")["nonce"]

    def proof(text: str) -> str:
        return prove_possession(HOLDER, ISSUER, "ai-assistant-v2", text, desk.clock.now())

    assert_refused(registry.post(request(proofs=[proof(future[-1])])), 422, ("proof.nonce", "request/proofs"))
    assert registry.post(request(proofs=[proof(nonce)])).status_code == 201


def test_a_grant_made_in_the_future_is_not_in_force_and_can_be_added_again(desk: Desk) -> None:
    with living(desk) as life:
        row = GrantRow("a" * 32, "agent:receives", "agent:delegates", ("read",), (), int(life.now) + 10 * DAY, 2**40)
        ask(desk.url, changing(delegation_repository.add_grant, row))
        asked = ("agent:receives", "agent:delegates", int(life.now))
        assert ask(desk.url, reading(delegation_repository.find_grant, *asked)) is None

        again = replace(row, grant_id="b" * 32, created_at=int(life.now))
        ask(desk.url, changing(delegation_repository.add_grant, again))

        assert ask(desk.url, reading(delegation_repository.find_grant, *asked)) == again
        with pytest.raises(GrantExists):
            ask(desk.url, changing(delegation_repository.add_grant, replace(again, grant_id="c" * 32)))
        assert desk.verdict().findings == ()


def test_a_status_list_token_of_the_future_is_made_again_at_once(desk: Desk, registry: OpenDesk) -> None:
    uri = registry.register(request())["cards"][0]["status"]["uri"]
    with ahead(desk):
        wrong = registry.get(uri.removeprefix(ISSUER))
    right = registry.get(uri.removeprefix(ISSUER))

    issued_at = decode_part(right.text.split(".")[1])["iat"]
    assert decode_part(wrong.text.split(".")[1])["iat"] > desk.clock.now() >= issued_at
    assert wrong.headers["etag"] != right.headers["etag"]


def test_sd_cards_for_discovery_of_the_future_are_made_again_after_a_restart(desk: Desk) -> None:
    desk.token = desk.new_token("alice", lifetime=400 * DAY)
    limits = {Limit.CONTEXTS: ["public"]}
    seeker = desk.new_token("seeker", (Scope.AGENTS_DISCOVER,), limits, lifetime=400 * DAY)
    with desk.open() as registry:
        registry.register(request_with_card(disclosure_contexts=[{"context": "public"}]))
        with ahead(desk):
            [wrong] = registry.look_for("public", seeker, **TEXT).json()["results"]
    with desk.open() as registry:
        [right] = registry.look_for("public", seeker, **TEXT).json()["results"]
        [kept] = registry.look_for("public", seeker, **TEXT).json()["results"]

    assert decode_part(wrong["sd_card"].split(".")[1])["iat"] > desk.clock.now()
    assert decode_part(right["sd_card"].split(".")[1])["iat"] <= desk.clock.now()
    assert kept == right
