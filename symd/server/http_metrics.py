"""What Prometheus may ask of a daemon's HTTP side: requests by route and status, how long they took, their bytes, what was refused by which limit, connections.
No label names a module, a file or a client: a route is written as it stands in the table of routes."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class HttpMetrics:
    """Counts since the daemon started. Safe to use from several threads. ``buckets`` are the upper bounds of the histogram, in seconds."""

    def __init__(self, registry: CollectorRegistry, buckets: tuple[float, ...]) -> None:
        self._seconds = Histogram(
            "symd_http_request_seconds", "Seconds from a request's head to the last byte of its answer.", ("route",),
            buckets=buckets, registry=registry,
        )  # fmt: skip
        self._requests = Counter("symd_http_requests", "Requests that ended.", ("route", "status"), registry=registry)
        self._refusals = Counter(
            "symd_http_refusals", "Requests that ended with an error.", ("reason", "limit"), registry=registry
        )
        self._received = Counter(
            "symd_http_received_bytes", "Bytes of bodies that came.", ("route",), registry=registry
        )
        self._sent = Counter("symd_http_sent_bytes", "Bytes of bodies that left.", ("route",), registry=registry)
        self._closed = Counter(
            "symd_http_closed_connections", "Connections that were closed because they passed a bound.", ("bound",),
            registry=registry,
        )  # fmt: skip
        self._connections = Gauge("symd_http_connections", "Connections that are open.", registry=registry)

    def ended(self, route: str, status: int, seconds: float, size: tuple[int, int]) -> None:
        """Count a request. ``route`` is "" where there is none, ``status`` 0 where no answer began; ``size`` are the bytes of both bodies."""
        self._seconds.labels(route).observe(seconds)
        self._requests.labels(route, str(status) if status else "").inc()
        self._received.labels(route).inc(size[0])
        self._sent.labels(route).inc(size[1])

    def refused(self, reason: str, limit: str) -> None:
        """Count the reason of a request that ended with an error, and the limit that it names."""
        self._refusals.labels(reason, limit).inc()

    def closed(self, bound: str) -> None:
        """Count a connection that was closed because it passed ``bound``."""
        self._closed.labels(bound).inc()

    def watch(self, connections: Callable[[], int]) -> None:
        """Tell how many connections are open, too."""
        self._connections.set_function(connections)
