"""The modules of the core as plain Python, beside the compiled ones: both must say the same of whatever they are given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import symd.core
from symd.debuginfo import (
    address_scopes,
    folded_sequences,
    line_table_texts,
    one_address,
    reading,
    relocation,
    rows_alone,
    text_ranges,
)
from symd.debuginfo.dwarf import columns, forms, lines, units
from symd.debuginfo.spirv import decoded
from symd.formats import elf, spirv
from symd.formats.containers.amd import symbols as amdgpu_symbols
from symd.formats.elf import contents

INHERITED = ("sorting", "byte_reader", "abbreviations", "range_lists", "dies")
"""Modules that others of the core inherit from or call, and see only where both are compiled or both are not."""


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
def without_compiled_core() -> Iterator[None]:
    """Have relocations, DIE trees, names, scopes and what else follows from them read uncompiled."""
    names = (
        "amdgpu_symbols", "byte_reader", "dies", "elf_tables", "function_extents", "headers", "inlined_calls", "line_program", "row_scopes", "scopes", "spirv", "text_layout",
    )  # fmt: skip
    core = {name: _run_once(name) for name in names}
    read = core["dies"]
    places: list[tuple[ModuleType, str, object]] = [
        (forms, "AbbreviationTable", read.abbreviations.AbbreviationTable),
        (units, "DieRows", read.DieRows),
        (units, "UnitParameters", read.range_lists.UnitParameters),
        (units, "UnitReader", core["headers"].UnitReader),
        *((module, "LineHeaderReader", core["headers"].LineHeaderReader) for module in (lines, line_table_texts)),
        (units, "function_extents", core["function_extents"]),
        (units, "RangeRows", read.range_lists.RangeRows),
        (columns, "core", core["scopes"]),
        *((module, "core", core["function_extents"]) for module in (folded_sequences, lines)),
        *(
            (module, "text_layout", core["text_layout"])
            for module in (reading, folded_sequences, one_address, address_scopes, rows_alone, text_ranges)
        ),
        *(
            (amdgpu_symbols, name, getattr(core["amdgpu_symbols"], name))
            for name in ("SymbolTable", "OverlappingStrings")
        ),
        (rows_alone, "core", core["row_scopes"]),
        (lines, "inlined_calls", core["inlined_calls"]),
        (lines, "LineProgramRows", core["line_program"].LineProgramRows),
        *((module, "core", core["spirv"]) for module in (decoded, spirv)),
        *((module, "core", core["elf_tables"]) for module in (contents, elf)),
        (relocation, "elf_tables", core["elf_tables"]),
        *((relocation, name, getattr(core["elf_tables"], name)) for name in ("RelocationTable", "SymbolValues")),
        *((module, "Names", core["byte_reader"].Names) for module in (columns, units)),
        *((module, "StringReader", core["byte_reader"].StringReader) for module in (lines, columns, units)),
    ]
    forms._known_table.cache_clear()
    with ExitStack() as stack:
        stack.callback(forms._known_table.cache_clear)
        for module, name, plain in places:
            stack.enter_context(patch.object(module, name, plain))
        yield


@cache
def _run_once(name: str) -> ModuleType:
    return uncompiled(name)
