"""The daemon: the engine's verbs as gRPC services, with health and reflection beside them."""

from symd.server.lifecycle import serve
from symd.server.server import build_server

__all__ = ("build_server", "serve")
