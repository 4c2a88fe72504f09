"""Small modules spelled out: rows, scopes and symbols as a test writes them, indexed."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from symd.index import Index, build
from symd.index.builder import DecodedObject
from symd.model.code import CodeObject, DebugScheme, Function, Kernel, Section
from symd.model.debug_info import NO_PARENT, DebugInfo, LineRows, RowFlag, Scopes
from symd.model.summaries import ModuleSummary, ObjectSummary

S, P, E = RowFlag.IS_STMT, RowFlag.IS_STMT | RowFlag.PROLOGUE_END, RowFlag.END_SEQUENCE


@dataclass
class Scope:
    name: str
    start: int
    end: int
    parent: int = -1
    call_line: int = 0
    linkage_name: str = ""


@dataclass
class Object:
    """One text section of 0x100 bytes at address 0x1000. Rows are (offset, line, flags[, file number])."""

    path: str = ""
    rows: list[tuple[int, ...]] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    kernels: list[tuple[str, int, int]] = field(default_factory=lambda: [("k", 0, 0x100)])
    symbols: list[tuple[str, int, int]] = field(default_factory=list)
    files: tuple[str, ...] = ("", "/src/a.cl")

    def indexed(self) -> DecodedObject:
        text = Section(1, ".text", 1, 6, 0x1000, 0x100, bytes(0x100))
        kernels = tuple(Kernel(name, 1, start, size) for name, start, size in self.kernels)
        symbols = tuple(Function(name, 1, start, size) for name, start, size in self.symbols)
        code = CodeObject(self.path, "test", None, b"", (text,), kernels, symbols, debug=DebugScheme.DWARF_4)
        names = ["", *{name: None for scope in self.scopes for name in (scope.name, scope.linkage_name) if name}]
        return DecodedObject(code, DebugInfo(self._rows(), self._scopes(names), self.files, names))

    def _rows(self) -> LineRows:
        table = np.array([(*row, 1)[:4] for row in self.rows], np.int64).reshape(-1, 4)
        u32 = np.zeros(len(table), np.uint32)
        file = table[:, 3].astype(np.uint32)
        line = table[:, 1].astype(np.uint32)
        return LineRows(u32 + 1, table[:, 0].astype(np.uint64), file, line, u32 + 7, table[:, 2].astype(np.uint8))

    def _scopes(self, names: list[str]) -> Scopes:
        count = len(self.scopes)
        numbers = {name: number for number, name in enumerate(names)}
        zero = np.zeros(count, np.uint32)
        parent = np.array([each.parent if each.parent >= 0 else NO_PARENT for each in self.scopes], np.uint32)
        return Scopes(
            parent=parent,
            name=np.array([numbers[each.name] for each in self.scopes], np.uint32),
            linkage_name=np.array([numbers[each.linkage_name] for each in self.scopes], np.uint32),
            inlined=(parent != NO_PARENT).astype(np.uint8),
            call_file=zero + 1,
            call_line=np.array([each.call_line for each in self.scopes], np.uint32),
            call_column=zero,
            range_scope=np.arange(count, dtype=np.uint32),
            range_section=zero + 1,
            range_offset=np.array([each.start for each in self.scopes], np.uint64),
            range_end=np.array([each.end for each in self.scopes], np.uint64),
        )


def index(*objects: Object) -> Index:
    summaries = tuple(ObjectSummary(each.path, "test", None, 0, "0" * 64, "dwarf-4") for each in objects)
    indexed = [each.indexed() for each in objects]
    return Index(build(indexed, ModuleSummary("0" * 64, 0, "test", summaries)))
