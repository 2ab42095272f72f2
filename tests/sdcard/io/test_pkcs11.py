"""Keys in a PKCS#11 token, and faults of its library."""

import contextlib
import ctypes
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pkcs11 as library
import pytest
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pkcs11 import exceptions

from sdcard import Misuse, Refused
from sdcard.io import pkcs11
from sdcard.io.pkcs11 import Pkcs11Signer, Pkcs11Token, TokenAddress, _public_key
from sdcard.jose.algorithms import SignatureAlgorithm
from sdcard.rules import Rule
from tests.shared import ROOT
from tests.softhsm import NOISE, PIN, SoftHsm
from tests.world import at_once, key, raises_rule

# -- Keys in a real SoftHSM 2 -----------------------------------------------------------------------------------------

# They never leave it, many threads sign, and a lost session is nobody's trouble.

ID = b"\x01\x02"
UNAVAILABLE = ("signer.unavailable", "key")


def signer_in(token: Pkcs11Token, key_id: bytes = ID) -> Pkcs11Signer:
    return token.signer(key_id, token.generate(key_id, "issuer"))


def rest() -> None:
    """Wait until a token that failed is asked again."""
    time.sleep(pkcs11._REST + 0.05)


@pytest.mark.filterwarnings(NOISE)
def test_a_signature_is_one_of_es256_in_jose_form(hsm: SoftHsm) -> None:
    signer = signer_in(hsm.token())

    signature = signer.sign(b"message")

    assert signer.public_key.algorithm is SignatureAlgorithm.ES256
    assert len(signature) == 64
    assert signer.public_key.verifies(b"message", signature)
    assert not signer.public_key.verifies(b"another", signature)


@pytest.mark.filterwarnings(NOISE)
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


@pytest.mark.filterwarnings(NOISE)
def test_two_keys_of_one_token_are_told_apart(hsm: SoftHsm) -> None:
    token = hsm.token()
    one, other = signer_in(token, b"\x01"), signer_in(token, b"\x02")

    assert one.public_key != other.public_key
    assert one.public_key.verifies(b"m", one.sign(b"m"))
    assert other.public_key.verifies(b"m", other.sign(b"m"))


@pytest.mark.filterwarnings(NOISE)
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
    """Close all sessions, and return their number."""
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


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.parametrize("lose", [closed, all_closed, logged_out, module_finalised, module_restarted])
def test_a_lost_session_is_opened_again(hsm: SoftHsm, lose: Callable[[SoftHsm, Pkcs11Token], None]) -> None:
    token = hsm.token()
    signer = signer_in(token)
    for _ in range(3):
        lose(hsm, token)
        assert signer.public_key.verifies(b"m", signer.sign(b"m"))


@pytest.mark.filterwarnings(NOISE)
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


@pytest.mark.filterwarnings(NOISE)
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


@pytest.mark.filterwarnings(NOISE)
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


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.parametrize("flag", ["USER_PIN_FINAL_TRY", "USER_PIN_LOCKED"])
def test_the_last_try_of_a_pin_is_left_to_people(hsm: SoftHsm, flag: str) -> None:
    import pkcs11 as library

    token = hsm.token()
    asked = counting(token, getattr(library.TokenFlag, flag))

    with raises_rule(*UNAVAILABLE):
        token.sign(ID, b"m")
    assert asked == []


@pytest.mark.filterwarnings(NOISE)
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


@pytest.mark.filterwarnings(NOISE)
def test_a_module_or_token_that_is_not_there_is_unavailable(
    hsm: SoftHsm, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = TokenAddress(tmp_path / "nowhere.so", "token", PIN)
    for address in (nowhere, hsm.address("no such token")):
        with raises_rule(*UNAVAILABLE):
            Pkcs11Token(address).sign(ID, b"m")
    assert "nowhere.so does not load" in caplog.text
    assert "NoSuchToken" in caplog.text


@pytest.mark.filterwarnings(NOISE)
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


@pytest.mark.filterwarnings(NOISE)
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


@pytest.mark.filterwarnings(NOISE)
def test_a_process_ends_while_a_module_hangs() -> None:
    """The thread must not keep the process alive. SoftHSM is not needed."""
    script = (
        "import time; from sdcard.io import pkcs11\n"
        "try: pkcs11._THREAD.run(lambda: time.sleep(60), 0.1)\n"
        "except TimeoutError: print('went on')"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=20, env=environment)
    assert done.stdout == "went on\n"


@pytest.mark.filterwarnings(NOISE)
def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pkcs11", None)
    with pytest.raises(Misuse, match="the extra `pkcs11` of sdcard"):
        Pkcs11Token(TokenAddress(Path("m.so"), "t", PIN))


# -- Whatever the library or a module raises, wherever ----------------------------------------------------------------

# ``signer.unavailable``, and no key is left in the token.

FAULTY_ID, LABEL = b"\x07", "faulty"
DOCUMENTED = [
    one for one in vars(exceptions).values() if isinstance(one, type) and issubclass(one, exceptions.PKCS11Error)
]
OTHERS: list[type[Exception]] = [
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RuntimeError,
    OSError,
    MemoryError,
    OverflowError,
]
OTHERS += [UnicodeDecodeError, AssertionError, ImportError, InvalidSignature, UnsupportedAlgorithm]
MAKING = ("create_domain_parameters", "generate_keypair", "after generate_keypair", "EC_POINT")
SIGNING = ("lib", "get_token", "flags", "open", "get_key", "sign", "close")


class Faulty:
    """The library, except that one of its calls fails."""

    def __init__(self, inner: Any, place: str, error: Callable[[], BaseException]) -> None:
        self._inner, self._place, self._error = inner, place, error

    def __getattr__(self, name: str) -> Any:
        if name == self._place:
            raise self._error()
        found = getattr(self._inner, name)
        if name in ("get_token", "open", "create_domain_parameters", "get_key"):
            return lambda *args, **named: Faulty(found(*args, **named), self._place, self._error)
        return self._generated if name == "generate_keypair" else found

    def _generated(self, **named: Any) -> Any:
        public, private = self._inner.generate_keypair(**named)
        if self._place == "after generate_keypair":
            raise self._error()
        return Faulty(public, self._place, self._error), private

    def __getitem__(self, attribute: Any) -> Any:
        if self._place == "EC_POINT":
            raise self._error()
        return self._inner[attribute]

    def reinitialize(self) -> None:
        self._inner.reinitialize()


def made(error: type[BaseException]) -> BaseException:
    if error is UnicodeDecodeError:
        return UnicodeDecodeError("utf-8", b"\xff", 0, 1, "canary")
    return InternalError("canary", []) if error is InternalError else error("canary")


def faulty(token: Pkcs11Token, place: str, error: type[BaseException]) -> None:
    """Have the token fail from now on."""
    names = {name: getattr(library, name) for name in dir(library)}

    def lib(so: str) -> Any:
        if place == "lib":
            raise made(error)
        return Faulty(library.lib(so), place, lambda: made(error))

    token._pkcs11 = SimpleNamespace(**{**names, "lib": lib})  # type: ignore[assignment]  # a module


@pytest.fixture(scope="module")
def address(hsm: SoftHsm) -> Any:
    return hsm.token().address


def objects(address: Any) -> int:
    """Count the objects with the label in the token, after all pending work."""

    def count() -> int:
        token = library.lib(str(address.module)).get_token(token_label=address.label)
        try:
            session = token.open(user_pin=address.pin)
        except library.UserAlreadyLoggedIn:  # by another session of this process
            session = token.open()
        with session:
            return len(list(session.get_objects({library.Attribute.LABEL: LABEL})))

    return pkcs11._THREAD.run(count, 30)


@pytest.fixture
def _no_rest(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(pkcs11, "_REST", 0.0)
    caplog.set_level(logging.CRITICAL)


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.usefixtures("_no_rest")
def test_every_exception_that_the_library_documents_is_tried() -> None:
    assert len(DOCUMENTED) > 40


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.usefixtures("_no_rest")
@pytest.mark.parametrize("place", MAKING)
def test_a_key_that_cannot_be_made_is_unavailable_and_leaves_nothing(address: Any, place: str) -> None:
    for error in DOCUMENTED + OTHERS:
        token = Pkcs11Token(address)
        faulty(token, place, error)
        with pytest.raises(Refused) as refused:
            token.generate(FAULTY_ID, LABEL)
        assert refused.value.rule is Rule.SIGNER_UNAVAILABLE, error
        pkcs11._THREAD.run(token._close, 30)
    assert objects(address) == 0


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.usefixtures("_no_rest")
@pytest.mark.parametrize("place", SIGNING)
def test_a_token_that_fails_while_it_signs_is_unavailable(address: Any, place: str) -> None:
    for error in DOCUMENTED + OTHERS:
        token = Pkcs11Token(address)
        faulty(token, place, error)
        with pytest.raises(Refused) as refused:
            token.sign(FAULTY_ID, b"message")  # there is no such key, so what fails last is looking for it
        assert refused.value.rule is Rule.SIGNER_UNAVAILABLE, error
        pkcs11._THREAD.run(token._close, 30)


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.usefixtures("_no_rest")
def test_a_key_that_is_made_after_its_caller_has_left_is_destroyed(hsm: SoftHsm, address: Any) -> None:
    go, token = threading.Event(), Pkcs11Token(address, patience=0.3)
    pkcs11._THREAD.run(lambda: token._open(anew=False), 30)
    real = token._generate

    def slow(key_id: bytes, label: str) -> Any:
        go.wait(20)
        return real(key_id, label)

    token._generate = slow  # type: ignore[method-assign]
    with pytest.raises(Refused) as refused:
        token.generate(FAULTY_ID, LABEL)
    assert refused.value.rule is Rule.SIGNER_UNAVAILABLE
    hanging = pkcs11._THREAD._hanging
    go.set()
    assert hanging is not None
    assert hanging.result(20).algorithm.value == "ES256"
    assert objects(address) == 0


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.usefixtures("_no_rest")
def test_a_good_key_stays(address: Any) -> None:
    token = Pkcs11Token(address)
    public = token.generate(FAULTY_ID, LABEL)
    assert public.verifies(b"m", token.sign(FAULTY_ID, b"m"))
    assert objects(address) == 2
    token.destroy(FAULTY_ID, "another label")
    assert objects(address) == 2
    token.destroy(FAULTY_ID, LABEL)
    assert objects(address) == 0


# -- CKA_EC_POINT -----------------------------------------------------------------------------------------------------


def points() -> dict[str, bytes]:
    public = key(3)._key.public_key()
    assert isinstance(public, ec.EllipticCurvePublicKey)
    raw = public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    short = public.public_bytes(Encoding.X962, PublicFormat.CompressedPoint)
    return {
        "der_octet_string": b"\x04\x41" + raw,
        "raw": raw,
        "der_bit_string": b"\x03\x42\x00" + raw,
        "compressed": short,
        "compressed_octet_string": b"\x04\x21" + short,
        "compressed_bit_string": b"\x03\x22\x00" + short,
    }


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.usefixtures("_no_rest")
@pytest.mark.parametrize("encoding", points())
def test_a_point_is_read_however_a_token_encodes_it(encoding: str) -> None:
    assert _public_key(points()[encoding]) == key(3).public_key


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.usefixtures("_no_rest")
@pytest.mark.parametrize("encoding", points())
def test_a_key_is_made_with_a_token_that_encodes_points_otherwise(address: Any, encoding: str) -> None:
    token = Pkcs11Token(address)
    names = {name: getattr(library, name) for name in dir(library)}

    class Otherwise(Faulty):
        def __getattr__(self, name: str) -> Any:
            found = getattr(self._inner, name)
            if name in ("get_token", "open", "create_domain_parameters"):
                return lambda *args, **named: type(self)(found(*args, **named), "", ValueError)
            return self._otherwise if name == "generate_keypair" else found

        def _otherwise(self, **named: Any) -> Any:
            public, private = self._inner.generate_keypair(**named)
            raw = bytes(public[library.Attribute.EC_POINT])[-65:]
            point = ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), raw)
            short = point.public_bytes(serialization.Encoding.X962, PublicFormat.CompressedPoint)
            kept = points()[encoding]
            size = 65 if len(kept) >= 65 else 33
            return {library.Attribute.EC_POINT: kept[:-size] + (raw if size == 65 else short)}, private

    token._pkcs11 = SimpleNamespace(**{**names, "lib": lambda so: Otherwise(library.lib(so), "", ValueError)})  # type: ignore[assignment]
    public = token.generate(FAULTY_ID, LABEL)

    assert objects(address) == 2
    assert public.verifies(b"m", token.sign(FAULTY_ID, b"m"))
    token.destroy(FAULTY_ID, LABEL)
    assert objects(address) == 0


@pytest.mark.filterwarnings(NOISE)
@pytest.mark.usefixtures("_no_rest")
@pytest.mark.parametrize("encoded", [b"", b"\x04", bytes(65), b"\x04" + bytes(64), b"\x04\x41" + bytes(65), bytes(67)])
def test_what_is_no_point_is_no_key(encoded: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        _public_key(encoded)
