"""Images of SYCL programs: many in one section, listed with and without relocations, compressed or not, or not listed."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest
import zstandard

from symd.config import Limits
from symd.errors import LimitExceeded
from symd.formats.containers import unpack
from symd.formats.containers.host_elf import carries_device_code
from tests.builders.elf import Section, build_elf
from tests.hostile.wrappers import WRAPPERS

SAMPLES = Path(__file__).parents[4] / "samples"
SPIRV = [path.read_bytes() for path in sorted((SAMPLES / "spirv" / "bin").glob("*.spv"))][:8]
ZEBIN = (SAMPLES / "kernels/bin/vadd/dg2-opt.zebin").read_bytes()
EM_X86_64, ET_DYN, ET_REL = 62, 3, 1
BUNDLE = "__CLANG_OFFLOAD_BUNDLE__"
ALL_TARGETS = "OFFLOAD_DEVICE_CODE"
ADDRESS, TABLE_ADDRESS = 0x5C7210, 0x20C9A00
R_X86_64_RELATIVE, R_X86_64_GLOB_DAT = 8, 6


def laid_out(images: list[bytes]) -> tuple[bytes, list[int]]:
    """The images at multiples of 16 bytes, and where each begins."""
    data, starts = bytearray(), []
    for image in images:
        data += bytes(-len(data) % 16)
        starts.append(len(data))
        data += image
    return bytes(data), starts


def packed(image: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_content_size=False).compress(image)


def program(
    images: list[bytes],
    sizes: list[int],
    *,
    relocated: bool = True,
    in_place: bool = False,
    listed: bool = True,
    section: str = f"{BUNDLE}sycl-spir64",
) -> bytes:
    """``in_place``: the addresses are written in the table too, as newer linkers do."""
    data, starts = laid_out(images)
    addresses = [ADDRESS + start for start in starts]
    table = b"".join(
        struct.pack("<QQ", 0 if relocated and not in_place else address, size)
        for address, size in zip(addresses, sizes, strict=True)
    )
    relocations = [
        struct.pack("<QQq", TABLE_ADDRESS + 16 * at, R_X86_64_RELATIVE, to) for at, to in enumerate(addresses)
    ]
    others = [
        struct.pack("<QQq", TABLE_ADDRESS + 8, R_X86_64_RELATIVE, 0x666),
        struct.pack("<QQq", TABLE_ADDRESS, R_X86_64_GLOB_DAT, 0x777),
        struct.pack("<QQq", 0x10, R_X86_64_RELATIVE, 0x888),
    ]
    sections = [Section(section, flags=2, address=ADDRESS, data=data, align=16)]
    if listed:
        sections.append(Section(".tgtimg", flags=3, address=TABLE_ADDRESS, data=table, align=16))
    if relocated:
        sections.append(
            Section(".rela.dyn", type=4, flags=2, address=0x1000, data=b"".join([*others, *relocations]), entsize=24)
        )
    return build_elf(machine=EM_X86_64, type=ET_DYN, sections=sections)


def found(data: bytes) -> list[str]:
    return [hashlib.sha256(code.data).hexdigest() for code in unpack(data).objects]


def wanted(images: list[bytes]) -> list[str]:
    return [hashlib.sha256(image).hexdigest() for image in images]


@pytest.mark.parametrize("relocated", [True, False])
@pytest.mark.parametrize("count", [1, 2, len(SPIRV)])
def test_every_listed_image_is_found_in_its_order(relocated: bool, count: int) -> None:
    images = SPIRV[:count]
    data = program(images, [len(image) for image in images], relocated=relocated)
    assert found(data) == wanted(images)
    assert [code.path for code in unpack(data).objects] == [
        "sycl-spir64",
        *(f"sycl-spir64#{number}" for number in range(2, count + 1)),
    ]


def test_compressed_images_stand_beside_raw_ones_and_the_table_has_their_expanded_size() -> None:
    images = SPIRV[:6]
    stored = [packed(image) if number % 2 else image for number, image in enumerate(images)]
    assert found(program(stored, [len(image) for image in images])) == wanted(images)


@pytest.mark.parametrize("compressed", [False, True])
def test_without_a_table_images_begin_where_one_can(compressed: bool) -> None:
    images = SPIRV[:5]
    stored = [zstandard.compress(image) for image in images] if compressed else images
    assert found(program(stored, [0] * 5, relocated=False, listed=False)) == wanted(images)


def test_archives_of_ahead_of_time_images_are_opened() -> None:
    archives = [WRAPPERS["archive"](ZEBIN), WRAPPERS["archive"](ZEBIN, ZEBIN)]
    stored = [archives[0], packed(archives[1])]
    data = program(stored, [len(each) for each in archives], section=f"{BUNDLE}sycl-spir64_gen")
    assert [code.data for code in unpack(data).objects if code.format == "zebin"] == [ZEBIN] * 3


def test_one_section_of_all_targets_holds_archives_beside_spirv() -> None:
    archives = [WRAPPERS["archive"](ZEBIN), WRAPPERS["archive"](ZEBIN, ZEBIN)]
    images = [archives[0], SPIRV[0], archives[1]]
    data = program(images, [len(each) for each in images], in_place=True, section=ALL_TARGETS)
    unpacked = unpack(data)
    assert [code.data for code in unpacked.objects if code.format == "zebin"] == [ZEBIN] * 3
    assert [code.data for code in unpacked.objects if code.path == f"{ALL_TARGETS}#2"] == [SPIRV[0]]
    assert {code.path.split("/")[0] for code in unpacked.objects} == {
        ALL_TARGETS,
        f"{ALL_TARGETS}#2",
        f"{ALL_TARGETS}#3",
    }
    assert not unpacked.notes
    assert carries_device_code([".text", ALL_TARGETS])


def test_bitcode_before_the_code_of_all_targets_hides_none_of_it() -> None:
    images = [b"BC\xc0\xde" + bytes(60), ZEBIN]
    unpacked = unpack(program(images, [len(each) for each in images], in_place=True, section=ALL_TARGETS))
    assert [code.data for code in unpacked.objects if code.format == "zebin"] == [ZEBIN]
    assert [note for note in unpacked.notes if ALL_TARGETS in note]


def test_one_damaged_image_is_named_and_the_others_are_answered() -> None:
    images = SPIRV[:4]
    broken = bytearray(packed(images[1]))
    broken[len(broken) // 2 :] = b"\xff" * (len(broken) - len(broken) // 2)
    data = program([images[0], bytes(broken), images[2], images[3][:40]], [len(image) for image in images])
    unpacked = unpack(data)
    assert [hashlib.sha256(code.data).hexdigest() for code in unpacked.objects] == wanted([images[0], images[2]])
    assert "image 2 of __CLANG_OFFLOAD_BUNDLE__sycl-spir64" in unpacked.notes[0]
    assert "sycl-spir64#3" in unpacked.notes[1]


def test_a_size_that_is_not_true_is_not_believed() -> None:
    images = SPIRV[:2]
    data = program([images[0], packed(images[1])], [len(images[0]), 1 << 62])
    with pytest.raises(LimitExceeded, match="expansion"):
        unpack(data)
    data = program([images[0], packed(images[1])], [len(images[0]), len(images[1]) - 4])
    assert found(data) == wanted(images[:1])


def test_more_images_than_the_limit_are_refused_by_name() -> None:
    data = program([SPIRV[0]] * 50, [len(SPIRV[0])] * 50)
    with pytest.raises(LimitExceeded, match="object_count"):
        unpack(data, Limits(object_count=49))


def test_a_table_that_leads_elsewhere_lists_nothing() -> None:
    """Entries of other sections, and a section that nobody lists: its images are found by their beginnings."""
    images = SPIRV[:3]
    data, _ = laid_out(images)
    table = struct.pack("<QQ", 0x10, 100) * 3 + b"odd"
    sections = [
        Section(f"{BUNDLE}sycl-spir64", flags=2, address=ADDRESS, data=data, align=16),
        Section(".tgtimg", flags=3, address=TABLE_ADDRESS, data=table, align=16),
    ]
    assert found(build_elf(machine=EM_X86_64, type=ET_DYN, sections=sections)) == wanted(images)
    assert found(build_elf(machine=EM_X86_64, type=ET_REL, sections=sections[:1])) == wanted(images)


@pytest.mark.parametrize(
    "damaged",
    [b"\x28\xb5\x2f\xfd", packed(SPIRV[0]), zstandard.compress(SPIRV[0])[:-9]],
    ids=["head", "no size", "cut"],
)
def test_a_damaged_frame_that_nobody_lists_is_named_too(damaged: bytes) -> None:
    unpacked = unpack(program([SPIRV[0], damaged, SPIRV[1]], [0] * 3, relocated=False, listed=False))
    assert [hashlib.sha256(code.data).hexdigest() for code in unpacked.objects] == wanted(SPIRV[:2])
    [note] = unpacked.notes
    assert note.startswith("left out: image 2 of __CLANG_OFFLOAD_BUNDLE__sycl-spir64: zstd data")
