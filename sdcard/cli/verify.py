"""``sdcard present`` and ``sdcard verify``."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, TypeAlias

import typer
from rich.text import Text

from sdcard.acceptance import Acceptance
from sdcard.cli.app import EXIT_REFUSED
from sdcard.cli.keys import (
    FetchStatus,
    Networks,
    Refresh,
    StatusUnchecked,
    TrustFile,
    TrustSigner,
    decide_status,
    read_egress_policy,
    read_trust,
)
from sdcard.cli.options import (
    AsJson,
    Now,
    PolicyFile,
    ProfileName,
    RequireCheck,
    RequireSpiffeId,
    complete_contexts,
    find_profile,
    parse_now,
    read_policy,
)
from sdcard.cli.output import (
    cell,
    console,
    describe_refusal,
    print_json,
    print_result,
    read_document,
    read_sd_jwt,
    show_instant,
    table,
)
from sdcard.encoding import JsonObject
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.holder import (
    HeldSdCard,
    Selection,
    accept_sd_card,
    present,
    select_all,
    select_context,
    select_paths,
    with_log_proof,
)
from sdcard.io.system import MAX_COARSE, SystemSalts
from sdcard.key_binding import Answering, Bound, Challenge, ConsumedByCaller, KeyBinding, Unbound, new_challenge
from sdcard.limits import DEFAULT_LIMITS as LIMITS
from sdcard.paths import ClaimPath
from sdcard.policy.model import DisclosurePolicy
from sdcard.sdjwt.verification import read_unverified
from sdcard.spiffe import check_entries, check_spiffe_id
from sdcard.status_list import Unchecked
from sdcard.transparency.policy import parse_log_policy
from sdcard.transparency.proofs import NOT_ASKED, Inclusion, InLog, LogDecision, LogNotAsked
from sdcard.trust import TrustedIssuers
from sdcard.verifier import Expectations, VerifiedCard, verify_presentation

if TYPE_CHECKING:
    from sdcard.cli.steps import Explanation
    from sdcard.io.published_keys import IssuerKeys

LogPolicyFile: TypeAlias = Annotated[
    str | None, typer.Option(help="A file with a log policy: demand a proof that one of its logs has the SD-Card.")
]
LogProofFile: TypeAlias = Annotated[
    str | None, typer.Option(help="A file with a proof that a transparency log has the SD-Card.")
]
ExpectedAudience: TypeAlias = Annotated[
    str | None, typer.Option(help="The Verifier's own name: the expected `aud`. Required without --unbound.")
]
ExpectedNonce: TypeAlias = Annotated[
    str | None,
    typer.Option(help="The nonce that the Verifier sent. Use it once: it is not recorded. Required without --unbound."),
]
NotBound: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--unbound", metavar="REASON", help="Expect no key binding, for this reason; without --audience and --nonce."
    ),
]

# -- ``sdcard verify`` and ``sdcard inspect`` -------------------------------------------------------------------------


def inspect(
    text: Annotated[str, typer.Argument(metavar="FILE|-", help="The SD-Card; - is standard input.")],
    as_json: AsJson = False,
) -> None:
    """Show what an SD-Card or presentation says."""
    document = describe_unverified(read_sd_jwt(text))
    if as_json:
        print_json(document)
    else:
        _show(document)


def describe_unverified(text: str) -> dict[str, Any]:
    """Read the parts, and put every Disclosure in its place."""
    read = read_unverified(text, LIMITS)
    jws, processed, kb = read.jws, read.processed, read.kb_jwt
    key_binding = {"header": kb.header, "payload": kb.payload} if kb else None
    return {
        "verified": False,
        "kind": "SD-JWT+KB" if key_binding else "SD-JWT",
        "issuer_header": jws.header,
        "issuer_payload": jws.payload,
        "disclosures": [
            {
                "place": str(ClaimPath(one.place)),
                "digest": processed.algorithm.digest(one.disclosure.encoded),
                "value": one.disclosure.value,
            }
            for one in processed.revealed
        ],
        "hidden": processed.hidden,
        "claims": processed.claims,
        "key_binding": key_binding,
    }


def _show(document: dict[str, Any]) -> None:
    def brief(value: object) -> str:
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= 120 else text[:119] + "…"

    clear = [(name, brief(value)) for name, value in document["issuer_payload"].items() if name != "_sd"]
    shown = [(one["place"], one["digest"][:8] + "…", brief(one["value"])) for one in document["disclosures"]]
    out = console()
    header = document["issuer_header"]
    out.print(Text.assemble((document["kind"], "bold"), "  ", cell(brief(header)), "  ", ("not verified", "yellow")))
    out.print(table("In the clear", ("claim", "value"), clear))
    out.print(table("Disclosures", ("place", "digest", "value"), shown))
    out.print(cell(f"{document['hidden']} digests have no disclosure here: decoys, or members not shown."))
    if document["key_binding"]:
        payload = document["key_binding"]["payload"]
        out.print(table("KB-JWT", ("claim", "value"), [(name, brief(value)) for name, value in payload.items()]))


# -- ``sdcard verify`` ------------------------------------------------------------------------------------------------


def command(
    presentation: Annotated[str, typer.Argument(metavar="FILE|-", help="The presentation; - is standard input.")],
    trust: TrustFile,
    trust_signer: TrustSigner = None,
    refresh: Refresh = False,
    audience: ExpectedAudience = None,
    nonce: ExpectedNonce = None,
    unbound: NotBound = None,
    status: FetchStatus = False,
    status_unchecked: StatusUnchecked = None,
    network: Networks = None,
    log_policy: LogPolicyFile = None,
    log_proof: LogProofFile = None,
    interaction_id: Annotated[str | None, typer.Option(help="The expected interaction id.")] = None,
    now: Now = None,
    require_check: RequireCheck = None,
    require_spiffe_id: RequireSpiffeId = None,
    profile: ProfileName = "sd-card",
    explained: Annotated[
        bool, typer.Option("--explain", help="Show every rule with its outcome, and the compared values.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Verify a presentation."""
    from sdcard.cli.explain import describe_explanation, explain, show_explanation

    expected, spiffe_ids = _decide_key_binding(audience, nonce, unbound, interaction_id), tuple(require_spiffe_id or ())
    check_entries(spiffe_ids)
    at, text, log = parse_now(now), read_sd_jwt(presentation), decide_log(log_policy, log_proof)
    listed = read_trust(trust, trust_signer, at)
    keys = _present_keys(listed, network) if refresh else None
    expectations = Expectations(
        issuers=keys.for_presentation(text, at) if keys else listed,
        profile=find_profile(profile),
        key_binding=expected,
        status=decide_status(status, status_unchecked, keys or listed, network),
        required_checks=tuple(require_check or ()),
        log=log,
    )
    try:
        card = verify_presentation(text, expectations, at)
        check_spiffe_id(card.members, spiffe_ids)
    except Refused as refusal:
        _refuse(refusal, explain(text, expectations, at, spiffe_ids), explained, as_json)
    if as_json:
        told = {"explanation": describe_explanation(explain(text, expectations, at, spiffe_ids))} if explained else {}
        print_json({**describe(card), **told})
        return
    if explained:
        show_explanation(explain(text, expectations, at, spiffe_ids))
    show_card(card)
    if not refresh:
        console().print(cell("Issuer keys: from the trust document; --refresh fetches the current keys.", "dim"))


def _refuse(refusal: Refused, explanation: "Explanation", explained: bool, as_json: bool) -> NoReturn:
    """Tell a refusal, with the explanation if it is asked for."""
    from sdcard.cli.explain import compare, describe_explanation, show_explanation

    compared = compare(refusal, explanation)
    if explained and as_json:
        print_json({**describe_refusal(compared), "explanation": describe_explanation(explanation)})
        raise typer.Exit(EXIT_REFUSED) from None
    if explained:
        show_explanation(explanation)
    raise compared from None


def _decide_key_binding(
    audience: str | None, nonce: str | None, unbound: str | None, interaction_id: str | None
) -> KeyBinding:
    if unbound is not None and audience is None and nonce is None and interaction_id is None:
        return Unbound(unbound)
    if unbound is None and audience is not None and nonce is not None:
        return Answering(Challenge(nonce, audience, interaction_id=interaction_id), ConsumedByCaller())
    raise Misuse("give --audience and --nonce, or --unbound REASON alone")


def _present_keys(listed: TrustedIssuers, network: Networks) -> "IssuerKeys":
    from sdcard.io.published_keys import IssuerKeys

    return IssuerKeys(listed, read_egress_policy(network))


def decide_log(policy: str | None, proof: str | None) -> LogDecision:
    """Read the policy about logs, and a proof beside the presentation."""
    if policy is None:
        if proof is not None:
            raise Misuse("--log-proof is checked with --log-policy")
        return NOT_ASKED
    attached = None if proof is None else read_document(proof, Part.LOG)
    return InLog(parse_log_policy(read_document(policy, Part.LOG)), attached)


def describe(card: VerifiedCard) -> dict[str, Any]:
    """Return a verified card as JSON."""
    binding = card.key_binding
    return {
        "verified": True,
        "issuer": card.issuer,
        "subject": card.subject,
        "card_format": card.card_format,
        "issued_at": card.issued_at,
        "expires_at": card.expires_at,
        "holder_key": card.holder_key.thumbprint,
        "key_binding": {
            "audience": binding.audience,
            "issued_at": binding.issued_at,
            "interaction_id": binding.interaction_id,
        }
        if isinstance(binding, Bound)
        else {"unbound": binding.reason},
        "status": {"unchecked": card.status.reason} if isinstance(card.status, Unchecked) else "checked",
        "issuer_checks": None if card.issuer_checks is None else [*card.issuer_checks],
        **(
            {}
            if isinstance(card.log, LogNotAsked)
            else {"log": {**asdict(card.log), "witnesses": dict(card.log.witnesses)}}
        ),
        "hidden": card.hidden,
        "complete": not card.missing,
        "missing": [str(finding.where) for finding in card.missing],
        "members": card.members,
    }


def show_card(card: VerifiedCard, title: str = "Verified") -> None:
    """Show a verified card as tables."""
    binding = card.key_binding
    if isinstance(binding, Bound):
        bound = f"signed {show_instant(binding.issued_at)} for {binding.audience}"
    else:
        bound = f"none: {binding.reason}"
    facts = [
        ("issuer", card.issuer),
        ("subject", card.subject),
        ("format", card.card_format or "not said"),
        ("valid until", show_instant(card.expires_at)),
        ("key binding", bound),
        ("status", f"not checked: {card.status.reason}" if isinstance(card.status, Unchecked) else "checked"),
        ("checked by the issuer", describe_checks(card)),
        ("transparency log", _logged(card.log)),
        ("digests without a disclosure", f"{card.hidden} (decoys, or members not shown)"),
        ("a whole card", "no: members that its format requires are not shown" if card.missing else "yes"),
    ]
    console().print(table(title, ("what", "value"), facts))
    show_members("Disclosed members", card.members)


def describe_checks(card: VerifiedCard) -> str:
    """Say what the Issuer checked before it signed."""
    return "not said" if card.issuer_checks is None else ", ".join(card.issuer_checks) or "nothing"


def _logged(log: Inclusion | LogNotAsked) -> str:
    if isinstance(log, LogNotAsked):
        return "not asked for"
    witnesses = ", ".join(f"{name} at {show_instant(at)}" for name, at in log.witnesses)
    return f"leaf {log.index} of {log.size} in {log.origin}; cosigned by {witnesses or 'no witness'}"


def show_members(title: str, members: JsonObject) -> None:
    """Show members of a card as a table."""
    console().print(table(title, ("member", "value"), [(n, _brief(v)) for n, v in sorted(members.items())]))


def _brief(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 300 else text[:299] + "…"


# -- ``sdcard present``: the Holder answers a challenge ---------------------------------------------------------------


def present_card(
    sd_card: Annotated[str, typer.Argument(metavar="FILE|-", help="The SD-Card; - is standard input.")],
    key: Annotated[Path, typer.Option(help="The private JWK that the SD-Card is bound to.")],
    trust: TrustFile,
    audience: Annotated[str, typer.Option(help="The Verifier's own name: the value of `aud`.")],
    trust_signer: TrustSigner = None,
    nonce: Annotated[
        str | None,
        typer.Option(help="The nonce that the Verifier sent. Without it, a random one: most Verifiers refuse that."),
    ] = None,
    context: Annotated[
        str | None,
        typer.Option(
            autocompletion=complete_contexts, help="Show only the claims that the policy shows in this context."
        ),
    ] = None,
    policy: PolicyFile = None,
    path: Annotated[list[str] | None, typer.Option(help="Show this claim, such as skills.0 (repeatable).")] = None,
    log_proof: LogProofFile = None,
    interaction_id: Annotated[
        str | None, typer.Option(help="The id of the interaction that the presentation belongs to.")
    ] = None,
    now: Now = None,
    coarse: Annotated[
        int,
        typer.Option(
            "--round", min=1, max=MAX_COARSE, help="Round the signing time down to a multiple of this many seconds."
        ),
    ] = 1,
    profile: ProfileName = "sd-card",
    as_json: AsJson = False,
) -> None:
    """Present an SD-Card; without --context and --path, everything that it holds."""
    from sdcard.io.key_files import load_signer

    signer, instant = load_signer(key), parse_now(now)
    acceptance = Acceptance(issuers=read_trust(trust, trust_signer, instant), profile=find_profile(profile))
    held = accept_sd_card(read_sd_jwt(sd_card), acceptance, signer.public_key, instant)
    if log_proof is not None:
        held = with_log_proof(held, read_document(log_proof, Part.LOG))
    selection = _select(held, context, read_policy(policy), path or [])
    if nonce is None:
        challenge = new_challenge(audience, SystemSalts(), interaction_id=interaction_id)
    else:
        challenge = Challenge(nonce, audience, interaction_id=interaction_id)
    text = str(present(held, selection, challenge, signer, instant // coarse * coarse))
    print_result(
        as_json, {"presentation": text, "nonce": challenge.nonce, "disclosures": len(selection.disclosures)}, text
    )


def _select(held: HeldSdCard, context: str | None, policy: DisclosurePolicy, paths: list[str]) -> Selection:
    if context is not None and paths:
        raise Misuse("give --context or --path, not both")
    if context is not None:
        return select_context(held, policy, context)
    if paths:
        where = Where(Part.REQUEST, ("paths",))
        return select_paths(held, [ClaimPath.parse(text, where.within(i)) for i, text in enumerate(paths)])
    return select_all(held)
