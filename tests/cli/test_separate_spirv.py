"""SPIR-V without debug data beside the module that has it, as Slang's -separate-debug-info leaves them: made here of a module of
glslang's, by spirv-dis and spirv-as."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import symd
from symd.formats.debug_ids import ModuleNames
from symd.model.answers import Reason
from tests import tools
from tests.debuginfo.spirv.spirv_listing import by_spirv_dis
from tests.formats.spirv_rules.assembly import assemble

WAVES = Path(__file__).parents[2] / "samples" / "spirv" / "bin" / "waves.gVS.spv"
BUILD_ID = "5d5d2b03f64e161d005b87566c1ddf9d24830b3d"
NAME = f"{BUILD_ID}.dbg.spv"
DESCRIBING = r"OpString|OpSource|OpName|OpMemberName|OpLine|OpNoLine|OpModuleProcessed|OpExtInst %\d+ %\d+ Debug(?!BuildIdentifier)"


def without_debug_data(text: str) -> str:
    kept, strings = [], []
    for line in re.split(r"\n(?=\s*(?:%\d+ = )?Op)", text):
        if BUILD_ID in line:
            strings.append(line)
        if BUILD_ID in line or not re.match(rf"\s*(?:%\d+ = )?(?:{DESCRIBING})", line):
            kept.append(line)
    assert len(strings) == 1
    return "\n".join(kept)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """p.spv, and in the folder apart the module with its debug data."""
    text = tools.output(tools.require("spirv-dis"), "--no-color", "--raw-id", WAVES)
    first, void, debug, zero = (
        re.findall(pattern, text)[0]
        for pattern in (
            r"Bound: (\d+)",
            r"(%\d+) = OpTypeVoid",
            r'(%\d+) = OpExtInstImport "NonSem',
            r"(%\d+) = OpConstant %\d+ 0\n",
        )
    )
    identity = f"%1{first} = OpExtInst {void} {debug} DebugBuildIdentifier %{first} {zero}"
    text = re.sub(r"(\n *%\d+ = OpString)", rf'\n%{first} = OpString "{BUILD_ID}"\1', text, count=1)
    text = re.sub(r"(\n *%\d+ = OpFunction )", rf"\n{identity}\1", text, count=1)
    (tmp_path / "apart").mkdir()
    (tmp_path / "apart" / NAME).write_bytes(assemble(text, "vulkan1.2"))
    (tmp_path / "p.spv").write_bytes(assemble(without_debug_data(text), "vulkan1.2"))
    return tmp_path


def code(path: Path) -> list[int]:
    """The offsets of the instructions of functions, as spirv-dis lists them."""
    listing = by_spirv_dis(path)
    begin = next(at for at, item in enumerate(listing) if item.op == "Function")
    return [item.offset for item in listing[begin:] if not re.match("Debug|Line$|NoLine$", item.op)]


def answered(module: symd.Module, offsets: list[int]) -> list[tuple[object, ...]]:
    return [(each.reason, *each.frames) for each in module.symbolize(offsets)]


def expected(place: Path) -> list[tuple[object, ...]]:
    """What the module with the debug data says of the same instructions."""
    with symd.open(place / "apart" / NAME) as whole:
        found = answered(whole, code(place / "apart" / NAME))
    assert sum(each[0] is Reason.EXACT for each in found) > 30
    return found


def test_a_missing_file_is_named_and_the_module_has_no_debug_data_of_its_own(place: Path) -> None:
    with symd.open(place / "p.spv") as module:
        assert {reason for reason, *_ in answered(module, code(place / "p.spv"))} == {Reason.DEBUG_DATA_ELSEWHERE}
        (item,) = module.objects
        assert (item.debug, item.facts["build_id"]) == ("none", BUILD_ID)
        (named,) = ModuleNames(module.symbolizer).of_build_id(BUILD_ID)
        assert named.digest == module.sha256
        assert f"debug data is in {NAME}, which is not here" in item.notes


@pytest.mark.parametrize("way", ["beside", "file", "folder"])
def test_each_instruction_has_the_frames_of_the_module_with_the_debug_data(place: Path, way: str) -> None:
    apart = place / "apart" / NAME
    wanted = expected(place)
    if way == "beside":
        apart.rename(place / NAME)
    debug = {"beside": None, "file": apart, "folder": apart.parent}[way]
    with symd.open(place / "p.spv", debug=debug) as module:
        assert answered(module, code(place / "p.spv")) == wanted
        assert [item.debug for item in module.objects] == ["spirv"]
        assert "void main()" in (module.sources(["waves.comp"])[0].text or "")


def test_a_daemon_gets_both_and_finds_the_module_by_its_build_id(place: Path, run, server) -> None:
    (place / "apart" / NAME).rename(place / NAME)
    subject = next(at for at, each in zip(code(place / "p.spv"), code(place / NAME), strict=True) if at != each)
    alone = run("symbolize", place / "p.spv", f"{subject:#x}")
    there = run("symbolize", "--server", server, place / "p.spv", f"{subject:#x}")
    assert (alone.code, there.out) == (0, alone.out)
    shown = run("info", "--json", "--server", server, place / "p.spv")
    assert BUILD_ID in shown.out


def test_a_module_of_other_code_is_refused(place: Path, run) -> None:
    wrong = place / NAME
    wrong.write_bytes(WAVES.with_name("outranked.spv").read_bytes())
    beside = run("symbolize", place / "p.spv", f"{code(place / 'p.spv')[3]:#x}")
    assert "DEBUG_DATA_ELSEWHERE" in beside.out
    assert "the code differs" in beside.err
    given = run("symbolize", "--debug", wrong, place / "p.spv", "0x20")
    assert given.code == 2
    assert "the code differs" in given.err


def test_one_changed_word_of_code_is_other_code(place: Path, run) -> None:
    """An operand of the last addition of the module with the debug data."""
    apart = place / "apart" / NAME
    data = bytearray(apart.read_bytes())
    (*_, item) = [each for each in by_spirv_dis(apart) if each.op in ("FAdd", "IAdd")]
    data[item.offset + 12 : item.offset + 16] = data[item.offset + 16 : item.offset + 20]
    assert data != apart.read_bytes()
    apart.write_bytes(data)
    refused = run("symbolize", "--debug", apart, place / "p.spv", "0x20")
    assert (refused.code, "the code differs" in refused.err) == (2, True)


def test_a_module_without_debug_data_is_none(place: Path, run) -> None:
    refused = run("symbolize", "--debug", place / "p.spv", place / "p.spv", "0x20")
    assert (refused.code != 0, "has no debug data" in refused.err) == (True, True)
