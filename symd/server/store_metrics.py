"""What Prometheus may ask of a daemon's store: how much is in it, how much room there is, what was evicted and given up."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from symd.config import Limits
from symd.errors import SymdError
from symd.store import ModuleStore


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
