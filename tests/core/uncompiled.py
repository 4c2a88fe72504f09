"""The modules of the core as plain Python, beside the compiled ones: both must say the same of whatever they are given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import symd.core
from symd.dwarf import abbreviations, dies

INHERITED = ("byte_reader", "abbreviations", "range_lists")
"""Modules that others of the core inherit from, and see only where both are compiled or both are not."""


def uncompiled(name: str) -> ModuleType:
    """The module ``symd.core.NAME``, run from its source."""
    compiled = {one: import_module(f"symd.core.{one}") for one in INHERITED}
    try:
        for one in INHERITED:
            _stand_in(one, _run(one))
        return _run(name)
    finally:
        for one, module in compiled.items():
            _stand_in(one, module)


def _stand_in(name: str, module: ModuleType) -> None:
    sys.modules[f"symd.core.{name}"] = module
    setattr(symd.core, name, module)


def _run(name: str) -> ModuleType:
    spec = spec_from_file_location(f"uncompiled_{name}", Path(symd.core.__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def without_compiled_dies() -> Iterator[None]:
    """Have DIE trees, abbreviations and range lists read uncompiled."""
    core = _dies()
    with (
        patch.object(abbreviations, "AbbreviationTable", core.abbreviations.AbbreviationTable),
        patch.object(dies, "DieRows", core.DieRows),
        patch.object(dies, "CoreRanges", core.range_lists.RangeRows),
        patch.object(dies, "UnitParameters", core.range_lists.UnitParameters),
    ):
        yield


@cache
def _dies() -> ModuleType:
    return uncompiled("dies")
