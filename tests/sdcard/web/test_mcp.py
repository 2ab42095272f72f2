"""An interaction id in MCP calls: carried by the SDK's client, read strictly, in the audit, and worth nothing else."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp_types import CallToolResult

from sdcard import Misuse, Unbound
from sdcard.encoding import JsonObject
from sdcard.web.mcp import META_KEY, InteractionClient, ToolCall, interaction_of, read_interaction_id, write_calls
from tests.shared import ROOT
from tests.tool_server import make_tool_server, served
from tests.world import NOW, MovableClock, World, raises_rule

PLACE = f"request/params/_meta/{META_KEY}"
MALFORMED: dict[str, Any] = {
    "a number": 5,
    "true": True,
    "null": None,
    "an object": {"id": "i"},
    "nested": {"a": [{"b": "x" * 10_000}]},
    "a list": ["i"],
    "empty": "",
    "a space": "i d",
    "a line break": "i\n",
    "another line": 'i\n{"event":"tool.called"}',
    "a control character": "i\x00",
    "turned around": "i‮d",
    "not ASCII": "ï",
    "too long": "i" * 129,
    "huge": "i" * 1_000_000,
}
SENT = {name: value for name, value in MALFORMED.items() if value is not None}
"""The SDK's client leaves out what is null."""


def carry(target: Any, meta: Any, mode: Any = "auto", tool: str = "route") -> Any:
    """Call a tool with any `_meta`, and return what the tool received."""
    result = call(target, meta, mode, tool)
    assert isinstance(result, CallToolResult), result
    return result.structured_content


def refused(target: Any, meta: Any, mode: Any = "auto", tool: str = "route") -> tuple[int, Any]:
    """Code and data of the error that answers the call."""
    error = call(target, meta, mode, tool)
    assert isinstance(error, MCPError), error
    assert "Traceback" not in error.message
    return error.code, error.data


def call(target: Any, meta: Any, mode: Any, tool: str) -> CallToolResult | MCPError:
    async def ask() -> CallToolResult | MCPError:
        async with Client(target, mode=mode) as client:
            try:
                return await client.call_tool(tool, {"to": "Paris"}, meta=meta)
            except MCPError as error:
                return error

    return asyncio.run(ask())


@pytest.mark.parametrize("given", MALFORMED.values(), ids=MALFORMED)
def test_what_is_no_interaction_id_is_refused_where_it_is(given: Any) -> None:
    with raises_rule("request.malformed", at=PLACE):
        read_interaction_id({"_meta": {META_KEY: given}})


@pytest.mark.parametrize("given", ["i", "i" * 128, "6f1c1bb2-8f1e-4a4b-9a3e-0d1c5f1f8f21", '~!/\\"{}'])
def test_visible_ascii_of_bounded_length_is_one(given: str) -> None:
    assert read_interaction_id({"_meta": {META_KEY: given}}) == given


@pytest.mark.parametrize("params", [None, {}, {"_meta": None}, {"_meta": {}}, {"_meta": {"interaction_id": "i"}}])
def test_a_request_may_belong_to_no_interaction(params: JsonObject | None) -> None:
    assert read_interaction_id(params) is None


@pytest.mark.parametrize("meta", [[META_KEY], META_KEY, 1])
def test_meta_is_an_object(meta: Any) -> None:
    with raises_rule("request.malformed", at="request/params/_meta"):
        read_interaction_id({"_meta": meta})


def test_the_key_is_one_that_mcp_lets_others_use() -> None:
    prefix, _, name = META_KEY.partition("/")

    assert prefix.split(".")[1] not in {"mcp", "modelcontextprotocol"}
    assert all(label.isalnum() and label[0].isalpha() for label in prefix.split("."))
    assert name.replace("_", "").isalnum()


def shown(world: World, interaction_id: str | None) -> Any:
    challenge = world.verifier.challenge(interaction_id=interaction_id)
    return world.verifier.verify(world.holder.present(challenge), challenge)


def test_the_id_is_the_one_that_the_holder_signed(world: World) -> None:
    assert interaction_of(shown(world, "trip-7")) == "trip-7"


def test_a_card_without_an_interaction_has_none_to_carry(world: World) -> None:
    with raises_rule("claim.missing", at="kb-jwt/interaction_id"):
        interaction_of(shown(world, None))


@pytest.mark.parametrize("signed", ["two words", "i" * 129, "ï", "a\nb"])
def test_an_id_that_cannot_be_carried_is_refused_before_it_is(world: World, signed: str) -> None:
    with raises_rule("claim.value", at="kb-jwt/interaction_id"):
        interaction_of(shown(world, signed))


def test_nobody_signed_an_interaction_without_key_binding(world: World) -> None:
    card = world.verifier.verify(str(world.holder.unbound()), Unbound("a test"))

    with pytest.raises(Misuse, match="verified without key binding"):
        interaction_of(card)


@contextmanager
def in_process(calls: Path) -> Iterator[Any]:
    with calls.open("w", encoding="utf-8") as stream:
        yield make_tool_server(write_calls(stream))


@contextmanager
def over_stdio(calls: Path) -> Iterator[Any]:
    arguments = ["-m", "tests.tool_server", str(calls)]
    yield StdioServerParameters(command=sys.executable, args=arguments, cwd=ROOT, env={"PYTHONPATH": str(ROOT)})


@contextmanager
def over_http(calls: Path) -> Iterator[Any]:
    with calls.open("w", encoding="utf-8") as stream:
        server = make_tool_server(write_calls(stream))
        with served(server.streamable_http_app()) as url:
            yield url


TRANSPORTS = {"in process": in_process, "stdio": over_stdio, "streamable HTTP": over_http}


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", TRANSPORTS.values(), ids=TRANSPORTS)
def test_every_call_of_a_client_carries_the_id_to_the_tool_and_into_the_audit(
    transport: Callable[[Path], Any], mode: Any, tmp_path: Path
) -> None:
    async def ask(target: Any) -> list[CallToolResult]:
        other: Any = {"org.example/other": 1}
        async with InteractionClient(target, interaction_id="trip-7", mode=mode) as client:
            await client.list_tools()
            first = await client.call_tool("route", {"to": "secret-destination"})
            return [first, await client.call_tool("route", {"to": "Rome"}, meta=other)]

    with transport(tmp_path / "calls") as target:
        results = asyncio.run(ask(target))

    assert [one.structured_content["interaction_id"] for one in results] == ["trip-7", "trip-7"]
    written = (tmp_path / "calls").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in written.splitlines() if line.startswith("{")]
    assert [(one["event"], one["tool"], one["interaction_id"]) for one in lines] == [
        ("tool.called", "route", "trip-7")
    ] * 2
    assert all(set(one) == {"event", "at", "tool", "interaction_id"} for one in lines)
    assert "secret-destination" not in written


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("given", SENT.values(), ids=SENT)
def test_a_malformed_id_is_an_mcp_error_and_no_tool_runs(given: Any, mode: Any) -> None:
    calls, ran = list[ToolCall](), list[str]()
    server = make_tool_server(calls.append, ran=ran)

    assert refused(server, {META_KEY: given}, mode) == (-32602, {"rule": "request.malformed", "where": PLACE})
    assert (calls, ran) == ([], [])
    assert carry(server, {META_KEY: "i"}) == {"to": "Paris", "interaction_id": "i"}


@pytest.mark.parametrize("name", ["", "route\n", "x" * 129, "ro‮ute", "a b"])
def test_what_is_no_name_of_a_tool_never_reaches_the_audit(name: str) -> None:
    calls: list[ToolCall] = []

    error = refused(make_tool_server(calls.append), None, tool=name)

    assert error == (-32602, {"rule": "request.malformed", "where": "request/params/name"})
    assert calls == []


def test_a_call_that_cannot_be_recorded_is_not_made() -> None:
    def fail(call: ToolCall) -> None:
        raise OSError("/secret/path: no space left")

    ran: list[str] = []

    error = call(make_tool_server(fail, ran=ran), None, "legacy", "route")

    assert ran == []

    assert isinstance(error, MCPError)
    assert (error.code, error.message) == (-32603, "The call cannot be recorded, so it is not made.")
    assert error.data is None


def test_a_call_is_recorded_with_its_time_and_without_an_interaction_too() -> None:
    calls: list[ToolCall] = []

    carry(make_tool_server(calls.append, MovableClock()), {"org.example/other": "x"})

    assert calls == [ToolCall(NOW, "route", None)]


def test_the_authority_of_an_sd_card_does_not_pass_to_a_tool(world: World) -> None:
    """A good presentation in `_meta` is not looked at; under our key it is refused, not verified."""
    challenge = world.verifier.challenge(interaction_id="trip-7")
    presentation = world.holder.present(challenge)
    calls: list[ToolCall] = []
    server = make_tool_server(calls.append, world.clock)
    elsewhere = {"org.example/presentation": presentation, "alt.sdcard/presentation": presentation, META_KEY: "trip-7"}

    with_card, without = carry(server, elsewhere), carry(server, {META_KEY: "trip-7"})

    assert with_card == without == {"to": "Paris", "interaction_id": "trip-7"}
    assert calls == [ToolCall(NOW, "route", "trip-7")] * 2
    assert refused(server, {META_KEY: presentation})[1] == {"rule": "request.malformed", "where": PLACE}
    assert world.verifier.verify(presentation, challenge).subject == "agent:georoute", "and nothing used it up"


@pytest.mark.parametrize("given", [None, 5, "", "two words", "i" * 129])
def test_a_client_is_made_for_an_id_that_can_be_carried(given: Any) -> None:
    with pytest.raises(Misuse, match="1 to 128 visible ASCII"):
        InteractionClient("http://127.0.0.1:9/mcp", interaction_id=given)
