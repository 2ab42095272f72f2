"""Runners of vectors about SD-Cards: presentations, receipt, and the called agent."""

from sdcard import (
    DEFAULT_POLICY,
    Acceptance,
    AdmissionPolicy,
    Answering,
    Challenge,
    Checked,
    ClaimRequest,
    Expectations,
    Misuse,
    Required,
    Unchecked,
    VerifiedCard,
    accept_sd_card,
    check_admission,
    present,
    select_context,
    select_paths,
    select_requested,
    verify_presentation,
)
from sdcard.agent_proof import CalledAgent, ThisAgent, check_agent_challenge, verify_agent_proof
from sdcard.encoding import JsonObject, JsonValue
from sdcard.errors import Part, Where
from sdcard.holder import partial_card
from sdcard.http_auth import parse_agent_challenge, parse_proof
from sdcard.key_binding import RequestTarget
from sdcard.paths import ClaimPath
from sdcard.profile import RESERVED_AT_TOP
from sdcard.vectors.given import (
    Given,
    OneChallenge,
    RecordedSigner,
    Statuses,
    acceptance_of,
    key_binding_of,
    key_of,
    now_of,
    trust_of,
)

_PATHS = Where(Part.REQUEST, ("paths",))
_VERIFIED = frozenset({"iss", "sub", "iat", "exp", "card_format"})


def run_verify(vector: Given) -> JsonValue:
    """Verify a presentation."""
    expected = vector["expectations"]
    status = Checked(Statuses(expected["statuses"])) if "statuses" in expected else Unchecked("not the case")
    wanted = Expectations(
        issuers=trust_of(vector),
        key_binding=key_binding_of(expected["key_binding"]),
        status=status,
        **acceptance_of(expected),
    )
    card = verify_presentation(vector["document"], wanted, now_of(vector))
    if "admission" in expected:
        asked = expected["admission"]
        required = Required(ClaimRequest.of(*asked["claims"]), tuple(asked["skills"]), tuple(asked.get("checks", ())))
        formats = frozenset(asked["formats"])
        check_admission(card, AdmissionPolicy(issuers=wanted.issuers, formats=formats, requirement=required))
    if "complete" in expected:
        card.complete()
    return _shown(card, vector)


def run_accept(vector: Given) -> JsonValue:
    """Accept an SD-Card as a Holder."""
    expected = vector["expectations"]
    holder_key = key_of(expected["holder_key"])
    acceptance = Acceptance(issuers=trust_of(vector), **acceptance_of(expected))
    held = accept_sd_card(vector["document"], acceptance, holder_key, now_of(vector))
    return dict(held.issued.verified.processed.claims)


def run_present(vector: Given) -> JsonValue:
    """Present an SD-Card; return what it shows, and the presentation."""
    expected, now = vector["expectations"], now_of(vector)
    acceptance, holder_key = Acceptance(issuers=trust_of(vector), **acceptance_of({})), key_of(expected["holder_key"])
    held = accept_sd_card(vector["document"], acceptance, holder_key, now)
    if "context" in expected:
        selection = select_context(held, DEFAULT_POLICY, expected["context"])
    else:
        selection = select_paths(held, [ClaimPath.parse(one, _PATHS) for one in expected["paths"]])
    challenge = Challenge(expected["nonce"], expected["audience"], interaction_id=expected.get("interaction_id"))
    signer = RecordedSigner(holder_key, vector.get("result"))
    presentation = str(present(held, selection, challenge, signer, now))
    return {"shown": dict(partial_card(held, selection).members), "presentation": presentation}


def run_agent_challenge(vector: Given) -> JsonValue:
    """Answer a challenge as the called agent."""
    expected = vector["expectations"]
    acceptance = Acceptance(issuers=trust_of(vector), **acceptance_of({}))
    held = accept_sd_card(expected["sd_card"], acceptance, key_of(expected["holder_key"]), now_of(vector))
    received = parse_agent_challenge([vector["document"]])
    requests = [line.split(" ") for line in expected["requests"]]
    targets = [RequestTarget(expected["origin"], method, path, received.service) for method, path in requests]
    audiences, services = (frozenset(expected[name]) for name in ("audiences", "services"))
    challenge = check_agent_challenge(received, targets, audiences, services)
    is_proved = expected["caller_proved"] and received.service is None
    paths = [ClaimPath.parse(one, Where(Part.REQUEST)) for one in expected["proved" if is_proved else "public"]]
    shown = partial_card(held, select_requested(held, received.request, select_paths(held, paths)).selection)
    signed: JsonObject = {
        "aud": challenge.audience,
        "nonce": challenge.nonce,
        "interaction_id": challenge.interaction_id,
    }
    return {**signed, "shown": dict(shown.members)}


def run_agent_proof(vector: Given) -> JsonValue:
    """Verify the called agent's answer as its client."""
    expected = vector["expectations"]
    key_binding = key_binding_of(expected["key_binding"])
    if not isinstance(key_binding, Answering):
        raise Misuse("a client that calls an agent makes a challenge: give a `nonce`")
    called = CalledAgent(
        issuers=trust_of(vector),
        agent=ThisAgent(expected["agent"]["iss"], expected["agent"]["sub"]),
        status=Unchecked("not the case"),
        origin="https://agent.example",
        **acceptance_of(expected),
    )
    challenge, now = key_binding.challenge, now_of(vector)
    proofs = vector["document"].split("\n") if vector["document"] else []
    answered = OneChallenge(expected["key_binding"].get("answered") is not True)
    return _shown(verify_agent_proof(parse_proof(proofs), challenge, answered, called, now), vector)


def _shown(card: VerifiedCard, vector: Given) -> JsonObject:
    """Return the verified claims.

    A result has no technical claims, so they are taken from the vector.
    """
    claims: JsonObject = {"iss": card.issuer, "sub": card.subject, "iat": card.issued_at, "exp": card.expires_at}
    if card.declared_format is not None:
        claims["card_format"] = card.declared_format
    hidden = RESERVED_AT_TOP - _VERIFIED
    technical = {name: value for name, value in vector.get("claims", {}).items() if name in hidden}
    return {**technical, **claims, **card.members}
