"""The adapter that reads the words of ``../shared/cases``."""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from sdcard import (
    SD_CARD,
    Answering,
    Challenge,
    Expectations,
    FreshnessWindow,
    Profile,
    TrustedIssuers,
    Unbound,
    Unchecked,
    VerifiedCard,
    verify_presentation,
)
from sdcard.errors import Part, Where
from sdcard.key_binding import ConsumedByCaller, KeyBinding
from sdcard.trust import parse_key_set
from tests.shared import shared_dir

Case = dict[str, Any]


def case(name: str) -> Case:
    found: Case = json.loads((shared_dir() / "cases" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def presentations() -> Iterator[tuple[str, Case, Case]]:
    """Every input of op `verify_presentation`, with its name and what is expected."""
    for file in sorted((shared_dir() / "cases").glob("*.json")):
        whole = case(file.stem)
        for one in whole["input"].get("variants", [whole["input"]]):
            if isinstance(one, dict) and one.get("op") == "verify_presentation":
                name = one.get("name", "")
                yield (
                    f"{file.stem} {name}".strip(),
                    one,
                    whole["expected"].get("variants", {}).get(name, whole["expected"]),
                )


def profile(types: list[str]) -> Profile:
    """The cases carry no `vct`; only tests have such a profile."""
    return replace(
        SD_CARD, name="test", accepted_types=frozenset(types), required=frozenset({"iss", "sub", "iat", "exp", "cnf"})
    )


def issuers(given: Case) -> TrustedIssuers:
    return TrustedIssuers({given["trusted_issuer"]: parse_key_set(given["issuer_jwks"], Where(Part.TRUST))})


def window(given: Case) -> FreshnessWindow:
    return FreshnessWindow(given["kb_max_age_s"], given["kb_future_skew_s"])


def verify(given: Case, key_binding: KeyBinding | None = None) -> VerifiedCard:
    if key_binding is None and given["require_key_binding"]:
        challenge = Challenge(given["expected_nonce"], given["expected_aud"], window(given))
        key_binding = Answering(challenge, ConsumedByCaller())
    assert given["status_lists"] is None
    expectations = Expectations(
        issuers=issuers(given),
        profile=profile(given["accepted_typ"]),
        clock_skew=given["leeway_s"],
        key_binding=key_binding or Unbound("the case expects none"),
        status=Unchecked("the case has no list"),
    )
    return verify_presentation(given["presentation"], expectations, given["now"])
