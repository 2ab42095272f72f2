"""Rotation of keys, and a card key in a SoftHSM."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import httpx2
import pytest
from sqlalchemy import Connection
from sqlalchemy.exc import IntegrityError

from issuer_service.keys import repository as keys_repository
from issuer_service.keys import ring as ring_of_keys
from issuer_service.keys import service
from issuer_service.keys.repository import KeysChanged, KeyState, KeyUse, RegistryKeyRow
from issuer_service.keys.ring import STALE, KeyEncryptionKey, KeyRing, Vault, is_published
from issuer_service.keys.service import LEAD
from issuer_service.server import address_of, bind, running
from sdcard import InMemorySigner, Misuse, Refused, TrustedIssuers, Where
from sdcard.errors import Part
from sdcard.instants import MAX_SKEW
from sdcard.io import pkcs11
from sdcard.io.database import Database, open_database
from sdcard.io.key_files import generate_jwk
from sdcard.io.pkcs11 import Pkcs11Token
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.issuer import DAY
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.jws import parse_jws
from sdcard.jose.keys import PublicKey
from sdcard.rules import Rule
from sdcard.trust import parse_key_set
from tests.issuer_service.desk import (
    KEK,
    VAULT,
    Desk,
    FixedKeys,
    OpenDesk,
    ask,
    assert_refused,
    jwk,
    key_row,
    on_both_databases,
    private_jwk,
    reading,
    request,
    seed_keys,
)
from tests.issuer_service.test_processes import registries, token_of
from tests.postgres import query
from tests.shared import ROOT
from tests.softhsm import NOISE, SoftHsm
from tests.world import ISSUER, NOW, MovableClock, World, at_once, key, raises_rule

# -- Keys come and go without anybody losing an SD-Card: before, during and after a rotation --------------------------

T = TypeVar("T")
CARDS, STATUS = KeyUse.CARDS, KeyUse.STATUS


def on(desk: Desk, work: Callable[[Database], Awaitable[T]]) -> T:
    """Run an operator's command, as in a process of its own."""

    async def run() -> T:
        database = open_database(desk.url)
        try:
            return await work(database)
        finally:
            await database.close()

    return asyncio.run(run())


def add(desk: Desk, use: KeyUse = CARDS) -> str:
    return on(
        desk, lambda database: service.add_key(database, VAULT, use, SignatureAlgorithm.ES256, desk.clock.now())
    ).kid


def rotate(desk: Desk, use: KeyUse = CARDS, at_once: bool = False) -> tuple[str, str]:
    return on(desk, lambda database: service.rotate(database, VAULT, use, desk.clock.now(), at_once=at_once))


def remove(desk: Desk, kid: str) -> RegistryKeyRow:
    return on(desk, lambda database: service.remove(database, VAULT, kid, desk.clock.now()))


def keys_of(desk: Desk) -> dict[str, RegistryKeyRow]:
    return {row.kid: row for row in on(desk, reading(keys_repository.read_keys))}


def states(desk: Desk, use: KeyUse = CARDS) -> list[str]:
    return sorted(row.state.value for row in keys_of(desk).values() if row.use is use)


def published(registry: OpenDesk | httpx2.Client, path: str = "jwks.json") -> list[str]:
    return [one["kid"] for one in registry.get(f"/.well-known/{path}").json()["keys"]]


def kid_of(text: str) -> Any:
    return parse_jws(text.partition("~")[0], Part.ISSUER_HEADER, Part.ISSUER_JWT, 64).header["kid"]


def card_of(registry: OpenDesk) -> str:
    """The agent registers, perhaps again."""
    body = request("agent", public_key=jwk(key(2)), disclosure_contexts=[{"context": "public"}])
    sd_card: str = registry.register(body)["cards"][0]["sd_card"]
    return sd_card


def fetched(registry: OpenDesk) -> TrustedIssuers:
    """Fetch the keys as a Verifier does."""
    return TrustedIssuers({ISSUER: parse_key_set(registry.get("/.well-known/jwks.json").json(), Where(Part.TRUST))})


def verify(world: World, desk: Desk, card: str, trust: TrustedIssuers) -> str:
    """Present the card and verify it with this trust, now."""
    from sdcard import Acceptance, Answering, Expectations, Unchecked, accept_sd_card, verify_presentation
    from sdcard.holder import present, select_all
    from sdcard.io.replay_cache import MemoryChallengeRecord

    now = desk.clock.now()
    everybody = TrustedIssuers.of(ISSUER, *(VAULT.public_key(row) for row in keys_of(desk).values()))
    held = accept_sd_card(card, Acceptance(issuers=everybody), key(2).public_key, now)
    record = MemoryChallengeRecord("https://verifier.example", world.salts)
    challenge = record.issue(now)
    text = str(present(held, select_all(held), challenge, key(2), now))
    expected = Expectations(
        issuers=trust, key_binding=Answering(challenge, record), status=Unchecked("it is about keys")
    )
    return verify_presentation(text, expected, now).subject


@on_both_databases
def test_cards_of_both_keys_verify_with_what_the_registry_publishes(desk: Desk, world: World) -> None:
    old = desk.signer.public_key.thumbprint
    with desk.open() as registry:
        before = card_of(registry)
        new = add(desk)
        desk.clock.advance(STALE)
        assert published(registry) == [old, new]
        known_before = fetched(registry)

        with pytest.raises(Misuse, match="wait for another 595 s"):
            rotate(desk)
        desk.clock.advance(LEAD - STALE)
        assert rotate(desk) == (old, new)
        desk.clock.advance(STALE)
        after = card_of(registry)

        assert (kid_of(before), kid_of(after)) == (old, new)
        assert published(registry) == [new, old]
        for trust in (known_before, fetched(registry)):
            assert verify(world, desk, before, trust) == "agent:agent"
            assert verify(world, desk, after, trust) == "agent:agent"
    assert states(desk) == ["active", "retired"]


@pytest.mark.parametrize("days", [1, 90])
def test_a_retired_key_is_dropped_exactly_when_its_last_card_can_no_longer_live(
    desk: Desk, world: World, days: int
) -> None:
    last = ""
    desk.token = desk.new_token("alice", lifetime=400 * DAY)
    old, new = desk.signer.public_key.thumbprint, add(desk)
    for lifetime in (DAY, days * DAY, DAY):
        with desk.open(lifetime=lifetime) as registry:
            card = card_of(registry)
            last = card if lifetime == days * DAY else last
        desk.clock.advance(1800)
    [[(expires_at,)]] = query(desk.url, "SELECT max(expires_at) FROM cards")
    rotate(desk)
    with desk.open(lifetime=90 * DAY) as registry:
        card_of(registry)
        desk.clock.advance(expires_at - desk.clock.now() - 1)
        assert verify(world, desk, last, fetched(registry)) == "agent:agent"
        for step in (0, MAX_SKEW, 1):  # read up to STALE seconds ago: so a key is dropped a little late, never early
            desk.clock.advance(step)
            assert published(registry) == [new, old]
        desk.clock.advance(STALE)
        assert published(registry) == [new]
    row = keys_of(desk)[old]
    assert row.signs_until == expires_at
    steps = (-1, -0.001, 0, 1)
    assert [is_published(row, expires_at + MAX_SKEW + step) for step in steps] == [True, True, False, False]


def test_a_key_of_a_clock_that_was_ahead_waits_for_ten_minutes_and_no_longer(desk: Desk) -> None:
    desk.clock.advance(10 * DAY)
    new = add(desk)
    desk.clock.advance(-10 * DAY)
    with pytest.raises(Misuse, match=f"wait for another {LEAD} s"):
        rotate(desk)
    desk.clock.advance(LEAD)

    assert rotate(desk) == (desk.signer.public_key.thumbprint, new)


def test_a_clock_that_went_back_shortens_the_time_of_no_retired_key(desk: Desk) -> None:
    old = desk.status_signer.public_key.thumbprint
    add(desk, STATUS)
    desk.clock.advance(-10 * DAY)
    rotate(desk, STATUS, at_once=True)

    assert is_published(keys_of(desk)[old], NOW + 7 * DAY)


def test_a_key_that_signed_nothing_is_dropped_at_once(desk: Desk) -> None:
    new = add(desk)
    rotate(desk, at_once=True)
    desk.clock.advance(MAX_SKEW)
    with desk.open() as registry:
        assert published(registry) == [new]


def test_the_key_of_status_lists_rotates_too_and_stays_for_as_long_as_a_list_could_live(desk: Desk) -> None:
    old = desk.status_signer.public_key.thumbprint
    with desk.open() as registry:
        answer = registry.register(request())
        path = answer["cards"][0]["status"]["uri"].removeprefix(ISSUER)
        first = registry.get(path)
        new = add(desk, STATUS)
        rotate(desk, STATUS, at_once=True)
        desk.clock.advance(STALE)
        second = registry.get(path)

        assert (kid_of(first.text), kid_of(second.text)) == (old, new)
        assert first.headers["etag"] != second.headers["etag"]
        assert published(registry, "status-jwks.json") == [new, old]
        desk.clock.advance(604_800 + 43_200)
        assert published(registry, "status-jwks.json") == [new, old]
        desk.clock.advance(180)
        assert published(registry, "status-jwks.json") == [new]
    assert states(desk) == ["active"]


def test_keys_of_what_is_kept_for_ever_stay_published(desk: Desk) -> None:
    add(desk, KeyUse.AUDIT)
    old, _ = rotate(desk, KeyUse.AUDIT, at_once=True)
    assert is_published(keys_of(desk)[old], 2**52)


@on_both_databases
def test_what_was_signed_with_a_key_that_was_retired_meanwhile_is_signed_again(desk: Desk) -> None:
    """The clock stands still, so the registry still believes in the old key when it signs."""
    with desk.open() as registry:
        card_of(registry)
        add(desk)
        old, new = rotate(desk, at_once=True)
        until = keys_of(desk)[old].signs_until

        assert kid_of(card_of(registry)) == new
    assert keys_of(desk)[old].signs_until == until
    assert desk.counts()["batches"] == 2


def test_nothing_is_signed_with_a_key_that_was_removed(desk: Desk, world: World) -> None:
    with desk.open() as registry:
        before = card_of(registry)
        new = add(desk)
        removed = remove(desk, desk.signer.public_key.thumbprint)
        assert kid_of(card_of(registry)) == new
        assert published(registry) == [new]
        with raises_rule("issuer.key-unknown", "issuer-header/kid"):
            verify(world, desk, before, fetched(registry))
        response = registry.post(request("thief", public_key=jwk(desk.signer)))
        assert_refused(response, 409, ("key.bound-elsewhere", "request/public_key"))
    gone = keys_of(desk)[removed.kid]
    assert (gone.state, gone.sealed) == (KeyState.REMOVED, "")
    with pytest.raises(Misuse, match="no such key"):
        remove(desk, removed.kid)


def test_the_only_key_is_not_removed(desk: Desk) -> None:
    before = desk.rows()
    with pytest.raises(Misuse, match="sdcard keys add cards"):
        remove(desk, desk.signer.public_key.thumbprint)
    with pytest.raises(Misuse, match="sdcard keys add cards"):
        rotate(desk)
    assert desk.rows() == before


def test_the_private_half_of_a_retired_key_is_forgotten(desk: Desk) -> None:
    add(desk)
    old, _ = rotate(desk, at_once=True)
    row = keys_of(desk)[old]

    assert VAULT.open(row).signer is None
    assert KEK.open(row.sealed, desk.signer.public_key, CARDS) == {}


@on_both_databases
def test_of_rotations_at_once_one_takes_place(desk: Desk) -> None:
    add(desk)

    def one() -> str:
        try:
            rotate(desk, at_once=True)
        except (KeysChanged, Misuse) as error:
            return type(error).__name__
        return "rotated"

    outcomes = at_once(one, 8)

    assert outcomes.count("rotated") == 1
    assert sorted(states(desk)) == ["active", "retired"]
    assert [one["event"] for one in desk.audit()].count("keys.rotated") == 1


@on_both_databases
def test_the_database_itself_permits_one_active_key_of_a_use(desk: Desk) -> None:
    for wrong in (
        key_row(key(50)),
        replace(key_row(key(50)), kid=desk.signer.public_key.thumbprint, state=KeyState.NEXT),
    ):
        with pytest.raises(IntegrityError):
            seed_keys(desk.url, wrong)
    for statement in (
        "UPDATE registry_keys SET state = 'active' WHERE state = 'next'",
        "UPDATE registry_keys SET active_for = NULL WHERE state = 'active'",
        "UPDATE registry_keys SET state = 'retired' WHERE state = 'active'",
        "UPDATE registry_keys SET active_for = 'audit' WHERE use = 'cards' AND state = 'active'",
    ):
        seed = key_row(key(51), state=KeyState.NEXT)
        if seed.kid not in keys_of(desk):
            seed_keys(desk.url, seed)
        with pytest.raises(IntegrityError):
            query(desk.url, statement)
    assert states(desk) == ["active", "next"]


DIES = """
import asyncio, os, signal, sys, time
from sqlalchemy import event
from issuer_service.keys import service
from issuer_service.keys.repository import KeyUse
from sdcard.io.database import open_database
from sdcard.io import statements
from tests.issuer_service.desk import VAULT

async def die() -> None:
    database, left = open_database(sys.argv[1]), [int(sys.argv[2])]

    def executed(*_: object) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    execute = statements.execute
    statements.execute = lambda *arguments: (execute(*arguments), executed())[0]
    engine = database.engine
    event.listen(engine, "after_cursor_execute", executed)
    event.listen(engine, "commit", executed)
    await service.rotate(database, VAULT, KeyUse.CARDS, time.time(), at_once=True)
    await database.close()

asyncio.run(die())
"""
"""Is killed by itself after so many statements of a rotation."""


@pytest.mark.slow
@on_both_databases
def test_a_rotation_that_is_killed_has_not_begun_or_is_done(desk: Desk) -> None:
    new, killed = add(desk), 0
    for statements in (2, 4, 7, 99):  # the active key is retired; the next one is active; all but the commit; never
        done = subprocess.run(
            [sys.executable, "-c", DIES, desk.url, str(statements)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=60,
            check=False,
            capture_output=True,
        )
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        assert states(desk) == ["active", "next"]
        with desk.open() as registry:
            assert kid_of(card_of(registry)) == desk.signer.public_key.thumbprint
    assert killed == 3
    assert states(desk) == ["active", "retired"]
    with desk.open() as registry:
        assert kid_of(card_of(registry)) == new


def test_processes_on_one_database_follow_within_the_bound(desk: Desk, tmp_path: Path, postgres: Any) -> None:
    desk = Desk(tmp_path, postgres.url(postgres.new_database("prepared")))
    desk.clock = MovableClock(time.time())
    headers = {"authorization": f"Bearer {token_of(desk)}"}
    numbers = iter(range(10_000))

    def signing(client: httpx2.Client) -> str:
        number = next(numbers)
        body = request(f"agent-{number}", public_key=jwk(key(1000 + number)))
        answer = client.post("/agents/register", json=body, headers=headers)
        assert answer.status_code == 201, answer.text
        return str(kid_of(answer.json()["cards"][0]["sd_card"]))

    with registries(tmp_path, desk.url, count=2) as started:
        clients = [httpx2.Client(base_url=address, trust_env=False, timeout=60) for address, _ in started]
        old = {signing(client) for client in clients}
        new = add(desk)
        added = time.monotonic()
        while any(new not in published(client) for client in clients):
            assert time.monotonic() - added < STALE + 1
            time.sleep(0.05)
        rotate(desk, at_once=True)
        rotated = time.monotonic()
        seen = [signing(client) for client in clients]
        while any(published(client) != [new, *old] for client in clients):
            assert time.monotonic() - rotated < STALE + 1
            time.sleep(0.05)
        for client in clients:
            client.close()

    assert old == {desk.signer.public_key.thumbprint}
    assert seen == [new, new]  # since what is recorded is checked against the keys as they are


def test_a_process_that_cannot_reach_its_database_goes_on_publishing(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk.open() as registry:
        before = published(registry)

        async def gone(_: Database, __: object, **___: object) -> Any:
            raise Refused(Rule.STORE_UNAVAILABLE, Where(Part.REQUEST))

        for reads in ("read", "look_up"):
            monkeypatch.setattr(Database, reads, gone)
        desk.clock.advance(10 * STALE)
        assert published(registry) == before
        assert registry.read().status_code == 503
    with desk.open() as fresh:
        assert_refused(fresh.get("/.well-known/jwks.json"), 503, ("store.unavailable", "request"))


def test_a_key_that_an_attacker_put_into_the_database_is_not_published(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    thief = KeyEncryptionKey(b"thief..." * 4)
    sealed = thief.seal({"jwk": private_jwk(key(60))}, key(60).public_key, CARDS)
    empty = thief.seal({}, key(61).public_key, CARDS)
    seed_keys(
        desk.url,
        replace(key_row(key(60), state=KeyState.NEXT), sealed=sealed),
        replace(key_row(key(61), state=KeyState.RETIRED), sealed=empty, signs_until=2**40),
        replace(key_row(desk.status_signer), kid=key(62).public_key.thumbprint, state=KeyState.NEXT),
    )
    with desk.open() as registry:
        assert published(registry) == [desk.signer.public_key.thumbprint]
        assert card_of(registry)
    assert caplog.text.count(" is ignored: ") == 3


@pytest.mark.parametrize("spoilt", ["use = 'cooking'", "public_jwk = '['", "public_jwk = '5'", "created_at = 'abc'"])
def test_a_row_of_a_key_that_cannot_be_read_refuses_all_and_a_process_goes_on(desk: Desk, spoilt: str) -> None:
    if desk.url.startswith("postgresql"):
        pytest.skip("its columns have types")
    with desk.open() as registry:
        registry.register(request())
        spoil = f"UPDATE registry_keys SET {spoilt} WHERE use = 'tokens'"
        query(desk.url, "PRAGMA ignore_check_constraints = ON", spoil)
        desk.clock.advance(STALE)
        registry.register(request())
    with pytest.raises(Refused, match=r"store\.unavailable"):
        ask(desk.url, reading(keys_repository.read_keys))


def test_a_use_whose_active_key_cannot_be_opened_waits(desk: Desk) -> None:
    """Its key was swapped under a running registry; the registry says so, and nothing is half done."""
    query(desk.url, "UPDATE registry_keys SET sealed = 'x' WHERE use = 'cards'")
    with desk.open() as registry:
        before = desk.rows()
        response = registry.post(request())
        assert_refused(response, 503, ("signer.unavailable", "key"))
        assert response.headers["retry-after"] == "5"
        assert desk.rows() == before
        assert registry.get("/.well-known/status-jwks.json").json()["keys"]


def test_sealing_anew_disturbs_nobody_and_then_only_the_new_key_opens(desk: Desk) -> None:
    other = KeyEncryptionKey(b"changed!" * 4)
    add(desk)
    with desk.open() as registry:
        before = published(registry)
        assert on(desk, lambda database: service.reseal(database, KEK, other, desk.clock.now())) == 5
        desk.clock.advance(STALE)
        assert published(registry) == before
        assert card_of(registry)
    on(desk, lambda database: service.check_keys(database, Vault(other)))
    with pytest.raises(Misuse, match="another key-encryption key"):
        on(desk, lambda database: service.check_keys(database, VAULT))
    with pytest.raises(Misuse, match="another key-encryption key"):
        on(desk, lambda database: service.reseal(database, KEK, other, desk.clock.now()))


def test_a_rotation_and_a_sealing_at_once_do_not_undo_each_other(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command does not write back values that it read before the other one wrote."""
    add(desk)
    stale = [row for row in keys_of(desk).values() if row.use is CARDS]
    on(desk, lambda database: service.reseal(database, KEK, KeyEncryptionKey(b"changed!" * 4), desk.clock.now()))

    async def late() -> None:
        database = open_database(desk.url)
        monkeypatch.setattr(keys_repository, "read_keys", lambda connection: tuple(stale))
        try:
            await service.rotate(database, VAULT, CARDS, desk.clock.now(), at_once=True)
        finally:
            await database.close()

    before = desk.rows()
    with pytest.raises(KeysChanged):
        asyncio.run(late())
    assert desk.rows() == before


def test_a_process_may_sign_with_another_key_until_it_is_retired(desk: Desk) -> None:
    other = add(desk)
    with desk.open(sign_with=other) as registry:
        assert kid_of(card_of(registry)) == other
        rotate(desk, at_once=True)
        third = add(desk)
        rotate(desk, at_once=True)
        desk.clock.advance(STALE)
        assert kid_of(card_of(registry)) == third
    assert (keys_of(desk)[other].signs_until or 0) > NOW


# -- taking over the keys of files ------------------------------------------------------------------------------------


def test_the_keys_of_an_older_registry_are_taken_over(tmp_path: Path) -> None:
    """A registry that issued SD-Cards before it had a ring; its card key, and one that had signed before that."""
    desk = Desk(tmp_path)
    with desk.open() as registry:
        card_of(registry)
    query(desk.url, "DELETE FROM registry_keys")
    now, first = desk.clock.now(), generate_jwk(SignatureAlgorithm.ES256)
    with pytest.raises(Misuse, match="sdcard keys import cards FILE"):
        on(desk, lambda database: service.make_missing(database, VAULT, now))

    on(desk, lambda database: service.import_public_key(database, VAULT, CARDS, key(70).public_key, now))
    card = on(desk, lambda database: service.import_private_key(database, VAULT, CARDS, first, now))
    status = on(desk, lambda database: service.import_private_key(database, VAULT, STATUS, private_jwk(key(71)), now))

    made = on(desk, lambda database: service.make_missing(database, VAULT, now))
    assert [row.use for row in made] == [KeyUse.AUDIT, KeyUse.TOKENS], "registries of before had none"
    assert on(desk, lambda database: service.make_missing(database, VAULT, now)) == []
    assert (card.state, status.state) == (KeyState.ACTIVE, KeyState.ACTIVE)
    [[(expires_at,)]] = query(desk.url, "SELECT max(expires_at) FROM cards")
    rows = keys_of(desk)
    assert rows[card.kid].signs_until == rows[key(70).public_key.thumbprint].signs_until == expires_at
    with desk.open() as registry:
        assert published(registry) == [card.kid, key(70).public_key.thumbprint]
    with pytest.raises(Misuse, match="already"):
        on(desk, lambda database: service.import_private_key(database, VAULT, STATUS, first, now))


def test_an_unread_ring_asks_once_however_many_want_it(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[int]()

    def count(connection: Connection) -> tuple[RegistryKeyRow, ...]:
        asked.append(1)
        return keys_repository.read_keys(connection)

    monkeypatch.setattr(ring_of_keys, "read_keys", count)

    async def all_at_once() -> int:
        database = open_database(desk.url)
        ring = KeyRing(database, VAULT, desk.clock)
        try:
            return len({id(one) for one in await asyncio.gather(*(ring.current() for _ in range(20)))})
        finally:
            await database.close()

    assert asyncio.run(all_at_once()) == 1
    assert asked == [1]


# -- A registry whose card key is in a SoftHSM ------------------------------------------------------------------------

# It issues, says when it cannot, and goes on by itself.

UNAVAILABLE = ("signer.unavailable", "key")


@pytest.fixture
def vault(hsm: SoftHsm) -> Vault:
    return Vault(KEK, hsm.token())


def move_into(desk: Desk, vault: Vault) -> str:
    """Rotate the card key to one that was made in the token."""
    now = desk.clock.now()
    made = on(desk, lambda database: service.add_token_key(database, vault, KeyUse.CARDS, now))
    on(desk, lambda database: service.rotate(database, vault, KeyUse.CARDS, now, at_once=True))
    return made.kid


@pytest.mark.filterwarnings(NOISE)
def test_cards_signed_in_the_token_verify_with_what_the_registry_publishes(
    desk: Desk, world: World, vault: Vault
) -> None:
    kid = move_into(desk, vault)
    with desk.open(vault=vault) as registry:
        card = card_of(registry)
        assert kid_of(card) == kid
        assert published(registry)[0] == kid
        assert verify(world, desk, card, fetched(registry)) == "agent:agent"
    row = keys_of(desk)[kid]
    assert vault.token is not None
    content = KEK.open(row.sealed, vault.public_key(row), KeyUse.CARDS)
    assert list(content) == ["pkcs11"]
    assert str(content["pkcs11"]).startswith(f"{vault.token.address.label}/")
    assert vault.token.address.pin not in repr(desk.rows()) + repr(vault)


@pytest.mark.filterwarnings(NOISE)
def test_many_register_at_once_while_the_session_is_lost(desk: Desk, hsm: SoftHsm, vault: Vault) -> None:
    kid, done = move_into(desk, vault), threading.Event()

    def lose() -> None:
        while not done.wait(0.02):
            hsm.in_module(lambda module: module.reinitialize())

    with desk.open(vault=vault) as registry:
        numbers = iter(range(24))
        losing = threading.Thread(target=lose)
        losing.start()

        def register() -> list[str]:
            number = next(numbers)
            answer = registry.register(request(f"agent-{number}", public_key=jwk(key(100 + number))))
            return [kid_of(one["sd_card"]) for one in answer["cards"]]

        kids = at_once(register, 24)
        done.set()
        losing.join()

    assert kids == [[kid] * 3] * 24


@pytest.mark.filterwarnings(NOISE)
def test_without_the_token_nothing_is_half_done_and_with_it_all_goes_on(desk: Desk, hsm: SoftHsm, vault: Vault) -> None:
    move_into(desk, vault)
    with desk.open(vault=vault) as registry:
        registry.register(request())
        before = desk.rows()
        with hsm.unplugged():
            response = registry.post(request("second", public_key=jwk(key(50))))
            assert_refused(response, 503, UNAVAILABLE)
            assert response.headers["retry-after"] == "5"
            assert registry.get("/healthz").status_code == 200
            assert len(published(registry)) == 2
        assert desk.rows() == before
        time.sleep(pkcs11._REST)
        registry.register(request("second", public_key=jwk(key(50))))


@pytest.mark.filterwarnings(NOISE)
def test_a_key_that_the_token_does_not_sign_with_takes_nobodys_place(desk: Desk, hsm: SoftHsm, vault: Vault) -> None:
    now = desk.clock.now()
    on(desk, lambda database: service.add_token_key(database, vault, KeyUse.CARDS, now))
    before = desk.rows()
    assert vault.token is not None
    label = vault.token.address.label
    hsm.initialise(f"--token {label}", label)
    hsm.in_module(lambda module: module.reinitialize())

    with raises_rule(*UNAVAILABLE):
        on(desk, lambda database: service.rotate(database, vault, KeyUse.CARDS, now, at_once=True))
    assert desk.rows() == before
    assert states(desk) == ["active", "next"]


@pytest.mark.filterwarnings(NOISE)
def test_a_process_without_the_token_says_which_one_it_needs(desk: Desk, vault: Vault) -> None:
    move_into(desk, vault)
    assert vault.token is not None
    for other in (Vault(KEK), Vault(KEK, Pkcs11Token(pkcs11.TokenAddress(Path("m.so"), "other", "1")))):
        with pytest.raises(Misuse, match=f"PKCS#11 token {vault.token.address.label}: set SDCARD_PKCS11_MODULE"):
            on(desk, partial(service.check_keys, vault=other))


@pytest.mark.filterwarnings(NOISE)
def test_a_retired_key_of_a_token_can_still_be_found_there(desk: Desk, vault: Vault) -> None:
    kid = move_into(desk, vault)
    now = desk.clock.now()
    on(desk, lambda database: service.add_token_key(database, vault, KeyUse.CARDS, now))
    on(desk, lambda database: service.rotate(database, vault, KeyUse.CARDS, now, at_once=True))

    assert vault.token is not None
    assert vault.open(keys_of(desk)[kid]).signer is None
    assert str(vault.content(keys_of(desk)[kid])["pkcs11"]).startswith(f"{vault.token.address.label}/")


@pytest.mark.filterwarnings(NOISE)
def test_a_registry_that_has_left_its_token_starts_without_it(desk: Desk, vault: Vault) -> None:
    kid = move_into(desk, vault)
    desk.clock.advance(service.LEAD)
    now = desk.clock.now()
    on(desk, lambda database: service.add_key(database, vault, KeyUse.CARDS, SignatureAlgorithm.ES256, now))
    with desk.open(vault=vault) as registry:
        card_of(registry)
    on(desk, lambda database: service.rotate(database, vault, KeyUse.CARDS, now, at_once=True))

    on(desk, lambda database: service.check_keys(database, Vault(KEK)))
    with desk.open() as registry:
        assert kid in published(registry)
        assert kid_of(card_of(registry)) == published(registry)[0] != kid


class SlowSigner:
    """Takes its time, as a token under load or far away does."""

    def __init__(self, signer: InMemorySigner, seconds: float) -> None:
        self._signer, self._seconds = signer, seconds
        self.threads = set[str]()

    @property
    def public_key(self) -> PublicKey:
        return self._signer.public_key

    def sign(self, message: bytes) -> bytes:
        self.threads.add(threading.current_thread().name)
        time.sleep(self._seconds)
        return self._signer.sign(message)


@pytest.mark.filterwarnings(NOISE)
def test_signing_holds_up_nobody_else(desk: Desk) -> None:
    """While a slow signer signs SD-Cards, status lists or checkpoints, other requests are answered."""
    slow: dict[KeyUse, SlowSigner] = {use: SlowSigner(signer, 0.4) for use, signer in desk.signers().items()}
    del slow[KeyUse.TOKENS]
    listening = bind()
    desk.clock.advance(SystemClock().now() - NOW)
    headers = {"authorization": f"Bearer {desk.new_token('carol')}"}
    address = address_of(listening)
    container = desk.container(issuer=address, clock=SystemClock(), salts=SystemSalts(), keys=FixedKeys(slow))
    with running(container, listening) as url, httpx2.Client(base_url=url, trust_env=False, timeout=30) as client:

        def work() -> None:
            answer = client.post("/agents/register", json=request(), headers=headers)
            assert answer.status_code == 201, answer.text
            assert client.get(answer.json()["cards"][0]["status"]["uri"]).status_code == 200

        working = threading.Thread(target=work)
        working.start()
        latencies = list[float]()
        with httpx2.Client(base_url=url, trust_env=False, timeout=30) as other:
            while working.is_alive():
                began = time.monotonic()
                assert other.get("/healthz").status_code == 200
                latencies.append(time.monotonic() - began)
        working.join()

    assert len(latencies) > 10
    assert median(latencies) < 0.2
    for signer in slow.values():
        assert signer.threads
        assert "registry" not in signer.threads
