"""The folder with the SD-Cards of a registration: chosen, written and reported."""

import hashlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sdcard.acceptance import Acceptance
from sdcard.cli.output import (
    cell,
    console,
    describe_findings,
    print_json,
    print_lines,
    printable,
    show_instant,
    table,
    write_private_file,
)
from sdcard.encoding import JsonObject, encode_json
from sdcard.errors import Misuse, Part, Refused, Where
from sdcard.holder import accept_sd_card
from sdcard.io.agent import keep_promise
from sdcard.io.registry_answers import as_list, as_text, documented
from sdcard.io.system import SystemClock
from sdcard.jose.keys import PublicKey, parse_public_jwk
from sdcard.lenient import lenient_token
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule
from sdcard.sdjwt.verification import read_unverified
from sdcard.transparency.proofs import check_own_proof
from sdcard.trust import TrustedIssuers

if TYPE_CHECKING:
    from sdcard.io.registry_answers import IssuedAnswer, Registered

OPENINGS = "log-openings.json"
"""Beside the SD-Cards: what the leaves of a log about the agent hide."""


@dataclass(frozen=True, slots=True)
class CardFile:
    """The file of an SD-Card, from the request, never from the registry's answer."""

    context: str
    key: PublicKey
    file: Path


def card_files(cards: Sequence[tuple[str, str]], keys: Sequence[PublicKey], out: Path) -> list[CardFile]:
    """Choose a file for each SD-Card, before the registry issues anything.

    Args:
        cards: context and key thumbprint of each.
        keys: the agent's keys.
    """
    if len(set(cards)) < len(cards):
        raise Misuse("the agent has one context for several partners; ask the registry over HTTP")
    if out.exists() and not out.is_dir():
        raise Misuse(f"{out} is a file: --out names a folder for the SD-Cards and trust.json")
    out.mkdir(mode=0o700, parents=True, exist_ok=True)
    files = []
    named, of_contexts = {key.thumbprint: key for key in keys}, [context for context, _ in cards]
    for at, (context, thumbprint) in enumerate(cards):
        number = f"-{of_contexts[:at].count(context)}" if of_contexts.count(context) > 1 else ""
        file = out / f"{context}{number}.sd-card"
        if file.parent != out or file.is_dir():
            raise Misuse(f"no file for the context can be kept in {out}")
        files.append(CardFile(context, named[thumbprint], file))
    return files


def write_trust(out: Path, trust: JsonObject) -> Path:
    """Write the trust document beside the SD-Cards, and return its file."""
    file = out / "trust.json"
    write_private_file(file, encode_json(trust) + b"\n")
    return file


def _document(answer: "Registered", files: Sequence[CardFile], trust: Path) -> dict[str, Any]:
    return {
        "agent_id": answer.agent_id,
        "linkable_by": list(answer.linkable_by),
        "cards": [
            {
                "context": one.context,
                "agreement": one.agreement,
                "file": str(place.file),
                "exp": one.expires_at,
                "key": one.key_thumbprint,
            }
            for place, one in zip(files, answer.cards, strict=True)
        ],
        "trust": str(trust),
        "findings": describe_findings(answer.findings),
    }


def _audience(one: "IssuedAnswer") -> str:
    return f"{one.context}, agreed with {one.agreement}" if one.agreement else one.context


def _show(answer: "Registered", files: Sequence[CardFile], trust: Path) -> None:
    rows = [
        (_audience(one), str(place.file), show_instant(one.expires_at), str(one.claims))
        for place, one in zip(files, answer.cards, strict=True)
    ]
    out = console()
    out.print(table(f"SD-Cards of {answer.agent_id}", ("context", "file", "valid until", "claims"), rows))
    out.print(cell(f"Linkable by: {', '.join(answer.linkable_by) or 'nothing'}. Issuer keys: {trust}"))
    for finding in answer.findings:
        out.print(cell(f"{finding.level}: {finding}", "yellow"))


def save_cards(
    answer: "Registered",
    files: Sequence[CardFile],
    issuers: TrustedIssuers,
    trust: Path,
    supersedes: str,
    as_json: bool,
) -> None:
    """Check every SD-Card, save it, and report it."""
    acceptance, now = Acceptance(issuers=issuers), SystemClock().now()
    for place, issued in zip(files, answer.cards, strict=True):
        accept_sd_card(issued.sd_card, acceptance, place.key, now)
        write_private_file(place.file, issued.sd_card.encode("ascii") + b"\n")
    keep_promise(trust.parent, answer.log_promise, issuers, now)
    _tidy(answer, files, issuers, trust.parent, supersedes == "revoke")
    if as_json:
        print_json(_document(answer, files, trust))
    else:
        _show(answer, files, trust)


def _tidy(answer: "Registered", files: Sequence[CardFile], issuers: TrustedIssuers, folder: Path, ends: bool) -> None:
    """Remove the agent's other SD-Cards in the folder, or name them.

    Those that were revoked are removed. An agent would present them, and a renewal does not renew them.
    """
    written, thumbprints = {one.file for one in files}, {one.key.thumbprint for one in files}
    for file in sorted(folder.glob("*.sd-card")):
        payload = _payload(file) if file not in written else {}
        mine = payload.get("sub") == f"agent:{answer.agent_id}" or _holder(payload) in thumbprints
        if payload.get("iss") not in issuers.keys or not mine:
            continue
        if ends:
            file.unlink()
            said = f"{file} is removed: it was revoked."
        else:
            said = f"{file} is of an earlier registration, and is not renewed: remove it if the agent needs it no more."
        sys.stderr.write(printable(said) + "\n")


def _payload(file: Path) -> JsonObject:
    try:
        return read_unverified(lenient_token(file.read_text("utf-8")), DEFAULT_LIMITS).jws.payload
    except (Refused, UnicodeDecodeError):
        return {}


def _holder(payload: JsonObject) -> str | None:
    confirmation = payload.get("cnf")
    key = confirmation.get("jwk") if isinstance(confirmation, dict) else None
    try:
        return parse_public_jwk(key, Where(Part.ISSUER_JWT)).thumbprint
    except Refused:
        return None


def save_proofs(answer: JsonObject, folder: Path) -> None:
    """Write the proofs of a log beside their SD-Cards, and the openings.

    Args:
        folder: has the SD-Cards.

    Raises:
        Refused: ``log.proof-missing`` when an SD-Card in the folder has no proof yet; ``log.*`` when a proof is not
            about its SD-Card.
    """
    with documented():
        listed = [one for one in as_list(answer["proofs"]) if one["proof"] is not None]
        proofs = {as_text(one["card"]): as_text(one["proof"]) for one in listed}
        openings: JsonObject = {"openings": as_list(answer["openings"])}
    write_private_file(folder / OPENINGS, encode_json(openings) + b"\n")
    late = []
    for file in sorted(folder.glob("*.sd-card")):
        issuer_jwt = lenient_token(file.read_text("utf-8")).partition("~")[0]
        proof = proofs.get(hashlib.sha256(issuer_jwt.encode()).hexdigest())
        if proof is None:
            late.append(file.name)
            continue
        check_own_proof(proof, issuer_jwt)
        beside = file.with_suffix(".tlog-proof")
        write_private_file(beside, proof.encode())
        print_lines(str(beside))
    if late:
        raise Refused(Rule.LOG_PROOF_MISSING, Where(Part.LOG), f"Not in a cosigned checkpoint yet: {', '.join(late)}.")
