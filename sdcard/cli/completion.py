"""Shell completion of names that are known without a request."""

from collections.abc import Iterable


def contexts(incomplete: str) -> list[str]:
    """Complete contexts of the built-in policy."""
    from sdcard.policy.model import DEFAULT_POLICY

    return matching(DEFAULT_POLICY.contexts, incomplete)


def profiles(incomplete: str) -> list[str]:
    """Complete profiles."""
    from sdcard.profile import PROFILES

    return matching(PROFILES, incomplete)


def algorithms(incomplete: str) -> list[str]:
    """Complete signature algorithms."""
    from sdcard.jose.algorithms import SignatureAlgorithm

    return matching(SignatureAlgorithm, incomplete)


def targets(incomplete: str) -> list[str]:
    """Complete formats that a card can be converted to."""
    from sdcard.cards.converting import TARGETS

    return matching(TARGETS, incomplete)


def fates(incomplete: str) -> list[str]:
    """Complete the values of ``--supersedes``."""
    return matching(("revoke", "run_out"), incomplete)


def matching(names: Iterable[str], incomplete: str) -> list[str]:
    """Return the names that begin as typed."""
    return [str(name) for name in names if name.startswith(incomplete)]
