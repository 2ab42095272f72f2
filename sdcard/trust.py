"""``TrustedIssuers``: which keys speak for which Issuer.

An Issuer is trusted because the Verifier listed it, never because its ``iss`` resolves; a header never chooses a key
outside the list (RFC 9901 7.1 step 2.c, RFC 8725 3.10, SD-Card 7.2).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from sdcard.encoding import JsonObject, JsonValue, parse_json_object
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.frozen import frozen
from sdcard.instants import Instant, check_instant, parse_numeric_date
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.limits import DEFAULT_LIMITS, Limits
from sdcard.rules import Rule

KeySet = Mapping[str, PublicKey]
"""``kid`` → key."""


@dataclass(frozen=True, slots=True)
class TrustedIssuers:
    """``iss`` → its keys by ``kid``.

    Attributes:
        keys: those that sign SD-Cards.
        status_keys: those that sign status lists. An Issuer without any has no status that can be checked.
        expires_at: when the list stops to say who is trusted, in Unix seconds, exclusive; None: never.
    """

    keys: Mapping[str, KeySet]
    status_keys: Mapping[str, KeySet] = field(default_factory=dict)
    expires_at: Instant | None = None

    def __post_init__(self) -> None:
        if self.expires_at is not None:
            check_instant(self.expires_at)
        for name in ("keys", "status_keys"):
            by_issuer = {issuer: frozen(keys) for issuer, keys in getattr(self, name).items()}
            object.__setattr__(self, name, frozen(by_issuer))

    @classmethod
    def of(cls, issuer: str, *keys: PublicKey) -> "TrustedIssuers":
        """One Issuer whose ``kid`` values are RFC 7638 thumbprints."""
        return cls({issuer: {key.thumbprint: key for key in keys}})

    def is_current(self, now: Instant) -> bool:
        """Whether the list still says who is trusted."""
        return self.expires_at is None or now < self.expires_at

    def check_current(self, now: Instant) -> None:
        """Refuse to trust anybody by a list that has expired.

        Raises:
            Refused: ``trust.expired``.
        """
        if not self.is_current(now):
            raise Refused(Rule.TRUST_EXPIRED, Where(Part.TRUST, ("exp",)), "Get the present trust document.")

    def key_for(self, issuer: object, kid: object) -> PublicKey:
        """The one key that may have signed. Without ``kid``, only an Issuer with a single key has one (JWK-4).

        Nothing in the token adds an Issuer or a key, or says how to find one (R-53, VC-10, VC-11, VC-22).

        Raises:
            Refused: ``issuer.unknown`` or ``issuer.key-unknown``.
        """
        keys = self.keys.get(issuer) if isinstance(issuer, str) else None
        if keys is None:
            raise Refused(Rule.ISSUER_UNKNOWN, Where(Part.ISSUER_JWT, ("iss",)), "Add the Issuer if you trust it.")
        if kid is None and len(keys) == 1:
            return next(iter(keys.values()))
        key = keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            where = Where(Part.ISSUER_HEADER, ("kid",))
            raise Refused(Rule.ISSUER_KEY_UNKNOWN, where, "The Issuer is trusted; this key of it is not known.")
        return key

    def status_key_for(self, issuer: str, kid: object) -> PublicKey:
        """The one key that may have signed a status list of this Issuer; its other keys may not (TSL-8).

        Raises:
            Refused: ``issuer.key-unknown``.
        """
        keys = self.status_keys.get(issuer, {})
        if kid is None and len(keys) == 1:
            return next(iter(keys.values()))
        key = keys.get(kid) if isinstance(kid, str) else None
        if key is None:
            raise Refused(Rule.ISSUER_KEY_UNKNOWN, Where(Part.STATUS_LIST, ("kid",)), "Add the Issuer's status keys.")
        return key


def parse_key_set(value: object, where: Where, member: str = "keys") -> KeySet:
    """JWKS → keys by ``kid``; a key without one is known by its thumbprint. Keys of other kinds are left out (JWK-5).

    Args:
        value: the JWKS.
        where: its place.
        member: which member has the keys.

    Raises:
        Refused: ``trust.malformed`` for a repeated ``kid``; ``key.malformed`` or ``key.private``.
    """
    entries = value.get(member) if isinstance(value, Mapping) else None
    if not isinstance(entries, list):
        raise Refused(Rule.TRUST_MALFORMED, where, f"A JWKS is an object with an array `{member}`.")
    keys: dict[str, PublicKey] = {}
    for number, entry in enumerate(entries):
        here = where.within(member, number)
        try:
            key = parse_public_jwk(entry, here)
        except Refused as refusal:
            if refusal.rule is Rule.KEY_UNSUPPORTED:
                continue
            raise
        kid = entry.get("kid", key.thumbprint)
        if not isinstance(kid, str) or kid in keys:
            raise Refused(Rule.TRUST_MALFORMED, here.within("kid"), "Each key has a `kid` of its own, a string.")
        keys[kid] = key
    return keys


def parse_trusted_issuers(data: bytes, limits: Limits = DEFAULT_LIMITS) -> TrustedIssuers:
    """Trust document → trusted Issuers. Its shape: ``{"issuers": {"https://registry.example": {"keys": [JWK, …]}}}``.

    Beside ``keys`` an Issuer may have ``status_keys``, which sign its status lists; and the document ``exp``.

    Raises:
        Refused: ``trust.malformed``, ``claim.type``, or a rule of the encodings or keys.
    """
    return read_trusted_issuers(parse_json_object(data, Where(Part.TRUST), limits.json_depth))


def read_trusted_issuers(document: JsonObject) -> TrustedIssuers:
    """As ``parse_trusted_issuers``, for what is JSON already."""
    where = Where(Part.TRUST)
    issuers = document.get("issuers")
    if not isinstance(issuers, dict) or not issuers:
        raise Refused(
            Rule.TRUST_MALFORMED, where, "A trust document is an object with a member `issuers`, of one Issuer or more."
        )
    listed = where.within("issuers")
    return TrustedIssuers(
        {issuer: parse_key_set(keys, listed.within(issuer)) for issuer, keys in issuers.items()},
        {
            issuer: parse_key_set(keys, listed.within(issuer), "status_keys")
            for issuer, keys in issuers.items()
            if isinstance(keys, dict) and "status_keys" in keys
        },
        _expiry(document, where.within("exp")),
    )


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
    expires_at = parse_numeric_date(document["exp"], where)
    try:
        return check_instant(expires_at)
    except Misuse:
        raise Refused(Rule.CLAIM_VALUE, where) from None


def _jwks(keys: KeySet) -> list[JsonValue]:
    return [{**key.to_jwk(), "kid": kid} for kid, key in keys.items()]
