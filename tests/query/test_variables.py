"""Variables in scope, asked as people ask: by kernel, section or address. Places and reasons are those of symbolize."""

from __future__ import annotations

from functools import cache, partial
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import ObjectNotFound
from symd.formats import containers
from symd.index import Index
from symd.index.module import build_index
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, ObjectAddress, SectionOffset
from symd.model.answers import Reason
from symd.model.code import CodeObject
from symd.model.variables import FunctionScope, InScope, Variable, Visible
from symd.query.symbolize import symbolize
from tests.query.asked import variables, visible_in

SAMPLES = Path(__file__).parents[2] / "samples"
VADD = "kernels/bin/vadd/dg2-opt.dbg"


@cache
def opened(path: str) -> tuple[Index, tuple[CodeObject, ...]]:
    data = (SAMPLES / path).read_bytes()
    return Index(build_index(data, Limits())), containers.unpack(data).objects


def asked(path: str, query, within: str | None = None) -> InScope:
    index, codes = opened(path)
    return variables(index, query, partial(visible_in, codes), within)


def kernel(name: str, offset: int) -> ByKernel:
    return ByKernel(name, KernelOffset(offset))


def test_a_kernel_offset_is_answered_with_the_frames_and_the_variables_of_the_place():
    """vadd.cl: shifted(x, by) with its local scaled is inlined into vadd; DWARF says 32 lanes."""
    found = asked(VADD, kernel("vadd", 0x1E8))
    assert found.at.reason is Reason.EXACT
    assert [frame.function for frame in found.at.frames] == ["shifted", "vadd"]
    assert [(one.function, one.name) for one in found.visible.variables] == [
        ("shifted", "x"),
        ("shifted", "by"),
        ("shifted", "scaled"),
        ("vadd", "a"),
        ("vadd", "b"),
        ("vadd", "sum"),
        ("vadd", "count"),
        ("vadd", "i"),
    ]
    assert found.visible.simd_width == 32


def test_a_section_offset_and_an_address_mean_the_same_place():
    by_kernel = asked(VADD, kernel("vadd", 0x1E8))
    assert asked(VADD, BySection(".text", SectionOffset(0x1E8))) == by_kernel
    assert asked(VADD, ByAddress(ObjectAddress(0x1E8))) == by_kernel


@pytest.mark.parametrize(
    ("path", "query", "reason"),
    [
        (VADD, kernel("nobody", 0), Reason.UNKNOWN_KERNEL),
        (VADD, kernel("vadd", 1 << 40), Reason.OUTSIDE_TEXT),
        (VADD, BySection(".nothing", SectionOffset(0)), Reason.OUTSIDE_TEXT),
        ("kernels/bin/particles/dg2-opt.dbg", ByAddress(ObjectAddress(0)), Reason.AMBIGUOUS),
    ],
)
def test_a_query_without_a_place_has_the_reason_of_symbolize_and_opens_nothing(path, query, reason):
    index, _ = opened(path)
    found = variables(index, query, lambda *_: pytest.fail("opened the module"))
    assert found.at == symbolize(index, [query])[0]
    assert (found.at.reason, found.visible.variables) == (reason, ())
    names_no_section = isinstance(query, BySection)
    assert bool(found.at.candidates) == (reason is Reason.AMBIGUOUS or names_no_section)


def test_an_object_of_several_can_be_chosen():
    path = "kernels/bin/particles/dg2-opt.dbg"
    assert asked(path, ByAddress(ObjectAddress(0)), "move").at.path == "move"
    with pytest.raises(ObjectNotFound):
        asked(path, ByAddress(ObjectAddress(0)), "nowhere")


def test_a_module_without_debug_data_says_so():
    found = asked("kernels/bin/saxpy/igc2-dg2-opt-nodebug.zebin", kernel("saxpy", 0))
    assert found.at.reason is Reason.NO_DEBUG_INFO
    assert found.visible.notes == ("there is no debug data",)


def test_debug_data_that_cannot_be_trusted_is_malformed_and_the_note_says_why():
    index, codes = opened("amdgpu/bin/v4-gfx900.co")
    broken = [_without_units(code) for code in codes]
    found = variables(index, kernel("shade", 0), partial(visible_in, broken))
    assert found.at.reason is Reason.MALFORMED
    assert found.at.kernel == "shade"
    assert "no unit can be read" in found.visible.notes[0]


def _without_units(code: CodeObject) -> CodeObject:

    sections = [one.changed(content=b"\xff\xff") if one.name == ".debug_info" else one for one in code.sections]
    return code._replace(sections=tuple(sections))


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("kernels/bin/tonemap/igc2-dg2-opt.zebin", "tonemap"),
        ("kernels/bin/mandelbrot/tgllp-opt.dbg", "mandelbrot"),
        ("amdgpu/bin/v4-gfx900.co", "shade"),
        ("cuda/bin/tonemap.sm_80.debug.cubin", "tonemap"),
    ],
)
def test_functions_are_among_the_frames_in_their_order(path, name):
    index, _ = opened(path)
    size = index.kernels[name][0].size
    met = 0
    for offset in range(0, size, max(8, size // 40 & ~7)):
        found = asked(path, kernel(name, offset))
        owners = list(dict.fromkeys(one.function for one in found.visible.variables if one.function))
        frames = [frame.function for frame in found.at.frames]
        assert [function for function in frames if function in owners] == owners, hex(offset)
        met += len(owners)
    assert met > 20


def test_where_the_debug_data_contradicts_itself_only_the_frames_that_are_told_have_variables():
    """At 0x368 of raycast code of a call that was inlined lies in another function's range; what that range holds is not answered."""
    index, _ = opened("kernels/bin/raycast/dg2-opt.dbg")
    scopes = [("dot", True), ("length_squared", True), ("distance_to", False), ("raycast", False), (None, False)]
    made = [
        Variable("v", "int", "local" if name else "global", name, inlined, False, "r1", frame=at if name else None)
        for at, (name, inlined) in enumerate(scopes)
    ]
    around = tuple(FunctionScope(name, None, inlined) for name, inlined in scopes if name)
    found = variables(index, kernel("raycast", 0x368), lambda *_: Visible(tuple(made), functions=around))
    assert found.at.reason is Reason.CONTRADICTORY
    assert [frame.function for frame in found.at.frames] == ["length_squared", "raycast"]
    assert [(one.function, one.frame) for one in found.visible.variables] == [
        ("length_squared", 0),
        ("raycast", 1),
        (None, None),
    ]


def test_variables_where_no_frame_is_told_have_none_and_a_note_says_so():
    found = asked("kernels/bin/bodies/dg2-opt.dbg", kernel("step_bodies", 0x7D0))
    assert (found.at.reason, found.at.frames) == (Reason.GAP, ())
    assert {each.frame for each in found.visible.variables} == {None}
    assert found.visible.notes == ("which frame the variables of total_pull belong to is not certain",)
