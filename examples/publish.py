"""Run an agent that publishes its card and proves it to readers that ask.

``python examples/publish.py cards --key agent.jwk --card examples/georoute.json``.

``cards`` is the folder that ``sdcard register … --out cards`` wrote: an SD-Card for each context, and ``trust.json``.
When ``sdcard agents renew … --out cards`` has renewed them, the new ones are published without a restart.

Needs the extra ``service``: FastAPI and uvicorn.
"""

import argparse
import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from sdcard import Acceptance, Refused, Signer, accept_sd_card, parse_trusted_issuers, select_all
from sdcard.agent_proof import AgentProver, AnyAudience, ShownCard
from sdcard.io.key_files import load_signer
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.lenient import lenient_token
from sdcard.publishing import OwnTokens, PlainCard, PublishedCard, PublishedCards, new_card_token
from sdcard.web.publish import CardApp, card_router

DAY = 86_400


def read_cards(folder: Path, signer: Signer) -> dict[str, PublishedCard]:
    """Map each context to its published SD-Card.

    An SD-Card that is no longer valid is left out.
    """
    acceptance = Acceptance(issuers=parse_trusted_issuers((folder / "trust.json").read_bytes()))
    cards = {}
    for file in sorted(folder.glob("*.sd-card")):
        try:
            held = accept_sd_card(
                lenient_token(file.read_text("utf-8")), acceptance, signer.public_key, SystemClock().now()
            )
        except Refused as refusal:
            print(f"{file}: {refusal}", flush=True)
        else:
            cards[file.stem] = PublishedCard.proved(ShownCard(held, select_all(held), signer))
    return cards


def main() -> None:
    """Serve the card, and look every so often whether it was renewed."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--key", type=Path, required=True, help="the agent's private JWK")
    arguments.add_argument("--card", type=Path, help="a card for clients that know no SD-JWT")
    arguments.add_argument("--port", type=int, default=8000)
    arguments.add_argument("--origin", help="where its readers reach it, such as https://agent.example")
    arguments.add_argument("--seconds", type=float, default=60, help="between two looks at the folder")
    given = arguments.parse_args()

    signer = load_signer(given.key)
    cards = read_cards(given.folder, signer)
    made = {name: new_card_token(name, SystemClock().now() + DAY, SystemSalts()) for name in cards if name != "public"}
    for name, (text, _) in made.items():
        print(f"a token for {name}, good for a day: {text}", flush=True)
    published = PublishedCards(
        cards,
        plain=PlainCard.of(given.card.read_bytes()) if given.card else None,
        tokens=OwnTokens(kept for _, kept in made.values()),
    )
    origin = given.origin or f"http://127.0.0.1:{given.port}"
    card_app = CardApp(published, prover=AgentProver(origin=origin, audiences=AnyAudience("the card is public")))

    async def follow() -> None:
        while True:
            await asyncio.sleep(given.seconds)
            try:
                contexts = await asyncio.to_thread(read_cards, given.folder, signer)
            except (OSError, Refused) as error:
                print(f"what was published stays: {error}", flush=True)
            else:
                card_app.replace(replace(published, contexts=contexts))

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        following = asyncio.create_task(follow())
        yield
        following.cancel()

    app = FastAPI(lifespan=lifespan)
    app.include_router(card_router(card_app))
    uvicorn.run(app, host="127.0.0.1", port=given.port, access_log=False, log_level="warning")


if __name__ == "__main__":
    main()
