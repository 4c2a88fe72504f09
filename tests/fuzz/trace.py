"""What an input reaches: the lines of symd that a function runs with it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import CodeType, FrameType
from typing import NamedTuple

import symd

Line = tuple[CodeType, int]
_SYMD = str(Path(symd.__file__).parent)


class Reach(NamedTuple):
    """The lines of symd that an input reaches, and how many it runs, each as often as it is run."""

    lines: frozenset[Line]
    cost: int


class _Tracer:
    def __init__(self) -> None:
        self.lines: set[Line] = set()
        self.cost = 0

    def call(self, frame: FrameType, _event: str, _argument: object) -> Callable[..., object] | None:
        return self.line if frame.f_code.co_filename.startswith(_SYMD) else None

    def line(self, frame: FrameType, event: str, _argument: object) -> Callable[..., object]:
        if event == "line":
            self.cost += 1
            self.lines.add((frame.f_code, frame.f_lineno))
        return self.line


def reach(run: Callable[[bytes], object], data: bytes, ends: type[Exception]) -> Reach:
    """Run one input, in this thread and those that it begins. Raises what ``run`` raises, except what it is expected to end with."""
    tracer = _Tracer()
    threading.settrace(tracer.call)
    sys.settrace(tracer.call)
    try:
        with suppress(ends):
            run(data)
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type] # typeshed does not know that this ends it
    return Reach(frozenset(tracer.lines), tracer.cost)


def adding(reached: Iterable[tuple[bytes, frozenset[Line]]]) -> list[bytes]:
    """Of inputs, each with its lines, the first one and those that reach a line which none before them reaches."""
    known: set[Line] = set()
    kept: list[bytes] = []
    for data, lines in reached:
        if not kept or not lines <= known:
            known |= lines
            kept.append(data)
    return kept
