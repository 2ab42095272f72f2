"""A registry whose card key is in a SoftHSM: it issues, says when it cannot, and goes on by itself."""

import threading
import time
from functools import partial
from pathlib import Path
from statistics import median

import httpx2
import pytest

from issuer_service.keys import service
from issuer_service.keys.repository import KeyUse
from issuer_service.keys.sealing import Vault
from issuer_service.server import address_of, bind, running
from sdcard import InMemorySigner, Misuse
from sdcard.io import pkcs11
from sdcard.io.pkcs11 import Pkcs11Token
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.jose.keys import PublicKey
from tests.issuer_service.desk import KEK, Desk, FixedKeys, assert_refused, jwk, request
from tests.issuer_service.keys.test_rotation import card_of, fetched, keys_of, kid_of, on, published, states, verify
from tests.softhsm import NOISE, SoftHsm
from tests.world import NOW, World, at_once, key, raises_rule

pytestmark = pytest.mark.filterwarnings(NOISE)
UNAVAILABLE = ("signer.unavailable", "key")


@pytest.fixture
def vault(hsm: SoftHsm) -> Vault:
    return Vault(KEK, hsm.token())


def move_into(desk: Desk, vault: Vault) -> str:
    """From now on the card key is one that was made in the token."""
    now = desk.clock.now()
    made = on(desk, lambda database: service.add_token_key(database, vault, KeyUse.CARDS, now))
    on(desk, lambda database: service.rotate(database, vault, KeyUse.CARDS, now, at_once=True))
    return made.kid


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


def test_a_process_without_the_token_says_which_one_it_needs(desk: Desk, vault: Vault) -> None:
    move_into(desk, vault)
    assert vault.token is not None
    for other in (Vault(KEK), Vault(KEK, Pkcs11Token(pkcs11.TokenAddress(Path("m.so"), "other", "1")))):
        with pytest.raises(Misuse, match=f"PKCS#11 token {vault.token.address.label}: set SDCARD_PKCS11_MODULE"):
            on(desk, partial(service.check_keys, vault=other))


def test_a_retired_key_of_a_token_can_still_be_found_there(desk: Desk, vault: Vault) -> None:
    kid = move_into(desk, vault)
    now = desk.clock.now()
    on(desk, lambda database: service.add_token_key(database, vault, KeyUse.CARDS, now))
    on(desk, lambda database: service.rotate(database, vault, KeyUse.CARDS, now, at_once=True))

    assert vault.token is not None
    assert vault.open(keys_of(desk)[kid]).signer is None
    assert str(vault.content(keys_of(desk)[kid])["pkcs11"]).startswith(f"{vault.token.address.label}/")


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


def test_signing_holds_up_nobody_else(desk: Desk) -> None:
    """Of SD-Cards, status lists and checkpoints: while a signer takes its time, others are answered."""
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
