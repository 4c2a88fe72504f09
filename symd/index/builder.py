"""Code objects and their debug information in, index columns out: row and scope boundaries of all objects merged into one
sorted array of range starts, each with its frame and position."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd.index.format import Column, compress, encode, encode_strings, narrow
from symd.index.functions import module_functions
from symd.index.interner import Interner
from symd.index.locations import located
from symd.index.module_tables import Indexed, Joined, Rows, joined
from symd.index.packing import FUNCTION_COLUMNS, pack_ranges, pack_table
from symd.index.starts import encode_starts
from symd.index.summary import pack
from symd.model.summaries import ModuleSummary

__all__ = ("Indexed", "build")


def build(objects: Sequence[Indexed], summary: ModuleSummary) -> bytes:
    """The index file of a module."""
    return encode(columns(objects, summary))


def columns(objects: Sequence[Indexed], summary: ModuleSummary) -> dict[str, Column]:
    """The columns of that file; docs/index-format.md says what each means."""
    strings = Interner()
    module = joined(objects, strings)
    found = located(module)
    numbers = {
        **_objects(objects, module, strings),
        **_texts(module),
        **_kernels(module),
        "file_object": module.files[0],
        "file_name": module.files[1],
        **{f"frame_{name}": column for name, column in found.frames.items()},
        **{f"owner_{name}": column for name, column in found.owners.items()},
    }
    texts = strings.values
    numbers["kernel_by_name"] = _by_name(numbers["kernel_name"], texts)
    result = {name: narrow(column) for name, column in numbers.items()}
    result |= {**encode_starts(found.start), **pack_ranges(found), **_functions(module)}
    result["row_data"] = _row_table(module.rows)
    result["string_ends"], result["string_data"] = encode_strings(texts)
    result["summary"] = compress(pack(summary))
    return result


def _objects(objects: Sequence[Indexed], module: Joined, strings: Interner) -> dict[str, Column]:
    codes = [item.code for item in objects]
    return {
        "object_path": strings.add_all([code.path for code in codes]),
        "object_target": strings.add_all([code.target or "" for code in codes]),
        "object_secondary": np.array([code.is_compiler_input for code in codes], np.uint8),
        "object_rows": module.rows.counts,
    }


def _texts(module: Joined) -> dict[str, Column]:
    texts = module.texts
    named = {"object": texts.object, "section": texts.name, "index": texts.number, "address": texts.address}
    return {f"place_{name}": column for name, column in (named | {"size": texts.size, "base": texts.base}).items()}


def _kernels(module: Joined) -> dict[str, Column]:
    """Those in text."""
    kernels = module.kernels
    known = np.flatnonzero(kernels.place >= 0)
    return {f"kernel_{name}": getattr(kernels, name)[known] for name in ("object", "name", "place", "offset", "size")}


def _by_name(names: Column, texts: Sequence[str]) -> Column:
    """Kernel numbers in the order of their names, so that one is found without reading all."""
    own = [texts[number] for number in names.tolist()]
    return np.array(sorted(range(len(own)), key=own.__getitem__), np.uint32)


def _functions(module: Joined) -> dict[str, Column]:
    found = module_functions(module)
    count = narrow(np.array([len(found["function_object"])]))
    table = pack_table([found[name] for name in FUNCTION_COLUMNS])
    return {"function_count": count, "function_data": np.frombuffer(table, np.uint8)}


def _row_table(rows: Rows) -> Column:
    place = np.broadcast_to(rows.place, len(rows.offset))
    table = pack_table((place, rows.offset, rows.file, rows.line, rows.column, rows.flags))
    return np.frombuffer(table, np.uint8)
