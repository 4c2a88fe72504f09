"""The composition: one thread pool, the routing table, health and reflection."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from symd.api import Host
from symd.config import Config
from symd.service.parts import MAX_REQUEST, Parts, Slots
from symd.service.table import register, services
from symd.service.watches import Watches

OPTIONS = (
    ("grpc.max_receive_message_length", MAX_REQUEST),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.http2.bdp_probe", 0),  # else the window of each upload grows to what comes while the disk writes
)


HEALTH_WATCHES = 32
"""Health watches served at a time; a further one waits for its turn."""
LAST_WAIT = 5.0
"""Seconds beyond the grace after which a server that does not end is left behind."""


@dataclass(frozen=True, slots=True)
class Daemon:
    """A server that is not listening yet, and what is needed to stop it."""

    server: grpc.Server
    health: health.HealthServicer
    pool: ThreadPoolExecutor
    stopping: threading.Event
    watches: Watches

    def stop(self, grace: float) -> None:
        """Say NOT_SERVING, take no more calls, give those that run ``grace`` seconds, then end them."""
        self.stopping.set()
        self.watches.close()
        self.health.enter_graceful_shutdown()
        self.server.stop(grace).wait(grace + LAST_WAIT)
        self.pool.shutdown(wait=False, cancel_futures=True)


def build_server(engine: Host, config: Config) -> grpc.Server:
    """The server with every service, without an address. ``engine`` is called from several threads at once."""
    return build_daemon(engine, config).server


def build_daemon(engine: Host, config: Config) -> Daemon:
    """The same with its health and its end in hand."""
    parts = Parts(engine, config, Slots(config.streams), Watches(config.watches))
    threads = config.workers + config.streams + config.watches
    pool = ThreadPoolExecutor(threads, thread_name_prefix="symd-rpc")
    server = grpc.server(pool, options=OPTIONS, maximum_concurrent_rpcs=2 * threads)
    register(server, parts)
    names = [service.full_name for service in services()]
    servicer = _health_servicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", *names, health.SERVICE_NAME, reflection.SERVICE_NAME):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    return Daemon(server, servicer, pool, parts.stopping, parts.watches)


def _health_servicer() -> health.HealthServicer:
    """Watches on threads of their own. Those that the package sends without a thread can wait for each other for ever:
    ``set`` holds its lock until gRPC has sent, and gRPC's thread needs that lock when a watcher goes away."""
    pool = ThreadPoolExecutor(HEALTH_WATCHES, thread_name_prefix="symd-health")
    return health.HealthServicer(experimental_non_blocking=False, experimental_thread_pool=pool)
