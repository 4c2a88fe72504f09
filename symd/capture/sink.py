"""Where captured events go: a folder, a daemon, both."""

from __future__ import annotations

import threading
from typing import Protocol

from symd.model.captures import CaptureEvent


class Sink(Protocol):
    """Takes events in the order in which they are told, from one thread at a time."""

    def take(self, event: CaptureEvent) -> None:
        """Keep one event. When it returns, the event survives the death of this process. Raises what the sink's kind
        raises (``StoreUnavailable``, ``Unavailable``, ...); the event may then be told again, and counts once."""


class OneAtATime:
    """A sink for several threads, in front of one for one."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._lock = threading.Lock()

    def take(self, event: CaptureEvent) -> None:
        """Keep one event as ``Sink.take`` does, once the events of other threads have been told."""
        with self._lock:
            self._sink.take(event)
