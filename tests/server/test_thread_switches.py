"""Threads of a daemon take turns often, so that the event loop waits a short time for each that runs Python all the time."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from symd.server import lifecycle
from symd.server.config import Config
from symd.server.own_process import SWITCH_SECONDS
from tests.server.fakes import FakeEngine


def test_threads_take_turns_often_as_long_as_a_daemon_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(lifecycle._Signals, "wait", lambda *_: seen.append(sys.getswitchinterval()))
    before = sys.getswitchinterval()
    lifecycle.serve(Config(address=f"unix:{tmp_path}/run/symd.sock", store=tmp_path), FakeEngine())
    assert seen == [SWITCH_SECONDS]
    assert SWITCH_SECONDS < before == sys.getswitchinterval()
