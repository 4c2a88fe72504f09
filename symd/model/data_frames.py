"""Answers, line tables and listings as tables: of pandas and Apache Arrow, with columns that have the names of the
published JSON, and small ones in HTML, for notebooks, in which every cell is escaped, because what they show comes from
strangers' files. The only module that imports pandas or pyarrow here, and not before somebody asks for a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from symd.errors import ToolMissing, extra_hint
from symd.model.answers import Answer, Answers, Frame, Locations, Reason, TextSection
from symd.model.columns import U32
from symd.model.debug_info import RowFlag
from symd.model.line_tables import LineTable, Listing

ROWS = 50
"""Rows that are shown of a table."""


def table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[object]], total: int | None = None) -> str:
    """A caption and the first rows; None is an empty cell. ``total`` is how many rows there are, where ``rows`` may
    have fewer."""
    shown = list(islice(rows, ROWS + 1))
    count = total if total is not None else len(shown)
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in shown[:ROWS])
    more = count - len(shown[:ROWS])
    rest = "" if more <= 0 else f"<p>and {f'{more:,}' if total is not None else 'more'}</p>"
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"
    )


def _frame_table(caption: str, frames: Sequence[Frame]) -> str:
    rows = (
        (
            number,
            each.function or each.linkage_name,
            each.file,
            each.line or None,
            each.column or None,
            "yes" if each.inlined else "",
        )
        for number, each in enumerate(frames)
    )
    return table(caption, ("", "function", "file", "line", "column", "inlined"), rows)


def _spelled(frames: Sequence[Frame]) -> tuple[str, str]:
    return (str(frames[0]) if frames else "", "; ".join(map(str, frames[1:])))


def _line_rows(lines: LineTable) -> Iterator[tuple[object, ...]]:
    for at in range(min(len(lines), ROWS + 1)):
        address = lines.text_sections[int(lines.text_section[at])].address + int(lines.offset[at])
        names = lines.strings[lines.kernel[at]], lines.strings[lines.file[at]]
        yield (f"{address:#x}", *names, lines.line[at], lines.column[at])


def _cell(value: object) -> str:
    return f"<td>{'' if value is None else escape(str(value))}</td>"


if TYPE_CHECKING:
    from pandas import DataFrame as DataFrame  # noqa: PLC0414 - for those who return one
    from pyarrow import Table

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
                found[name] = pd.Series(pd.arrays.IntegerArray(_whole(values), missing))
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


class DataTable:
    """A value as a table; ``frames``: with a frame a row, of answers."""

    def __init__(self, value: Frame | Answer | Answers | LineTable | Listing, *, frames: bool) -> None:
        self._value, self._frames = value, frames

    def to_pandas(self) -> DataFrame:
        """The answers, rows or instructions, all of them. Raises ToolMissing without pandas."""
        return self._columns().to_pandas()

    def to_arrow(self) -> ArrowTable:
        """The answers, rows or instructions, all of them. Raises ToolMissing without pyarrow."""
        return self._columns().to_arrow()

    def _columns(self) -> DataColumns:
        match self._value:
            case Answers():
                return _of_answers(self._value, frames=self._frames)
            case LineTable():
                return _of_line_table(self._value)
            case Listing():
                return _of_listing(self._value)
        raise TypeError(type(self._value).__name__)

    def html(self) -> str:
        """A table of the frames of an answer, or of the first answers, rows or instructions."""
        value = self._value
        if isinstance(value, Frame):
            return _frame_table("", (value,))
        if isinstance(value, Answer):
            return _frame_table(f"{value.reason.name} {value.place}".strip(), value.frames)
        if isinstance(value, Answers):
            rows = (
                (at, each.reason.name, each.place, *_spelled(each.frames)) for at, each in enumerate(value[: ROWS + 1])
            )
            caption = f"{len(value):,} answers{value.shares()}"
            return table(caption, ("", "reason", "place", "innermost", "inlined into"), rows, len(value))
        if isinstance(value, LineTable):
            caption = f"{value.path or 'line table'} for {value.target}"
            return table(caption, ("address", "kernel", "file", "line", "column"), _line_rows(value), len(value))
        shown = zip(value.answers[: ROWS + 1], value.text, strict=False)
        listed = ((each.kernel, each.place, text, each.frames[0] if each.frames else None) for each, text in shown)
        caption = value.problem or f"{value.path or 'listing'} for {value.target}, by {value.disassembler}"
        return table(caption, ("kernel", "place", "instruction", "line"), listed, len(value))


def _of_answers(answers: Answers, *, frames: bool = False) -> DataColumns:
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


def _of_line_table(table: LineTable) -> DataColumns:
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


def _of_listing(listing: Listing) -> DataColumns:
    """An instruction a row: its place, its bytes (``size``), its text, and its innermost frame."""
    number = np.arange(len(listing), dtype=np.uint32)
    own = {"size": DataColumn(listing.size.astype(np.uint32)), "text": DataColumn(number, list(listing.text))}
    return DataColumns(own | _of_answers(listing.answers))


def _whole(values: NDArray[np.generic]) -> NDArray[np.unsignedinteger]:
    return values.astype(np.uint64 if values.itemsize > 4 else np.uint32)


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
