"""Figures for Prometheus: what is counted, that labels are bounded, and where they are read."""

import asyncio
from contextlib import closing

import httpx2
import pytest
from prometheus_client import REGISTRY, generate_latest

from issuer_service.monitoring import Metrics, offered
from issuer_service.server import bind
from sdcard.acceleration import KERNEL
from sdcard.io.database import open_database
from tests.issuer_service.desk import Desk, on_both_databases, request
from tests.issuer_service.test_rates import limits
from tests.issuer_service.test_serving import free_port


def text_of(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


def test_requests_cards_lists_and_refusals_are_counted(desk: Desk) -> None:
    metrics = Metrics()
    with desk.open(metrics=metrics, rates=limits(addresses=60)) as registry:
        uri = registry.register(request())["cards"][0]["status"]["uri"]
        for _ in range(3):
            registry.get(f"/status/{uri.rpartition('/')[2]}")
        registry.post(request("bad id"))
        registry.post(request(), authorization="Bearer wrong")
        registry.client.request("CANARY", "/canary?canary", headers={"x-request-id": "canary-canary"})
        for _ in range(10):
            registry.get("/canary")
        text = text_of(metrics)

    for line in (
        'sdcard_requests_total{method="POST",route="/agents/register",status="2xx"} 1.0',
        'sdcard_requests_total{method="POST",route="/agents/register",status="4xx"} 2.0',
        'sdcard_requests_total{method="other",route="none",status="4xx"} 1.0',
        'sdcard_requests_total{method="GET",route="/status/{list_id}",status="2xx"} 3.0',
        'sdcard_request_seconds_count{route="/agents/register"} 3.0',
        'sdcard_cards_issued_total{context="public"} 1.0',
        'sdcard_cards_issued_total{context="internal"} 1.0',
        "sdcard_status_lists_published_total 1.0",
        'sdcard_refusals_total{rule="agent-id.malformed"} 1.0',
        'sdcard_refusals_total{rule="token.invalid"} 1.0',
        'sdcard_refusals_total{rule="rate.exceeded"} 4.0',
        "sdcard_database_connections 0.0",
        f"sdcard_native_kernel {float(KERNEL is not None)}",
    ):
        assert line in text.splitlines()
    assert "process_resident_memory_bytes" in text
    assert "canary" not in text
    assert desk.token not in text


def test_a_refused_registration_counts_no_card(desk: Desk) -> None:
    metrics = Metrics()
    with desk.open(metrics=metrics) as registry:
        registry.register(request())
        before = text_of(metrics).count("sdcard_cards_issued_total")
        registry.post(request(), authorization=f"Bearer {desk.new_token('bob')}")

    assert 'sdcard_cards_issued_total{context="public"} 1.0' in text_of(metrics)
    assert text_of(metrics).count("sdcard_cards_issued_total") == before


def test_an_unreachable_database_is_counted(desk: Desk) -> None:
    metrics = Metrics()
    with desk.open(metrics=metrics) as registry:
        desk.file.unlink()
        registry.post(request())

    assert 'sdcard_refusals_total{rule="store.unavailable"} 1.0' in text_of(metrics)


@on_both_databases
def test_connections_in_use_are_seen(desk: Desk) -> None:
    async def look() -> list[int]:
        database = open_database(desk.url)
        during = await database.read(lambda _: database.connections_in_use())
        after = database.connections_in_use()
        await database.close()
        return [during, after]

    assert asyncio.run(look()) == [1, 0]


def test_two_registries_do_not_share_and_nothing_is_global(desk: Desk) -> None:
    first, second = Metrics(), Metrics()
    with desk.open(metrics=first) as registry:
        registry.register(request())

    assert "/agents/register" in text_of(first)
    assert "/agents/register" not in text_of(second)
    assert "sdcard" not in generate_latest(REGISTRY).decode()


def test_they_are_read_on_a_port_of_their_own_and_not_on_the_registrys(desk: Desk) -> None:
    metrics, port = Metrics(), free_port()
    with desk.open(metrics=metrics) as registry:
        assert registry.get("/metrics").status_code == 404
        with offered(metrics, port):
            text = httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
            head = httpx2.head(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"].startswith("text/plain")
    assert int(head.headers["content-length"]) > 100
    assert 'sdcard_requests_total{method="GET",route="none",status="4xx"} 1.0' in text
    with pytest.raises(httpx2.TransportError):
        httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
    with offered(metrics, None):
        pass


def test_a_port_that_is_taken_is_said() -> None:
    with closing(bind()) as taken, pytest.raises(OSError, match="in use"), offered(Metrics(), taken.getsockname()[1]):
        pass
