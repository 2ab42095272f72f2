"""Keys in a PKCS#11 token (an HSM), which never leave it.

The token makes keys and signs with them. Needs the ``pkcs11`` extra.

One thread of the process calls all modules: several threads in one module crashed the process with SoftHSM 2, and one
thread signed faster than two. The caller blocks for a bounded time, so never call this on an event loop.

A session can be lost at any time: the token is removed, restarted or initialized. A failed call is retried with a new
session, then with a restarted module. A wrong PIN is tried once only, because tokens count failures and lock.
"""

import hashlib
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric import ec

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.jose.keys import PublicKey, public_key
from sdcard.rules import Rule

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

_CURVE = "secp256r1"
_POINT, _COMPRESSED = 65, 33
"""Bytes of a point of P-256 (SEC 1 2.3.3)."""
_REST = 1.0
"""Seconds for which a failed token is not called, so that queued callers do not wait one after another."""


class _Thread:
    """The thread that calls modules.

    It is a daemon, so that a module that hangs does not keep the process alive.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._start = threading.Lock()
        self._started = False
        self._hanging: Future[Any] | None = None

    def run(self, work: Callable[[], _T], patience: float) -> _T:
        """Run the work and return its result.

        Raises:
            TimeoutError: when it, or earlier work, takes too long.
        """
        if self._hanging is not None and not self._hanging.done():
            raise TimeoutError
        future = self.submit(work)
        try:
            return future.result(patience)
        except TimeoutError:
            if not future.cancel():
                self._hanging = future
            raise

    def submit(self, work: Callable[[], _T]) -> "Future[_T]":
        """Run the work after all earlier work."""
        with self._start:
            if not self._started:
                threading.Thread(target=self._loop, name="pkcs11", daemon=True).start()
                self._started = True
        future: Future[_T] = Future()
        self._work.put((future, work))
        return future

    def _loop(self) -> None:
        while True:
            future, work = self._work.get()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(work())
            except BaseException as error:  # the waiting caller gets it
                future.set_exception(error)


_THREAD = _Thread()


@dataclass(frozen=True, slots=True)
class TokenAddress:
    """A token and its login.

    Attributes:
        module: the vendor's shared library.
    """

    module: Path
    label: str
    pin: str = field(repr=False)


class Pkcs11Token:
    """A token. The process logs in once, and again after the session was lost.

    Args:
        patience: seconds that a caller waits.

    Raises:
        Misuse: without the ``pkcs11`` extra.
    """

    def __init__(self, address: TokenAddress, patience: float = 10.0) -> None:
        try:
            import pkcs11
        except ImportError:
            raise Misuse("keys in a PKCS#11 token need the extra `pkcs11` of sdcard") from None
        self._pkcs11 = pkcs11
        self.address = address
        self._patience = patience
        self._session: Any = None
        self._keys: dict[bytes, Any] = {}
        self._pin_refused = False
        self._not_before = 0.0

    def generate(self, key_id: bytes, label: str) -> PublicKey:
        """Make an ES256 key (P-256) in the token: sensitive, never extractable.

        Args:
            key_id: its CKA_ID, unique in the token.
            label: its CKA_LABEL, for people.

        Raises:
            Refused: ``signer.unavailable``. The key is then destroyed when the token answers again.
        """
        self._run(lambda: None, attempts=3)
        try:
            return self._run(lambda: self._generate(key_id, label), attempts=1)
        except Refused:
            self.destroy(key_id, label)
            raise

    def destroy(self, key_id: bytes, label: str) -> None:
        """Destroy both halves of a key later, in the token's thread. Failures are logged.

        A module that hangs may make a key after its caller gave up; this work runs after that.
        """
        _THREAD.submit(lambda: self._destroy_all(key_id, label))

    def signer(self, key_id: bytes, key: PublicKey) -> "Pkcs11Signer":
        """Return a signer for the key of this CKA_ID. The token is not called."""
        return Pkcs11Signer(self, key_id, key)

    def sign(self, key_id: bytes, message: bytes) -> bytes:
        """Sign with ES256, in JOSE form.

        The message is hashed here, because not every token can (SoftHSM 2 cannot).

        Raises:
            Refused: ``signer.unavailable``.
        """
        digest = hashlib.sha256(message).digest()
        return self._run(lambda: self._sign(key_id, digest), attempts=3)

    def _run(self, work: Callable[[], _T], attempts: int) -> _T:
        if time.monotonic() < self._not_before:
            raise _unavailable()
        try:
            return _THREAD.run(lambda: self._insist(work, attempts), self._patience)
        except TimeoutError:
            self._give_up("does not answer in time")
            raise _unavailable() from None

    def _insist(self, work: Callable[[], _T], attempts: int) -> _T:
        """Run in the token's thread, and retry after a failure.

        Attempts use the open session, then a new session, then a restarted module.
        """
        for attempt in range(1, attempts + 1):
            try:
                self._open(anew=attempt == 3)
                return work()
            except Exception as error:  # after any error the session may be lost
                self._close()
                if self._pin_refused or attempt == attempts:
                    self._give_up(self._reason(error))
        raise _unavailable()

    def _open(self, *, anew: bool) -> None:
        if self._session is not None:
            return
        if self._pin_refused:
            raise self._pkcs11.PinIncorrect
        module = self._pkcs11.lib(str(self.address.module))
        if anew:
            module.reinitialize()
        token = module.get_token(token_label=self.address.label)
        if token.flags & (self._pkcs11.TokenFlag.USER_PIN_FINAL_TRY | self._pkcs11.TokenFlag.USER_PIN_LOCKED):
            self._pin_refused = True
            raise self._pkcs11.PinLocked
        try:
            self._session = token.open(rw=True, user_pin=self.address.pin)
        except self._pkcs11.UserAlreadyLoggedIn:  # a login is for the process, and another session still has it
            self._session = token.open(rw=True)
        except (
            self._pkcs11.PinIncorrect,
            self._pkcs11.PinInvalid,
            self._pkcs11.PinLenRange,
            self._pkcs11.PinLocked,
            self._pkcs11.PinExpired,
        ):
            self._pin_refused = True
            raise

    def _close(self) -> None:
        session, self._session = self._session, None
        self._keys.clear()
        if session is not None:
            try:
                session.close()
            except Exception as error:  # it was lost; there is nothing left to close
                _log.debug("closing a session: %s", type(error).__name__)

    def _generate(self, key_id: bytes, label: str) -> PublicKey:
        from pkcs11.util.ec import encode_named_curve_parameters

        p = self._pkcs11
        domain = {p.Attribute.EC_PARAMS: encode_named_curve_parameters(_CURVE)}
        curve = self._session.create_domain_parameters(p.KeyType.EC, domain, local=True)
        private = {p.Attribute.SENSITIVE: True, p.Attribute.EXTRACTABLE: False, p.Attribute.PRIVATE: True}
        public, private_half = curve.generate_keypair(
            store=True,
            id=key_id,
            label=label,
            capabilities=p.MechanismFlag.SIGN | p.MechanismFlag.VERIFY,
            private_template=private,
        )
        try:
            return _public_key(bytes(public[p.Attribute.EC_POINT]))
        except Exception:  # of any kind: nobody would find the key pair in the token again
            for half in (private_half, public):
                self._destroy(half)
            raise

    def _destroy_all(self, key_id: bytes, label: str) -> None:
        a = self._pkcs11.Attribute
        try:
            self._open(anew=False)
            for half in list(self._session.get_objects({a.ID: key_id, a.LABEL: label})):
                self._destroy(half)
        except Exception as error:
            _log.error("a key may be left in the PKCS#11 token, CKA_ID %s: %s", key_id.hex(), type(error).__name__)
            self._close()

    def _destroy(self, half: Any) -> None:
        try:
            half.destroy()
        except Exception as error:  # the other half is still to be destroyed
            _log.error("an object is left in the PKCS#11 token: %s", type(error).__name__)

    def _sign(self, key_id: bytes, digest: bytes) -> bytes:
        key = self._keys.get(key_id)
        if key is None:
            key = self._session.get_key(self._pkcs11.ObjectClass.PRIVATE_KEY, id=key_id)
            self._keys[key_id] = key
        signature: bytes = key.sign(digest, mechanism=self._pkcs11.Mechanism.ECDSA)
        return signature

    def _reason(self, error: Exception) -> str:
        """Describe a failure for the log.

        The library tells failures apart by class, except for a module that does not load or start.
        """
        if type(error) is self._pkcs11.PKCS11Error:
            return f"cannot be reached: the module {self.address.module} does not load"
        return f"failed: {type(error).__name__}"

    def _give_up(self, reason: str) -> None:
        """Log the failure, and refuse callers for a short time."""
        self._not_before = time.monotonic() + _REST
        final = "; the PIN is not tried again before a restart" if self._pin_refused else ""
        _log.error("the PKCS#11 token %s %s%s", self.address.label, reason, final)


class Pkcs11Signer:
    """A ``Signer`` whose private key is in a token."""

    def __init__(self, token: Pkcs11Token, key_id: bytes, key: PublicKey) -> None:
        self._token, self._key_id = token, key_id
        self.public_key = key

    def sign(self, message: bytes) -> bytes:
        """Sign the message, in JOSE form. It blocks, so never call it on an event loop.

        Raises:
            Refused: ``signer.unavailable``.
        """
        return self._token.sign(self._key_id, message)


def _public_key(encoded: bytes) -> PublicKey:
    """Parse a point of P-256 as tokens encode it (CKA_EC_POINT).

    PKCS#11 requires a DER OCTET STRING. Some tokens return the raw point, and some a DER BIT STRING.

    Raises:
        ValueError: for other bytes.
    """
    for size in (_POINT, _COMPRESSED):
        for prefix in (b"", bytes((0x04, size)), bytes((0x03, size + 1, 0))):
            if len(encoded) == len(prefix) + size and encoded.startswith(prefix):
                return public_key(ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), encoded[len(prefix) :]))
    raise ValueError("no point of P-256")


def _unavailable() -> Refused:
    return Refused(Rule.SIGNER_UNAVAILABLE, Where(Part.KEY))
