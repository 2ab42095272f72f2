"""``sdcard verify --explain``: every rule of a verification with its outcome.

``verify_presentation`` alone decides. The steps here apply the same functions in the same order, and go on after a
refusal as far as the text allows, so that a person sees all faults at once.
"""

from dataclasses import dataclass, replace
from typing import Any

from rich.text import Text

from sdcard.acceptance import check_in_clear, check_text
from sdcard.cli.output import cell, console, show_instant, table
from sdcard.cli.steps import Comparison, Explanation, Outcome, Steps, reached
from sdcard.encoding import JsonObject
from sdcard.errors import Part, Refused, Where
from sdcard.instants import MAX_SKEW, Instant, is_instant, read_numeric_date
from sdcard.issuer_checks import missing_checks, read_issuer_checks
from sdcard.jose.claims import (
    check_addressed,
    check_already_issued,
    check_already_valid,
    check_equal,
    check_freshness,
    check_not_expired,
    parse_confirmed_key,
    read_nonce,
    required_text,
    same_text,
)
from sdcard.jose.jws import Jws, parse_jws, verify_jws
from sdcard.jose.keys import PublicKey, check_not_published
from sdcard.key_binding import AGENT_NONCE, Answering, Unbound, Unsolicited
from sdcard.profile import CNF, INTERACTION_ID, KB_TYP, LOG_PROOF, SD_HASH
from sdcard.rules import Rule
from sdcard.sdjwt.model import SdJwt, SdJwtWithKeyBinding, parse_sd_jwt
from sdcard.sdjwt.verification import ProcessedPayload, process_payload
from sdcard.spiffe import check_spiffe_id
from sdcard.status_list import Checked, Status, StatusReference, Unchecked, check_status_value, parse_status
from sdcard.transparency.notes import Checkpoint, encode_base64, parse_checkpoint, verified_lines
from sdcard.transparency.policy import LogPolicy
from sdcard.transparency.proofs import (
    InLog,
    LogDecision,
    LogProof,
    check_included,
    given_proof,
    parse_log_proof,
    proven_root,
)
from sdcard.verifier import Expectations

_MOST = 300
_ISSUED, _KB = Where(Part.ISSUER_JWT), Where(Part.KB_JWT)
_JSON = (Rule.BASE64URL, Rule.UTF8, Rule.JSON_MALFORMED, Rule.JSON_DUPLICATE, Rule.JSON_NUMBER, Rule.JSON_SURROGATE,
         Rule.JSON_DEPTH, Rule.LIMIT_CONTAINERS)  # fmt: skip
_PARTS = (Rule.LIMIT_BYTES, Rule.SD_JWT_FORMAT, Rule.LIMIT_DISCLOSURES, Rule.JWS_HEADER, Rule.JWS_CRIT, *_JSON)
_JWS = (Rule.JWS_FORMAT, Rule.JWS_HEADER, Rule.JWS_CRIT, *_JSON)
_KEY = (Rule.ISSUER_UNKNOWN, Rule.ISSUER_KEY_UNKNOWN, Rule.X5C_FORMAT, Rule.X5C_CHAIN, Rule.X5C_NAME,
        Rule.KEY_PUBLISHED)  # fmt: skip
_SIGNATURE = (Rule.JWS_ALG, Rule.JWS_CRIT, Rule.JWS_SIGNATURE, Rule.JWS_TYP)
_DIGESTS = (Rule.SD_ALG, Rule.SD_RESERVED_NAME, Rule.SD_DIGEST_LIST, Rule.SD_PLACEHOLDER, Rule.DIGEST_REPEATED,
            Rule.LIMIT_DIGESTS, Rule.DISCLOSURE_FORMAT, Rule.DISCLOSURE_KIND, Rule.DISCLOSURE_NAME,
            Rule.DISCLOSURE_COLLISION, Rule.DISCLOSURE_REPEATED, Rule.DISCLOSURE_UNREFERENCED, *_JSON)  # fmt: skip
_VALUE = (Rule.CLAIM_MISSING, Rule.CLAIM_TYPE, Rule.CLAIM_VALUE)
_HOLDER = (Rule.CNF, Rule.KEY_MALFORMED, Rule.KEY_UNSUPPORTED, Rule.KEY_PRIVATE, Rule.KEY_PUBLISHED, Rule.BASE64URL)
_STYLES = {Outcome.PASSED: "green", Outcome.REFUSED: "bold red"}
_COMPARED = {
    (Rule.KB_AUDIENCE, Part.KB_JWT): "audience",
    (Rule.KB_NONCE, Part.KB_JWT): "nonce",
    (Rule.KB_INTERACTION, Part.KB_JWT): "interaction id",
    (Rule.KB_STALE, Part.KB_JWT): "created",
    (Rule.KB_FROM_FUTURE, Part.KB_JWT): "created",
    (Rule.EXPIRED, Part.ISSUER_JWT): "card valid until",
    (Rule.ISSUER_UNKNOWN, Part.ISSUER_JWT): "issuer",
    (Rule.TOKEN_AUDIENCE, Part.ISSUER_JWT): "card's audience",
}


def compare(refusal: Refused, explanation: Explanation) -> Refused:
    """Add the presented and the expected value, for the Verifier's own terminal."""
    name = _COMPARED.get((refusal.rule, refusal.where.part))
    told = next((one for one in explanation.comparisons if one.name == name), None)
    if told is None:
        return refusal
    first, *others = refusal.findings
    hint = f"{first.hint} Presented: {told.presented}. Expected: {told.expected}.".strip()
    return Refused.because([replace(first, hint=hint), *others])


def explain(text: str, expectations: Expectations, now: Instant, spiffe_ids: tuple[str, ...] = ()) -> Explanation:
    """Apply every rule to a presentation, and go on after a refusal."""
    steps, expected = Steps(), expectations.key_binding
    arrived: SdJwt | SdJwtWithKeyBinding | None = None
    with steps.take("parts", *_PARTS):
        arrived = parse_sd_jwt(text, expectations.limits)
    with steps.take("key binding is as expected", Rule.KB_MISSING, Rule.KB_UNEXPECTED):
        if isinstance(reached(arrived), SdJwt) is not isinstance(expected, Unbound):
            unexpected = isinstance(expected, Unbound)
            raise Refused(Rule.KB_UNEXPECTED, _KB) if unexpected else Refused(Rule.KB_MISSING, Where(Part.PRESENTATION))
    sd_jwt = arrived.sd_jwt if isinstance(arrived, SdJwtWithKeyBinding) else arrived
    issued = _explain_issued(steps, sd_jwt, expectations, now)
    kb: JsonObject | None = None
    if isinstance(arrived, SdJwtWithKeyBinding) and not isinstance(expected, Unbound):
        kb = _explain_key_binding(steps, arrived.kb_jwt, issued, expected, expectations.limits.json_depth, now)
    claims = issued.processed.claims if issued.processed else None
    logged = _explain_log(steps, sd_jwt, kb, expectations.log, now)
    _explain_status(steps, claims, expectations.status, now)
    with steps.take("SPIFFE ID", Rule.POLICY_SPIFFE_ID, needed=bool(spiffe_ids)):
        check_spiffe_id(reached(claims), spiffe_ids)
    return Explanation(tuple(steps), (*_comparisons(claims, kb, expectations, now), *logged))


@dataclass(slots=True)
class _Issued:
    """Results of the steps about the SD-Card."""

    processed: ProcessedPayload | None = None
    holder_key: PublicKey | None = None
    sd_hash: str | None = None


def _explain_issued(steps: Steps, sd_jwt: SdJwt | None, expectations: Expectations, now: Instant) -> _Issued:
    issuers, profile, limits = expectations.issuers, expectations.profile, expectations.limits
    jws: Jws | None = None
    key: PublicKey | None = None
    read = _Issued()
    with steps.take("trust document is current", Rule.TRUST_EXPIRED):
        issuers.check_current(now)
    with steps.take("issuer JWT", *_JWS):
        jws = parse_jws(reached(sd_jwt).issuer_jwt, Part.ISSUER_HEADER, Part.ISSUER_JWT, limits.json_depth)
    with steps.take("issuer's key", *_KEY):
        found = issuers.key_for(reached(jws).payload.get("iss"), reached(jws).header, now)
        check_not_published(found, expectations.published_keys, Where(Part.ISSUER_HEADER, ("kid",)))
        key = found
    with steps.take("issuer's signature", *_SIGNATURE):
        verify_jws(reached(jws), reached(key), profile.accepted_types)
    with steps.take("disclosures", *_DIGESTS):
        read.processed = process_payload(reached(jws).payload, reached(sd_jwt).disclosures, limits)
        read.sd_hash = read.processed.algorithm.digest(str(sd_jwt))
    with steps.take("claims in the clear", Rule.CLAIM_NOT_IN_CLEAR, Rule.CLAIM_MISSING):
        check_in_clear(reached(read.processed), profile.required)
    claims = read.processed.claims if read.processed else None
    _explain_claims(steps, claims, expectations, now)
    with steps.take("holder's key", *_HOLDER):
        holder = parse_confirmed_key(reached(claims).get(CNF), _ISSUED.within(CNF))
        check_not_published(holder, expectations.published_keys, _ISSUED.within(CNF, "jwk"))
        read.holder_key = holder
    with steps.take("issuer, subject and format", Rule.CLAIM_TYPE, Rule.CLAIM_VALUE):
        for name in {"iss", "sub", "card_format"} & reached(claims).keys():
            check_text(reached(claims), name)
    required = expectations.required_checks
    with steps.take("checks of the issuer", Rule.POLICY_CHECK, Rule.CLAIM_TYPE, Rule.CLAIM_VALUE):
        if missing := missing_checks(read_issuer_checks(reached(claims)), required):
            raise Refused.because(missing)
    return read


def _explain_claims(steps: Steps, claims: JsonObject | None, expectations: Expectations, now: Instant) -> None:
    skew, longest, expected = expectations.clock_skew, expectations.max_lifetime, expectations.key_binding
    with steps.take("card has not expired", Rule.EXPIRED, *_VALUE):
        check_not_expired(reached(claims), now - skew, _ISSUED)
    with steps.take("card is valid already", Rule.NOT_YET_VALID, *_VALUE):
        check_already_valid(reached(claims), now + skew, _ISSUED)
    with steps.take("card was issued", Rule.ISSUED_IN_FUTURE, *_VALUE):
        check_already_issued(reached(claims), now + skew, _ISSUED)
    with steps.take("card is for this verifier", Rule.TOKEN_AUDIENCE, *_VALUE):
        check_addressed(reached(claims), None if isinstance(expected, Unbound) else expected.audience, _ISSUED)
    with steps.take("card's lifetime", Rule.LIFETIME, needed=longest is not None):
        ends, begins = (read_numeric_date(reached(claims), name, _ISSUED) for name in ("exp", "iat"))
        if longest is not None and ends - begins > longest:
            raise Refused(Rule.LIFETIME, _ISSUED.within("exp"))
    with steps.take("card's type", Rule.VCT, *_VALUE):
        if "vct" in reached(claims) and check_text(reached(claims), "vct") not in expectations.profile.accepted_vcts:
            raise Refused(Rule.VCT, _ISSUED.within("vct"))


def _explain_key_binding(
    steps: Steps, kb_jwt: str, issued: _Issued, expected: Answering | Unsolicited, depth: int, now: Instant
) -> JsonObject | None:
    jws: Jws | None = None
    with steps.take("KB-JWT", *_JWS):
        jws = parse_jws(kb_jwt, Part.KB_HEADER, Part.KB_JWT, depth)
    claims = jws.payload if jws else None
    with steps.take("holder's signature", *_SIGNATURE):
        verify_jws(reached(jws), reached(issued.holder_key), (KB_TYP,))
    with steps.take("KB-JWT is fresh", Rule.KB_STALE, Rule.KB_FROM_FUTURE, *_VALUE):
        check_freshness(reached(claims), expected.window, now, _KB, Rule.KB_STALE, Rule.KB_FROM_FUTURE)
    with steps.take("nonce", Rule.KB_NONCE, Rule.KB_PURPOSE, *_VALUE):
        nonce = read_nonce(reached(claims), "nonce", _KB, Rule.CLAIM_VALUE)
        if isinstance(expected, Answering) and not same_text(nonce, expected.challenge.nonce):
            raise Refused(Rule.KB_NONCE, _KB.within("nonce"))
        if isinstance(expected, Unsolicited) and nonce.startswith(AGENT_NONCE):
            raise Refused(Rule.KB_PURPOSE, _KB.within("nonce"))
    with steps.take("audience", Rule.KB_AUDIENCE, *_VALUE):
        check_equal(reached(claims), "aud", expected.audience, _KB, Rule.KB_AUDIENCE)
    with steps.take("made for this text", Rule.KB_SD_HASH, *_VALUE):
        check_equal(reached(claims), SD_HASH, reached(issued.sd_hash), _KB, Rule.KB_SD_HASH)
    with steps.take("interaction", Rule.KB_INTERACTION, *_VALUE):
        given = required_text(reached(claims), INTERACTION_ID, _KB) if INTERACTION_ID in reached(claims) else None
        if expected.interaction_id is not None and given != expected.interaction_id:
            raise Refused(Rule.KB_INTERACTION, _KB.within(INTERACTION_ID))
    with steps.take("KB-JWT has not expired", Rule.EXPIRED, *_VALUE):
        check_not_expired(reached(claims), now, _KB, "The KB-JWT has expired.")
    with steps.take("KB-JWT is valid already", Rule.NOT_YET_VALID, *_VALUE):
        check_already_valid(reached(claims), now, _KB, "The KB-JWT is not valid yet.")
    return claims


def _explain_log(
    steps: Steps, sd_jwt: SdJwt | None, kb: JsonObject | None, log: LogDecision, now: Instant
) -> list[Comparison]:
    is_needed = isinstance(log, InLog)
    proof: LogProof | None = None
    checkpoint: Checkpoint | None = None
    policy = log.policy if isinstance(log, InLog) else None
    with steps.take("proof of a log", Rule.LOG_PROOF_MISSING, Rule.CLAIM_TYPE, Rule.LIMIT_BYTES, Rule.LOG_PROOF,
                    needed=is_needed):  # fmt: skip
        if isinstance(log, InLog):
            attached = required_text(kb, LOG_PROOF, _KB) if kb is not None and LOG_PROOF in kb else None
            proof = parse_log_proof(given_proof(log, attached))
    with steps.take("checkpoint of the log", Rule.LIMIT_BYTES, Rule.LOG_CHECKPOINT, needed=is_needed):
        checkpoint = parse_checkpoint(reached(proof).checkpoint)
    with steps.take("signature of the log", Rule.LOG_UNKNOWN, Rule.LOG_SIGNATURE, needed=is_needed):
        reached(policy).check_log(reached(checkpoint))
    with steps.take("witnesses of the log", Rule.LOG_SIGNATURE, Rule.LOG_WITNESSES, needed=is_needed):
        reached(policy).check_witnesses(reached(checkpoint), now)
    with steps.take("SD-Card is in the log", Rule.LOG_INCLUSION, needed=is_needed):
        check_included(reached(proof), reached(checkpoint), reached(sd_jwt).issuer_jwt)
    if policy is None or proof is None or checkpoint is None or sd_jwt is None:
        return []
    return [*_compare_leaf(policy, proof, checkpoint, sd_jwt.issuer_jwt), *_compare_witnesses(policy, checkpoint, now)]


def _compare_leaf(policy: LogPolicy, proof: LogProof, checkpoint: Checkpoint, issuer_jwt: str) -> list[Comparison]:
    size, trusted = checkpoint.size, dict.fromkeys(key.name for key in policy.logs)
    try:
        root = encode_base64(proven_root(proof, size, issuer_jwt))
    except Refused:
        root = "none: the path has not the length of this leaf"
    return [
        Comparison("log", checkpoint.origin[:_MOST], f"one of: {', '.join(trusted)}"[:_MOST]),
        Comparison("leaf", f"{proof.index} of {size}; hashes of the path: {len(proof.path)}", "below the tree size"),
        Comparison("root of the path", root, encode_base64(checkpoint.root)),
    ]


def _compare_witnesses(policy: LogPolicy, checkpoint: Checkpoint, now: Instant) -> list[Comparison]:
    seen = {name: _cosigned(policy, name, checkpoint, now + MAX_SKEW) for name in policy.witnesses}
    times = [at for at in seen.values() if isinstance(at, int) and at <= now + MAX_SKEW]
    listed = [
        Comparison(f"witness {name}", _aged(at, now) if isinstance(at, int) else at, f"at most {MAX_SKEW} s ahead")
        for name, at in seen.items()
    ]
    newest = _aged(max(times), now) if times else "nothing"
    return [
        *listed,
        Comparison("witnesses that cosigned", str(len(times)), _quorum(policy, policy.quorum)[:_MOST]),
        Comparison("checkpoint cosigned", newest, "any age: a log never loses a leaf"),
    ]


def _cosigned(policy: LogPolicy, name: str, checkpoint: Checkpoint, latest: Instant) -> int | str:
    try:
        times = [at for _, at in verified_lines(checkpoint, policy.witnesses[name])]
        return max([at for at in times if at <= latest] or times, default="no line")
    except Refused:
        return "a line that its key did not sign"


def _quorum(policy: LogPolicy, name: str | None) -> str:
    group = policy.groups.get(name or "")
    if group is None:
        return name or "none"
    return f"{group.threshold} of ({', '.join(_quorum(policy, one) for one in group.members)})"


def _explain_status(steps: Steps, claims: JsonObject | None, status: Status, now: Instant) -> None:
    reference: StatusReference | None = None
    has_status = claims is None or "status" in claims
    with steps.take("status reference", Rule.STATUS_MALFORMED, needed=has_status):
        reference = parse_status(reached(claims).get("status"))
    is_good = all(step.refusal is None for step in steps)
    is_needed = has_status and not isinstance(status, Unchecked)
    with steps.take("status", Rule.STATUS_REVOKED, Rule.STATUS_SUSPENDED, Rule.STATUS_UNAVAILABLE, needed=is_needed):
        if is_needed and isinstance(status, Checked):
            asked = reached(reference if is_good else None)
            check_status_value(status.source.status(asked, str(reached(claims)["iss"]), now))


def _comparisons(claims: Any, kb: JsonObject | None, expectations: Expectations, now: Instant) -> list[Comparison]:
    expected = expectations.key_binding
    found: list[Comparison] = []
    if claims is not None:
        trusted = ", ".join(expectations.issuers.keys)
        found.append(Comparison("issuer", _shown(claims.get("iss")), f"one of: {trusted}"[:_MOST]))
        found.append(Comparison("card valid until", _aged(claims.get("exp"), now), f"later than {show_instant(now)}"))
        if "aud" in claims:
            mine = "none" if isinstance(expected, Unbound) else expected.audience
            found.append(Comparison("card's audience", _shown(claims["aud"]), mine))
    if kb is None or isinstance(expected, Unbound):
        return found
    window = expected.window
    found.append(Comparison("audience", _shown(kb.get("aud")), expected.audience))
    if isinstance(expected, Answering):
        found.append(Comparison("nonce", _shown(kb.get("nonce")), expected.challenge.nonce))
    allowed = f"at most {window.past} s ago, and at most {window.future} s ahead of {show_instant(now)}"
    found.append(Comparison("created", _aged(kb.get("iat"), now), allowed))
    if expected.interaction_id is not None or INTERACTION_ID in kb:
        found.append(Comparison("interaction id", _shown(kb.get(INTERACTION_ID)), expected.interaction_id or "any"))
    return found


def _shown(value: object) -> str:
    return "nothing" if value is None else str(value)[:_MOST]


def _aged(value: object, now: Instant) -> str:
    if not is_instant(value):
        return "no instant"
    age = int(now - value)
    return f"{show_instant(value)}, {_span(abs(age))} {'ago' if age >= 0 else 'ahead'}"


def _span(seconds: int) -> str:
    """Write a number of seconds for people, with one unit above it."""
    for size, unit in ((86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds} s ({seconds // size} {unit})"
    return f"{seconds} s"


def describe_explanation(explanation: Explanation) -> dict[str, Any]:
    """Return an explanation as JSON: one entry for each rule of each step."""
    return {
        "rules": [
            {
                "step": step.name,
                "rule": rule.value,
                "outcome": outcome.value,
                **({"where": str(step.refusal.where)} if step.refusal and outcome is Outcome.REFUSED else {}),
            }
            for step in explanation.steps
            for rule, outcome in step.outcomes()
        ],
        "comparisons": [
            {"what": one.name, "presented": one.presented, "expected": one.expected} for one in explanation.comparisons
        ],
    }


def show_explanation(explanation: Explanation) -> None:
    """Show an explanation as tables."""
    out = console()
    rows: list[tuple[Text, ...]] = []
    for step in explanation.steps:
        by_outcome: dict[Outcome, list[str]] = {}
        for rule, outcome in step.outcomes():
            by_outcome.setdefault(outcome, []).append(rule.value)
        rows += [
            (cell(step.name), cell(outcome.value, _STYLES.get(outcome, "dim")), cell(" ".join(dict.fromkeys(rules))))
            for outcome, rules in by_outcome.items()
        ]
    out.print(table("Rules", ("step", "outcome", "rules"), rows))
    compared = [(one.name, one.presented, one.expected) for one in explanation.comparisons]
    out.print(table("Compared", ("what", "presented", "expected"), compared))
