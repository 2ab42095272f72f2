"""The configuration of ``docs/mcp.md`` starts a server that offers the tools that the page lists."""

import asyncio
import json
import re
import sys
from pathlib import Path

from mcp import Client, StdioServerParameters

from tests.shared import ROOT
from tests.world import ISSUER, World

PAGE = (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8")
START = "import sys; from sdcard.cli import main; sys.argv = ['sdcard', *sys.argv[1:]]; main()"


def block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


def test_the_configuration_for_a_host_starts_a_server_with_the_tools_of_the_table(world: World, tmp_path: Path) -> None:
    server = json.loads(block("json"))["mcpServers"]["sdcard"]
    key = dict(world.issuer.signer.public_key.to_jwk())
    (tmp_path / "trust.json").write_text(json.dumps({"issuers": {ISSUER: {"keys": [key]}}}), encoding="utf-8")
    (tmp_path / "registry.token").write_text("t", encoding="ascii")
    arguments = [re.sub("^/(etc/sdcard|var/log)/", f"{tmp_path}/", one) for one in server["args"]]
    assert server["command"] == "sdcard"

    async def names() -> set[str]:
        target = StdioServerParameters(
            command=sys.executable, args=["-c", START, *arguments], env={"PYTHONPATH": str(ROOT)}
        )
        async with Client(target) as client:
            return {tool.name for tool in (await client.list_tools()).tools}

    assert asyncio.run(names()) == set(re.findall(r"^\| `(\w+)` \| (?:always|with)(?! `--card)", PAGE, re.MULTILINE))
