"""Prometheus metrics in a collection of their own, on a loopback port.

Labels are bounded: routes and contexts of the code and the policy, a few methods, classes of status, ids of rules. No
label holds what a client chose. The names of contexts are the operator's, and shown to all who may read the metrics.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    make_wsgi_app,
    start_http_server,
)

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

LOOPBACK: Final = "127.0.0.1"

_SECONDS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class Metrics:
    """Metrics of the registry."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._requests = Counter(
            "sdcard_requests", "Answers, by class of status.", ["method", "route", "status"], registry=self.registry
        )
        self._seconds = Histogram(
            "sdcard_request_seconds", "Time to an answer.", ["route"], buckets=_SECONDS, registry=self.registry
        )
        self._refusals = Counter(
            "sdcard_refusals",
            "Refusals, by rule.",
            ["rule"],
            registry=self.registry,
        )
        self._cards = Counter(
            "sdcard_cards_issued", "SD-Cards, also for discovery.", ["context"], registry=self.registry
        )
        self._lists = Counter(
            "sdcard_status_lists_published", "Status lists that were signed anew.", registry=self.registry
        )
        self._connections = Gauge(
            "sdcard_database_connections", "Connections to the database that are in use.", registry=self.registry
        )
        ProcessCollector(registry=self.registry)
        self._of_request = lru_cache(None)(self._labelled)

    def count_request(self, method: str, route: str, status: int | None, rule: str, seconds: float) -> None:
        """A request was answered; without a status the client had left."""
        counter, histogram = self._of_request(method, route, status and status // 100)
        counter.inc()
        histogram.observe(seconds)
        if rule:
            self._refusals.labels(rule).inc()

    def _labelled(self, method: str, route: str, status: int | None) -> tuple[Counter, Histogram]:
        """Kept, for ``labels`` takes longer than to count."""
        shown = "none" if status is None else f"{status}xx"
        return self._requests.labels(method, route, shown), self._seconds.labels(route)

    def count_card(self, context: str) -> None:
        """An SD-Card was issued."""
        self._cards.labels(context).inc()

    def count_status_list(self) -> None:
        """A status list was published."""
        self._lists.inc()

    def watch_connections(self, in_use: Callable[[], int]) -> None:
        """Read the number of connections at each scrape."""
        self._connections.set_function(in_use)


@contextmanager
def offered(metrics: Metrics, port: int | None) -> Iterator[None]:
    """Serve the metrics at ``/metrics`` for the duration of the block.

    With None, they are not served.

    Raises:
        OSError: when the port is taken.
    """
    if port is None:
        yield
        return
    server, thread = start_http_server(port, LOOPBACK, metrics.registry)
    server.set_app(_with_head(make_wsgi_app(metrics.registry)))
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _with_head(app: "WSGIApplication") -> "WSGIApplication":
    """Answer HEAD as GET without the content (RFC 9110 9.3.2)."""

    def answer(environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "HEAD":
            return app(environ, start_response)
        begun: list[tuple[str, list[tuple[str, str]]]] = []

        def begin(status: str, headers: list[tuple[str, str]], *_: object) -> Callable[[bytes], object]:
            begun.append((status, headers))
            return lambda content: None

        size = sum(map(len, app({**environ, "REQUEST_METHOD": "GET"}, begin)))
        status, headers = begun[0]
        start_response(status, [*headers, ("Content-Length", str(size))])
        return []

    return answer
