"""Modules of running programs: the ways to see a program build and load them, and where what was seen goes.

A *way* (a preloaded library, a layer, a listener, a watched folder) yields the events of ``symd.model.captures``; a *sink* takes them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symd.capture.python_program import PythonCapture, start

__all__ = ("PythonCapture", "start")


def __getattr__(name: str) -> Any:
    """Import what runs inside programs only there."""
    if name not in __all__:
        raise AttributeError(f"module 'symd.capture' has no attribute {name!r}")
    from symd.capture import python_program  # noqa: PLC0415 - see the docstring

    return getattr(python_program, name)
