"""rocprofv3's thread trace: sources and frames, compared with LLVM."""

from __future__ import annotations

import json

import pytest

from symd import profiles
from symd.errors import Malformed
from symd.model.answers import Reason
from symd.profiles import Resolver
from symd.profiles.att import FRAMES
from tests.profiles.conftest import named_module
from tests.profiles.modules import AMD, of_object


def test_each_instruction_has_the_frames_that_llvm_finds(resolver, sample, tmp_path):
    done = profiles.symbolize(sample("code.json"), resolver)
    document = json.loads(done.data)
    added = document[FRAMES]
    for number, address in ((1, 6464), (2, 6480)):
        frames = added["table"][added["rows"][number]]
        found = [(one["linkage_name"] or one["function"], one["file"], one["line"], one["column"]) for one in frames]
        assert found == of_object(AMD, address, tmp_path)
    assert (done.report.unit, done.report.total, done.report.resolved) == ("instructions", 5, 2)
    assert done.report.unresolved == {Reason.OUTSIDE_TEXT: 1, Reason.UNKNOWN_MODULE: 1}
    assert done.report.already == 1
    assert done.report.notes == ("no module was given for code object 3",)


def test_empty_sources_are_filled_as_rocm_writes_them_and_others_stay(resolver, sample, tmp_path):
    before, after = sample("code.json"), profiles.symbolize(sample("code.json"), resolver).data
    old, new = json.loads(before)["code"], json.loads(after)["code"]
    inner, caller = of_object(AMD, 6480, tmp_path)
    assert new[2][3] == f"{inner[1]}:{inner[2]} -> {caller[1]}:{caller[2]}"
    assert [row[3] for row in new[3:]] == [row[3] for row in old[3:]]
    assert [[*row[:3], *row[4:]] for row in new] == [[*row[:3], *row[4:]] for row in old]


def test_a_later_run_with_another_module_fills_the_rest(engine, sample):
    first = profiles.symbolize(
        sample("code.json").replace(b",2,6480", b",4,6480"), Resolver(engine, [named_module(engine, AMD, "2")])
    )
    second = profiles.symbolize(first.data, Resolver(engine, [named_module(engine, AMD, "4")]))
    assert (first.report.resolved, second.report.resolved, second.report.already) == (1, 1, 2)
    document = json.loads(second.data)
    assert document[FRAMES]["rows"] == [None, 0, 1, None, None, None]
    assert len(document[FRAMES]["table"]) == 2


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (b'"code":[[', b'"symd_frames": 3, "code":[[', "has no lists 'table' and 'rows'"),
        (b']],"header"', b']"header"', "JSON is damaged"),
    ],
)
def test_damage_is_named(resolver, sample, old, new, says):
    with pytest.raises(Malformed, match=says):
        profiles.symbolize(sample("code.json").replace(old, new), resolver, name="att")


def test_rows_of_other_shapes_are_passed_over(resolver):
    rows = '[1], [], ["x"], "y", null, ["v",0,1,"",2], ["v",0,1,"","2",6464,1,1,1,1], ["v",0,1,3,2,6464], ["; k",0,1,"",2,6464]'
    text = f'{{"code":[{rows}],"header":"ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit","version":"3"}}'
    done = profiles.symbolize(text.encode(), resolver)
    assert (done.report.total, done.report.resolved) == (2, 1)
    assert json.loads(done.data)["code"] == json.loads(text)["code"]
    assert profiles.samples(done.data).totals() == (0, 0, 0, 0)


def test_cycles_and_hits_are_values_and_sources_of_rocm_are_places(resolver, sample):
    found = profiles.samples(profiles.symbolize(sample("code.json"), resolver).data)
    assert [(one.name, one.unit) for one in found.value_types] == [
        ("latency", "cycles"), ("hit", "count"), ("stall", "cycles"), ("idle", "cycles"),
    ]  # fmt: skip
    assert found.totals() == (6216, 138, 4612, 132)
    kept = found.addresses[found.samples[2].stack[0]]
    assert [(frame.file, frame.line, frame.inlined) for frame in kept.frames] == [
        ("/opt/kept.hip", 7, True), ("/opt/kept.hip", 9, False),
    ]  # fmt: skip


def test_rows_that_name_file_and_line_have_their_symbols(resolver):
    """What rocprofv3 found in the debug data itself; the kernel stands in a row of its own."""
    rows = [
        ["; _Z5shadePfPKfi.kd", 0, 1, "shade(float*, float const*, int)", 7, 6400, 0, 0, 0, 0],
        ["v_fma_f32 v2, v3, v4, v2", 0, 2, "/src/a.hip:7", 7, 6464, 1, 5, 0, 0],
        ["v_mov_b32 v0, v1", 0, 3, "/src/a.hip:3 -> /src/a.hip:9", 7, 6468, 1, 6, 0, 0],
        ["s_endpgm", 0, 4, "/src/b.hip:9", 8, 6472, 1, 7, 0, 0],
        ["; other.kd", 0, 5, "", 8, 6500, 0, 0, 0, 0],
        ["s_endpgm", 0, 6, "/src/b.hip:10", 8, 6504, 1, 8, 0, 0],
    ]
    header = "ISA, _, LineNumber, Source, Codeobj, Vaddr, Hit, Latency, Stall, Idle"
    data = json.dumps({"code": rows, "header": header, "version": "3.0.0"}).encode()
    done = profiles.symbolize(data, Resolver(resolver.symbolizer, []))
    assert (done.report.total, done.report.already, done.report.unresolved) == (5 - 1, 4, {})
    assert done.data == data
    found = profiles.samples(data)
    assert [[tuple(frame[:4]) for frame in found.addresses[one.stack[0]].frames] for one in found.samples] == [
        [("shade(float*, float const*, int)", "_Z5shadePfPKfi", "/src/a.hip", 7)],
        [(None, None, "/src/a.hip", 3), ("shade(float*, float const*, int)", "_Z5shadePfPKfi", "/src/a.hip", 9)],
        [(None, None, "/src/b.hip", 9)],
        [("other", None, "/src/b.hip", 10)],
    ]
