"""Trust: which keys speak for which Issuer, and the same list signed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sdcard.encoding import JsonObject, JsonValue, frozen, parse_json_object
from sdcard.errors import Finding, Misuse, Part, Refused, Where, first_findings
from sdcard.instants import MAX_SKEW, Instant, check_instant, parse_numeric_date
from sdcard.jose.claims import check_addressed, check_already_valid
from sdcard.jose.jws import Signer, encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.key_sets import parse_key_set as parse_key_set
from sdcard.jose.keys import KeySet, PublicKey
from sdcard.lenient import lenient_document
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule

# -- ``TrustedIssuers``: which keys speak for which Issuer ------------------------------------------------------------
# An Issuer is trusted because the Verifier listed it, never because its ``iss`` resolves; a header never chooses a
# key outside the list (RFC 9901 7.1 step 2.c, RFC 8725 3.10, SD-Card 7.2).


@dataclass(frozen=True, slots=True)
class TrustedIssuers:
    """``iss`` → its keys by ``kid``.

    Attributes:
        keys: those that sign SD-Cards.
        status_keys: those that sign status lists. An Issuer without any has no status that can be checked.
        expires_at: when the list stops to say who is trusted, in Unix seconds, exclusive; None: never.
        left_out: why Issuers and keys of the document that was read are not in the list, with their places.
    """

    keys: Mapping[str, Mapping[str, PublicKey]]
    status_keys: Mapping[str, Mapping[str, PublicKey]] = field(default_factory=dict)
    expires_at: Instant | None = None
    left_out: tuple[Finding, ...] = field(default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.expires_at is not None:
            check_instant(self.expires_at)
        for name in ("keys", "status_keys"):
            by_issuer = {issuer: KeySet.of(keys) for issuer, keys in getattr(self, name).items()}
            object.__setattr__(self, name, frozen(by_issuer))

    @classmethod
    def of(cls, issuer: str, *keys: PublicKey) -> "TrustedIssuers":
        """A trusted Issuer whose ``kid`` values are RFC 7638 thumbprints."""
        return cls({issuer: {key.thumbprint: key for key in keys}})

    def is_current(self, now: Instant) -> bool:
        """Whether the list still says who is trusted.

        Raises:
            Misuse: for a ``now`` that is no instant.
        """
        check_instant(now)
        return self.expires_at is None or now < self.expires_at

    def check_current(self, now: Instant) -> None:
        """Refuse to trust anybody by a list that has expired.

        Raises:
            Refused: ``trust.expired``.
            Misuse: for a ``now`` that is no instant.
        """
        check_instant(now)
        if self.expires_at is not None and now >= self.expires_at:
            raise Refused(Rule.TRUST_EXPIRED, Where(Part.TRUST, ("exp",)), "Get the present trust document.")

    def key_for(self, issuer: object, kid: object, alg: object = None) -> PublicKey:
        """The one key that may have signed.

        Without ``kid``, only an Issuer with a single key has one (JWK-4).

        Nothing in the token adds an Issuer or a key, or says how to find one (R-53, VC-10, VC-11, VC-22). ``alg``
        chooses only between keys of one ``kid`` that the list has for different algorithms.

        Raises:
            Refused: ``issuer.unknown`` or ``issuer.key-unknown``.
        """
        keys = self.keys.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise Refused(Rule.ISSUER_UNKNOWN, Where(Part.ISSUER_JWT, ("iss",)), "Add the Issuer if you trust it.")
        assert isinstance(keys, KeySet), "made with the list"
        key: PublicKey | None = keys.find(kid, alg)
        if key is None:
            where = Where(Part.ISSUER_HEADER, ("kid",))
            raise Refused(Rule.ISSUER_KEY_UNKNOWN, where, "The Issuer is trusted; this key of it is not known.")
        return key

    def status_key_for(self, issuer: str, kid: object, alg: object = None) -> PublicKey:
        """Return the one key that may sign a status list of this Issuer (TSL-8).

        Raises:
            Refused: ``issuer.key-unknown``.
        """
        key = KeySet.of(self.status_keys.get(issuer, {})).find(kid, alg)
        if key is None:
            raise Refused(Rule.ISSUER_KEY_UNKNOWN, Where(Part.STATUS_LIST, ("kid",)), "Add the Issuer's status keys.")
        return key


def parse_trusted_issuers(data: bytes, limits: Limits = DEFAULT_LIMITS) -> TrustedIssuers:
    """Trust document → trusted Issuers.

    Its shape: ``{"issuers": {"https://registry.example": {"keys": [JWK, …]}}}``.

    Beside ``keys`` an Issuer may have ``status_keys``, which sign its status lists; and the document ``exp``. Issuers
    and keys are independent: those that cannot be used are in ``left_out``, and the others are trusted. The document is
    a file of a person's, so a byte order mark before it is no part of it.

    Raises:
        Refused: ``trust.malformed``, ``claim.type`` or a rule of the encodings; the findings of every Issuer, when none
            of them is usable.
    """
    return read_trusted_issuers(parse_json_object(lenient_document(data), Where(Part.TRUST), limits.json_depth))


def read_trusted_issuers(document: JsonObject) -> TrustedIssuers:
    """Parse as ``parse_trusted_issuers``, from JSON values."""
    where = Where(Part.TRUST)
    issuers = document.get("issuers")
    if not isinstance(issuers, dict) or not issuers:
        raise Refused(
            Rule.TRUST_MALFORMED, where, "A trust document is an object with a member `issuers`, of one Issuer or more."
        )
    left_out: list[Finding] = []
    keys, status_keys = dict[str, KeySet[PublicKey]](), dict[str, KeySet[PublicKey]]()
    for issuer, entry in issuers.items():
        here = where.within("issuers", issuer)
        try:
            card_keys = parse_key_set(entry, here)
            if isinstance(entry, dict) and "status_keys" in entry:
                status_keys[issuer] = _read_status_keys(entry, here)
        except Refused as refusal:
            left_out += refusal.findings
            continue
        keys[issuer] = card_keys
        left_out += [*card_keys.left_out, *(status_keys[issuer].left_out if issuer in status_keys else ())]
    if not keys:
        raise Refused.because(left_out)
    return TrustedIssuers(keys, status_keys, _expiry(document, where.within("exp")), tuple(first_findings(left_out)))


def _read_status_keys(entry: JsonObject, where: Where) -> KeySet[PublicKey]:
    """Read the keys of status lists.

    Without a usable one, no status of the Issuer can be checked.

    Raises:
        Refused: ``trust.malformed`` for what is no array.
    """
    try:
        return parse_key_set(entry, where, "status_keys")
    except Refused as refusal:
        if refusal.where == where:
            raise
        return KeySet({}, refusal.findings)


def encode_trusted_issuers(issuers: TrustedIssuers) -> JsonObject:
    """Trusted Issuers → the trust document that says the same."""
    listed: JsonObject = {}
    for issuer, keys in issuers.keys.items():
        entry: JsonObject = {"keys": _jwks(keys)}
        if issuer in issuers.status_keys:
            entry["status_keys"] = _jwks(issuers.status_keys[issuer])
        listed[issuer] = entry
    document: JsonObject = {"issuers": listed}
    return document if issuers.expires_at is None else document | {"exp": issuers.expires_at}


def _expiry(document: JsonObject, where: Where) -> Instant | None:
    if "exp" not in document:
        return None
    return parse_numeric_date(document["exp"], where)


def _jwks(keys: Mapping[str, PublicKey]) -> list[JsonValue]:
    return [{**key.to_jwk(), "kid": kid} for kid, key in KeySet.of(keys).pairs()]


# -- Trust lists: trusted Issuers and their keys, signed with a pinned key --------------------------------------------
# A compact JWS of its own ``typ``. It is the trust document of ``sdcard.trust`` as a payload, with ``iat`` and
# ``exp``; with it and the pinned key, a Verifier verifies SD-Cards offline until it expires. A list that was replaced
# is good until then: only its lifetime bounds for how long an old one can be passed off as the present one.

TYP = "sdcard-trust+jwt"
MOST_BYTES = 1_048_576

_WHERE = Where(Part.TRUST)


def issue_trust_list(issuers: TrustedIssuers, signer: Signer, issued_at: int, expires_at: int) -> str:
    """Trusted Issuers → compact JWS.

    Args:
        issuers: trusted Issuers; not after their own expiry.
        signer: holds a key that signs nothing else.
        issued_at: Unix seconds.
        expires_at: likewise.

    Raises:
        Misuse: for a list that would live no time, or longer than what it is made of.
    """
    if check_instant(expires_at) <= check_instant(issued_at):
        raise Misuse("a trust list lives for some time")
    if not issuers.is_current(expires_at - 1):
        raise Misuse("a trust list expires no later than the trust document that it is made of")
    key = signer.public_key
    header: dict[str, JsonValue] = {"alg": key.algorithm.value, "typ": TYP, "kid": key.thumbprint}
    claims = encode_trusted_issuers(issuers) | {"iat": issued_at, "exp": expires_at}
    signing_input = encode_signing_input(header, claims)
    return join_signature(signing_input, signer.sign(signing_input))


def verify_trust_list(
    text: str, signers: Sequence[PublicKey], now: Instant, limits: Limits = DEFAULT_LIMITS
) -> TrustedIssuers:
    """Compact JWS → trusted Issuers, until the list expires.

    Args:
        text: the list.
        signers: the pinned keys; the header names one of them by its thumbprint.
        now: the present instant.
        limits: bounds the depth of the JSON.

    Raises:
        Refused: ``limit.bytes``, ``jws.…``, ``encoding.…``, ``json.…``, ``trust.signer-unknown``, ``trust.expired``,
            ``trust.malformed``, ``claim.…``, ``time.issued-in-future`` or a rule of the keys.
    """
    check_instant(now)
    if len(text) > MOST_BYTES:
        raise Refused(Rule.LIMIT_BYTES, _WHERE)
    if not text.isascii():
        raise Refused(Rule.JWS_FORMAT, _WHERE)
    jws = parse_jws(text, Part.TRUST, Part.TRUST, limits.json_depth)
    key = {signer.thumbprint: signer for signer in signers}.get(str(jws.header.get("kid")))
    if key is None:
        raise Refused(Rule.TRUST_SIGNER, _WHERE.within("kid"))
    verify_jws(jws, key, (TYP,))
    for name in ("iat", "exp"):
        if name not in jws.payload:
            raise Refused(Rule.CLAIM_MISSING, _WHERE.within(name))
    if parse_numeric_date(jws.payload["iat"], _WHERE.within("iat")) > now + MAX_SKEW:
        raise Refused(Rule.ISSUED_IN_FUTURE, _WHERE.within("iat"))
    check_addressed(jws.payload, None, _WHERE)
    check_already_valid(jws.payload, now + MAX_SKEW, _WHERE)
    issuers = read_trusted_issuers(jws.payload)
    issuers.check_current(now)
    return issuers
