"""Interaction ids of verified cards in MCP calls, and an audit of tool calls.

An interaction id only correlates calls. It grants nothing: a tool server authorizes its callers itself. SD-Card 4.4
(SDC-13); MCP 2026-07-28, ``_meta``. Needs the ``mcp`` extra.
"""

import json
import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, TextIO

from mcp import Client
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolResult, RequestParamsMeta

from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.instants import Clock
from sdcard.key_binding import Bound
from sdcard.profile import INTERACTION_ID, is_interaction_id
from sdcard.rules import Rule
from sdcard.urls import check_secret_url
from sdcard.verifier import VerifiedCard

META_KEY = f"alt.sdcard/{INTERACTION_ID}"
"""Reverse notation of a name under ``.alt`` (RFC 9476), which is never a domain."""

_TOOL_NAME = re.compile("[A-Za-z0-9_.-]{1,128}")
"""Syntax in the MCP specification."""
_PARAMS = Where(Part.REQUEST, ("params",))
_log = logging.getLogger(__name__)


def interaction_of(card: VerifiedCard) -> str:
    """Return the interaction id that the Holder signed.

    Raises:
        Refused: ``claim.missing``, or ``claim.value`` for other than 1 to 128 visible ASCII characters, at
            ``kb-jwt/interaction_id``.
        Misuse: when the card was verified without key binding.
    """
    if not isinstance(card.key_binding, Bound):
        raise Misuse("a card that was verified without key binding belongs to no interaction")
    where = Where(Part.KB_JWT, (INTERACTION_ID,))
    found = card.key_binding.interaction_id
    if found is None:
        raise Refused(Rule.CLAIM_MISSING, where, "The Holder named no interaction.")
    if not is_interaction_id(found):
        raise Refused(Rule.CLAIM_VALUE, where, "It cannot be carried: it is not 1 to 128 visible ASCII characters.")
    return found


def read_interaction_id(params: Mapping[str, Any] | None) -> str | None:
    """Read the interaction id in the parameters of an MCP request; None without one.

    Raises:
        Refused: ``request.malformed`` in ``request/params/_meta``.
    """
    meta = None if params is None else params.get("_meta")
    if meta is None:
        return None
    where = _PARAMS.within("_meta")
    if not isinstance(meta, Mapping):
        raise Refused(Rule.REQUEST, where, "`_meta` is an object.")
    if META_KEY not in meta:
        return None
    found = meta[META_KEY]
    if not is_interaction_id(found):
        raise Refused(Rule.REQUEST, where.within(META_KEY), "It is a text of 1 to 128 visible ASCII characters.")
    return found


@dataclass
class InteractionClient(Client):
    """The SDK's client, which sends one interaction id with every ``call_tool``.

    ``interaction_of`` returns the id.

    Raises:
        Misuse: for a malformed id, or a server URL with http to another machine.
    """

    _: KW_ONLY
    interaction_id: str

    def __post_init__(self) -> None:
        Client.__post_init__(self)
        if not is_interaction_id(self.interaction_id):
            raise Misuse("an interaction id is a text of 1 to 128 visible ASCII characters")
        if isinstance(self.server, str):
            check_secret_url(self.server, "an MCP server")

    async def call_tool(self, *args: Any, meta: RequestParamsMeta | None = None, **kwargs: Any) -> CallToolResult:
        """Call a tool as ``Client.call_tool``."""
        carried: Any = {**(meta or {}), META_KEY: self.interaction_id}
        return await Client.call_tool(self, *args, meta=carried, **kwargs)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Audit record of a tool call, without its arguments.

    Attributes:
        at: Unix seconds.
        tool: the requested name.
        interaction_id: the client's claim; it is not verified here.
    """

    at: int
    tool: str
    interaction_id: str | None

    def __str__(self) -> str:
        """Serialize as a line of JSON."""
        return json.dumps(
            {"event": "tool.called", "at": self.at, "tool": self.tool, INTERACTION_ID: self.interaction_id}
        )


def write_calls(stream: TextIO) -> Callable[[ToolCall], None]:
    """Return an audit that writes each call to a stream, as a line of JSON."""

    def record(call: ToolCall) -> None:
        stream.write(f"{call}\n")
        stream.flush()

    return record


@dataclass(frozen=True, slots=True)
class InteractionAudit:
    """Middleware for an MCP server that records every tool call before it runs.

    Use: ``server.middleware.append(InteractionAudit(record, clock))``. A malformed id is answered with error -32602,
    whose data has rule and place. A tool reads the id with ``read_interaction_id(context.request_context.params)``.

    Args:
        record: stores calls. If it raises, the tool does not run.
    """

    record: Callable[[ToolCall], None]
    clock: Clock

    async def __call__(self, ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
        """Record a tool call; pass every other request."""
        if ctx.method == "tools/call":
            try:
                call = ToolCall(int(self.clock.now()), _tool(ctx.params), read_interaction_id(ctx.params))
            except Refused as refusal:
                data = {"rule": refusal.rule.value, "where": str(refusal.where)}
                raise MCPError(INVALID_PARAMS, str(refusal), data) from None
            try:
                self.record(call)
            except Exception:  # whatever fails: a call that leaves no trace is not made, and the caller learns no more
                _log.exception("the audit of tool calls failed")
                raise MCPError(INTERNAL_ERROR, "The call cannot be recorded, so it is not made.") from None
        return await call_next(ctx)


def _tool(params: Mapping[str, Any] | None) -> str:
    name = None if params is None else params.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        hint = "A tool's name is 1 to 128 letters, digits, `_`, `-` and `.`."
        raise Refused(Rule.REQUEST, _PARAMS.within("name"), hint)
    return name
