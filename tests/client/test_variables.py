"""Variables over the channel are those of the engine: names, types as structure, places, notes and reasons."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.debuginfo.variables import Member, TypeInfo, Variable, Visible
from symd.errors import ModuleNotFound, ObjectNotFound
from symd.model.addresses import ByKernel, BySection, KernelOffset, SectionOffset
from symd.model.answers import Answer, Reason
from symd.model.variables import InScope
from symd.wire.variables import from_response, to_response
from tests.client.test_end_to_end import both  # noqa: F401 - the fixture: an engine and a client of its daemon

SAMPLES = Path(__file__).parents[2] / "samples"
FILES = [
    "kernels/bin/blur/dg2-opt.dbg",
    "kernels/bin/particles/skl-O0.dbg",
    "kernels/bin/filters/igc2-dg2-opt.zebin",
    "amdgpu/bin/v4-gfx900-O0.co",
    "cuda/bin/raycast.sm_90.debug.cubin",
]


@pytest.mark.parametrize("file", FILES)
def test_every_place_has_the_engines_variables(both, file):  # noqa: F811
    engine, client = both
    module = client.add((SAMPLES / file).read_bytes())
    seen = 0
    for each in module.objects:
        for kernel in each.kernels:
            for offset in range(0, kernel.size, max(8, kernel.size // 8 // 8 * 8)):
                query = ByKernel(kernel.name, KernelOffset(offset))
                mine = engine.variables(module.sha256, query, each.path)
                assert client.variables(module.sha256, query, each.path) == mine
                seen += len(mine.visible.variables)
    assert seen > 0


def test_a_query_without_a_place_has_its_reason(both):  # noqa: F811
    engine, client = both
    digest = client.add((SAMPLES / FILES[0]).read_bytes()).sha256
    for query in (ByKernel("nobody", KernelOffset(0)), BySection(".text", SectionOffset(1 << 40))):
        found = client.variables(digest, query)
        assert found == engine.variables(digest, query)
        assert found.at.reason in {Reason.UNKNOWN_KERNEL, Reason.OUTSIDE_TEXT}
        assert not found.visible.variables


def test_what_is_not_there_is_said_so(both):  # noqa: F811
    _, client = both
    digest = client.add((SAMPLES / FILES[0]).read_bytes()).sha256
    query = ByKernel("blur", KernelOffset(0))
    with pytest.raises(ModuleNotFound):
        client.variables("0" * 64, query)
    with pytest.raises(ObjectNotFound):
        client.variables(digest, query, "nowhere")


def test_every_field_comes_back():
    info = TypeInfo(
        "struct s [3][]", "array", 12, "signed", 0, (3, None), (Member("a", 0, 4, 33, 7), Member("", None, None)),
        (0, None), (("red", -1), ("big", 7)), "local",
    )  # fmt: skip
    variable = Variable("v", "int", "global", None, False, False, "r1", ((0, 8), (16, 2**64 - 1)), 0)
    gone = Variable("", "", "local", "f", True, True, None)
    found = InScope(Answer(Reason.GAP), Visible((variable, gone), (info,), 16, ("a note",)))
    assert from_response(to_response(found)) == found


def test_numbers_that_no_field_holds_travel_as_not_known():
    huge = TypeInfo("t", "base", 1 << 70, counts=(1 << 65,), members=(Member("m", None, 1 << 64),))
    back = from_response(to_response(InScope(Answer(Reason.GAP), Visible((), (huge,))))).visible.types[0]
    assert (back.size, back.counts, back.members[0].offset) == (None, (None,), None)
