"""The package as it is published: its types, its size, its files, and the sample of its README."""

import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

import sdcard
from sdcard.encoding import encode_base64url, encode_json
from sdcard.io.system import SystemClock, SystemSalts
from sdcard.trust import encode_trusted_issuers
from tests.runtimes.runtimes import PACKAGE, program, tools
from tests.shared import ROOT
from tests.world import NOW, World
from vectors.logs import POLICY, WITNESSES, proof

MOST_BYTES, MOST_OF_CERTIFICATES, MOST_OF_LOG = 25_000, 5_000, 4_000
ENTRANCES = ("index", "agent")

USE = """
import { Answering, Unbound, Unchecked, verifyPresentation, type VerifiedCard } from "@sd-card/verifier";
import { CalledAgent, present } from "@sd-card/verifier/agent";
import { RULES } from "@sd-card/verifier/rules";
import { certificates } from "@sd-card/verifier/x5c";
import { parseLogPolicy, verifyLogProof } from "@sd-card/verifier/log";
import { Refused, parseTrustedIssuers } from "@sd-card/verifier";

const issuers = await parseTrustedIssuers("{}", { certificates });
const status = new Unchecked("why");
const keyBinding = new Unbound("why");
const card: VerifiedCard = await verifyPresentation("a~", { issuers, keyBinding, status }, 1);
const sentence: string = RULES["kb.replayed"].sentence;
new Refused("kb.replayed", "kb-jwt/nonce");
const index: bigint = (await verifyLogProof("a~", await parseLogPolicy("quorum none\\n"), 1)).index;

// @ts-expect-error no status
await verifyPresentation("a~", { issuers, keyBinding }, 1);
// @ts-expect-error no key binding
await verifyPresentation("a~", { issuers, status }, 1);
// @ts-expect-error no time
await verifyPresentation("a~", { issuers, keyBinding, status });
// @ts-expect-error there are certificates or none
await parseTrustedIssuers("{}", { certificates: true });
// @ts-expect-error a misspelt term
await verifyPresentation("a~", { issuers, keyBinding, status, maxLifeTime: 60 }, 1);
// @ts-expect-error a record is no boolean
new Answering("nonce", true);
// @ts-expect-error there is no such rule
new Refused("kb.replay", "kb-jwt/nonce");
// @ts-expect-error nothing is decided
new CalledAgent({ issuers });
// @ts-expect-error a challenge has its own type
await present(card, [], "nonce", {}, 1);
// @ts-expect-error a policy is not its text
await verifyLogProof("a~", "quorum none\\n", 1);
export { index, sentence };
"""


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with the package, its types made, under ``node_modules``."""
    home = tmp_path / "node_modules" / "@sd-card" / "verifier"
    home.mkdir(parents=True)
    for name in ("src", "package.json"):
        (home / name).symlink_to(PACKAGE / name)
    run(program("tsc"), "--project", PACKAGE / "tsconfig.json", "--outDir", home / "types", folder=PACKAGE)
    return tmp_path


def test_the_sources_are_typed_strictly_and_a_decision_cannot_be_left_out_in_typescript(installed: Path) -> None:
    (installed / "use.mts").write_text(USE, encoding="utf-8")
    options = ("--strict", "--noEmit", "--target", "es2023", "--module", "nodenext", "--lib", "esnext,dom")

    run(program("tsc"), *options, "--types", "", "use.mts", folder=installed)


def size(folder: Path, *entrances: str) -> int:
    """The size of some entrances in one bundle, minified and gzipped."""
    source = folder / "bundled.js"
    source.write_text("".join(f'export * from "{PACKAGE}/src/{name}.js";\n' for name in entrances), encoding="utf-8")
    options = ("--bundle", "--minify", "--format=esm", "--log-level=error")
    return len(gzip.compress(run(program("esbuild"), source, *options, folder=PACKAGE).encode(), 9))


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_an_entrance_is_small_when_bundled(entrance: str, tmp_path: Path) -> None:
    alone = size(tmp_path, entrance)

    assert 10_000 < alone <= MOST_BYTES
    assert 1_000 < size(tmp_path, entrance, "x5c") - alone <= MOST_OF_CERTIFICATES
    assert 1_000 < size(tmp_path, entrance, "log") - alone <= MOST_OF_LOG


def test_the_package_needs_no_other_and_is_pinned() -> None:
    package = json.loads((PACKAGE / "package.json").read_bytes())

    assert package.keys().isdisjoint({"dependencies", "peerDependencies", "optionalDependencies", "bundleDependencies"})
    assert all(version[0].isdigit() for version in package["devDependencies"].values())
    for entry in package["exports"].values():
        assert (PACKAGE / entry["default"]).is_file()
        assert entry["types"] == entry["default"].replace("src", "types").replace(".js", ".d.ts")
    imported = {name for file in (PACKAGE / "src").glob("*.js") for name in _imports(file)}
    assert all(name.startswith("./") for name in imported)


def _imports(file: Path) -> list[str]:
    return re.findall(r'^(?:import|export) .*from "([^"]+)";', file.read_text(encoding="utf-8"), re.MULTILINE)


def test_what_is_packed_has_sources_types_and_licence_and_no_test(tmp_path: Path) -> None:
    folder = tmp_path / "packages" / "verifier"
    shutil.copytree(PACKAGE, folder, ignore=shutil.ignore_patterns("node_modules"))
    shutil.copy(ROOT / "LICENSE", tmp_path)
    (folder / "node_modules").symlink_to(tools())
    (packed,) = json.loads(run("npm", "pack", "--json", "--silent", folder=folder))
    files = {one["path"] for one in packed["files"]}

    assert {name for name in files if "/" not in name} == {"LICENSE", "README.md", "package.json"}
    sources = {file.stem for file in (PACKAGE / "src").glob("*.js")}
    assert files == {
        *("LICENSE", "README.md", "package.json"),
        *(f"src/{name}.js" for name in sources),
        *(f"types/{name}.d.ts" for name in sources),
    }


def test_the_sample_of_the_readme_prints_what_it_shows(installed: Path) -> None:
    text = (PACKAGE / "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```js\n(.*?)```", text, re.DOTALL))
    shown = "".join(re.findall(r"```text\n(.*?)```", text, re.DOTALL))
    (installed / "sample.mjs").write_text(code, encoding="utf-8")
    for tool in tools().iterdir():
        if not (installed / "node_modules" / tool.name).exists():
            (installed / "node_modules" / tool.name).symlink_to(tool)
    _registered(installed)

    assert run("node", "sample.mjs", folder=installed) == shown


PROVED = """
import { readFileSync } from "node:fs";
import { parseLogPolicy, verifyLogProof } from "@sd-card/verifier/log";
const policy = await parseLogPolicy(readFileSync("policy.txt", "utf8"));
const [proved, plain] = ["proved.txt", "plain.txt"].map((name) => readFileSync(name, "utf8"));
console.log(String((await verifyLogProof(proved, policy, 1_800_000_000)).index));
await verifyLogProof(plain, policy, 1_800_000_000).catch((refusal) => console.log(refusal.rule));
"""


def test_a_proof_in_the_kb_jwt_of_python_is_verified(installed: Path, world: World) -> None:
    plain = world.holder.accept()
    proved = sdcard.with_log_proof(plain, str(proof(str(world.holder.card).split("~")[0], *list(WITNESSES)[:2])))
    for name, one in (("proved", proved), ("plain", plain)):
        shown = sdcard.present(one, sdcard.select_all(one), world.verifier.challenge(), world.holder.signer, NOW)
        (installed / f"{name}.txt").write_text(str(shown), encoding="ascii")
    (installed / "policy.txt").write_text(POLICY, encoding="utf-8")
    (installed / "proved.mjs").write_text(PROVED, encoding="utf-8")

    assert run("node", "proved.mjs", folder=installed) == "5\nlog.proof-missing\n"


def _registered(folder: Path) -> None:
    """Write the files that the sample reads: those of a registered agent."""
    clock, private = SystemClock(), ec.generate_private_key(ec.SECP256R1())
    registry, key = sdcard.InMemorySigner(ec.generate_private_key(ec.SECP256R1())), sdcard.InMemorySigner(private)
    issued = sdcard.issue_sd_card(
        sdcard.Issuer("https://registry.example", registry.public_key),
        sdcard.plan_disclosure(
            sdcard.parse_card((ROOT / "examples" / "georoute.json").read_bytes()), sdcard.DEFAULT_POLICY, "internal"
        ),
        registry,
        agent_id="georoute",
        holder_key=key.public_key,
        validity=sdcard.rounded_validity(clock.now()),
        salts=SystemSalts(),
    )
    secret = encode_base64url(private.private_numbers().private_value.to_bytes(32))
    trusted = sdcard.TrustedIssuers.of("https://registry.example", registry.public_key)
    (folder / "internal.sd-card").write_text(f"{issued}\n")
    (folder / "agent.jwk").write_bytes(encode_json({**key.public_key.to_jwk(), "d": secret}))
    logged = proof(str(issued).split("~")[0], *list(WITNESSES)[:2], at=1_700_000_000)
    (folder / "internal.tlog-proof").write_text(str(logged), encoding="utf-8")
    (folder / "policy.txt").write_text(POLICY, encoding="utf-8")
    (folder / "trust.json").write_bytes(encode_json(encode_trusted_issuers(trusted)))


def test_the_tools_are_those_of_the_lock_file() -> None:
    locked = json.loads((PACKAGE / "package-lock.json").read_bytes())["packages"]
    wanted = json.loads((PACKAGE / "package.json").read_bytes())["devDependencies"]

    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all((tools() / name / "package.json").is_file() for name in wanted)
