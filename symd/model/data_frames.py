"""Answers, line tables and listings as tables of pandas and Apache Arrow, with columns that have the names of the
published JSON. The only module that imports pandas or pyarrow here, and not before somebody asks for a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from symd.errors import ToolMissing, extra_hint
from symd.model.columns import U32
from symd.model.debug_info import RowFlag
from symd.model.reasons import Reason

if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame  # noqa: PLC0414 - for those who return one
    from pyarrow import Table

    from symd.model.answers import Answers, Locations, TextSection
    from symd.model.line_tables import LineTable, Listing

    ArrowTable: TypeAlias = Table


class DataColumn(NamedTuple):
    """A column of a table: ``numbers``, or with ``texts`` the numbers of texts among these. Where ``missing`` holds
    there is no value."""

    numbers: NDArray[np.generic]
    texts: Sequence[str] | None = None
    missing: NDArray[np.bool_] | None = None


class DataColumns(dict[str, DataColumn]):
    """Equally long columns by name, in order."""

    def to_pandas(self) -> DataFrame:
        """Texts are categories, numbers without a value NA. Raises ToolMissing without pandas."""
        try:
            import pandas as pd  # noqa: PLC0415 - 226 ms: an extra
        except ModuleNotFoundError:
            raise _not_installed("pandas") from None
        found = {}
        for name, (values, texts, missing) in self.items():
            if texts is not None:
                codes, categories = _used(values, texts, missing, absent=-1)
                found[name] = pd.Series(pd.Categorical.from_codes(codes, pd.Index(categories, dtype=str)))
            elif missing is not None:
                whole: NDArray[np.unsignedinteger] = values.astype(np.uint64 if values.itemsize > 4 else np.uint32)
                found[name] = pd.Series(pd.arrays.IntegerArray(whole, missing))
            else:
                found[name] = pd.Series(values)
        return pd.DataFrame(found)

    def to_arrow(self) -> ArrowTable:
        """Texts are dictionaries, numbers without a value null. Raises ToolMissing without pyarrow."""
        try:
            import pyarrow as pa  # noqa: PLC0415 - 26 ms: an extra
        except ModuleNotFoundError:
            raise _not_installed("pyarrow") from None
        found = {}
        for name, (values, texts, missing) in self.items():
            if texts is None:
                found[name] = pa.array(values, mask=missing)
            else:
                codes, categories = _used(values, texts, missing, absent=0)
                numbers = pa.array(codes, mask=missing)
                found[name] = pa.DictionaryArray.from_arrays(numbers, pa.array(categories, pa.string()))
        return pa.table(found)


def answer_columns(answers: Answers, *, frames: bool = False) -> DataColumns:
    """An answer a row, with its innermost frame and the number of its frames (``depth``); or a frame a row, innermost
    first, with the number of its ``answer`` and its ``level`` (0: innermost)."""
    table, location = answers.locations, answers.location
    if not frames:
        depth = {"depth": DataColumn(_depths(table)[location])}
        return DataColumns(_places(answers) | _frames(table, location) | depth)
    answer, level, location = _every_frame(table, location)
    places = {name: _at(column, answer) for name, column in _places(answers).items()}
    numbers = {"answer": DataColumn(answer), "level": DataColumn(level)}
    return DataColumns(numbers | places | _frames(table, location))


def line_table_columns(table: LineTable) -> DataColumns:
    """A row of the line table a row."""
    sections = table.text_sections
    count = len(table)
    base = np.array([each.address for each in sections], np.uint64)[table.text_section] if count else table.offset
    columns = {
        "object": DataColumn(np.zeros(count, np.uint32), [table.path]),
        "target": DataColumn(np.zeros(count, np.uint32), [table.target or ""], np.full(count, table.target is None)),
        **_sections(sections, table.text_section, np.zeros(count, np.bool_)),
        "section_offset": DataColumn(table.offset.astype(np.uint64)),
        "address": DataColumn(base + table.offset),
        "kernel": _texts(table.strings, table.kernel),
        "function": _texts(table.strings, table.function),
        "file": _texts(table.strings, table.file),
        "line": DataColumn(table.line.astype(np.uint32)),
        "column": DataColumn(table.column.astype(np.uint32)),
        "is_stmt": DataColumn((table.flags & RowFlag.IS_STMT) != 0),
        "end_sequence": DataColumn((table.flags & RowFlag.END_SEQUENCE) != 0),
    }
    return DataColumns(columns if table.text is None else {**columns, "text": _texts(table.strings, table.text)})


def listing_columns(listing: Listing) -> DataColumns:
    """An instruction a row: its place, its bytes (``size``), its text, and its innermost frame."""
    number = np.arange(len(listing), dtype=np.uint32)
    own = {"size": DataColumn(listing.size.astype(np.uint32)), "text": DataColumn(number, list(listing.text))}
    return DataColumns(own | answer_columns(listing.answers))


def _not_installed(package: str) -> ToolMissing:
    return ToolMissing(f"{package} is not installed here", where="symd-gpu[data]", hint=extra_hint("data"))


def _used(
    values: NDArray[np.generic], texts: Sequence[str], missing: NDArray[np.bool_] | None, *, absent: int
) -> tuple[NDArray[np.int32], list[str]]:
    """(the numbers of the texts that are used, ``absent`` where there is none; these texts, each once)."""
    present = values if missing is None else values[~missing]
    used, codes = np.unique(present, return_inverse=True)
    categories: dict[str, int] = {}
    same = np.array([categories.setdefault(texts[number], len(categories)) for number in used.tolist()], np.int32)
    found = np.full(len(values), absent, np.int32)
    found[slice(None) if missing is None else ~missing] = same[codes] if len(same) else []
    return found, list(categories)


def _places(answers: Answers) -> dict[str, DataColumn]:
    """What answers say besides frames."""
    number, nowhere = answers.location, answers.text_section == 0
    sections: list[TextSection] = list(answers.text_sections)
    section = np.where(nowhere, 0, answers.text_section - np.uint32(1)).astype(np.uint32)
    base = np.array([each.address for each in sections] or [0], np.uint64)[section]
    reasons = [""] * (max(Reason) + 1)
    for reason in Reason:
        reasons[reason] = reason.name
    return {
        "reason": DataColumn(answers.locations.reason[number], reasons),
        "kernel": _texts(answers.locations.strings, answers.locations.kernel[number]),
        **_sections(sections, section, nowhere),
        "section_offset": DataColumn(answers.offset.astype(np.uint64), missing=nowhere),
        "address": DataColumn(base + answers.offset, missing=nowhere),
    }


def _sections(sections: Sequence[TextSection], section: U32, nowhere: NDArray[np.bool_]) -> dict[str, DataColumn]:
    """The code object and the section of each place."""
    nameless = np.array([each.section is None for each in sections] or [True], np.bool_)[section]
    index = np.array([each.section_index for each in sections] or [0], np.uint32)[section]
    return {
        "object": DataColumn(section, [each.path for each in sections], nowhere),
        "section": DataColumn(section, [each.section or "" for each in sections], nowhere | nameless),
        "section_index": DataColumn(index, missing=nowhere),
    }


def _frames(table: Locations, location: U32) -> dict[str, DataColumn]:
    """The frame of each location; nothing where a location stands for a reason alone."""
    known = (table.function[location] != 0) | (table.file[location] != 0)
    return {
        "function": _texts(table.strings, table.function[location]),
        "linkage_name": _texts(table.strings, table.linkage_name[location]),
        "file": _texts(table.strings, table.file[location]),
        "line": DataColumn(table.line[location].astype(np.uint32), missing=~known),
        "column": DataColumn(table.column[location].astype(np.uint32), missing=~known),
        "inlined": DataColumn(table.inlined[location] != 0),
    }


def _depths(table: Locations) -> U32:
    """The number of frames of each location of a table."""
    depth = np.zeros(len(table), np.uint32)
    at = np.flatnonzero((table.function != 0) | (table.file != 0)).astype(np.uint32)
    outer = at
    while len(outer):
        depth[at] += np.uint32(1)
        outer = table.parent[outer]
        at, outer = at[outer != 0], outer[outer != 0]
    return depth


def _every_frame(table: Locations, location: U32) -> tuple[U32, U32, U32]:
    """(number of the answer, level, location) of every frame of every answer."""
    depth = _depths(table)[location]
    answer = np.repeat(np.arange(len(location), dtype=np.uint32), depth)
    first = np.repeat(np.cumsum(depth, dtype=np.int64) - depth, depth)
    level = (np.arange(len(answer)) - first).astype(np.uint32)
    at = location[answer]
    for outer in range(1, int(depth.max(initial=0))):
        at = np.where(level >= outer, table.parent[at], at)
    return answer, level, at.astype(np.uint32)


def _texts(strings: Sequence[str], numbers: U32) -> DataColumn:
    """String 0 is "absent"."""
    return DataColumn(numbers, strings, numbers == 0)


def _at(column: DataColumn, rows: U32) -> DataColumn:
    return DataColumn(column.numbers[rows], column.texts, None if column.missing is None else column.missing[rows])
