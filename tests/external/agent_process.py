"""A process of its own for the attacks on the called agent's proof: an agent, or a host that stands in between.

``python -m tests.external.agent_process '{"role": …, "fd": …, "certificate": …, "key": …}'``. Every process makes the
same world: the same Issuer, Holder and instant.
"""

import json
import re
import socket
import ssl
import sys
from typing import Any

import httpx
import uvicorn

PROOF, CHALLENGE = "sd-card-proof", "sd-card-challenge"
PRESENTATION = re.compile(r"eyJ[\w.-]+~[\w~-]*~eyJ[\w.-]+")
"""An SD-Card with a KB-JWT, wherever it stands in a response."""


def agent(given: dict[str, Any]) -> Any:
    """The agent: a task over HTTP, its card, and A2A."""
    from a2a.server.routes.jsonrpc_routes import create_jsonrpc_routes
    from starlette.applications import Starlette
    from starlette.routing import Route

    from sdcard.web.a2a_proof import ProvingHandler
    from sdcard.web.publish import Proving
    from tests.external.called_a2a import Town
    from tests.sdcard.web.called import echoes
    from tests.world import World

    town = Town(World(), given["origin"], services=frozenset(given["services"]))
    tasks = Proving(echoes, prover=town.prover, clock=town.world.clock)
    elsewhere = ProvingHandler(town.handler, town.prover, [f"{given['origin']}/other"], town.world.clock)
    other = [Route("/other-tasks", tasks), *create_jsonrpc_routes(elsewhere, "/other")]
    return Starlette(routes=[Route("/tasks", tasks), *other, *town.app.routes])


def copy(given: dict[str, Any]) -> Any:
    """A thief's host: it has the agent's published SD-Card, and not its key."""
    from starlette.applications import Starlette
    from starlette.routing import Route

    from sdcard.publishing import PATHS, PublishedCard, PublishedCards
    from sdcard.web.publish import CardApp
    from tests.external.called_a2a import Town
    from tests.sdcard.web.called import echoes
    from tests.world import World

    town = Town(World(), given["origin"])
    copied = town.cards.contexts["public"]
    cards = PublishedCards({"public": PublishedCard(copied.sd_card, copied.family, copied.expires_at, None)})
    published = CardApp(cards, town.world.clock)
    return Starlette(
        routes=[Route("/tasks", echoes), *(Route(path, published) for path in PATHS), Route("/rpc", echoes)]
    )


def blind(given: dict[str, Any]) -> Any:
    """Another registered agent, which signs every challenge with its own key."""
    from sdcard import ClaimRequest, select_all, select_requested
    from sdcard.agent_proof import EXTENSION
    from sdcard.holder import present
    from sdcard.http_auth import parse_agent_challenge
    from tests.world import World

    world = World()
    card = world.issuer.sign_again(world.holder.unbound(), {"sub": "agent:other"})
    held = world.holder.accept(str(card))

    async def app(scope: Any, receive: Any, send: Any) -> None:
        values = [value.decode() for name, value in scope["headers"] if name.decode().endswith(CHALLENGE)]
        challenge = parse_agent_challenge(values).challenge
        shown = select_requested(held, ClaimRequest(), select_all(held)).selection
        proof = str(present(held, shown, challenge, world.holder.signer, world.clock.now()))
        headers = [(PROOF.encode(), proof.encode())]
        body = json.dumps({"agent_card": proof})
        if scope["path"] == "/rpc":
            event = await receive()
            said = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"text": "Hello"}]}
            message = {**said, "metadata": {EXTENSION: {"proof": proof}}}
            answer = {"jsonrpc": "2.0", "id": json.loads(event["body"])["id"], "result": {"message": message}}
            body, headers = f"data: {json.dumps(answer)}\n\n", [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body.encode()})

    return app


def relay(given: dict[str, Any]) -> Any:
    """A host in between: it forwards to `upstream`, with the changes that `given` names."""
    context = ssl.create_default_context(cafile=given["authority"])
    proofs: dict[str, str] = {}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        headers = [(name.decode(), value.decode()) for name, value in scope["headers"]]
        dropped = {name.lower() for name in given.get("drop", [])}
        headers = [(name, value) for name, value in headers if name.lower() not in {"host", *dropped}]
        headers += given.get("add", [])
        for old, new in given.get("replace", []):
            headers = [(name, value.replace(old, new)) for name, value in headers]
        headers.append(("host", given.get("host", given["upstream"].partition("://")[2])))
        path = scope["path"].removeprefix(given.get("prefix", ""))
        url = given["upstream"] + given.get("paths", {}).get(path, path)
        for old, new in given.get("replace_body", []):
            body = body.replace(old.encode(), new.encode())
        headers = [(name, value) for name, value in headers if name.lower() != "content-length"]
        method = given.get("methods", {}).get(scope["method"], scope["method"])
        async with httpx.AsyncClient(verify=context, trust_env=False) as http:
            answer = await http.request(method, url, headers=headers, content=body)
        never_back = {"content-encoding", "transfer-encoding", "content-length"}
        dropped_back = never_back | {name.lower() for name in given.get("drop_back", [])}
        back = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in dropped_back]
        content = answer.content
        if given.get("replay"):
            earlier = proofs.setdefault(
                path, (PRESENTATION.findall(answer.headers.get(PROOF, "") + answer.text) or [""])[0]
            )
            back = [(name, earlier if name.lower() == PROOF else value) for name, value in back]
            content = PRESENTATION.sub(earlier, answer.text).encode()
        back.append(("content-length", str(len(content))))
        raw = [(name.encode(), value.encode()) for name, value in back]
        await send({"type": "http.response.start", "status": answer.status_code, "headers": raw})
        await send({"type": "http.response.body", "body": content})

    return app


ROLES = {"agent": agent, "copy": copy, "blind": blind, "relay": relay}


def tls(config: Any, default: Any) -> ssl.SSLContext:
    """TLS 1.3 and nothing older."""
    context: ssl.SSLContext = default()
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def main() -> None:
    given = json.loads(sys.argv[1])
    config = uvicorn.Config(
        ROLES[given["role"]](given),
        log_level="critical",
        lifespan="off",
        ssl_certfile=given["certificate"],
        ssl_keyfile=given["key"],
        ssl_context_factory=tls,
    )
    uvicorn.Server(config).run([socket.socket(fileno=given["fd"])])


if __name__ == "__main__":
    main()
