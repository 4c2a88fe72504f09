"""The slim object and its debug file as one image again, by symd and by LLVM's tools."""

from __future__ import annotations

import json
import random

import pytest

from symd.containers.amdgpu_joined import joined
from symd.containers.amdgpu_slim import slim
from symd.errors import HashMismatch, InvalidInput, NoDebugData, Unsupported
from tests import tools
from tests.containers import amd

NAMES = [name for name in amd.LINKED if "headers-cut" not in name and amd.code(name).debug != "none"]


def again(name: str) -> bytes:
    apart = slim(amd.sample(name), amd.budget())
    return joined(apart.data, apart.debug, amd.budget())


@pytest.mark.parametrize("name", NAMES)
def test_the_joined_image_has_what_the_whole_had(name):
    whole, result = amd.code(name), amd.decode(again(name))
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
    apart = slim(amd.sample(name), amd.budget()).data
    result = again(name)
    assert result[:40] == apart[:40]  # up to e_shoff
    assert result[48:58] == apart[48:58]  # up to e_shentsize
    assert result[64 : len(apart)] == apart[64:]


@pytest.mark.parametrize("name", ["v2-gfx900.co", "v4-gfx900.co", "v4-gfx900-zlib.co", "v6-gfx942-xnack.co"])
def test_llvm_symbolizes_the_joined_image_as_the_whole_object(name, tmp_path):
    tool = tools.require("llvm-symbolizer-22")
    (tmp_path / "joined").write_bytes(again(name))
    text = amd.code(name).section(".text")
    addresses = [hex(address) for address in range(text.address, text.address + text.size, 4)]
    shown = []
    for path in (amd.path(name), tmp_path / "joined"):
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
    stripped, whole = amd.sample("v4-gfx900-stripped.co"), amd.sample("v4-gfx900.co")
    result = amd.decode(joined(stripped, whole, amd.budget()))
    assert {(one.name, one.offset) for one in result.functions} == {("march", 0), ("shade", 256), ("clear", 512)}


def test_what_does_not_belong_together_is_refused():
    apart = slim(amd.sample("v4-gfx900.co"), amd.budget())
    for debug, error in (
        (amd.sample("v4-gfx900-O0.co"), HashMismatch),
        (amd.sample("v5-gfx1100.co"), HashMismatch),
        (apart.data, NoDebugData),
        (amd.sample("odd.bundle"), Unsupported),
        (b"", Unsupported),
    ):
        with pytest.raises(error):
            joined(apart.data, debug, amd.budget())
    with pytest.raises(InvalidInput, match="of its own"):
        joined(amd.sample("v4-gfx900.co"), apart.debug, amd.budget())
    with pytest.raises(Unsupported, match="section table"):
        joined(amd.sample("v4-gfx900-headers-cut.co"), amd.sample("v4-gfx900-headers-cut.co"), amd.budget())


def test_damaged_files_cost_an_error_or_a_file():
    apart = slim(amd.sample("v4-gfx900-zlib.co"), amd.budget())
    dice = random.Random(5)
    for turn in range(300):
        pair = [bytearray(apart.data), bytearray(apart.debug)]
        victim = pair[turn % 2]
        for _ in range(dice.choice((1, 4, 16))):
            victim[dice.randrange(len(victim))] = dice.randrange(256)
        amd.survives(lambda pair=pair: joined(bytes(pair[0]), bytes(pair[1]), amd.budget()))
    for cut in range(0, len(apart.debug), 64):
        amd.survives(lambda cut=cut: joined(apart.data, apart.debug[:cut], amd.budget()))
