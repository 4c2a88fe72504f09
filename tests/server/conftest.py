"""A daemon in this process over a fake engine, on a socket of the test's own."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import pytest

from symd.config import Limits
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from tests.server.fakes import FakeEngine

LIMITS = Limits(module_size=3 << 20, batch=5000)


@dataclass
class Running:
    address: str
    engine: Any
    daemon: Any


@pytest.fixture
def running(tmp_path):
    config = Config(limits=LIMITS, store=tmp_path, address=f"unix:{tmp_path}/d/s", workers=4, streams=3, grace=1.0)
    engine = FakeEngine()
    daemon = build_daemon(engine, config)
    with listening(daemon.server, config.address) as address:
        daemon.server.start()
        yield Running(address, engine, daemon)
        engine.hold.set()
        daemon.stop(0.2)


@pytest.fixture
def channel(running):
    with grpc.insecure_channel(running.address) as channel:
        yield channel


@pytest.fixture
def folder():
    """A folder that every user can go through and only this one can change. Pytest's own are closed to others."""
    with tempfile.TemporaryDirectory(prefix="symd-listen-") as name:
        path = Path(name)
        path.chmod(0o711)
        yield path
