"""What the operating system is asked for: child processes and their confinement, files that only their owner reads,
locks, texts of errors; and names of a package that are imported when they are first used, because they are slow to
import or not installed everywhere."""

from __future__ import annotations

import sys
from collections.abc import Mapping


def found(package: str, homes: Mapping[str, str], name: str) -> object:
    """What ``name`` stands for in ``package``, which has it from then on; for the package's ``__getattr__`` (PEP 562).
    ``homes`` has the module of each name, or ``module:NAME`` where it has another one there. Raises AttributeError for
    what is not among them."""
    from importlib import import_module  # noqa: PLC0415 - whoever wants no such name does without

    if name not in homes:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    home, _, there = homes[name].partition(":")
    value: object = getattr(import_module(home), there or name)
    setattr(sys.modules[package], name, value)
    return value
