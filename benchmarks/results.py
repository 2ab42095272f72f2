"""The stored figures: ``benchmarks/results/figures.json``.

Plots, the page and the guard read them.
"""

import importlib.metadata
import importlib.util
import json
import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.hazmat.backends.openssl import backend

ROOT = Path(__file__).parent.parent
STORED = Path(__file__).parent / "results" / "figures.json"
PACKAGES = ("cryptography", "orjson", "pybase64", "sd-jwt", "openvc-core", "vouchkit", "jwcrypto", "typer")


def load(file: Path = STORED) -> dict[str, Any]:
    """Read the results that were stored last."""
    stored: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return stored


def store(figures: dict[str, Any], file: Path = STORED) -> None:
    """Replace the stored results with these."""
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(figures, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def surroundings(rounds: int, repeats: int) -> dict[str, Any]:
    """Describe the conditions of a measurement: machine, date and versions."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load before": round(os.getloadavg()[0], 2),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "OpenSSL of cryptography": backend.openssl_version_text(),
        "versions": {
            name: importlib.metadata.version(name) for name in PACKAGES if importlib.util.find_spec(_module(name))
        },
        "extra fast": fast(),
        "rounds": rounds,
        "repeats": repeats,
    }


def fast() -> bool:
    """Whether the compiled extras are there."""
    return all(map(importlib.util.find_spec, ("orjson", "pybase64")))


def _module(name: str) -> str:
    return {"openvc-core": "openvc"}.get(name, name.replace("-", "_"))


def processor() -> str:
    """The processor's name, as the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
