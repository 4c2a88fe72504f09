"""The slim object and its debug file as one image again, by symd and by LLVM's tools."""

from __future__ import annotations

import json
import random

import pytest

from symd.debuginfo.separate_files import joined, slim
from symd.errors import HashMismatch, InvalidInput, NoDebugData, Unsupported
from tests import tools
from tests.formats.containers.amd import objects

NAMES = [name for name in objects.LINKED if "headers-cut" not in name and objects.code(name).debug != "none"]


def again(name: str, *, source: str = "debug file") -> bytes:
    """The slim object with the debug data of its debug file, or of the whole object."""
    whole = objects.sample(name)
    apart = slim(whole, objects.budget())
    return joined(apart.data, apart.debug if source == "debug file" else whole, objects.budget())


@pytest.mark.parametrize("source", ["debug file", "whole object"])
@pytest.mark.parametrize("name", NAMES)
def test_the_joined_image_has_what_the_whole_had(name, source):
    whole, result = objects.code(name), objects.decode(again(name, source=source))
    assert [one.index for one in result.sections] == list(range(len(result.sections)))
    assert {one.name: one.data for one in result.sections if one.name.startswith(".debug_")} == {
        one.name: one.data for one in whole.sections if one.name.startswith(".debug_")
    }
    assert [(one.name, one.offset, one.size, one.facts) for one in result.kernels] == [
        (one.name, one.offset, one.size, one.facts) for one in whole.kernels
    ]
    assert [(one.name, one.offset, one.size) for one in result.functions] == [
        (one.name, one.offset, one.size) for one in whole.functions
    ]
    assert (result.target, result.debug, result.warnings) == (whole.target, whole.debug, whole.warnings)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_slim_object_has_stays_where_it_is(name):
    apart = slim(objects.sample(name), objects.budget()).data
    result = again(name)
    assert result[:40] == apart[:40]  # up to e_shoff
    assert result[48:58] == apart[48:58]  # up to e_shentsize
    assert result[64 : len(apart)] == apart[64:]


@pytest.mark.parametrize("name", ["v2-gfx900.co", "v4-gfx900.co", "v4-gfx900-zlib.co", "v6-gfx942-xnack.co"])
def test_llvm_symbolizes_the_joined_image_as_the_whole_object(name, tmp_path):
    tool = tools.require("llvm-symbolizer-22")
    (tmp_path / "joined").write_bytes(again(name))
    text = objects.code(name).section(".text")
    addresses = [hex(address) for address in range(text.address, text.address + text.size, 4)]
    shown = []
    for path in (objects.path(name), tmp_path / "joined"):
        rows = json.loads(tools.output(tool, f"--obj={path}", "--output-style=JSON", *addresses))
        shown.append([one["Symbol"] for one in rows])
    assert shown[0] == shown[1]
    assert any(frames[0]["Line"] for frames in shown[0])


@pytest.mark.parametrize("name", NAMES)
def test_readelf_finds_no_fault_in_the_joined_image(name, tmp_path):
    path = tmp_path / "joined"
    path.write_bytes(again(name))
    names = tools.output(tools.require("eu-readelf"), "-S", "-s", path)
    assert ".debug_line" in names


def test_a_stripped_object_gets_its_symbols_with_its_own_section_numbers():
    stripped, whole = objects.sample("v4-gfx900-stripped.co"), objects.sample("v4-gfx900.co")
    result = objects.decode(joined(stripped, whole, objects.budget()))
    assert {(one.name, one.offset) for one in result.functions} == {("march", 0), ("shade", 256), ("clear", 512)}


def test_what_does_not_belong_together_is_refused():
    apart = slim(objects.sample("v4-gfx900.co"), objects.budget())
    for debug, error, reason in (
        (objects.sample("v4-gfx900-O0.co"), HashMismatch, "code differs"),
        (slim(objects.sample("v4-gfx900-O0.co"), objects.budget()).debug, HashMismatch, "code differs"),
        (objects.sample("v5-gfx1100.co"), HashMismatch, "gfx1100"),
        (apart.data, NoDebugData, "no debug sections"),
        (objects.sample("v4-gfx900.o"), Unsupported, "linked"),
        (objects.sample("odd.bundle"), Unsupported, "not an AMDGPU code object"),
        (b"", Unsupported, "not an AMDGPU code object"),
    ):
        with pytest.raises(error, match=reason):
            joined(apart.data, debug, objects.budget())
    with pytest.raises(Unsupported, match="linked"):
        joined(objects.sample("v4-gfx900.o"), apart.debug, objects.budget())
    with pytest.raises(InvalidInput, match="of its own"):
        joined(objects.sample("v4-gfx900.co"), apart.debug, objects.budget())
    with pytest.raises(Unsupported, match="section table"):
        joined(objects.sample("v4-gfx900-headers-cut.co"), objects.sample("v4-gfx900-headers-cut.co"), objects.budget())


def test_damaged_files_cost_an_error_or_a_file():
    apart = slim(objects.sample("v4-gfx900-zlib.co"), objects.budget())
    dice = random.Random(5)
    for turn in range(300):
        pair = [bytearray(apart.data), bytearray(apart.debug)]
        victim = pair[turn % 2]
        for _ in range(dice.choice((1, 4, 16))):
            victim[dice.randrange(len(victim))] = dice.randrange(256)
        objects.survives(lambda pair=pair: joined(bytes(pair[0]), bytes(pair[1]), objects.budget()))
    for cut in range(0, len(apart.debug), 64):
        objects.survives(lambda cut=cut: joined(apart.data, apart.debug[:cut], objects.budget()))
