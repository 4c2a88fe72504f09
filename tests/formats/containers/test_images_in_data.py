"""ELF images among the data of host programs: arrays of C, as Triton's ahead-of-time compiler writes them, objects with images at any byte,
as Mojo's and TVM's have them, and what only begins like an image."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import unpack
from symd.formats.containers.file_part import part_of
from symd.formats.containers.images_in_data import images_in
from tests import tools
from tests.builders.elf import ALLOC, AX, WRITE, Section, build_elf

SAMPLES = Path(__file__).parents[3] / "samples"
IMAGES = {
    name: (SAMPLES / name).read_bytes()
    for name in (
        "amdgpu/bin/v4-gfx900.co",
        "amdgpu/bin/v2-gfx900.co",
        "amdgpu/bin/v2-scale-null-headers.co",
        "amdgpu/bin/v2-scale-packed.co",
        "cuda/bin/tonemap.sm_90.ewp.cubin",
        "cuda/bin/tonemap.sm_75.ptxas-12.0.cubin",
        "cuda/bin/32-bit/norms.sm_60.lines.cubin",
        "kernels/bin/filters/igc2-dg2-opt.zebin",
    )
}
FATBIN = (SAMPLES / "cuda/bin/tonemap.none.fatbin").read_bytes()
SPIRV = next((SAMPLES / "kernels" / "bin").rglob("*.spv")).read_bytes()
MAGIC = b"\x7fELF"
HOST_HEADER = build_elf(machine=62, sections=[Section(".text", flags=AX, data=bytes(8))])


def program(*contents: bytes, more: tuple[Section, ...] = ()) -> bytes:
    data = [
        Section(f".data{number or ''}", flags=ALLOC | WRITE, address=0x200000 * number, data=content, align=1)
        for number, content in enumerate(contents)
    ]
    return build_elf(machine=62, sections=[*data, *more])


def found(content: bytes, limits: Limits | None = None) -> list[slice]:
    return images_in(part_of(content), ".data", Budget(limits or Limits()))


@pytest.mark.parametrize("name", IMAGES)
@pytest.mark.parametrize("before", [b"", b"x", b"\x7fEL", MAGIC, HOST_HEADER, bytes(4099)])
def test_an_image_is_found_at_any_byte(name: str, before: bytes) -> None:
    image = IMAGES[name]
    opened = unpack(program(before + image + b"text\0" + image[:100]))
    assert (opened.objects[0].path, opened.objects[0].data) == (".data", image)
    assert [code.path for code in opened.objects[1:]] == ([".data/spirv"] if name.endswith("zebin") else [])


def test_images_are_named_after_their_sections_in_the_order_of_the_file() -> None:
    images = list(IMAGES.values())[:3]
    opened = unpack(program(b"a" + b"bc".join(images), images[0]))
    assert [code.path for code in opened.objects] == [".data", ".data#2", ".data#3", ".data1"]
    assert [code.data for code in opened.objects] == [*images, images[0]]


@pytest.mark.parametrize("name", ["amdgpu/bin/v4-gfx900.co", "cuda/bin/tonemap.sm_90.ewp.cubin"])
@pytest.mark.parametrize("linked", [False, True])
def test_an_array_of_c_is_read(name: str, linked: bool, tmp_path: Path) -> None:
    """What Triton's ahead-of-time compiler, bin2c and xxd write."""
    compiler = shutil.which("cc") or tools.require("gcc", "clang")
    image = IMAGES[name]
    source, out = tmp_path / "kernel.c", tmp_path / "kernel"
    bytes_of = ", ".join(map(hex, image))
    source.write_text(
        f"const char odd[] = {{1}};\nunsigned char kernel_image[{len(image)}] = {{ {bytes_of} }};\n"
        f"static const unsigned char packed[] __attribute__((used, aligned(1))) = {{ 7, {bytes_of} }};\n"
    )
    tools.output(compiler, "-O1", "-fPIC", *(["-shared"] if linked else ["-c"]), source, "-o", out)
    opened = unpack(out.read_bytes())
    assert sorted(code.path for code in opened.objects) == [".data", ".rodata"]
    assert {code.data for code in opened.objects} == {image}


def test_a_program_with_a_section_for_device_code_is_searched_for_images_too() -> None:
    image = IMAGES["cuda/bin/tonemap.sm_75.ptxas-12.0.cubin"]
    section = Section(".nv_fatbin", flags=ALLOC, address=0x900000, data=FATBIN, align=8)
    opened = unpack(program(image, more=(section,)))
    assert [code.path for code in opened.objects] == [".nv_fatbin/sm_80", ".nv_fatbin/sm_90a", ".data"]


def test_what_is_inside_of_another_is_left_to_that() -> None:
    """The cubins of a fat binary, and SPIR-V in an image's section, are no images of the program."""
    carrier = build_elf(machine=224, sections=[Section(".rodata", flags=ALLOC, data=SPIRV, align=4)])
    opened = unpack(program(FATBIN + carrier + IMAGES["amdgpu/bin/v4-gfx900.co"] + SPIRV))
    paths = [code.path for code in opened.objects]
    assert paths == [".data/sm_80", ".data/sm_90a", ".data#2", ".data#3", ".data#4"]
    assert opened.objects[2].data == carrier


@pytest.mark.parametrize(
    "content",
    [
        MAGIC * 100,
        IMAGES["amdgpu/bin/v4-gfx900.co"][:-1],
        IMAGES["amdgpu/bin/v4-gfx900.co"][:64],
        HOST_HEADER,
        MAGIC + b"\x02\x02\x01" + bytes(11) + struct.pack(">H", 224) + bytes(44),
        MAGIC + b"\x02\x01\x01" + bytes(11) + struct.pack("<H", 224) + bytes(44),
        MAGIC + b"\x02\x01\x01" + bytes(11) + struct.pack("<H", 224) + b"\xff" * 44,
    ],
)
def test_what_only_begins_like_an_image_is_none(content: bytes) -> None:
    assert found(content) == []
    with pytest.raises(Unsupported, match="carries no device code"):
        unpack(program(content))


def test_code_is_not_searched() -> None:
    image = IMAGES["amdgpu/bin/v4-gfx900.co"]
    with pytest.raises(Unsupported, match="carries no device code"):
        unpack(program(more=(Section(".text", flags=AX, data=image), Section(".comment", data=image))))


def test_headers_count_as_elements_and_tables_as_work() -> None:
    header = IMAGES["amdgpu/bin/v4-gfx900.co"][:64]
    with pytest.raises(LimitExceeded, match="object_count"):
        found(header * 50, Limits(object_count=49))
    assert found(header * 50, Limits(object_count=50)) == []
    table = bytearray(header)
    table[40:48] = struct.pack("<Q", 64)
    table[58:62] = struct.pack("<HH", 64, 60_000)
    with pytest.raises(LimitExceeded, match="work_ratio"):
        found(bytes(table) * 60_000, Limits(object_count=100_000))
