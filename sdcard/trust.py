"""Trusted Issuers and their keys, as a document or as a signed trust list.

An Issuer is trusted because the Verifier lists it, never because its ``iss`` resolves. A header never adds a key (RFC
9901 7.1 step 2.c, RFC 8725 3.10, SD-Card 7.2). An Issuer is listed with keys or with root certificates, never both.

A trust list is the trust document as a compact JWS with ``iat`` and ``exp``. With the pinned key of its signer, a
Verifier works offline until the list expires. An attacker can show a replaced list until then, so keep lifetimes short.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sdcard.encoding import JsonObject, JsonValue, frozen, parse_json_object
from sdcard.errors import Finding, Misuse, Part, Refused, Where, first_findings
from sdcard.instants import MAX_SKEW, Instant, check_instant, parse_numeric_date
from sdcard.jose.certificates import CertificateRoots, encode_roots, read_roots
from sdcard.jose.claims import check_addressed, check_already_issued, check_already_valid, required
from sdcard.jose.jws import Signer, encode_signing_input, join_signature, parse_jws, verify_jws
from sdcard.jose.key_sets import parse_key_set as parse_key_set
from sdcard.jose.keys import KeySet, PublicKey
from sdcard.lenient import lenient_document
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule


@dataclass(frozen=True, slots=True)
class TrustedIssuers:
    """The keys of each trusted Issuer, by ``iss`` and ``kid``.

    Attributes:
        keys: the keys that sign SD-Cards.
        status_keys: the keys that sign status lists. Without any, no status of the Issuer can be checked.
        expires_at: Unix seconds, exclusive; None for no end.
        left_out: reasons why Issuers and keys of the document were left out, with their places.
        roots: the root certificates of Issuers that send their chain in ``x5c``. They have no listed keys; their chain
            signs SD-Cards and status lists.
    """

    keys: Mapping[str, Mapping[str, PublicKey]]
    status_keys: Mapping[str, Mapping[str, PublicKey]] = field(default_factory=dict)
    expires_at: Instant | None = None
    left_out: tuple[Finding, ...] = field(default=(), repr=False, compare=False)
    roots: Mapping[str, CertificateRoots] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.expires_at is not None:
            check_instant(self.expires_at)
        for name in ("keys", "status_keys"):
            by_issuer = {issuer: KeySet.of(keys) for issuer, keys in getattr(self, name).items()}
            object.__setattr__(self, name, frozen(by_issuer))
        if any(self.keys.get(issuer) or self.status_keys.get(issuer) for issuer in self.roots):
            raise Misuse("an Issuer has keys or roots, not both")
        object.__setattr__(self, "keys", frozen({**self.keys, **{issuer: KeySet({}) for issuer in self.roots}}))
        object.__setattr__(self, "roots", frozen(self.roots))

    @classmethod
    def of(cls, issuer: str, *keys: PublicKey) -> "TrustedIssuers":
        """Trust one Issuer, whose ``kid`` values are RFC 7638 thumbprints."""
        return cls({issuer: {key.thumbprint: key for key in keys}})

    def is_current(self, now: Instant) -> bool:
        """Whether the list has not expired.

        Raises:
            Misuse: when ``now`` is not an instant.
        """
        check_instant(now)
        return self.expires_at is None or now < self.expires_at

    def check_current(self, now: Instant) -> None:
        """Refuse a list that has expired.

        Raises:
            Refused: ``trust.expired``.
            Misuse: when ``now`` is not an instant.
        """
        check_instant(now)
        if self.expires_at is not None and now >= self.expires_at:
            raise Refused(Rule.TRUST_EXPIRED, Where(Part.TRUST, ("exp",)), "Get the present trust document.")

    def key_for(self, issuer: object, header: Mapping[str, object], now: Instant) -> PublicKey:
        """Return the one key that may have signed an SD-Card.

        Without ``kid``, the Issuer must have a single key (JWK-4). ``alg`` only selects among listed keys with one
        ``kid``. The token cannot add an Issuer or a key, nor choose between keys and ``x5c`` (R-53, VC-10, VC-11,
        VC-22).

        Args:
            issuer: ``iss``.
            header: the JOSE header. Its ``x5c`` counts only for an Issuer with roots.
            now: Unix seconds, for the validity of certificates.

        Raises:
            Refused: ``issuer.unknown``, ``issuer.key-unknown`` or ``x5c.*``.
            Misuse: when ``header`` is not an object, or ``now`` not an instant.
        """
        check_instant(now)
        if type(header) is not dict and not isinstance(header, Mapping):
            raise Misuse("a header is an object")
        keys = self.keys.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise Refused(Rule.ISSUER_UNKNOWN, Where(Part.ISSUER_JWT, ("iss",)), "Add the Issuer if you trust it.")
        assert isinstance(keys, KeySet), "made with the list"
        key: PublicKey | None = keys.find(header.get("kid"), header.get("alg"))
        if key is None:
            key = self._certified(str(issuer), header, now, Where(Part.ISSUER_HEADER))
        if key is None:
            where = Where(Part.ISSUER_HEADER, ("kid",))
            raise Refused(Rule.ISSUER_KEY_UNKNOWN, where, "The Issuer is trusted, but this key is not listed.")
        return key

    def status_key_for(self, issuer: str, header: Mapping[str, object], now: Instant) -> PublicKey:
        """Return the one key that may sign a status list of this Issuer (TSL-8).

        Raises:
            Refused: ``issuer.key-unknown`` or ``x5c.*``.
            Misuse: when ``header`` is not an object, or ``now`` not an instant.
        """
        check_instant(now)
        if not isinstance(header, dict | Mapping):
            raise Misuse("a header is an object")
        key = KeySet.of(self.status_keys.get(issuer, {})).find(header.get("kid"), header.get("alg"))
        if key is None:
            key = self._certified(issuer, header, now, Where(Part.STATUS_LIST))
        if key is None:
            raise Refused(Rule.ISSUER_KEY_UNKNOWN, Where(Part.STATUS_LIST, ("kid",)), "Add the Issuer's status keys.")
        return key

    def _certified(self, issuer: str, header: Mapping[str, object], now: Instant, where: Where) -> PublicKey | None:
        """Return the key of the certificate chain; None without roots or without a chain."""
        if issuer not in self.roots or "x5c" not in header:
            return None
        return self.roots[issuer].key_of(issuer, header, now, where)


def parse_trusted_issuers(data: bytes, limits: Limits = DEFAULT_LIMITS) -> TrustedIssuers:
    """Parse a trust document.

    Its shape is ``{"issuers": {"https://registry.example": {"keys": [JWK, …]}}}``. An Issuer may also have
    ``status_keys``, and the document ``exp``. ``{"x5c_roots": [certificate, …]}`` replaces both. Issuers and keys are
    independent: unusable ones are in ``left_out``. A leading byte order mark is ignored, because people edit the
    document.

    Raises:
        Refused: ``trust.malformed``, ``claim.type``, ``encoding.*`` or ``json.*``; all findings when no Issuer is
            usable.
    """
    return read_trusted_issuers(parse_json_object(lenient_document(data), Where(Part.TRUST), limits.json_depth))


def read_trusted_issuers(document: JsonObject) -> TrustedIssuers:
    """Read a trust document from JSON values, as ``parse_trusted_issuers``."""
    where = Where(Part.TRUST)
    issuers = document.get("issuers")
    if not isinstance(issuers, dict) or not issuers:
        raise Refused(
            Rule.TRUST_MALFORMED, where, "A trust document is an object with a member `issuers`, of one Issuer or more."
        )
    left_out: list[Finding] = []
    keys: dict[str, KeySet[PublicKey]] = {}
    status_keys: dict[str, KeySet[PublicKey]] = {}
    roots: dict[str, CertificateRoots] = {}
    for issuer, entry in issuers.items():
        here = where.within("issuers", issuer)
        try:
            if isinstance(entry, dict) and "x5c_roots" in entry:
                roots[issuer] = _read_roots(entry, here)
                continue
            card_keys = parse_key_set(entry, here)
            if isinstance(entry, dict) and "status_keys" in entry:
                status_keys[issuer] = _read_status_keys(entry, here)
        except Refused as refusal:
            left_out += refusal.findings
            continue
        keys[issuer] = card_keys
        left_out += [*card_keys.left_out, *(status_keys[issuer].left_out if issuer in status_keys else ())]
    if not keys and not roots:
        raise Refused.because(left_out)
    expires_at = parse_numeric_date(document["exp"], where.within("exp")) if "exp" in document else None
    return TrustedIssuers(keys, status_keys, expires_at, tuple(first_findings(left_out)), roots)


def _read_roots(entry: JsonObject, where: Where) -> CertificateRoots:
    if not entry.keys().isdisjoint(("keys", "status_keys")):
        raise Refused(Rule.TRUST_MALFORMED, where, "An Issuer has keys or `x5c_roots`, not both.")
    return read_roots(entry["x5c_roots"], where.within("x5c_roots"))


def _read_status_keys(entry: JsonObject, where: Where) -> KeySet[PublicKey]:
    """Read the keys of status lists; the set may have no usable key.

    Raises:
        Refused: ``trust.malformed`` when it is not an array.
    """
    try:
        return parse_key_set(entry, where, "status_keys")
    except Refused as refusal:
        if refusal.where == where:
            raise
        return KeySet({}, refusal.findings)


def encode_trusted_issuers(issuers: TrustedIssuers) -> JsonObject:
    """Encode trusted Issuers as a trust document."""
    listed: JsonObject = {}
    for issuer, keys in issuers.keys.items():
        entry: JsonObject = {"keys": _jwks(keys)}
        if issuer in issuers.roots:
            entry = {"x5c_roots": [*encode_roots(issuers.roots[issuer])]}
        if issuer in issuers.status_keys:
            entry["status_keys"] = _jwks(issuers.status_keys[issuer])
        listed[issuer] = entry
    document: JsonObject = {"issuers": listed}
    return document if issuers.expires_at is None else document | {"exp": issuers.expires_at}


def _jwks(keys: Mapping[str, PublicKey]) -> list[JsonValue]:
    return [{**key.to_jwk(), "kid": kid} for kid, key in KeySet.of(keys).pairs()]


# -- Signed trust lists -----------------------------------------------------------------------------------------------

TYP = "sdcard-trust+jwt"
MOST_BYTES = 1_048_576

_WHERE = Where(Part.TRUST)


def issue_trust_list(issuers: TrustedIssuers, signer: Signer, issued_at: int, expires_at: int) -> str:
    """Sign trusted Issuers as a compact JWS.

    Args:
        issuers: trusted Issuers; the list must not outlive them.
        signer: holds a key that signs nothing else.
        issued_at: Unix seconds.
        expires_at: Unix seconds.

    Raises:
        Misuse: for a list without a lifetime, or with a longer one than ``issuers``.
    """
    if check_instant(expires_at) <= check_instant(issued_at):
        raise Misuse("a trust list expires after it is issued")
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
    """Verify a trust list.

    Args:
        signers: the pinned keys; the header names one by its thumbprint.

    Raises:
        Refused: ``limit.bytes``, ``jws.*``, ``encoding.*``, ``json.*``, ``trust.*``, ``claim.*``,
            ``time.issued-in-future`` or a rule of the keys.
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
        required(jws.payload, name, _WHERE)
    check_already_issued(jws.payload, now + MAX_SKEW, _WHERE)
    check_addressed(jws.payload, None, _WHERE)
    check_already_valid(jws.payload, now + MAX_SKEW, _WHERE)
    issuers = read_trusted_issuers(jws.payload)
    issuers.check_current(now)
    return issuers
