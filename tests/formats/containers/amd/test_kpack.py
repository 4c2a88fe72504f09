"""Kernel packs: laid out by hand as the format's page says, damaged ones, and host programs that refer to them."""

from __future__ import annotations

import msgpack
import pytest

from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, SymdError, Unsupported
from symd.formats import containers
from symd.formats.budget import Budget
from symd.formats.containers import host_elf
from symd.formats.containers.amd import kpack
from symd.formats.containers.format import Element
from tests.builders.kpack import host, kernel_pack
from tests.formats.containers.amd import objects

GFX900, GFX1100 = objects.sample("v4-gfx900.co"), objects.sample("v5-gfx1100.co")
ENTRIES = (
    ("lib/librand.so.1#0", "gfx900", GFX900),
    ("lib/librand.so.1#0", "gfx1100", GFX1100),
    ("lib/librand.so.1#1", "gfx900:xnack+", GFX900),
    ("bin/tool#0", "gfx900", GFX900),
)


@pytest.mark.parametrize("zstd", [False, True])
def test_code_objects_are_the_bytes_that_went_in(zstd):
    found = objects.contents(kpack, kernel_pack(*ENTRIES, zstd=zstd))
    assert [(element.name, element.target, element.data) for element in found.elements] == [
        ("lib_librand.so.1#0-gfx900", "gfx900", GFX900),
        ("lib_librand.so.1#0-gfx1100", "gfx1100", GFX1100),
        ("lib_librand.so.1#1-gfx900:xnack+", "gfx900:xnack+", GFX900),
        ("bin_tool#0-gfx900", "gfx900", GFX900),
    ]
    assert found.notes == ()
    assert found.facts == {
        "group_name": "rand",
        "gfx_arch_family": "gfx9",
        "gfx_arches": ["gfx900"],
        "compression_scheme": "zstd-per-kernel" if zstd else "none",
    }


def test_a_pack_is_opened_like_any_container():
    opened = containers.unpack(kernel_pack(*ENTRIES, zstd=True))
    assert opened.format == "kpack"
    assert [code.target for code in opened.objects] == ["gfx900", "gfx1100", "gfx900", "gfx900"]


def test_one_program_s_code_objects_are_found_and_no_other_is_expanded():
    pack = kernel_pack(*ENTRIES, zstd=True)
    room = objects.budget(expansion=len(GFX900))
    assert [entry.program for entry in kpack.opened(pack, room, "bin/tool").entries] == ["bin/tool#0"]


def test_what_is_packed_is_read_again():
    entries = tuple(kpack.Entry(*entry) for entry in ENTRIES)
    assert kpack.opened(kpack.packed(entries), objects.budget()).entries == entries


@pytest.mark.parametrize(
    ("pack", "error", "said"),
    [
        (b"KPAK\1\0", Malformed, "ends inside its header"),
        (kernel_pack(*ENTRIES, version=2), Unsupported, "version 2 are not read"),
        (kernel_pack(*ENTRIES)[:64], Malformed, "puts its table at byte"),
        (kernel_pack(*ENTRIES)[:-1], Malformed, "table is cut off"),
        (kernel_pack(*ENTRIES) + b"\xc0", Malformed, "not msgpack that can be read"),
        (kernel_pack(*ENTRIES, toc=[1]), Malformed, "toc of the kernel pack is not a map"),
        (kernel_pack(*ENTRIES, toc={"a": 1}), Malformed, "entry 'a' of the kernel pack is not a map"),
        (kernel_pack(*ENTRIES, toc={"a": {"b": {"ordinal": -1}}}), Malformed, "no ordinal"),
        (kernel_pack(*ENTRIES, blobs=None), Malformed, "no list of blobs"),
        (kernel_pack(*ENTRIES, blobs=[{"offset": 1 << 62, "size": 1}]), Malformed, "leaves its"),
        (kernel_pack(*ENTRIES, compression_scheme="lz4"), Unsupported, "'lz4'"),
        (kernel_pack(*ENTRIES, zstd=True, zstd_size=5), Malformed, "frames, and 0 are there"),
        (kernel_pack(*ENTRIES, zstd=True, zstd_offset=1 << 60), Malformed, "leave its"),
    ],
)
def test_a_pack_whose_table_is_wrong_is_refused_by_name(pack, error, said):
    with pytest.raises(error, match=said):
        objects.contents(kpack, pack)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ({"ordinal": 4, "original_size": 1}, "code object 4 of a kernel pack with 4"),
        ({"ordinal": 0, "original_size": 5}, "should expand to 5 bytes"),
        ({"ordinal": 0}, "does not say to how many bytes"),
        ({"ordinal": 0, "type": "spirv", "original_size": 5}, "type 'spirv'"),
    ],
)
def test_a_damaged_entry_is_left_out_and_named(line, said):
    pack = kernel_pack(*ENTRIES, zstd=True, toc={"lib/a.so#0": {"gfx900": line}})
    found = objects.contents(kpack, pack)
    assert found.elements == ()
    assert "lib/a.so#0 for gfx900" in found.notes[0]
    assert said in found.notes[0]


def test_what_a_pack_may_cost_is_bounded():
    bomb = kernel_pack(("a#0", "gfx900", bytes(4 << 20)), zstd=True)
    with pytest.raises(LimitExceeded) as caught:
        kpack.read(Element("", bomb), objects.budget(expansion=1 << 20))
    assert caught.value.metadata["limit"] == "expansion"
    many = kernel_pack(*(("a#0", f"gfx{number}", b"") for number in range(20)))
    with pytest.raises(LimitExceeded) as caught:
        kpack.read(Element("", many), objects.budget(object_count=19))
    assert caught.value.metadata["limit"] == "object_count"


def test_lists_that_say_more_than_is_there_cost_nothing():
    table = bytes.fromhex("dfffffffff")  # a map of 2^32 - 1 entries
    pack = kernel_pack(*ENTRIES)
    start = int.from_bytes(pack[8:16], "little")
    assert objects.survives(lambda: objects.contents(kpack, pack[:start] + table), most=1 << 20) == "Malformed"


def test_a_host_program_says_where_its_code_objects_are():
    found = objects.contents(host_elf, host("lib/librand.so.1", "../.kpack/rand_@GFXARCH@.kpack", units=2))
    assert found.elements == ()
    assert found.notes == (
        "2 code objects for each processor are in kernel packs, as 'lib/librand.so.1': ../.kpack/rand_@GFXARCH@.kpack",
    )
    assert found.facts["kernel_packs"] == {
        "program": "lib/librand.so.1",
        "search_paths": ("../.kpack/rand_@GFXARCH@.kpack",),
        "units": 2,
    }


@pytest.mark.parametrize(
    "reference",
    [b"", b"\xc1", b"\x80", b"\x90", msgpack.packb({"kernel_name": 1}), msgpack.packb({"kernel_name": "a"})],
)
def test_a_reference_that_cannot_be_read_is_malformed(reference):
    with pytest.raises(SymdError, match="rocm_kpack_ref"):
        objects.contents(host_elf, host("a", "b", reference=reference))


@pytest.mark.parametrize("zstd", [False, True])
def test_the_same_bytes_are_read_once_by_however_many_names(zstd):
    """A line of the table takes 30 bytes, and what it names any number, and thousands of times the work."""
    line = {"type": "hsaco", "ordinal": 0, "original_size": len(GFX900)}
    toc = {f"p#{number}": {"gfx900": line} for number in range(1000)}
    toc["other#0"] = {"gfx900": {**line, "ordinal": 1}}
    pack = kpack.opened(kernel_pack(*ENTRIES[:1], *ENTRIES[3:], zstd=zstd, toc=toc), Budget(Limits()))
    assert [(entry.program, entry.content) for entry in pack.entries] == [("p#0", GFX900), ("other#0", GFX900)]
    assert pack.notes == ("left out: 999 more entries with the bytes of p#0 for gfx900",)


def test_blobs_that_begin_at_one_place_are_the_same_bytes():
    blobs = [{"offset": 64, "size": len(GFX900) - number} for number in range(3)]
    toc = {f"p#{number}": {"gfx900": {"type": "hsaco", "ordinal": number}} for number in range(3)}
    pack = kpack.opened(kernel_pack(*ENTRIES[:1], toc=toc, blobs=blobs), Budget(Limits()))
    assert [entry.program for entry in pack.entries] == ["p#0"]


def test_entries_that_overlap_do_not_multiply_the_file():
    code = bytes(100_000)
    blobs = [{"offset": 64 + number, "size": 99_000} for number in range(1000)]
    toc = {f"p#{number}": {"gfx900": {"type": "hsaco", "ordinal": number}} for number in range(1000)}
    pack = kpack.opened(kernel_pack(("p#0", "gfx900", code), toc=toc, blobs=blobs), Budget(Limits()))
    assert 0 < len(pack.entries) < 20
    assert len(pack.notes) == 1
    assert "hold 8 times its bytes" in pack.notes[0]
