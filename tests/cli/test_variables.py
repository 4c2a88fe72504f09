"""symd variables."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from symd.model.addresses import SectionOffset
from symd.model.answers import Answer, Candidate, Frame, Reason
from symd.model.variables import InScope, LocationDoubt, Member, TypeInfo, Variable, VariableLocation, Visible
from tests.cli.conftest import ROOT, Run
from tests.cli.fake import FakeSymbolizer

CONTRACT = (
    '{"name": "x", "type": "int", "kind": "parameter", "function": "helper", "inlined": true, "optimized_out": false, '
    '"location": "r29[0:32] per lane", "live": [[424, 648]], "frame": 0}'
)
"""The variable that the contract shows."""
X = Variable("x", "int", "parameter", "helper", True, False, "r29[0:32] per lane", ((424, 648),), 1, frame=0)
ROOM = Variable(
    "room", "Room *", "local", "vadd", False, True, None, (), 0, (), 1, "vadd_", 1, ((0, 640),), "/src/vadd.cl", 11
)
LOOK_UP = Variable("look_up", "float[4]", "global", None, False, False, "memory at 0x40", ((0, 640),))
TYPES = (
    TypeInfo("Room *", "pointer", 8, target=2, address_space="global"),
    TypeInfo("int", "base", 4, encoding="signed"),
    TypeInfo("Room", "structure", 16, members=(Member("next", 0, 0), Member("count", 1, 8, 67, 3))),
)
FRAMES = (Frame("helper", None, "/src/vadd.cl", 3, 23, True), Frame("vadd", None, "/src/vadd.cl", 10, 0, False))
HERE = Answer(Reason.EXACT, "", "vadd", ".text.vadd", 1, SectionOffset(432), frames=FRAMES)


class Fake(FakeSymbolizer):
    """Has one place with three variables; other queries are answered by ``answer``."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = InScope(HERE, Visible((X, ROOM, LOOK_UP), TYPES, 16, ("half of it was unreadable",)))

    def variables(self, digest, query, path=None):
        self.asked.append([query])
        self.path = path
        return self.answer


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Fake:
    symbolizer = Fake()
    monkeypatch.setattr("symd.engine.files.module.open_symbolizer", lambda *_: nullcontext(symbolizer))
    return symbolizer


def test_json_is_the_contracts_variable_to_the_letter(run: Run, fake: Fake, module: Path):
    outcome = run("variables", "--json", module, "vadd+0x1b0")
    first, second, third = outcome.out.splitlines()
    assert first == CONTRACT
    assert json.loads(second)["location"] is None
    assert json.loads(third)["function"] is None
    assert (outcome.code, outcome.err) == (0, "symd: half of it was unreadable\n")


def test_types_as_structure_are_numbered_from_the_variables_own(run: Run, fake: Fake, module: Path):
    x, room, look_up = run("variables", "--json", "--types", module, "vadd+0x1b0").json
    assert x["types"] == [
        {
            "text": "int",
            "kind": "base",
            "size": 4,
            "encoding": "signed",
            "target": None,
            "counts": [],
            "members": [],
            "parameters": [],
            "enumerators": {},
            "address_space": None,
        }
    ]
    assert [info["text"] for info in room["types"]] == ["Room *", "Room", "int"]
    assert (room["types"][0]["target"], room["types"][0]["address_space"]) == (1, "global")
    assert room["types"][1]["members"] == [
        {"name": "next", "type": 0, "offset": 0, "bit_offset": None, "bit_size": None, "discriminant": None},
        {"name": "count", "type": 2, "offset": 8, "bit_offset": 67, "bit_size": 3, "discriminant": None},
    ]
    assert look_up["types"] == []


def test_text_is_a_heading_for_each_function_and_columns_below(run: Run, fake: Fake, module: Path):
    assert run("variables", module, "vadd+0x1b0").out.splitlines() == [
        "#0 helper (inlined) at /src/vadd.cl:3:23, SIMD16",
        "  x  int  parameter  r29[0:32] per lane",
        "#1 vadd at /src/vadd.cl:10, SIMD16",
        "  room  Room *  local      optimized out",
        "globals",
        "  look_up  float[4]  global     memory at 0x40",
    ]


def test_json_has_more_only_of_what_is_known(run: Run, fake: Fake, module: Path):
    x, room, look_up = run("variables", "--json", module, "vadd+0x1b0").json
    more = {"frame": 1, "linkage_name": "vadd_", "block_depth": 1, "block": [[0, 640]]}
    assert room == {**room, **more, "declared_file": "/src/vadd.cl", "declared_line": 11}
    assert "frame" not in look_up
    assert x.keys() - look_up.keys() == {"frame"}


def test_variables_of_one_name_are_told_apart_by_frame_and_block(run: Run, fake: Fake, module: Path):
    outer = replace(X, frame=1, function="vadd", inlined=False, location="r2")
    inner = replace(outer, location=None, optimized_out=True, live=((440, 448),), block_depth=1, block=((424, 464),))
    unclear = replace(X, frame=None)
    fake.answer = InScope(HERE, Visible((X, inner, outer, unclear)))
    by_kernel = run("variables", module, "vadd+0xb0").out.splitlines()
    assert by_kernel == [
        "#0 helper (inlined) at /src/vadd.cl:3:23",
        "  x  int  parameter  r29[0:32] per lane",
        "#1 vadd at /src/vadd.cl:10",
        "  x  int  parameter  not here; live at vadd+0xb8..vadd+0xc0  [block vadd+0xa8..vadd+0xd0]",
        "  x  int  parameter  r2",
        "helper (inlined), its frame is not certain",
        "  x  int  parameter  r29[0:32] per lane",
    ]
    assert "live at 0x1b8..0x1c0  [block 0x1a8..0x1d0]" in run("variables", module, "0x1b0").out
    in_section = run("variables", module, "(.text.vadd)+0x1b0").out
    assert "live at (.text.vadd)+0x1b8..(.text.vadd)+0x1c0  [" in in_section


def test_live_ranges_that_touch_are_one(run: Run, fake: Fake, module: Path):
    """As a compiler writes them where a variable moves from one register to another."""
    moved = replace(X, location=None, optimized_out=True, live=((8, 12), (12, 20), (24, 28)))
    fake.answer = InScope(HERE, Visible((moved,)))
    assert "not here; live at 0x8..0x14, 0x18..0x1c" in run("variables", module, "0x1b0").out


def test_a_doubtful_place_says_so(run: Run, fake: Fake, module: Path):
    doubt = LocationDoubt("VALUE_NOT_ADDRESS", "v6 has the value")
    fake.answer = InScope(HERE, Visible((replace(X, locations=(VariableLocation((), doubt=doubt),)),)))
    assert run("variables", module, "vadd+0").out.splitlines()[1].endswith("  [doubtful: v6 has the value]")
    [x] = run("variables", "--json", module, "vadd+0").json
    assert x["doubt"] == {"reason": "VALUE_NOT_ADDRESS", "text": "v6 has the value"}


def test_a_query_without_an_answer_is_exit_code_1_and_its_reason(run: Run, fake: Fake, module: Path):
    fake.answer = InScope(Answer(Reason.UNKNOWN_KERNEL))
    outcome = run("variables", "--json", module, "nobody+1")
    assert (outcome.code, outcome.json) == (1, [{"query": "nobody+1", "reason": "UNKNOWN_KERNEL", "candidates": []}])
    outcome = run("variables", module, "nobody+1")
    assert (outcome.code, outcome.out) == (1, "nobody+1: no answer [UNKNOWN_KERNEL]\n")


def test_an_ambiguous_query_names_its_candidates(run: Run, fake: Fake, module: Path):
    candidate = Candidate("a", ".text.vadd", 1, SectionOffset(16), "vadd")
    fake.answer = InScope(Answer(Reason.AMBIGUOUS, candidates=(candidate,)))
    [answer] = run("variables", "--json", module, "0x10").json
    assert (answer["reason"], answer["candidates"][0]["kernel"]) == ("AMBIGUOUS", "vadd")
    outcome = run("variables", module, "0x10")
    assert "could be (.text.vadd)+0x10 in vadd of a" in outcome.out
    assert outcome.code == 1, "as docs/tutorials/scripts.md says; symbolize ends with 0"


def test_nothing_in_scope_is_an_answer(run: Run, fake: Fake, module: Path):
    fake.answer = InScope(HERE)
    assert (run("variables", module, "vadd+0").out, run("variables", "--json", module, "vadd+0").out) == (
        "no variables here; code with line tables only has none anywhere: compile with -g (nvcc: -G)\n",
        "",
    )


def test_the_object_is_passed_on_and_a_bad_query_is_exit_code_2(run: Run, fake: Fake, module: Path):
    run("variables", "--object", "a/b", module, "vadd+0")
    assert fake.path == "a/b"
    outcome = run("variables", module, "vadd+")
    assert (outcome.code, outcome.out) == (2, "")


def test_names_do_not_reach_the_terminal_raw(run: Run, fake: Fake, module: Path):
    bad = Variable("a\x1b[31m", "t\n", "local", "f\x07", False, True, None)
    fake.answer = InScope(HERE, Visible((bad,)))
    text = run("variables", module, "vadd+0").out
    assert all(character.isprintable() or character == "\n" for character in text)
    assert run("variables", "--json", module, "vadd+0").json[0]["name"] == "a\x1b[31m"


@pytest.mark.parametrize(
    ("module", "query", "why"),
    [
        ("cuda/bin/saxpy.sm_75.lines.cubin", "saxpy+0x10", "lines and nothing about variables"),
        ("cuda/bin/saxpy.sm_90.none.cubin", "saxpy+0x10", "no debug data"),
        ("spirv/bin/waves.gVS.spv", "main+0x10", "SPIR-V"),
    ],
)
def test_debug_data_without_variables_is_exit_code_1_and_said(run: Run, module: str, query: str, why: str):
    outcome = run("variables", "--json", ROOT / "samples" / module, query)
    assert (outcome.code, [line["reason"] for line in outcome.json]) == (1, ["NO_DEBUG_INFO"])
    assert why in outcome.err
    assert "[NO_DEBUG_INFO]" in run("variables", ROOT / "samples" / module, query).out


def test_lines_alone_are_told_apart_from_no_debug_info_and_names_are_readable_in_a_refusal(run: Run) -> None:
    cubin = ROOT / "samples" / "cuda" / "bin" / "raycast.sm_90.lines.cubin"
    outcome = run("variables", "-C", cubin, "raycast+0x100")
    assert outcome.code == 1
    assert outcome.out.startswith("raycast+0x100: raycast(float*, int, float3) at ")
    assert "the debug data has lines and nothing about variables" in outcome.err
    assert "to have variables, compile with -G" in outcome.err
    assert "there is no debug info" not in outcome.err


@pytest.mark.parametrize(
    ("file", "query", "says"),
    [
        (
            "kernels/bin/raycast/dg2-opt-zebin.raycast.elf",
            "0x100",
            "symd info {} shows where the debug data contradicts itself",
        ),
        ("amdgpu/bin/v4-gfx900.co", "0x1", "symd info {} shows where its code lies"),
        (
            "kernels/bin/vadd/opt.spv",
            "0x10",
            "symd grab {} --simulate dg2 -o OUT builds it for a device; then ask about OUT",
        ),
        (
            "cuda/bin/raycast.sm_90.lines.cubin",
            "0x100",
            "write symd variables {} '(.text._Z5probePfPK6float3)+0x100' for the first",
        ),
    ],
)
def test_a_refusal_says_what_to_type_next(run: Run, file: str, query: str, says: str) -> None:
    module = ROOT / "samples" / file
    done = run("variables", module, query)
    assert (done.code, f"symd: {says.format(module)}\n" in done.err) == (1, True), done.err


def test_a_place_where_a_variable_is_live_is_a_query(run: Run) -> None:
    """Two kernels share the section: an offset in it alone would be one of the other kernel."""
    module = ROOT / "samples" / "amdgpu" / "bin" / "v5-gfx90a.co"
    for query in ("0x1948", "_Z5shadePfPKfi+0x48", "(.text)+0x48"):
        begin = re.search(r" half_way +float +local +not here; live at (\S+?)\.\.", run("variables", module, query).out)
        assert begin
        there = run("variables", module, begin[1])
        assert (there.code, "not here" in re.search(r" half_way .*", there.out)[0]) == (0, False), begin[1]
