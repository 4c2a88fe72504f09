"""Index files whose checksum is right and whose numbers are not: what a defect of a process that builds indexes would leave.
They are refused as damaged when they are opened, or when what is packed is; no question follows a number into nowhere,
or in circles."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.core.index_lookup import COLUMN, HEADER
from symd.errors import DataLoss
from symd.index import Index
from symd.index.format import Column, decode, decompress
from symd.index.module import build_index
from symd.index.packing import PAGE_SHIFT
from symd.index.schema import SCHEMA, FunctionTable, RowTable
from symd.model.addresses import ByKernel, KernelOffset
from tests.builders.elf import AX, Section, Symbol, build_elf
from tests.builders.index_file import compress, encode, pack_table, with_fitting_checksums

SAMPLE = Path(__file__).parents[2] / "samples" / "kernels" / "bin" / "raycast" / "dg2-opt.dbg"


@pytest.fixture(scope="module")
def columns() -> Mapping[str, Column]:
    """Of a kernel with inlined calls."""
    stored = decode(build_index(SAMPLE.read_bytes(), Limits()))
    return {name: stored[name] for name in stored.keys()}  # noqa: SIM118 - it is no mapping


def with_column(columns: Mapping[str, Column], name: str, change: Callable[[Column], Column]) -> bytes:
    width = np.dtype(np.uint64) if SCHEMA[name].width == "narrowest" else columns[name].dtype
    return encode({**columns, name: change(columns[name].astype(np.uint64)).astype(width)})


def test_the_index_itself_is_whole(columns: Mapping[str, Column]) -> None:
    index = Index.open_checked(encode(columns))
    assert index.answer(ByKernel("raycast", KernelOffset(0x368)))
    assert index.rows.line.size
    assert index.functions.name.size


@pytest.mark.parametrize("name", [name for name, spec in SCHEMA.items() if spec.number_of])
def test_a_number_of_nothing_is_damage(columns: Mapping[str, Column], name: str) -> None:
    with pytest.raises(DataLoss, match=f"'{name}'"):
        Index.open_checked(with_column(columns, name, lambda column: np.full_like(column, 255)))


def test_an_owner_that_is_around_itself_is_damage(columns: Mapping[str, Column]) -> None:
    """Its frames would have no end."""
    count = len(columns["owner_parent"])
    for parents in (np.arange(count), np.roll(np.arange(count), -1)):
        with pytest.raises(DataLoss, match="around itself"):
            Index.open_checked(with_column(columns, "owner_parent", lambda _, parents=parents: parents))


@pytest.mark.parametrize("name", ["string_ends", "page_end"])
def test_an_end_outside_or_before_the_one_before_is_damage(columns: Mapping[str, Column], name: str) -> None:
    for change in (lambda column: column + 200, lambda column: np.append(column[:-1], 0)):
        if len(columns[name]) == 1 and not change(columns[name])[0]:
            continue  # one page, and nothing before it
        with pytest.raises(DataLoss):
            Index.open_checked(with_column(columns, name, change))


@pytest.mark.parametrize("name", ["start_rank", "start_base"])
def test_ranks_that_are_not_what_the_bits_say_are_damage(columns: Mapping[str, Column], name: str) -> None:
    with pytest.raises(DataLoss, match="starts"):
        Index.open_checked(with_column(columns, name, lambda column: column + 1))


def test_sorted_starts_that_do_not_grow_are_damage(columns: Mapping[str, Column]) -> None:
    none = {name: columns[name][:0] for name in ("start_bits", "start_rank", "start_base")}
    count = int(columns["range_count"][0])
    for starts, whole in ((np.arange(count), True), (np.zeros(count), False)):
        file = encode({**columns, **none, "start_sorted": starts.astype(np.uint8)})
        if whole:
            Index.open_checked(file)
            continue
        with pytest.raises(DataLoss, match="starts"):
            Index.open_checked(file)


@pytest.mark.parametrize(
    ("name", "fields", "field"),
    [("row_data", RowTable, "section"), ("row_data", RowTable, "file")]
    + [
        ("function_data", FunctionTable, each)
        for each in ("object", "name", "linkage_name", "owner", "symbol", "section")
    ],
)
def test_a_packed_table_that_numbers_nothing_is_damage(
    columns: Mapping[str, Column], name: str, fields: type[RowTable | FunctionTable], field: str
) -> None:
    one = fields(*(np.array([200 if each == field else 0], np.uint64) for each in fields._fields))
    counted = {"object_rows": np.ones(1, np.uint8), "function_count": np.ones(1, np.uint8)}
    assert len(columns["object_rows"]) == 1
    index = Index.open_checked(encode({**columns, **counted, name: np.frombuffer(pack_table(one), np.uint8)}))
    with pytest.raises(DataLoss, match="not there"):
        assert index.rows if name == "row_data" else index.functions


@pytest.mark.parametrize(("field", "value"), [("line", 1 << 32), ("column", 1 << 32), ("flags", 1 << 8)])
def test_a_row_of_larger_numbers_than_rows_have_is_damage(
    columns: Mapping[str, Column], field: str, value: int
) -> None:
    one = RowTable(*(np.array([value if each == field else 0], np.uint64) for each in RowTable._fields))
    file = encode(
        {**columns, "object_rows": np.ones(1, np.uint8), "row_data": np.frombuffer(pack_table(one), np.uint8)}
    )
    index = Index.open_checked(file)
    with pytest.raises(DataLoss, match="not there"):
        assert index.rows


def test_a_column_of_more_entries_than_the_file_has_bytes_is_damage(columns: Mapping[str, Column]) -> None:
    """One entry stands for all that are equal: a few bytes could tell of billions."""
    file = bytearray(encode(columns))
    for at in range(HEADER.size, HEADER.size + COLUMN.size * len(columns), COLUMN.size):
        name, kind, offset, _, _ = COLUMN.unpack_from(file, at)
        changed = bytearray(file)
        changed[at : at + COLUMN.size] = COLUMN.pack(name, kind, min(offset, len(file) - 8), len(file) + 1, 1)
        with pytest.raises(DataLoss, match="impossible size"):
            Index.open_checked(with_fitting_checksums(changed))


def test_more_ranges_than_starts_are_damage_before_there_is_room_for_them(columns: Mapping[str, Column]) -> None:
    """One entry may stand for all pages, of 4096 ranges each."""
    pages = len(encode(columns)) // 2
    stated = {
        "range_count": np.array([pages << PAGE_SHIFT], np.uint64),
        "page_frame": np.zeros(pages, np.uint8),
        "page_end": np.zeros(pages, np.uint8),
    }
    file = encode({**columns, **stated})
    tracemalloc.start()
    try:
        with pytest.raises(DataLoss, match="starts and ranges"):
            Index.open_checked(file)
        assert tracemalloc.get_traced_memory()[1] < 64 * len(file)
    finally:
        tracemalloc.stop()


def test_a_bit_behind_the_last_range_of_a_page_is_damage(columns: Mapping[str, Column]) -> None:
    """A page begins with a bit for each range, in whole bytes."""
    count = int(columns["range_count"][0])
    assert count % 8
    page = bytearray(decompress(columns["page_data"]))
    page[count >> 3] |= 0x80
    steps = int(columns["page_width"][0])
    end = (count + 7 >> 3) + steps * int.from_bytes(page[: count + 7 >> 3], "little").bit_count()
    page[end - steps : end - steps] = bytes(steps)  # the step of the run that the bit begins
    packed = compress(bytes(page))
    file = encode({**columns, "page_data": packed, "page_end": np.array([len(packed)], np.uint32)})
    with pytest.raises(DataLoss, match="not whole"):
        Index.open_checked(file).answer(ByKernel("raycast", KernelOffset(0x368)))


def test_the_word_of_the_header_that_says_nothing_is_zero(columns: Mapping[str, Column]) -> None:
    """It stands before what the checksum covers: any other byte of a file is known to have changed."""
    file = bytearray(encode(columns))
    for at in range(len(file)):
        file[at] ^= 0x40
        with pytest.raises(DataLoss):
            Index.open_checked(bytes(file))
        file[at] ^= 0x40


def test_strings_of_one_letter_are_read_one_by_one() -> None:
    """A column whose entries are equal is stored as one: so are the characters of such names."""
    image = build_elf(
        machine=224,
        osabi=64,
        type=3,
        sections=[Section("a", flags=AX, address=0x1000, data=bytes(64))],
        symbols=[Symbol("aaa", value=0x1000, size=64, section="a")],
    )
    index = Index(build_index(image, Limits()))
    stored = decode(encode({name: index.columns.stored[name] for name in SCHEMA} | _one_character()))
    assert stored.numbers("string_data").tolist() == [97, 97, 97]


def _one_character() -> dict[str, Column]:
    """Strings "" and "aaa"."""
    return {"string_ends": np.array([0, 3], np.uint8), "string_data": np.full(3, 97, np.uint8)}
