"""Runners of vectors about cards, policies, issuing and publishing."""

from sdcard import Issuer, Refused, convert_card, parse_card, parse_card_file, parse_card_signers, plan_disclosure
from sdcard.cards.a2a.signatures import prepare_card_signature
from sdcard.cards.agentcard.shared import compare_with_source
from sdcard.cards.model import Card
from sdcard.disclosable import treatments
from sdcard.domain_control import DomainTerms, Published, check_control, check_host, find_hosts, parse_file, parse_txt
from sdcard.encoding import JsonValue, encode_json
from sdcard.errors import Finding, Misuse
from sdcard.issuer import Validity, prepare_batch
from sdcard.policy.context import Partner
from sdcard.policy.document import parse_policy
from sdcard.policy.plan import DisclosurePlan
from sdcard.publishing import PlainCard, PublishedCard, PublishedCards, parse_accept, represent
from sdcard.sdjwt.model import SdJwt
from sdcard.status_list import StatusReference
from sdcard.vectors.given import (
    OTHERS_KEYS,
    Given,
    ListedSalts,
    RecordedSigner,
    joined,
    key_of,
    limits_of,
    now_of,
    policy_of,
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
