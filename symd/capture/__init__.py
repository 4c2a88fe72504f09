"""Modules of running programs: the ways to see a program build and load them, and where what was seen goes.

A *way* (a preloaded library, a layer, a listener, a watched folder) yields the events of ``symd.model.captures``; a
*sink* takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from symd import found

if TYPE_CHECKING:
    from symd.capture.python_program import PythonCapture as PythonCapture
    from symd.capture.python_program import start as start
else:
    _HOMES = dict.fromkeys(("PythonCapture", "start"), "symd.capture.python_program")

    def __getattr__(name: str) -> object:
        return found(__name__, _HOMES, name)


__all__ = ("PythonCapture", "start")
