"""Sections, symbols and relocations at the very end of the address space: refused or answered, by every question."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from symd.config import Limits
from symd.debuginfo.variables.visible import VariableReader
from symd.engine.contexts.placement import placed
from symd.errors import BadQuery, Malformed, SymdError
from symd.formats import containers
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ByKernel, KernelOffset, ObjectAddress, Query
from symd.model.contexts import Load
from symd.query.line_tables import lines
from symd.query.symbolize import symbolize
from tests.builders.elf import AX, NOBITS, Section, Segment, build_elf
from tests.query.asked import variables, visible_in

SAMPLES = Path(__file__).parents[2] / "samples"
NAMES = [
    "kernels/bin/vadd/dg2-opt.zebin",
    "kernels/bin/filters/driver-l0-igc2-dg2-opt.debug-zebin",
    "kernels/bin/blur/dg2-opt-patch.blur.elf",
    "amdgpu/bin/v4-gfx900.co",
    "amdgpu/bin/v4-gfx900-headers-cut.co",
    "cuda/bin/saxpy.sm_75.lines.cubin",
    "cuda/bin/raycast.sm_90.debug.cubin",
]
TOP = (1 << 64) - 1
VALUES = (TOP, 1 << 63)
SH_ADDR, ST_VALUE, ST_SIZE, R_OFFSET, R_ADDEND = 16, 8, 16, 0, 16
ENTRY_SIZES = {2: 24, 11: 24, 4: 24, 9: 16}
"""SHT_SYMTAB, SHT_DYNSYM, SHT_RELA, SHT_REL."""
FIELDS = {2: (ST_VALUE, ST_SIZE), 11: (ST_VALUE, ST_SIZE), 4: (R_OFFSET, R_ADDEND), 9: (R_OFFSET,)}


def changed(data: bytes) -> Iterator[bytes]:
    """The image with the address of one section, or of all, set to each value; then the same field of all entries of each
    table of symbols and relocations."""
    (table,), (count,) = struct.unpack_from("<Q", data, 40), struct.unpack_from("<H", data, 60)
    headers = [table + 64 * number for number in range(1, count)]
    for value in VALUES:
        for chosen in ([header] for header in headers):
            yield with_value(data, [header + SH_ADDR for header in chosen], value)
        yield with_value(data, [header + SH_ADDR for header in headers], value)
        for header in headers:
            _, kind, _, _, offset, size = struct.unpack_from("<IIQQQQ", data, header)
            for field in FIELDS.get(kind, ()):
                entries = range(offset, offset + size, ENTRY_SIZES[kind])
                yield with_value(data, [entry + field for entry in entries], value)


def with_value(data: bytes, places: list[int], value: int) -> bytes:
    image = bytearray(data)
    for place in places:
        struct.pack_into("<Q", image, place, value)
    return bytes(image)


def ask_everything(data: bytes) -> None:
    index = Index.open_checked(build_index(data, Limits()))
    objects = containers.unpack(data).objects
    for path in index.objects:
        list(lines(index, path))
    queries: list[Query] = [ByKernel(name, KernelOffset(16)) for name in index.kernels]
    for text in index.sections:
        queries += (ByAddress(ObjectAddress(at & TOP)) for at in (text.address, text.address + 16, 0, TOP))
    for query in queries:
        one = index.answer(query)
        assert one in (None, symbolize(index, [query])[0])
        variables(index, query, partial(visible_in, objects))
    for base in (0, 1 << 63, TOP):
        with suppress(BadQuery):  # segments that overlap, as those of an unlinked object do
            placed(Load("ab" * 32, 1, load_base=base), 64, lambda: index)


@pytest.mark.parametrize("name", NAMES)
def test_no_address_is_too_high_for_any_question(name: str) -> None:
    outcomes = set()
    for data in changed((SAMPLES / name).read_bytes()):
        try:
            ask_everything(data)
            outcomes.add("answered")
        except SymdError as error:
            outcomes.add(error.status)
    assert "answered" in outcomes
    assert outcomes <= {"answered", "INVALID_ARGUMENT", "UNIMPLEMENTED", "RESOURCE_EXHAUSTED"}


@pytest.mark.parametrize(("address", "size"), [(TOP, 1), (TOP - 63, 64), (1 << 63, 1 << 63)])
def test_text_that_passes_the_end_of_the_address_space_is_malformed(address: int, size: int) -> None:
    text = Section(".text", flags=AX, address=address, data=bytes(64), size=min(size, 64))
    segment = Segment(address=address, offset=0, file_size=64, memory_size=size)
    image = build_elf(machine=224, osabi=64, type=3, sections=[text], segments=[segment])
    with pytest.raises(Malformed, match="end of the 64-bit address space"):
        containers.unpack(image)


@pytest.mark.parametrize(
    ("size", "refused"), [(containers.MAX_TEXT_SIZE, False), (containers.MAX_TEXT_SIZE + 1, True), (1 << 63, True)]
)
def test_text_without_content_takes_as_much_as_a_gpu_could_hold(size: int, refused: bool) -> None:
    """Text positions go through all sections; found in a sample whose section had lost its content."""
    text = Section(".text", type=NOBITS, flags=AX, size=size)
    image = build_elf(machine=190, osabi=0x33, sections=[text, Section(".nv.info")])
    if refused:
        with pytest.raises(Malformed, match=f"its text takes {size} bytes"):
            containers.unpack(image)
    else:
        assert len(containers.unpack(image).objects) == 1


def test_variables_are_asked_at_the_last_address_of_all() -> None:
    """An empty section may begin there; found by a million changed inputs."""
    code = containers.unpack((SAMPLES / "amdgpu/bin/v4-gfx900.co").read_bytes()).objects[0]
    text = next(each for each in code.sections if each.executable)
    sections = tuple(each.changed(address=TOP, size=0) if each is text else each for each in code.sections)
    assert VariableReader(code._replace(sections=sections)).at(text.index, 0).variables == ()
