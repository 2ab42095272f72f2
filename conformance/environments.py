"""What others wrote, installed once into ``build``: an environment or a program for each adapter."""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from conformance.libraries import Library

HERE = Path(__file__).resolve().parent
BUILD = HERE.parent / "build"
BUILD_S = 540
TOOLS = {
    "Python": ("uv",),
    "JavaScript": ("node", "npm"),
    "Java": ("java", "mvn"),
    "Kotlin": ("java", "mvn"),
    "Go": ("go",),
    "Rust": ("cargo",),
}
"""Language → programs that build and run its adapters."""


class NotInstalled(Exception):
    """A program is missing, or a library cannot be installed here."""


def command(library: Library) -> list[str]:
    """Build what the adapter needs, and return the command that starts it.

    Raises:
        NotInstalled: with the reason.
    """
    if library.name == "sdcard":
        return [sys.executable, str(HERE / "python" / "adapt_sdcard.py")]
    if library.name == "@sd-card/verifier" and shutil.which("node"):
        return ["node", str(HERE / "node" / "verifier.mjs")]
    if missing := [tool for tool in TOOLS[library.language] if not shutil.which(tool)]:
        raise NotInstalled(f"needs {' and '.join(missing)}")
    return _COMMANDS[library.language](library.adapter)


def built(name: str, made_of: Iterable[Path], build: Callable[[Path], None]) -> Path:
    """Build a folder once; other processes wait. The mark comes last: a half-built folder is built again."""
    state = hashlib.sha256(sys.version.encode() + b"".join(one.read_bytes() for one in made_of)).hexdigest()
    folder = BUILD / f"{name}-{state[:16]}"
    ready = folder / "ready"
    if not ready.is_file():
        BUILD.mkdir(exist_ok=True)
        with Path(f"{folder}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not ready.is_file():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                build(folder)
                ready.touch()
    return folder


def install(folder: Path, *arguments: str, seconds: int = BUILD_S, **environment: str) -> None:
    """Run an installer or compiler in a folder.

    Raises:
        NotInstalled: when it fails, or takes longer than ``seconds``.
    """
    try:
        subprocess.run(
            arguments,
            cwd=folder,
            check=True,
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**os.environ, **environment},
        )
    except subprocess.CalledProcessError as error:
        raise NotInstalled(
            f"{folder.name}: {arguments[0]} failed: {(error.stderr or error.stdout).strip()[-300:]}"
        ) from None
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"{folder.name}: {arguments[0]} took longer than {seconds} s") from None


def _python(adapter: str) -> list[str]:
    wanted = HERE / "python" / f"{adapter}.txt"

    def build(folder: Path) -> None:
        python = str(folder / "bin" / "python")
        install(folder, "uv", "venv", "--quiet", "--allow-existing", "--python", sys.executable, str(folder))
        install(folder, "uv", "pip", "install", "--quiet", "--no-deps", "--python", python, "-r", str(wanted))

    folder = built(f"conformance-{adapter}", [wanted], build)
    return [str(folder / "bin" / "python"), str(HERE / "python" / f"adapt_{adapter}.py")]


def _javascript(adapter: str) -> list[str]:
    folder = built(
        "conformance-node", _sources("node"), _with_sources("node", "npm", "ci", "--ignore-scripts", "--no-audit")
    )
    return ["node", str(folder / f"{adapter}.mjs")]


def _jvm(adapter: str) -> list[str]:
    build = ("mvn", "-q", "-B", "compile", "dependency:copy-dependencies", "-DoutputDirectory=lib")
    folder = built("conformance-jvm", _sources("jvm"), _with_sources("jvm", *build))
    main = f"sdcard.{adapter}.{adapter.capitalize()}Kt"
    return ["java", "-cp", f"{folder / 'target' / 'classes'}:{folder / 'lib'}/*", main]


def _go(adapter: str) -> list[str]:
    def build(folder: Path) -> None:
        """Build with a ``time.Now`` that returns ``time.Fixed``, because the libraries take no clock."""
        root = subprocess.run(["go", "env", "GOROOT"], check=True, capture_output=True, text=True).stdout.strip()
        source = Path(root) / "src" / "time" / "time.go"
        text = source.read_text(encoding="utf-8")
        now = "func Now() Time {\n"
        fixed = f"var Fixed int64\n\n{now}\tif Fixed != 0 {{\n\t\treturn Unix(Fixed, 0)\n\t}}\n"
        (folder / "time.go").write_text(text.replace(now, fixed), encoding="utf-8")
        (folder / "overlay.json").write_text(json.dumps({"Replace": {str(source): str(folder / "time.go")}}))
        overlay = str(folder / "overlay.json")
        install(HERE / "go", "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", str(folder / adapter), ".")

    return [str(built(f"conformance-go-{adapter}", _sources("go"), build) / adapter)]


def _rust(adapter: str) -> list[str]:
    def build(folder: Path) -> None:
        target, source = str(BUILD / "conformance-target"), str(HERE / "rust")
        options = ("--quiet", "--debug", "--locked", "--target-dir", target, "--path", source, "--root", str(folder))
        install(folder, "cargo", "install", *options)

    folder = built("conformance-rust", [*_sources("rust"), *_sources("findings")], build)
    return [str(folder / "bin" / adapter)]


def _sources(name: str) -> list[Path]:
    folder = HERE / name
    return [
        file
        for file in sorted(folder.rglob("*"))
        if file.is_file() and not {"target", "node_modules"} & set(file.parts)
    ]


def _with_sources(name: str, *arguments: str) -> Callable[[Path], None]:
    """Return a builder that copies the sources and runs a command among them."""

    def build(folder: Path) -> None:
        shutil.copytree(HERE / name, folder, dirs_exist_ok=True)
        install(folder, *arguments)

    return build


_COMMANDS: dict[str, Callable[[str], list[str]]] = {
    "Python": _python,
    "JavaScript": _javascript,
    "Java": _jvm,
    "Kotlin": _jvm,
    "Go": _go,
    "Rust": _rust,
}
"""Language → what builds its adapters and returns the command."""
