"""symd's answers in the shapes of tests.agreement.llvm, so that the two compare with ==."""

from __future__ import annotations

import numpy as np

from symd.config import Limits
from symd.index import Index
from symd.index.module import build_index
from symd.model.answers import Answer
from symd.model.debug_info import RowFlag
from symd.model.line_tables import LineTable
from symd.query.line_tables import lines
from symd.query.symbolize import symbolize_column
from tests.agreement.llvm import Frame, Row

_FLAGS = {
    RowFlag.IS_STMT: "is_stmt",
    RowFlag.BASIC_BLOCK: "basic_block",
    RowFlag.END_SEQUENCE: "end_sequence",
    RowFlag.PROLOGUE_END: "prologue_end",
    RowFlag.EPILOGUE_BEGIN: "epilogue_begin",
}


def index(data: bytes) -> Index:
    return Index(build_index(data, Limits()))


def rows_by_kernel(found: Index, path: str | None = None) -> dict[str, list[Row]]:
    """Kernel name to its rows, addresses counted from the kernel's section."""
    result: dict[str, list[Row]] = {}
    for table in lines(found, path):
        for number in range(len(table)):
            result.setdefault(table.strings[table.kernel[number]], []).append(_row(table, number))
    return result


def _row(table: LineTable, number: int) -> Row:
    path = table.strings[table.file[number]]
    flags = frozenset(name for flag, name in _FLAGS.items() if table.flags[number] & flag)
    name = path.rsplit("/", 1)[-1]
    return Row(int(table.offset[number]), int(table.line[number]), int(table.column[number]), name, flags)


def answers(found: Index, kernel: str, offsets: list[int]) -> list[Answer]:
    return list(symbolize_column(found, np.array(offsets, np.uint64), kernel=kernel))


def written(found: Index, kernel: str, offsets: list[int]) -> list[Answer]:
    """What rows and scopes say, also where they contradict each other."""
    return answers(found.view(as_written=True), kernel, offsets)


def frames(answer: Answer) -> list[Frame]:
    """The frames in LLVM's words: it knows functions by their linkage names."""
    if not answer.frames:
        return [("", "", 0, 0)]
    return [(f.linkage_name or f.function or "", f.file or "", f.line, f.column) for f in answer.frames]
