"""Where a disassembler's shared library is."""

from __future__ import annotations

from ctypes.util import find_library

__all__ = ("installed",)


def installed(name: str) -> str | None:
    """The file name under which the loader finds library ``name`` ("iga64" for libiga64.so), or None."""
    return find_library(name)
