"""Code objects and their debug information in, index columns out: row and scope boundaries of all objects merged into one
sorted array of range starts, each pointing to an interned location."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symd.errors import SymdError
from symd.index.format import Column, encode, encode_strings, narrow
from symd.index.locations import Interner, object_locations
from symd.index.summary import to_json
from symd.model import CodeObject, DebugInfo, LineRows, ModuleSummary, Reason, Scopes, Section

RESERVED = max(Reason) + 1
"""Locations 1 to 11 carry a reason alone, under its own number."""


COLUMNS = (
    *(f"object_{name}" for name in ("path", "target", "secondary")),
    *(f"place_{name}" for name in ("object", "section", "index", "address", "size", "base")),
    *(f"kernel_{name}" for name in ("object", "name", "place", "offset", "size")),
    *(f"range_{name}" for name in ("start", "location")),
    *(
        f"location_{name}"
        for name in ("reason", "kernel", "function", "linkage_name", "file", "line", "column", "inlined", "parent")
    ),
    *(f"row_{name}" for name in ("object", "place", "offset", "file", "line", "column", "flags")),
)
"""The number columns of an index file; docs/index-format.md says what each means."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A code object with what could be decoded of it, or why nothing could."""

    code: CodeObject
    debug: DebugInfo | SymdError


def build(objects: Sequence[Indexed], summary: ModuleSummary) -> bytes:
    """The index file of a module."""
    builder = _Builder()
    for number, item in enumerate(objects):
        builder.add(number, item)
    return encode(builder.columns(summary))


class _Builder:
    def __init__(self) -> None:
        self.strings = Interner()
        self.parts: dict[str, list[Column]] = {}
        self.next_base = 0
        self.place_count = 0
        self.location_count = RESERVED

    def add(self, number: int, item: Indexed) -> None:
        code = item.code
        debug = item.debug if isinstance(item.debug, DebugInfo) else DebugInfo(LineRows.empty(), Scopes.empty())
        texts = [section for section in code.sections if section.executable]
        places = _places(texts, self.next_base)
        self._add_places(number, code, texts, places)
        located = object_locations(
            code,
            debug,
            places,
            self.strings,
            malformed=not isinstance(item.debug, DebugInfo),
            first=self.location_count,
        )
        for name, column in located.items():
            self._put(name, column)
        self.location_count += len(located["location_line"])
        self._add_rows(number, debug, texts)
        self._add_kernels(number, code, texts)
        self.place_count += len(texts)
        self.next_base += sum(section.size for section in texts)

    def _put(self, name: str, column: Column | Sequence[int]) -> None:
        self.parts.setdefault(name, []).append(np.asarray(column, np.uint64))

    def _add_places(self, number: int, code: CodeObject, texts: list[Section], bases: Column) -> None:
        self._put("object_path", [self.strings.add(code.path)])
        self._put("object_target", [self.strings.add(code.target or "")])
        self._put("object_secondary", [int(code.format == "spirv" and code.path != "")])
        self._put("place_object", [number] * len(texts))
        self._put("place_section", [self.strings.add(section.name) for section in texts])
        self._put("place_index", [section.index for section in texts])
        self._put("place_address", [section.address for section in texts])
        self._put("place_size", [section.size for section in texts])
        self._put("place_base", bases)

    def _add_rows(self, number: int, debug: DebugInfo, texts: list[Section]) -> None:
        rows = debug.rows
        files = self.strings.add_all(debug.files)
        slot = _slots(texts)[np.minimum(rows.section, _slot_limit(texts))]
        self._put("row_object", np.full(len(rows), number, np.uint64))
        self._put("row_place", (slot + self.place_count).astype(np.uint64))
        self._put("row_offset", rows.offset)
        self._put("row_file", files[rows.file])
        self._put("row_line", rows.line)
        self._put("row_column", rows.column)
        self._put("row_flags", rows.flags)

    def _add_kernels(self, number: int, code: CodeObject, texts: list[Section]) -> None:
        slots = {section.index: self.place_count + slot for slot, section in enumerate(texts)}
        kernels = [kernel for kernel in code.kernels if kernel.section_index in slots]
        self._put("kernel_object", [number] * len(kernels))
        self._put("kernel_name", [self.strings.add(kernel.name) for kernel in kernels])
        self._put("kernel_place", [slots[kernel.section_index] for kernel in kernels])
        self._put("kernel_offset", [kernel.offset for kernel in kernels])
        self._put("kernel_size", [kernel.size for kernel in kernels])

    def columns(self, summary: ModuleSummary) -> dict[str, Column]:
        reserved = np.arange(RESERVED, dtype=np.uint64)
        for name in COLUMNS:
            if name.startswith("location_"):
                first = reserved if name == "location_reason" else np.zeros(RESERVED, np.uint64)
                self.parts.setdefault(name, []).insert(0, first)
        empty = np.zeros(0, np.uint64)
        result = {name: narrow(np.concatenate([empty, *self.parts.get(name, ())])) for name in COLUMNS}
        result["string_ends"], result["string_data"] = encode_strings(self.strings.values)
        result["summary"] = np.frombuffer(json.dumps(to_json(summary)).encode(), np.uint8)
        return result


def _places(texts: Iterable[Section], first: int) -> Column:
    sizes = np.array([section.size for section in texts], np.uint64)
    return np.uint64(first) + np.cumsum(sizes, dtype=np.uint64) - sizes


def _slots(texts: Sequence[Section]) -> Any:
    """Section number to its slot among the text sections; the entry behind the last stands for all others."""
    table = np.zeros(_slot_limit(texts) + 1, np.int64)
    for slot, section in enumerate(texts):
        table[section.index] = slot
    return table


def _slot_limit(texts: Sequence[Section]) -> Any:
    return np.uint32(max((section.index for section in texts), default=0) + 1)
