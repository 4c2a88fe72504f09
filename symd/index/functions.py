"""The functions of a module: where each begins, its size, the owner number that locations have for it, and the number
of its inlined copies in its code object.

An inlined copy whose code range nothing states is *lost*: it and all that was inlined into it have no range, although
the function around has. Their code is among that function's all the same.

An *unnamed* call is an inlined call that the debug data says is the function around it. Some compilers, Triton first of
all, make one debug function of a kernel and give its name to everything that was inlined into it. Nothing calls a
kernel from device code, so that no kernel is inlined into itself, and Python's compilers give no inlined function a
name of its own unless they give one to all. Such a call has a place and no name. A function of another language that is
inlined into itself is recursive, and keeps its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.index.format import Column
from symd.index.schema import FunctionTable
from symd.model.code import is_symbol_of
from symd.model.columns import I64, among, grouped
from symd.model.debug_info import NO_FUNCTION, NO_PARENT
from symd.model.frame_text import PYTHON_SUFFIX

if TYPE_CHECKING:
    from symd.index.module_tables import ModuleTables, NamedRanges, ScopeRanges, ScopeTable


class _Entries(NamedTuple):
    """Functions of the debug data: ``number`` is the scope's, ``symbol`` that of its symbol, or -1."""

    number: I64
    object: Column
    name: Column
    linkage_name: Column
    symbol: I64
    section: I64
    offset: Column
    size: Column


class _Copies(NamedTuple):
    """Distinct (object, name, linkage name where it differs) of inlined scopes, and how often each occurs."""

    object: Column
    name: Column
    linkage_name: Column
    often: Column


def module_functions(module: ModuleTables) -> FunctionTable:
    """Object by object: functions of the debug data, then symbols that it does not have, then what only stands inlined
    in others."""
    scopes = _with_symbols(module, _scope_entries(module))
    symbols = module.symbols
    alone = _alone(symbols, scopes.symbol)
    copied = _copied(module)
    here, only = _matched(scopes, copied)
    first_symbol = 1 + len(module.scopes.parent)
    zero, none = np.zeros(len(only), np.uint8), np.zeros(len(alone), np.uint8)
    table = FunctionTable(
        object=np.concatenate([scopes.object, symbols.object[alone], copied.object[only]]),
        name=np.concatenate([scopes.name, symbols.name[alone], copied.name[only]]),
        linkage_name=np.concatenate([scopes.linkage_name, none, copied.linkage_name[only]]),
        owner=np.concatenate([1 + scopes.number, first_symbol + alone, zero]),
        symbol=np.concatenate([np.where(scopes.symbol >= 0, first_symbol + scopes.symbol, 0), none, zero]),
        section=np.concatenate([scopes.section + 1, symbols.section[alone] + 1, zero]),
        offset=np.concatenate([scopes.offset, symbols.offset[alone], zero]),
        size=np.concatenate([scopes.size, symbols.size[alone], zero]),
        copies=np.concatenate([here, none, copied.often[only]]),
    )
    order = np.argsort(table.object, kind="stable")
    return FunctionTable(*(column[order] for column in table))


def _alone(symbols: NamedRanges, taken: I64) -> I64:
    """Symbols in text that no function of the debug data has."""
    free = symbols.section >= 0
    free[taken[taken >= 0]] = False
    return np.flatnonzero(free)


def _scope_entries(module: ModuleTables) -> _Entries:
    """For each function with code its lowest byte, and its extent in that section."""
    scopes, ranges = module.scopes, module.ranges
    section = np.broadcast_to(ranges.section, len(ranges.scope))
    outer = (scopes.parent == NO_PARENT)[ranges.scope]
    kept = np.flatnonzero(outer & (section >= 0) & (ranges.offset < ranges.end))
    order = kept[np.lexsort((ranges.offset[kept], section[kept], ranges.scope[kept]))]
    owner = ranges.scope[order].astype(np.int64)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    entry, number = order[first], owner[first]
    entry_section = np.repeat(section[entry], np.diff(first, append=len(order)))
    end = np.where(section[order] == entry_section, ranges.end[order], np.uint64(0))
    top = np.maximum.reduceat(end, first) if len(first) else end
    start = ranges.offset[entry]
    name, linkage = scopes.name[number], scopes.linkage_name[number]
    symbol = np.full(len(number), -1)
    return _Entries(number, scopes.object[number], name, linkage, symbol, section[entry], start, top - start)


def _with_symbols(module: ModuleTables, scopes: _Entries) -> _Entries:
    """A function without a name has its symbol's; a symbol of another name is its linkage name. One that begins inside
    its symbol is moved to its beginning and its size."""
    symbols = module.symbols
    same = _symbols_of(scopes, symbols)
    symbol = np.append(symbols.name, np.uint32(0))[same]
    name = np.where(scopes.name == 0, symbol, scopes.name)
    linkage = np.where(scopes.linkage_name == 0, symbol, scopes.linkage_name)
    at = np.flatnonzero(same >= 0)
    at = at[symbols.offset[same[at]] < scopes.offset[at]]
    offset, size = scopes.offset.copy(), scopes.size.copy()
    offset[at], size[at] = symbols.offset[same[at]], symbols.size[same[at]]
    return scopes._replace(
        name=name, linkage_name=np.where(linkage == name, 0, linkage), symbol=same, offset=offset, size=size
    )


def _symbols_of(scopes: _Entries, symbols: NamedRanges) -> I64:
    """For each function of the debug data the number of its symbol, or -1: the last one that begins where it does, or
    the first one around it with its name (scopes made from line rows begin at the first row)."""
    groups = grouped(np.concatenate([symbols.section, scopes.section]), np.concatenate([symbols.offset, scopes.offset]))
    count = len(symbols.section)
    last = np.full(len(groups.first), -1)
    last[groups.number[:count]] = np.arange(count)
    same = last[groups.number[count:]]
    lost = np.flatnonzero(same < 0)
    if len(lost) and count:
        same[lost] = _around(scopes, lost, symbols)
    return same


def _around(scopes: _Entries, lost: I64, symbols: NamedRanges) -> list[int]:
    """The symbols around some functions that have their names; -1 where there is none."""
    spans: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    columns = symbols.section, symbols.name, symbols.offset, symbols.offset + symbols.size
    for number, (section, name, offset, end) in enumerate(zip(*(each.tolist() for each in columns), strict=True)):
        spans.setdefault((section, name), []).append((offset, end, number))
    columns = scopes.section, scopes.offset, scopes.name, scopes.linkage_name
    places = list(zip(*(each[lost].tolist() for each in columns), strict=True))
    wanted: dict[tuple[int, int], set[int]] = {}
    for section, offset, *names in places:
        for key in ((section, name) for name in names):
            if key in spans:
                wanted.setdefault(key, set()).add(offset)
    known = {key: _first_around(spans[key], sorted(offsets)) for key, offsets in wanted.items()}
    found = []
    for section, offset, *names in places:
        of_names = (known.get((section, name), {}).get(offset, -1) for name in names)
        found.append(next((number for number in of_names if number >= 0), -1))
    return found


def _first_around(spans: list[tuple[int, int, int]], offsets: Sequence[int]) -> dict[int, int]:
    """For each of some ascending offsets the lowest number of a span (start, end, number) that holds it; those that
    none holds are left out."""
    waiting = sorted(spans, reverse=True)
    begun: list[tuple[int, int]] = []
    found = {}
    for offset in offsets:
        while waiting and waiting[-1][0] <= offset:
            _, end, number = waiting.pop()
            heappush(begun, (number, end))
        while begun and begun[0][1] <= offset:
            heappop(begun)
        if begun:
            found[offset] = begun[0][0]
    return found


def _copied(module: ModuleTables) -> _Copies:
    scopes = np.flatnonzero((module.scopes.inlined == 1) & ~lost_copies(module) & ~module.scopes.differing())
    object_, name, linkage = (
        column[scopes] for column in (module.scopes.object, module.scopes.name, module.scopes.linkage_name)
    )
    linkage = np.where(linkage == name, 0, linkage)
    groups = grouped(object_, name, linkage)
    count = np.diff(groups.first, append=len(scopes))
    return _Copies(object_[groups.sample], name[groups.sample], linkage[groups.sample], count)


def _matched(scopes: _Entries, copied: _Copies) -> tuple[I64, I64]:
    """(inlined copies of each function that has code of its own, numbers of those that none of them has)."""
    own = len(scopes.number)
    keys = (np.concatenate(pair) for pair in zip(scopes[1:4], copied[:3], strict=True))
    groups = grouped(*keys)
    count = np.zeros(len(groups.first), np.int64)
    count[groups.number[own:]] = copied.often
    lonely = np.ones(len(groups.first), np.bool_)
    lonely[groups.number[:own]] = False
    return count[groups.number[:own]], np.flatnonzero(lonely[groups.number[own:]])


def lost_copies(module: ModuleTables, roots: I64 | None = None) -> NDArray[np.bool_]:
    """Whether each scope is a lost copy of an inlined function: neither it nor what was inlined into it has a range,
    although the function around has. ``roots`` are the functions around scopes, where they are known."""
    parent = module.scopes.parent
    placed = np.zeros(len(parent), np.bool_)
    placed[module.ranges.scope] = True
    while not placed.all():
        around = parent[placed & (parent != NO_PARENT)]
        if placed[around].all():
            break
        placed[around] = True
    if placed.all():
        return ~placed
    roots = roots_of(parent) if roots is None else roots
    lost: NDArray[np.bool_] = ~placed & placed[roots]
    return lost


def roots_of(parent: Column) -> I64:
    """The function at the root of each scope's tree. Parents come before children."""
    found: I64 = np.where(parent == NO_PARENT, np.arange(len(parent)), parent)
    while True:
        further = found[found]
        if np.array_equal(further, found):
            return found
        found = further


def without_wrong_names(
    scopes: ScopeTable, ranges: ScopeRanges, kernels: NamedRanges, texts: Callable[[], Sequence[str]]
) -> ScopeTable:
    """The scopes with no name for calls of that kind, and behind them, for each of these and all that was inlined into
    them, one without code that has what is written. ``texts`` gives the strings by number."""
    unnamed = _unnamed(scopes, kernels, texts)
    has_code = np.zeros(len(unnamed), np.bool_)
    has_code[ranges.scope] = True
    unnamed &= has_code  # Intel's compiler leaves calls without any behind
    if not unnamed.any():
        return scopes
    inside = with_all_inside(unnamed, np.where(scopes.parent == NO_PARENT, len(unnamed), scopes.parent))
    which, count = np.flatnonzero(inside), len(inside)
    written = np.arange(count)
    written[which] = count + np.arange(len(which))
    parent = np.append(written, NO_PARENT)[np.minimum(scopes.parent[which], count)]
    columns = {name: np.append(column, column[which]) for name, column in scopes._asdict().items() if name != "written"}
    columns["parent"][count:] = parent
    columns["function"][count:] = NO_FUNCTION
    columns["function"][np.flatnonzero(unnamed)] = NO_FUNCTION  # nobody knows which lines it has
    for name in ("name", "linkage_name"):
        columns[name][np.flatnonzero(unnamed)] = 0
    return scopes._replace(**columns, written=np.append(written, written[which]))


def _unnamed(scopes: ScopeTable, kernels: NamedRanges, texts: Callable[[], Sequence[str]]) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = (scopes.inlined == 1) & (scopes.name != 0)
    calls = np.flatnonzero(found)
    if not len(calls):
        return found
    root = roots_of(scopes.parent)[calls]
    same = np.ones(len(calls), np.bool_)
    for column in (scopes.name, scopes.linkage_name, scopes.function):
        same &= column[calls] == column[root]
    if same.any():
        same[same] = _are_kernels(scopes, root[same], kernels)
    text = texts()
    python_files = [file for file in set(scopes.call_file[calls].tolist()) if text[file].endswith(PYTHON_SUFFIX)]
    if python_files:
        in_python = np.isin(scopes.call_file[calls], python_files)
        called_there = np.flatnonzero(np.isin(root, root[in_python]))
        pairs = scopes.name[calls[called_there]].astype(np.uint64) << np.uint64(32) | scopes.name[root[called_there]]
        distinct, which = np.unique(pairs, return_inverse=True)  # names may be long, and many calls have one
        both = ((pair >> 32, pair & 0xFFFFFFFF) for pair in distinct.tolist())
        said = np.array([is_symbol_of(text[symbol], text[name]) for name, symbol in both], np.bool_)
        same[called_there] |= said[which]
    found[calls] = same
    return found


def _are_kernels(scopes: ScopeTable, functions: I64, kernels: NamedRanges) -> NDArray[np.bool_]:
    """Whether these functions have the name of a kernel of their code object."""
    known = kernels.object.astype(np.int64) << 32 | kernels.name.astype(np.int64)
    code_object = scopes.object[functions].astype(np.int64) << 32
    names = scopes.name[functions].astype(np.int64), scopes.linkage_name[functions].astype(np.int64)
    return among(code_object | names[0], known) | among(code_object | names[1], known)


def with_all_inside(chosen: NDArray[np.bool_], parent: Column) -> NDArray[np.bool_]:
    """Which scopes or frames are chosen, or have a chosen one somewhere around them. ``parent`` has for each the number
    of the one around it; that of none is one that is not chosen, or ``len(chosen)``."""
    found: NDArray[np.bool_] = np.append(chosen, np.False_)
    around = np.append(parent, len(chosen))
    for _ in range(
        len(around).bit_length()
    ):  # each round looks twice as far; what a daemon says of its frames may have no end
        found = found | found[around]
        around = around[around]
    return found[:-1]
