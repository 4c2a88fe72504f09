"""Some code objects of a module, indexed by themselves: everything that an index file says of them, kept until what it says of the
others is there.

Nothing of one code object reaches into another's text, so that what is answered there follows from that object. Only
numbers depend on the others, and where a portion stands alone they are the module's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from symd.index.compressed_columns import CompressedColumn, Differences, Keeper
from symd.index.contradiction_notes import noted
from symd.index.format import Column, narrow
from symd.index.functions import module_functions
from symd.index.interner import Interner
from symd.index.locations import ModuleRanges, module_ranges
from symd.index.module_tables import DecodedObject, ModuleTables, RowTables
from symd.index.range_pages import KeptRanges, kept_ranges
from symd.index.schema import RowTable
from symd.index.summary import pack_object
from symd.model.debug_info import RowFlag
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary


class PortionExtent(NamedTuple):
    """How much of everything a portion has, or stands before it. ``text`` counts bytes."""

    objects: int = 0
    sections: int = 0
    text: int = 0
    scopes: int = 0
    symbols: int = 0
    ranges: int = 0

    def and_then(self, further: PortionExtent) -> PortionExtent:
        return PortionExtent(*(own + more for own, more in zip(self, further, strict=True)))


class Portion(NamedTuple):
    """A part of an index file: what it says of some code objects of a module. ``columns`` are those of the index
    file, by name, that have the portions' end to end. ``layers`` are those of owners and frames, of which first all
    portions' first parts follow each other in the file, then their second ones: nobody's, those of scopes, and those
    of symbols; where a portion stands alone they are in one part. ``functions`` are the columns of a
    ``FunctionTable``, ``rows`` those of a ``RowTable``. Each of ``summaries`` is what ``summary.pack_object`` makes
    of an object; ``listed`` counts the kernels in all of them. ``suspected`` as ``Contradictions`` has it."""

    extent: PortionExtent
    columns: Mapping[str, CompressedColumn]
    layers: Mapping[str, Sequence[CompressedColumn]]
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
    layers = {**named("frame", found.frames), **named("owner", found.owners)}
    return Portion(
        _extent(objects, module, found),
        {name: keeper.keep(narrow(column)) for name, column in columns.items()},
        {name: (keeper.keep(narrow(column)),) for name, column in layers.items()},
        kept_ranges(found, keeper),
        [Differences(column, keeper) for column in module_functions(module)],
        [Differences(column, keeper) for column in _row_table(module.rows)],
        [keeper.keep(np.frombuffer(pack_object(each), np.uint8)) for each in described.objects],
        sum(len(each.kernels) for each in described.objects),
        found.suspected,
    )


def _extent(objects: Sequence[DecodedObject], module: ModuleTables, found: ModuleRanges) -> PortionExtent:
    sizes = module.texts.size
    scopes, symbols = len(module.scopes.parent), len(module.symbols.name)
    return PortionExtent(len(objects), len(sizes), int(sizes.sum()), scopes, symbols, len(found.start))


def named(kind: str, table: NamedTuple) -> dict[str, Column]:
    """The columns of a table, as the index file names them."""
    return {f"{kind}_{name}": column for name, column in table._asdict().items()}


def _columns(objects: Sequence[DecodedObject], module: ModuleTables, strings: Interner) -> dict[str, Column]:
    """Of objects, text sections, the kernels in these, and files."""
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
