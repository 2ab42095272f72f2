"""The registry's own TLS: 1.3, a key for its owner alone."""

import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
import trustme
from cryptography.hazmat.primitives import serialization as to

from issuer_service.server import serve, tls_context
from issuer_service.settings import Settings
from sdcard import Misuse, TrustedIssuers
from sdcard.io.egress_policy import EgressPolicy
from sdcard.io.issuer_metadata import IssuerKeys
from tests.issuer_service.test_serving import await_health, free_port, served_environment, stop
from tests.world import NOW, raises_rule


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def files(authority: trustme.CA, folder: Path) -> tuple[Path, Path]:
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = folder / "tls.pem", folder / "tls.key"
    certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    key.write_bytes(issued.private_key_pem.bytes())
    key.chmod(0o600)
    return certificate, key


def trusting(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.create_default_context()
    authority.configure_trust(context)
    return context


@contextmanager
def serving_tls(authority: trustme.CA, folder: Path) -> Iterator[int]:
    certificate, key = files(authority, folder)
    port = free_port()
    options = ["serve", "--tls-cert", str(certificate), "--tls-key", str(key)]
    code = "from sdcard.cli import main; main()"
    environment = served_environment(folder, port)
    with subprocess.Popen([sys.executable, "-c", code, *options], env=environment, cwd=folder) as server:
        try:
            await_health(f"https://127.0.0.1:{port}", server, trusting(authority))
            yield port
        finally:
            stop(server)


def test_a_verifier_that_lists_the_registry_has_its_keys_from_it(authority: trustme.CA, tmp_path: Path) -> None:
    with serving_tls(authority, tmp_path) as port:
        issuer = f"https://127.0.0.1:{port}"
        listed = TrustedIssuers({issuer: {}})
        now = IssuerKeys(listed, EgressPolicy(authorities=authority.cert_pem.bytes().decode())).for_status_list(
            issuer, None, NOW
        )
        assert (len(now.keys[issuer]), len(now.status_keys[issuer])) == (1, 1)
        with raises_rule("issuer.metadata-unavailable", at="issuer-jwt/iss"):
            IssuerKeys(listed).for_status_list(issuer, None, NOW)


def test_tls_1_3_is_spoken_and_nothing_older(authority: trustme.CA, tmp_path: Path) -> None:
    with serving_tls(authority, tmp_path) as port:
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            trusting(authority).wrap_socket(plain, server_hostname="127.0.0.1") as secure,
        ):
            assert secure.version() == "TLSv1.3"

        older = trusting(authority)
        older.maximum_version = ssl.TLSVersion.TLSv1_2
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            pytest.raises((ssl.SSLError, ConnectionError, OSError)),
        ):
            older.wrap_socket(plain, server_hostname="127.0.0.1")

        metadata = httpx2.get(
            f"https://127.0.0.1:{port}/.well-known/jwt-vc-issuer", verify=trusting(authority), trust_env=False
        )
        assert metadata.json()["issuer"] == f"https://127.0.0.1:{port}"
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{port}/healthz", trust_env=False)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o610])
def test_a_key_that_others_can_reach_is_refused(authority: trustme.CA, tmp_path: Path, mode: int) -> None:
    certificate, key = files(authority, tmp_path)
    key.chmod(mode)

    with pytest.raises(Misuse, match="chmod 600"):
        tls_context(certificate, key)


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_key_of_its_owners_is_read(authority: trustme.CA, tmp_path: Path, mode: int) -> None:
    certificate, key = files(authority, tmp_path)
    key.chmod(mode)

    assert tls_context(certificate, key).minimum_version is ssl.TLSVersion.TLSv1_3


def test_files_that_are_something_else_are_refused_and_not_quoted(authority: trustme.CA, tmp_path: Path) -> None:
    certificate, key = files(authority, tmp_path)
    other = authority.issue_cert("127.0.0.1").private_key_pem.bytes()
    for content in (b"canary", b"", other):
        key.write_bytes(content)
        with pytest.raises(Misuse) as refused:
            tls_context(certificate, key)
        assert "canary" not in str(refused.value)
    with pytest.raises(FileNotFoundError):
        tls_context(certificate, tmp_path / "nowhere")


def test_an_encrypted_key_is_refused_and_nobody_is_asked(authority: trustme.CA, tmp_path: Path) -> None:
    certificate, key = files(authority, tmp_path)
    private = to.load_pem_private_key(key.read_bytes(), None)
    key.write_bytes(
        private.private_bytes(to.Encoding.PEM, to.PrivateFormat.PKCS8, to.BestAvailableEncryption(b"canary"))
    )

    with pytest.raises(Misuse, match="encrypted"):
        tls_context(certificate, key)


def test_certificate_and_key_go_together(authority: trustme.CA, tmp_path: Path) -> None:
    certificate, key = files(authority, tmp_path)

    for half in ({"tls_cert": certificate}, {"tls_key": key}):
        with pytest.raises(Misuse, match="together"):
            serve(Settings.model_validate(half))
