"""Hostile bytes end in one of symd's own errors or in an answer, never in anything else."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest

from symd.config import Limits
from symd.errors import InvalidInput, LimitExceeded, Malformed, SymdError, UnknownFormat, Unsupported
from symd.index import Index
from symd.index.module import build_index
from symd.model.columns import U64
from symd.query.line_tables import lines
from symd.query.symbolize import symbolize_column

BIN = Path(__file__).parents[2] / "samples" / "kernels" / "bin"
SAMPLES = sorted(path for path in BIN.rglob("*") if path.is_file())
SMALL = [path for path in SAMPLES if path.parent.name == "vadd"]


def use(data: bytes, limits: Limits | None = None) -> Index | SymdError:
    """Everything that a user could ask of these bytes; returns the refusal when there is one."""
    try:
        index = Index(build_index(data, limits or Limits()))
    except SymdError as error:
        return told(error)
    for path in index.objects:
        list(lines(index, path))
    for name, entries in index.kernels.items():
        answers = symbolize_column(index, offsets(entries[0].size), kernel=name)
        assert len(list(answers)) == len(answers)
    return index


def told(error: SymdError) -> SymdError:
    """A refusal that the user's bytes explain."""
    assert error.status in {"INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}
    assert error.message
    return error


def offsets(size: int) -> U64:
    return np.unique(np.linspace(0, size, 16).astype(np.uint64))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: "/".join(path.parts[-2:]))
def test_a_truncated_sample_is_refused_or_answered(path: Path) -> None:
    data = path.read_bytes()
    for size in range(0, len(data), 64):
        use(data[:size])


@pytest.mark.parametrize("path", SMALL, ids=lambda path: path.name)
def test_a_sample_with_flipped_bits_is_refused_or_answered(path: Path) -> None:
    data, dice = path.read_bytes(), random.Random(path.name)
    for _ in range(50):
        broken = bytearray(data)
        for _ in range(dice.choice((1, 1, 4, 32))):
            broken[dice.randrange(len(broken))] ^= 1 << dice.randrange(8)
        use(bytes(broken))


def test_random_bytes_are_no_format() -> None:
    dice = random.Random(1)
    for size in (0, 1, 7, 64, 4096):
        error = use(dice.randbytes(size))
        assert isinstance(error, UnknownFormat)


def test_random_bytes_behind_a_true_magic_are_refused() -> None:
    dice = random.Random(2)
    for magic in (b"CTNI\x39\4\0\0" + bytes(4), b"\x7fELF\2\1\1" + bytes(9), b"\x7fELF"):
        for size in (0, 8, 64, 4096):
            assert isinstance(use(magic + dice.randbytes(size)), SymdError)


def container(kernels: list[tuple[bytes, bytes]], count: int | None = None) -> bytes:
    body = b"".join(struct.pack("<3I", len(name), len(elf), 0) + name + elf for name, elf in kernels)
    return struct.pack("<4s6I", b"CTNI", 1081, 0, 0xC07, 0, 0, len(kernels) if count is None else count) + body


def test_a_container_whose_sizes_point_past_the_end_says_so() -> None:
    data = (
        struct.pack("<4s6I", b"CTNI", 1081, 0, 0xC07, 0, 0, 1) + struct.pack("<3I", 8, 0xFFFFFFF0, 0) + b"vadd\0\0\0\0"
    )
    error = use(data)
    assert isinstance(error, Malformed)
    assert "past the file's" in str(error)
    assert "kernel 0 of 1" in str(error)


def test_a_kernel_count_of_all_ones_is_refused_without_allocating() -> None:
    error = use(container([(b"vadd\0\0\0\0", b"")], count=0xFFFFFFFF))
    assert isinstance(error, InvalidInput | LimitExceeded)
    assert "4294967295" in str(error)


def test_a_name_without_an_end_is_refused() -> None:
    error = use(container([(b"vaddvadd", b"")]))
    assert isinstance(error, Malformed)
    assert "no end" in str(error)


def test_an_elf_inside_that_is_none_is_refused_by_the_kernels_name() -> None:
    error = use(container([(b"vadd\0\0\0\0", b"not an ELF at all...")]))
    assert isinstance(error, UnknownFormat)
    assert error.where == "vadd"


def test_a_sick_kernel_leaves_the_healthy_ones_answered() -> None:
    healthy = (BIN / "vadd" / "dg2-opt.dbg").read_bytes()
    at, name_size, size = 28, *struct.unpack_from("<2I", healthy, 28)
    elf = healthy[at + 12 + name_size : at + 12 + name_size + size]
    index = use(container([(b"sick\0\0\0\0", b"no ELF"), (b"well\0\0\0\0", elf)]))
    assert isinstance(index, Index)
    assert list(index.kernels) == ["well"]
    assert any("sick" in note for note in index.summary.notes)


def test_a_kernel_without_debug_data_is_named_in_the_notes() -> None:
    healthy = (BIN / "vadd" / "dg2-opt.dbg").read_bytes()
    more = struct.pack("<3I", 8, 0, 0) + b"empty\0\0\0"
    data = bytearray(healthy + more)
    struct.pack_into("<I", data, 24, struct.unpack_from("<I", healthy, 24)[0] + 1)
    index = use(bytes(data))
    assert isinstance(index, Index)
    assert any("empty" in note for note in index.summary.notes)


def test_trailing_bytes_behind_a_container_are_allowed() -> None:
    index = use((BIN / "vadd" / "dg2-opt.dbg").read_bytes() + bytes(40))
    assert isinstance(index, Index)


def test_the_program_binary_with_the_containers_magic_is_not_taken_for_it() -> None:
    error = use(struct.pack("<7I", 0x494E5443, 1081, 0xC07, 8, 1, 0, 0) + bytes(64))
    assert isinstance(error, Unsupported)
    assert "patch-token" in str(error)
