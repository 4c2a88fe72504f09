"""What holds for all tests."""

from __future__ import annotations

import gc
import signal
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.store.shared.fixtures", "tests.cli.forked")

# How long an example takes says how busy the machine is.
settings.register_profile("symd", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("symd")

# A shell lets what it runs in the background ignore SIGINT, and nohup SIGHUP; so would every program that a test starts and interrupts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_finish() -> None:
    """No test leaves anything behind in what the collection made: whoever looks for rubbish, or through all objects, need not look there."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def time_is_up_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], None]:
    """Let no time pass for children that are started from now on until a file is there, and then all of it: how long a child takes to get
    where it hangs says how busy the machine is."""

    def set_(mark: Path) -> None:
        clock = SimpleNamespace(monotonic=lambda: 1e9 if mark.exists() else 0.0)
        monkeypatch.setattr("symd.system.process.run.time", clock)

    return set_
