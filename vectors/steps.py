"""RFC 9901 7.1 and 7.3 step by step, with the vectors of each step.

A vector belongs to a step when its ``standard`` cites a row of the step.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from sdcard.vectors import ACCEPTED
from vectors.rows import cited

PAGE = "docs/vectors.md"
HEADING = "## RFC 9901, step by step\n"
_TEXT = """
A vector belongs to a step when its `standard` cites a row of the step ([rules.md](rules.md#the-standards-row-by-row)).
**Bold** vectors are accepted, the others are refused. `python -m pages` writes this table.

| step | what it demands | rows | vectors |
|---|---|---|---|
"""


@dataclass(frozen=True, slots=True)
class Step:
    """A step: what it demands, its rows, and whether it must refuse something."""

    number: str
    demand: str
    rows: str
    refuses: bool = True


STEPS = (
    Step("7.1 1", "Separate the Issuer-signed JWT and the Disclosures.", "R-1, R-2, R-5, R-50"),
    Step("7.1 2a", "Accept only secure algorithms that fit the key; never `none`.", "R-51"),
    Step("7.1 2b", "Verify the signature.", "R-52"),
    Step("7.1 2c", "Verify that the key belongs to the Issuer.", "R-53"),
    Step("7.1 2d", "Understand and accept `_sd_alg`; without one it is sha-256.", "R-13, R-54"),
    Step("7.1 3a", "Hash the encoded text of each Disclosure.", "R-55"),
    Step("7.1 3b", "Find the digests in `_sd` of every object, and in `...` of every array element.", "R-56", False),
    Step("7.1 3c i", "Ignore a digest without a Disclosure.", "R-58", False),
    Step("7.1 3c ii.1", "In `_sd`: refuse a Disclosure that does not have three elements.", "R-59"),
    Step("7.1 3c ii.2", "In `_sd`: refuse the names `_sd` and `...`.", "R-60"),
    Step("7.1 3c ii.3", "In `_sd`: refuse a name that exists at this level.", "R-61"),
    Step("7.1 3c ii.4", "In `_sd`: insert the claim at this level.", "R-62", False),
    Step("7.1 3c ii.5, iii.3", "Process the inserted value in the same way.", "R-63", False),
    Step("7.1 3c iii.1", "In an array: refuse a Disclosure that does not have two elements.", "R-64"),
    Step("7.1 3c iii.2", "In an array: put the value in the element's place.", "R-65", False),
    Step("7.1 3d", "Remove array elements whose Disclosure is absent.", "R-66", False),
    Step("7.1 3e", "Remove every `_sd`; an object that becomes empty stays `{}`.", "R-67", False),
    Step("7.1 3f", "Remove `_sd_alg`.", "R-68", False),
    Step("7.1 4", "Refuse a digest that occurs twice, also through Disclosures.", "R-69"),
    Step("7.1 5", "Refuse a Disclosure that no digest refers to.", "R-70"),
    Step("7.1 6", "Check `nbf`, `iat`, `exp` and other claims of the processed payload.", "R-71"),
    Step("7.1 6, 9.7", "Refuse when a required validity claim is absent.", "R-72"),
    Step("7.3 1", "Decide about key binding before reading the presentation.", "R-81"),
    Step("7.3 2", "Refuse an SD-JWT when key binding is required.", "R-82"),
    Step("7.3 3", "Separate the SD-JWT and the KB-JWT.", "R-83", False),
    Step("7.3 4", "Process the SD-JWT by 7.1.", "R-84"),
    Step("7.3 5a", "Find the Holder's key in the SD-JWT.", "R-85"),
    Step("7.3 5b", "Accept only secure algorithms that fit the key; never `none`.", "R-86"),
    Step("7.3 5c", "Verify the signature of the KB-JWT.", "R-87"),
    Step("7.3 5d", "Check that `typ` is `kb+jwt`.", "R-88"),
    Step("7.3 5e", "Check that `iat` is in the window.", "R-89"),
    Step("7.3 5f", "Check `nonce` and `aud`, and single use.", "R-90"),
    Step("7.3 5g", "Recompute `sd_hash`.", "R-91"),
    Step("7.3 5h", "Check the KB-JWT as a JWT in all other respects.", "R-92"),
    Step("7.3", "Without required key binding, a KB-JWT gives no assurance.", "R-93"),
    Step("7.3", "Any failing step makes the presentation invalid.", "R-94", False),
)


def vectors_of(step: Step, files: Mapping[str, bytes]) -> dict[str, bool]:
    """Name of each vector of the step, and whether it is accepted."""
    rows, found = set(cited(step.rows)), dict[str, bool]()
    for path, data in files.items():
        vector = json.loads(data)
        if vector["kind"] in ("verify", "accept") and rows.intersection(cited(vector["standard"])):
            found[path.removeprefix("vectors/").removesuffix(".json")] = vector["expect"] == ACCEPTED
    return found


def steps_page(page: str, files: Mapping[str, bytes]) -> str:
    """The page about vectors: its text is kept, the table at its end is made."""
    text = page.partition(HEADING)[0] + HEADING + _TEXT
    for step in STEPS:
        found = vectors_of(step, files)
        links = [f"[{name}](../vectors/{name}.json)" for name in sorted(found)]
        marked = [f"**{link}**" if found[name] else link for name, link in zip(sorted(found), links, strict=True)]
        text += f"| {step.number} | {step.demand} | {step.rows} | {', '.join(marked)} |\n"
    return text
