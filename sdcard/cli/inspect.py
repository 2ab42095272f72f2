"""``sdcard inspect``: what is in an SD-Card or presentation.

It does not say whether the content is true.
"""

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from sdcard.cli.output import AsJson, cell, console, print_json, read_sd_jwt, table
from sdcard.limits import DEFAULT_LIMITS as LIMITS
from sdcard.paths import ClaimPath
from sdcard.sdjwt.unverified import read_unverified


def command(
    text: Annotated[str, typer.Argument(metavar="FILE|-", help="The SD-Card; - is standard input.")],
    as_json: AsJson = False,
) -> None:
    """Show what an SD-Card or presentation says."""
    document = describe(read_sd_jwt(text))
    if as_json:
        print_json(document)
    else:
        _show(document)


def describe(text: str) -> dict[str, Any]:
    """Read the parts and put every Disclosure in its place.

    Raises ``Refused`` where the text is no SD-JWT.
    """
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
        out.print(table("KB-JWT", ("claim", "value"), [(k, brief(v)) for k, v in
                                                      document["key_binding"]["payload"].items()]))  # fmt: skip
