"""The sdist holds files of the repository and the inspector's page; the wheel the two packages, typed and licensed.

Links in their metadata work elsewhere. With ``--release``, the version is that of a release, and no address has a
reserved name.
"""

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

out = Path(sys.argv[1])
kept = set(subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines())
with tarfile.open(next(out.glob("*.tar.gz"))) as sdist:
    there = {name.partition("/")[2] for name in sdist.getnames()} - {"", "PKG-INFO"}
with zipfile.ZipFile(next(out.glob("*.whl"))) as wheel:
    installed = set(wheel.namelist())
    metadata = wheel.read(next(name for name in installed if name.endswith(".dist-info/METADATA"))).decode()
version = re.search(r"^Version: (.*)$", metadata, re.MULTILINE)[1]
relative = set(re.findall(r"\]\((?!https?:|#)[^)]*\)", metadata))

MADE = {"issuer_service/pages/inspector.html"}
kept |= MADE
stray = there - kept
missing = {name for name in kept - there if not name.startswith((".ci/", ".git"))}
packaged = {name for name in kept if name.startswith(("sdcard/", "issuer_service/"))}
packaged |= {"issuer_service/cli/georoute.json"}
beside = {name for name in installed - packaged if ".dist-info/" not in name}
faults = {
    "stray in the sdist": stray,
    "missing in the sdist": missing,
    "stray in the wheel": beside,
    "missing in the wheel": packaged - installed,
    "not there": {"sdcard/py.typed"} - installed,
    "no licence": set() if any(name.endswith("licenses/LICENSE") for name in installed) else {"LICENSE"},
}
faults["relative links in the metadata"] = relative
if "--release" in sys.argv:
    tags = subprocess.run(
        ["git", "tag", "--points-at", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.split()
    headings = re.findall(r"^## ([0-9.]+), [0-9-]{10}$", Path("CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    faults |= {
        "reserved address": set(
            re.findall(r"(?:^Project-URL: .*|\]\()https?://[^/)]*\.example\b", metadata, re.MULTILINE)
        ),
        "no such heading in CHANGELOG.md": {version} - set(headings),
        "no such tag here": {f"v{version}"} - set(tags),
    }
for what, names in faults.items():
    if names:
        print(f"{what}: {', '.join(sorted(names)[:10])}", file=sys.stderr)
sys.exit(any(faults.values()))
