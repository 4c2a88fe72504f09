"""What a builder writes, what an opened file is checked for and what docs/index-format.md lists are one and the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.errors import DataLoss
from symd.index import VERSION, Index
from symd.index.format import decode
from symd.index.module import build_index
from symd.index.schema import SCHEMA, FunctionTable, LocationTable, RowTable, check_names
from symd.model.answers import Reason
from tests.builders.index_file import encode
from tests.query.small import Object, index

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "index-format.md").read_text()
SAMPLES = [
    ROOT / "samples" / name
    for name in (
        "kernels/bin/raycast/dg2-opt.dbg",
        "amdgpu/bin/v5-gfx90a.co",
        "cuda/bin/program",
        "spirv/bin/inline.O2.none.spv",
    )
]
BYTES = {"u8": 1, "u16": 2, "u64": 8}


def test_the_page_says_why_there_is_each_version() -> None:
    table = PAGE[PAGE.index("\n## Versions") :]
    assert [int(number) for number in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == [*range(1, VERSION + 1)]


def built(path: Path) -> bytes:
    return build_index(path.read_bytes(), Limits())


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_file_has_the_columns_of_the_schema_as_wide_and_as_long_as_it_says(path: Path) -> None:
    columns = dict(decode(built(path)))
    assert set(columns) == set(SCHEMA)
    counts: dict[str, set[int]] = {}
    for name, column in columns.items():
        spec = SCHEMA[name]
        top = int(column.max(initial=0))
        narrowest = next(size for size in (1, 2, 4, 8) if top < 1 << 8 * size)
        assert column.dtype.itemsize == BYTES.get(spec.width, narrowest), name
        counts.setdefault(spec.entries, set()).add(len(column))
    assert counts["index"] == {1}
    assert all(len(each) == 1 for what, each in counts.items() if what != "byte")
    assert max(len(column) for column in columns.values()) > 1


def test_the_page_has_a_line_for_each_column_and_no_other() -> None:
    listed = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (\w+) \| (.+) \|$", PAGE, re.MULTILINE)
    assert listed == [(name, each.entries, each.width, each.meaning) for name, each in SCHEMA.items()]


@pytest.mark.parametrize("table", [RowTable, FunctionTable, LocationTable])
def test_the_page_lists_the_columns_of_the_tables_in_their_order(table: type[RowTable]) -> None:
    (line,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{table.__name__}`")]
    assert tuple(re.findall(r"`(\w+)`", line.split("|")[3])) == table._fields


def test_no_column_is_named_from_pieces() -> None:
    sources = [path.read_text() for room in ("index", "query") for path in (ROOT / "symd" / room).glob("*.py")]
    assert len(sources) > 10
    assert not [hit for text in sources for hit in re.findall(r"(?:columns|numbers)\w*[\[(]f\"[^\"]*\"", text)]


class _Twice(dict[str, np.ndarray]):
    """Columns, one of them once more at the end, with nothing in it."""

    def __len__(self) -> int:
        return super().__len__() + 1

    def items(self):
        return [*super().items(), ("frame_owner", np.zeros(0, np.uint8))]


def test_a_column_that_is_there_twice_is_refused() -> None:
    """What is checked by name would be one, and what is read the other."""
    with pytest.raises(DataLoss, match="twice"):
        Index.open_checked(encode(_Twice(decode(built(SAMPLES[0])))))


def test_columns_that_are_missing_or_unknown_are_refused() -> None:
    for names in (set(SCHEMA) - {"row_data"}, {*SCHEMA, "row_colour"}):
        with pytest.raises(DataLoss, match="row_"):
            check_names(names)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("owner_line", np.zeros(1, np.uint8)),  # other columns have more entries for owners
        ("range_count", np.zeros(2, np.uint8)),
        ("page_width", np.ones(4, np.uint8)),
        ("start_rank", np.zeros(0, np.uint8)),
    ],
)
def test_a_file_that_is_whole_and_contradicts_the_schema_is_refused(name: str, column: np.ndarray) -> None:
    columns = dict(decode(built(SAMPLES[0])))
    Index.open_checked(encode(columns))
    with pytest.raises(DataLoss, match=name):
        Index.open_checked(encode(columns | {name: column}))


def test_text_that_does_not_begin_where_the_text_before_it_ends_is_refused() -> None:
    """One way to an answer counts text positions in one section without its base, the others with it."""
    columns = dict(decode(built(SAMPLES[0])))
    assert not columns["section_base"][0]
    for wrong in (columns["section_base"] + 1, columns["section_base"] + columns["section_size"]):
        with pytest.raises(DataLoss, match="where the one before it ends"):
            Index.open_checked(encode(columns | {"section_base": wrong}))


def test_text_positions_that_wrap_are_refused() -> None:
    first, second = ((Object(path, size=(1 << 64) - 1)) for path in "ab")
    with pytest.raises(DataLoss, match="where the one before it ends"):
        index(first, second).columns.check()


def test_a_string_0_with_letters_is_refused() -> None:
    """It stands for "none": one way to an answer reads it, and another does not."""
    columns = dict(decode(built(SAMPLES[0])))
    ends = columns["string_ends"].copy()
    assert ends[0] == 0 < ends[1]
    ends[0] = 1
    with pytest.raises(DataLoss, match="string 0"):
        Index.open_checked(encode(columns | {"string_ends": ends}))


def test_a_reason_as_written_that_no_index_has_is_refused() -> None:
    columns = dict(decode(built(ROOT / "samples" / "kernels/bin/bodies/dg2-O0.dbg")))
    assert len(columns["written_reason"])
    for wrong in (0, 15, Reason.UNRECOGNIZED):
        with pytest.raises(DataLoss, match="for no reason"):
            Index.open_checked(encode(columns | {"written_reason": np.full_like(columns["written_reason"], wrong)}))
