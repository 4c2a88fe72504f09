"""Relocation entries of zebins that are not what compilers write; what they do write is compared with LLVM."""

from __future__ import annotations

import struct
from io import BytesIO
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from symd import containers, debuginfo
from symd.errors import Unsupported

SAMPLE = (Path(__file__).parents[3] / "samples" / "kernels" / "bin" / "vadd" / "dg2-opt.zebin").read_bytes()


def with_type(kind: int) -> bytes:
    """The sample with the first relocation entry of .debug_info of another type."""
    table = next(
        one for one in ELFFile(BytesIO(SAMPLE)).iter_sections() if one.name in (".rela.debug_info", ".rel.debug_info")
    )
    data = bytearray(SAMPLE)
    struct.pack_into("<I", data, table["sh_offset"] + 8, kind)
    return bytes(data)


@pytest.mark.parametrize("kind", [3, 4, 5, 99])
def test_a_type_that_means_nothing_in_debug_data_is_refused_by_number(kind: int) -> None:
    code = containers.unpack(with_type(kind)).objects[0]
    with pytest.raises(Unsupported, match=f"relocation type {kind} "):
        debuginfo.read(code)


def test_type_0_is_no_relocation() -> None:
    assert len(debuginfo.read(containers.unpack(with_type(0)).objects[0]).rows)
