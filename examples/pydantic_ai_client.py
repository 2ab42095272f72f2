"""Let a Pydantic AI agent call a protected service with its SD-Card.

Run it in the folder that has ``cards`` and ``agent.jwk``, while ``langgraph_agent.py`` runs:
``python pydantic_ai_client.py``. It needs ``pydantic-ai-slim`` and the extra ``http`` of sdcard.
"""

import asyncio
import os

import httpx2
from pydantic_ai import Agent as Assistant
from pydantic_ai import RunContext
from pydantic_ai.models.test import TestModel

from sdcard import Agent
from sdcard.web.clients import SdCardAuth

SERVICE = os.environ.get("ORIGIN", "http://127.0.0.1:9001")
assistant = Assistant(TestModel(), deps_type=httpx2.AsyncClient)  # here stands your own model: it calls each tool once


@assistant.tool
async def ask_the_planner(context: RunContext[httpx2.AsyncClient], question: str) -> str:
    """Ask the route planner, another agent."""
    response = await context.deps.post(f"{SERVICE}/ask", json={"question": question})
    if response.is_error:
        return f"The planner refused: {response.json()['rule']}"
    return str(response.json()["answer"])


async def main() -> None:
    """Ask twice: with the SD-Card, and without it."""
    auth = SdCardAuth.of_agent(Agent.from_folder("cards"), SERVICE, context="internal", paths=["skills"])
    for presented in (auth, None):
        async with httpx2.AsyncClient(auth=presented, trust_env=False) as http:
            result = await assistant.run("Is the bridge open?", deps=http)
        print(result.output)


if __name__ == "__main__":
    asyncio.run(main())
