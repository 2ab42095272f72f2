"""The site: ``python -m pages.site`` builds ``build/site/out`` strictly.

Pages lie as in the repository. Search works from disk too.

Needs the dependency group ``docs`` and npm. Exit status 1, and the findings alone, where a page has a broken link or
a docstring describes what is not there.
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from conformance import environments

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "site"
NODE = [ROOT / "tests" / "node" / name for name in ("package.json", "package-lock.json", ".npmrc")]
FOLDERS = ("docs", "examples", "vectors", "deploy")
"""What pages lead to, beside the files at the top."""


def main() -> int:
    """Build the site; its exit status."""
    lay_out(SITE / "pages")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    said = findings(built.stdout + built.stderr)
    failed = built.returncode != 0 or "griffe: " in said
    print(said if failed else f"the site is in {SITE / 'out'}")
    return 1 if failed else 0


def lay_out(pages: Path) -> None:
    """Copy what the site is made of, so that links between files hold on it too."""
    shutil.rmtree(SITE, ignore_errors=True)
    for folder in FOLDERS:
        shutil.copytree(ROOT / folder, pages / folder, ignore=shutil.ignore_patterns("__pycache__", "node"))
    for file in [*ROOT.glob("*.md"), ROOT / "LICENSE"]:
        shutil.copy(file, pages)
    (pages / "assets").mkdir()
    for name in ("site.css", "site.js"):
        shutil.copy(Path(__file__).with_name(name), pages / "assets")
    libraries = environments.built("node-site", NODE, _install)
    worker = libraries / "node_modules" / "iframe-worker" / "shim" / "index.js"
    shutil.copy(worker, pages / "assets" / "iframe-worker.js")


def _install(folder: Path) -> None:
    for file in NODE:
        shutil.copy(file, folder)
    environments.install(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def findings(output: str) -> str:
    """Return the builder's output, without colours and without its final traceback."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", output)
    return plain.partition("Traceback (most recent call last)")[0].strip()


if __name__ == "__main__":
    sys.exit(main())
