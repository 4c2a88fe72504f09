"""The section table, against readelf."""

from __future__ import annotations

import mmap
import re
from pathlib import Path
from typing import cast

import pytest

from symd.config import Limits
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.elf.constants import EM_AMDGPU
from tests.builders.elf import Section, build_elf
from tests.tools import output, require

SAMPLES = Path(__file__).parents[3] / "samples"
FILES = [
    SAMPLES / name
    for name in (
        "kernels/bin/filters/igc2-dg2-opt.zebin",
        "amdgpu/bin/v5-gfx90a.co",
        "amdgpu/bin/v2-scale-null-headers.co",
        "amdgpu/bin/v4-gfx900.o",
        "cuda/bin/saxpy.sm_90.none.cubin",
        "cuda/bin/program.rdc",
    )
]
_ROW = re.compile(
    r"^ +\[ *\d+\] (?P<name>\S*) +[A-Z0-9_:+<>x a-f]+? (?P<address>[0-9a-f]{16}) (?P<offset>[0-9a-f]{6,}) "
    r"(?P<size>[0-9a-f]{6,}) (?P<entry>[0-9a-f]{2,}) .{3} +(?P<link>\d+) +(?P<info>\d+) +(?P<align>\d+)$",
    re.MULTILINE,
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_section_headers_are_readelfs(path: Path) -> None:
    data = path.read_bytes()
    rows = [row.groupdict() for row in _ROW.finditer(output(require("readelf"), "-SW", path))]
    headers = elf.section_headers(data, elf.parse_header(data))
    assert len(headers) == len(rows) > 3
    for header, row in zip(headers, rows, strict=True):
        found = (header.address, header.offset, header.size, header.entry_size)
        assert found == tuple(int(row[name], 16) for name in ("address", "offset", "size", "entry"))
        assert (header.link, header.info, header.align) == tuple(int(row[name]) for name in ("link", "info", "align"))
    sections = elf.parse(data, Budget(Limits())).sections
    assert [section.name for section in sections] == [row["name"] for row in rows]


def test_what_was_copied_of_a_mapped_file_is_not_in_memory_twice(tmp_path: Path) -> None:
    path, content = tmp_path / "image", bytes(range(256)) * (8 << 12)
    path.write_bytes(build_elf(machine=EM_AMDGPU, sections=[Section(".text", data=content)]))
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        text = elf.parse(cast("bytes", data), Budget(Limits())).by_name[".text"]
        assert text.data == content
        mapping = Path("/proc/self/smaps").read_text(errors="replace").partition(str(path))[2]
        assert int(mapping.partition("\nRss:")[2].split()[0]) << 10 < len(content) // 4, mapping[:1000]


@pytest.mark.parametrize("entry_size", [0, 1])
@pytest.mark.parametrize("at", [54, 58])
def test_an_image_whose_headers_have_no_room_has_no_size(at: int, entry_size: int) -> None:
    """``at`` is e_phentsize or e_shentsize."""
    data = bytearray((SAMPLES / "amdgpu/bin/v4-gfx900.co").read_bytes())
    assert elf.image_size(lambda begin, size: bytes(data[begin : begin + size])) == len(data)
    data[at : at + 2] = entry_size.to_bytes(2, "little")
    assert elf.image_size(lambda begin, size: bytes(data[begin : begin + size])) is None
