"""The five contexts, each containing the one before it, by what they show of the two example cards."""

import pytest

from sdcard import DEFAULT_POLICY
from sdcard.encoding import JsonObject
from tests.world import World, example

ALWAYS = {"name", "description", "version"}
SKILL_NAMES = {"skills", "skills.*", "skills.*.id", "skills.*.name"}
SKILLS = SKILL_NAMES | {f"skills.*.{name}" for name in ("description", "tags", "examples", "inputModes", "outputModes")}
USE = {
    *("supportedInterfaces", "supportedInterfaces.*"),
    *(f"supportedInterfaces.*.{name}" for name in ("url", "protocolBinding", "protocolVersion")),
    *("capabilities", "capabilities.extensions", "capabilities.extensions.*"),
    *("capabilities.streaming", "capabilities.pushNotifications", "capabilities.extendedAgentCard"),
    *("defaultInputModes", "defaultOutputModes", "documentationUrl", "iconUrl", "provider"),
}
SECURITY = {
    *("securitySchemes", "securityRequirements", "skills.*.securityRequirements", "supportedInterfaces.*.tenant")
}
SHOWN = {
    "public": ALWAYS | SKILL_NAMES,
    "federation": ALWAYS | SKILL_NAMES,
    "internal": ALWAYS | SKILLS | USE,
    "diagnostic": ALWAYS | SKILLS | USE | SECURITY,
    "full": ALWAYS | SKILLS | USE | SECURITY,
}


@pytest.mark.parametrize("context", SHOWN)
def test_what_each_context_shows_of_the_example(world: World, context: str) -> None:
    assert set(world.issuer.plan(context).discloses) == SHOWN[context]


def test_these_are_the_contexts() -> None:
    assert list(DEFAULT_POLICY.contexts) == ["public", "internal", "diagnostic", "federation", "full"]


@pytest.mark.parametrize("document", ["georoute.json", "georoute-0.3.json"])
def test_each_context_contains_the_one_before(world: World, document: str) -> None:
    public, internal, diagnostic, full = (
        world.issuer.plan(context, example(document)).places for context in ("public", "internal", "diagnostic", "full")
    )
    assert public < internal < diagnostic == full
    assert public == world.issuer.plan("federation", example(document)).places


@pytest.mark.parametrize("context", ["internal", "public", "federation"])
@pytest.mark.parametrize("document", ["georoute.json", "georoute-0.3.json"])
def test_security_is_for_those_who_run_the_agent(world: World, context: str, document: str) -> None:
    texts = " ".join(world.issuer.plan(context, example(document)).discloses)
    assert "ecurity" not in texts
    assert "tenant" not in texts


def test_members_that_no_format_names_are_for_diagnosis_and_full(world: World) -> None:
    document: JsonObject = {**example(), "x-vendor": {"a": 1}}
    for context in SHOWN:
        assert ("x-vendor" in world.issuer.plan(context, document).discloses) is (context in ("diagnostic", "full"))
