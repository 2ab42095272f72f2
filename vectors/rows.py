"""Rows of the standards by number, with their sections and their treatment.

R is RFC 9901, VC is SD-JWT VC, HAIP is OpenID's profile of it. Who sees to a row follows from the docstrings that cite
it; ``ELSEWHERE`` is for the others. Tests prove that the rows are those of the list, and that none is forgotten.
"""

import re
from collections.abc import Iterator

SECTIONS = {
    "RFC 9901 4": "R-1 to R-5, R-78",
    "RFC 9901 4.1, 9.1": "R-6",
    "RFC 9901 4.1": "R-7, R-8, R-10",
    "RFC 9901 4.1, 9.11": "R-9",
    "RFC 9901 4.1.1": "R-11 to R-14",
    "RFC 9901 4.1.2": "R-15",
    "RFC 9901 4.2.1": "R-16 to R-21",
    "RFC 9901 4.2.2": "R-22",
    "RFC 9901 4.2.3": "R-23, R-24",
    "RFC 9901 4.2.4.1": "R-25 to R-27",
    "RFC 9901 4.2.4.2": "R-28",
    "RFC 9901 4.2.5": "R-29",
    "RFC 9901 4.2.6": "R-31, R-79",
    "RFC 9901 4.3": "R-41 to R-45, R-48",
    "RFC 9901 4.3.1": "R-46, R-47",
    "RFC 9901 4.3.2": "R-49",
    "RFC 9901 7.1 1": "R-50",
    "RFC 9901 7.1 2a": "R-51",
    "RFC 9901 7.1 2b": "R-52",
    "RFC 9901 7.1 2c": "R-53",
    "RFC 9901 7.1 2d": "R-54",
    "RFC 9901 7.1 3a": "R-55",
    "RFC 9901 7.1 3b": "R-56",
    "RFC 9901 7.1 3c i": "R-58",
    "RFC 9901 7.1 3c ii.1": "R-59",
    "RFC 9901 7.1 3c ii.2": "R-60",
    "RFC 9901 7.1 3c ii.3": "R-61",
    "RFC 9901 7.1 3c ii.4": "R-62",
    "RFC 9901 7.1 3c ii.5, iii.3": "R-63",
    "RFC 9901 7.1 3c iii.1": "R-64",
    "RFC 9901 7.1 3c iii.2": "R-65",
    "RFC 9901 7.1 3d": "R-66",
    "RFC 9901 7.1 3e": "R-67",
    "RFC 9901 7.1 3f": "R-68",
    "RFC 9901 7.1 4": "R-69",
    "RFC 9901 7.1 5": "R-70",
    "RFC 9901 7.1 6": "R-71",
    "RFC 9901 7.1 6, 9.7": "R-72",
    "RFC 9901 7.1": "R-73, R-74",
    "RFC 9901 7.2": "R-75, R-76",
    "RFC 9901 7.2 2": "R-77",
    "RFC 9901 7.2 3-5": "R-80",
    "RFC 9901 7.3 1, 9.5": "R-81",
    "RFC 9901 7.3 2": "R-82",
    "RFC 9901 7.3 3": "R-83",
    "RFC 9901 7.3 4": "R-84",
    "RFC 9901 7.3 5a": "R-85",
    "RFC 9901 7.3 5b": "R-86",
    "RFC 9901 7.3 5c": "R-87",
    "RFC 9901 7.3 5d": "R-88",
    "RFC 9901 7.3 5e": "R-89",
    "RFC 9901 7.3 5f": "R-90",
    "RFC 9901 7.3 5g": "R-91",
    "RFC 9901 7.3 5h": "R-92",
    "RFC 9901 7.3": "R-93, R-94",
    "RFC 9901 8": "R-95",
    "RFC 9901 8.1": "R-96 to R-98, R-100",
    "RFC 9901 8.3": "R-99",
    "RFC 9901 8.4": "R-102",
    "RFC 9901 9.3": "R-32",
    "RFC 9901 9.4": "R-33",
    "RFC 9901 9.7": "R-34",
    "RFC 9901 9.8": "R-35",
    "RFC 9901 9.12": "R-40",
    "RFC 9901 10.1": "R-36, R-37",
    "RFC 9901 10.2": "R-38",
    "RFC 9901 10.3": "R-39",
    "RFC 9901 10.4": "R-30",
    "RFC 8259, RFC 7515 4, RFC 7519 4": "R-57",
    "RFC 7515 7.2.1": "R-101",
    "SD-JWT VC": "VC-1 to VC-23",
    "HAIP 1.0": "HAIP-1 to HAIP-9",
}
"""Section → its rows."""

NOT_SUPPORTED = "[not supported](not-supported.md): "
_TYPE_METADATA = NOT_SUPPORTED + "type metadata"

ELSEWHERE = {
    "R-39": "the sender of a presentation: we open no connection for one, and put none into a URL",
    "R-40": "`sdcard/io/key_files.py` for keys in files, `sdcard/jose/jws.py` for keys elsewhere; rotation: "
    "[post-quantum](post-quantum.md)",
    "VC-4": NOT_SUPPORTED + "`aka_vcts` is never looked at, so it gives nobody authority",
    "VC-6": "stricter: our profiles require `sub` and `iat` in the clear, `sdcard/profile.py`",
    "VC-9": NOT_SUPPORTED + "an SD-Card without `iss`",
    **dict.fromkeys(("VC-16", "VC-17", "VC-18", "VC-19", "VC-20", "VC-21"), _TYPE_METADATA),
    "VC-23": "no member of a card is binary; its readers treat its texts as untrusted",
    "HAIP-5": "verified against listed roots: `sdcard/jose/certificates.py`; our registry sends none",
    "HAIP-7": NOT_SUPPORTED + "OpenID4VCI: nothing in it is about SD-JWT",
    "HAIP-8": NOT_SUPPORTED + "key attestations",
    "HAIP-9": NOT_SUPPORTED + "OpenID4VCI, so there is no format identifier to send",
}
"""Rows that no docstring cites: who else sees to them, or why nobody does."""

_CITATION = re.compile(r"\b(R|VC|HAIP)-(\d+)(?: to (?:\1-)?(\d+))?\b")


def cited(text: str) -> Iterator[str]:
    """The rows that a text cites, ``R-1 to R-5`` as five."""
    for family, first, last in _CITATION.findall(text):
        for number in range(int(first), int(last or first) + 1):
            yield f"{family}-{number}"


def in_order() -> list[tuple[str, str]]:
    """Every row with its section, in the order of the numbers."""
    rows = [(row, section) for section, texts in SECTIONS.items() for row in cited(texts)]
    families = ("R", "VC", "HAIP")
    return sorted(rows, key=lambda row: (families.index(row[0].split("-")[0]), int(row[0].split("-")[1])))
