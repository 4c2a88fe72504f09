"""A portion of a module: some of its code objects, indexed by themselves and kept until the rest of the module is
indexed.

Nothing of one code object reaches into another's text, so the answers there follow from that object alone. Only numbers
depend on the others; where a portion is the whole module, they are the module's. The index file's pages of ranges are
made from those of the portions, one after the other.

What a module's notes say of debug data that contradicts itself is here, too: where, how much of the text, and what
wrote it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import NamedTuple

import numpy as np

from symd.debuginfo import leaves_out_calls
from symd.index.format import Column, Compressor, narrow
from symd.index.functions import module_functions
from symd.index.locations import ModuleRanges, Stretches, module_ranges
from symd.index.module_tables import DecodedObject, ModuleTables, RowTables, TextSections
from symd.index.packing import PAGE_SHIFT, CompressedColumn, Differences, Keeper, narrow_signed, widest
from symd.index.schema import RowTable
from symd.index.summary import pack_objects
from symd.model.answers import Reason
from symd.model.code import CodeObject, RelocationScheme, Vendor
from symd.model.columns import I64, Interner, runs
from symd.model.debug_info import RowFlag
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary


class PortionExtent(NamedTuple):
    """How much of everything a portion has, or is before it. ``text`` counts bytes, ``owners`` all but nobody."""

    objects: int = 0
    sections: int = 0
    text: int = 0
    owners: int = 0
    frames: int = 0
    ranges: int = 0

    def and_then(self, further: PortionExtent) -> PortionExtent:
        return PortionExtent(*(own + more for own, more in zip(self, further, strict=True)))


class Portion(NamedTuple):
    """A part of an index file: what it says of some code objects of a module. ``columns`` are those of the index
    file, by name, that have the portions' end to end. ``functions`` are the columns of a ``FunctionTable``, ``rows``
    those of a ``RowTable``. Each of ``summaries`` is what ``summary.pack_objects`` makes of an object; ``listed``
    counts the kernels in all of them. ``suspected`` as ``Contradictions`` has it."""

    extent: PortionExtent
    columns: Mapping[str, CompressedColumn]
    ranges: KeptRanges
    functions: Sequence[Differences]
    rows: Sequence[Differences]
    summaries: Sequence[CompressedColumn]
    listed: int
    suspected: bool


def portion(
    objects: Sequence[DecodedObject],
    module: ModuleTables,
    summaries: Sequence[ObjectSummary],
    strings: Interner,
    keeper: Keeper,
) -> Portion:
    """The part of an index that says all of ``objects``, whose tables are ``module``."""
    found = module_ranges(module)
    described = noted(ModuleSummary(Digest(""), 0, "", tuple(summaries)), objects, module.texts, found.stretches)
    columns = {**_columns(objects, module, strings), **named("written", found.written)}
    columns |= {**named("frame", found.frames), **named("owner", found.owners)}
    return Portion(
        _extent(objects, module, found),
        {name: keeper.keep(narrow(column)) for name, column in columns.items()},
        kept_ranges(found, keeper),
        [Differences(column, keeper) for column in module_functions(module)],
        [Differences(column, keeper) for column in _row_table(module.rows)],
        [keeper.keep(np.frombuffer(packed, np.uint8)) for packed in pack_objects(described.objects)],
        sum(len(each.kernels) for each in described.objects),
        found.suspected,
    )


def _extent(objects: Sequence[DecodedObject], module: ModuleTables, found: ModuleRanges) -> PortionExtent:
    sizes = module.texts.size
    owners, frames = len(found.owners[0]) - 1, len(found.frames.owner)
    return PortionExtent(len(objects), len(sizes), int(sizes.sum()), owners, frames, len(found.start))


def named(kind: str, table: NamedTuple) -> dict[str, Column]:
    """The columns of a table, as the index file names them."""
    return {f"{kind}_{name}": column for name, column in table._asdict().items()}


def _columns(objects: Sequence[DecodedObject], module: ModuleTables, strings: Interner) -> dict[str, Column]:
    """The columns of objects, text sections, the kernels in these, and files, by name."""
    codes = [item.code for item in objects]
    texts, kernels = module.texts, module.kernels
    known = np.flatnonzero(kernels.section >= 0)
    return {
        "object_path": strings.add_all([code.path for code in codes]),
        "object_target": strings.add_all([code.target or "" for code in codes]),
        "object_compiler_input": np.array([code.is_compiler_input for code in codes], np.uint8),
        "object_rows": _written_rows(module.rows),
        "section_object": texts.object,
        "section_name": texts.name,
        "section_number": texts.number,
        "section_address": texts.address,
        "section_size": texts.size,
        "section_base": texts.base,
        "kernel_object": kernels.object[known],
        "kernel_name": kernels.name[known],
        "kernel_section": kernels.section[known],
        "kernel_offset": kernels.offset[known],
        "kernel_size": kernels.size[known],
        "file_object": module.files[0],
        "file_name": module.files[1],
    }


def _row_table(rows: RowTables) -> RowTable:
    """The rows that line tables have; ranges follow from others too (``RowFlag.IMPLIED``)."""
    section = np.broadcast_to(rows.section, len(rows.offset))
    table = RowTable(section, rows.offset, rows.file, rows.line, rows.column, rows.flags)
    implied = (rows.flags & RowFlag.IMPLIED) != 0
    return RowTable(*(column[~implied] for column in table)) if implied.any() else table


def _written_rows(rows: RowTables) -> Column:
    """How many of these each object has."""
    implied = (rows.flags & RowFlag.IMPLIED) != 0
    if not implied.any():
        return rows.counts
    before = np.append(0, np.cumsum(~implied))
    ends = np.cumsum(rows.counts)
    counts: Column = before[ends] - before[ends - rows.counts]
    return counts


_PAGE = 1 << PAGE_SHIFT


class KeptRanges(NamedTuple):
    """The ranges of a portion. ``start`` are text positions. From each entry of ``run``, a range, to the next the frame
    is that of ``frame``; ``above`` is how far a range's line is above its frame's (0: none)."""

    start: CompressedColumn
    run: CompressedColumn
    frame: CompressedColumn
    above: CompressedColumn
    column: CompressedColumn
    reason: CompressedColumn


def kept_ranges(found: ModuleRanges, keeper: Keeper) -> KeptRanges:
    base = found.frames.line.astype(np.uint32)[found.run_frame]
    above = found.line - np.repeat(base, np.diff(found.run, append=len(found.line)))
    above[found.line == 0] = 0
    return KeptRanges(
        keeper.keep_ascending(found.start),
        keeper.keep_ascending(found.run),
        keeper.keep(found.run_frame),
        keeper.keep(narrow(above)),
        keeper.keep(narrow(found.column)),
        keeper.keep(found.reason),
    )


class _Cut(NamedTuple):
    """A portion's ranges: ``run`` are those that begin a page or have another frame than the one before, ``steps`` how
    far that is from its (0 where a page begins)."""

    run: CompressedColumn
    steps: CompressedColumn
    planes: tuple[CompressedColumn, CompressedColumn, CompressedColumn]


def range_columns(
    portions: Iterable[KeptRanges], keeper: Keeper, compress: Compressor
) -> tuple[dict[str, Column], list[bytes]]:
    """The columns range_count and page_*, but for the last of these, page_data, which is in pieces: a page each."""
    found = _Ranges(portions, keeper)
    pages = [*found.packed(compress)]
    return {
        "range_count": narrow(np.array([found.count], np.uint64)),
        "page_width": np.array([dtype.itemsize for dtype in found.types[:3]], np.uint8),
        "page_frame": narrow(found.first_frames),
        "page_end": narrow(np.cumsum([len(page) for page in pages], dtype=np.uint64)),
    }, pages


class _Ranges:
    """``first_frames`` has the frame of the first range of each page, ``types`` are those of steps and of the planes:
    lines above the frames', columns and reasons."""

    def __init__(self, portions: Iterable[KeptRanges], keeper: Keeper) -> None:
        self._portions: list[_Cut] = []
        self.count, last, first_frames = 0, 0, [np.zeros(0, np.int64)]
        for each in portions:
            firsts = np.arange(-self.count % _PAGE, each.reason.entries, _PAGE)
            run, frame = _cut(each.run.values(), each.frame.values().astype(np.int64), firsts)
            steps, begins = np.diff(frame, prepend=np.int64(last)), np.searchsorted(run, firsts)
            first_frames.append(frame[begins])
            last = int(frame[-1]) if len(frame) else last
            steps[begins] = 0
            goes_on = len(run) > 0 and steps[0] == 0 and self.count % _PAGE > 0
            if goes_on:  # with the last portion's frame
                run, steps = run[1:], steps[1:]
            planes = each.above, each.column, each.reason
            self._portions.append(_Cut(keeper.keep_ascending(run), keeper.keep(narrow_signed(steps)), planes))
            self.count += each.reason.entries
        self.first_frames = np.concatenate(first_frames)
        kept = [(each.steps, *each.planes) for each in self._portions]
        self.types = [widest([one.dtype for one in column]) for column in zip(*kept, strict=True)]

    def packed(self, compress: Compressor) -> Iterator[bytes]:
        """Each page: a bit for each range with which another frame begins than the last one's, the differences of these
        frames, then the planes."""
        run, (steps, *planes) = np.zeros(0, np.int64), (np.zeros(0, dtype) for dtype in self.types)
        for each in self._portions:
            run = np.append(run, each.run.values() + len(planes[0]))
            steps = _longer(steps, each.steps)
            planes = [_longer(*pair) for pair in zip(planes, each.planes, strict=True)]
            whole = len(planes[0]) >> PAGE_SHIFT << PAGE_SHIFT
            if whole:
                stop = np.searchsorted(run, whole)
                yield from _packed(compress, run[:stop], steps[:stop], [plane[:whole] for plane in planes])
                run, steps, planes = run[stop:] - whole, steps[stop:], [plane[whole:] for plane in planes]
        if len(run):
            yield from _packed(compress, run, steps, planes)


def _longer(column: Column, more: CompressedColumn) -> Column:
    return np.concatenate([column, more.values()], dtype=column.dtype)


def _packed(compress: Compressor, run: I64, steps: Column, planes: Sequence[Column]) -> Iterator[bytes]:
    """Pages of ranges, the first of which begins a page."""
    count = len(planes[0])
    begins = np.zeros(count, np.bool_)
    begins[run] = True
    bits = np.packbits(begins, bitorder="little")
    stops = np.searchsorted(run, np.append(np.arange(0, count, _PAGE), count)).tolist()
    for page, (begin, stop) in enumerate(pairwise(stops)):
        first, last = page << PAGE_SHIFT, page + 1 << PAGE_SHIFT
        yield compress(bits[first >> 3 : last >> 3], steps[begin:stop], *(plane[first:last] for plane in planes))


def _cut(run: I64, frame: I64, firsts: I64) -> tuple[I64, I64]:
    """The runs, cut where pages begin."""
    at = np.searchsorted(run, firsts, side="right")
    new = run[at - 1] != firsts
    return np.insert(run, at[new], firsts[new]), np.insert(frame, at[new], frame[at[new] - 1])


MAX_PLACES = 4
"""The most places that a note names."""
_REASONS = (Reason.CONTRADICTORY, Reason.INFERRED, Reason.NO_LINE)
_TORN = "functions contradict each other: code of one lies in the range of another"
_CALLS = "the table of inlined calls is inconsistent here, or says nothing of them"
_UNTOLD = "lines alone say nothing of calls that the compiler inlined, which may have these lines"
_UNNAMED = "inlined calls have the name of the function around them, as a compiler leaves it that makes one debug function of all: they have none here"
_ROWS = "line rows reach into scopes in which they do not begin, or begin with lines of other functions or with none of their source"


def noted(
    summary: ModuleSummary, objects: Sequence[DecodedObject], texts: TextSections, found: Stretches
) -> ModuleSummary:
    """The summary with a note for each code object and each kind of contradiction."""
    if not len(found.start):
        return summary
    described = list(summary.objects)
    for each in _kinds(texts, found):
        if each.object < len(described):
            code, was = objects[each.object].code, described[each.object]
            described[each.object] = was._replace(notes=(*was.notes, _note(each, code)))
    return summary._replace(objects=tuple(described))


class _Kind(NamedTuple):
    """What one kind of contradiction takes of the text of a code object: bytes by how they are answered (``_REASONS``),
    ``places`` (section number, first and last offset), neighbors joined, of which the first are ``shown``."""

    object: int
    torn: bool
    unnamed: bool
    sizes: tuple[int, ...]
    places: int
    shown: list[tuple[int, int, int]]


def _kinds(texts: TextSections, found: Stretches) -> Iterator[_Kind]:
    """Object by object, what is torn first."""
    section = np.searchsorted(texts.base, found.start, side="right") - 1
    order = np.lexsort((found.unnamed, ~found.torn, texts.object[section]))
    section, (start, stop, reason, torn, unnamed) = section[order], (column[order] for column in found)
    code_object = texts.object[section]
    edges = runs(code_object, torn, unnamed)
    size = (stop - start).astype(np.int64)
    sums = [np.add.reduceat(np.where(reason == one, size, 0), edges).tolist() for one in _REASONS]
    new = np.append(True, (start[1:] != stop[:-1]) | (section[1:] != section[:-1]))
    new[edges] = True
    first = np.flatnonzero(new)
    last = np.append(first, len(new))[1:] - 1
    begin = np.searchsorted(first, edges)
    count = np.diff(begin, append=len(first))
    shown = np.flatnonzero(np.arange(len(first)) - np.repeat(begin, count) < MAX_PLACES)
    base = texts.base[section[first[shown]]]
    columns = (texts.number[section[first[shown]]], start[first[shown]] - base, stop[last[shown]] - base)
    places = zip(*(column.tolist() for column in columns), strict=True)
    groups = (
        *(column[edges].tolist() for column in (code_object, torn, unnamed)),
        zip(*sums, strict=True),
        count.tolist(),
    )
    for code_object_number, is_torn, is_unnamed, sizes, number in zip(*groups, strict=True):
        some = list(islice(places, min(number, MAX_PLACES)))
        yield _Kind(code_object_number, is_torn, is_unnamed, sizes, number, some)


def _note(found: _Kind, code: CodeObject) -> str:
    sizes = zip(found.sizes, _REASONS, strict=True)
    answered = ", ".join(f"{size} bytes {reason.name}" for size, reason in sizes if size)
    what = _TORN if found.torn else _UNNAMED if found.unnamed else _CALLS if _has_calls_in_rows(code) else _ROWS
    if what is _ROWS and leaves_out_calls(code):
        what = f"{_ROWS}, or {_UNTOLD}"
    cause = " (likely cause: Triton)" if found.unnamed else _cause(code)
    return f"{what}, in {_places(code, found)}; answered so: {answered}{cause}"


def _places(code: CodeObject, found: _Kind) -> str:
    """The first places by section and offset."""
    names = {each.index: each.name for each in code.sections}
    more = found.places - len(found.shown)
    shown = ", ".join(f"{names[number]}+{begin:#x}..{end:#x}" for number, begin, end in found.shown)
    return shown + (f" and {more} more" if more else "")


def _has_calls_in_rows(code: CodeObject) -> bool:
    """Whether inlined calls are in the line table, as NVIDIA's assembler writes them."""
    return code.vendor is Vendor.NVIDIA and not code.debug.has_units


def _cause(code: CodeObject) -> str:
    """Who writes such data, where that is known: docs/contradictions.md has what was measured."""
    if _has_calls_in_rows(code):
        return " (likely cause: NVIDIA's assembler, ptxas, or what wrote its PTX)"
    if code.vendor is not Vendor.INTEL:
        return ""
    version = code.facts.get("zebin_version")
    if version:
        return f" (likely cause: Intel's graphics compiler, writing zebin {version})"
    patch_tokens = code.relocation is RelocationScheme.IGC
    return f" (likely cause: Intel's graphics compiler{', generation 1 (patch tokens)' if patch_tokens else ''})"
