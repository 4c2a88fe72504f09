"""The bytes of code objects that are meant by a function's name, a place or a range of a section; and the rows of a
line table, or the instructions, that cover them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from symd.errors import BadQuery, KernelNotFound, NotFound, ObjectNotFound
from symd.index import Index
from symd.index.lookup import Start
from symd.model.addresses import ByDevice, Query, SectionRange
from symd.model.answers import Answer, Reason
from symd.model.columns import U8, U32, U64
from symd.model.debug_info import RowFlag
from symd.model.line_tables import Around, CodePart, CodeSpan, Instructions
from symd.query import function_names
from symd.query.symbolize import QueryBudget, symbolize_one

_SHOWN = 8
"""The most names or places that an error lists."""

Rows = NDArray[np.intp]


def spans(index: Index, within: CodePart, path: str | None, budget: QueryBudget | None = None) -> list[CodeSpan]:
    """The bytes that are meant, in the order of the index; of a place one byte, of a kernel without code none. Raises
    ObjectNotFound where there is no code object at ``path``, KernelNotFound where there is no such function or it has
    no code, NotFound where there is no code there, BadQuery where several functions or places could be meant, and what
    ``budget`` raises."""
    if path is not None and not index.has_object(path):
        raise ObjectNotFound.at(path, index.objects)
    budget = budget or QueryBudget()
    match within:
        case str():
            return _of_function(index, within, path, budget)
        case Around(query):
            if isinstance(query, ByDevice):
                raise BadQuery(
                    "a line table is not asked for by device address",
                    hint="ask for the answer to it, which has its module and section offset",
                )
            return [_of_place(index, query, path, budget)]
        case SectionRange():
            return [_of_range(index, within, path)]
        case _ as never:
            assert_never(never)


def _of_function(index: Index, name: str, path: str | None, budget: QueryBudget) -> list[CodeSpan]:
    paths = (
        [index.objects[number] for number in index.reported_objects(path)]
        if index.columns.object_compiler_input.all()
        else [path]
    )
    places = [place for each in paths for place in function_names.starts(index, name, each, budget)]
    if not places:
        raise _no_function(index, name, path, budget)
    found = [(each, _extent(index, each)) for each in places if each.room or index.kernels_named(name)]
    if not found:
        raise KernelNotFound(f"{name!r} has no code", hint="the compiler left no instructions of it")
    names = sorted({called for _, (called, _) in found})
    if len(names) > 1:
        raise BadQuery(f"several functions are called {name!r}", hint=f"write one of {', '.join(names[:_SHOWN])}")
    return [_span(index, start.section, start.offset, start.offset + size) for start, (_, size) in found]


def function_extents(index: Index, name: str, path: str | None) -> list[tuple[int, int, int]]:
    """(text section, offset of the first byte, bytes) of each kernel or other function of that name that has code."""
    entries = [each for each in index.kernels_named(name) if each.size and index.is_chosen(each.section, path)]
    if entries:
        return [(each.section, each.offset, each.size) for each in entries]
    found = [each for each in function_names.starts(index, name, path) if each.room]
    return [(each.section, each.offset, _extent(index, each)[1]) for each in found]


def _extent(index: Index, start: Start) -> tuple[str, int]:
    """The name by which the function that begins there is asked for, and its bytes: a kernel's, else those of the
    largest function."""
    columns, functions = index.columns, index.functions
    kernels = np.flatnonzero((columns.kernel_section == start.section) & (columns.kernel_offset == start.offset))
    rows = np.flatnonzero((functions.section == start.section + 1) & (functions.offset == start.offset))
    if len(kernels):
        size = max(columns.kernel_size[kernels].tolist())
        return index.strings[columns.kernel_name.item(kernels[0])], min(size, start.room)
    row = rows[np.argmax(functions.size[rows])]
    linkage = index.strings[functions.linkage_name.item(row)]
    return linkage or index.strings[functions.name.item(row)], min(functions.size.item(row), start.room)


def _no_function(index: Index, name: str, path: str | None, budget: QueryBudget) -> KernelNotFound:
    spirv = next((each.section for each in index.kernels_named(name)), None) if path is None else None
    if spirv is not None:
        return KernelNotFound(
            f"there is no function {name!r}",
            hint=f"the SPIR-V has it: ask for the code object {index.sections[spirv].path!r}",
        )
    (like,) = function_names.suggestions(index, [name], path, budget)
    return _unknown(name, [each.function or "" for each in like])


def _unknown(name: str, like: Sequence[str]) -> KernelNotFound:
    hint = f"did you mean {' or '.join(dict.fromkeys(like))}?" if like else "look it up among the names of the module"
    return KernelNotFound(f"there is no function {name!r}", hint=hint, metadata={"function": name[:200]})


def _of_place(index: Index, query: Query, path: str | None, budget: QueryBudget) -> CodeSpan:
    answer = symbolize_one(index, query, path, budget)
    if answer.path is None or answer.section_index is None or answer.section_offset is None:
        raise _no_place(query, answer)
    return CodeSpan(answer.path, answer.section_index, answer.section_offset, answer.section_offset + 1)


def _no_place(query: Query, answer: Answer) -> BadQuery | NotFound:
    if answer.reason is Reason.AMBIGUOUS:
        shown = ", ".join(
            f"({each.section or f'#{each.section_index}'})+{each.section_offset:#x} of {each.path!r}"
            for each in answer.candidates[:_SHOWN]
        )
        return BadQuery(
            f"several places could be meant by {query}", hint=f"name one code object, or ask for one of {shown}"
        )
    if answer.reason is Reason.UNKNOWN_KERNEL:
        return _unknown(getattr(query, "kernel", ""), [each.function or "" for each in answer.candidates])
    return NotFound(f"there is no code at {query}", hint="the place lies in no section with code")


def _of_range(index: Index, wanted: SectionRange, path: str | None) -> CodeSpan:
    there = [(number, index.sections[number]) for number in index.chosen_sections(path).tolist()]
    found = [(number, text) for number, text in there if wanted.section in (text.section, text.section_index)]
    if not found:
        names = ", ".join(dict.fromkeys(text.section or f"#{text.section_index}" for _, text in there[:_SHOWN]))
        raise NotFound(f"there is no code in a section {wanted.section!r}", hint=f"code is in {names}" if names else "")
    if len(found) > 1:
        paths = ", ".join(f"{text.path!r} (section {text.section_index})" for _, text in found[:_SHOWN])
        raise BadQuery(
            f"there are several sections {wanted.section!r}",
            hint=f"name the code object and the section's number: {paths}",
        )
    number, _ = found[0]
    if wanted.start >= index.section_size(number):
        raise NotFound(
            f"section {wanted.section!r} ends before {wanted.start:#x}",
            hint=f"it has {index.section_size(number):#x} bytes",
        )
    return _span(index, number, wanted.start, min(wanted.end, index.section_size(number)))


def _span(index: Index, section: int, start: int, end: int) -> CodeSpan:
    text = index.sections[section]
    return CodeSpan(text.path, text.section_index, start, end)


def instructions_within(found: Instructions, within: CodePart, spans: Sequence[CodeSpan]) -> Rows | None:
    """The numbers of the instructions that are meant, in order; None where none covers the place, or has a byte in a
    span."""
    end = found.offset + found.size
    if not isinstance(within, Around):
        kept = np.zeros(len(found), np.bool_)
        for span in spans:
            kept |= (
                (found.section == span.section) & (found.offset < np.uint64(span.end)) & (end > np.uint64(span.start))
            )
        nothing = any(span.start < span.end for span in spans) and not kept.any()
        return None if nothing else np.flatnonzero(kept)
    (span,) = spans
    holders = np.flatnonzero(
        (found.section == span.section) & (found.offset <= np.uint64(span.start)) & (end > np.uint64(span.start))
    )
    if not len(holders):
        return None
    at = int(holders[0])
    first, last = _without_gap(found, at)
    return np.arange(max(first, at - within.before), min(last, at + within.after + 1))


def _without_gap(found: Instructions, at: int) -> tuple[int, int]:
    """The first and the end of the instructions around number ``at`` that stand without a gap."""
    end = found.offset + found.size
    gap = np.flatnonzero((found.section[1:] != found.section[:-1]) | (found.offset[1:] != end[:-1])) + 1
    after = int(np.searchsorted(gap, at, side="right"))
    return int(gap[after - 1]) if after else 0, int(gap[after]) if after < len(gap) else len(found)


def is_held(found: Instructions, span: CodeSpan) -> bool:
    """Whether the bytes of ``span`` are in instructions that stand without a gap, all in one range of code."""
    at = int(np.searchsorted(found.offset, np.uint64(span.start), side="right")) - 1
    if at < 0 or span.start >= int(found.offset[at]) + int(found.size[at]):
        return False
    last = _without_gap(found, at)[1] - 1
    return span.end <= int(found.offset[last]) + int(found.size[last])


def rows_within(section: U32, offset: U64, flags: U8, within: CodePart, spans: Sequence[tuple[int, int, int]]) -> Rows:
    """The numbers of the rows that are meant, of columns in table order whose sections are numbered as those of
    ``spans`` (section, start, end). Behind each row that covers a byte of a span stands the one that ends it."""
    covers = np.zeros(len(offset), np.bool_)
    closing = (flags & RowFlag.END_SEQUENCE) != 0
    next_offset = np.append(offset[1:], offset[-1:])
    holds = np.append(section[1:] == section[:-1], False) & ~closing  # nothing ends the last row of a table
    for number, start, end in spans:
        here = holds & (section == number) & (offset < np.uint64(end))
        covers |= here & ((next_offset > np.uint64(start)) | (offset >= np.uint64(start)))
    if not isinstance(within, Around):
        return np.flatnonzero(covers | np.append(False, covers[:-1]))
    covers &= next_offset > offset
    numbers = np.flatnonzero(covers)
    if not len(numbers):
        return numbers
    at = int(numbers[-1])
    return np.arange(max(at - within.before, 0), min(at + within.after + 1, len(offset)))


def places(index: Index, section: NDArray[np.int64], offset: U64) -> Iterator[str]:
    """How each place of a text section is asked for in its code object: from the nearest function in front of it that
    reaches so far and whose name has one place there, else from the section's start."""
    functions = index.functions
    rows = np.flatnonzero((functions.section > 0) & (functions.size > 0))
    name = np.where(functions.linkage_name[rows] > 0, functions.linkage_name[rows], functions.name[rows])
    bases = np.array(index.bases, np.uint64)
    within = functions.section[rows].astype(np.int64) - 1
    start = bases[within] + functions.offset[rows].astype(np.uint64)
    order = np.lexsort((functions.size[rows], start))
    rows, name, start = rows[order], name[order], start[order]
    owners = np.unique([text.path for text in index.sections], return_inverse=True)[1].astype(np.uint64)
    owned = (owners[within[order]] << np.uint64(32)) | name.astype(np.uint64)
    end = start + functions.size[rows].astype(np.uint64)
    _, first = np.unique(np.stack([owned, start]), axis=1, return_index=True)
    called, times = np.unique(owned[first], return_counts=True)
    at = bases[section] + offset
    near = np.searchsorted(start, at, side="right").astype(np.int64) - 1
    for number, row in enumerate(near.tolist()):
        if row >= 0 and at[number] < end[row] and name[row] and times[np.searchsorted(called, owned[row])] == 1:
            yield f"{index.strings[name.item(row)]}+{int(at[number] - start[row]):#x}"
        else:
            text = index.sections[int(section[number])]
            yield f"({text.section or f'#{text.section_index}'})+{int(offset[number]):#x}"
