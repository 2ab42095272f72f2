"""Key sets: the one reader of JWKS, for all publishers (RFC 7517 4.5 and 5).

- The entries are independent. One that is not for us or cannot be used is left out and reported: another ``kty``,
  ``use``, ``key_ops`` or ``alg``, a missing member, a value out of range, a private half.
- The same key twice is one key.
- Keys of one ``kid`` for different algorithms are alternatives: the ``alg`` of the token chooses.
- Different keys of one ``kid`` for the same algorithm are ambiguous: this ``kid`` is left out.
- A set with entries of which none is usable is refused, with the reason for each.
"""

from collections.abc import Callable, Iterator, Mapping

from sdcard.errors import Finding, Refused, Where
from sdcard.jose.keys import K, KeySet, NamedKey, PublicKey, parse_public_jwk
from sdcard.rules import Rule


def read_key_set(
    value: object, where: Where, parse: Callable[[object, Where], K], *, member: str = "keys", rule: Rule
) -> KeySet[K]:
    """Read a JWKS (JWK-4, JWK-5).

    Args:
        value: the JWKS.
        where: its place.
        parse: reads one entry, or refuses it.
        member: which member has the keys.
        rule: of the refusal when this is no JWKS, and of the finding for an entry whose ``kid`` is unusable.

    Raises:
        Refused: ``rule`` for what is no JWKS; the findings of all entries when none is usable.
    """
    entries = value.get(member) if isinstance(value, Mapping) else None
    if not isinstance(entries, list):
        raise Refused(rule, where, f"A JWKS is an object with an array `{member}`.")
    keys: dict[str, dict[str, tuple[K, Where]]] = {}
    left_out: list[Finding] = []
    for number, entry in enumerate(entries):
        here = where.within(member, number)
        try:
            key = parse(entry, here)
            _add(keys, _kid(entry, key, here, rule), key, here)
        except Refused as refusal:
            left_out += refusal.findings
    found = dict(_unambiguous(keys, rule, left_out))
    if left_out and not found:
        raise Refused.because(left_out)
    return KeySet(found, tuple(left_out))


def parse_key_set(value: object, where: Where, member: str = "keys") -> KeySet[PublicKey]:
    """Read a JWKS of keys for SD-Cards, status lists, agent cards or trust lists.

    Raises:
        Refused: ``trust.malformed``, or a rule of the keys, as ``read_key_set``.
    """
    return read_key_set(value, where, parse_public_jwk, member=member, rule=Rule.TRUST_MALFORMED)


def _kid(entry: object, key: NamedKey, where: Where, rule: Rule) -> str:
    """The name of a key; one without a ``kid`` is named by its thumbprint."""
    kid = entry.get("kid", key.thumbprint) if isinstance(entry, Mapping) else None
    if not isinstance(kid, str):
        raise Refused(rule, where.within("kid"), "A `kid` is a string.")
    return kid


def _add(keys: dict[str, dict[str, tuple[K, Where]]], kid: str, key: K, where: Where) -> None:
    """Add a key to those of its ``kid``; an equal thumbprint is the same key."""
    keys.setdefault(kid, {}).setdefault(key.thumbprint, (key, where))


def _unambiguous(
    keys: Mapping[str, Mapping[str, tuple[K, Where]]], rule: Rule, left_out: list[Finding]
) -> Iterator[tuple[str, tuple[K, ...]]]:
    """Leave out every ``kid`` that names two keys of one algorithm."""
    for kid, named in keys.items():
        seen: set[str] = set()
        repeated = []
        for key, where in named.values():
            if not seen.isdisjoint(key.header_names):
                repeated.append(where)
            seen.update(key.header_names)
        if repeated:
            hint = "Another key of this set has the same `kid` and algorithm, so the `kid` names neither."
            left_out += [Finding(rule, where.within("kid"), hint) for where in repeated]
        else:
            yield kid, tuple(key for key, _ in named.values())
