"""A foreign tool server: the MCP SDK's own, with our middleware in it. By itself it serves on stdio
and writes its audit to the file that is named."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from starlette.applications import Starlette

from sdcard.instants import Clock
from sdcard.io.system import SystemClock
from sdcard.web.mcp import InteractionAudit, ToolCall, read_interaction_id, write_calls
from tests import served as servers


def make_tool_server(
    record: Callable[[ToolCall], None], clock: Clock | None = None, ran: list[str] | None = None
) -> MCPServer[Any]:
    """``ran``: what its tool did is added here."""
    server = MCPServer[Any]("tools", version="1")
    server.middleware.append(InteractionAudit(record, clock or SystemClock()))

    @server.tool()
    async def route(to: str, ctx: Context[Any]) -> dict[str, Any]:
        """Says what reached the tool."""
        if ran is not None:
            ran.append(to)
        return {"to": to, "interaction_id": read_interaction_id(ctx.request_context.params)}

    return server


@contextmanager
def served(app: Starlette) -> Iterator[str]:
    """The application under uvicorn on loopback, in a thread of its own; its URL."""
    with servers.served(app) as address:
        yield f"{address}/mcp"


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w", encoding="ascii") as calls:
        make_tool_server(write_calls(calls)).run("stdio")
