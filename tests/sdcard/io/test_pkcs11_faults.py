"""Whatever the library or a module raises, wherever: ``signer.unavailable``, and no key is left in the token."""

import logging
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pkcs11 as library
import pytest
from cryptography.exceptions import InternalError, InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pkcs11 import exceptions

from sdcard import Refused
from sdcard.io import pkcs11
from sdcard.io.pkcs11 import Pkcs11Token, _public_key
from sdcard.rules import Rule
from tests.softhsm import NOISE, SoftHsm
from tests.world import key

pytestmark = pytest.mark.filterwarnings(NOISE)
ID, LABEL = b"\x07", "faulty"
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
    """What the library gives, but that one call of it fails."""

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
    """How many objects with the label are in the token, when all that was asked for is done."""

    def count() -> int:
        token = library.lib(str(address.module)).get_token(token_label=address.label)
        try:
            session = token.open(user_pin=address.pin)
        except library.UserAlreadyLoggedIn:  # by another session of this process
            session = token.open()
        with session:
            return len(list(session.get_objects({library.Attribute.LABEL: LABEL})))

    return pkcs11._THREAD.run(count, 30)


@pytest.fixture(autouse=True)
def _no_rest(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(pkcs11, "_REST", 0.0)
    caplog.set_level(logging.CRITICAL)


def test_every_exception_that_the_library_documents_is_tried() -> None:
    assert len(DOCUMENTED) > 40


@pytest.mark.parametrize("place", MAKING)
def test_a_key_that_cannot_be_made_is_unavailable_and_leaves_nothing(address: Any, place: str) -> None:
    for error in DOCUMENTED + OTHERS:
        token = Pkcs11Token(address)
        faulty(token, place, error)
        with pytest.raises(Refused) as refused:
            token.generate(ID, LABEL)
        assert refused.value.rule is Rule.SIGNER_UNAVAILABLE, error
        pkcs11._THREAD.run(token._close, 30)
    assert objects(address) == 0


@pytest.mark.parametrize("place", SIGNING)
def test_a_token_that_fails_while_it_signs_is_unavailable(address: Any, place: str) -> None:
    for error in DOCUMENTED + OTHERS:
        token = Pkcs11Token(address)
        faulty(token, place, error)
        with pytest.raises(Refused) as refused:
            token.sign(ID, b"message")  # there is no such key, so what fails last is looking for it
        assert refused.value.rule is Rule.SIGNER_UNAVAILABLE, error
        pkcs11._THREAD.run(token._close, 30)


def test_a_key_that_is_made_after_its_caller_has_left_is_destroyed(hsm: SoftHsm, address: Any) -> None:
    go, token = threading.Event(), Pkcs11Token(address, patience=0.3)
    pkcs11._THREAD.run(lambda: token._open(anew=False), 30)
    real = token._generate

    def slow(key_id: bytes, label: str) -> Any:
        go.wait(20)
        return real(key_id, label)

    token._generate = slow  # type: ignore[method-assign]
    with pytest.raises(Refused) as refused:
        token.generate(ID, LABEL)
    assert refused.value.rule is Rule.SIGNER_UNAVAILABLE
    hanging = pkcs11._THREAD._hanging
    go.set()
    assert hanging is not None
    assert hanging.result(20).algorithm.value == "ES256"
    assert objects(address) == 0


def test_a_good_key_stays(address: Any) -> None:
    token = Pkcs11Token(address)
    public = token.generate(ID, LABEL)
    assert public.verifies(b"m", token.sign(ID, b"m"))
    assert objects(address) == 2
    token.destroy(ID, "another label")
    assert objects(address) == 2
    token.destroy(ID, LABEL)
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


@pytest.mark.parametrize("encoding", points())
def test_a_point_is_read_however_a_token_encodes_it(encoding: str) -> None:
    assert _public_key(points()[encoding]) == key(3).public_key


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
    public = token.generate(ID, LABEL)

    assert objects(address) == 2
    assert public.verifies(b"m", token.sign(ID, b"m"))
    token.destroy(ID, LABEL)
    assert objects(address) == 0


@pytest.mark.parametrize("encoded", [b"", b"\x04", bytes(65), b"\x04" + bytes(64), b"\x04\x41" + bytes(65), bytes(67)])
def test_what_is_no_point_is_no_key(encoded: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        _public_key(encoded)
