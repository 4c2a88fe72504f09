"""Fat binaries of fatbinary 13.0 and 13.5 against cuobjdump -xelf, and damaged, nested and inflating ones against the limits."""

from __future__ import annotations

import hashlib
import struct

import lz4.block
import pytest
import zstandard

from symd.config import Limits
from symd.errors import LimitExceeded, Malformed, SymdError, Unsupported
from symd.formats import budget, containers, elf
from symd.formats.budget import Budget
from symd.formats.containers.nvidia import cubin, fatbin
from tests.golden.cuda import make, samples

COMPRESSED = {"tonemap.none.fatbin": "none", "tonemap.lz4.fatbin": "lz4", "tonemap.zstd.fatbin": "zstd"}
CONCATENATED = ("tonemap.concat-zstd.fatbin", "tonemap.concat-lz4.fatbin")
PTX, ELF, LTO, TILE, CONCAT, LZ4, ZSTD = 1, 2, 8, 0x80, 0x100, 0x2000, 0x8000


def entry(content: bytes, kind: int = ELF, arch: int = 80, flags: int = 0x11, **lies: int) -> bytes:
    """One entry after the layout: a 64-byte header, then the content padded to 8 bytes."""
    raw = lies.get("raw", len(content) if flags & (LZ4 | ZSTD) else 0)
    padded = content + bytes(-len(content) % 8)
    size, packed, header = lies.get("size", len(padded)), lies.get("packed", len(content)), lies.get("header", 64)
    head = struct.pack("<HHIQIIHHIIIQQQ", kind, 0x0101, header, size, packed, 0, 8, 1, arch, 0, 0, flags, 0, raw)
    return head + padded


def image(offset: int, size: int, arch: int = 80, **lies: int) -> bytes:
    """What the list of a concatenated entry says of one image, with a name and options that are not text."""
    name, options = b"a.cu\0\0\0\0", struct.pack("<II", 0x50, 4) + b"\0\2\x09\0" + bytes(4)
    kind, name_at = lies.get("kind", ELF), lies.get("name_at", 64)
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", kind, 0x0101, offset, size, 0, 72, 8, 1, arch, name_at, lies.get("name_size", 4), 0x11, 0, 0
    )
    return head + name + options


def concatenated(content: bytes, *images: bytes, flags: int = ZSTD, **lies: int) -> bytes:
    """A concatenated entry of these images, of what ``content`` compresses to."""
    listed = b"".join(images)
    size = lies.get("list_size", 8 + len(listed))
    listed = struct.pack("<II", lies.get("number", len(images)), size) + listed
    packed = zstandard.compress(content) if flags & ZSTD else content
    packed_size = len(packed)
    packed += bytes(-len(packed) % 8)
    head = struct.pack(
        "<HHIQIIHHIIIQQQ", CONCAT, 0x0101, 64 + len(listed), len(packed), packed_size, lies.get("begin", 64), 1, 0, 0, 0, 0,
        0x11 | flags, 0, len(content),
    )  # fmt: skip
    return head + listed + packed


def container(*entries: bytes, version: int = 1, header: int = 16, size: int | None = None) -> bytes:
    body = b"".join(entries)
    return struct.pack("<IHHQ", 0xBA55ED50, version, header, len(body) if size is None else size) + body


@pytest.fixture
def formats(monkeypatch):
    """The opener with the formats of this vendor alone."""
    monkeypatch.setattr(containers, "FORMATS", (fatbin, cubin))


@pytest.mark.parametrize("name", [name for name in samples.FATBINS if name in make.read("extracted.txt")])
def test_extracted_cubins_have_the_hashes_of_those_that_cuobjdump_extracts(name):
    golden = [line.split() for line in make.read("extracted.txt")[name]]
    elements = samples.read_fatbin(samples.data(name)).elements
    found = sorted(
        (f"{element.name}.cubin", len(element.data), hashlib.sha256(element.data).hexdigest()) for element in elements
    )
    assert found == [(file.split(".", 1)[1], int(size), digest) for file, size, digest in golden]


@pytest.mark.parametrize("name", COMPRESSED)
def test_the_samples_are_really_compressed_as_their_names_say(name):
    entries = samples.read_fatbin(samples.data(name)).facts["entries"]
    assert [one["compression"] for one in entries] == [COMPRESSED[name]] * 3
    assert [one["target"] for one in entries] == ["sm_80", "sm_90a", "compute_90"]
    assert all((one["stored_size"] < one["size"]) == (COMPRESSED[name] != "none") for one in entries)


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("saxpy.ptx.fatbin", "PTX entry compute_90 at byte 16: skipped, it holds no machine code"),
        (
            "saxpy.lto.fatbin",
            "LTO entry lto_90 at byte 16: skipped, it holds NVVM IR and no machine code, which linking makes of it (nvcc -dlto, nvlink)",
        ),
    ],
)
def test_ptx_and_lto_are_named_and_never_expanded(name, note):
    contents = samples.read_fatbin(samples.data(name), Limits(expansion=0))
    assert contents.elements == ()
    assert contents.notes == (note,)


def test_an_entry_of_an_unknown_kind_is_named_by_its_number():
    contents = samples.read_fatbin(container(entry(b"x" * 8, kind=77), entry(b"\x7fELF....")))
    assert contents.notes == ("kind 77 entry sm_80 at byte 16: skipped, symd does not know what it holds",)
    assert [element.name for element in contents.elements] == ["sm_80"]
    (note,) = samples.read_fatbin(container(*[entry(b"x" * 8, kind=77)] * 2)).notes
    assert note == "2 kind 77 entries (sm_80): skipped, symd does not know what they hold"


def test_tile_ir_is_named():
    (note,) = samples.read_fatbin(container(entry(b"\x7fTileIR\0", kind=TILE, arch=100))).notes
    assert note == "Tile IR entry sm_100 at byte 16: skipped, it holds no machine code, which tileiras makes of it"


@pytest.mark.parametrize("name", CONCATENATED)
def test_images_of_concatenated_entries_are_code_objects_like_others(name, formats):
    unpacked = containers.unpack(samples.data(name))
    assert [one.path for one in unpacked.objects] == ["sm_75", "sm_80", "sm_90a", "sm_100", "sm_103"]
    assert {kernel.name for one in unpacked.objects for kernel in one.kernels} == {"tonemap"}
    entries = unpacked.containers[0].facts["entries"]
    assert {one["compression"] for one in entries if one["concatenated"]} == {"lz4" if "lz4" in name else "zstd"}
    assert {one["name"] for one in entries} == {"tonemap.cu"}
    assert containers.unpack(samples.data(name), path="sm_90a").objects[0].data == unpacked.objects[2].data


def test_a_concatenated_entry_is_expanded_once_for_all_of_its_images():
    contents = bytes(range(256)) * 80
    data = container(concatenated(contents, *(image(1024 * number, 1024) for number in range(20))))
    expansion = len(contents)
    elements = samples.read_fatbin(data, Limits(expansion=expansion)).elements
    assert b"".join(element.data for element in elements) == contents
    with pytest.raises(LimitExceeded, match="expansion"):
        expanded(samples.read_fatbin(data, Limits(expansion=expansion - 1)))


def test_images_without_machine_code_are_named_and_the_next_entry_is_read():
    data = container(concatenated(bytes(16), image(0, 8, kind=PTX), image(8, 8)), entry(b"\x7fELF....", arch=90))
    contents = samples.read_fatbin(data)
    assert [element.name for element in contents.elements] == ["sm_80", "sm_90"]
    assert contents.notes == ("PTX image compute_80 at byte 88: skipped, it holds no machine code",)


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (concatenated(bytes(16), image(0, 17)), "at byte 88 ends at byte 17 of 16"),
        (concatenated(bytes(16), image(9, 8)), "at byte 88 ends at byte 17 of 16"),
        (concatenated(bytes(16), image(0, 8), number=2), "2 images ends inside of one, at byte 176"),
        (concatenated(bytes(16), image(0, 8), number=1 << 31), "ends inside of one"),
        (concatenated(bytes(16), image(0, 8), list_size=1 << 31), "leaves its header of 160"),
        (concatenated(bytes(16), image(0, 8), list_size=40), "ends inside of one"),
        (concatenated(bytes(16), image(0, 8), begin=1 << 31), "leaves its header"),
        (concatenated(bytes(16), image(0, 8), begin=8), "leaves its header"),
        (concatenated(bytes(16), image(0, 8), begin=153), "leaves its header"),
        (concatenated(bytes(16), image(0, 8, name_size=1 << 31), image(8, 8)), "ends inside of one"),
    ],
)
def test_a_list_of_images_that_lies_costs_what_it_lies_about(damaged, message):
    contents = samples.read_fatbin(container(damaged, entry(b"\x7fELF....", arch=90)))
    assert contents.elements[-1].name == "sm_90"
    (note,) = contents.notes
    assert note.startswith("left out: cuda-fatbin: concatenated entry at byte 16: ")
    assert message in note


def test_a_cubin_that_was_padded_is_what_ptxas_wrote(formats):
    cubins = [code.data for code in containers.unpack(samples.data(CONCATENATED[0])).objects]
    assert {len(each) % 8 for each in cubins} == {0, 4, 6}
    plain = container(*map(entry, cubins))
    assert [code.data for code in containers.unpack(plain).objects] == cubins


def test_many_entries_without_machine_code_are_one_note_for_each_kind():
    ptx = [entry(b"x" * 8, kind=fatbin.PTX, arch=arch) for arch in (80, 90, 80)]
    contents = samples.read_fatbin(container(*ptx, entry(b"\x7fELF...."), entry(b"x" * 8, kind=fatbin.LTO, arch=90)))
    assert contents.notes == (
        "3 PTX entries (compute_80, compute_90): skipped, they hold no machine code",
        "LTO entry lto_90 at byte 304: skipped, it holds NVVM IR and no machine code, which linking makes of it (nvcc -dlto, nvlink)",
    )


def test_names_and_options_of_entries_are_facts():
    entries = samples.read_fatbin(samples.data("tonemap.default.fatbin")).facts["entries"]
    assert {one["name"] for one in entries} == {"tonemap.cu"}
    assert [one["options"].strip() for one in entries] == ["", "", "--generate-line-info"]


@pytest.mark.parametrize("padding", [0, 8, 4096])
def test_containers_follow_one_another_over_padding(padding, formats):
    data = samples.data("tonemap.lz4.fatbin") + bytes(padding) + samples.data("saxpy.debug.fatbin") + bytes(padding)
    unpacked = containers.unpack(data)
    assert [(one.path, one.target) for one in unpacked.objects] == [
        ("sm_80", "sm_80"),
        ("sm_90a", "sm_90a"),
        ("sm_100", "sm_100"),
    ]
    assert [kernel.name for kernel in unpacked.objects[2].kernels] == ["saxpy", "scale"]


def test_two_cubins_for_one_target_keep_distinct_paths(formats):
    data = samples.data("tonemap.none.fatbin")
    assert [one.path for one in containers.unpack(data + data).objects] == ["sm_80", "sm_90a", "sm_80#2", "sm_90a#2"]


@pytest.mark.parametrize("between", [b"garbage.", container(version=9)])
def test_what_lies_between_containers_and_is_none_costs_a_note_alone(between, formats):
    unpacked = containers.unpack(container(entry(b"", kind=PTX)) + between + samples.data("saxpy.debug.fatbin"))
    assert [one.path for one in unpacked.objects] == ["sm_100"]
    assert len(unpacked.notes) == 2


HOST = {
    "program": (".nv_fatbin",),
    "program.o": (".nv_fatbin",),
    "program.rdc": (".nv_fatbin",),
    "program.rdc.o": ("__nv_relfatbin",),
}


@pytest.mark.parametrize("name", HOST)
def test_sections_of_host_programs_hold_what_cuobjdump_extracts(name):
    """cuobjdump leaves out what the host linker adds: a container of its own with a cubin without functions."""
    image = elf.parse(samples.data(name), Budget(Limits()))
    elements = [
        element for section in HOST[name] for element in samples.read_fatbin(image.by_name[section].data).elements
    ]
    elements = [element for element in elements if samples.read_cubin(element.data).functions]
    golden = [line.split()[1:] for line in make.read("extracted.txt")[name]]
    assert [[str(len(element.data)), hashlib.sha256(element.data).hexdigest()] for element in elements] == golden


def test_a_linked_host_program_still_holds_the_halves_of_its_device_link():
    image = elf.parse(samples.data("program.rdc"), Budget(Limits()))
    halves = samples.read_fatbin(image.by_name["__nv_relfatbin"].data).elements
    assert [samples.read_cubin(element.data).facts["relocatable"] for element in halves] == [True] * 3
    (final,) = samples.read_fatbin(image.by_name[".nv_fatbin"].data).elements
    assert [kernel.name for kernel in samples.read_cubin(final.data).kernels] == [
        "_Z6exposePff",
        "_Z7weightsPfPKf",
        "_Z5decayPff",
    ]


def test_what_follows_a_container_and_is_none_is_noted():
    contents = samples.read_fatbin(samples.data("saxpy.ptx.fatbin") + b"garbage")
    assert contents.notes[-1] == "7 bytes at byte 552, behind a container, are no container"


@pytest.mark.parametrize("name", ["tonemap.lz4.fatbin", "tonemap.none.fatbin", "saxpy.lto.fatbin"])
def test_a_truncated_file_answers_the_healthy_part_or_names_what_is_missing(name):
    whole = samples.data(name)
    healthy = [element.data for element in samples.read_fatbin(whole).elements]
    for size in (*range(4, 300), *range(300, len(whole) - 1, 211)):
        try:
            contents = samples.read_fatbin(whole[:size])
        except SymdError as error:
            assert "byte" in str(error)  # noqa: PT017 - either outcome is right, and each is checked
            continue
        assert [element.data for element in contents.elements] == healthy[: len(contents.elements)]
        assert any(note.startswith("left out") for note in contents.notes)


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (container(version=2), Unsupported, "version 2"),
        (container(entry(b""), header=8), Malformed, "header of 8 bytes"),
        (container(size=1 << 63), Malformed, "ends at byte"),
        (container(entry(b"", size=1 << 62)), Malformed, "end past byte"),
        (container(entry(b"", header=32)), Malformed, "header of 32"),
        (container(entry(b"", header=0xFFFFFFFF)), Malformed, "end past byte"),
        (container(entry(bytes(8), flags=LZ4, packed=4000)), Malformed, "4000 compressed bytes in a content of 8"),
        (container(entry(b"\xff" * 64, flags=LZ4, raw=100)), Malformed, "LZ4 data is damaged"),
        (container(entry(b"\xff" * 64, flags=ZSTD, raw=100)), Malformed, "zstd data is damaged"),
        (container(entry(lz4.block.compress(bytes(99), store_size=False), flags=LZ4, raw=100)), Malformed, "gives 99"),
        (container(entry(zstandard.compress(bytes(99)), flags=ZSTD, raw=98)), Malformed, "gives more"),
    ],
)
def test_lies_are_refused_by_name(data, error, message):
    with pytest.raises(error, match=message):
        expanded(samples.read_fatbin(data))


def expanded(contents):
    """Entries are expanded when somebody looks at their bytes."""
    return [element.data for element in contents.elements]


@pytest.mark.parametrize("method", [LZ4, ZSTD])
def test_a_bomb_is_refused_before_it_is_expanded(method):
    compress = lz4.block.compress if method == LZ4 else zstandard.compress
    bomb = compress(bytes(1 << 20), **({"store_size": False} if method == LZ4 else {}))
    for raw in (1 << 20, 1 << 40, (1 << 64) - 1):
        with pytest.raises(LimitExceeded, match="expansion"):
            expanded(samples.read_fatbin(container(entry(bomb, flags=method, raw=raw)), Limits(expansion=1 << 19)))
    with pytest.raises(LimitExceeded, match="100 bytes for each byte of the file"):
        expanded(samples.read_fatbin(container(entry(bomb, flags=method, raw=1 << 40)), Limits(expansion=1 << 41)))


def test_a_damaged_entry_leaves_the_others():
    good = b"\x7fELF and more good"[:16]
    contents = samples.read_fatbin(container(entry(b"\xff" * 64, flags=LZ4, raw=100), entry(good, arch=90)))
    damaged, sound = contents.elements
    with pytest.raises(Malformed, match="ELF entry sm_80 at byte 16: LZ4 data is damaged"):
        damaged.data  # noqa: B018 - expanded when somebody looks
    assert (sound.name, sound.data) == ("sm_90", good)


def test_fat_binaries_in_fat_binaries_end_at_the_depth_limit(formats, monkeypatch):
    data = samples.data("saxpy.sm_90.none.cubin")
    for _ in range(4):
        data = container(entry(data, arch=90))
    (found,) = containers.unpack(data).objects
    assert found.path == "sm_90/sm_90/sm_90/sm_90"
    monkeypatch.setattr(budget, "NESTING_DEPTH", 3)
    with pytest.raises(LimitExceeded, match="more than 3 containers"):
        containers.unpack(data)


def test_entries_without_code_count_as_parts_too():
    many = container(*[entry(b"", kind=PTX)] * 50)
    with pytest.raises(LimitExceeded, match="object_count"):
        samples.read_fatbin(many, Limits(object_count=50))
    (note,) = samples.read_fatbin(many, Limits(object_count=51)).notes
    assert note.startswith("50 PTX entries")


def test_containers_without_entries_count_as_parts_too():
    with pytest.raises(LimitExceeded, match="object_count"):
        samples.read_fatbin(container() * 50, Limits(object_count=49))


def test_an_empty_container_has_nothing():
    contents = samples.read_fatbin(container())
    assert (contents.elements, contents.notes) == ((), ())
