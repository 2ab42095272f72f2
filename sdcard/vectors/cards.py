"""Runners of vectors about cards, policies and SD-Cards."""

from sdcard import (
    DEFAULT_POLICY,
    Acceptance,
    AdmissionPolicy,
    Answering,
    Challenge,
    Checked,
    ClaimRequest,
    Expectations,
    Issuer,
    Misuse,
    Refused,
    Required,
    Unchecked,
    VerifiedCard,
    accept_sd_card,
    check_admission,
    convert_card,
    parse_card,
    parse_card_file,
    parse_card_signers,
    plan_disclosure,
    present,
    select_context,
    select_paths,
    select_requested,
    verify_presentation,
)
from sdcard.agent_proof import CalledAgent, ThisAgent, check_agent_challenge, verify_agent_proof
from sdcard.cards.a2a.signatures import prepare_card_signature
from sdcard.cards.agentcard.shared import compare_with_source
from sdcard.cards.model import Card
from sdcard.disclosable import treatments
from sdcard.domain_control import DomainTerms, Published, check_control, check_host, find_hosts, parse_file, parse_txt
from sdcard.encoding import JsonObject, JsonValue, encode_json
from sdcard.errors import Finding, Part, Where
from sdcard.holder import partial_card
from sdcard.http_auth import parse_agent_challenge, parse_proof
from sdcard.issuer import Validity, prepare_batch
from sdcard.key_binding import RequestTarget
from sdcard.paths import ClaimPath
from sdcard.policy.context import Partner
from sdcard.policy.document import parse_policy
from sdcard.policy.plan import DisclosurePlan
from sdcard.profile import RESERVED_AT_TOP
from sdcard.publishing import PlainCard, PublishedCard, PublishedCards, parse_accept, represent
from sdcard.sdjwt.model import SdJwt
from sdcard.status_list import StatusReference
from sdcard.vectors.given import (
    OTHERS_KEYS,
    Given,
    ListedSalts,
    OneChallenge,
    RecordedSigner,
    Statuses,
    acceptance_of,
    joined,
    key_binding_of,
    key_of,
    limits_of,
    now_of,
    policy_of,
    trust_of,
)


def run_card(vector: Given) -> tuple[JsonValue, tuple[Finding, ...]]:
    """Parse a card document, or a file with one."""
    parse = parse_card_file if vector["kind"] == "card-file" else parse_card
    expected = vector.get("expectations", {})
    limits = limits_of(expected)
    try:
        signers = parse_card_signers(encode_json(expected.get("signers", {"keys": []})), limits, OTHERS_KEYS)
    except Refused as refusal:
        raise Misuse(f"`signers`: {refusal.rule.sentence}") from None
    card = parse(vector["document"].encode(), limits, signers)
    source = compare_with_source(card, expected["source"]) if "source" in expected else ()
    return None, (*source, *card.findings)


def run_conversion(vector: Given) -> tuple[JsonValue, tuple[Finding, ...]]:
    """Convert a card; the findings are what is lost."""
    converted = convert_card(_card(vector), vector["expectations"]["to"])
    return converted.document, converted.lost


def run_domain_control(vector: Given) -> tuple[JsonValue, tuple[Finding, ...]]:
    """Compare published values with those that prove control; return the latter."""
    expected, hosts = vector["expectations"], find_hosts(_card(vector))
    terms = DomainTerms(expected["issuer"], expected["owner"], tuple(expected["thumbprints"]))
    outcomes = {host: check_host(terms, host, _published(given)) for host, given in expected["published"].items()}
    return {host: list(terms.values(host)) for host in hosts.names}, check_control(hosts, terms, outcomes)


def _published(given: Given) -> Published:
    txt, wildcard = (
        parse_txt([string.encode() for string in record] for record in given[name]) for name in ("txt", "wildcard")
    )
    return Published(parse_file(given["file"].encode()), txt, wildcard)


def run_card_signing(vector: Given) -> JsonValue:
    """Return the bytes that a signature of the card covers, as text."""
    card, key = _card(vector), key_of(vector["expectations"]["key"])
    return prepare_card_signature(card.document, card.format, key).signing_input.decode()


def run_policy(vector: Given) -> tuple[JsonValue, tuple[Finding, ...]]:
    """Parse a policy."""
    parse_policy(vector["document"].encode())
    return None, ()


def run_plan(vector: Given) -> JsonValue:
    """Plan a card for a context; return each place that has a treatment."""
    given = vector["expectations"].get("partner")
    plan = _plan(vector, Partner(given["issuer"], given["at"]) if given else None)
    return {"/".join(map(str, place)): treatment.value for place, treatment in treatments(plan.root)}


def run_issue(vector: Given) -> JsonValue:
    """Issue SD-Cards; a signature is taken from the vector where it is valid."""
    expected = vector["expectations"]
    issuer = Issuer(expected["issuer"], key_of(expected["issuer_key"]))
    prepared = prepare_batch(
        issuer,
        [_plan(vector, None)],
        agent_id=expected["agent_id"],
        holder_keys=[key_of(jwk) for jwk in expected["holder_keys"]],
        validity=Validity(expected["iat"], expected["exp"]),
        salts=ListedSalts(expected["salts"]),
        statuses=[StatusReference(**one) for one in expected.get("statuses", [])],
        checks=tuple(expected["checks"]) if "checks" in expected else None,
        limits=limits_of(expected),
    )
    signer = RecordedSigner(issuer.key, vector.get("result"))
    return [str(SdJwt(joined(signer, one.signing_input), one.disclosures)) for one in prepared]


def run_published(vector: Given) -> JsonValue:
    """Choose the document for a request."""
    expected = vector["expectations"]
    plain = PlainCard.of(expected["plain"].encode()) if "plain" in expected else None
    contexts = {name: PublishedCard(text, "a2a", expected["exp"], None) for name, text in expected["contexts"].items()}
    cards = PublishedCards(contexts, plain)
    accept, context = parse_accept(vector["document"]), expected.get("context")
    chosen = represent(cards, expected["path"], accept, context, now_of(vector))
    return {"media_type": chosen.media_type, "body": chosen.body.decode(), "public": chosen.is_public}


def _card(vector: Given) -> Card:
    return parse_card(vector["document"].encode())


def _plan(vector: Given, partner: Partner | None) -> DisclosurePlan:
    expected = vector["expectations"]
    return plan_disclosure(
        _card(vector), policy_of(expected), expected["context"], expected.get("disclose"), partner=partner
    )


# -- SD-Cards: receipt, presentations, and the called agent -----------------------------------------------------------

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
        checks, spiffe_ids = (tuple(asked.get(name, ())) for name in ("checks", "spiffe_ids"))
        required = Required(ClaimRequest.of(*asked["claims"]), tuple(asked["skills"]), checks, spiffe_ids)
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
