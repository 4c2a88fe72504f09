"""The functions and inlined calls of one unit: all that say they have code, in one pass, and those of one function as a tree."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from symd.model.plain_answers import KERNEL_BODY, NotPlain
from symd.plain.abbreviations import Abbreviation, ScopeGroups, Tree, Values, read_values
from symd.plain.numbers import (
    CONSTANTS,
    LAYOUTS,
    UNIT_REFERENCES,
    DW_AT_abstract_origin,
    DW_AT_call_column,
    DW_AT_call_file,
    DW_AT_call_line,
    DW_AT_decl_file,
    DW_AT_decl_line,
    DW_AT_declaration,
    DW_AT_high_pc,
    DW_AT_linkage_name,
    DW_AT_low_pc,
    DW_AT_MIPS_linkage_name,
    DW_AT_name,
    DW_AT_ranges,
    DW_AT_specification,
    DW_FORM_addrx,
    DW_FORM_rnglistx,
    DW_TAG_inlined_subroutine,
    DW_TAG_subprogram,
    uleb,
    value,
)
from symd.plain.range_lists import Spans, lists_apart

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    import re

    from symd.plain.units import CompileUnit

_CAPTURED = frozenset({DW_AT_low_pc, DW_AT_high_pc, DW_AT_ranges, DW_AT_decl_file, DW_AT_decl_line})
_STEPS = 32
"""References that are followed from a DIE to its name; more are a cycle."""
_HIGHEST = 1 << 64
_MOST_ATTRIBUTES = 1 << 18
"""Attributes of all DIEs in a function: they may take no byte."""
_DEEPEST = 64
"""Calls inside each other."""
Declaration = tuple[int, int]
"""A file register and a line."""


class Scope:
    """A function or an inlined call at ``at``, with the scope around it and its code."""

    __slots__ = ("around", "at", "calls", "spans", "tag", "values")

    def __init__(self, at: int, tag: int, values: Values, spans: Spans, around: Scope | None) -> None:
        self.at, self.tag, self.values, self.spans, self.around = at, tag, values, spans, around
        self.calls: list[Scope] = []

    @property
    def inlined(self) -> bool:
        return self.tag == DW_TAG_inlined_subroutine

    def number(self, name: int) -> int | None:
        """What an attribute of class constant says."""
        form, found = self.values.get(name, (0, 0))
        return found & 0xFFFFFFFFFFFFFFFF if form in CONSTANTS and isinstance(found, int) else None

    def call_site(self) -> tuple[int | None, int, int]:
        """The file register, line and column of a call."""
        line, column = (self.number(name) or 0 for name in (DW_AT_call_line, DW_AT_call_column))
        return self.number(DW_AT_call_file), line & 0xFFFFFFFF, column & 0xFFFFFFFF

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
    """What all functions and inlined calls of a unit say together. Raises NotPlain where the DIEs cannot be followed to the end of the unit's
    first, or nothing stands in that."""

    def __init__(self, unit: CompileUnit) -> None:
        self._unit = unit
        self._info = unit.sections[".debug_info"]
        self._table = unit.table()
        self._found: dict[int, tuple[_Reader, re.Match[bytes]]] = {}
        """By the place where each begins."""
        first, _ = self._abbreviation(unit.dies)
        if first.is_scope or not first.has_children:
            raise NotPlain
        self._read(Tree(self._table, _CAPTURED))

    def _read(self, tree: Tree) -> None:
        unit, depth, each = self._unit, 0, self._found
        readers = {last: _Reader(unit, layout) for last, layout in tree.layouts.items()}
        for found in tree.expression.finditer(self._info, unit.dies, unit.end):
            last = found.lastindex
            if last in readers:
                reader = readers[last]
                each[found.start(reader.first)] = reader, found
                depth += reader.has_children
            elif last == tree.NULLS:
                depth -= found.end(last) - found.start(last)
                if depth <= 0:
                    return
            elif last == tree.PARENT:
                depth += 1
            else:
                break
        raise NotPlain

    def function_at(self, address: int) -> Scope:
        """The function whose code the address is, with all calls inlined into it. Raises NotPlain unless there is one, nobody else has a part
        in its code there, and the code of its calls nests as they do."""
        functions = [
            at
            for at, (reader, found) in self._found.items()
            if reader.is_function and reader.has_code and _hold(reader.spans(found), address)
        ]
        if len(functions) != 1:
            raise NotPlain
        function, end = self._read_tree(functions[0])
        first, last = function.span_at(address)
        apart = lists_apart(first, last, self._unit.low_pc) if self._unit.low_pc <= first else None
        for at, (reader, found) in self._found.items():
            if not reader.has_code or function.at <= at < end or (apart and reader.is_apart(found, apart)):
                continue
            if any(start < last and first < stop for start, stop in reader.spans(found)):
                raise NotPlain
        for scope in function.every():
            _check_nesting(scope)
        return function

    def declared(self) -> list[Declaration]:
        """Where functions are declared; one that says it twice may be there twice."""
        return [reader.declared(found) for reader, found in self._found.values() if reader.is_declared]

    def _abbreviation(self, at: int) -> tuple[Abbreviation, int]:
        """The abbreviation of a DIE, and where its values begin."""
        code, after = uleb(self._info, at)
        if code not in self._table:
            raise NotPlain
        return self._table[code], after

    def _scope(self, at: int, around: Scope | None) -> tuple[Scope, Abbreviation, int]:
        """The DIE at a place, whatever it is, its abbreviation and the place after it."""
        abbreviation, begin = self._abbreviation(at)
        values, after = read_values(self._info, begin, abbreviation)
        spans = self._unit.spans(values) if abbreviation.is_scope else ()
        return Scope(at, abbreviation.tag, values, spans, around), abbreviation, after

    def _read_tree(self, at: int) -> tuple[Scope, int]:
        """A function with all that stands in it, and the place after that."""
        function, abbreviation, at = self._scope(at, None)
        inside = [function] if abbreviation.has_children else []
        attributes = 0
        while inside:
            if self._info[at] == 0:
                inside.pop()
                at += 1
                continue
            scope, abbreviation, at = self._scope(at, inside[-1])
            attributes += len(abbreviation.attributes)
            if scope.tag == DW_TAG_subprogram or len(inside) > _DEEPEST or attributes > _MOST_ATTRIBUTES:
                raise NotPlain
            if scope.inlined:
                inside[-1].calls.append(scope)
            if abbreviation.has_children:
                inside.append(scope if scope.inlined else inside[-1])
        return function, at

    def _referred(self, scope: Scope, name: int) -> Scope | None:
        """The function that DW_AT_abstract_origin or DW_AT_specification names."""
        if name not in scope.values:
            return None
        form, found = scope.values[name]
        if form not in UNIT_REFERENCES or not isinstance(found, int) or self._unit.offset + found not in self._found:
            raise NotPlain
        return self._scope(self._unit.offset + found, None)[0]

    def _name(self, scope: Scope, attributes: tuple[int, ...]) -> bytes | None:
        """Its own name, or that of the function it is a piece of."""
        for _ in range(_STEPS):
            for name in attributes:
                if name in scope.values:
                    return self._unit.string(*scope.values[name])
            found = [each for each in map(self._referred, [scope] * 2, _REFERENCES) if each is not None]
            if len(found) != 1:
                if found:
                    raise NotPlain
                return None
            scope = found[0]
        raise NotPlain

    def names(self, scope: Scope) -> tuple[str, str | None]:
        """Its name, and its linkage name where that is another."""
        name, linkage_name = self._name(scope, (DW_AT_name,)), self._name(scope, _LINKAGE_NAMES)
        if not name or linkage_name == b"":
            raise NotPlain
        other = linkage_name if linkage_name != name else None
        return name.decode("utf-8", "replace"), other.decode("utf-8", "replace") if other else None

    def told(self, scope: Scope) -> Scope:
        """A scope, or the kernel around it where it is only that kernel's body."""
        if scope.around is None or scope.around.inlined:
            return scope
        _, linkage_name = self.names(scope)
        if linkage_name is None or not linkage_name.startswith(KERNEL_BODY):
            return scope
        return scope.around if linkage_name.removeprefix(KERNEL_BODY) in self.names(scope.around) else scope

    def definition(self, scope: Scope) -> tuple[int, Declaration] | None:
        """The function that a scope is a piece of: where it stands, and where it is declared. None where the debug data does not say."""
        for _ in range(_STEPS):
            whole = self._referred(scope, DW_AT_abstract_origin)
            if whole is None:
                break
            scope = whole
        else:
            raise NotPlain
        if scope.inlined or scope.values.get(DW_AT_declaration, (0, 0))[1]:
            return None
        place = _place(scope)
        specification = self._referred(scope, DW_AT_specification)
        if not place[1] and specification is not None:
            place = _place(specification)
        return (scope.at, place) if place[1] else None


_REFERENCES = (DW_AT_specification, DW_AT_abstract_origin)
_LINKAGE_NAMES = (DW_AT_linkage_name, DW_AT_MIPS_linkage_name)


def _place(scope: Scope) -> Declaration:
    file = scope.number(DW_AT_decl_file)
    return -1 if file is None else file, (scope.number(DW_AT_decl_line) or 0) & 0xFFFFFFFF


class _Reader:
    """What a match of ``Tree.expression`` says of the scopes of one abbreviation; ``first`` is the number of their empty group."""

    def __init__(self, unit: CompileUnit, layout: ScopeGroups) -> None:
        abbreviation, self.first, places = layout
        self._unit, self._places = unit, places
        self.has_children, self.is_function = abbreviation.has_children, abbreviation.tag == DW_TAG_subprogram
        self._is_simple = DW_AT_low_pc in places and DW_AT_high_pc in places
        self.has_code = self._is_simple or DW_AT_ranges in places
        self.is_declared = self.is_function and DW_AT_decl_line in places

    def _number(self, found: re.Match[bytes], name: int) -> int:
        form, constant, group = self._places[name]
        if form in _FIXED:
            return int.from_bytes(found[group], "little")
        raw = found[group]
        if form in _INDEXES and len(raw) <= 2:
            return raw[0] if len(raw) == 1 else raw[0] & 0x7F | raw[1] << 7
        said, _ = value(raw, 0, form, constant)
        if not isinstance(said, int):
            raise NotPlain
        return said

    def spans(self, found: re.Match[bytes]) -> Spans:
        """Its code."""
        unit = self._unit
        if not self.has_code:
            return ()
        if not self._is_simple:
            return unit.spans_at(unit.list_offset(self._places[DW_AT_ranges][0], self._number(found, DW_AT_ranges)))
        start = unit.address(self._places[DW_AT_low_pc][0], self._number(found, DW_AT_low_pc))
        return unit.span(start, self._places[DW_AT_high_pc][0], self._number(found, DW_AT_high_pc))

    def is_apart(self, found: re.Match[bytes], apart: re.Pattern[bytes]) -> bool:
        """Whether its code is a list that ``apart`` matches."""
        if self._is_simple or self._unit.version < 5:
            return False
        lists = self._unit.sections[".debug_rnglists"]
        at = self._unit.list_offset(self._places[DW_AT_ranges][0], self._number(found, DW_AT_ranges))
        return at < len(lists) and apart.match(lists, at) is not None

    def declared(self, found: re.Match[bytes]) -> Declaration:
        """Where it is declared."""
        if DW_AT_decl_file not in self._places or not CONSTANTS.issuperset(
            self._places[name][0] for name in (DW_AT_decl_file, DW_AT_decl_line)
        ):
            raise NotPlain
        return self._number(found, DW_AT_decl_file), self._number(found, DW_AT_decl_line)


_FIXED = frozenset(form for form, layout in LAYOUTS.items() if 0 < layout <= 8)
_INDEXES = frozenset({DW_FORM_addrx, DW_FORM_rnglistx})
"""Forms of numbers that are small as a rule."""


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
