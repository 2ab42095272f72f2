"""``sdcard present``: the Holder answers a challenge."""

from pathlib import Path
from typing import Annotated

import typer

from sdcard.acceptance import Acceptance
from sdcard.cli.options import (
    AsJson,
    Now,
    PolicyFile,
    ProfileName,
    complete_contexts,
    find_profile,
    parse_now,
    read_policy,
)
from sdcard.cli.output import print_result, read_sd_jwt
from sdcard.cli.trust import TrustFile, TrustSigner, read_trust
from sdcard.errors import Misuse, Part, Where
from sdcard.holder import HeldSdCard, Selection, accept_sd_card, present, select_all, select_context, select_paths
from sdcard.io.system import MAX_COARSE, SystemSalts
from sdcard.key_binding import Challenge, new_challenge
from sdcard.paths import ClaimPath
from sdcard.policy.model import DisclosurePolicy


def command(
    sd_card: Annotated[str, typer.Argument(metavar="FILE|-", help="The SD-Card; - is standard input.")],
    key: Annotated[Path, typer.Option(help="The private JWK that the SD-Card is bound to.")],
    trust: TrustFile,
    audience: Annotated[str, typer.Option(help="The Verifier, as it calls itself.")],
    trust_signer: TrustSigner = None,
    nonce: Annotated[str | None, typer.Option(help="The Verifier's nonce; left out, one is made.")] = None,
    context: Annotated[
        str | None, typer.Option(autocompletion=complete_contexts, help="Show what this context shows.")
    ] = None,
    policy: PolicyFile = None,
    path: Annotated[list[str] | None, typer.Option(help="Show this claim, such as skills.0 (repeatable).")] = None,
    interaction_id: Annotated[str | None, typer.Option(help="The interaction that this belongs to.")] = None,
    now: Now = None,
    coarse: Annotated[
        int, typer.Option("--round", min=1, max=MAX_COARSE, help="Round the instant down to a multiple of this, in s.")
    ] = 1,
    profile: ProfileName = "sd-card",
    as_json: AsJson = False,
) -> None:
    """Present an SD-Card; without --context and --path, everything that it holds."""
    from sdcard.io.key_files import load_signer

    signer, instant = load_signer(key), parse_now(now)
    acceptance = Acceptance(issuers=read_trust(trust, trust_signer, instant), profile=find_profile(profile))
    held = accept_sd_card(read_sd_jwt(sd_card), acceptance, signer.public_key, instant)
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
