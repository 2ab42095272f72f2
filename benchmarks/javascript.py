"""Time of one verification in JavaScript: ``python -m benchmarks.javascript``.

Each runtime verifies the same presentations with the package, @sd-jwt/core and @meeco/sd-jwt, in turn. Every
presentation has its own Holder's key, its own SD-Card and its own nonce, and a library sees each once. CPython verifies
them too. The medians of blocks are printed. The first blocks are not counted, because code is still being compiled.
"""

import json
import os
import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx2
from cryptography.hazmat.primitives.asymmetric import ec

import sdcard
from benchmarks.npm_peers import NAMES
from sdcard.encoding import encode_json
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.key_binding import ConsumedByCaller
from sdcard.trust import encode_trusted_issuers
from tests.browser.pages import launched
from tests.external.node_peers import installed
from tests.runtimes.runtimes import program, serving_modules, tools

ISSUER, AUDIENCE = "https://registry.example", "https://verifier.example"
BLOCKS, UNCOUNTED, SIZE = 16, 6, 25
LIBRARIES = ("ours", "core", "meeco")
HERE = Path(__file__).resolve().parent
CARD = HERE.parent / "examples" / "georoute.json"


def presentations(count: int) -> tuple[dict[str, Any], list[list[str]], sdcard.TrustedIssuers]:
    """Issue and present a card for each of many new Holders."""
    clock, salts = SystemClock(), SystemSalts()
    registry = sdcard.InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
    issuer, trusted = sdcard.Issuer(ISSUER, registry.public_key), sdcard.TrustedIssuers.of(ISSUER, registry.public_key)
    plan = sdcard.plan_disclosure(sdcard.parse_card(CARD.read_bytes()), sdcard.DEFAULT_POLICY, "internal")
    made, now = [], int(clock.now())
    for number in range(count):
        key = sdcard.InMemorySigner(ec.generate_private_key(ec.SECP256R1()))
        validity = sdcard.rounded_validity(now)
        given: dict[str, Any] = {"agent_id": f"agent-{number}", "holder_key": key.public_key, "validity": validity}
        issued = sdcard.issue_sd_card(issuer, plan, registry, salts=salts, **given)
        held = sdcard.accept_sd_card(str(issued), sdcard.Acceptance(issuers=trusted), key.public_key, now)
        challenge = sdcard.new_challenge(AUDIENCE, salts)
        made.append([str(sdcard.present(held, sdcard.select_all(held), challenge, key, now)), challenge.nonce])
    trust = encode_json(encode_trusted_issuers(trusted)).decode()
    return {"trust": trust, "jwk": registry.public_key.to_jwk(), "audience": AUDIENCE, "now": now}, made, trusted


def in_python(given: dict[str, Any], blocks: list[list[list[str]]], trusted: sdcard.TrustedIssuers) -> list[float]:
    """Measure this library."""
    found, status = [], sdcard.Unchecked("a benchmark")
    for block in blocks:
        begun = time.perf_counter()
        for text, nonce in block:
            binding = sdcard.Answering(sdcard.Challenge(nonce, AUDIENCE), ConsumedByCaller())
            expected = sdcard.Expectations(issuers=trusted, key_binding=binding, status=status)
            sdcard.verify_presentation(text, expected, given["now"])
        found.append((time.perf_counter() - begun) * 1e6 / len(block))
    return found


def in_process(runtime: str, folder: Path, job: dict[str, Any]) -> dict[str, list[float]]:
    """Measure in Node, Deno or Bun."""
    (folder / "job.json").write_text(json.dumps(job))
    script = folder / "run.mjs"
    script.write_text(
        'import { readFileSync } from "node:fs";\nimport { measure } from "./javascript.js";\n'
        'console.log(JSON.stringify(await measure(JSON.parse(readFileSync(new URL("job.json", import.meta.url))))));\n'
    )
    options = {"node": [], "deno": ["run", "--allow-read"], "bun": ["run"]}[runtime]
    done = subprocess.run([program(runtime), *options, str(script)], check=True, capture_output=True, text=True)
    found: dict[str, list[float]] = json.loads(done.stdout.splitlines()[-1])
    return found


def in_workerd(folder: Path, job: dict[str, Any]) -> dict[str, list[float]]:
    """Measure from outside, because a Worker's clock stands still.

    The time of a request without presentations is subtracted.
    """
    found: dict[str, list[float]] = {library: [] for library in LIBRARIES}
    with serving_modules([folder / "javascript.js"], {}, ("nodejs_compat",)) as address, httpx2.Client() as http:

        def seconds(library: str, block: list[list[str]]) -> float:
            data = json.dumps({"library": library, "block": block, "given": job["given"]})
            begun = time.perf_counter()
            http.post(address, content=data, timeout=60).raise_for_status()
            return time.perf_counter() - begun

        for block in job["blocks"]:
            for library in LIBRARIES:
                empty = min(seconds(library, []) for _ in range(3))
                found[library].append((seconds(library, block) - empty) * 1e6 / len(block))
    return found


def in_chromium(folder: Path, job: dict[str, Any]) -> dict[str, list[float]]:
    """Measure in a page."""
    with launched() as browser:
        page = browser.new_page()
        page.route(
            "**/javascript.js",
            lambda route: route.fulfill(path=folder / "javascript.js", content_type="text/javascript"),
        )
        page.route(f"{AUDIENCE}/", lambda route: route.fulfill(body="<!doctype html>", content_type="text/html"))
        page.goto(f"{AUDIENCE}/")
        found: dict[str, list[float]] = page.evaluate("async job => (await import('/javascript.js')).measure(job)", job)
    return found


def bundled() -> Path:
    """Bundle the package and both libraries into one module."""
    folder = HERE.parent / "build" / "benchmark-javascript"
    folder.mkdir(parents=True, exist_ok=True)
    libraries = installed()
    source = libraries / "javascript.mjs"
    text = (HERE / "javascript.mjs").read_text().replace("../packages/", f"{HERE.parent}/packages/")
    source.write_text(text)
    options = ("--bundle", "--format=esm", "--platform=browser", "--external:node:crypto", "--target=es2022")
    command = [str(tools() / ".bin" / "esbuild"), str(source), *options, f"--outfile={folder / 'javascript.js'}"]
    subprocess.run([*command, "--log-level=error"], check=True, env=dict(os.environ))
    return folder


def main() -> None:
    """Measure every runtime and print a table."""
    folder, (given, made, trusted) = bundled(), presentations(BLOCKS * SIZE)
    blocks = [made[start : start + SIZE] for start in range(0, len(made), SIZE)]
    job = {"libraries": LIBRARIES, "blocks": blocks, "given": given}
    length = statistics.median(len(text) for text, _ in made)
    disclosures = made[0][0].count("~") - 1
    print(f"{len(made)} presentations of {length:.0f} characters with {disclosures} Disclosures; µs a verification\n")
    print("| runtime | ours | " + " | ".join(NAMES.values()) + " |\n|---|--:|--:|--:|")
    rows = {"CPython": {"ours": in_python(given, blocks, trusted)}}
    rows |= {runtime: in_process(runtime, folder, job) for runtime in ("node", "deno", "bun")}
    rows |= {"workerd": in_workerd(folder, job), "chromium": in_chromium(folder, job)}
    for runtime, found in rows.items():
        cells = [found.get(library, [])[UNCOUNTED:] for library in LIBRARIES]
        print(f"| {runtime} | " + " | ".join(f"{statistics.median(one):.0f}" if one else "" for one in cells) + " |")


if __name__ == "__main__":
    main()
