"""Code objects and their debug information in, index columns out: row and scope boundaries of all objects merged into one
sorted array of range starts, each pointing to an interned location."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from symd.errors import SymdError
from symd.index import functions
from symd.index.format import Column, compress, encode, encode_strings, narrow
from symd.index.locations import Interner, ObjectLocations, object_locations
from symd.index.packing import FUNCTION_COLUMNS, pack_ranges, pack_table
from symd.index.summary import to_json
from symd.model import CodeObject, DebugInfo, LineRows, ModuleSummary, Scopes, Section

COLUMNS = (
    *(f"object_{name}" for name in ("path", "target", "secondary", "rows", "row_bytes")),
    *(f"place_{name}" for name in ("object", "section", "index", "address", "size", "base")),
    *(f"kernel_{name}" for name in ("object", "name", "place", "offset", "size")),
    *(f"frame_{name}" for name in ("owner", "kernel", "file")),
    *(f"owner_{name}" for name in ("name", "linkage_name", "inlined", "parent", "file", "line", "column")),
    *(f"file_{name}" for name in ("object", "name")),
)
"""The number columns of an index file; docs/index-format.md says what each means."""


@dataclass(frozen=True, slots=True)
class Indexed:
    """A code object with what could be decoded of it, or why nothing could; None when nobody tried yet: then its
    sections and kernels are known and nothing in them is."""

    code: CodeObject
    debug: DebugInfo | SymdError | None


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
        self.located: list[ObjectLocations] = []
        self.row_data: list[bytes] = []
        self.next_base = 0
        self.place_count = 0
        self.frame_count = 0
        self.owner_count = 1
        for name in ("name", "linkage_name", "inlined", "parent", "file", "line", "column"):
            self._put(f"owner_{name}", [0])  # owner 0 is nobody

    def add(self, number: int, item: Indexed) -> None:
        code = item.code
        debug = item.debug if isinstance(item.debug, DebugInfo) else DebugInfo(LineRows.empty(), Scopes.empty())
        texts = [section for section in code.sections if section.executable]
        places = _places(texts, self.next_base)
        self._add_places(number, code, texts, places)
        self._add_kernels(number, code, texts)
        if item.debug is None:
            self._put("object_rows", [0])
            self._put("object_row_bytes", [0])
        else:
            self._add_debug(number, item, debug, texts, places)
        self.place_count += len(texts)
        self.next_base += sum(section.size for section in texts)

    def _add_debug(self, number: int, item: Indexed, debug: DebugInfo, texts: list[Section], bases: Column) -> None:
        malformed = not isinstance(item.debug, DebugInfo)
        located = object_locations(
            item.code, debug, bases, self.strings, malformed=malformed, first_owner=self.owner_count
        )
        self._add_located(located)
        self._add_rows(debug, texts)
        self._add_functions(number, item.code, debug, texts)
        self._add_files(number, debug)

    def _put(self, name: str, column: Column | Sequence[int]) -> None:
        self.parts.setdefault(name, []).append(np.asarray(column, np.uint64))

    def _add_located(self, located: ObjectLocations) -> None:
        """Frames are numbered on; their owners are already."""
        self.located.append(replace(located, frame=located.frame + self.frame_count))
        for name, column in located.frames.items():
            self._put(f"frame_{name}", column)
        for name, column in located.owners.items():
            self._put(f"owner_{name}", column)
        self.frame_count += len(located.frames["owner"])

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

    def _add_rows(self, debug: DebugInfo, texts: list[Section]) -> None:
        rows = debug.rows
        files = self.strings.add_all(debug.files)
        place = _slots(texts)[np.minimum(rows.section, _slot_limit(texts))] + self.place_count
        packed = (
            pack_table((place, rows.offset, files[rows.file], rows.line, rows.column, rows.flags)) if len(rows) else b""
        )
        self.row_data.append(packed)
        self._put("object_rows", [len(rows)])
        self._put("object_row_bytes", [len(packed)])

    def _add_kernels(self, number: int, code: CodeObject, texts: list[Section]) -> None:
        slots = {section.index: self.place_count + slot for slot, section in enumerate(texts)}
        kernels = [kernel for kernel in code.kernels if kernel.section_index in slots]
        self._put("kernel_object", [number] * len(kernels))
        self._put("kernel_name", [self.strings.add(kernel.name) for kernel in kernels])
        self._put("kernel_place", [slots[kernel.section_index] for kernel in kernels])
        self._put("kernel_offset", [kernel.offset for kernel in kernels])
        self._put("kernel_size", [kernel.size for kernel in kernels])

    def _add_functions(self, number: int, code: CodeObject, debug: DebugInfo, texts: list[Section]) -> None:
        places = {section.index: self.place_count + slot for slot, section in enumerate(texts)}
        found = functions.object_functions(number, code, debug, places, self.strings, first_owner=self.owner_count)
        for name, column in found.items():
            self._put(name, column)
        self.owner_count += functions.owner_count(code, debug)

    def _add_files(self, number: int, debug: DebugInfo) -> None:
        names = np.unique(self.strings.add_all(debug.files))
        names = names[names > 0]
        self._put("file_object", np.full(len(names), number, np.uint64))
        self._put("file_name", names)

    def columns(self, summary: ModuleSummary) -> dict[str, Column]:
        empty = np.zeros(0, np.uint64)
        result = {name: narrow(np.concatenate([empty, *self.parts.get(name, ())])) for name in COLUMNS}
        start, frame, line, column, reason = (
            np.concatenate([empty.astype(dtype), *(getattr(part, name) for part in self.located)], dtype=dtype)
            for name, dtype in (("start", "u8"), ("frame", "i8"), ("line", "i8"), ("column", "u4"), ("reason", "u1"))
        )
        result |= pack_ranges(start, frame, line, column, reason, self.frame_count)
        table = [np.concatenate([empty, *self.parts.get(name, ())]) for name in FUNCTION_COLUMNS]
        result["function_count"] = narrow(np.array([len(table[0])], np.uint64))
        result["function_data"] = np.frombuffer(pack_table(table), np.uint8)
        result["kernel_by_name"] = self._kernels_by_name(result["kernel_name"])
        result["row_data"] = np.frombuffer(b"".join(self.row_data), np.uint8)
        result["string_ends"], result["string_data"] = encode_strings(self.strings.values)
        result["summary"] = compress(to_json(summary))
        return result

    def _kernels_by_name(self, names: Column) -> Column:
        """Kernel numbers in the order of their names, so that one is found without reading all."""
        texts = [self.strings.values[number] for number in names.tolist()]
        return narrow(np.array(sorted(range(len(texts)), key=texts.__getitem__), np.uint64))


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
