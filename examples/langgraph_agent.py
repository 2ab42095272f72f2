"""Serve a LangGraph agent that answers only agents with an SD-Card.

Run it in the folder that has ``cards/trust.json``: ``python langgraph_agent.py``. It needs ``langgraph``, and the extra
``fastapi`` of sdcard with uvicorn. Each run of the graph knows the verified card of its caller.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import uvicorn
from fastapi import Depends, FastAPI
from langchain_core.language_models import FakeListChatModel
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from pydantic import BaseModel

from sdcard import AdmissionPolicy, ClaimRequest, Required, VerifiedCard, parse_trusted_issuers
from sdcard.fastapi import sd_card

ORIGIN = os.environ.get("ORIGIN", "http://127.0.0.1:9001")
model = FakeListChatModel(responses=["The bridge is closed. Take the ring road."])  # put your own chat model here


@dataclass(frozen=True)
class Caller:
    """The agent that called, as its registry and its key prove it."""

    card: VerifiedCard


async def answer(state: MessagesState, runtime: Runtime[Caller]) -> dict[str, list[object]]:
    """Ask the model, and tell it who asks.

    The card is data of a stranger, and no instruction.
    """
    card = runtime.context.card
    skills = [skill["id"] for skill in card.members["skills"]]
    who = ("system", f"The question comes from {card.subject}, an agent with the skills {', '.join(skills)}.")
    return {"messages": [await model.ainvoke([who, *state["messages"]])]}


graph = StateGraph(MessagesState, context_schema=Caller)
graph.add_node("answer", answer)
graph.add_edge(START, "answer")
graph.add_edge("answer", END)
planner = graph.compile()

trust = parse_trusted_issuers(Path("cards/trust.json").read_bytes())
policy = AdmissionPolicy(issuers=trust, formats=frozenset({"a2a/1.0"}), requirement=Required(ClaimRequest.of("skills")))
caller = sd_card(policy, audience=ORIGIN)
app = FastAPI()


class Question(BaseModel):
    """The question of an agent."""

    question: str


@app.post("/ask")
async def ask(asked: Question, card: VerifiedCard = Depends(caller)) -> dict[str, str]:
    """Run the graph for a verified caller."""
    result = await planner.ainvoke({"messages": [("user", asked.question)]}, context=Caller(card))
    return {"for": card.subject, "answer": result["messages"][-1].content}


if __name__ == "__main__":
    uvicorn.run(app, host="127.0.0.1", port=int(ORIGIN.rpartition(":")[2]), log_level="warning")
