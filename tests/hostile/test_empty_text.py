"""Debug data of code objects whose text sections say that they are empty: an index, with what else they say."""

from __future__ import annotations

import struct

import pytest

from symd.config import Limits
from symd.formats import elf
from symd.index import Index
from symd.index.module import build_index
from symd.query.line_tables import lines
from tests.fuzz.mutations import SAMPLES

NAMES = [
    "kernels/bin/vadd/dg2-opt-patch.vadd.elf",
    "kernels/bin/particles/dg2-opt-zebin.nothing.elf",
    "kernels/bin/vadd/dg2-opt.zebin",
    "amdgpu/bin/v4-gfx900.co",
    "cuda/bin/raycast.sm_90.debug.cubin",
]
SECTIONS_AT, SIZE_AT, EXECUTABLE = 0x28, 32, 4


@pytest.mark.parametrize("name", NAMES)
def test_text_without_bytes(name: str) -> None:
    image = bytearray((SAMPLES / name).read_bytes())
    (table,) = struct.unpack_from("<Q", image, SECTIONS_AT)
    for number, section in enumerate(elf.section_headers(bytes(image), elf.parse_header(bytes(image)))):
        if section.flags & EXECUTABLE:
            struct.pack_into("<Q", image, table + 64 * number + SIZE_AT, 0)
    index = Index.open_checked(build_index(bytes(image), Limits()))
    assert index.kernels or index.summary.objects
    for found in lines(index):
        assert len(found) == len(found.line)
