"""Agents of a2a-sdk present to each other: the example unchanged, and the SDK of the generation before."""

import asyncio
import importlib.util
import subprocess
import sys
import sysconfig
from types import ModuleType
from typing import Any

import pytest
from a2a.client.client import ClientCallContext
from a2a.client.interceptors import BeforeArgs
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore
from a2a.types import AgentCapabilities, AgentCard, AgentInterface
from starlette.applications import Starlette
from starlette.requests import Request

import sdcard
from sdcard.http_auth import INTERACTION_HEADER
from sdcard.io.replay_cache import MemoryChallengeRecord
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.issuer import Issuer, issue_sd_card, rounded_validity
from sdcard.web.a2a import EXTENSION_URI, SdCardContextBuilder, SdCardInterceptor, presentation_extension
from sdcard.web.authenticate import SdCardMiddleware
from tests.external.a2a_sdks import ask_sdk
from tests.external.two_agents_0_3 import SCRIPT
from tests.served import served
from tests.shared import ROOT
from tests.world import ISSUER, World, key

HOLDER = 77 + 1_000_003
"""The private key of ``key(77)``."""


def test_the_example_runs_and_prints_what_it_is_about() -> None:
    ran = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "two_agents.py")],
        capture_output=True,
        text=True,
        timeout=120,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "asked for more than that: endpoints provider",
        "without a card: 401 presentation.missing at request/headers/authorization",
        "the public part: 403 policy.claim-missing at card/endpoints, policy.claim-missing at card/provider",
        "the internal part: Hello agent:georoute of Example Geo Services at "
        "https://georoute-agent.example.com/a2a/v1, in trip-42. I was shown nothing else.",
    ]


def test_agents_of_the_sdk_before_present_to_their_own_kind_and_to_newer_ones() -> None:
    registry, clock, salts = key(1), SystemClock(), SystemSalts()
    trusted = sdcard.TrustedIssuers.of(ISSUER, registry.public_key)
    document = (ROOT / "examples" / "georoute.json").read_bytes()
    issued = issue_sd_card(
        Issuer(ISSUER, registry.public_key),
        sdcard.plan_disclosure(sdcard.parse_card(document), sdcard.DEFAULT_POLICY, "internal"),
        registry,
        agent_id="georoute",
        holder_key=key(77).public_key,
        validity=rounded_validity(clock.now()),
        salts=salts,
    )

    class Late:
        """The app needs the address that it is served at."""

        app: Any = None

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await self.app(scope, receive, send)

    late = Late()
    with served(late) as url:
        policy = sdcard.AdmissionPolicy(
            issuers=trusted,
            formats=frozenset({"a2a/1.0"}),
            requirement=sdcard.Required(sdcard.ClaimRequest.of("endpoints", "provider")),
        )
        late.app = SdCardMiddleware(
            newer_agent(url),
            policy=policy,
            audience=url,
            challenges=MemoryChallengeRecord(url, salts),
            status=sdcard.Unchecked("a test"),
            clock=clock,
        )
        trust = {"issuers": {ISSUER: {"keys": [dict(registry.public_key.to_jwk())]}}}
        question = {
            "paths": [str(ROOT), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")],
            "url": url,
            "holder": HOLDER,
            "trust": trust,
            "sd_card": str(issued),
        }
        answers = ask_sdk("0.3.26", SCRIPT, question)

    assert answers["own"] == [401, 403, "agent:georoute in trip-42"]
    assert answers["newer"][:2] == [401, 403]
    assert answers["newer"][2].startswith("Hello agent:georoute of Example Geo Services")


def newer_agent(url: str) -> Any:
    """The second agent of the example, which callers of A2A 0.3 may call too."""
    module = example()
    card = module.agent_card("Second", url)
    card.supported_interfaces.append(
        AgentInterface(url=f"{url}/rpc", protocol_binding="JSONRPC", protocol_version="0.3")
    )
    handler = DefaultRequestHandler(module.SecondAgent(), InMemoryTaskStore(), card)
    return Starlette(routes=create_jsonrpc_routes(handler, "/rpc", SdCardContextBuilder(), enable_v0_3_compat=True))


def example() -> ModuleType:
    specification = importlib.util.spec_from_file_location("two_agents", ROOT / "examples" / "two_agents.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


# -- the parts --------------------------------------------------------------------------------------------------------


def declaring(*uris: str) -> AgentCard:
    extensions = [presentation_extension("https://b.example")] if EXTENSION_URI in uris else []
    return AgentCard(name="B", capabilities=AgentCapabilities(extensions=extensions))


async def intercepted(interceptor: SdCardInterceptor, card: AgentCard, given: dict[str, str] | None) -> Any:
    context = None if given is None else ClientCallContext(service_parameters=given)
    args = BeforeArgs(input=None, method="send_message", agent_card=card, context=context)
    await interceptor.before(args)
    return None if args.context is None else args.context.service_parameters


@pytest.mark.parametrize(
    ("declared", "given", "expected"),
    [
        ((), None, None),
        ((), {"a": "b"}, {"a": "b"}),
        ((EXTENSION_URI,), None, {"A2A-Extensions": EXTENSION_URI, INTERACTION_HEADER: "trip"}),
        (
            (EXTENSION_URI,),
            {"A2A-Extensions": "https://x.example", INTERACTION_HEADER: "own"},
            {"A2A-Extensions": f"https://x.example,{EXTENSION_URI}", INTERACTION_HEADER: "own"},
        ),
    ],
)
def test_the_extension_is_used_with_agents_that_declare_it(declared: Any, given: Any, expected: Any) -> None:
    card = declaring(*declared)
    assert asyncio.run(intercepted(SdCardInterceptor("trip"), card, given)) == expected


@pytest.mark.parametrize("interaction", ["", "a\r\nb: c", "ä", " "])
def test_an_interaction_that_is_no_header_is_misuse(interaction: str) -> None:
    with pytest.raises(sdcard.Misuse):
        SdCardInterceptor(interaction)


def test_a_card_says_that_callers_must_present() -> None:
    extension = presentation_extension("https://b.example")

    assert (extension.uri, extension.required) == (EXTENSION_URI, True)
    assert dict(extension.params) == {"scheme": "SD-Card", "audience": "https://b.example"}


def test_a_context_is_built_behind_the_middleware_only(world: World) -> None:
    scope: dict[str, Any] = {"type": "http", "headers": [], "method": "POST", "path": "/"}
    with pytest.raises(sdcard.Misuse, match="SdCardMiddleware"):
        SdCardContextBuilder().build(Request(scope))

    challenge = world.verifier.challenge()
    card = world.verifier.verify(world.holder.present(challenge), challenge)
    context = SdCardContextBuilder().build(Request({**scope, "state": {"sd_card": card}}))
    assert context.state["sd_card"] is card
    assert (context.user.is_authenticated, context.user.user_name) == (True, f"{ISSUER} agent:georoute")
