"""The functions of one code object: where each begins, how long it is, under which number locations name it as their owner,
and how many inlined copies of it there are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from symd.index.cover import Numbers
from symd.index.format import Column
from symd.index.locations import Interner
from symd.model import NO_PARENT, U64, CodeObject, DebugInfo

COLUMNS = ("object", "name", "linkage_name", "owner", "symbol", "place", "offset", "size", "copies")


def owner_count(code: CodeObject, debug: DebugInfo) -> int:
    """Owners are numbered through an object: first its scopes, then its function symbols."""
    return len(debug.scopes) + len(code.functions)


def object_functions(
    number: int, code: CodeObject, debug: DebugInfo, places: Mapping[int, int], strings: Interner, *, first_owner: int
) -> dict[str, Column]:
    """Columns function_*: functions of the debug data, then symbols that it does not have, then what only stands inlined
    in others. ``places`` maps section numbers to place numbers."""
    names = _Names(debug, strings)
    scopes = _scope_entries(debug, places)
    symbols = _symbol_entries(code, places)
    symbol_names = strings.add_all(function.name for function in code.functions)
    own_name, linkage = names.name[scopes.number], names.linkage_name[scopes.number]
    same = _symbols_of(scopes, symbols, (own_name, linkage), symbol_names)
    own_name, linkage = _with_symbol(own_name, linkage, np.append(symbol_names, np.uint64(0))[same])
    scopes = _as_symbol(scopes, code, same)
    alone = np.flatnonzero(~np.isin(symbols.number, same))
    copied, copies = names.inlined()
    here, only = _copies(own_name, linkage, copied, copies)
    first_symbol = first_owner + len(debug.scopes)
    zero = np.zeros(len(only), np.uint64)
    none = np.zeros(len(alone), np.uint64)
    columns = {
        "name": [own_name, symbol_names[symbols.number[alone]], copied[only, 0]],
        "linkage_name": [linkage, none, np.where(copied[only, 1] == copied[only, 0], 0, copied[only, 1])],
        "owner": [first_owner + scopes.number, first_symbol + symbols.number[alone], zero],
        "symbol": [np.where(same >= 0, first_symbol + same, 0), none, zero],
        "place": [scopes.place + 1, symbols.place[alone] + 1, zero],
        "offset": [scopes.offset, symbols.offset[alone], zero],
        "size": [scopes.size, symbols.size[alone], zero],
        "copies": [here, none, copies[only]],
    }
    joined = {f"function_{name}": np.concatenate(parts).astype(np.uint64) for name, parts in columns.items()}
    return {"function_object": np.full(len(joined["function_name"]), number, np.uint64), **joined}


def _with_symbol(name: U64, linkage: U64, symbol: U64) -> tuple[U64, U64]:
    """A function without a name has its symbol's; a symbol of another name is its linkage name."""
    name = np.where(name == 0, symbol, name)
    linkage = np.where(linkage == 0, symbol, linkage)
    return name, np.where(linkage == name, np.uint64(0), linkage)


@dataclass(frozen=True, slots=True)
class _Entries:
    """Where functions begin: ``number`` is the scope's or the symbol's."""

    number: Numbers
    place: Numbers
    offset: U64
    size: U64


class _Names:
    """The names of scopes as string numbers."""

    def __init__(self, debug: DebugInfo, strings: Interner) -> None:
        self.scopes = debug.scopes
        used = np.unique(np.concatenate([debug.scopes.name, debug.scopes.linkage_name]))
        table = np.zeros(len(debug.names), np.uint64)
        table[used] = strings.add_all(debug.names[number] for number in used.tolist())
        self.name = table[debug.scopes.name]
        self.linkage_name = table[debug.scopes.linkage_name]

    def inlined(self) -> tuple[U64, Numbers]:
        """The distinct (name, linkage name) pairs of inlined scopes, and how often each occurs."""
        scopes = np.flatnonzero(self.scopes.inlined)
        pairs = np.stack([self.name[scopes], self.linkage_name[scopes]], axis=1)
        distinct, count = np.unique(pairs, axis=0, return_counts=True)
        return distinct, count


def _scope_entries(debug: DebugInfo, places: Mapping[int, int]) -> _Entries:
    """For each function with code its lowest byte, and its extent in that section."""
    scopes = debug.scopes
    place = _place_of(scopes.range_section, places)
    outer = np.append(scopes.parent == NO_PARENT, False)[scopes.range_scope]
    kept = np.flatnonzero(outer & (place >= 0) & (scopes.range_offset < scopes.range_end))
    order = kept[np.lexsort((scopes.range_offset[kept], place[kept], scopes.range_scope[kept]))]
    owner = scopes.range_scope[order].astype(np.int64)
    first = np.flatnonzero(np.diff(owner, prepend=-1))
    entry = order[first]
    entry_place = np.repeat(place[entry], np.diff(np.append(first, len(order))))
    end = np.where(place[order] == entry_place, scopes.range_end[order], np.uint64(0))
    top = np.maximum.reduceat(end, first) if len(first) else end
    start = scopes.range_offset[entry]
    return _Entries(owner[first], place[entry], start, top - start)


def _symbol_entries(code: CodeObject, places: Mapping[int, int]) -> _Entries:
    section = np.array([function.section_index for function in code.functions], np.uint32)
    place = _place_of(section, places)
    kept = np.flatnonzero(place >= 0)
    offset = np.array([function.offset for function in code.functions], np.uint64)
    size = np.array([function.size for function in code.functions], np.uint64)
    return _Entries(kept, place[kept], offset[kept], size[kept])


def _as_symbol(scopes: _Entries, code: CodeObject, same: Numbers) -> _Entries:
    """Entries that begin inside their symbol, moved to its beginning and its size."""
    offset, size = scopes.offset.copy(), scopes.size.copy()
    for at in np.flatnonzero(same >= 0).tolist():
        symbol = code.functions[int(same[at])]
        if symbol.offset < int(offset[at]):
            offset[at], size[at] = symbol.offset, symbol.size
    return replace(scopes, offset=offset, size=size)


def _place_of(section: Column, places: Mapping[int, int]) -> Numbers:
    limit = max(places, default=0) + 1
    table = np.full(limit + 1, -1)
    table[list(places)] = list(places.values())
    return table[np.minimum(section, np.uint32(limit))]


def _symbols_of(scopes: _Entries, symbols: _Entries, named: tuple[U64, U64], symbol_names: U64) -> Numbers:
    """For each function of the debug data the number of its symbol, or -1: the one that begins where it does, or one
    around it with its name (scopes made from line rows begin at the first row)."""
    starts = dict(zip(_starts(symbols), symbols.number.tolist(), strict=True))
    same = np.array([starts.get(start, -1) for start in _starts(scopes)], np.int64)
    wanted = np.flatnonzero(same < 0).tolist()
    if not wanted:
        return same
    ends = (symbols.offset + symbols.size).tolist()
    spans: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    for number, (place, offset), end in zip(symbols.number.tolist(), _starts(symbols), ends, strict=True):
        spans.setdefault((place, int(symbol_names[number])), []).append((offset, end, number))
    for at in wanted:
        place, offset = int(scopes.place[at]), int(scopes.offset[at])
        around = [span for names in named for span in spans.get((place, int(names[at])), ())]
        same[at] = next((number for start, end, number in around if start <= offset < end), -1)
    return same


def _starts(entries: _Entries) -> list[tuple[int, int]]:
    return list(zip(entries.place.tolist(), entries.offset.tolist(), strict=True))


def _copies(name: U64, linkage: U64, copied: U64, copies: Numbers) -> tuple[Numbers, Numbers]:
    """(inlined copies of each function that has code of its own, numbers of the pairs that none of them has)."""
    pairs = {(a, b if b != a else 0): number for number, (a, b) in enumerate(copied.tolist())}
    found = np.array([pairs.get(pair, -1) for pair in zip(name.tolist(), linkage.tolist(), strict=True)], np.int64)
    here = np.where(found >= 0, np.append(copies, 0)[found], 0)
    return here, np.setdiff1d(np.arange(len(copied)), found)
