"""A tool server of somebody else's: the MCP SDK's own, with our middleware in it. By itself it serves on stdio
and writes its audit to the file that is named."""

import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from starlette.applications import Starlette

from sdcard.edge.mcp import InteractionAudit, ToolCall, read_interaction_id, write_calls
from sdcard.edge.system import SystemClock
from sdcard.instants import Clock


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
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    deadline = time.monotonic() + 10
    while not server.started and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.started
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/mcp"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        listening.close()


if __name__ == "__main__":
    with Path(sys.argv[1]).open("w", encoding="ascii") as calls:
        make_tool_server(write_calls(calls)).run("stdio")
