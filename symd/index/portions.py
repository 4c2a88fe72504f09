"""Some code objects of a large module, indexed by themselves: everything that an index file says of them, kept until what
it says of the others is there.

Nothing of one code object reaches into another's text, so that what is answered there follows from that object. Only
numbers depend on the others. What stands before a portion is known when it is made, and so are all numbers but three
kinds: those of strings, of function symbols, whose owners come after all scopes, and of frames."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from symd.index.builder import (
    frame_columns,
    kernel_columns,
    object_columns,
    owner_columns,
    row_table,
    section_columns,
    written_columns,
)
from symd.index.contradiction_notes import noted
from symd.index.format import Column
from symd.index.functions import module_functions
from symd.index.interner import PortionStrings
from symd.index.kept import Arena, Kept, KeptDifferences
from symd.index.locations import NO_LINE, ModuleRanges, lowest_lines, module_ranges
from symd.index.module_tables import DecodedObject, ModuleTables
from symd.index.schema import SCHEMA, FunctionTable
from symd.index.summary import pack_object
from symd.model.columns import U32
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary


class Extent(NamedTuple):
    """How much of everything a portion has, or stands before it. ``text`` counts bytes."""

    objects: int = 0
    sections: int = 0
    text: int = 0
    scopes: int = 0
    symbols: int = 0
    ranges: int = 0

    def and_then(self, further: Extent) -> Extent:
        return Extent(*(own + more for own, more in zip(self, further, strict=True)))


class KeptRanges(NamedTuple):
    """``start`` are text positions of the module, ``frame`` numbers of the portion's frames, each of which holds for so many
    ranges as ``length`` says. ``written`` has the columns of that name."""

    start: KeptDifferences
    line: Kept
    column: Kept
    reason: Kept
    frame: Kept
    length: Kept
    written: Mapping[str, Column]


class Portion(NamedTuple):
    """``columns`` are those of objects, sections, kernels and files, by name, ``owners`` those of owners, of scopes and of
    symbols apart, and ``frames`` those of frames. ``lowest`` is one less than the lowest line of each frame of nobody's
    code, of which there are the first; NO_LINE where none has one. Owners are numbered through the portion but in
    ``owners``. ``functions`` are the columns of a ``FunctionTable``, ``rows`` those of a ``RowTable`` but for ``row_file``. Each of
    ``summaries`` is what ``summary.pack_object`` makes of an object; ``listed`` counts the kernels in all of them."""

    before: Extent
    extent: Extent
    columns: Mapping[str, Kept]
    owners: Mapping[str, tuple[Kept, Kept]]
    frames: Mapping[str, Kept]
    lowest: U32
    ranges: KeptRanges
    functions: Sequence[Kept]
    rows: Mapping[str, KeptDifferences]
    row_file: Kept
    summaries: Sequence[Kept]
    listed: int


def portion(
    objects: Sequence[DecodedObject],
    module: ModuleTables,
    summaries: Sequence[ObjectSummary],
    strings: PortionStrings,
    before: Extent,
    arena: Arena,
) -> Portion:
    """Those of ``objects``, whose tables are ``module``."""
    found = module_ranges(module)
    columns = {
        **object_columns(objects, module, strings),
        **section_columns(module),
        **kernel_columns(module),
        "file_object": module.files[0],
        "file_name": module.files[1],
    }
    frames = frame_columns(found)
    described = noted(ModuleSummary(Digest(""), 0, "", tuple(summaries)), objects, module.texts, found.stretches)
    rows = row_table(module)._asdict()
    rows["section"] = rows["section"] + before.sections
    row_file = rows.pop("file")
    return Portion(
        before,
        _extent(objects, module, found),
        {name: Kept(_moved(name, column, before), arena) for name, column in columns.items()},
        _owners(found, len(module.scopes.parent), before, arena),
        {name: Kept(column, arena) for name, column in frames.items()},
        _lowest(found, int(np.count_nonzero(found.frames.owner == 0))),
        _ranges(found, before, arena),
        [Kept(column, arena) for column in _functions(module_functions(module), before)],
        {name: KeptDifferences(column, arena) for name, column in rows.items()},
        Kept(row_file, arena),
        [Kept(np.frombuffer(pack_object(each), np.uint8), arena) for each in described.objects],
        sum(len(each.kernels) for each in described.objects),
    )


def _extent(objects: Sequence[DecodedObject], module: ModuleTables, found: ModuleRanges) -> Extent:
    sizes = module.texts.size
    return Extent(
        len(objects),
        len(sizes),
        int(sizes.sum()),
        len(module.scopes.parent),
        len(module.symbols.name),
        len(found.start),
    )


def _moved(name: str, column: Column, before: Extent) -> Column:
    """A column of numbers of objects, sections or text positions, counted through the module."""
    if name == "section_base":
        return column + np.uint64(before.text)
    by = {"code object": before.objects, "text section": before.sections}.get(SCHEMA[name].number_of, 0)
    return column + np.uint64(by) if by else column


def _owners(found: ModuleRanges, scopes: int, before: Extent, arena: Arena) -> dict[str, tuple[Kept, Kept]]:
    owners = owner_columns(found)
    parent = owners["owner_parent"].astype(np.int64)
    owners["owner_parent"] = np.where(parent > 0, parent + before.scopes, 0)
    return {
        name: (Kept(column[1 : 1 + scopes], arena), Kept(column[1 + scopes :], arena))
        for name, column in owners.items()
    }


def _lowest(found: ModuleRanges, frames: int) -> U32:
    lowest = np.full(frames, NO_LINE, np.uint32)
    of_runs = found.run_frame, lowest_lines(found.line, found.run)
    for frame, line in (of_runs, (found.written.frame, found.written.line - np.uint32(1))):
        at = np.flatnonzero(frame < frames)
        np.minimum.at(lowest, frame[at], line[at])
    return lowest


def _ranges(found: ModuleRanges, before: Extent, arena: Arena) -> KeptRanges:
    return KeptRanges(
        KeptDifferences(found.start, arena, before.text),
        Kept(found.line, arena),
        Kept(found.column, arena),
        Kept(found.reason, arena),
        Kept(found.run_frame, arena),
        Kept(np.diff(found.run, append=len(found.start)), arena),
        written_columns(found),
    )


def _functions(table: FunctionTable, before: Extent) -> FunctionTable:
    section = table.section.astype(np.int64)
    return table._replace(
        object=table.object + before.objects, section=np.where(section > 0, section + before.sections, 0)
    )
