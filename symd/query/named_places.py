"""Where a breakpoint for a function, a kernel or a query can go: for a function the first byte of its own code, after
the prologue if the debug data says where that ends, and the first byte of each inlined copy, or of each of its address
ranges; for a kernel the same; for a query each byte that it means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from symd.index import Index
from symd.index.format import Column
from symd.model.addresses import ByAddress, ByKernel, BySection, Query, wrong_query
from symd.model.breakpoints import FunctionName, KernelName, Located, Refusal
from symd.model.names import Match, NamedItem, NameKind, NameQuery
from symd.model.sources import PathRule
from symd.query.code_places import CodePlaces
from symd.query.function_names import starts_of_each, suggestions
from symd.query.names import LONGEST, find_names
from symd.query.symbolize import QueryBudget

MAX_CANDIDATES = 64
"""The most candidates that a refusal names."""
_CALLABLE = frozenset((NameKind.KERNEL, NameKind.FUNCTION))


class _Begin(NamedTuple):
    """Where code of a function begins: the number of a text section, the offset in it, whose code it is, and whether
    it may be entered elsewhere."""

    section: int
    offset: int
    owner: int
    is_possible: bool = False


def locate_named(
    index: Index,
    wanted: FunctionName | KernelName | Query,
    path: str | None,
    chosen: Column,
    rules: Sequence[PathRule] = (),
) -> Located:
    """The addresses of a place in the text sections ``chosen``, which are of the code object at ``path`` where one is
    meant; or the reason why there are none. Raises ``BadQuery`` for a query of another kind, and ``LimitExceeded``."""
    budget = QueryBudget()
    if not isinstance(wanted, (FunctionName, KernelName)):
        return _locate_query(index, wanted, path, chosen, rules, budget)
    kinds = _CALLABLE if isinstance(wanted, FunctionName) else frozenset((NameKind.KERNEL,))
    named = 0 < len(wanted.name) <= LONGEST
    items = find_names(index, NameQuery(wanted.name, kinds=kinds), path) if named else ()
    begins = list(_own(index, items))
    if isinstance(wanted, FunctionName):
        begins += _inlined(index, items)
    inside = set(chosen.tolist())
    sizes = index.columns.section_size
    begins = [each for each in dict.fromkeys(begins) if each.section in inside and each.offset < sizes[each.section]]
    if not begins:
        return Located(wanted, (), Refusal.NO_SUCH_FUNCTION, _like(index, wanted, path, budget))
    section, offset, owner, is_possible = (np.array(column) for column in zip(*begins, strict=True))
    places = CodePlaces(index, section.astype(np.int64), offset.astype(np.uint64), rules)
    return Located(wanted, places.entered(owner.astype(np.int64), is_possible))


def _like(index: Index, wanted: FunctionName | KernelName, path: str | None, budget: QueryBudget) -> tuple[str, ...]:
    """The names of functions, or of kernels, that may be meant by one that does not exist."""
    if isinstance(wanted, KernelName):
        kernels = find_names(index, NameQuery("*", Match.GLOB, frozenset((NameKind.KERNEL,))), path)
        return tuple(dict.fromkeys(each.name for each in kernels[:MAX_CANDIDATES]))
    (found,) = suggestions(index, (wanted.name,), path, budget)
    return tuple(dict.fromkeys(each.function for each in found if each.function))


def _own(index: Index, items: Sequence[NamedItem]) -> Iterator[_Begin]:
    """Where functions and kernels begin that have code of their own; those at one place once."""
    numbers = index.section_numbers
    functions, strings = index.functions, index.strings
    seen: set[tuple[int, int]] = set()
    for each in items:
        section, offset = numbers.get((each.path, each.section_index or 0), -1), each.section_offset
        if offset is None or section < 0 or (section, offset) in seen:
            continue
        seen.add((section, offset))
        rows = np.flatnonzero((functions.section == section + 1) & (functions.offset == offset)).tolist()
        called = [
            row for row in rows if each.name in (strings[functions.name[row]], strings[functions.linkage_name[row]])
        ]
        yield _Begin(section, offset, min((int(functions.owner[row]) for row in called or rows), default=0))


def _inlined(index: Index, items: Sequence[NamedItem]) -> Iterator[_Begin]:
    """Where the inlined copies of functions begin. A copy in several ranges can be entered at the start of any of them:
    a compiler that rotates a loop puts its last part first, and none of those that symd reads says DW_AT_entry_pc."""
    columns = index.columns
    names = index.strings.equal_to({text for each in items for text in (each.name, each.linkage_name) if text})
    pairs = {
        (name, linkage)
        for each in items
        for name in names[each.name]
        for linkage in (names[each.linkage_name] if each.linkage_name else (0,))
    }
    calls = index.derived.calls
    copies = calls[np.isin(columns.owner_name[calls], [name for name, _ in pairs])]
    bases = columns.section_base.astype(np.uint64)
    for owner in copies.tolist():
        called = int(columns.owner_name[owner]), int(columns.owner_linkage_name[owner])
        if called not in pairs:
            continue
        runs = index.derived.runs_of(owner)
        for begin in runs:
            section = int(np.searchsorted(bases, begin, side="right")) - 1
            yield _Begin(section, int(begin) - int(bases[section]), owner, len(runs) > 1)


def _locate_query(
    index: Index,
    wanted: Query,
    path: str | None,
    chosen: Column,
    rules: Sequence[PathRule],
    budget: QueryBudget,
) -> Located:
    columns = index.columns
    refusal = Refusal.OUTSIDE_TEXT
    candidates: tuple[str, ...] = ()
    sizes = columns.section_size[chosen].astype(np.uint64)
    if isinstance(wanted, ByAddress):
        offsets = np.uint64(wanted.address) - columns.section_address[chosen].astype(np.uint64)  # modulo 2^64
        found = [(int(chosen[at]), int(offsets[at])) for at in np.flatnonzero(offsets < sizes).tolist()]
    elif isinstance(wanted, BySection):
        texts = [(int(number), index.sections[number]) for number in chosen.tolist()]
        called = [number for number, text in texts if wanted.section in (text.section, text.section_index)]
        if not called:
            refusal = Refusal.NO_SUCH_SECTION
            candidates = tuple(dict.fromkeys(text.section or f"#{text.section_index}" for _, text in texts))
        found = [(number, int(wanted.offset)) for number in called if wanted.offset < index.section_size(number)]
    elif isinstance(wanted, ByKernel):
        inside = set(chosen.tolist())
        starts = [
            each
            for each in starts_of_each(index, (wanted.kernel,), path, budget)[wanted.kernel]
            if each.section in inside
        ]
        refusal = Refusal.PAST_END
        if not starts:
            refusal, candidates = Refusal.NO_SUCH_FUNCTION, _like(index, FunctionName(wanted.kernel), path, budget)
        found = [(each.section, each.offset + wanted.offset) for each in starts if wanted.offset < each.room]
    else:
        raise wrong_query(wanted)
    if not found:
        return Located(wanted, (), refusal, candidates[:MAX_CANDIDATES])
    section, offset = (np.array(column) for column in zip(*found, strict=True))
    return Located(wanted, CodePlaces(index, section.astype(np.int64), offset.astype(np.uint64), rules).innermost())
