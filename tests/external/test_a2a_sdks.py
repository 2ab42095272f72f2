"""The SDKs of three generations are there, and each reads the example card of its own generation."""

import json

import pytest

from tests.external.a2a_sdks import VERSIONS, ask_sdk
from tests.shared import ROOT

VERSION = "import importlib.metadata, json; print(json.dumps(importlib.metadata.version('a2a-sdk')))"
READ_1_3 = """
import json, sys
from google.protobuf.json_format import ParseDict
from a2a.types import AgentCard
print(json.dumps(ParseDict(json.load(sys.stdin), AgentCard()).name))
"""
READ_0_3 = (
    "import json, sys; from a2a.types import AgentCard; print(json.dumps(AgentCard(**json.load(sys.stdin)).name))"
)


@pytest.mark.parametrize("version", VERSIONS)
def test_each_environment_holds_its_sdk(version: str) -> None:
    assert ask_sdk(version, VERSION, None) == version


@pytest.mark.parametrize(
    ("version", "script", "file"), [("0.3.26", READ_0_3, "georoute-0.3.json"), ("1.3.0", READ_1_3, "georoute.json")]
)
def test_the_sdk_reads_the_example_of_its_generation(version: str, script: str, file: str) -> None:
    card = json.loads((ROOT / "examples" / file).read_text(encoding="utf-8"))
    assert ask_sdk(version, script, card) == card["name"]
