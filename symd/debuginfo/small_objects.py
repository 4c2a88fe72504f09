"""Small code objects, of which a module may have thousands, decoded many at a time (``dwarf.small_objects``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, pairwise, repeat, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.budget import DebugBudget
from symd.config import Limits
from symd.debuginfo.depth import deeper_than
from symd.debuginfo.folded_sequences import begins_again
from symd.debuginfo.function_lines import function_lines
from symd.debuginfo.kernel_names import named
from symd.debuginfo.layout import GAP, LinearLayout, assign
from symd.debuginfo.relocation import relocated
from symd.debuginfo.stray_ranges import strays_of, units_of_several
from symd.dwarf import DebugSections, LineColumns, read_units
from symd.dwarf.small_objects import LARGEST, DecodedObjects, SmallObjects
from symd.errors import Malformed, SymdError
from symd.model.code import CodeObject, Vendor
from symd.model.columns import I64, U32, U64, distinct
from symd.model.debug_info import NO_FUNCTION, NO_PARENT, DebugInfo, FunctionLines, LineRows, Scopes, TextSpans

_BATCH_BYTES = 1 << 21
"""Bytes of debug sections that are decoded together: what is made of them fits the caches."""
_FEWEST_TOGETHER = 4
"""Fewer objects than these are decoded one by one: that costs as much."""
_MOST_FAILURES = 24
"""Times that decoding some together may fail, in one batch, until the rest is decoded one by one: an odd one of a thousand objects takes nine to be found."""
_MOST_TOGETHER = 1024
"""More objects than these are not decoded together: the tables of what their abbreviations mean would be large."""
_MOST_TEXTS = 16
"""Text sections of an object: each takes a column of a table of all objects."""
_LARGEST_IMAGE, _BATCH_IMAGES = 1 << 20, 1 << 24
"""Bytes of a code object that waits for others, and of all that wait together."""
_NOWHERE = TextSpans.empty()
Decoded = tuple[CodeObject, DebugInfo | SymdError]


class _Waiting(NamedTuple):
    """A code object that can be decoded with others, and its relocated sections."""

    code: CodeObject
    layout: LinearLayout
    sections: DebugSections


def read_in_batches(
    codes: Iterable[CodeObject], limits: Limits, budget: DebugBudget, alone: Callable[[CodeObject], Decoded]
) -> Iterator[Decoded]:
    """Each code object with what is decoded from it, in their order. Those that are not small, and those that cannot be decoded with
    others, are read by ``alone``, which says what is wrong with one."""
    batch = _Batch(limits, budget)
    for code in codes:
        size = _debug_bytes(code)
        is_small = size <= LARGEST and len(code.data) <= _LARGEST_IMAGE
        if batch.is_full or not is_small:
            yield from batch.read(alone)
            batch = _Batch(limits, budget)
        if is_small:
            batch.add(code, size)
            continue
        found = [alone(code)]
        del code  # a large one, which this generator would keep while it waits
        yield found.pop()
    yield from batch.read(alone)


def _debug_bytes(code: CodeObject) -> int:
    return sum([section.size for section in code.sections if section.name.startswith(".debug_")])


class _Batch:
    """Code objects that are read together, as far as they can be."""

    def __init__(self, limits: Limits, budget: DebugBudget) -> None:
        self._limits, self._gathered, self._budget = limits, SmallObjects(limits), budget
        self._looked = budget.trial()  # what is decoded, alone or with others, is counted then
        self._codes: list[tuple[CodeObject, bool]] = []
        self._waiting: list[_Waiting] = []
        self._debug_bytes = self._bytes = 0

    @property
    def is_full(self) -> bool:
        return self._debug_bytes > _BATCH_BYTES or self._bytes > _BATCH_IMAGES or len(self._codes) >= _MOST_TOGETHER

    def add(self, code: CodeObject, debug_bytes: int) -> None:
        """One more, with so many bytes of debug sections."""
        self._bytes += len(code.data)
        self._debug_bytes += debug_bytes
        self._codes.append((code, self._take(code)))

    def _take(self, code: CodeObject) -> bool:
        """Whether it can be decoded with others."""
        if not code.debug.has_units or code.address_bits != 64:
            return False
        if not 0 < sum([section.executable for section in code.sections]) <= _MOST_TEXTS:
            return False
        try:
            layout = assign(code)
            sections = relocated(code, layout, self._looked)
            taken = self._gathered.take(sections)
        except SymdError:  # ``alone`` raises the same
            return False
        if taken:
            self._waiting.append(_Waiting(code, layout, sections))
        return taken

    def read(self, alone: Callable[[CodeObject], Decoded]) -> Iterator[Decoded]:
        """Each with what is decoded from it, in the order in which they were added."""
        found = iter(self._decoded())
        for code, taken in self._codes:
            debug = next(found) if taken else None
            yield alone(code) if debug is None else (named(code, debug), debug)

    def _decoded(self) -> list[DebugInfo | None]:
        """What ``debuginfo.read`` says of those that wait; None of one that has to be read by itself. Where some cannot be decoded
        together because of one of them, the halves are tried, and so on, a few times."""
        parts, found, failures = [self._waiting], list[DebugInfo | None](), 0
        gathered: SmallObjects | None = self._gathered
        while parts:
            part = parts.pop()
            debugs = None
            if len(part) >= _FEWEST_TOGETHER and failures < _MOST_FAILURES:
                debugs = _together(part, gathered or _gathered(part, self._limits), self._limits, self._budget)
                gathered = None
                failures += debugs is None
                if debugs is None and len(part) >= 2 * _FEWEST_TOGETHER:
                    half = len(part) // 2
                    parts += [part[half:], part[:half]]
                    continue
            found += debugs or [None] * len(part)
        return found


def _gathered(part: Sequence[_Waiting], limits: Limits) -> SmallObjects:
    found = SmallObjects(limits)
    for each in part:
        found.take(each.sections._replace(budget=None))  # its units are counted already
    return found


def _together(
    part: Sequence[_Waiting], gathered: SmallObjects, limits: Limits, budget: DebugBudget
) -> list[DebugInfo] | None:
    """None where one of them has to be read by itself."""
    trial = budget.trial()
    try:
        debugs = _divided(part, gathered.read(trial), limits)
    except SymdError:  # who reads that one by itself is told
        return None
    budget.accept(trial)
    return debugs


class _Layouts:
    """The layouts of some objects side by side: a row for each, filled up with the largest address."""

    def __init__(self, layouts: Sequence[LinearLayout]) -> None:
        self._count = np.array([len(layout.base) for layout in layouts])
        room = len(layouts), int(self._count.max())
        self._base = np.full(room, (1 << 64) - 1, np.uint64)
        self._size, self._section = np.zeros(room, np.uint64), np.zeros(room, np.uint32)
        filled = np.arange(room[1]) < self._count[:, None]
        self._base[filled] = np.concatenate([layout.base for layout in layouts])
        self._size[filled] = np.concatenate([layout.size for layout in layouts])
        self._section[filled] = np.concatenate([layout.section for layout in layouts])

    def section_of(self, addresses: U64, number: I64) -> tuple[U32, U64, NDArray[np.bool_]]:
        """``LinearLayout.section_of`` of each address in the object of its number."""
        slot = np.full(len(addresses), -1)
        for base in self._base.T:
            slot += addresses >= base[number]
        slot = np.minimum(slot, self._count[number] - 1)
        found = slot >= 0
        slot[~found] = 0
        offset = np.where(found, addresses - self._base[number, slot], np.uint64(0))
        found &= offset <= self._size[number, slot] + np.uint64(GAP)
        return self._section[number, slot], offset, found


def _divided(batch: Sequence[_Waiting], found: DecodedObjects, limits: Limits) -> list[DebugInfo]:
    """The columns of each object, as it has them by itself."""
    layouts = _Layouts([each.layout for each in batch])
    if deeper_than(found.scopes.parent, limits.inline_depth):
        raise Malformed("scopes are deep")
    count = len(batch)
    rows, scopes, ranges = _rows(found, layouts, count), _scopes(found, count), _ranges(found, layouts, count)
    functions = _functions(found, count)
    strays = _strays(batch, found, layouts, limits)
    parts = zip(rows, scopes, ranges, functions, found.files, found.names, strays, strict=True)
    return [
        DebugInfo(
            LineRows(*row),
            Scopes(*(*scope[:-1], *range_, scope[-1])),
            files,
            names,
            (),
            FunctionLines(*function),
            _NOWHERE,
            stray,
        )
        for row, scope, range_, function, files, names, stray in parts
    ]


def _by_object(columns: Sequence[NDArray[Any]], number: I64, count: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """For each of ``count`` objects its part of columns that have these ascending ``number`` of objects."""
    edges = np.searchsorted(number, np.arange(count + 1)).tolist()
    return (tuple([column[first:last] for column in columns]) for first, last in pairwise(edges))


def _rows(found: DecodedObjects, layouts: _Layouts, count: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """As ``debuginfo`` makes them of one object."""
    lines = found.lines
    start, number = lines.starts, found.object_of_table[lines.table]
    section, offset, inside = layouts.section_of(start, number)
    if _are_folded(lines, number, inside):
        raise Malformed("sequences begin where others do")
    keep = slice(None) if inside.all() else np.flatnonzero(lines.per_row(inside))
    columns = (
        lines.per_row(section)[keep],
        (lines.address - lines.per_row(start - offset))[keep],
        *(column[keep] for column in (lines.file, lines.line, lines.column, lines.flags)),
    )
    return _by_object(columns, lines.per_row(number)[keep], count)


def _are_folded(lines: LineColumns, number: I64, inside: NDArray[np.bool_]) -> bool:
    """Whether line sequences of an object begin at the same address ``inside`` text; ``number`` is each one's object."""
    start = lines.starts
    addresses = distinct(start)
    place = number * len(addresses) + np.searchsorted(addresses, start)
    return bool(begins_again(place, inside & (lines.address[lines.ends - 1] > start)).any())


def _less(numbers: U32, first: I64, nothing: int) -> U32:
    """Numbers that count from ``first``; ``nothing`` stays."""
    return np.where(numbers == nothing, np.uint32(nothing), numbers - first.astype(np.uint32))


def _firsts(number: I64, count: int) -> I64:
    """For each entry the number of the first one of its object."""
    found: I64 = np.searchsorted(number, np.arange(count))[number]
    return found


def _scopes(found: DecodedObjects, count: int) -> Iterator[tuple[NDArray[Any], ...]]:
    scopes = found.scopes
    number = found.object_of_unit[scopes.unit]
    first_function = np.searchsorted(found.object_of_unit[scopes.functions.unit], np.arange(count))[number]
    columns = (
        _less(scopes.parent, _firsts(number, count), NO_PARENT),
        scopes.name,
        scopes.linkage_name,
        scopes.inlined,
        scopes.call_file,
        scopes.call_line,
        scopes.call_column,
        _less(scopes.function, first_function, NO_FUNCTION),
    )
    return _by_object(columns, number, count)


def _ranges(found: DecodedObjects, layouts: _Layouts, count: int) -> Iterator[tuple[NDArray[Any], ...]]:
    scopes = found.scopes
    of_scope = found.object_of_unit[scopes.unit]
    number = of_scope[scopes.range_scope]
    section, offset, inside = layouts.section_of(scopes.range_start, number)
    scope = scopes.range_scope - _firsts(of_scope, count)[scopes.range_scope].astype(np.uint32)
    end = offset + (scopes.range_end - scopes.range_start)
    return _by_object([column[inside] for column in (scope, section, offset, end)], number[inside], count)


def _functions(found: DecodedObjects, count: int) -> Iterator[tuple[NDArray[Any], ...]]:
    """``function_lines`` takes one list of names: here names are numbered through all objects."""
    functions = found.scopes.functions
    number = found.object_of_unit[functions.unit]
    first = np.cumsum([0, *map(len, found.names)])[number].astype(np.uint32)
    named = functions._replace(name=functions.name + first, linkage_name=functions.linkage_name + first)
    names = tuple(chain.from_iterable(found.names))
    lines = function_lines(replace(found.scopes, functions=named, names=names))
    first_unit = np.searchsorted(found.object_of_unit, np.arange(count))[number].astype(np.uint32)
    return _by_object(lines._replace(unit=lines.unit - first_unit), number, count)


def _strays(batch: Sequence[_Waiting], found: DecodedObjects, layouts: _Layouts, limits: Limits) -> Iterable[TextSpans]:
    """As ``stray_ranges`` has them; those of DWARF 5, and all where one is unusual, are read object by object."""
    several: dict[int, list[int]] = {}
    for unit in sorted(units_of_several(found.scopes)):
        several.setdefault(int(found.object_of_unit[unit]), []).append(unit)
    several = {number: units for number, units in several.items() if batch[number].code.vendor is Vendor.INTEL}
    units = found.joined.units
    together = [unit for own in several.values() if all(units[unit].version < 5 for unit in own) for unit in own]
    try:
        spans = [*_strays_together(batch, found, layouts, together)]
    except SymdError:
        together, spans = [], [_NOWHERE] * len(batch)
    for number, own in several.items():
        if own[0] not in together:
            each = batch[number]
            first = int(np.searchsorted(found.object_of_unit, number))
            alone = strays_of(each.sections, read_units(each.sections, limits), {unit - first for unit in own})
            spans[number] = alone.spans(each.layout)
    return spans


def _strays_together(
    batch: Sequence[_Waiting], found: DecodedObjects, layouts: _Layouts, units: Sequence[int]
) -> Iterable[TextSpans]:
    if not units:
        return repeat(_NOWHERE, len(batch))
    from symd.debuginfo.many_block_ranges import outside_of_functions  # noqa: PLC0415 - few need it

    strays = outside_of_functions(found.joined, [each.sections for each in batch], units)
    number = found.object_of_unit[strays.unit]
    section, offset, inside = layouts.section_of(strays.start, number)
    columns = (section, offset, offset + (strays.end - strays.start))
    return starmap(TextSpans, _by_object([column[inside] for column in columns], number[inside], len(batch)))
