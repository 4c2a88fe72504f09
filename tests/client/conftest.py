"""A client of a daemon in this process."""

from __future__ import annotations

import pytest

from symd import Client
from tests.server.conftest import running as running  # noqa: PLC0414 - a fixture, shared


@pytest.fixture
def client(running):
    with Client(running.address, timeout=20) as client:
        yield client
