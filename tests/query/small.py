"""Small modules spelled out: rows, scopes and symbols as a test writes them, indexed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from symd.index import Index, build
from symd.index.builder import DecodedObject
from symd.model.code import CodeObject, DebugScheme, Function, Kernel, Section
from symd.model.debug_info import NO_FUNCTION, NO_PARENT, DebugInfo, FunctionLines, LineRows, RowFlag, Scopes, TextSpans
from symd.model.summaries import KernelSummary, ModuleSummary, ObjectSummary

S, P, E = RowFlag.IS_STMT, RowFlag.IS_STMT | RowFlag.PROLOGUE_END, RowFlag.END_SEQUENCE


class Row(NamedTuple):
    """A line row; ``file`` is a number in the ``files`` of its ``Object``."""

    offset: int
    line: int
    flags: int = S
    file: int = 1
    column: int = 7


@dataclass
class Scope:
    """Without a range where it ends at its start."""

    name: str
    start: int
    end: int
    parent: int = -1
    call_line: int = 0
    linkage_name: str = ""
    lines: tuple[int, int] | None = None


@dataclass
class Object:
    """One text section of 0x100 bytes, or ``size``, at address 0x1000. Rows are (offset, line, flags[, file number[, column]]). Functions whose
    ``lines`` in file 1 are known are one function where these and their names are the same."""

    path: str = ""
    rows: list[tuple[int, ...]] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    kernels: list[tuple[str, int, int]] = field(default_factory=lambda: [("k", 0, 0x100)])
    symbols: list[tuple[str, int, int]] = field(default_factory=list)
    files: tuple[str, ...] = ("", "/src/a.cl")
    strays: list[tuple[int, int]] = field(default_factory=list)
    doubted: list[tuple[int, int]] = field(default_factory=list)
    size: int = 0x100

    def indexed(self) -> DecodedObject:
        text = Section(1, ".text", 1, 6, 0x1000, self.size, bytes(0x100))
        kernels = tuple(Kernel(name, 1, start, size) for name, start, size in self.kernels)
        symbols = tuple(Function(name, 1, start, size) for name, start, size in self.symbols)
        code = CodeObject(self.path, "test", None, b"", (text,), kernels, symbols, debug=DebugScheme.DWARF_4)
        names = ["", *{name: None for scope in self.scopes for name in (scope.name, scope.linkage_name) if name}]
        first, end = np.array([lines for lines, _ in self._declared()], np.uint32).reshape(-1, 2).T
        unit = np.zeros(len(first), np.uint32)
        functions = FunctionLines(unit, unit + 1, first, end)
        debug = DebugInfo(
            self._rows(),
            self._scopes(names),
            self.files,
            names,
            functions=functions,
            strays=_spans(self.strays),
            doubted=_spans(self.doubted),
        )
        return DecodedObject(code, debug)

    def described_kernels(self) -> tuple[KernelSummary, ...]:
        return tuple(KernelSummary(name, ".text", 1, start, size) for name, start, size in self.kernels)

    def _declared(self) -> list[tuple[tuple[int, int], str]]:
        return sorted({(scope.lines, scope.name) for scope in self.scopes if scope.lines})

    def _rows(self) -> LineRows:
        table = np.array([Row(*row) for row in self.rows], np.int64).reshape(-1, 5)
        u32 = np.zeros(len(table), np.uint32)
        file = table[:, 3].astype(np.uint32)
        line = table[:, 1].astype(np.uint32)
        return LineRows(
            u32 + 1,
            table[:, 0].astype(np.uint64),
            file,
            line,
            table[:, 4].astype(np.uint32),
            table[:, 2].astype(np.uint8),
        )

    def _scopes(self, names: list[str]) -> Scopes:
        count = len(self.scopes)
        numbers = {name: number for number, name in enumerate(names)}
        zero = np.zeros(count, np.uint32)
        declared = self._declared()
        parent = np.array([each.parent if each.parent >= 0 else NO_PARENT for each in self.scopes], np.uint32)
        ranges = [(number, each.start, each.end) for number, each in enumerate(self.scopes) if each.start < each.end]
        range_scope, start, end = np.array(ranges, np.uint64).reshape(-1, 3).T
        return Scopes(
            parent=parent,
            name=np.array([numbers[each.name] for each in self.scopes], np.uint32),
            linkage_name=np.array([numbers[each.linkage_name] for each in self.scopes], np.uint32),
            inlined=(parent != NO_PARENT).astype(np.uint8),
            call_file=zero + 1,
            call_line=np.array([each.call_line for each in self.scopes], np.uint32),
            call_column=zero,
            range_scope=range_scope.astype(np.uint32),
            range_section=np.ones(len(ranges), np.uint32),
            range_offset=start,
            range_end=end,
            function=np.array(
                [declared.index((each.lines, each.name)) if each.lines else NO_FUNCTION for each in self.scopes],
                np.uint32,
            ),
        )


def _spans(spans: list[tuple[int, int]]) -> TextSpans:
    start, end = np.array(spans, np.uint64).reshape(-1, 2).T
    return TextSpans(np.ones(len(start), np.uint32), start, end)


def index(*objects: Object) -> Index:
    summaries = tuple(
        ObjectSummary(each.path, "test", None, 0, "0" * 64, "dwarf-4", each.described_kernels()) for each in objects
    )
    indexed = [each.indexed() for each in objects]
    return Index(build(indexed, ModuleSummary("0" * 64, 0, "test", summaries)))
