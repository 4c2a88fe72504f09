"""Every EXACT and INFERRED answer about every sample is true by its source text, and where LLVM repeats what is not, symd
says that the debug data contradicts itself."""

from __future__ import annotations

import re
from collections import defaultdict
from functools import cache, partial
from itertools import combinations, pairwise
from pathlib import Path

import pytest

from symd.config import Limits
from symd.formats import containers
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Frame, Reason
from symd.model.breakpoints import Refusal, SourceLine
from symd.query.breakpoints import locate
from symd.query.symbolize import symbolize
from symd.query.variables import NOBODYS
from tests import tools
from tests.agreement import source_text
from tests.agreement.source_text import (
    OF_PYTHON,
    POSITIONED,
    ROOMS,
    SAMPLES,
    SourceText,
    Tally,
    answers,
    judged,
    sample_answers,
    sample_index,
    sample_names,
    step,
)
from tests.query.asked import variables, visible_in

EVERY = [(room, name) for room in ROOMS for name in sample_names(room)]
UNSOUND = {("spirv", "outranked.spv")}
"""Written by hand: its lines are not those of the text that it carries."""
MISNUMBERED = {
    *(f"raycast.sm_90.{name}.cubin" for name in ("lines", "ptxas-12.4", "ptxas-12.9")),
    *(f"reduce.{name}.cubin" for name in ("sm_100.lines", "sm_80.lines", "sm_90.ptxas-13.4")),
}
"""NVIDIA's line tables that say inlined calls otherwise than the source."""
SOUND = [
    (room, name)
    for room, name in EVERY
    if (room not in ("kernels", *OF_PYTHON) or name.endswith(".spv"))
    and (room, name) not in UNSOUND
    and name not in MISNUMBERED
    and not name.startswith(("clang/", "eased.g1"))  # which say nothing of inlined calls
]
NOTHING_TO_JUDGE = re.compile(
    r"nodebug|[.](O2|sm_90)[.]none|stripped|headers-cut|packed|Void_Program|split-\d+-dwarf\d[.](co|dwo|co[.]dwp)$|^offloading[.]o|host-plain"
    r"|saxpy[.](lto|ptx)[.]fatbin|address_error[.]gpucore|outranked"
)
"""Samples without debug data, or without code, or with one of the two elsewhere; and one with a text that is no sample's."""
TARGET = re.compile(r"sm_\d+a?|gfx\w+?(?=[-.])|(?<=[-/])(?:skl|dg2|pvc|tgllp|bmg)(?=-)")
RAYCAST = ("kernels", "raycast/dg2-opt.dbg")
FILE = "/tmp/symd-opencl/raycast.cl"


@cache
def tally(room: str, name: str, *, as_written: bool = False) -> Tally:
    counted = Tally()
    for answer in sample_answers(room, name, as_written=as_written):
        counted.add(answer)
    return counted


@pytest.mark.parametrize(("room", "name"), EVERY)
def test_every_line_stands_in_the_function_that_its_frame_names(room: str, name: str) -> None:
    """And the line of every call names what was inlined there."""
    counted = tally(room, name)
    assert not +counted.wrong
    assert not +counted.wrong_calls


@pytest.mark.parametrize(("room", "name"), EVERY)
def test_no_sample_is_left_out(room: str, name: str) -> None:
    """Each is judged that has debug data, each function of a text at hand is found there, but one that DPC++ makes, and all texts are at hand but
    those of the toolkit."""
    counted = tally(room, name)
    assert (counted.counts["judged"] > 0) == (not NOTHING_TO_JUDGE.search(name))
    assert set(+counted.untold) <= {"__sycl_kernel_mix"}
    assert all(str(file).startswith("/usr/local/cuda") for file in counted.elsewhere) or name == "outranked.spv"


def groups() -> dict[str, list[tuple[str, str]]]:
    """The samples that one compiler made of one source in one way for several targets."""
    found: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for room, name in EVERY:
        if TARGET.search(name):
            found[f"{room}/{TARGET.sub('*', name, count=1)}"].append((room, name))
    return {way: samples for way, samples in found.items() if len(samples) > 1}


def call_lines(room: str, name: str, *, as_written: bool = False) -> dict[tuple[str, str], set[int]]:
    """On which lines a function calls another that is inlined there."""
    found: dict[tuple[str, str], set[int]] = defaultdict(set)
    for answer in sample_answers(room, name, as_written=as_written):
        for callee, caller in pairwise(answer.frames) if answer.reason in POSITIONED else ():
            if callee.function and caller.function and caller.line:
                found[caller.function, callee.function].add(caller.line)
    return found


def differences(way: str, *, as_written: bool = False) -> dict[tuple[str, str], list[set[int]]]:
    """The pairs of functions that two targets inline, but not on the same lines."""
    found = {}
    for one, other in combinations([call_lines(*each, as_written=as_written) for each in groups()[way]], 2):
        found |= {pair: [one[pair], other[pair]] for pair in one.keys() & other.keys() if one[pair] != other[pair]}
    return found


@pytest.mark.parametrize("way", groups())
def test_targets_of_one_compiler_call_on_the_same_lines(way: str) -> None:
    assert not differences(way)


def test_targets_that_ptxas_treats_differently_are_seen() -> None:
    for way in ("cuda/raycast.*.lines.cubin", "cuda/raycast.*.ptxas-12.4.cubin"):
        assert list(differences(way, as_written=True).values())
    assert sum(bool(call_lines(*samples[0])) for samples in groups().values()) > 20


def test_calls_that_ptxas_numbers_wrongly_are_seen() -> None:
    """As it is written ``squared`` is called on line 20, as nvdisasm says too; the text calls it on line 21 alone."""
    for name in ("raycast.sm_90.lines.cubin", "raycast.sm_90.ptxas-12.4.cubin", "raycast.sm_90.ptxas-12.9.cubin"):
        assert {line for _, line in +tally("cuda", name, as_written=True).wrong_calls} == {20}
        assert tally("cuda", name).counts["calls"] == 30


@pytest.mark.parametrize(("room", "name"), SOUND)
def test_sound_debug_data_is_never_doubted(room: str, name: str) -> None:
    found = sample_index(room, name)
    if found is None:
        pytest.skip("is no module by itself")
    assert not len(found.columns.written_range)
    assert not [note for item in found.summary.objects for note in item.notes if "contradict" in note]


def test_what_is_written_is_judged_too() -> None:
    """The judge sees what is wrong: LLVM answers so."""
    assert tally(*RAYCAST, as_written=True).wrong["length_squared", 16] == 4
    assert +tally("kernels", "raycast/dg2-opt.zebin", as_written=True).wrong
    assert +tally("kernels", "raycast/driver-l0-igc2-dg2-opt.debug-zebin", as_written=True).wrong
    assert sum(tally(room, name).counts["judged"] for room, name in EVERY[:20]) > 5000


def raycast(offset: int, *, as_written: bool = False) -> tuple[Reason, list[tuple[str | None, int, bool]]]:
    found = sample_index(*RAYCAST)
    assert found is not None
    query = ByKernel("raycast", KernelOffset(offset))
    answer = symbolize(found.view(as_written=as_written), [query])[0]
    assert symbolize(found, [query])[0] == found.answer(query)
    assert answer.kernel == "raycast"
    return answer.reason, [(frame.function, frame.line, frame.inlined) for frame in answer.frames]


def test_a_kernel_whose_callee_claims_its_code() -> None:
    """The table of docs/contradictions.md."""
    assert raycast(0x20) == (Reason.EXACT, [("raycast", 19, False)])
    assert raycast(0x100) == (Reason.CONTRADICTORY, [])
    assert raycast(0x368) == (Reason.CONTRADICTORY, [("length_squared", 0, True), ("raycast", 24, False)])
    assert raycast(0x510) == (Reason.INFERRED, [("distance_to", 12, False)])
    assert raycast(0x610) == (Reason.EXACT, [("length_squared", 6, True), ("distance_to", 14, False)])
    assert raycast(0x100, as_written=True) == (Reason.EXACT, [("distance_to", 16, False)])
    assert raycast(0x368, as_written=True) == (Reason.EXACT, [("length_squared", 16, True), ("raycast", 24, False)])
    assert raycast(0x510, as_written=True) == (Reason.EXACT, [(None, 12, False)])
    assert raycast(0x610, as_written=True) == raycast(0x610)


def test_its_notes_say_where_and_what_wrote_it() -> None:
    found = sample_index(*RAYCAST)
    assert found is not None
    (note,) = (note for item in found.summary.objects for note in item.notes if "contradict" in note)
    assert ".text+0x60..0x610" in note
    assert "1200 bytes CONTRADICTORY, 360 bytes INFERRED" in note
    assert "Intel's graphics compiler, generation 1" in note


def test_no_breakpoint_where_a_line_is_doubted() -> None:
    found = sample_index(*RAYCAST)
    assert found is not None
    answer = locate(found, SourceLine("raycast.cl", 16))
    assert (answer.refusal, answer.locations) == (Refusal.CONTRADICTORY, ())
    assert [each.section_offset for each in locate(found, SourceLine("raycast.cl", 12)).locations] == [0x510]
    assert [
        each.section_offset for each in locate(found.view(as_written=True), SourceLine("raycast.cl", 16)).locations
    ] == [0x60]


TEXT = """\
#define MAKE(NAME) \\
    float NAME(float x) { return x; }
// int commented(int x) { }
static int one(int a)
{
    return a ? '}' : "{"[0];
}

MAKE(made)

template <typename T> struct Box {
    T low;
    Box(T a) : low(a) {}
    T get() const { return low; }
    auto twice() { auto f = [&](T x) { return x * 2; };
        return f(low); }
};
"""


@pytest.mark.parametrize(
    ("function", "lines"),
    [
        ("one", {4, 5, 6, 7}),
        ("made", {9}),
        ("Box<int>", {13}),
        ("get", {14}),
        ("_ZNK3BoxIiE3getEv", {14}),
        ("twice", {15, 16}),
        ("operator()", {15}),
    ],
)
def test_the_judge_knows_where_functions_stand(function: str, lines: set[int]) -> None:
    texts = {"a.cl": SourceText(TEXT)}
    frames = {line: Frame(function, None, "/src/a.cl", line, 0, inlined=False) for line in range(1, 18)}
    assert {line for line, frame in frames.items() if judged(frame, texts)} == lines
    assert judged(frames[1]._replace(function="unheard_of"), texts) is None
    assert judged(frames[1]._replace(file="b.cl"), texts) is None


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("fill<float, 3>", "fill"),
        ("$filter$sampled", "sampled"),
        ("$_Z5probePf$_Z11distance_tofff", "distance_to"),
        ("damp(f1;f1;", "damp"),
        ("$total$helpers_$_apart__fp32", "apart"),
        ("Wave.at", "at"),
        ("Wave.$init", "Wave"),
        ("__device_stub__Z5normsPf", "norms"),
    ],
)
def test_names_as_the_text_has_them(function: str, name: str) -> None:
    assert source_text.simple_name(function) == name


SAID = """\
#define CALL(x) inner(x)
float inner(float x) { return x; }
float outer(Box b) { return CALL(b + b); }
float left(Box b) { return b.x; }
"""


@pytest.mark.parametrize(
    ("callee", "lines"),
    [("inner", {1, 2, 3}), ("operator+", {3}), ("outer", {3}), ("_ZplRK3Box", set())],
)
def test_lines_name_what_they_call(callee: str, lines: set[int]) -> None:
    """Also by a macro or an operator."""
    texts = {"a.cl": SourceText(SAID)}
    frame = Frame(callee, None, "/src/a.cl", 2, 0, inlined=True)
    callers = [Frame("outer", None, "/src/a.cl", line, 0, inlined=False) for line in range(1, 5)]
    assert {caller.line for caller in callers if source_text.call_judged(frame, caller, texts)} == lines


SHADER = """\
layout(std430, binding = 0) buffer Heights { float heights[]; };
struct Wave { float height;
    float at(float place)
    {
        return height * place;
    }
};
[numthreads(64, 1, 1)]
void rise(uint3 id : SV_DispatchThreadID)
{
    values[id.x] = eased(1);
}
"""


def test_functions_of_shaders_are_found() -> None:
    """GLSL and Slang are read by the grammar of CUDA's C++."""
    assert SourceText(SHADER).bodies == {"at": [source_text.Body(3, 6)], "rise": [source_text.Body(9, 12)]}


def test_functions_of_assembly_and_python_are_found() -> None:
    assembly = SourceText("\t.text\nscale:\n\ts_nop 0\nloop:\n\ts_endpgm\n", ".s")
    assert assembly.bodies == {"scale": [source_text.Body(2, 3)], "loop": [source_text.Body(4, 5)]}
    python = SourceText("@jit\ndef one(x):\n    def two():\n        return x\n    return two\n", ".py")
    assert python.bodies == {"one": [source_text.Body(1, 5)], "two": [source_text.Body(3, 4)]}


def calls(spirv: Path) -> set[tuple[str, str, int]]:
    """(caller, callee, line) of every call in a SPIR-V module: the chains that inlining can make."""
    text = tools.output(tools.require("spirv-dis"), "--raw-id", "--no-color", spirv)
    names = dict(re.findall(r"OpName (%\d+) \"([^\"]*)\"", text)) | dict(
        re.findall(r"OpEntryPoint Kernel (%\d+) \"([^\"]*)\"", text)
    )
    found, caller, line = set(), "", 0
    for each in text.splitlines():
        if begins := re.search(r"(%\d+) = OpFunction ", each):
            caller = names.get(begins[1], "")
        elif place := re.search(r"OpLine %\d+ (\d+) ", each):
            line = int(place[1])
        elif called := re.search(r"OpFunctionCall %\d+ (%\d+)", each):
            found.add((caller, names.get(called[1], ""), line))
    return found


@pytest.mark.parametrize(
    "name", [name for name in sample_names("kernels") if "opt" in name and name.endswith(("dbg", "zebin"))]
)
def test_inferred_chains_are_calls_of_the_source_program(name: str) -> None:
    """What was inlined where, the SPIR-V says from which the compiler made the binary."""
    found = sample_index("kernels", name)
    assert found is not None
    inferred = [answer for answer in answers(found, step("kernels", name)) if answer.reason is Reason.INFERRED]
    chains = [pair for answer in inferred for pair in pairwise(answer.frames)]
    if not chains:
        return
    known = calls(SAMPLES / "kernels" / "bin" / name.partition("/")[0] / "opt.spv")
    assert {(outer.function, inner.function, outer.line) for inner, outer in chains} <= known


def test_chains_are_inferred_in_some_samples() -> None:
    assert tally("kernels", "bodies/dg2-opt.dbg").counts["INFERRED"] > 50


def test_code_of_nobody_known_has_no_variables() -> None:
    found = sample_index(*RAYCAST)
    assert found is not None
    codes = containers.unpack((SAMPLES / "kernels" / "bin" / RAYCAST[1]).read_bytes(), Limits()).objects
    read = partial(visible_in, codes)
    doubted = variables(found, ByKernel("raycast", KernelOffset(0x200)), read)
    assert (doubted.at.reason, doubted.visible.variables, doubted.visible.notes) == (
        Reason.CONTRADICTORY,
        (),
        (NOBODYS,),
    )
    known = variables(found, ByKernel("raycast", KernelOffset(0x368)), read)
    assert {variable.function for variable in known.visible.variables} == {"length_squared", "raycast"}
    known = variables(found, ByKernel("raycast", KernelOffset(0x510)), read)
    assert {variable.function for variable in known.visible.variables} == {"distance_to"}
