"""Texts of ``sdcard agents show`` and ``sdcard agents domains`` for people.

Lines instead of tables: ids, thumbprints and values are long, and are copied.
"""

from collections.abc import Iterator
from typing import Any

from sdcard.cli.output import cell, console, print_lines, show_instant
from sdcard.encoding import JsonObject
from sdcard.io.registry_answers import as_count, as_list, as_text, documented, read_findings


def show_agent(known: JsonObject) -> None:
    """Print an agent, as ``Registry.agent`` returns it.

    Raises:
        Misuse: for an answer of another shape.
    """
    with documented():
        lines = [*_facts(known), *_keys(known), *_contexts(known), *_batches(known)]
    print_lines(*lines)


def _facts(known: JsonObject) -> Iterator[str]:
    yield f"{as_text(known['agent_id'])}, {as_text(known['card_format'])}"
    yield f"registered   {_instant(known['registered_at'])}, last issued {_instant(known['updated_at'])}"
    yield f"in grants    {as_text(known['sub'])}"
    if known["token_expires_at"] is not None:
        yield f"token ends   {_instant(known['token_expires_at'])}"


def _keys(known: JsonObject) -> Iterator[str]:
    for number, thumbprint in enumerate(as_list(known["key_thumbprints"] or [])):
        yield f"key {number:<8} {as_text(thumbprint)}"
    yield f"possession   {as_text(known['possession'])}"


def _contexts(known: JsonObject) -> Iterator[str]:
    for one in as_list(known["disclosure_contexts"] or []):
        partner = f" for {as_text(one['partner'])}" if "partner" in one else ""
        keys = f", keys {', '.join(map(str, as_list(one['keys'])))}" if "keys" in one else ""
        claims = f": only {', '.join(map(as_text, as_list(one['disclose'])))}" if "disclose" in one else ""
        yield f"context      {as_text(one['context'])}{partner}{keys}{claims}"


def _batches(known: JsonObject) -> Iterator[str]:
    for batch in as_list(known["batches"]):
        yield ""
        yield f"batch        {as_text(batch['batch_id'])}, issued {_instant(batch['issued_at'])}"
        for one in as_list(batch["contexts"]):
            counts = ", ".join(f"{as_count(one[state])} {state}" for state in ("valid", "suspended", "revoked"))
            yield f"  {as_text(one['context']):<10} {counts}; until {_instant(one['expires_at'])}"
    if not known["batches"]:
        yield "No SD-Card is left that has not expired; `sdcard agents renew` gets new ones."
    if known["more_batches"]:
        yield "There are older Batches that have not expired."


def show_domains(known: JsonObject) -> None:
    """Print the hosts of an agent, as ``Registry.domains`` returns them.

    Raises:
        Misuse: for an answer of another shape.
    """
    with documented():
        lines = [*_checks(known), *(line for host in as_list(known["hosts"]) for line in _host(host))]
        findings = read_findings(known["findings"])
    print_lines(*lines)
    out = console()
    if findings:
        out.print()
    for one in findings:
        out.print(cell(f"{one.level}: {one.rule} at {one.where}"))
        out.print(cell(f"{one.rule.sentence} {one.hint}".rstrip()))


def _checks(known: JsonObject) -> Iterator[str]:
    checked, following = known["checked_at"], known["next_check_at"]
    last = "not checked yet" if checked is None else f"last checked {_instant(checked)}"
    yield f"{as_text(known['agent_id'])}, {last}{'' if following is None else f', again {_instant(following)}'}"
    if not known["checks_domains"]:
        yield "This registry does not check control of hosts."
    if not known["hosts"]:
        yield "The card has no host that can be proved."


def _host(host: Any) -> Iterator[str]:
    ways = " and ".join(map(as_text, as_list(host["ways"])))
    yield ""
    yield f"{as_text(host['host'])}: {f'proved by {ways}' if host['proved'] else 'not proved'}"
    yield f"  file       {as_text(host['file'])}"
    yield f"  or TXT     {as_text(host['txt'])}"
    for value in as_list(host["values"]):
        yield f"  value      {as_text(value)}"


def _instant(value: Any) -> str:
    return show_instant(as_count(value))
