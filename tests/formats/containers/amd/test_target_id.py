"""Target IDs against what llvm-readelf prints for every processor number, and against the cases of the specification."""

from __future__ import annotations

import re
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symd.formats.containers.amd import amdgpu
from tests import tools
from tests.formats.containers.amd import objects


def test_every_processor_has_the_name_that_readelf_gives_its_number(tmp_path):
    """Version 22 no longer names gfx940 and gfx941, version 19 does not yet name the newest."""
    image = bytearray(objects.sample("v4-gfx900.co"))
    for number in amdgpu.MACHINES:
        struct.pack_into("<I", image, 48, number)
        (tmp_path / f"{number:x}").write_bytes(image)
    names = [tmp_path / f"{number:x}" for number in amdgpu.MACHINES]
    texts = [tools.output(tools.require(tool), "-h", *names) for tool in ("llvm-readelf-19", "llvm-readelf-22")]
    printed = re.findall(r"Flags: +(0x[0-9A-Fa-f]+), (gfx[0-9a-z-]+)", "".join(texts))
    assert {int(number, 16): name for number, name in printed} == amdgpu.MACHINES


@pytest.mark.parametrize(
    ("flags", "version", "target"),
    [
        (0x12C, 4, "gfx900"),
        (0x53F, 4, "gfx90a"),
        (0xE3F, 4, "gfx90a:sramecc+:xnack-"),
        (0xB2F, 4, "gfx906:sramecc-:xnack+"),
        (0x33F, 3, "gfx90a:sramecc+:xnack+"),
        (0x2C, 3, "gfx900"),
        (0x41, 5, "gfx1100"),
        (0x1000151, 6, "gfx9-generic"),
        (0xFE, 4, None),
        (0, 2, None),
    ],
)
def test_flags_become_a_target_id(flags, version, target):
    assert amdgpu.target_of_flags(flags, version) == target


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("v4-gfx90a-features.co", "gfx90a:sramecc+:xnack-"),
        ("v6-gfx942-xnack.co", "gfx942:xnack+"),
        ("v6-gfx9-generic.co", "gfx9-generic"),
        ("v2-gfx900.co", "gfx900:xnack+"),
        ("v3-gfx906-xnack-off.co", "gfx906:sramecc+"),
        ("v5-gfx1100.co", "gfx1100"),
        ("v2-scale-packed.co", "gfx900"),
    ],
)
def test_samples_are_for_the_processor_that_the_compiler_was_asked_for(name, target):
    assert objects.code(name).target == target


def test_the_version_of_a_generic_processor_is_a_fact():
    assert objects.code("v6-gfx9-generic.co").facts["generic_version"] == 1
    assert "generic_version" not in objects.code("v5-gfx90a.co").facts


def test_a_version_2_object_without_processor_in_its_flags_is_named_by_its_note():
    image = bytearray(objects.sample("v2-scale-packed.co"))
    image[48:52] = bytes(4)
    assert objects.decode(bytes(image)).target == "gfx900"


@pytest.mark.parametrize(
    ("isa", "target"), [((9, 0, 1), "gfx900:xnack+"), ((8, 0, 3), "gfx803"), ((9, 0, 12), "gfx90c")]
)
def test_isa_versions_become_target_ids(isa, target):
    assert amdgpu.target_of_isa(*isa) == target


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("hipv4-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"),
        ("amdgcn-amd-amdhsa--gfx1100", "gfx1100"),
        ("hip-amdgcn-amd-amdhsa--gfx9-4-generic", "gfx9-4-generic"),
        ("host-x86_64-unknown-linux--", None),
    ],
)
def test_the_target_id_ends_a_full_name(name, target):
    assert amdgpu.target_of_name(name) == target


TARGET = re.compile(r"gfx[0-9a-z-]+(?::[a-z]+[+-])*\Z")


@given(st.lists(st.sampled_from(["gfx", "gf", "90a", "-", ":", "xnack", "+", "G", "amdgcn--"])).map("".join))
def test_whatever_a_name_is_made_of_its_target_id_is_what_the_grammar_matches(name):
    found = TARGET.search(name)
    assert amdgpu.target_of_name(name) == (found.group() if found else None)
