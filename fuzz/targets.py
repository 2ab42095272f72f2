"""Fuzz targets: all readers of untrusted input.

They use the keys and the clock of the test vectors.

Headers, payloads and KB-JWTs are signed here, so that what lies behind the signatures is reached too. Only ``Refused``
may be raised: anything else is a finding.
"""

from collections.abc import Callable
from enum import Enum

from sdcard import (
    Acceptance,
    ClaimPath,
    DpopExpectations,
    Expectations,
    Refused,
    Unchecked,
    WithToken,
    verify_dpop_proof,
)
from sdcard.cards.a2a.signatures import CardSigners
from sdcard.cards.detect import parse_card, parse_card_file
from sdcard.dpop import DPOP_TYP, token_hash
from sdcard.encoding import JsonObject, encode_base64url, encode_json, parse_json
from sdcard.errors import Part, Where
from sdcard.holder import accept_sd_card
from sdcard.http_auth import parse_challenge, parse_credentials
from sdcard.instants import FreshnessWindow, Instant
from sdcard.jose.jws import join_signature
from sdcard.jose.keys import PUBLISHED_KEYS, VECTOR_KEYS, parse_public_jwk
from sdcard.key_binding import Answering, Challenge, ConsumedByCaller, NonceUse
from sdcard.limits import DEFAULT_LIMITS
from sdcard.policy.document import parse_policy
from sdcard.possession import verify_possession
from sdcard.profile import SD_HASH
from sdcard.status_list import pack_statuses, verify_status_list_token
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.proofs import verify_log_proof
from sdcard.transparency.watching import check_submission, parse_submission
from sdcard.trust import parse_trusted_issuers, verify_trust_list
from sdcard.verifier import verify_presentation
from vectors.actors import AUDIENCE, HOLDER, ISSUER, NONCE, NOW, Actor, claims, digest, header, trust
from vectors.logs import CARD as LOGGED_CARD
from vectors.logs import POLICY

TRUST = parse_trusted_issuers(encode_json(trust()))
OTHERS = PUBLISHED_KEYS - VECTOR_KEYS
ACCEPTANCE = Acceptance(issuers=TRUST, published_keys=OTHERS)
EXPECTED = Expectations(
    issuers=TRUST,
    key_binding=Answering(Challenge(NONCE, AUDIENCE), ConsumedByCaller()),
    status=Unchecked("fuzzing"),
    published_keys=OTHERS,
)
CARD = encode_json(
    {
        "name": "A",
        "description": "B",
        "version": "1",
        "capabilities": {},
        "skills": [],
        "supportedInterfaces": [{"url": "https://a.example", "protocolBinding": "GRPC", "protocolVersion": "1.0"}],
    }
)[:-1]


class Unseen:
    """A record that has seen nothing: an input gives the same outcome every time."""

    def first_use(self, use: NonceUse, until: Instant, now: Instant) -> bool:
        """Always true."""
        return True


PROVED = DpopExpectations(
    method="POST",
    url="https://server.example/a/b?c",
    token=WithToken("token", HOLDER.public_key.thumbprint),
    seen=Unseen(),
)
SIGNERS = CardSigners({"k": ISSUER.public_key})
GOOD_HEADER, GOOD_CLAIMS = encode_json(header()), encode_json(claims())


def one_input(data: bytes) -> None:
    """Run once: the first byte chooses the target, the rest is its input.

    Any exception is a finding.
    """
    targets = list(Target)
    target = targets[data[0] % len(targets)] if data else targets[0]
    try:
        target(data[1:])
    except Refused:
        return


def _presentation(data: bytes) -> None:
    verify_presentation(_text(data), EXPECTED, NOW)


def _received(data: bytes) -> None:
    _accept(_text(data))


def _payload(data: bytes) -> None:
    """More members behind good claims, and Disclosures: what follows each NUL."""
    members, *disclosures = data.split(b"\0")
    shown = [encode_base64url(one) for one in disclosures if one]
    _accept("~".join((_signed(GOOD_HEADER, _with(GOOD_CLAIMS, members), ISSUER), *shown, "")))


def _header(data: bytes) -> None:
    _accept(_signed(data or b"{}", GOOD_CLAIMS, ISSUER) + "~")


def _kb_jwt(data: bytes) -> None:
    """Verify a KB-JWT: its header, NUL, then members of its payload.

    ``sd_hash`` is right.
    """
    protected, _, members = data.partition(b"\0")
    shown = _signed(GOOD_HEADER, GOOD_CLAIMS, ISSUER) + "~"
    payload = _with(encode_json({SD_HASH: digest(shown)}), members)
    verify_presentation(shown + _signed(protected or b"{}", payload, HOLDER), EXPECTED, NOW)


def _card(data: bytes) -> None:
    parse_card(data)


def _signed_card(data: bytes) -> None:
    """Check a signed card: more members, NUL, then more header members.

    A ``kid`` names the key.
    """
    members, _, more = data.partition(b"\0")
    protected = encode_base64url(b'{"alg":"ES256"' + more + b"}")
    made = encode_json({"protected": protected, "signature": encode_base64url(ISSUER.sign(data))})
    parse_card(CARD + members + b',"signatures":[' + made + b"]}", signers=SIGNERS)


def _card_file(data: bytes) -> None:
    parse_card_file(data)


def _policy(data: bytes) -> None:
    parse_policy(data)


def _status_list(data: bytes) -> None:
    """More members behind the good claims of a Status List Token."""
    good: JsonObject = {"sub": AUDIENCE, "iat": NOW, "status_list": pack_statuses({}, 8, 1).to_claim()}
    token = _signed(b'{"alg":"ES256","typ":"statuslist+jwt"}', _with(encode_json(good), data), ISSUER)
    verify_status_list_token(token, AUDIENCE, ISSUER.public_key, NOW, DEFAULT_LIMITS)


def _trust(data: bytes) -> None:
    parse_trusted_issuers(data)


def _key(data: bytes) -> None:
    where = Where(Part.KEY)
    parse_public_jwk(parse_json(data, where, 8), where)


def _path(data: bytes) -> None:
    ClaimPath.parse(_text(data), Where(Part.REQUEST))


def _trust_list(data: bytes) -> None:
    """More members behind the good claims of a trust list."""
    protected = encode_json(header() | {"typ": "sdcard-trust+jwt"})
    good = encode_json(trust() | {"iat": NOW, "exp": NOW + 60})
    verify_trust_list(_signed(protected, _with(good, data), ISSUER), [ISSUER.public_key], NOW)


def _possession(data: bytes) -> None:
    """Verify a proof of possession: its header, NUL, then its payload.

    ``aud`` is right.
    """
    protected, _, members = data.partition(b"\0")
    proof = _signed(protected or b"{}", _with(encode_json({"aud": AUDIENCE}), members), HOLDER)
    verify_possession(proof, HOLDER.public_key, AUDIENCE, "a", NOW, FreshnessWindow())


def _dpop(data: bytes) -> None:
    """More members in the header of a DPoP proof, and after a NUL more in its payload."""
    protected, _, members = data.partition(b"\0")
    good = _with(encode_json({"typ": DPOP_TYP, "alg": "ES256"}), protected)
    payload = _with(encode_json({"iat": NOW, "ath": token_hash("token")}), members)
    verify_dpop_proof([_signed(good, payload, HOLDER)], PROVED, NOW)


def _dpop_field(data: bytes) -> None:
    """The values of the header fields, between NULs."""
    verify_dpop_proof([_text(value) for value in data.split(b"\0") if value], PROVED, NOW)


def _log_proof(data: bytes) -> None:
    """Verify a proof of inclusion."""
    verify_log_proof(_text(data), LOGGED_CARD, parse_log_policy(POLICY), NOW)


def _log_policy(data: bytes) -> None:
    parse_log_policy(_text(data))


def _log_submission(data: bytes) -> None:
    """Answer the submission of a log as a witness that has seen nothing."""
    check_submission(parse_submission(_text(data)), parse_log_policy(POLICY).logs, None)


def _challenge(data: bytes) -> None:
    """Values of ``WWW-Authenticate``, parted by NUL."""
    parse_challenge([part.decode("latin-1") for part in data.split(b"\0")])


def _credentials(data: bytes) -> None:
    """Values of ``Authorization``, likewise."""
    parse_credentials([part.decode("latin-1") for part in data.split(b"\0")])


class Target(Enum):
    """Targets in the order of the first byte.

    Append new ones, so that kept inputs keep their meaning.
    """

    PRESENTATION = (_presentation,)
    RECEIVED = (_received,)
    PAYLOAD = (_payload,)
    HEADER = (_header,)
    KB_JWT = (_kb_jwt,)
    CARD = (_card,)
    TRUST = (_trust,)
    KEY = (_key,)
    PATH = (_path,)
    SIGNED_CARD = (_signed_card,)
    CARD_FILE = (_card_file,)
    POLICY = (_policy,)
    STATUS_LIST = (_status_list,)
    TRUST_LIST = (_trust_list,)
    POSSESSION = (_possession,)
    DPOP = (_dpop,)
    DPOP_FIELD = (_dpop_field,)
    CHALLENGE = (_challenge,)
    CREDENTIALS = (_credentials,)
    LOG_PROOF = (_log_proof,)
    LOG_POLICY = (_log_policy,)
    LOG_SUBMISSION = (_log_submission,)

    def __init__(self, run: Callable[[bytes], None]) -> None:
        self._run = run

    def __call__(self, data: bytes) -> None:
        """Read the data; returns when it is accepted.

        Raises:
            Refused: any rule.
        """
        self._run(data)

    def seed(self, data: bytes) -> bytes:
        """The input that gives ``data`` to this target."""
        return bytes([list(Target).index(self)]) + data


def _accept(text: str) -> None:
    accept_sd_card(text, ACCEPTANCE, HOLDER.public_key, NOW)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _with(good: bytes, members: bytes) -> bytes:
    return good[:-1] + b"," + members + b"}" if members else good


def _signed(protected: bytes, payload: bytes, signer: Actor) -> str:
    signing_input = f"{encode_base64url(protected)}.{encode_base64url(payload)}".encode()
    return join_signature(signing_input, signer.sign(signing_input))
