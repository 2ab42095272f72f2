"""Reading of JWK Sets, for all publishers (RFC 7517 4.5 and 5).

- Entries are independent. An unusable entry is left out and reported: another ``kty``, ``use``, ``key_ops`` or ``alg``,
  a missing member, a value out of range, a private key.
- The same key twice counts once.
- Keys with one ``kid`` and different algorithms are alternatives. The token's ``alg`` selects one.
- Different keys with one ``kid`` and the same algorithm are ambiguous: this ``kid`` is left out.
- A set that has entries but no usable one is refused, with all reasons.
"""

from collections.abc import Callable, Iterator, Mapping

from sdcard.errors import Finding, Refused, Where
from sdcard.jose.keys import K, KeySet, NamedKey, PublicKey, parse_public_jwk
from sdcard.rules import Rule


def read_key_set(
    value: object, where: Where, parse: Callable[[object, Where], K], *, member: str = "keys", rule: Rule
) -> KeySet[K]:
    """Read a JWK Set (JWK-4, JWK-5).

    Args:
        parse: parses one entry, or refuses it.
        member: the name of the member that has the keys.
        rule: the rule for a malformed set, and for an entry with an unusable ``kid``.

    Raises:
        Refused: ``rule`` for a malformed set; all findings when no entry is usable.
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
            keys.setdefault(_kid(entry, key, here, rule), {}).setdefault(key.thumbprint, (key, here))
        except Refused as refusal:
            left_out += refusal.findings
    found = dict(_unambiguous(keys, rule, left_out))
    if left_out and not found:
        raise Refused.because(left_out)
    return KeySet(found, tuple(left_out))


def parse_key_set(value: object, where: Where, member: str = "keys") -> KeySet[PublicKey]:
    """Read a JWK Set of keys for SD-Cards, status lists, agent cards or trust lists.

    Raises:
        Refused: ``trust.malformed``, or a rule of the keys, as ``read_key_set``.
    """
    return read_key_set(value, where, parse_public_jwk, member=member, rule=Rule.TRUST_MALFORMED)


def _kid(entry: object, key: NamedKey, where: Where, rule: Rule) -> str:
    """Return the ``kid`` of an entry, by default the key's thumbprint."""
    kid = entry.get("kid", key.thumbprint) if isinstance(entry, Mapping) else None
    if not isinstance(kid, str):
        raise Refused(rule, where.within("kid"), "A `kid` is a string.")
    return kid


def _unambiguous(
    keys: Mapping[str, Mapping[str, tuple[K, Where]]], rule: Rule, left_out: list[Finding]
) -> Iterator[tuple[str, tuple[K, ...]]]:
    """Yield the keys of each ``kid``, except one that names two keys of one algorithm."""
    for kid, named in keys.items():
        algorithms: set[str] = set()
        repeated = []
        for key, where in named.values():
            if not algorithms.isdisjoint(key.header_names):
                repeated.append(where)
            algorithms.update(key.header_names)
        if repeated:
            hint = "Another key of this set has the same `kid` and algorithm, so the `kid` names neither."
            left_out += [Finding(rule, where.within("kid"), hint) for where in repeated]
        else:
            yield kid, tuple(key for key, _ in named.values())
