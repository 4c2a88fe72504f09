"""Modules of running programs: the ways to see a program build and load them, and where what was seen goes.

A *way* (a preloaded library, a layer, a listener, a watched folder) yields the events of ``symd.model.captures``; a
*sink* takes them: a folder, a daemon, or both.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Protocol

from symd import found
from symd.model.captures import CaptureEvent

if TYPE_CHECKING:
    from symd.capture.python_program import PythonCapture as PythonCapture
    from symd.capture.python_program import start as start
else:
    _HOMES = dict.fromkeys(("PythonCapture", "start"), "symd.capture.python_program")

    def __getattr__(name: str) -> object:
        return found(__name__, _HOMES, name)


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


__all__ = ("OneAtATime", "PythonCapture", "Sink", "start")
