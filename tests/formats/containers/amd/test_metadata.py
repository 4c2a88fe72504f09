"""Kernel metadata against what llvm-readelf prints of the same notes, and notes that were made to hurt."""

from __future__ import annotations

import msgpack
import pytest
import yaml

from symd.config import Limits
from symd.formats import elf
from symd.formats.containers.amd import metadata as amdgpu_metadata
from symd.formats.containers.amd.metadata import Metadata, _take, metadata
from symd.formats.elf import Note
from symd.index import Index
from symd.index.module import build_index
from tests import tools
from tests.formats.containers.amd import objects

MSGPACK = [
    name for name in objects.OBJECTS if not name.startswith("v2") and "scale" not in name and "headers" not in name
]
SAME = {
    "vgprs": ".vgpr_count",
    "sgprs": ".sgpr_count",
    "agprs": ".agpr_count",
    "shared_memory": ".group_segment_fixed_size",
    "scratch": ".private_segment_fixed_size",
    "kernarg_size": ".kernarg_segment_size",
    "simd_width": ".wavefront_size",
    "max_workgroup_size": ".max_flat_workgroup_size",
}
ARGUMENT = {"name": ".name", "type": ".type_name", "offset": ".offset", "size": ".size", "kind": ".value_kind"}
OLD = {
    "vgprs": "NumVGPRs",
    "sgprs": "NumSGPRs",
    "shared_memory": "GroupSegmentFixedSize",
    "kernarg_size": "KernargSegmentSize",
    "simd_width": "WavefrontSize",
}


def printed(name: str) -> dict:
    """The YAML document in llvm-readelf's listing of the notes."""
    text = tools.output(tools.require("llvm-readelf-22"), "--notes", objects.path(name))
    begin = text.index("---\n")
    return yaml.safe_load(text[begin : text.index("\n...", begin)])


@pytest.mark.parametrize("name", MSGPACK)
def test_kernel_facts_are_those_that_readelf_prints(name):
    theirs = {kernel[".name"]: kernel for kernel in printed(name)["amdhsa.kernels"]}
    ours = {kernel.name: kernel.facts for kernel in objects.code(name).kernels}
    assert set(ours) == set(theirs)
    for kernel, facts in ours.items():
        assert {key: facts.get(key) for key in SAME} == {key: theirs[kernel].get(SAME[key]) for key in SAME}
        arguments = [
            {key: one[ARGUMENT[key]] for key in ARGUMENT if ARGUMENT[key] in one} for one in theirs[kernel][".args"]
        ]
        assert [{key: one[key] for key in ARGUMENT if key in one} for one in facts["arguments"]] == arguments
        assert facts["registers"] == theirs[kernel][".vgpr_count"]


def test_version_2_metadata_is_the_yaml_that_readelf_prints():
    theirs = {kernel["Name"]: kernel for kernel in printed("v2-gfx900.co")["Kernels"]}
    for kernel in objects.code("v2-gfx900.co").kernels:
        properties = theirs[kernel.name]["CodeProps"]
        assert {key: kernel.facts[key] for key in OLD} == {key: properties[OLD[key]] for key in OLD}
        assert [one["type"] for one in kernel.facts["arguments"]] == [
            one["TypeName"] for one in theirs[kernel.name]["Args"]
        ]


@pytest.mark.parametrize("name", MSGPACK)
def test_the_metadata_version_follows_the_code_object_version(name):
    assert objects.code(name).facts["metadata_version"] == {"3": "1.0", "4": "1.1"}.get(name[1], "1.2")


def taken(note: Note) -> Metadata:
    result = Metadata()
    _take(note, result)
    return result


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xc1",
        b"\xdd\xff\xff\xff\xff" * 200,
        b"\xdf\xff\xff\xff\xff",
        b"\x91" * 100_000,
        msgpack.packb([1, 2]),
        msgpack.packb({"amdhsa.kernels": 1}) + b"rest",
        b"\xa5\xff\xff\xff\xff\xff",
        b"\x81\x90\x01",
    ],
)
def test_damaged_msgpack_is_a_warning(data):
    objects.survives(lambda: taken(Note("AMDGPU", 32, data)))
    assert len(taken(Note("AMDGPU", 32, data)).warnings) == 1


def test_strange_msgpack_values_are_passed_over():
    tree = {
        "amdhsa.target": 7,
        "amdhsa.version": ["a", None],
        "amdhsa.kernels": [3, {".name": 4}, {".name": "k", ".args": {"x": 1}, ".vgpr_count": [1], ".sgpr_count": 9}],
    }
    result = taken(Note("AMDGPU", 32, msgpack.packb(tree)))
    assert (result.target, result.version, result.warnings) == (None, None, [])
    assert result.kernels == {"k": {"sgprs": 9, "arguments": []}}


@pytest.mark.parametrize(
    "text",
    [
        "[" * 50_000,
        "- " * 50_000,
        "{a: " * 20_000,
        "? " * 20_000,
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b",
        "just text",
        "\x07",
    ],
)
def test_damaged_yaml_is_a_warning(text):
    objects.survives(lambda: taken(Note("AMD", 10, text.encode())))
    assert len(taken(Note("AMD", 10, text.encode())).warnings) == 1


def test_yaml_aliases_do_not_multiply():
    arguments = "&args [" + "{Name: x}," * 1000 + "]"
    kernels = "".join(f"  - {{Name: k, Args: {arguments if not number else '*args'}}}\n" for number in range(500))
    objects.survives(lambda: taken(Note("AMD", 10, f"Kernels:\n{kernels}".encode())), 32 << 20)


def test_a_note_that_leaves_its_section_is_a_warning_and_the_kernels_stay():
    data = bytearray(objects.sample("v4-gfx900.co"))
    at = bytes(data).index(b"AMDGPU\0\0")
    data[at - 8 : at - 4] = (1 << 30).to_bytes(4, "little")
    code = objects.decode(bytes(data))
    assert [one.name for one in code.kernels] == ["shade", "clear"]
    assert any("note" in warning for warning in code.warnings)


def test_notes_of_other_owners_are_passed_over():
    assert vars(taken(Note("GNU", 32, b"\xc1"))) == vars(Metadata())
    assert vars(taken(Note("AMD", 3, b"short"))) == vars(Metadata())


def test_an_image_without_notes_has_empty_metadata():
    whole = elf.parse(objects.sample("v4-gfx900.co"), objects.budget())
    image = elf.Elf(whole.header, whole.data, ())
    assert vars(metadata(image)) == vars(Metadata())


@pytest.fixture
def reads(monkeypatch):
    """The images whose metadata was read."""
    seen = []

    def counted(image):
        seen.append(image)
        return metadata(image)

    monkeypatch.setattr(amdgpu_metadata, "metadata", counted)
    return seen


@pytest.mark.parametrize(
    "name", ["v4-gfx900.co", "v4-gfx900-sections.o", "v6-gfx942-xnack.co", "v4-gfx900-stripped.co"]
)
def test_opening_an_object_reads_no_metadata_until_somebody_looks(name, reads):
    code = objects.code(name)
    assert {"shade", "clear"} <= {kernel.name for kernel in code.kernels}
    assert (code.target.startswith("gfx9"), len(reads)) == (True, 0)
    assert all(kernel.facts["registers"] for kernel in code.kernels)
    assert code.facts["metadata_version"]
    assert code.warnings == ()
    assert len(reads) == 1


def renamed(data: bytes, old: bytes, new: bytes) -> bytes:
    """The same with every string ``old`` of its string tables called ``new``."""
    assert len(old) == len(new)
    assert b"\0" + old + b"\0" in data
    return data.replace(b"\0" + old + b"\0", b"\0" + new + b"\0")


def test_a_kernel_that_only_the_metadata_names_is_found(reads):
    """Its descriptor's symbol is called otherwise, so that the function alone has the kernel's name."""
    whole, cut = (
        objects.code("v4-gfx900.co"),
        objects.decode(renamed(objects.sample("v4-gfx900.co"), b"shade.kd", b"shade.kx")),
    )
    assert [(one.name, one.offset, one.size) for one in cut.kernels] == [
        (one.name, one.offset, one.size) for one in whole.kernels
    ]
    described = {"dynamic_stack"}  # what only a descriptor says
    assert cut.kernels[0].facts == {key: value for key, value in whole.kernels[0].facts.items() if key not in described}
    assert cut.kernels[1].facts == whole.kernels[1].facts


@pytest.mark.parametrize("few", [0, 16])
def test_functions_that_no_metadata_names_are_no_kernels_however_many_they_are(few, monkeypatch):
    monkeypatch.setattr(amdgpu_metadata, "_SEARCHED_NAMES", few)
    code = objects.decode(renamed(objects.sample("v4-gfx900.co"), b"shade.kd", b"shade.kx"))
    assert [one.name for one in code.kernels] == ["shade", "clear"]
    assert "march" in {one.name for one in code.functions}


@pytest.mark.parametrize(
    ("old", "new", "warning"),
    [
        (b"\xa5.name", b"\xc1.name", "metadata note is not msgpack that can be read: "),
        (b"\xa5.args", b"\x90.args", "metadata note is not msgpack that can be read: list is not allowed for map key"),
        (b"\xa5shade", b"\xa5\xffhade", "can't decode byte 0xff in position 0: invalid start byte"),
        (b"\xa5shade", b"\xdbshade", "metadata note is cut off"),
        (b"AMDGPU\0\0", b"amdgpu\0\0", None),
    ],
)
def test_a_damaged_note_is_a_note_of_the_summary_and_costs_the_metadata_alone(old, new, warning):
    data = objects.sample("v4-gfx900.co")
    assert old in data
    summary = Index(build_index(data.replace(old, new, 1), Limits())).summary
    [item] = summary.objects
    assert [one for one in item.notes if "metadata" in one] == ([] if warning is None else [item.notes[0]])
    assert warning is None or warning in item.notes[0]
    assert [kernel.name for kernel in item.kernels] == ["shade", "clear"]
    assert set(item.kernels[0].facts) == {"shared_memory", "scratch", "kernarg_size", "simd_width", "dynamic_stack"}
