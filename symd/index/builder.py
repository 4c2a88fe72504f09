"""Code objects and their debug information in, index columns out: row and scope boundaries of all objects merged into
one sorted array of range starts, each with its frame and position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.index.format import Column, compress, encode, encode_strings, narrow
from symd.index.functions import module_functions
from symd.index.interner import Interner
from symd.index.locations import module_ranges
from symd.index.module_tables import DecodedObject, ModuleTables, module_tables
from symd.index.packing import pack_ranges, pack_table
from symd.index.schema import RowTable, check_names
from symd.index.starts import encode_starts
from symd.index.summary import pack
from symd.model.summaries import ModuleSummary

__all__ = ("DecodedObject", "build")


def build(objects: Sequence[DecodedObject], summary: ModuleSummary) -> bytes:
    """The index file of a module."""
    written = columns(objects, summary)
    check_names(written)
    return encode(written)


def columns(objects: Sequence[DecodedObject], summary: ModuleSummary) -> dict[str, Column]:
    """The columns of that file; ``schema`` says what each means."""
    strings = Interner()
    module = module_tables(objects, strings)
    found = module_ranges(module)
    of_objects = _objects(objects, module, strings)
    texts = strings.values
    numbers = {
        **of_objects,
        **_text_sections(module),
        **_kernels(module, texts),
        "file_object": module.files[0],
        "file_name": module.files[1],
        "frame_owner": found.frames.owner,
        "frame_kernel": found.frames.kernel,
        "frame_file": found.frames.file,
        "frame_line": found.frames.line,
        "owner_name": found.owners.name,
        "owner_linkage_name": found.owners.linkage_name,
        "owner_inlined": found.owners.inlined,
        "owner_parent": found.owners.parent,
        "owner_file": found.owners.file,
        "owner_line": found.owners.line,
        "owner_column": found.owners.column,
    }
    result = {name: narrow(column) for name, column in numbers.items()}
    result |= {**encode_starts(found.start), **pack_ranges(found), **_packed_tables(module)}
    result["string_ends"], result["string_data"] = encode_strings(texts)
    result["module_sha256"] = np.frombuffer(bytes.fromhex(summary.sha256), np.uint8)
    result["summary"] = compress(pack(summary))
    return result


def _objects(objects: Sequence[DecodedObject], module: ModuleTables, strings: Interner) -> dict[str, Column]:
    codes = [item.code for item in objects]
    return {
        "object_path": strings.add_all([code.path for code in codes]),
        "object_target": strings.add_all([code.target or "" for code in codes]),
        "object_compiler_input": np.array([code.is_compiler_input for code in codes], np.uint8),
        "object_rows": module.rows.counts,
    }


def _text_sections(module: ModuleTables) -> dict[str, Column]:
    texts = module.texts
    return {
        "section_object": texts.object,
        "section_name": texts.name,
        "section_number": texts.number,
        "section_address": texts.address,
        "section_size": texts.size,
        "section_base": texts.base,
    }


def _kernels(module: ModuleTables, texts: Sequence[str]) -> dict[str, Column]:
    """Those in text, and their numbers in the order of their names, so that one is found without reading all."""
    kernels = module.kernels
    known = np.flatnonzero(kernels.section >= 0)
    names = [texts[number] for number in kernels.name[known].tolist()]
    return {
        "kernel_object": kernels.object[known],
        "kernel_name": kernels.name[known],
        "kernel_section": kernels.section[known],
        "kernel_offset": kernels.offset[known],
        "kernel_size": kernels.size[known],
        "kernel_by_name": np.array(sorted(range(len(names)), key=names.__getitem__), np.uint32),
    }


def _packed_tables(module: ModuleTables) -> dict[str, Column]:
    functions, rows = module_functions(module), module.rows
    section = np.broadcast_to(rows.section, len(rows.offset))
    row_table = RowTable(section, rows.offset, rows.file, rows.line, rows.column, rows.flags)
    return {
        "function_count": narrow(np.array([len(functions.object)])),
        "function_data": np.frombuffer(pack_table(functions), np.uint8),
        "row_data": np.frombuffer(pack_table(row_table), np.uint8),
    }
