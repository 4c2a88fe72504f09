"""The functions and inlined calls of one unit, and those of one function as a tree."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from symd.core.dies import HAS_CHILDREN, IS_DECLARATION, NO_FILE, NO_REFERENCE
from symd.core.strings import KERNEL_BODY
from symd.model.plain_answers import NotPlain
from symd.plain.numbers import DW_TAG_inlined_subroutine, DW_TAG_subprogram

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from array import array

    from symd.plain.units import CompileUnit, Spans

_STEPS = 32
"""References that are followed from a DIE to its name; more are a cycle."""
_HIGHEST = 1 << 64
_DEEPEST = 64
"""Calls inside each other."""
Declaration = tuple[int, int]
"""A file register and a line."""


class Scope:
    """A function or an inlined call, which is ``row`` of the unit's, with the scope around it, its code, and the file register (None: not said), line and
    column of a call."""

    __slots__ = ("around", "call_site", "calls", "row", "spans")

    def __init__(self, row: int, spans: Spans, around: Scope | None, call_site: tuple[int | None, int, int]) -> None:
        self.row, self.spans, self.around, self.call_site = row, spans, around, call_site
        self.calls: list[Scope] = []

    def innermost(self, address: int) -> Scope:
        """The scope inside this one, or itself, whose code the address is."""
        for call in self.calls:
            if _hold(call.spans, address):
                return call.innermost(address)
        return self

    def span_at(self, address: int) -> tuple[int, int]:
        """The first of its spans that has the address."""
        for start, end in self.spans:
            if start <= address < end:
                return start, end
        raise NotPlain

    def every(self) -> list[Scope]:
        """Itself and all calls inside it."""
        found, at = [self], 0
        while at < len(found):
            found += found[at].calls
            at += 1
        return found


def _hold(spans: Spans, address: int) -> bool:
    return any(start <= address < end for start, end in spans)


class Scopes:
    """What all functions and inlined calls of a unit say together. Raises NotPlain where its DIEs cannot be followed, or its first one is a function."""

    def __init__(self, unit: CompileUnit) -> None:
        self._unit = unit
        rows = unit.scopes()
        self._ranges = rows.ranges
        self._places, self._place_after = rows.column("place"), rows.column("place_after")
        self._tag, self._flags, self._parent = rows.column("tag"), rows.column("flags"), rows.column("parent")
        self._name_keys, self._linkage_name_keys = rows.column("name"), rows.column("linkage_name")
        self._origin, self._specification = rows.column("origin"), rows.column("specification")
        self._call_site = rows.column("call_file"), rows.column("call_line"), rows.column("call_column")
        self._decl_file, self._decl_line = rows.column("decl_file"), rows.column("decl_line")
        if not rows.count or self._places[0] == unit.dies:
            raise NotPlain

    def function_at(self, address: int) -> Scope:
        """The function whose code the address is, with all calls inlined into it. Raises NotPlain unless there is one, nobody else has a part
        in its code there, and the code of its calls nests as they do."""
        ranges = self._ranges
        held = [
            row
            for row, start, stop in zip(ranges.which, ranges.start, ranges.stop, strict=True)
            if start <= address < stop and self._tag[row] == DW_TAG_subprogram
        ]
        if len(held) != 1:
            raise NotPlain
        function, end = self._tree(held[0])
        first, last = function.span_at(address)
        for row, start, stop in zip(ranges.which, ranges.start, ranges.stop, strict=True):
            if start < last and first < stop and not function.row <= row < end:
                raise NotPlain
        for scope in function.every():
            _check_nesting(scope)
        return function

    def _tree(self, function: int) -> tuple[Scope, int]:
        """A function with all that was inlined into it, and the row after that."""
        end = function + 1
        if self._flags[function] & HAS_CHILDREN:
            end = bisect_left(self._places, self._place_after[function])
        scopes = [Scope(function, self._spans(function), None, (None, 0, 0))]
        depths = [0]
        for row in range(function + 1, end):
            if self._tag[row] != DW_TAG_inlined_subroutine:
                raise NotPlain
            parent = self._parent[row] - 1 - function
            around = scopes[parent]
            depths.append(depths[parent] + 1)
            if depths[-1] > _DEEPEST:
                raise NotPlain
            file, line, column = (each[row] for each in self._call_site)
            site = None if file == NO_FILE else file, line, column
            scope = Scope(row, self._spans(row), around, site)
            around.calls.append(scope)
            scopes.append(scope)
        return scopes[0], end

    def _spans(self, row: int) -> Spans:
        ranges = self._ranges
        first, last = bisect_left(ranges.which, row), bisect_right(ranges.which, row)
        return tuple(zip(ranges.start[first:last], ranges.stop[first:last], strict=True))

    def declared(self) -> list[Declaration]:
        """Where functions are declared; one that says it twice may be there twice."""
        found = [
            (file, line)
            for tag, file, line in zip(self._tag, self._decl_file, self._decl_line, strict=True)
            if line and tag == DW_TAG_subprogram
        ]
        if any(file == NO_FILE for file, _ in found):
            raise NotPlain
        return found

    def _referred(self, row: int, column: array[int]) -> int | None:
        """The row of the function that DW_AT_abstract_origin or DW_AT_specification names."""
        place, places = column[row], self._places
        if place == NO_REFERENCE:
            return None
        found = bisect_left(places, place)
        if found == len(places) or places[found] != place:
            raise NotPlain
        return found

    def _name(self, row: int, column: array[int]) -> bytes | None:
        """Its own name, or that of the function it is a piece of."""
        for _ in range(_STEPS):
            if column[row]:
                return self._unit.text_of(column[row])
            found = {self._referred(row, each) for each in (self._specification, self._origin)} - {None}
            if len(found) > 1:
                raise NotPlain
            if not found:
                return None
            (row,) = found  # type: ignore[assignment]
        raise NotPlain

    def names(self, scope: Scope) -> tuple[str, str | None]:
        """Its name, and its linkage name where that is another."""
        name, linkage_name = (self._name(scope.row, each) for each in (self._name_keys, self._linkage_name_keys))
        if not name or linkage_name == b"":
            raise NotPlain
        other = linkage_name if linkage_name != name else None
        return name.decode("utf-8", "replace"), other.decode("utf-8", "replace") if other else None

    def told(self, scope: Scope) -> Scope:
        """A scope, or the kernel around it where it is only that kernel's body."""
        if scope.around is None or scope.around.around is not None:
            return scope
        _, linkage_name = self.names(scope)
        if linkage_name is None or not linkage_name.startswith(KERNEL_BODY):
            return scope
        return scope.around if linkage_name.removeprefix(KERNEL_BODY) in self.names(scope.around) else scope

    def definition(self, scope: Scope) -> tuple[int, Declaration] | None:
        """The row of the function that a scope is a piece of, and where it is declared. None where the debug data does not say."""
        row = scope.row
        for _ in range(_STEPS):
            whole = self._referred(row, self._origin)
            if whole is None:
                break
            row = whole
        else:
            raise NotPlain
        if self._tag[row] == DW_TAG_inlined_subroutine or self._flags[row] & IS_DECLARATION:
            return None
        place = self._place(row)
        specification = self._referred(row, self._specification)
        if not place[1] and specification is not None:
            place = self._place(specification)
        return (row, place) if place[1] else None

    def _place(self, row: int) -> Declaration:
        file = self._decl_file[row]
        return -1 if file == NO_FILE else file, self._decl_line[row]


def _check_nesting(scope: Scope) -> None:
    """The code of calls lies in that of the scope around them, and no two have the same."""
    inside = sorted(span for call in scope.calls for span in call.spans)
    own = sorted(scope.spans)
    for spans in (inside, own):
        if any(last > first for (_, last), (first, _) in pairwise(spans)):
            raise NotPlain
    for first, last in inside:
        around = bisect_right(own, (first, _HIGHEST)) - 1
        if around < 0 or last > own[around][1]:
            raise NotPlain
