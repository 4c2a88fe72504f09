"""Modules of running programs: the ways to see a program build and load them, and where what was seen goes.

A *way* (a preloaded library, a layer, a listener, a watched folder) yields the events of ``symd.model.captures``; a
*sink* takes them: a folder, a daemon, or both.
"""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from symd import found
from symd.errors import SymdError
from symd.model.captures import CaptureEvent, CaptureWay

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


@dataclass
class CaptureCounts:
    """What came in during a run, and why the rest did not."""

    builds: int = 0
    """Modules that a driver made or refused to make."""
    modules: int = 0
    failed: int = 0
    brought: int = 0
    """Device code that programs brought along in their files, for the runtime to load when it is needed."""
    ways: Counter[CaptureWay] = field(default_factory=Counter)
    """Modules by the way in which they were seen."""
    lost: int = 0
    """Records that could not be handed over."""
    said_lost: int = 0
    """Records that programs say they could not hand over; nobody can check that."""
    refused: list[SymdError] = field(default_factory=list)
    """Why messages were not taken: they made no sense, or passed a limit. The first few."""
    refusals: int = 0
    dumped: int = 0
    """Modules that compilers and drivers wrote into the run's folder."""
    untold: SymdError | None = None
    """Why the sink did not take an event; the first reason."""
    untold_events: int = 0
    dumps_left_out: list[SymdError] = field(default_factory=list)
    """Why dumped files were not taken."""

    @property
    def saw_modules(self) -> bool:
        """Whether any module was built, dumped or embedded."""
        return bool(self.builds or self.brought or self.dumped)

    @property
    def went_well(self) -> bool:
        """Whether all that was seen is kept."""
        return not (self.lost or self.said_lost or self.refusals or self.untold_events or self.dumps_left_out)


__all__ = ("CaptureCounts", "OneAtATime", "PythonCapture", "Sink", "start")
