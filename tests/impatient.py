"""Clients of several daemons that give up soon, for tests of what they say then."""

from __future__ import annotations

import json
from typing import Any

import pytest

from symd.rpc.channel import PAUSES, SERVICE_CONFIG, SEVERAL_DAEMONS_OPTIONS


def be_impatient(monkeypatch: pytest.MonkeyPatch, **policy: Any) -> None:
    """Clients that are made from now on pause for 10 ms between their attempts; ``policy`` is more of gRPC's retry policy."""
    config = json.loads(SERVICE_CONFIG)
    config["methodConfig"][-1]["retryPolicy"].update({"initialBackoff": "0.01s", "maxBackoff": "0.01s", **policy})
    options = {**dict(SEVERAL_DAEMONS_OPTIONS), "grpc.service_config": json.dumps(config)}
    monkeypatch.setattr("symd.rpc.channel.SEVERAL_DAEMONS_OPTIONS", tuple(options.items()))
    for calls in ("calls", "async_calls"):
        monkeypatch.setattr(f"symd.rpc.{calls}.PAUSES", (0.01,) * len(PAUSES))
        monkeypatch.setattr(f"symd.rpc.{calls}.WATCH_PAUSES", (0.01,) * len(PAUSES))
