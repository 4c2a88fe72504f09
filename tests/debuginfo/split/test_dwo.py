"""Split DWARF: an object with its .dwo file, or with a package of it, against the same object whole, and against LLVM."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

from symd.debuginfo import separate_files
from symd.debuginfo.dwarf.sections import DebugSections, with_split
from symd.debuginfo.variables.visible import VariableReader
from symd.errors import Malformed, SymdError
from symd.formats import containers
from symd.formats.containers import with_dwo
from symd.model.answers import Reason
from symd.model.code import CodeObject
from symd.query.symbolize import symbolize_column
from tests import tools
from tests.agreement import ours
from tests.agreement.test_amd import agrees
from tests.formats.containers.amd import objects
from tests.hostile.test_formats import flips

OBJECTS = [f"split-{generation}-dwarf{version}" for generation in (14, 19, 22) for version in (4, 5)]
APART = {"dwo": ".dwo", "dwp": ".co.dwp"}


def whole_again(name: str, kind: str) -> bytes:
    apart = objects.sample(name + APART[kind])
    return with_dwo.joined(objects.sample(f"{name}.co"), {"": [apart]})


def decoded(data: bytes) -> CodeObject:
    (code,) = containers.unpack(data).objects
    return code


def addresses(code: CodeObject) -> list[int]:
    text = code.section(".text")
    assert text is not None
    return list(range(text.address, text.address + text.size, 4))


@pytest.mark.parametrize("kind", APART)
@pytest.mark.parametrize("name", OBJECTS)
def test_answers_are_those_of_the_object_compiled_whole(name, kind):
    data, whole = whole_again(name, kind), objects.sample(f"{name}-whole.co")
    asked = addresses(decoded(data))
    section = decoded(whole).section(".text")
    moved = section.address - asked[0]
    mine = [each.frames for each in symbolize_column(ours.index(data), np.array(asked, np.uint64))]
    theirs = symbolize_column(ours.index(whole), np.array(asked, np.uint64) + np.uint64(moved % (1 << 64)))
    assert section.data == decoded(data).section(".text").data
    assert mine == [each.frames for each in theirs]
    assert sum(len(frames) > 1 for frames in mine) > 5


@pytest.mark.parametrize("name", OBJECTS)
def test_answers_are_those_of_llvm_with_the_package(name, tmp_path):
    (tmp_path / "split.co").write_bytes(objects.sample(f"{name}.co"))
    (tmp_path / "split.co.dwp").write_bytes(objects.sample(f"{name}.co.dwp"))
    data = whole_again(name, "dwp")
    asked = addresses(decoded(data))
    tool = tools.require("llvm-symbolizer-22")
    text = tools.output(
        tool, f"--obj={tmp_path / 'split.co'}", "--inlines", "--no-demangle", "--output-style=JSON", *map(hex, asked)
    )
    answers = symbolize_column(ours.index(data).view(as_written=True), np.array(asked, np.uint64))
    compared = 0
    for answer, other in zip(answers, json.loads(text), strict=True):
        theirs = [(one["FunctionName"], one["FileName"], one["Line"], one["Column"]) for one in other["Symbol"]]
        assert agrees(answer, theirs, padding=not answer.kernel)
        compared += answer.reason is Reason.EXACT
    assert compared > 20


@pytest.mark.parametrize("kind", APART)
@pytest.mark.parametrize("name", OBJECTS)
def test_variables_are_those_of_the_object_compiled_whole(name, kind):
    mine, theirs = decoded(whole_again(name, kind)), decoded(objects.sample(f"{name}-whole.co"))
    section, other = mine.section(".text"), theirs.section(".text")
    seen = 0
    for offset in range(0, section.size, 4):
        found = VariableReader(mine).at(section.index, offset)
        assert [described(each) for each in found.variables] == [
            described(each) for each in VariableReader(theirs).at(other.index, offset).variables
        ]
        seen += sum(not each.optimized_out for each in found.variables)
    assert seen > 50


def described(variable):
    return (variable.name, str(variable.type), variable.kind, variable.location, variable.live)


def test_a_package_of_several_files_serves_several_objects(tmp_path):
    files = [str(objects.path(f"split-19-dwarf{version}.dwo")) for version in (5,)]
    package = tmp_path / "several.dwp"
    tools.output(tools.require("llvm-dwp-19"), "-o", str(package), *files, str(objects.path("split-22-dwarf5.dwo")))
    for name in ("split-19-dwarf5", "split-22-dwarf5"):
        joined = with_dwo.joined(objects.sample(f"{name}.co"), {"": [package.read_bytes()]})
        asked = np.array(addresses(decoded(joined)), np.uint64)
        alone = ours.index(whole_again(name, "dwo"))
        mine = ours.index(joined)
        assert [each.frames for each in symbolize_column(mine, asked)] == [
            each.frames for each in symbolize_column(alone, asked)
        ]
        assert any("of another build" in note for note in mine.summary.objects[0].notes)


def test_several_files_are_told_apart():
    files = [objects.sample("split-22-dwarf5.dwo"), objects.sample("split-19-dwarf5.dwo")]
    joined = with_dwo.joined(objects.sample("split-19-dwarf5.co"), {"": files})
    asked = np.array(addresses(decoded(joined)), np.uint64)
    alone = symbolize_column(ours.index(whole_again("split-19-dwarf5", "dwo")), asked)
    assert [each.frames for each in symbolize_column(ours.index(joined), asked)] == [each.frames for each in alone]


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_names_the_files_that_it_lacks(name):
    assert [unit.dwo_name for unit in separate_files.skeletons(objects.sample(f"{name}.co"), objects.budget())] == [
        f"{name}.dwo".encode()
    ]
    assert separate_files.skeletons(objects.sample(f"{name}-whole.co"), objects.budget()) == ()


@pytest.mark.parametrize("name", OBJECTS)
def test_without_the_file_no_function_is_answered(name):
    data, whole = objects.sample(f"{name}.co"), whole_again(name, "dwo")
    asked = np.array(addresses(decoded(data)), np.uint64)
    lines = 0
    for answer, known in zip(
        symbolize_column(ours.index(data), asked), symbolize_column(ours.index(whole), asked), strict=True
    ):
        if known.reason in (Reason.GAP, Reason.NO_DEBUG_INFO) and not known.frames:
            continue
        assert answer.reason is Reason.DEBUG_DATA_ELSEWHERE
        assert {frame.function for frame in answer.frames} <= {None}
        if known.reason is Reason.EXACT:
            lines += 1
            assert [(each.file, each.line) for each in answer.frames] == [(known.frames[0].file, known.frames[0].line)]
    assert lines > 20


def test_what_is_missing_is_said():
    (code,) = ours.index(objects.sample("split-22-dwarf4.co")).summary.objects
    assert any("is in split-22-dwarf4.dwo, which is not here" in note for note in code.notes)


@pytest.mark.parametrize("name", [f"split-19-dwarf{version}{kind}" for version in (4, 5) for kind in APART.values()])
def test_damaged_files_are_answered_or_refused(name):
    apart, code = objects.sample(name), objects.sample(f"{name[:15]}.co")
    for broken in flips(apart, seed=len(name), count=150):
        try:
            ours.index(with_dwo.joined(code, {"": [broken]}))
        except SymdError:
            continue


def test_a_package_whose_units_overlap_is_refused():
    index = struct.pack("<IIII", 5, 1, 3, 0) + struct.pack("<7I", 1, 0, 0, 0, 40, 40, 40)
    file = {".debug_info.dwo": bytes(100), ".debug_cu_index": index}
    with pytest.raises(Malformed, match="overlap"):
        with_split(DebugSections.of({}), [file])
