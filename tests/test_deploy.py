"""The files under ``deploy/`` say what the programs that read them understand, and do what the runbook says."""

import contextlib
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trustme
import yaml

from issuer_service.access import Scope
from issuer_service.app import openapi_document
from issuer_service.monitoring import Metrics
from issuer_service.routes import PUBLIC_PATHS
from issuer_service.settings import Settings, check_fit_to_serve, read_configuration
from sdcard.errors import Part, Where
from sdcard.jose.keys import parse_public_jwk
from sdcard.limits import DEFAULT_LIMITS
from sdcard.rules import Rule
from sdcard.status_list import verify_status_list_token
from tests.groups import needs, unavailable
from tests.issuer_service.desk import request
from tests.issuer_service.test_server import await_health, served_environment
from tests.ports import free_port
from tests.shared import ROOT

DEPLOY = ROOT / "deploy"
WELL_KNOWN = ("jwt-vc-issuer", "jwks.json", "status-jwks.json", "token-jwks.json", "oauth-authorization-server")
WHERE = Where(Part.STATUS_LIST)


def program(name: str) -> str:
    """Return the path of a real server's program."""
    needs("servers")
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin")
    return found or unavailable(f"needs {name}: apt-get install nginx-light systemd prometheus")


def unit(folder: Path, name: str = "sdcard.service") -> Path:
    """The unit, with a program that this machine has."""
    text = (DEPLOY / name).read_text(encoding="utf-8")
    (folder / name).write_text(text.replace("/opt/sdcard/bin/sdcard", "/bin/true"), encoding="utf-8")
    return folder / name


@pytest.mark.servers
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    ran = subprocess.run([program("systemd-analyze"), "verify", unit(tmp_path)], capture_output=True, text=True)

    assert (ran.returncode, [line for line in ran.stderr.splitlines() if "sdcard.service" in line]) == (0, [])


@pytest.mark.servers
def test_each_instance_of_a_cluster_has_its_own_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template = unit(tmp_path).rename(tmp_path / "sdcard@.service")
    drop_in = tmp_path / "sdcard@.service.d"
    drop_in.mkdir()
    shutil.copy(DEPLOY / "cluster" / "instance.conf", drop_in)
    instance = template.with_name("sdcard@8081.service")
    ran = subprocess.run([program("systemd-analyze"), "verify", instance], capture_output=True, text=True)

    assert (ran.returncode, [line for line in ran.stderr.splitlines() if "sdcard@" in line]) == (0, [])
    [given] = re.findall(r"^Environment=(.*)$", (drop_in / "instance.conf").read_text(encoding="utf-8"), re.MULTILINE)
    for pair in given.replace("%i", "8081").split():
        monkeypatch.setenv(*pair.split("="))
    read = read_configuration(DEPLOY / "sdcard.toml", os.environ, {})
    assert (read.settings.port, read.settings.metrics_port) == (8081, 18081)


@pytest.mark.servers
def test_systemd_understands_the_timer_that_renews(tmp_path: Path) -> None:
    names = ["sdcard-renew.service", "sdcard-renew.timer"]
    files = [str(unit(tmp_path, name)) for name in names]
    ran = subprocess.run([program("systemd-analyze"), "verify", *files], capture_output=True, text=True)

    assert (ran.returncode, [line for line in ran.stderr.splitlines() if "sdcard-renew" in line]) == (0, [])


def test_the_unit_that_renews_gives_a_command_that_there_is() -> None:
    text = (DEPLOY / "sdcard-renew.service").read_text(encoding="utf-8")
    [line] = re.findall(r"^ExecStart=/opt/sdcard/bin/sdcard (.*)$", text, re.MULTILINE)
    assert line.startswith("agents renew georoute --if-expiring")
    page = (
        (ROOT / "docs" / "cli.md")
        .read_text(encoding="utf-8")
        .partition("## sdcard agents renew")[2]
        .partition("\n## ")[0]
    )
    assert [option for option in re.findall(r"--[a-z-]+", line) if f"`{option}" not in page] == []


@pytest.mark.servers
def test_systemd_finds_the_unit_little_exposed(tmp_path: Path) -> None:
    command = [program("systemd-analyze"), "security", "--offline=true", "--threshold=20", str(unit(tmp_path))]

    ran = subprocess.run(command, capture_output=True, text=True)

    assert ran.returncode == 0, ran.stdout


def test_the_unit_waits_longer_than_the_registry_does() -> None:
    wait = re.search(r"^TimeoutStopSec=(\d+)$", (DEPLOY / "sdcard.service").read_text(encoding="utf-8"), re.MULTILINE)

    assert wait is not None
    assert int(wait.group(1)) > Settings().stop_seconds


RULES, UNIT_TESTS = DEPLOY / "prometheus" / "rules.yml", DEPLOY / "prometheus" / "rules.test.yml"


def alerts() -> dict[str, dict[str, Any]]:
    """Alert → its rule."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"] if "alert" in rule}


def test_each_alert_has_a_runbook_section_and_each_section_an_alert() -> None:
    page = (ROOT / "docs" / "alerts.md").read_text(encoding="utf-8")
    sections = {part.partition("\n")[0]: part for part in page.split("\n## ")[1:]}
    named = {name: rule["annotations"]["runbook"] for name, rule in alerts().items()}
    anchors = {f"docs/alerts.md#{title.lower().replace(' ', '-')}": text for title, text in sections.items()}

    assert set(named.values()) == set(anchors)
    assert [name for name, anchor in named.items() if f"`{name}`" not in anchors[anchor]] == []
    assert {rule["labels"]["severity"] for rule in alerts().values()} == {"page", "ticket"}


def test_rules_name_metrics_and_rules_and_routes_that_there_are() -> None:
    text = RULES.read_text(encoding="utf-8")
    shown = Metrics()
    shown.count_request("GET", "/status/{list_id}", 200, Rule.STORE_UNAVAILABLE, 0.1)
    shown.count_card("public")
    shown.show_lag(0)
    metrics = set(re.findall(r"^(\w+)(?:[{ ])", shown.text()[0].decode(), re.MULTILINE))

    assert set(re.findall(r"\b(?:sdcard|process)_\w+", text)) <= metrics
    assert {one for found in re.findall(r'rule="([^"]+)"', text) for one in found.split("|")} <= set(Rule)
    routes = {one for found in re.findall(r'route=~"([^"]+)"', text) for one in found.split("|")}
    assert routes <= set(openapi_document()["paths"])
    buckets = set(re.findall(r'le="([0-9.]+)"', shown.text()[0].decode()))
    assert set(re.findall(r'le="([0-9.]+)"', text)) <= buckets


def test_each_alert_is_tested_to_fire_and_not_to() -> None:
    tests = [one for group in yaml.safe_load(UNIT_TESTS.read_text())["tests"] for one in group["alert_rule_test"]]
    fires = {one["alertname"] for one in tests if one["exp_alerts"]}

    assert fires == set(alerts())


@pytest.mark.servers
def test_promtool_accepts_rules_and_their_tests(tmp_path: Path) -> None:
    folder, promtool = DEPLOY / "prometheus", program("promtool")
    for command in (
        ["check", "rules", "rules.yml"],
        ["test", "rules", "rules.test.yml"],
        ["check", "config", "--syntax-only", "prometheus.yml"],
    ):
        ran = subprocess.run([promtool, *command], cwd=folder, capture_output=True, text=True)
        assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
        assert "SUCCESS" in ran.stdout
    broken = RULES.read_text().replace('up{job="sdcard"} == 0', 'up{job="sdcard"} == 2')
    (tmp_path / "rules.yml").write_text(broken, encoding="utf-8")
    shutil.copy(UNIT_TESTS, tmp_path)
    ran = subprocess.run([promtool, "test", "rules", "rules.test.yml"], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 1, "its tests find a rule that never fires"


@pytest.mark.servers
def test_a_real_prometheus_reads_the_metrics_with_the_token_and_evaluates_the_rules(tmp_path: Path) -> None:
    upstream, port, secret = free_port(), free_port(), "metrics-" + "0123456789abcdef" * 2
    (tmp_path / "token").write_text(secret, encoding="utf-8")
    shutil.copy(RULES, tmp_path)
    text = (DEPLOY / "prometheus" / "prometheus.yml").read_text(encoding="utf-8")
    for pattern, after in (
        ("scheme: https", "scheme: http"),
        ("/etc/prometheus/sdcard-metrics.token", str(tmp_path / "token")),
        (r"targets: \[.*\]", f'targets: ["127.0.0.1:{upstream}"]'),
        ("_interval: 15s", "_interval: 1s"),
    ):
        text, count = re.subn(pattern, after, text)
        assert count
    (tmp_path / "prometheus.yml").write_text(text, encoding="utf-8")
    options = [f"--storage.tsdb.path={tmp_path}/data", f"--web.listen-address=127.0.0.1:{port}"]
    command = [program("prometheus"), f"--config.file={tmp_path}/prometheus.yml", *options]
    with (
        registry_behind(tmp_path, upstream, SDCARD_METRICS_TOKEN=secret),
        subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server,
        httpx2.Client(base_url=f"http://127.0.0.1:{port}/api/v1", trust_env=False) as client,
    ):
        try:
            until = time.monotonic() + 60
            found: list[Any] = []
            while not found and time.monotonic() < until:
                time.sleep(0.2)
                with contextlib.suppress(httpx2.TransportError):
                    query = {"query": 'up{job="sdcard"} == 1 and on() count(sdcard_native_kernel) == 1'}
                    answer = client.get("/query", params=query)
                    found = answer.json()["data"]["result"] if answer.status_code == 200 else []
            assert found, "it is up, and has our metrics"
            groups = client.get("/rules").json()["data"]["groups"]
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)
    rules = [rule for group in groups for rule in group["rules"]]
    assert {rule["name"] for rule in rules} >= set(alerts())
    assert [rule["name"] for rule in rules if rule["health"] == "err"] == []


def test_the_settings_are_settings_and_fit_to_serve() -> None:
    read = read_configuration(DEPLOY / "sdcard.toml", {}, {})

    check_fit_to_serve(read.settings)
    assert read.settings.issuer_url == "https://registry.example"
    assert not read.settings.in_development


def test_the_image_copies_what_there_is_and_needs_no_privilege() -> None:
    """No test builds it: docs/operations.md says what was run."""
    lines = (DEPLOY / "Containerfile").read_text(encoding="utf-8").splitlines()
    copied = [
        name for line in lines if line.startswith("COPY ") and "--from" not in line for name in line.split()[1:-1]
    ]
    packed = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]["targets"]

    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert set(packed["wheel"]["force-include"]) | {"uv.lock", "issuer_service", "sdcard"} <= set(copied)
    assert "USER 10001:10001" in lines[lines.index("FROM ${BASE}") :]
    assert [line for line in lines if line.startswith("VOLUME")] == ["VOLUME /var/lib/sdcard"]


def test_nginx_takes_no_longer_bodies_than_the_registry() -> None:
    text = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")

    assert re.search(r"client_max_body_size +1m;", text)
    assert Settings().body_limit == 1024 * 1024


@contextmanager
def nginx(folder: Path, port: int, upstream: int, authority: trustme.CA, *edits: tuple[str, str]) -> Iterator[str]:
    """The example behind which the registry stands, with ports and a certificate of this test's."""
    issued = authority.issue_cert("127.0.0.1")
    (folder / "tls.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    (folder / "tls.key").write_bytes(issued.private_key_pem.bytes())
    site = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
    for before, after in (
        ("127.0.0.1:8080", f"127.0.0.1:{upstream}"),
        ("listen [::]:443 ssl;", ""),
        ("listen 443 ssl;", f"listen 127.0.0.1:{port} ssl;"),
        ("/etc/ssl/registry.example/fullchain.pem", str(folder / "tls.pem")),
        ("/etc/ssl/registry.example/key.pem", str(folder / "tls.key")),
        ("/var/lib/nginx/sdcard", str(folder / "cache")),
        *edits,
    ):
        assert before in site
        site = site.replace(before, after)
    places = "".join(
        f"{kind}_temp_path {folder}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    whole = f"pid {folder}/pid; error_log {folder}/error.log; events {{}} http {{ access_log off; {places}\n{site}}}"
    (folder / "nginx.conf").write_text(whole, encoding="utf-8")
    command = [program("nginx"), "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", str(folder / "error.log")]
    tested = subprocess.run([*command, "-t"], capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr
    with subprocess.Popen([*command, "-g", "daemon off; master_process off;"]) as server:
        try:
            yield f"https://127.0.0.1:{port}"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(timeout=30)


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@contextmanager
def registry_behind(folder: Path, upstream: int, **settings: str) -> Iterator[str]:
    """A registry in a process of its own; a token for everything."""
    environment = served_environment(folder, upstream) | settings
    command = [sys.executable, "-c", "from sdcard.cli import main; main()"]
    scopes = [f"--scope={scope}" for scope in Scope]
    made = subprocess.run(
        [*command, "token", "create", "--subject=me", *scopes],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert made.returncode == 0, made.stderr
    with subprocess.Popen(
        [*command, "serve"], env=environment, cwd=folder, stderr=subprocess.DEVNULL, text=True
    ) as running:
        try:
            await_health(f"http://127.0.0.1:{upstream}", running)
            yield made.stdout.strip()
        finally:
            running.send_signal(signal.SIGTERM)


@pytest.mark.servers
def test_a_cache_shows_a_revocation_in_time_and_keeps_no_answer_to_a_caller(tmp_path: Path) -> None:
    """The registry's headers do it: the proxy's own line about callers is taken out."""
    authority, upstream, port = trustme.CA(), free_port(), free_port()
    edits = (
        ("proxy_no_cache         $http_authorization $http_dpop $http_cookie;", ""),
        ("proxy_cache_lock       on;", "proxy_cache_lock on; add_header X-Cache $upstream_cache_status always;"),
    )
    settings = {"SDCARD_ISSUER": f"https://127.0.0.1:{port}", "SDCARD_CATALOGUE": "true", "SDCARD_CONSOLE": "true"}
    periods = {"SDCARD_STATUS_PERIOD_SECONDS": "5", "SDCARD_STATUS_TTL_SECONDS": "30"}
    with (
        nginx(tmp_path, port, upstream, authority, *edits) as url,
        registry_behind(tmp_path, upstream, **settings, **periods) as token,
        httpx2.Client(base_url=url, verify=trusting(authority), trust_env=False) as client,
    ):
        mine = {"authorization": f"Bearer {token}"}
        body = request("secret-agent-9", interaction_id="secret-thread-9")
        registered = client.post("/agents/register", json=body, headers=mine)
        assert registered.status_code == 201, registered.text
        status = registered.json()["cards"][0]["status"]
        path = status["uri"].removeprefix(url)
        kept = [
            path,
            *(f"/.well-known/{name}" for name in WELL_KNOWN),
            "/catalogue",
            "/schemas/a2a/1.0",
            "/openapi.json",
        ]
        asked = [re.sub(r"{[^}]*}", "secret-agent-9", one) for one in openapi_document()["paths"]]
        for one in [*asked, "/agents?limit=7", "/console", "/console/session", "/", *kept] * 3:
            client.get(one, headers=mine)
            client.get(one, headers={"cookie": "__Host-sdcard=secret-cookie-9"})
        hits = {one for one in {*asked, *kept} if client.get(one, headers=mine).headers.get("x-cache") == "HIT"}
        assert set(kept) - {path} <= hits
        assert not [one for one in hits if not one.startswith(PUBLIC_PATHS) and one != "/openapi.json"]
        tag = client.get("/.well-known/jwks.json").headers["etag"]
        assert client.get("/.well-known/jwks.json", headers={"if-none-match": tag}).status_code == 304

        public_at = client.post("/agents/secret-agent-9/revoke", json={}, headers=mine).json()["public_at"]
        jwks = client.get("/.well-known/status-jwks.json").json()["keys"]
        seen = list[tuple[float, str, int | None]]()
        while not seen or (seen[-1][2] == 0 and time.time() < public_at + 30):
            answer = client.get(path)
            list_ = verify_status_list_token(
                answer.text, status["uri"], parse_public_jwk(jwks[0], WHERE), time.time(), DEFAULT_LIMITS
            )
            seen.append((time.time(), answer.headers["x-cache"], list_.statuses.status(status["idx"])))
            time.sleep(0.2)

    assert seen[-1][2] == 1
    assert seen[-1][0] <= public_at + 2, "so a Verifier that caches it for its ttl knows by `public_at` + `ttl`"
    assert len([one for one in seen if one[1] == "HIT"]) > 10
    files = [one.read_bytes() for one in (tmp_path / "cache").rglob("*") if one.is_file()]
    keys = {line.split(b"KEY: ")[1].decode() for one in files for line in one.split(b"\n") if line.startswith(b"KEY: ")}
    assert set(kept) <= keys
    assert not [one for one in keys if not one.startswith(PUBLIC_PATHS) and one not in ("/openapi.json", "/docs")]
    secrets = (token.encode(), b"secret-thread-9", b"secret-cookie-9")
    assert not [one for one in files if any(secret in one for secret in secrets)]


@pytest.mark.servers
def test_behind_nginx_a_client_is_who_it_is_whatever_it_writes(tmp_path: Path) -> None:
    authority, upstream, port = trustme.CA(), free_port(), free_port()
    environment = served_environment(tmp_path, upstream) | {
        "SDCARD_TRUSTED_PROXIES": "127.0.0.1",
        "SDCARD_ISSUER": f"https://127.0.0.1:{port}",
    }
    code = "from sdcard.cli import main; main()"
    with (
        nginx(tmp_path, port, upstream, authority) as url,
        subprocess.Popen(
            [sys.executable, "-c", code, "serve"], env=environment, cwd=tmp_path, stderr=subprocess.PIPE, text=True
        ) as registry,
    ):
        try:
            await_health(f"http://127.0.0.1:{upstream}", registry)
            forged = {"x-forwarded-for": "198.51.100.7", "x-request-id": "mine-mine", "forwarded": "for=198.51.100.7"}
            with httpx2.Client(base_url=url, verify=trusting(authority), trust_env=False) as client:
                until = time.monotonic() + 30
                while (answer := client.get("/.well-known/jwt-vc-issuer", headers=forged)).status_code == 502:
                    assert time.monotonic() < until
                too_long = client.post("/agents/register", content=b" " * (1024 * 1024 + 1)).status_code
        finally:
            registry.send_signal(signal.SIGTERM)
            _, log = registry.communicate(timeout=60)

    lines = [json.loads(line) for line in log.splitlines()]
    (seen,) = [line for line in lines if line.get("request_id") == answer.headers["x-request-id"]]
    assert (seen["route"], seen["client"]) == ("/.well-known/jwt-vc-issuer", "127.0.0.1")
    assert re.fullmatch(r"[0-9a-f]{32}", seen["request_id"])
    assert answer.json()["issuer"] == url
    assert too_long == 413
    assert "198.51.100.7" not in log
