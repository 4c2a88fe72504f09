"""The composition: one thread pool, the routing table, health and reflection."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from symd.api import Host
from symd.config import Config
from symd.service.reflection import REFLECTION, enable_reflection
from symd.service.service_context import MAX_REQUEST, ServiceContext
from symd.service.stream_limiter import StreamLimiter
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
    names = (*(service.full_name for service in services()), health.SERVICE_NAME, *REFLECTION)
    context = ServiceContext(engine, config, StreamLimiter(config.streams), Watches(config.watches), names)
    threads = config.workers + config.streams + config.watches
    pool = ThreadPoolExecutor(threads, thread_name_prefix="symd-rpc")
    server = grpc.server(pool, options=OPTIONS, maximum_concurrent_rpcs=2 * threads)
    register(server, context)
    servicer = _health_servicer()
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", *names):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    enable_reflection(server, names)
    return Daemon(server, servicer, pool, context.stopping, context.watches)


def _health_servicer() -> health.HealthServicer:
    """Watches on threads of their own. Those that the package sends without a thread can wait for each other for ever:
    ``set`` holds its lock until gRPC has sent, and gRPC's thread needs that lock when a watcher goes away."""
    pool = ThreadPoolExecutor(HEALTH_WATCHES, thread_name_prefix="symd-health")
    return health.HealthServicer(experimental_non_blocking=False, experimental_thread_pool=pool)
