"""The documents are true: the map, threats and evidence name files, rules and tests that exist."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

from pages.threats import BOUNDS, NO_RULE, Threat, threats
from sdcard.rules import Rule
from tests.shared import ROOT


def read(name: str) -> str:
    return (ROOT / "docs" / name).read_text(encoding="utf-8")


NAMED = set(re.findall(r"`((?:sdcard|issuer_service|vectors|pages|inspector)/[^`]+)`", read("where-things-live.md")))
THREATS = list(threats())


def test_every_place_on_the_map_exists() -> None:
    assert [place for place in sorted(NAMED) if not (ROOT / place).exists()] == []


def test_the_rules_of_a_threat_are_shown_by_its_tests() -> None:
    assert [threat.text for threat in THREATS if not threat.tests] == []
    assert {name for threat in THREATS for name in threat.rules} - set(Rule) == set()
    assert [(threat.text, rule) for threat in THREATS for rule in _not_shown(threat)] == []


def _not_shown(threat: Threat) -> list[str]:
    text = "".join((ROOT / name).read_text(encoding="utf-8") for name in threat.tests)
    return [rule for rule in Rule if rule in threat.rules and f'"{rule}"' not in text and rule.name not in text]


def test_every_row_of_the_threats_is_in_a_part_and_in_the_picture() -> None:
    before, _, rest = read("threats.md").partition(f"\n## {BOUNDS}\n")  # a table of bounds, and no threats
    rows = re.findall(r"^\| (?!threat \|)", before + rest.partition("\n## ")[2], re.MULTILINE)
    picture = ElementTree.fromstring(read("threats.svg"))
    described = picture.findtext("{http://www.w3.org/2000/svg}desc") or ""

    assert len(THREATS) == len(rows) == sum(map(int, re.findall(r": (\d+) threats;", described)))
    assert [threat.text for threat in THREATS if not threat.part] == []
    families = {family for threat in THREATS for family in threat.families} - {NO_RULE}
    assert families - set(re.findall(r"[a-z-]+", described)) == set()


PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "docs" / "decisions").glob("*.md")),
]


def test_every_test_that_is_named_exists() -> None:
    named = {page.name: re.findall(r"`(tests/[^`\s]*)`", page.read_text(encoding="utf-8")) for page in PAGES}
    missing = {
        (page, name) for page, names in named.items() for name in names if not (ROOT / name.partition("::")[0]).exists()
    }

    assert named["evidence.md"]
    assert named["threats.md"]
    assert missing == set()


LINK = re.compile(r"\]\(([^()\s:#]*)(?:#([^()\s]*))?\)")


def test_every_link_leads_somewhere() -> None:
    links = [
        (page, page.parent / name if name else page, anchor)
        for page in PAGES
        for name, anchor in LINK.findall(page.read_text(encoding="utf-8"))
    ]
    dead = [
        f"{page.name} leads to {target}#{anchor}"
        for page, target, anchor in links
        if not target.exists() or (anchor and anchor not in anchors(target))
    ]

    assert links
    assert dead == []


@cache
def anchors(page: Path) -> set[str]:
    """The headings of a page, as GitHub names them."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def navigation(part: Any) -> Iterator[str]:
    """The pages that the site leads to."""
    if isinstance(part, str):
        yield part.partition("#")[0]
    else:
        for one in part.values() if isinstance(part, dict) else part:
            yield from navigation(one)


def test_what_a_package_index_shows_has_no_link_that_is_dead_there() -> None:
    """The build replaces links by the names of files in the sdist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    hook = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = source = (ROOT / "README.md").read_text(encoding="utf-8")
    links = {link for link in re.findall(r"(?<!\!)\[[^\]]*\]\(([^)]*)\)", source) if "://" not in link}
    for one in hook["substitutions"]:
        text = re.sub(one["pattern"], one["replacement"], text)

    assert len(links) > 30
    assert re.findall(r"\]\((?!https:)[^)]*\)", text) == []
    assert [name for link in links if f"`{(name := link.partition('#')[0])}`" not in text] == []
    assert "urls" not in project["project"] or all(
        not urlsplit(address).netloc.endswith(".example") for address in project["project"]["urls"].values()
    )


def test_readme_and_classifiers_name_the_same_versions_of_python() -> None:
    """``.ci/run`` tests each version that a classifier names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = re.findall(r"Python :: 3\.(\d+)\b", "\n".join(project["classifiers"]))
    told = re.search(r"Python 3\.(\d+) or newer \(tested to 3\.(\d+)\)", (ROOT / "README.md").read_text("utf-8"))

    assert told
    assert project["requires-python"] == f">=3.{told[1]}"
    assert versions == [str(number) for number in range(int(told[1]), int(told[2]) + 1)]


def test_the_navigation_of_the_site_leads_to_every_page() -> None:
    settings = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    led_to = set(navigation(settings["project"]["nav"]))

    assert {page.relative_to(ROOT).as_posix() for page in PAGES} - led_to == set()
    assert {name for name in led_to if not (ROOT / name).is_file()} == set()


OUTSIDE = re.compile(r"\]\((https?:[^)\s]*)\)|<(https?:[^>\s]*)>")


def test_links_to_elsewhere_are_whole() -> None:
    """The form is checked; no link is fetched."""
    found = [
        (page.name, one or other) for page in PAGES for one, other in OUTSIDE.findall(page.read_text(encoding="utf-8"))
    ]

    assert [
        (page, link) for page, link in found if urlsplit(link).scheme != "https" or "." not in urlsplit(link).netloc
    ] == []


def test_every_column_of_a_table_has_a_name() -> None:
    """A screen reader says it before each cell."""
    heads = [
        (page.name, head)
        for page in PAGES
        for head in re.findall(r"^\|(.*)\|\n\|[ :-]*-[-| :]*\|$", page.read_text("utf-8"), re.MULTILINE)
    ]
    assert len(heads) > 100
    assert [(page, head) for page, head in heads if not all(cell.strip() for cell in head.split("|"))] == []
