"""The runtimes of JavaScript, installed once into ``build``, and a way to run a part of the package's tests in each."""

import json
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Page, Route

from tests.browser.pages import launched
from tests.built import built, run_installer
from tests.groups import unavailable
from tests.ports import free_port
from tests.shared import ROOT

PACKAGE = ROOT / "packages" / "verifier"
VECTORS = ROOT / "vectors"
INSTALLED_FROM = ("package.json", "package-lock.json", ".npmrc")
SECONDS = 400
"""For one part in one runtime. A quadratic step on a hostile text would take longer."""
ORIGIN = "https://verifier.example"
TYPES = {".js": "text/javascript", ".html": "text/html"}


def tools() -> Path:
    """The folder with the runtimes, the compiler and the bundler, of the versions in the lock file."""
    if not shutil.which("node") or not shutil.which("npm"):
        unavailable("needs node and npm")
    return built("verifier-tools", [PACKAGE / name for name in INSTALLED_FROM], _install) / "node_modules"


def _install(folder: Path) -> None:
    for name in INSTALLED_FROM:
        shutil.copy(PACKAGE / name, folder)
    run_installer(folder, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")


def program(name: str) -> str:
    """The path of a program. A script of npm would start some of them as a child that outlives it."""
    if name == "node":
        tools()
        return name
    native = {"bun": "@oven/bun-*/bin/bun", "workerd": "@cloudflare/workerd-*/bin/workerd"}
    return str(next(tools().glob(native[name])) if name in native else tools() / ".bin" / name)


COMMANDS: Mapping[str, tuple[str, ...]] = {"node": (), "deno": ("run", "--allow-read"), "bun": ("run",)}


def run_part(runtime: str, part: str) -> Any:
    """Run a part of ``packages/verifier/test`` in a runtime and return what it found."""
    if runtime in COMMANDS:
        command = [program(runtime), *COMMANDS[runtime], str(PACKAGE / "test" / "run.mjs"), part, str(VECTORS)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout.splitlines()[-1])
    job = {"part": part, "vectors": vectors()}
    if runtime == "workerd":
        with worker("test/worker.js") as address:
            return httpx2.post(address, json=job, timeout=SECONDS, trust_env=False).raise_for_status().json()
    assert runtime == "chromium"
    with launched() as browser:
        page = browser.new_page()
        serve_package(page)
        script = "async ({part, vectors}) => (await import('/test/parts.js')).runPart(part, vectors)"
        return page.evaluate(script, job)


def vectors() -> dict[str, str]:
    """Every vector: file → text."""
    manifest = json.loads((VECTORS / "manifest.json").read_bytes())
    return {one["file"]: (VECTORS / one["file"]).read_text(encoding="utf-8") for one in manifest["vectors"]}


def serve_package(page: Page) -> None:
    """Open a page of ``ORIGIN`` that has the package's files and nothing else."""

    def answer(route: Route) -> None:
        path = PACKAGE / route.request.url.removeprefix(f"{ORIGIN}/").partition("?")[0]
        if path == PACKAGE / "":
            route.fulfill(body="<!doctype html><title>A page</title>", content_type="text/html")
        elif path.suffix in TYPES and path.is_file():
            route.fulfill(path=path, content_type=TYPES[path.suffix])
        else:
            route.fulfill(status=404, body="")

    page.route("**/*", answer)
    page.goto(f"{ORIGIN}/")


def worker(main: str, bindings: Mapping[str, str] | None = None) -> AbstractContextManager[str]:
    """The address of a Worker whose main module is a file of the package.

    Args:
        bindings: texts that the Worker finds in its ``env``.
    """
    files = sorted(file for folder in ("src", "test") for file in (PACKAGE / folder).glob("*.js"))
    return serving_modules([PACKAGE / main, *(file for file in files if file != PACKAGE / main)], bindings or {})


@contextmanager
def serving_modules(modules: Sequence[Path], bindings: Mapping[str, str], flags: Sequence[str] = ()) -> Iterator[str]:
    """The address of a Worker in workerd with these modules, the main one first."""
    port = free_port()
    folder = built("verifier-workers", [], lambda folder: None)
    config = folder / f"{port}.capnp"
    config.write_text(_config(folder, modules, port, bindings, flags), encoding="utf-8")
    log = (folder / f"{port}.log").open("wb")
    command = [program("workerd"), "serve", str(config)]
    with log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            _wait_for(port, process)
            yield f"http://127.0.0.1:{port}/"
        finally:
            process.kill()
            config.unlink()


def _config(folder: Path, modules: Sequence[Path], port: int, bindings: Mapping[str, str], flags: Sequence[str]) -> str:
    home = os.path.commonpath([file.parent for file in modules])
    named = [(os.path.relpath(file, home), os.path.relpath(file, folder)) for file in modules]
    embedded = [f'(name = "{name}", esModule = embed "{file}")' for name, file in named]
    texts = [f"(name = {json.dumps(name)}, text = {json.dumps(text)})" for name, text in bindings.items()]
    return (
        '@0xb8c0d3a5a64cc1f7;\nusing Workerd = import "/workerd/workerd.capnp";\n'
        "const config :Workerd.Config = (\n"
        '  services = [(name = "main", worker = .main)],\n'
        f'  sockets = [(name = "http", address = "127.0.0.1:{port}", http = (), service = "main")]\n);\n'
        f"const main :Workerd.Worker = (\n  modules = [{', '.join(embedded)}],\n"
        f'  bindings = [{", ".join(texts)}],\n  compatibilityDate = "2026-01-01",\n'
        f"  compatibilityFlags = {json.dumps(list(flags))},\n);\n"
    )


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    for _ in range(400):
        assert process.poll() is None, "workerd ended"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.025)
    raise AssertionError("workerd does not listen")
