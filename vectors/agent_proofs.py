"""Cases of the proof by the agent that is called."""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

from sdcard.encoding import JsonObject, JsonValue
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt
from vectors.actors import HOLDER, ISSUER_ID, NOW, REMOVED, STRANGER, bound, claim, claims, digest, kb_jwt, sd_jwt
from vectors.case import Case, no, yes

AGENT, CLIENT, SERVICE = "https://agent.example", "https://client.example", "https://service.example"
RANDOM = "AQABy4qxAG7l2mVYkTvw4i3bBZ1x9Yp0qfNnKc8dEhSgUoWrPtMj"
"""A stateless nonce, in which only the client can read anything."""
SECTION = "SD-Card 2.1, 5.2"

SKILLS, PROVIDER = claim("skills", [{"id": "route"}]), claim("provider", {"organization": "Example Geo Services"})
CARD = sd_jwt(claims(_sd=sorted(map(digest, (SKILLS, PROVIDER)))), SKILLS, PROVIDER)
PUBLIC = {name: claims()[name] for name in ("name", "description", "version")}


def nonce(
    audience: str = CLIENT,
    origin: str = AGENT,
    method: str = "POST",
    path: str = "/tasks",
    service: str | None = None,
    interaction_id: str | None = None,
    requested: tuple[str, ...] = (),
) -> str:
    """A nonce over these terms.

    It follows docs/agent-proof.md and uses none of our code.
    """
    terms = ["sd-card-agent-proof/1", audience, origin, method, path, service, interaction_id, list(requested)]
    hashed = hashlib.sha256(json.dumps(terms, separators=(",", ":")).encode()).digest()
    return f"agent-proof.{RANDOM}.{base64.urlsafe_b64encode(hashed).rstrip(b'=').decode()}"


def header(text: str, audience: str = CLIENT, requested: tuple[str, ...] = (), **more: str) -> str:
    """The value of ``SD-Card-Challenge``."""
    parameters = {"nonce": text, "audience": audience, **more}
    if requested:
        parameters["requested"] = json.dumps(requested, separators=(",", ":"))
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in parameters.items()}
    return "SD-Card " + ", ".join(f'{name}="{value}"' for name, value in escaped.items())


def setting(**changes: Any) -> JsonObject:
    """The agent's configuration, and whether its caller has proved itself."""
    good: JsonObject = {
        "origin": AGENT,
        "requests": ["POST /tasks"],
        "audiences": [CLIENT],
        "services": [SERVICE],
        "sd_card": str(CARD),
        "holder_key": HOLDER.jwk,
        "public": ["skills"],
        "proved": ["skills", "provider"],
        "caller_proved": False,
    }
    return {**good, **changes}


def challenges() -> Iterator[Case]:
    """Challenges in front of the agent: what it signs and shows, and what it refuses."""
    kind: dict[str, Any] = {"kind": "agent-challenge", "needs": ("agent-proof",)}
    both = ("skills", "provider")

    def signed(name: str, about: str, text: str, value: str, shown: JsonObject, **more: Any) -> Case:
        told: JsonObject = {"aud": CLIENT, "nonce": text, "interaction_id": more.pop("interaction", None)}
        told["shown"] = {**PUBLIC, **shown}
        return yes(name, told, about, SECTION, value, **{"expectations": setting(), **kind, **more})

    def refused(name: str, rule: Rule, where: str, about: str, value: str, **more: Any) -> Case:
        return no(name, rule, f"challenge{where}", about, SECTION, value, **{"expectations": setting(), **kind, **more})

    skills: JsonObject = {"skills": [{"id": "route"}]}
    provider: JsonObject = {"provider": {"organization": "Example Geo Services"}}
    yield signed("challenge-nothing-requested", "first contact", nonce(), header(nonce()), {})
    text = nonce(requested=both)
    yield signed("challenge-public", "a caller without proof", text, header(text, requested=both), skills)
    yield signed("challenge-mutual", "a caller that proved itself", text, header(text, requested=both),
                 {**skills, **provider}, expectations=setting(caller_proved=True))  # fmt: skip
    text = nonce(service=SERVICE, requested=both)
    yield signed("challenge-relayed", "through a Service, the public part", text,
                 header(text, requested=both, service=SERVICE), skills,
                 expectations=setting(caller_proved=True))  # fmt: skip
    text = nonce(interaction_id="i-1")
    yield signed("challenge-interaction", "an interaction", text, header(text, interaction_id="i-1"), {},
                 interaction="i-1")  # fmt: skip
    text = nonce(path="/rpc")
    yield signed("challenge-second-name", "one of several requests", text, header(text), {},
                 expectations=setting(requests=["POST /tasks", "POST /rpc"]))  # fmt: skip

    target = Rule.AGENT_PROOF_TARGET
    for name, changes in {
        "origin": {"origin": "https://thief.example"},
        "path": {"path": "/other"},
        "method": {"method": "HEAD"},
        "audience-in-nonce": {"audience": "https://thief.example"},
        "hidden-service": {"service": SERVICE},
        "interaction": {"interaction_id": "i-2"},
        "requested": {"requested": both},
    }.items():
        yield refused(f"challenge-other-{name}", target, "/nonce", f"the nonce is for another {name}",
                      header(nonce(**changes)))  # type: ignore[arg-type]  # fmt: skip
    yield refused("challenge-widened", target, "/nonce", "a Service requests more than the client",
                  header(nonce(service=SERVICE), requested=both, service=SERVICE))  # fmt: skip
    yield refused("challenge-other-client", Rule.AGENT_PROOF_AUDIENCE, "/audience", "a client that is not listed",
                  header(nonce("https://x.example"), "https://x.example"))  # fmt: skip
    other = "https://other.example"
    yield refused("challenge-other-listed", Rule.AGENT_PROOF_SERVICE, "/service", "a Service that is not listed",
                  header(nonce(service=other), service=other))  # fmt: skip
    long = f"agent-proof.{'a' * 200}.{nonce()[-43:]}"
    for name, wrong in {
        "presentation": RANDOM,
        "one-character": "n",
        "no-digest": f"agent-proof.{RANDOM}",
        "longest": f"{long[:-44]}a{long[-43:]}",
        "trailing": f"{nonce()}.",
    }.items():
        yield refused(f"challenge-nonce-{name}", Rule.KB_PURPOSE, "/nonce", "a nonce of another purpose",
                      header(wrong))  # fmt: skip
    yield signed("challenge-nonce-256", "the longest nonce", long, header(long), {})
    malformed = Rule.CHALLENGE_MALFORMED
    yield refused("challenge-nonce-257", malformed, "/nonce", "a nonce that is too long", header("n" * 257))
    yield refused("challenge-nonce-empty", malformed, "/nonce", "an empty nonce", header(""))
    yield refused("challenge-twice", malformed, "", "two challenges", f"{header(nonce())}, {header(nonce())}")
    yield refused("challenge-no-scheme", malformed, "", "another scheme", header(nonce()).replace("SD-Card", "Basic"))


def proofs() -> Iterator[Case]:
    """Answers in front of the client."""
    text = nonce()
    asked: JsonObject = {"audience": CLIENT, "nonce": text}
    meant: JsonValue = {"iss": ISSUER_ID, "sub": "agent:georoute"}
    public = SdJwt(CARD.issuer_jwt, (SKILLS,))
    shown: JsonObject = {**claims(), "skills": [{"id": "route"}]}

    def options(**changes: Any) -> dict[str, Any]:
        expectations: JsonObject = {"key_binding": {**asked, **changes.pop("asked", {})}, "agent": meant, **changes}
        return {"kind": "agent-proof", "needs": ("agent-proof",), "expectations": expectations}

    def answer(sd: SdJwt = public, **changes: Any) -> str:
        return bound(sd, **{"aud": CLIENT, "nonce": text, **changes})

    yield yes("proof", shown, "the answer to the challenge", SECTION, answer(), **options())
    relayed = nonce(service=SERVICE)
    yield yes("proof-relayed", shown, "an answer through a Service", SECTION, answer(nonce=relayed),
              **options(asked={"nonce": relayed}))  # fmt: skip
    more: JsonObject = {**shown, "provider": {"organization": "Example Geo Services"}}
    yield yes("proof-mutual", more, "an answer to a caller that proved itself", SECTION, answer(CARD), **options())

    def refused(name: str, rule: Rule, where: str, about: str, document: str, **changes: Any) -> Case:
        return no(name, rule, where, about, SECTION, document, **options(**changes))

    kb = "kb-jwt"
    yield refused("proof-missing", Rule.AGENT_PROOF_MISSING, "presentation", "no header", "")
    yield refused("proof-copied-card", Rule.KB_MISSING, "presentation", "a copied SD-Card", str(public))
    yield refused("proof-thief", Rule.JWS_SIGNATURE, "kb-jwt/signature", "signed by the thief of an SD-Card",
                  f"{public}{kb_jwt(public, None, STRANGER, aud=CLIENT, nonce=text)}")  # fmt: skip
    yield refused("proof-other-client", Rule.KB_AUDIENCE, f"{kb}/aud", "made for another client",
                  answer(aud="https://other.example"))  # fmt: skip
    yield refused("proof-other-target", Rule.KB_NONCE, f"{kb}/nonce", "made for a HEAD, shown for a POST",
                  answer(nonce=nonce(method="HEAD")))  # fmt: skip
    yield refused("proof-direct-for-relayed", Rule.KB_NONCE, f"{kb}/nonce", "made for another way",
                  answer(), asked={"nonce": relayed})  # fmt: skip
    yield refused("proof-old", Rule.KB_STALE, f"{kb}/iat", "an old answer", answer(iat=NOW - 301))
    yield refused("proof-twice", Rule.KB_REPLAYED, f"{kb}/nonce", "answered before", answer(), asked={"answered": True})
    yield refused("proof-widened", Rule.KB_SD_HASH, f"{kb}/sd_hash", "a Disclosure was added on the way",
                  f"{CARD}{answer().rpartition('~')[2]}")  # fmt: skip
    yield refused("proof-narrowed", Rule.KB_SD_HASH, f"{kb}/sd_hash", "a Disclosure was left out on the way",
                  f"{SdJwt(CARD.issuer_jwt, ())}{answer().rpartition('~')[2]}")  # fmt: skip
    yield refused("proof-other-agent", Rule.AGENT_PROOF_OTHER, "issuer-jwt/sub", "another agent answered",
                  answer(sd_jwt(claims(sub="agent:other"))))  # fmt: skip
    yield refused("proof-other-interaction", Rule.KB_INTERACTION, f"{kb}/interaction_id", "another interaction",
                  answer(interaction_id="i-2"), asked={"interaction_id": "i-1"})  # fmt: skip
    yield refused("proof-no-nonce", Rule.CLAIM_MISSING, f"{kb}/nonce", "no nonce", answer(nonce=REMOVED))
    yield refused("proof-twice-there", Rule.AGENT_PROOF_MALFORMED, "presentation", "two headers",
                  f"{answer()}\n{answer()}")  # fmt: skip
    longest, too_long = ("n" * 5_159, "n" * 5_160)
    yield yes("proof-longest", claims(name=longest), "8,000 characters", SECTION, answer(sd_jwt(claims(name=longest))),
              **options())  # fmt: skip
    yield refused("proof-too-long", Rule.LIMIT_BYTES, "presentation", "8,001 characters",
                  answer(sd_jwt(claims(name=too_long))))  # fmt: skip
    yield refused("proof-two", Rule.AGENT_PROOF_MALFORMED, "presentation", "two proofs in one header",
                  f"{answer()}, {answer()}")  # fmt: skip
