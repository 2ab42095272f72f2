"""Run an agent that publishes its card, proves it to readers, and renews it.

``python examples/publish.py cards --key agent.jwk --card examples/georoute.json``.

``cards`` is the folder that ``sdcard register … --out cards`` wrote: an SD-Card for each context, and ``trust.json``.
With ``--agent-id``, the agent renews its SD-Cards at the registry of ``SDCARD_REGISTRY``, with the token in
``SDCARD_TOKEN``. Without it, ``sdcard agents renew … --out cards`` renews them. New SD-Cards are published without a
restart.

Needs the extra ``service``: FastAPI and uvicorn.
"""

import argparse
import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from sdcard import Agent, Registry
from sdcard.agent_proof import AgentProver, AnyAudience, ShownCard
from sdcard.bound_tokens import CardToken
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.publishing import OwnTokens, PlainCard, PublishedCard, PublishedCards, new_card_token
from sdcard.web.publish import CardApp, card_router

DAY = 86_400


def main() -> None:
    """Serve the card until the process is stopped."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--key", type=Path, required=True, help="the agent's private JWK")
    arguments.add_argument("--card", type=Path, help="a card for clients that know no SD-JWT")
    arguments.add_argument("--port", type=int, default=8000)
    arguments.add_argument("--origin", help="where its readers reach it, such as https://agent.example")
    arguments.add_argument("--agent-id", default="", help="the agent's id at the registry, to renew its SD-Cards")
    given = arguments.parse_args()

    plain = PlainCard.of(given.card.read_bytes()) if given.card else None
    origin = given.origin or f"http://127.0.0.1:{given.port}"
    prover = AgentProver(origin=origin, audiences=AnyAudience("the card is public"))
    card_app = CardApp(PublishedCards({}, plain=plain), prover=prover)
    tokens: dict[str, CardToken] = {}

    def publish(cards: Mapping[str, ShownCard]) -> None:
        for context in cards.keys() - {"public"} - tokens.keys():
            text, tokens[context] = new_card_token(context, SystemClock().now() + DAY, SystemSalts())
            print(f"a token for {context}, good for a day: {text}", flush=True)
        contexts = {context: PublishedCard.proved(card) for context, card in cards.items()}
        card_app.replace(PublishedCards(contexts, plain=plain, tokens=OwnTokens(tokens.values())))

    registry = Registry(os.environ["SDCARD_REGISTRY"], os.environ["SDCARD_TOKEN"]) if given.agent_id else None
    agent = Agent.from_folder(given.folder, key=given.key, registry=registry, agent_id=given.agent_id, changed=publish)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        renewing = asyncio.create_task(agent.run())
        yield
        renewing.cancel()

    app = FastAPI(lifespan=lifespan)
    app.include_router(card_router(card_app))
    uvicorn.run(app, host="127.0.0.1", port=given.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
