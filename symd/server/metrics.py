"""The daemon's metrics for Prometheus (prometheus.io/docs/practices/naming).

They cover calls by method and outcome, their times, refusals by limit, the processes that read modules, and what is
held and waits now; the store's contents, room and evictions; HTTP requests by route and status, their times and bytes,
refusals by limit, connections. No label names a module, a file or a client: a route is written as it is in the table of
routes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from symd.config import Limits
from symd.errors import SymdError
from symd.server.call import Call
from symd.server.logs import OK
from symd.server.own_process import own_bytes
from symd.store import ModuleStore

if TYPE_CHECKING:
    from symd.server.server import Daemon


class StoreMetrics(Collector):
    """Asked for when the page is: the catalogue knows the sums."""

    def __init__(self, store: ModuleStore, limits: Limits) -> None:
        self._store = store
        self._limits = limits

    def collect(self) -> Iterator[Metric]:
        store = self._store
        evicted = store.eviction_log.sums
        yield CounterMetricFamily("symd_evicted_modules", "Modules that were evicted.", evicted.modules)
        yield CounterMetricFamily("symd_evicted_bytes", "Bytes of evicted modules and their indexes.", evicted.bytes)
        yield CounterMetricFamily(
            "symd_given_up_modules", "Modules that no attempt could index to an end.", store.given_up
        )
        yield GaugeMetricFamily(
            "symd_store_limit_bytes", "The limit store_size: bytes of modules and indexes.", self._limits.store_size
        )
        yield GaugeMetricFamily(
            "symd_store_writable", "1 where the disk takes what is written, else 0.", int(store.writability.is_writable)
        )
        try:
            told = store.module_log.end().sequence
            found = store.figures()
        except SymdError:
            return  # the catalogue cannot be read at this moment: nothing is better than a wrong number
        yield CounterMetricFamily(
            "symd_store_module_events", "Modules added, removed, loaded and unloaded since the store was made.", told
        )
        yield GaugeMetricFamily("symd_store_modules", "Modules in the store.", found.modules)
        yield GaugeMetricFamily("symd_store_module_bytes", "Bytes of the modules' files.", found.module_bytes)
        yield GaugeMetricFamily("symd_store_index_bytes", "Bytes of the indexes' files.", found.index_bytes)
        yield GaugeMetricFamily("symd_store_free_bytes", "Free bytes of the store's disk.", found.free)
        yield GaugeMetricFamily("symd_store_damaged_files", "What was set aside in damaged/.", found.damaged)


class HttpMetrics:
    """Counts since the daemon started. Safe to use from several threads. ``buckets`` are the upper bounds of the
    histogram, in seconds."""

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
        self._connections = Gauge("symd_http_connections", "Connections that are open.", registry=registry)

    def ended(self, route: str, status: int, seconds: float, size: tuple[int, int]) -> None:
        """Count a request. ``route`` is "" where there is none, ``status`` 0 where no answer began; ``size`` are the
        bytes of both bodies."""
        self._seconds.labels(route).observe(seconds)
        self._requests.labels(route, str(status) if status else "").inc()
        self._received.labels(route).inc(size[0])
        self._sent.labels(route).inc(size[1])

    def refused(self, reason: str, limit: str) -> None:
        """Count the reason of a request that ended with an error, and the limit that it names."""
        self._refusals.labels(reason, limit).inc()

    def watch(self, connections: Callable[[], int]) -> None:
        """Tell how many connections are open, too."""
        self._connections.set_function(connections)


_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
"""The upper bounds of the histograms' buckets."""


class Metrics:
    """Counts of one daemon since it started. Safe to use from several threads."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._seconds = Histogram(
            "symd_call_seconds", "Seconds from a call's headers to its end.", ("method",), buckets=_BUCKETS,
            registry=self._registry,
        )  # fmt: skip
        self._calls = Counter("symd_calls", "Calls that ended.", ("method", "outcome"), registry=self._registry)
        self._refusals = Counter(
            "symd_refusals", "Calls that ended with an error.", ("reason", "limit"), registry=self._registry
        )
        self._at_once = Counter(
            "symd_single_questions", "Questions about few addresses, by whether the module's index was open.", ("open",),
            registry=self._registry,
        )  # fmt: skip
        self._reads = Histogram(
            "symd_module_read_seconds", "Seconds that a process took to index or to read a module.", ("work", "outcome"),
            buckets=_BUCKETS, registry=self._registry,
        )  # fmt: skip

    def ended(self, call: Call, outcome: str, limit: str = "") -> None:
        """Count a call. ``outcome`` is ``OK``, ``CANCELLED`` or the reason of an error, ``limit`` the limit that it
        names."""
        self._seconds.labels(call.method).observe(time.monotonic() - call.begun)
        self._calls.labels(call.method, outcome).inc()
        if outcome != OK:
            self._refusals.labels(outcome, limit).inc()
        if call.index_was_open is not None:
            self._at_once.labels("yes" if call.index_was_open else "no").inc()

    def read(self, work: str, outcome: str, seconds: float) -> None:
        """Count a module's index (``work`` is "index") or a question that its bytes answer ("question"). ``outcome`` is
        "OK" or the reason of an error: ``WORKER_DIED`` where the process did not end by itself."""
        self._reads.labels(work, outcome).observe(seconds)

    def watch(self, daemon: Daemon) -> None:
        """Tell what this daemon holds, too."""
        self._registry.register(_DaemonGauges(daemon))

    def watch_store(self, store: ModuleStore, limits: Limits) -> None:
        """Tell what is in the store, too."""
        self._registry.register(StoreMetrics(store, limits))

    def http(self) -> HttpMetrics:
        """The metrics of the HTTP side, told from now on. To be called once."""
        return HttpMetrics(self._registry, _BUCKETS)

    def page(self) -> bytes:
        """All metrics in Prometheus' text format."""
        return generate_latest(self._registry)


class _DaemonGauges(Collector):
    def __init__(self, daemon: Daemon) -> None:
        self._daemon = daemon

    def collect(self) -> Iterator[Metric]:
        daemon = self._daemon
        held = GaugeMetricFamily("symd_bytes_in_flight", "Bytes of large messages that are held.")
        held.add_metric((), daemon.flight.total)
        silent = GaugeMetricFamily("symd_waiting_calls", "Calls that wait for their first message.")
        silent.add_metric((), daemon.waiting.count)
        memory = GaugeMetricFamily("symd_own_memory_bytes", "Memory of the daemon's own, mapped files not counted.")
        memory.add_metric((), own_bytes())
        running = GaugeMetricFamily("symd_work_queue_running", "Threads at work, by kind of work.", labels=("work",))
        waiting = GaugeMetricFamily("symd_work_queue_waiting", "Calls that wait for a thread.", labels=("work",))
        for work, queue in daemon.work_queues.items():
            running.add_metric((work.name.lower(),), queue.running)
            waiting.add_metric((work.name.lower(),), queue.waiting)
        yield from (held, silent, memory, running, waiting)
