"""Code objects and their debug information in, index columns out: row and scope boundaries of all objects merged into
one sorted array of range starts, each with its frame and position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.index.contradiction_notes import noted
from symd.index.format import Column, compress, encode, encode_strings, narrow
from symd.index.functions import module_functions
from symd.index.interner import Interner
from symd.index.locations import ModuleRanges, module_ranges
from symd.index.module_tables import DecodedObject, ModuleTables, module_tables
from symd.index.packing import Unpacked, pack_ranges, pack_table, range_count
from symd.index.schema import FunctionTable, RowTable, check_names
from symd.index.starts import encode_starts
from symd.model.debug_info import RowFlag
from symd.model.summaries import ModuleSummary

__all__ = ("DecodedObject", "build", "build_unless_suspect", "build_unpacked")


def build(objects: Sequence[DecodedObject], summary: ModuleSummary) -> bytes:
    """The index file of a module."""
    strings = Interner()
    module = module_tables(objects, strings)
    return _encoded(columns(objects, summary, module, module_ranges(module), strings))


def build_unless_suspect(objects: Sequence[DecodedObject], summary: ModuleSummary) -> bytes | None:
    """The same of a part of the debug data; None where that seems to contradict itself, which only all of it decides."""
    strings = Interner()
    module = module_tables(objects, strings)
    found = module_ranges(module)
    return None if found.suspected else _encoded(columns(objects, summary, module, found, strings))


def build_unpacked(objects: Sequence[DecodedObject], summary: ModuleSummary) -> tuple[bytes, Unpacked]:
    """An index for a process that keeps it to itself: its file lacks what would be packed only to be opened again, which is beside it, and line rows,
    which no address asks for."""
    strings = Interner()
    module = module_tables(objects, strings)
    found = module_ranges(module)
    functions = FunctionTable(*(narrow(column.astype(np.uint64)) for column in module_functions(module)))
    written = columns(objects, summary, module, found, strings, is_packed=False)
    return encode(written), Unpacked(found, functions, noted(summary, objects, module.texts, found.stretches))


def _encoded(written: dict[str, Column]) -> bytes:
    check_names(written)
    return encode(written)


def columns(
    objects: Sequence[DecodedObject],
    summary: ModuleSummary,
    module: ModuleTables,
    found: ModuleRanges,
    strings: Interner,
    *,
    is_packed: bool = True,
) -> dict[str, Column]:
    """The columns of an index file; ``schema`` says what each means. Without packed ones as for ``build_unpacked``."""
    of_objects, kernels = object_columns(objects, module, strings), kernel_columns(module)
    texts = strings.values
    numbers = {
        **of_objects,
        **section_columns(module),
        **kernels,
        "kernel_by_name": in_order_of_names(kernels["kernel_name"], texts),
        "file_object": module.files[0],
        "file_name": module.files[1],
        **written_columns(found),
        **frame_columns(found),
        **owner_columns(found),
    }
    result = {name: narrow(column) for name, column in numbers.items()}
    packed = {**pack_ranges(found), **_packed_tables(module)} if is_packed else {"range_count": range_count(found)}
    result |= {**encode_starts([found.start]), **packed}
    result["string_ends"], result["string_data"] = encode_strings(texts)
    result["module_sha256"] = np.frombuffer(bytes.fromhex(summary.sha256), np.uint8)
    if is_packed:
        from symd.index.summary import pack  # noqa: PLC0415 - an index that nobody keeps needs no msgpack

        result["summary"] = compress(pack(noted(summary, objects, module.texts, found.stretches)))
    return result


def object_columns(objects: Sequence[DecodedObject], module: ModuleTables, strings: Interner) -> dict[str, Column]:
    codes = [item.code for item in objects]
    return {
        "object_path": strings.add_all([code.path for code in codes]),
        "object_target": strings.add_all([code.target or "" for code in codes]),
        "object_compiler_input": np.array([code.is_compiler_input for code in codes], np.uint8),
        "object_rows": _written_rows(module),
    }


def section_columns(module: ModuleTables) -> dict[str, Column]:
    texts = module.texts
    return {
        "section_object": texts.object,
        "section_name": texts.name,
        "section_number": texts.number,
        "section_address": texts.address,
        "section_size": texts.size,
        "section_base": texts.base,
    }


def kernel_columns(module: ModuleTables) -> dict[str, Column]:
    """Those in text."""
    kernels = module.kernels
    known = np.flatnonzero(kernels.section >= 0)
    return {
        "kernel_object": kernels.object[known],
        "kernel_name": kernels.name[known],
        "kernel_section": kernels.section[known],
        "kernel_offset": kernels.offset[known],
        "kernel_size": kernels.size[known],
    }


def in_order_of_names(name: Column, texts: Sequence[str]) -> Column:
    """Kernels' numbers in the order of their names, so that one is found without reading all. ``name`` has each one's
    number in ``texts``."""
    names = [texts[number] for number in name.tolist()]
    return np.array(sorted(range(len(names)), key=names.__getitem__), np.uint32)


def written_columns(found: ModuleRanges) -> dict[str, Column]:
    written: Sequence[Column] = found.written
    return {f"written_{name}": column for name, column in zip(found.written._fields, written, strict=True)}


def frame_columns(found: ModuleRanges) -> dict[str, Column]:
    return {f"frame_{name}": column for name, column in zip(found.frames._fields, found.frames, strict=True)}


def owner_columns(found: ModuleRanges) -> dict[str, Column]:
    return {f"owner_{name}": column for name, column in zip(found.owners._fields, found.owners, strict=True)}


def row_table(module: ModuleTables) -> RowTable:
    """The rows that line tables have; ranges follow from others too (``RowFlag.IMPLIED``)."""
    rows = module.rows
    section = np.broadcast_to(rows.section, len(rows.offset))
    table = RowTable(section, rows.offset, rows.file, rows.line, rows.column, rows.flags)
    implied = (rows.flags & RowFlag.IMPLIED) != 0
    return RowTable(*(column[~implied] for column in table)) if implied.any() else table


def _written_rows(module: ModuleTables) -> Column:
    """How many of these each object has."""
    implied = (module.rows.flags & RowFlag.IMPLIED) != 0
    if not implied.any():
        return module.rows.counts
    before = np.append(0, np.cumsum(~implied))
    ends = np.cumsum(module.rows.counts)
    counts: Column = before[ends] - before[ends - module.rows.counts]
    return counts


def _packed_tables(module: ModuleTables) -> dict[str, Column]:
    functions = module_functions(module)
    return {
        "function_count": narrow(np.array([len(functions.object)])),
        "function_data": pack_table(functions),
        "row_data": pack_table(row_table(module)),
    }
