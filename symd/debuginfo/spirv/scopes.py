"""SPIR-V scopes: which debug function each instruction belongs to and through which inlined calls, from DebugScope and
DebugInlinedAt; a function with debug data owns its whole OpFunction .. OpFunctionEnd.

Source: NonSemantic.Shader.DebugInfo.100 and OpenCL.DebugInfo.100, DebugScope, DebugNoScope and DebugInlinedAt."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from symd.debuginfo.spirv.debug import DebugData, InstructionOffsets, StringNumbers
from symd.formats.spirv.debug_sets import Debug
from symd.formats.spirv.functions import Body
from symd.formats.spirv.grammar import BLOCK_ENDS
from symd.model.columns import I64
from symd.model.debug_info import NO_FUNCTION, NO_PARENT, FunctionLines, Scopes

MOST_FRAMES = 256
"""Inlined calls inside one another; where a module claims more, the innermost function stands alone."""
MOST_RANGES = 4_000_000
"""Pieces of code that belong to a scope, counted for every scope around them too."""
_REMEMBERED = 1 << 20
"""Scopes of the chains of one function that are kept for the next piece of code with the same chain."""

_MOST_WARNINGS = 20

Segment = tuple[int, int, tuple[int, int] | None]
"""Instruction numbers [first, end) and (scope id, inlined-at id) of the DebugScope in force."""


class Segments(NamedTuple):
    """All code, cut where the scope changes: the ``first`` instruction of each segment, ascending, the DebugFunction that the
    scope there names (0: there is none), and that of the OpFunction around it (0: unknown)."""

    first: I64
    named: I64
    own: I64


class ScopeBuilder:
    def __init__(self, data: DebugData, files: StringNumbers, names: StringNumbers, places: InstructionOffsets) -> None:
        self.data, self.files, self.names, self.places = data, files, names, places
        self.warnings: list[str] = []
        self._scopes: list[tuple[int, ...]] = []
        self._declared: dict[tuple[int, int], int] = {}
        self._numbers: dict[tuple[int, int, int], int] = {}
        self._range_scope, self._range_start, self._range_end = array("I"), array("Q"), array("Q")
        self._last_range: dict[int, int] = {}
        self._pieces = 0
        self._first, self._named, self._own = array("q", [-1]), array("q", [0]), array("q", [0])
        self._ends: dict[int, int] = {}

    def build(self, functions: dict[int, Body]) -> Scopes:
        changes = self._changes()
        numbers = [number for number, _ in changes]
        for body in functions.values():
            if not body.declared:
                inside = changes[bisect_left(numbers, body.first) : bisect_left(numbers, body.last)]
                self._function(body, list(_segments(body, inside)))
        return self._columns()

    def segments(self) -> Segments:
        """Those of all that was built."""
        found = Segments(*(np.array(column, np.int64) for column in (self._first, self._named, self._own)))
        order = np.argsort(found.first, kind="stable")
        return Segments(*(column[order] for column in found))

    def _changes(self) -> list[tuple[int, tuple[int, int] | None]]:
        """(number of the first instruction it governs, scope) for scopes that begin, end, or end with their block."""
        words, governed = self.places.words, self.places.governed
        events: list[tuple[int, int, tuple[int, int] | None]] = [
            (number, number + 1, None) for number in words.where(*BLOCK_ENDS)
        ]
        for item in self.places.scopes:
            scope = None
            if item.opcode == Debug.Scope and item.operands:
                scope = (item.operands[0], item.operands[1] if len(item.operands) > 1 else 0)
            events.append((item.number, int(governed[item.number]), scope))
        return [(at, scope) for _, at, scope in sorted(events, key=lambda event: event[0])]

    def _function(self, body: Body, segments: list[Segment]) -> None:
        own = self._own_function(body, segments)
        known: dict[tuple[int, int] | None, list[int]] = {}
        held = 0
        for first, end, scope in segments:
            if self._pieces >= MOST_RANGES:
                self._warn(f"scopes after byte {body.offset} are left out: there are more than {MOST_RANGES} ranges")
                self._note(first, 0, 0)
                return
            if scope not in known:
                if held > _REMEMBERED:
                    known, held = {}, 0
                known[scope] = self._numbers_of(body, own, scope)
                held += len(known[scope])
            self._add(known[scope], first, end)
            self._note(first, (self.data.function_of(scope[0]) or 0) if scope else 0, own or 0)

    def _note(self, first: int, named: int, own: int) -> None:
        self._first.append(first)
        self._named.append(named)
        self._own.append(own)

    def _numbers_of(self, body: Body, own: int | None, scope: tuple[int, int] | None) -> list[int]:
        """The numbers of the scopes around code of ``body`` in ``scope``, the outermost first; none where nobody knows."""
        outermost = None if scope is None else self._outermost(*scope)
        if outermost is None and own is None:
            return []
        chain = self._chain(*scope) if scope is not None else []
        if outermost is None:
            assert own is not None  # noqa: S101 - or there was nothing to say
            chain = [*chain[:-1], (own, 0)]
        above, numbers = -1 - body.id, []  # functions are told apart by their body, inlined calls by what they stand in
        for function, inlined_at in reversed(chain):
            above = self._number(above, function, inlined_at)
            numbers.append(above)
        return numbers

    def _own_function(self, body: Body, segments: list[Segment]) -> int | None:
        """The DebugFunction that defines the body; where none says so, the outermost one of its first scope."""
        defined = self.data.function_of(self.data.definitions.get(body.id, 0))
        if defined is not None:
            return defined
        outermost = (self._outermost(*scope) for _, _, scope in segments if scope)
        return next((function for function in outermost if function is not None), None)

    def _chain(self, scope: int, inlined_at: int) -> list[tuple[int | None, int]]:
        """(DebugFunction, the DebugInlinedAt where it was inlined or 0), innermost first."""
        if not self._has_callers(inlined_at):
            return [(self.data.function_of(scope), 0)]
        chain: list[tuple[int | None, int]] = []
        while (site := self.data.inlined_at(inlined_at)) is not None:
            chain.append((self.data.function_of(scope), inlined_at))
            scope, inlined_at = site.scope, site.next
        return [*chain, (self.data.function_of(scope), 0)]

    def _outermost(self, scope: int, inlined_at: int) -> int | None:
        """The DebugFunction at the end of the chain. It is found once for each DebugInlinedAt: a scope of no function leaves nothing behind that could be counted."""
        path: list[int] = []
        if not self._has_callers(inlined_at):
            return self.data.function_of(scope)
        while inlined_at not in self._ends and (site := self.data.inlined_at(inlined_at)) is not None:
            path.append(inlined_at)
            scope, inlined_at = site.scope, site.next
        scope = self._ends.get(inlined_at, scope)
        self._ends.update(dict.fromkeys(path, scope))
        return self.data.function_of(scope)

    def _has_callers(self, inlined_at: int) -> bool:
        """Whether the way outwards has an end, and is not too long."""
        depth = self.data.inline_depth(inlined_at)
        if depth is not None and depth <= MOST_FRAMES:
            return True
        why = "in a circle" if depth is None else f"under {depth} others, more than {MOST_FRAMES}"
        self._warn(f"DebugInlinedAt %{inlined_at} stands {why}: its callers are left out")
        return False

    def _warn(self, text: str) -> None:
        if len(self.warnings) < _MOST_WARNINGS and text not in self.warnings:
            self.warnings.append(text)

    def _add(self, numbers: list[int], first: int, end: int) -> None:
        """Give [first, end) to the scopes with these numbers."""
        start, stop = int(self.places.offset[first]), int(self.places.offset[end])
        self._pieces += len(numbers)
        for number in numbers:
            last = self._last_range.get(number)
            if last is not None and self._range_end[last] == start:
                self._range_end[last] = stop
                continue
            self._last_range[number] = len(self._range_scope)
            self._range_scope.append(number)
            self._range_start.append(start)
            self._range_end.append(stop)

    def _number(self, above: int, function: int | None, inlined_at: int) -> int:
        key = (above, function or 0, inlined_at)
        if key in self._numbers:
            return self._numbers[key]
        self._numbers[key] = number = len(self._scopes)
        name, linkage = self.data.function_names(function)
        site = self.data.inlined_at(inlined_at) if inlined_at else None
        parent = above if above >= 0 else NO_PARENT
        row = (
            parent,
            self.names(name),
            self.names(linkage),
            int(site is not None),
            self.files(self.data.scope_file(site.scope) if site else ""),
            site.line if site else 0,
            site.column if site else 0,
            self._declaration(function),
        )
        self._scopes.append(row)
        return number

    def _declaration(self, function: int | None) -> int:
        """The number of the place where a function is declared."""
        line = self.data.declared_line(function)
        if function is None or not line:
            return NO_FUNCTION
        place = self.files(self.data.scope_file(function)), line
        return self._declared.setdefault(place, len(self._declared))

    def functions(self) -> FunctionLines:
        """Where those of all that was built are declared; which other lines they have cannot be told."""
        file, line = np.array([*self._declared], np.uint32).reshape(-1, 2).T
        nothing = np.zeros(len(file), np.uint32)
        return FunctionLines(nothing, file, line, nothing)

    def _columns(self) -> Scopes:
        if not self._scopes:
            return Scopes.empty()
        table = np.array(self._scopes, np.uint64)
        parent, name, linkage, inlined, call_file, call_line, call_column, function = table.T.astype(np.uint32)
        return Scopes(
            parent=parent,
            name=name,
            linkage_name=linkage,
            inlined=inlined.astype(np.uint8),
            call_file=call_file,
            call_line=call_line,
            call_column=call_column,
            range_scope=np.array(self._range_scope, np.uint32),
            range_section=np.zeros(len(self._range_scope), np.uint32),
            range_offset=np.array(self._range_start, np.uint64),
            range_end=np.array(self._range_end, np.uint64),
            function=function,
        )


def _segments(body: Body, changes: list[tuple[int, tuple[int, int] | None]]) -> Iterator[Segment]:
    """The body cut where the scope changes; together the segments are the whole body."""
    at, current = body.first, None
    for number, scope in changes:
        cut = min(number, body.last + 1)
        if cut > at:
            yield at, cut, current
            at = cut
        current = scope
    yield at, body.last + 1, current
