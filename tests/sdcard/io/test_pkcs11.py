"""Keys in a real SoftHSM 2: they never leave it, many threads sign, and a lost session is nobody's trouble."""

import contextlib
import ctypes
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sdcard import Misuse
from sdcard.io import pkcs11
from sdcard.io.pkcs11 import Pkcs11Signer, Pkcs11Token, TokenAddress
from sdcard.jose.algorithms import SignatureAlgorithm
from tests.shared import ROOT
from tests.softhsm import NOISE, PIN, SoftHsm
from tests.world import at_once, raises_rule

pytestmark = pytest.mark.filterwarnings(NOISE)
ID = b"\x01\x02"
UNAVAILABLE = ("signer.unavailable", "key")


def signer_in(token: Pkcs11Token, key_id: bytes = ID) -> Pkcs11Signer:
    return token.signer(key_id, token.generate(key_id, "issuer"))


def rest() -> None:
    """Wait until a token that failed is asked again."""
    time.sleep(pkcs11._REST + 0.05)


def test_a_signature_is_one_of_es256_in_jose_form(hsm: SoftHsm) -> None:
    signer = signer_in(hsm.token())

    signature = signer.sign(b"message")

    assert signer.public_key.algorithm is SignatureAlgorithm.ES256
    assert len(signature) == 64
    assert signer.public_key.verifies(b"message", signature)
    assert not signer.public_key.verifies(b"another", signature)


def test_the_private_half_never_leaves_the_token(hsm: SoftHsm) -> None:
    import pkcs11 as library

    token = hsm.token()
    signer_in(token).sign(b"message")
    attribute = library.Attribute

    def look(_: Any) -> tuple[list[bool], str]:
        key = token._keys[ID]
        flags = [
            key[one]
            for one in (
                *(attribute.SENSITIVE, attribute.ALWAYS_SENSITIVE, attribute.NEVER_EXTRACTABLE, attribute.LOCAL),
                *(attribute.PRIVATE, attribute.TOKEN, attribute.SIGN, attribute.EXTRACTABLE),
            )
        ]
        try:
            return flags, repr(key[attribute.VALUE])
        except library.AttributeSensitive:
            return flags, "sensitive"

    assert hsm.in_module(look) == ([True] * 7 + [False], "sensitive")


def test_two_keys_of_one_token_are_told_apart(hsm: SoftHsm) -> None:
    token = hsm.token()
    one, other = signer_in(token, b"\x01"), signer_in(token, b"\x02")

    assert one.public_key != other.public_key
    assert one.public_key.verifies(b"m", one.sign(b"m"))
    assert other.public_key.verifies(b"m", other.sign(b"m"))


def test_many_threads_sign_while_sessions_are_lost(hsm: SoftHsm) -> None:
    token = hsm.token()
    signers, done = [signer_in(token, bytes([n])) for n in range(1, 4)], threading.Event()

    def lose() -> int:
        lost = 0
        while not done.is_set():
            lost += hsm.in_module(lambda _: close_quietly(token))
            time.sleep(0.003)
        return lost

    def sign() -> list[bool]:
        return [
            signer.public_key.verifies(message, signer.sign(message))
            for number in range(40)
            for signer in signers
            for message in [f"{threading.get_ident()} {number}".encode()]
        ]

    losses = list[int]()
    thread = threading.Thread(target=lambda: losses.append(lose()))
    thread.start()
    signed = at_once(sign, 16)
    done.set()
    thread.join()

    assert signed == [[True] * 120] * 16
    assert losses[0] > 10


def close_quietly(token: Pkcs11Token) -> int:
    """How many sessions were there to close."""
    if token._session is not None:
        with contextlib.suppress(token._pkcs11.PKCS11Error):
            token._session.close()
            return 1
    return 0


def closed(hsm: SoftHsm, token: Pkcs11Token) -> None:
    hsm.in_module(lambda _: token._session.close())


def all_closed(hsm: SoftHsm, token: Pkcs11Token) -> None:
    """``C_CloseAllSessions``, which python-pkcs11 does not have."""

    def close(module: Any) -> int:
        slot = module.get_token(token_label=token.address.label).slot.slot_id
        answer: int = ctypes.CDLL(str(hsm.module)).C_CloseAllSessions(ctypes.c_ulong(slot))
        return answer

    assert hsm.in_module(close) == 0


def logged_out(hsm: SoftHsm, token: Pkcs11Token) -> None:
    """A login belongs to the process, so one logout ends it for all."""
    other = Pkcs11Token(token.address)
    other._run(lambda: None, attempts=1)
    hsm.in_module(lambda _: logout(other))


def logout(other: Pkcs11Token) -> None:
    closing = ctypes.CDLL(str(other.address.module)).C_Logout
    assert closing(ctypes.c_ulong(other._session.handle)) == 0


def module_finalised(hsm: SoftHsm, _: Pkcs11Token) -> None:
    hsm.in_module(lambda module: module.finalize())


def module_restarted(hsm: SoftHsm, _: Pkcs11Token) -> None:
    hsm.in_module(lambda module: module.reinitialize())


@pytest.mark.parametrize("lose", [closed, all_closed, logged_out, module_finalised, module_restarted])
def test_a_lost_session_is_opened_again(hsm: SoftHsm, lose: Callable[[SoftHsm, Pkcs11Token], None]) -> None:
    token = hsm.token()
    signer = signer_in(token)
    for _ in range(3):
        lose(hsm, token)
        assert signer.public_key.verifies(b"m", signer.sign(b"m"))


def test_a_token_that_comes_back_signs_again(hsm: SoftHsm) -> None:
    signer = signer_in(hsm.token())
    with hsm.unplugged():
        for _ in range(3):
            with raises_rule(*UNAVAILABLE):
                signer.sign(b"m")
        rest()
        with raises_rule(*UNAVAILABLE):
            signer.sign(b"m")
    rest()

    assert signer.public_key.verifies(b"m", signer.sign(b"m"))


def test_a_token_that_is_set_up_anew_has_lost_its_keys_and_says_so(
    hsm: SoftHsm, caplog: pytest.LogCaptureFixture
) -> None:
    token = hsm.token()
    signer = signer_in(token)
    hsm.initialise(f"--token {token.address.label}", token.address.label)

    with raises_rule(*UNAVAILABLE):
        signer.sign(b"m")
    assert "NoSuchKey" in caplog.text
    rest()
    again = signer_in(token, b"\x09")
    assert again.public_key.verifies(b"m", again.sign(b"m"))


def counting(token: Pkcs11Token, flags: int | None = None) -> list[str | None]:
    """The PINs that the token is asked with from now on; perhaps it says something of them."""
    real, asked = token._pkcs11, list[str | None]()

    class Token:
        def __init__(self, inner: Any) -> None:
            self._inner = inner
            self.flags = inner.flags if flags is None else flags

        def open(self, rw: bool, user_pin: str | None = None) -> Any:
            asked.append(user_pin)
            return self._inner.open(rw=rw, user_pin=user_pin)

    class Library:
        def __init__(self, inner: Any) -> None:
            self._inner = inner

        def reinitialize(self) -> None:
            self._inner.reinitialize()

        def get_token(self, **names: str) -> Token:
            return Token(self._inner.get_token(**names))

    names = {name: getattr(real, name) for name in dir(real)}
    token._pkcs11 = SimpleNamespace(**{**names, "lib": lambda so: Library(real.lib(so))})  # type: ignore[assignment]  # a module
    return asked


def test_a_wrong_pin_is_tried_once(hsm: SoftHsm, caplog: pytest.LogCaptureFixture) -> None:
    good = hsm.token()
    signer = signer_in(good)
    closed(hsm, good)
    wrong = Pkcs11Token(TokenAddress(hsm.module, good.address.label, "canary-0000"))
    asked = counting(wrong)

    for _ in range(3):
        with raises_rule(*UNAVAILABLE):
            wrong.sign(ID, b"m")
        rest()

    assert asked == ["canary-0000"]
    assert "the PIN is not tried again before a restart" in caplog.text
    assert "canary" not in caplog.text + repr(wrong.address)
    assert signer.public_key.verifies(b"m", signer.sign(b"m"))


@pytest.mark.parametrize("flag", ["USER_PIN_FINAL_TRY", "USER_PIN_LOCKED"])
def test_the_last_try_of_a_pin_is_left_to_people(hsm: SoftHsm, flag: str) -> None:
    import pkcs11 as library

    token = hsm.token()
    asked = counting(token, getattr(library.TokenFlag, flag))

    with raises_rule(*UNAVAILABLE):
        token.sign(ID, b"m")
    assert asked == []


def test_a_pin_that_changes_is_tried_once_too(hsm: SoftHsm) -> None:
    token = hsm.token()
    signer = signer_in(token)
    asked = counting(token)
    hsm.initialise(f"--token {token.address.label}", token.address.label, pin="another")
    hsm.in_module(lambda module: module.reinitialize())

    for _ in range(2):
        with raises_rule(*UNAVAILABLE):
            signer.sign(b"m")
        rest()
    assert asked == [PIN]


def test_a_module_or_token_that_is_not_there_is_unavailable(
    hsm: SoftHsm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = TokenAddress(tmp_path / "nowhere.so", "token", PIN)
    for address in (nowhere, hsm.address("no such token")):
        with raises_rule(*UNAVAILABLE):
            Pkcs11Token(address).sign(ID, b"m")
    assert "nowhere.so does not load" in caplog.text
    assert "NoSuchToken" in caplog.text


def test_a_module_that_hangs_holds_nobody_for_long(hsm: SoftHsm) -> None:
    token = hsm.token(patience=0.5)
    signer, go = signer_in(token), threading.Event()
    hanging = threading.Thread(target=hsm.in_module, args=(lambda _: go.wait(20),))
    hanging.start()
    time.sleep(0.1)
    try:
        began = time.monotonic()
        with raises_rule(*UNAVAILABLE):
            signer.sign(b"m")
        first = time.monotonic() - began
        rest()
        with raises_rule(*UNAVAILABLE):
            at_once(lambda: signer.sign(b"m"), 8)
    finally:
        go.set()
        hanging.join()
    rest()

    assert 0.4 < first < 2
    assert signer.public_key.verifies(b"m", signer.sign(b"m"))


def test_a_call_that_hangs_lets_others_go_at_once(hsm: SoftHsm) -> None:
    go = threading.Event()
    with pytest.raises(TimeoutError):
        pkcs11._THREAD.run(lambda: go.wait(20), 0.2)
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        pkcs11._THREAD.run(lambda: None, 10)
    assert time.monotonic() - began < 0.1
    go.set()
    deadline = time.monotonic() + 5
    while pkcs11._THREAD._hanging is not None and not pkcs11._THREAD._hanging.done():
        assert time.monotonic() < deadline
    assert hsm.in_module(lambda _: 7) == 7


def test_a_process_ends_while_a_module_hangs() -> None:
    """Nothing of SoftHSM: only that the thread keeps nobody alive."""
    script = (
        "import time; from sdcard.io import pkcs11\n"
        "try: pkcs11._THREAD.run(lambda: time.sleep(60), 0.1)\n"
        "except TimeoutError: print('went on')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20, env=environment)
    assert done.stdout == "went on\n"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pkcs11", None)
    with pytest.raises(Misuse, match="the extra `pkcs11` of sdcard"):
        Pkcs11Token(TokenAddress(Path("m.so"), "t", PIN))
