"""The index of a large module, made of some of its code objects at a time, says what that of all at once says."""

from __future__ import annotations

import gc
import hashlib
import io
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from symd.config import Limits
from symd.debuginfo import reading
from symd.errors import LimitExceeded, SymdError
from symd.formats.containers import ContainerUnpacker
from symd.index import Index, builder, packing
from symd.index import format as index_format
from symd.index import summary as index_summary
from symd.index.builder import ColumnFile
from symd.index.format import Compressor, decode, decompress, narrow
from symd.index.module import build_index, write_index_in_turn
from symd.index.packing import Arena, Differences, Keeper, packed_table, unpack_table
from symd.index.schema import SCHEMA
from symd.model.answers import Answer
from symd.model.identities import Digest
from symd.query.symbolize import symbolize_column
from tests.builders.amdgpu_bundle import bundle
from tests.builders.index_file import encode, pack_table

SAMPLES = Path(__file__).parents[2] / "samples"
EVERY = sorted(path for path in SAMPLES.glob("*/bin/**/*") if path.is_file())
MANY = bundle(40, functions=5, rows=24)


def in_turn(data: bytes, limits: Limits | None = None) -> bytes:
    file = io.BytesIO()
    size = write_index_in_turn(file, data, Digest(hashlib.sha256(data).hexdigest()), limits or Limits())
    assert size == len(file.getvalue())
    return file.getvalue()


def different(one: bytes, other: bytes) -> list[str]:
    """The columns in which two index files differ."""
    first, second = decode(one), decode(other)
    return [name for name in SCHEMA if first[name].tobytes() != second[name].tobytes()]


def said(file: bytes) -> list[Any]:
    """What an index says, in words and not in numbers of strings, frames and owners."""
    index = Index.open_checked(file)
    columns, functions, rows = index.columns, index.functions, index.rows
    locations = [(answer.reason, answer.kernel, answer.frames) for answer in answers_of_ranges(index)]
    files = zip(columns.file_object.tolist(), texts(index, columns.file_name), strict=True)
    linkage = zip(texts(index, functions.name), texts(index, functions.linkage_name), strict=True)
    places = (functions.object, functions.section, functions.offset, functions.size, functions.copies)
    owners = texts(index, columns.owner_name[functions.owner]), texts(index, columns.owner_name[functions.symbol])
    positions = (rows.section, rows.offset, rows.line, rows.column, rows.flags)
    kernels = (columns.kernel_object, columns.kernel_section, columns.kernel_offset, columns.kernel_size)
    return [
        index.derived.starts.all().tolist(), locations, index.summary, index.sections, sorted(files),
        sorted(zip(linkage, *owners, *(column.tolist() for column in places), strict=True)),
        [*zip(texts(index, rows.file), *(column.tolist() for column in positions), strict=True)],
        [*zip(texts(index, columns.kernel_name), *(column.tolist() for column in kernels), strict=True)],
        columns.object_rows.tolist(), columns.written_range.tolist(), columns.written_reason.tolist(),
    ]  # fmt: skip


def texts(index: Index, numbers: np.ndarray) -> list[str]:
    return [index.strings[number] for number in numbers.tolist()]


def answers_of_ranges(index: Index) -> Iterator[Answer]:
    """The answer where each range begins, also as written."""
    position = index.derived.starts.all()
    section = np.searchsorted(index.columns.section_base, position, side="right") - 1
    offset = position - index.columns.section_base[section].astype(np.uint64)
    for view in (index, index.view(as_written=True)):
        for number, path in enumerate(index.sections):
            here = section == number
            yield from symbolize_column(view, offset[here], section=path.section_index, path=path.path)


def check(data: bytes) -> None:
    """Where there is one portion the files are the same."""
    whole, pieces = build_index(data, Limits()), in_turn(data)
    assert pieces == whole or said(pieces) == said(whole)


def test_facts_that_are_too_many_are_left_out_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build_index(MANY, Limits())
    monkeypatch.setattr(index_summary, "MAX_DESCRIBED", 1)
    check(MANY)
    assert different(whole, build_index(MANY, Limits())) == ["summary"]


def test_kernels_that_are_too_many_are_left_out_of_both(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = build_index(MANY, Limits())
    monkeypatch.setattr(index_summary, "MAX_KERNELS", 1)
    check(MANY)
    assert different(whole, build_index(MANY, Limits())) == ["summary"]


def test_the_digest_that_is_made_meanwhile_is_the_modules() -> None:
    file = io.BytesIO()
    write_index_in_turn(file, MANY, None, Limits())
    assert file.getvalue() == in_turn(MANY)


@pytest.mark.parametrize("path", EVERY, ids=lambda path: str(path.relative_to(SAMPLES)))
def test_every_sample(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One code object at a time."""
    monkeypatch.setattr(builder, "PORTION", 1)
    data = path.read_bytes()
    try:
        build_index(data, Limits())
    except SymdError as error:
        with pytest.raises(type(error)):
            in_turn(data)
        return
    check(data)


@pytest.mark.parametrize("portion", [1, 2000, 1 << 40])
def test_many_code_objects(portion: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "PORTION", portion)
    check(MANY)


def test_many_ranges_and_strings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pages; frames are compressed as they come."""
    monkeypatch.setattr(builder, "PORTION", 5000)
    monkeypatch.setattr(builder, "_STRINGS", 7)
    monkeypatch.setattr(index_format, "_AT_ONCE", 1)
    monkeypatch.setattr(builder, "_BLOCKS_AT_ONCE", 1)
    check(bundle(12, functions=16, rows=200))


def test_a_large_code_object_is_kept_by_nobody_who_goes_through_them() -> None:
    data = bundle(2, functions=100, rows=700)
    for code, debug in reading.read_in_turn(ContainerUnpacker(data, Limits()), Limits(), len(data)):
        section = weakref.ref(code.sections[1])
        del code, debug
        gc.collect()
        assert section() is None


_MEASURED = """
import resource, sys
from pathlib import Path
import mmap
from symd.config import Limits
from symd.formats.containers.file_part import sha256_of
from symd.index import Index
from symd.index.module import write_index_in_turn
from tests.builders.index_file import encode, pack_table

with open(sys.argv[1], "rb") as stream, open(sys.argv[2], "w+b") as file:
    data = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
    digest = sha256_of(data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    write_index_in_turn(file, data, digest, Limits())
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10)
"""
PEAK = 90
"""MiB beside the interpreter. All tables of the module below take 190 side by side, and 30 one portion after the other."""


def test_a_large_module_takes_the_memory_of_a_portion(tmp_path: Path) -> None:
    """1.8 million line rows in 400 code objects."""
    path, into = tmp_path / "many.bundle", tmp_path / "index"
    path.write_bytes(bundle(400, functions=30, rows=150))
    outcome = subprocess.run(
        [sys.executable, "-c", _MEASURED, str(path), str(into)], capture_output=True, text=True, check=True, timeout=600
    )
    assert int(outcome.stdout) < PEAK
    index = Index.open_checked(into.read_bytes(), hashlib.sha256(path.read_bytes()).hexdigest())
    assert int(index.columns.object_rows.sum()) == 400 * (30 * 150 + 1)


def test_an_index_that_is_too_large_names_its_limit() -> None:
    with pytest.raises(LimitExceeded) as caught:
        in_turn(MANY, Limits(index_size=5000))
    assert caught.value.metadata == {"limit": "index_size", "value": "5000"}


def test_debugging_entries_are_counted_through_the_module() -> None:
    """As they are where all is opened at once."""
    limits = Limits(debug_entries=1000)
    index = Index(in_turn(MANY, limits))
    refused = [any("debug_entries" in note for note in each.notes) for each in index.summary.objects]
    assert refused[0] is False
    assert refused[-1] is True
    assert in_turn(MANY, limits) == build_index(MANY, limits)


@pytest.mark.parametrize("columns", [{"a": [7] * 9, "b": [1, 2, 700]}, {"a": [], "b": [5]}])
def test_columns_one_after_the_other(columns: dict[str, list[int]]) -> None:
    stored = decode(encode({name: narrow(np.array(column, np.uint64)) for name, column in columns.items()}))
    assert len(stored.described()) == len(columns)
    assert {name: stored[name].tolist() for name in columns} == columns


@pytest.mark.parametrize("pieces", [[], [b"", b"aa", b"a"], [b"a"], [b"ab", b"c"], [b"aa", b"b"]])
def test_bytes_piece_by_piece(pieces: list[bytes]) -> None:
    file = io.BytesIO()
    written = ColumnFile(file, 10000, 2)
    written.write_bytes("a", pieces)
    written.write("b", np.array([1, 2], np.uint16))
    written.close()
    whole = np.frombuffer(b"".join(pieces), np.uint8)
    assert file.getvalue() == encode({"a": whole, "b": np.array([1, 2], np.uint16)})


@pytest.mark.parametrize("values", [[], [5], [2**64 - 1, 0, 3], [10, 12, 400, 2], [2**40, 2**40 + 3]])
@pytest.mark.parametrize("cut", [0, 1, 2])
def test_tables_are_packed_piece_by_piece(values: list[int], cut: int) -> None:
    column = np.array(values, np.uint64)
    arena = Arena()
    pieces = [Differences(column[:cut], arena), Differences(column[cut:], arena)]
    assert np.concatenate([each.values() for each in pieces]).tolist() == values
    size, parts = packed_table([pieces, pieces])
    packed = b"".join(Compressor().pieces(size, parts))
    assert packed == pack_table([column, column]).tobytes()
    for found in unpack_table(np.frombuffer(packed, np.uint8), len(values), 2):
        assert found.tolist() == values


@pytest.mark.parametrize("together", [1, 2, 3])
def test_differences_of_some_entries_at_a_time(together: int, monkeypatch: pytest.MonkeyPatch) -> None:
    values = [2**64 - 1, 0, 3, 3, 400, 70_000]
    monkeypatch.setattr(packing, "_TOGETHER", together)
    assert Differences(np.array(values, np.uint64), Arena()).values().tolist() == values


@pytest.mark.parametrize("values", [[], [5], [0, 3, 2**40]])
def test_columns_come_back_as_they_were_kept(values: list[int]) -> None:
    for keeper in (Keeper(), Arena()):
        for found in (keeper.keep(np.array(values, np.uint64)), keeper.keep_ascending(np.array(values, np.uint64))):
            assert (found.values().tolist(), found.dtype, found.entries) == (values, np.dtype(np.uint64), len(values))


def test_the_frame_of_many_bytes_is_the_same_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_format, "_AT_ONCE", 100)
    data = b"".join(number.to_bytes(3, "little") for number in range(200_000))
    frames = {b"".join(Compressor().pieces(len(data), (data[at : at + step] for at in range(0, len(data), step))))
              for step in (1000, 131072, len(data))}  # fmt: skip
    assert len(frames) == 1
    assert decompress(np.frombuffer(frames.pop(), np.uint8)) == data
