"""Host programs, objects and libraries against llvm-objdump --offloading and objcopy's section dumps."""

from __future__ import annotations

import hashlib
import struct
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import ContainerUnpacker, compressed_bundle, host_elf, host_program, offload_bundle
from symd.formats.containers.file_part import FilePart
from tests import tools
from tests.builders.elf import Section, build_elf
from tests.formats.containers.amd import objects as amd
from tests.formats.containers.llvm.test_offload_bundle import packed

HOSTS = ["host", "host.so", "host-first.o", "host-second.o", "host-offloading.o", "offloading.o", "host-plain.o"]
BUNDLE = amd.sample("odd.bundle")


def host(name: str, data: bytes) -> bytes:
    """A host object with one device section."""
    return build_elf(machine=62, sections=[Section(name, data=data)])


def images(data: bytes) -> list[bytes]:
    """Every device image in a host file, opened through its bundles."""
    found = []
    for element in amd.contents(host_elf, data).elements:
        reader = compressed_bundle if compressed_bundle.claims(element.data) else offload_bundle
        found += [one.data for one in reader.read(element, amd.budget()).elements]
    return found


@pytest.mark.parametrize("name", HOSTS)
def test_host_files_are_claimed(name):
    assert host_elf.claims(amd.sample(name))


@pytest.mark.parametrize("name", amd.OBJECTS)
def test_device_images_are_not(name):
    assert not host_elf.claims(amd.sample(name))


@pytest.mark.parametrize("name", ["host", "host.so", "host-first.o"])
def test_images_are_those_that_objdump_extracts(name, tmp_path):
    """llvm-objdump 22 stops behind the first bundle, and of a compressed bundle it writes bytes that are no image at all:
    those are compared with what the bundler extracts below."""
    copy = tmp_path / name
    copy.write_bytes(amd.sample(name))
    tools.output(tools.require("llvm-objdump-22"), "--offloading", copy)
    theirs = [path.read_bytes() for path in sorted(tmp_path.iterdir()) if "hipv4-" in path.name]
    assert len(theirs) == 2
    ours = [hashlib.sha256(data).digest() for data in images(amd.sample(name))]
    assert sorted(ours[:2]) == sorted(hashlib.sha256(data).digest() for data in theirs)


def test_the_compressed_bundle_of_a_host_object_is_what_the_bundler_extracts(tmp_path):
    objcopy, bundler = tools.require("llvm-objcopy-19"), tools.require("clang-offload-bundler-19")
    section, out = tmp_path / "section", tmp_path / "out"
    dumped = f"--dump-section=.hip_fatbin={section}"
    tools.output(objcopy, dumped, amd.path("host-second.o"), tmp_path / "copy.o")
    target = "-targets=hipv4-amdgcn-amd-amdhsa--gfx900"
    tools.output(bundler, "-unbundle", "-type=o", target, f"-input={section}", f"-output={out}")
    assert images(amd.sample("host-second.o")) == [out.read_bytes()]


def test_a_program_of_two_translation_units_holds_two_bundles():
    elements = amd.contents(host_elf, amd.sample("host")).elements
    assert [element.name for element in elements] == [".hip_fatbin", ".hip_fatbin#2"]
    assert [element.data[:4] for element in elements] == [b"__CL", b"CCOB"]
    assert len(images(amd.sample("host"))) == 3


def test_a_program_holds_the_images_of_the_objects_it_was_linked_from():
    linked = {hashlib.sha256(data).digest() for data in images(amd.sample("host"))}
    objects = images(amd.sample("host-first.o")) + images(amd.sample("host-second.o"))
    assert linked == {hashlib.sha256(data).digest() for data in objects}


def test_an_offload_section_is_handed_on_whole():
    (element,) = amd.contents(host_elf, amd.sample("host-offloading.o")).elements
    assert (element.name, element.data) == (".llvm.offloading", amd.sample("images.offload"))


@pytest.mark.parametrize("name", [".nv_fatbin", "__nv_relfatbin", ".llvm.offloading"])
def test_sections_of_other_vendors_are_handed_on_under_their_names(name):
    (element,) = amd.contents(host_elf, host(name, b"\x50\xed\x55\xba" + bytes(12))).elements
    assert (element.name, element.data[:4]) == (name, b"\x50\xed\x55\xba")


def test_what_nvcc_linked_stands_in_front_of_what_it_was_linked_from():
    fat_binary = b"\x50\xed\x55\xba" + bytes(12)
    sections = [Section(name, data=fat_binary) for name in ("__nv_relfatbin", ".llvm.offloading", ".nv_fatbin")]
    elements = amd.contents(host_elf, build_elf(machine=62, sections=sections)).elements
    assert [element.name for element in elements] == [".llvm.offloading", ".nv_fatbin", "__nv_relfatbin"]


def test_a_bundled_object_names_the_target_of_each_section():
    (element,) = amd.contents(
        host_elf, host("__CLANG_OFFLOAD_BUNDLE__hip-amdgcn-amd-amdhsa--gfx900", b"\x7fELF")
    ).elements
    assert element.name == "hip-amdgcn-amd-amdhsa--gfx900"


def test_bundles_back_to_back_with_padding_are_all_found():
    data = BUNDLE + bytes(37) + BUNDLE + b"junk" + amd.sample("v2-zstd.ccob") + bytes(8) + BUNDLE
    elements = amd.contents(host_elf, host(".hip_fatbin", data)).elements
    assert [element.data for element in elements] == [BUNDLE, BUNDLE, amd.sample("v2-zstd.ccob"), BUNDLE]


def test_a_version_1_bundle_reaches_to_the_next_one():
    first = amd.sample("v1-zlib.ccob")
    elements = amd.contents(host_elf, host(".hip_fatbin", first + BUNDLE)).elements
    assert [element.data for element in elements] == [first, BUNDLE]


def test_a_magic_number_inside_a_code_object_is_not_a_bundle():
    inner = b"\x7fELF" + b"CCOB\x02\0\0\0" + bytes(20) + offload_bundle.MAGIC + bytes(32)
    name = "hip-amdgcn-amd-amdhsa--gfx900"
    head = offload_bundle.MAGIC + struct.pack("<QQQQ", 1, 56 + len(name), len(inner), len(name)) + name.encode()
    elements = amd.contents(host_elf, host(".hip_fatbin", head + inner)).elements
    assert [element.data for element in elements] == [head + inner]


def test_a_damaged_bundle_costs_a_note_and_the_next_one_is_read():
    sick = offload_bundle.MAGIC + struct.pack("<Q", 1 << 60)
    found = amd.contents(host_elf, host(".hip_fatbin", sick + bytes(64) + BUNDLE))
    assert [element.data for element in found.elements] == [BUNDLE]
    assert "byte 0 of .hip_fatbin" in found.notes[0]


def test_a_section_without_any_bundle_is_a_note():
    found = amd.contents(host_elf, host(".hip_fatbin", b"nothing here"))
    assert found.elements == ()
    assert "no offload bundle" in found.notes[0]


def test_a_host_program_without_device_code_says_so_alone_and_is_silent_inside_an_archive():
    data = amd.sample("host-plain.o")
    with pytest.raises(Unsupported, match="no device code"):
        amd.contents(host_elf, data)
    inside = amd.contents(host_elf, data, name="member.o")
    assert (inside.elements, inside.notes) == ((), ())


def test_a_program_without_section_table_says_what_is_missing():
    data = bytearray(amd.sample("host"))
    data[40:48], data[58:64] = bytes(8), bytes(6)
    with pytest.raises(Unsupported, match="section table was cut off"):
        amd.contents(host_elf, bytes(data))


def test_truncated_programs_cost_an_error_or_what_is_left():
    for data in amd.truncations(amd.sample("host"))[1::7]:
        if host_elf.claims(data):
            assert amd.survives(lambda data=data: images(data)) in {"Malformed", "Unsupported", "answered"}


def test_a_section_full_of_magic_numbers_is_bounded():
    data = host(".hip_fatbin", (offload_bundle.MAGIC + bytes(8)) * 5000)
    amd.survives(lambda: amd.contents(host_elf, data), 16 << 20)


def test_an_elf_header_alone_is_malformed():
    with pytest.raises(Malformed):
        amd.contents(host_elf, amd.sample("host")[:30])


class Searched(bytes):
    """Bytes that count how many of them are gone through."""

    looked_at = 0

    def find(self, wanted, start=0, end=None):
        found = super().find(wanted, start, len(self) if end is None else end)
        self.looked_at += (found if found >= 0 else min(len(self), len(self) if end is None else end)) - start
        return found


def test_many_bundles_are_found_in_one_walk():
    """Of a kind that is not there the rest of the section was gone through again for each: minutes for 100 KB of a file."""
    data = Searched(packed(BUNDLE) * 200)
    found = list(host_program._bundles(".hip_fatbin", FilePart(data, 0, len(data)), [], Budget(Limits())))
    assert len(found) == 200
    assert data.looked_at < 4 * len(data)


def test_code_inside_a_bundle_is_not_searched():
    """Of a gigabyte of bundles that say where they end, what lies between them is."""
    first = amd.sample("aligned.bundle")
    data = Searched((first + bytes(-len(first) % 4096)) * 20)
    found = list(host_program._bundles(".hip_fatbin", FilePart(data, 0, len(data)), [], Budget(Limits())))
    assert len(found) == 20
    assert data.looked_at < len(data) / 4


@pytest.mark.parametrize("gap", [0, 1, 4073, 4095, 4096, 4097, 12_285, 200_000])
def test_a_bundle_is_found_wherever_a_search_begins_anew(gap):
    for bundle in (BUNDLE, packed(BUNDLE)):
        data = bytes(gap) + bundle
        (found,) = host_program._bundles(".hip_fatbin", FilePart(data, 0, len(data)), [], Budget(Limits()))
        assert found.data.startswith(bundle[:24])


def test_damaged_bundles_are_counted():
    damaged = offload_bundle.MAGIC + b"\xff" * 8
    with pytest.raises(LimitExceeded, match="object_count"):
        list(host_program._bundles(".hip_fatbin", FilePart(damaged * 20, 0, 640), [], Budget(Limits(object_count=10))))


class Watched(bytes):
    """Bytes that know the largest piece that was taken of them."""

    largest = 0

    def __getitem__(self, part):  # type: ignore[no-untyped-def, override]
        if isinstance(part, slice):
            self.largest = max(self.largest, len(range(*part.indices(len(self)))))
        return super().__getitem__(part)


def test_fat_binaries_of_a_program_are_read_one_entry_after_the_other():
    fatbin = (Path(__file__).parents[3] / "samples/cuda/bin/tonemap.none.fatbin").read_bytes()
    section = b"".join(part + bytes(-len(part) % 8) for part in [fatbin] * 40)
    data = Watched(host(".nv_fatbin", section))
    found = [code.data for code in ContainerUnpacker(data, Limits())]
    assert found == [code.data for code in ContainerUnpacker(fatbin, Limits())] * 40
    assert max(map(len, found)) <= data.largest <= len(fatbin)
