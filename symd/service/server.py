"""The composition: one thread pool, the routing table, health and reflection."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from symd.config import Config
from symd.engine import Symbolizer
from symd.service.parts import MAX_REQUEST, Parts, Slots
from symd.service.table import register, services

OPTIONS = (
    ("grpc.max_receive_message_length", MAX_REQUEST),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)


@dataclass(frozen=True, slots=True)
class Daemon:
    """A server that is not listening yet, and what is needed to stop it."""

    server: grpc.Server
    health: health.HealthServicer
    pool: ThreadPoolExecutor
    stopping: threading.Event

    def stop(self, grace: float) -> None:
        """Say NOT_SERVING, take no more calls, give those that run ``grace`` seconds, then end them."""
        self.stopping.set()
        self.health.enter_graceful_shutdown()
        self.server.stop(grace).wait()
        self.pool.shutdown(wait=False, cancel_futures=True)


def build_server(engine: Symbolizer, config: Config) -> grpc.Server:
    """The server with every service, without an address. ``engine`` is called from several threads at once."""
    return build_daemon(engine, config).server


def build_daemon(engine: Symbolizer, config: Config) -> Daemon:
    """The same with its health and its end in hand."""
    parts = Parts(engine, config, Slots(config.streams))
    threads = config.workers + config.streams
    pool = ThreadPoolExecutor(threads, thread_name_prefix="symd-rpc")
    server = grpc.server(pool, options=OPTIONS, maximum_concurrent_rpcs=2 * threads)
    register(server, parts)
    names = [service.full_name for service in services()]
    servicer = health.HealthServicer(experimental_non_blocking=True)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    for name in ("", *names, health.SERVICE_NAME, reflection.SERVICE_NAME):
        servicer.set(name, health_pb2.HealthCheckResponse.SERVING)
    reflection.enable_server_reflection((*names, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    return Daemon(server, servicer, pool, parts.stopping)
