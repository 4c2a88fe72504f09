"""An index answers, at every address, what a naive reading of rows and scopes answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from symd.index import Index, build
from symd.index.builder import DecodedObject
from symd.index.format import decode, narrow
from symd.model.answers import Reason
from symd.model.code import CodeObject, DebugScheme, Function, Kernel, Section
from symd.model.debug_info import NO_PARENT, DebugInfo, LineRows, RowFlag, Scopes
from symd.model.summaries import ModuleSummary
from symd.query.symbolize import symbolize_column
from tests.builders.index_file import encode

SIZE = 48
"""Bytes of text in a generated section: small enough to ask for each."""


@dataclass
class Scope:
    parent: int
    ranges: list[tuple[int, int]]
    line: int


@dataclass
class Program:
    """``rows``: sequences of (offset, line); ``scopes`` in tree order; ``functions``: (offset, size)."""

    sequences: list[list[tuple[int, int]]] = field(default_factory=list)
    scopes: list[Scope] = field(default_factory=list)
    functions: list[tuple[int, int]] = field(default_factory=list)

    def row_at(self, address: int) -> tuple[int, int] | None:
        """(offset, line) of the last row that covers the address."""
        found = None
        for sequence in self.sequences:
            for (start, line), (end, _) in pairwise(sequence):
                if start <= address < self.row_end(start, end):
                    found = (start, line)
        return found

    def row_end(self, start: int, end: int) -> int:
        """Where the function symbols end in which the row begins, if nothing else is known of what it has behind them."""
        symbols = [(first, min(first + size, SIZE)) for first, size in self.functions]
        cut = max((stop for first, stop in symbols if first <= start), default=0)
        known = [*symbols, *(span for scope in self.scopes for span in scope.ranges)]
        nobodys = not any(first < end and stop > cut for first, stop in known)
        return cut if start < cut < end and nobodys else end

    def scope_at(self, address: int) -> int:
        covering = [n for n, scope in enumerate(self.scopes) if any(a <= address < b for a, b in scope.ranges)]
        return max(covering, default=-1)

    def function_at(self, address: int) -> int:
        covering = [
            (min(size, SIZE - start), n)
            for n, (start, size) in enumerate(self.functions)
            if start <= address < start + size
        ]
        return min(covering)[1] if covering else -1

    @property
    def undebugged(self) -> bool:
        return not any(self.sequences) and not self.scopes

    def answer(self, address: int) -> tuple[Reason, list[tuple[str, int, bool]]]:
        """The reason and the frames as (function, line, inlined)."""
        scope, function, row = self.scope_at(address), self.function_at(address), self.row_at(address)
        name = f"scope{scope}" if scope >= 0 else f"symbol{function}" if function >= 0 else ""
        if self.undebugged:
            return Reason.NO_DEBUG_INFO, [(name or "k", 0, False)]
        reason, line = self.position(address, row, name)
        frames = []
        if name or line:
            frames = [(name, line, scope >= 0 and self.scopes[scope].parent >= 0)]
        while scope >= 0 and self.scopes[scope].parent >= 0:
            call_line, scope = self.scopes[scope].line, self.scopes[scope].parent
            frames.append((f"scope{scope}", call_line, self.scopes[scope].parent >= 0))
        return reason, frames

    def position(self, address: int, row: tuple[int, int] | None, name: str) -> tuple[Reason, int]:
        if row is None:
            return (Reason.NO_LINE if name else Reason.GAP), 0
        if row[1]:
            return Reason.EXACT, row[1]
        key = self.scope_at(address), self.function_at(address)
        for earlier in range(address - 1, -1, -1):
            found = self.row_at(earlier)
            if (self.scope_at(earlier), self.function_at(earlier)) == key and found and found[1]:
                return Reason.APPROXIMATE, found[1]
        return (Reason.NO_LINE if name else Reason.GAP), 0

    def debug_info(self) -> DebugInfo:
        rows = [
            (offset, line, RowFlag.END_SEQUENCE if last else 0)
            for sequence in self.sequences
            for (offset, line), last in zip(sequence, [False] * (len(sequence) - 1) + [True], strict=True)
        ]
        table = np.array(rows, np.uint64).reshape(-1, 3)
        u32 = np.zeros(len(rows), np.uint32)
        lines = LineRows(
            u32 + 1, table[:, 0], u32 + 1, table[:, 1].astype(np.uint32), u32, table[:, 2].astype(np.uint8)
        )
        names = ["", *(f"scope{number}" for number in range(len(self.scopes)))]
        count = len(self.scopes)
        ranges = [(n, a, b) for n, scope in enumerate(self.scopes) for a, b in scope.ranges]
        columns = np.array(ranges, np.uint64).reshape(-1, 3)
        parents = np.array([s.parent if s.parent >= 0 else NO_PARENT for s in self.scopes], np.uint32)
        zero = np.zeros(count, np.uint32)
        scopes = Scopes(
            parent=parents,
            name=np.arange(1, count + 1, dtype=np.uint32),
            linkage_name=zero,
            inlined=(parents != NO_PARENT).astype(np.uint8),
            call_file=zero + 1,
            call_line=np.array([scope.line for scope in self.scopes], np.uint32),
            call_column=zero,
            range_scope=columns[:, 0].astype(np.uint32),
            range_section=np.ones(len(ranges), np.uint32),
            range_offset=columns[:, 1],
            range_end=columns[:, 2],
        )
        return DebugInfo(lines, scopes, ("", "/a.cl"), names)

    def index(self) -> Index:
        text = Section(1, ".text", 1, 6, 0x1000, SIZE, bytes(SIZE))
        functions = tuple(Function(f"symbol{n}", 1, start, size) for n, (start, size) in enumerate(self.functions))
        code = CodeObject(
            "", "test", None, b"", (text,), (Kernel("k", 1, 0, SIZE),), functions, debug=DebugScheme.DWARF_4
        )
        return Index(build([DecodedObject(code, self.debug_info())], ModuleSummary("0" * 64, 0, "test")))


offsets = st.integers(0, SIZE)


@st.composite
def ranges_within(draw: st.DrawFn, low: int, high: int) -> list[tuple[int, int]]:
    cuts = sorted(draw(st.sets(st.integers(low, high), min_size=2, max_size=4))) if high - low >= 2 else [low, high]
    return [(cuts[at], cuts[at + 1]) for at in range(0, len(cuts) - 1, 2)]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    program = Program()
    for _ in range(draw(st.integers(0, 3))):
        starts = sorted(draw(st.lists(offsets, min_size=2, max_size=8)))
        program.sequences.append([(start, draw(st.integers(0, 3))) for start in starts])
    free = {-1: [(0, SIZE)]}
    for number in range(draw(st.integers(0, 8))):
        parent = draw(st.sampled_from([owner for owner, spans in free.items() if spans]))
        low, high = free[parent].pop(draw(st.integers(0, len(free[parent]) - 1)))
        ranges = draw(ranges_within(low, high))
        free[parent] += [span for span in ((low, ranges[0][0]), (ranges[-1][1], high)) if span[0] < span[1]]
        free[number] = [span for span in ranges if span[0] < span[1]]
        program.scopes.append(Scope(parent, ranges, draw(st.integers(0, 99))))
    program.functions = draw(st.lists(st.tuples(offsets, st.integers(0, SIZE)), max_size=4))
    return program


@settings(max_examples=300, deadline=None)
@given(programs())
def test_every_address_has_the_naive_answer(program: Program) -> None:
    index = program.index().view(as_written=True)
    answers = symbolize_column(index, np.arange(0x1000, 0x1000 + SIZE, dtype=np.uint64))
    for address in range(SIZE):
        answer = answers[address]
        mine = (answer.reason, [(f.function or "", f.line, f.inlined) for f in answer.frames])
        reason, frames = program.answer(address)
        if not frames or not (frames[0][0] or frames[0][1]):
            frames = []
        assert mine == (reason, frames), hex(address)
        assert answer.kernel == "k"


@given(st.lists(st.integers(0, 2**64 - 1), max_size=20))
def test_columns_come_back_as_they_were_written(values: list[int]) -> None:
    column = narrow(np.array(values, np.uint64))
    back = decode(encode({"values": column, "more": np.arange(3, dtype=np.uint8)}))
    assert back["values"].tolist() == values
    assert back["more"].tolist() == [0, 1, 2]
    assert not back["values"].flags.writeable
