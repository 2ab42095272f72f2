"""What a shell completes beside commands, options and files: names that are known without asking anybody."""

from collections.abc import Iterable


def contexts(incomplete: str) -> list[str]:
    """Contexts of the built-in policy."""
    from sdcard.disclosure.policy import DEFAULT_POLICY

    return _of(DEFAULT_POLICY.contexts, incomplete)


def profiles(incomplete: str) -> list[str]:
    """Profiles."""
    from sdcard.profile import PROFILES

    return _of(PROFILES, incomplete)


def algorithms(incomplete: str) -> list[str]:
    """Signature algorithms."""
    from sdcard.jose.algorithms import SignatureAlgorithm

    return _of(SignatureAlgorithm, incomplete)


def targets(incomplete: str) -> list[str]:
    """Formats that a card can be converted to."""
    from sdcard.cards.converting import TARGETS

    return _of(TARGETS, incomplete)


def fates(incomplete: str) -> list[str]:
    """What becomes of earlier SD-Cards."""
    return _of(("revoke", "run_out"), incomplete)


def key_uses(incomplete: str) -> list[str]:
    """What a registry's key signs."""
    from issuer_service.stores.rows.keys import KeyUse

    return _of(KeyUse, incomplete)


def scopes(incomplete: str) -> list[str]:
    """What a registry's token is for."""
    from issuer_service.access import Scope

    return _of(Scope, incomplete)


def _of(names: Iterable[str], incomplete: str) -> list[str]:
    return [str(name) for name in names if name.startswith(incomplete)]
