"""rocprofv3's PC sampling JSON, read back with the json module and compared with LLVM."""

from __future__ import annotations

import json

import pytest

from symd import profiles
from symd.errors import Malformed, Unsupported
from symd.model.answers import Reason
from symd.profiles import Resolver, rocprofv3
from symd.profiles.profile_format import Options
from tests.profiles.conftest import named_module
from tests.profiles.modules import AMD, PRUNED, of_object


def samples(process):
    records = process["buffer_records"]
    return records["pc_sample_host_trap"] + records["pc_sample_stochastic"]


def frames(process, number):
    sample = samples(process)[number]
    listed = process["strings"]["symd_frames"][sample["symd_frames_index"]]
    return [(one["linkage_name"] or one["function"], one["file"], one["line"], one["column"]) for one in listed]


def test_samples_have_the_frames_that_llvm_finds(resolver, sample, tmp_path):
    done = profiles.symbolize(sample("pc_sampling.json"), resolver)
    [process] = json.loads(done.data)["rocprofiler-sdk-tool"]
    assert frames(process, 0) == of_object(AMD, 6464, tmp_path)
    assert frames(process, 1) == frames(process, 2) == of_object(AMD, 6480, tmp_path)
    assert len(frames(process, 1)) == 2
    assert len(process["strings"]["symd_frames"]) == 3
    assert ["symd_frames_index" in one for one in samples(process)] == [True] * 4 + [False] * 3


def test_an_offset_counts_from_the_lowest_segment_and_not_from_address_zero(resolver, sample, tmp_path):
    """The pruned object begins at 0x1300: offset 0x100 is object address 0x1400, as load_base - load_delta says."""
    done = profiles.symbolize(sample("pc_sampling.json"), resolver)
    [process] = json.loads(done.data)["rocprofiler-sdk-tool"]
    [(_, file, line, _)] = of_object(PRUNED, 0x1400, tmp_path)
    assert frames(process, 3)[0][1:3] == (file, line)


def test_empty_comments_are_filled_and_others_stay(resolver, sample, tmp_path):
    [process] = json.loads(profiles.symbolize(sample("pc_sampling.json"), resolver).data)["rocprofiler-sdk-tool"]
    lines = [of_object(AMD, address, tmp_path)[0] for address in (6464, 6480)]
    places = [f"{file}:{line}" for _, file, line, _ in lines]
    assert process["strings"]["pc_sample_comments"] == [*places, "kept.hip:1", "/src/scale_v2.s:23"]


def test_nothing_else_changes(resolver, sample):
    before, after = sample("pc_sampling.json"), profiles.symbolize(sample("pc_sampling.json"), resolver).data
    document = json.loads(after)
    [process] = document["rocprofiler-sdk-tool"]
    del process["strings"]["symd_frames"]
    for one in samples(process):
        one.pop("symd_frames_index", None)
    process["strings"]["pc_sample_comments"] = ["", "", "kept.hip:1", ""]
    assert json.dumps(document) == json.dumps(json.loads(before)), "members stay in their order"


def test_a_memory_uri_is_refused_with_the_reason(resolver, sample):
    report = profiles.symbolize(sample("pc_sampling.json"), resolver).report
    assert report.unresolved == {Reason.OUTSIDE_TEXT: 1, Reason.UNKNOWN_MODULE: 2}
    [note] = report.notes
    assert note.startswith("code object 1: memory://4711#")
    assert "running process" in note
    assert "symd attach" in note


def test_a_file_uri_is_read_through_the_one_who_may(engine, sample):
    asked = []

    def load(uri):
        asked.append(uri)
        return AMD.read_bytes()

    done = profiles.symbolize(sample("pc_sampling.json"), Resolver(engine, [], read_uri=load))
    assert asked == ["file:///opt/render/shade.co", "file:///opt/render/scale.co"]
    assert done.report.resolved >= 3
    without = profiles.symbolize(sample("pc_sampling.json"), Resolver(engine, []))
    assert "no module was given for code object 2 (file:///opt/render/shade.co)" in without.report.notes
    assert without.report.resolved == 0


def test_a_code_object_may_be_named_by_its_uri(engine, sample):
    resolver = Resolver(engine, [named_module(engine, AMD, "file:///opt/render/shade.co")])
    assert profiles.symbolize(sample("pc_sampling.json"), resolver).report.resolved == 3


def test_several_processes_have_their_own_objects_and_tables(engine, sample):
    [one] = json.loads(sample("pc_sampling.json"))["rocprofiler-sdk-tool"]
    other = {**one, "metadata": {"pid": 1}}
    resolver = Resolver(engine, [named_module(engine, AMD, "1/2")])
    done = profiles.symbolize(json.dumps({"rocprofiler-sdk-tool": [one, other]}).encode(), resolver)
    first, second = json.loads(done.data)["rocprofiler-sdk-tool"]
    assert done.report.resolved == 3
    assert "symd_frames" not in first["strings"]
    assert len(frames(second, 1)) == 2


def test_a_later_run_prolongs_the_table(engine, sample):
    two = Resolver(engine, [named_module(engine, AMD, "2")])
    three = Resolver(engine, [named_module(engine, AMD, "2"), named_module(engine, PRUNED, "3")])
    done = profiles.symbolize(profiles.symbolize(sample("pc_sampling.json"), two).data, three)
    [process] = json.loads(done.data)["rocprofiler-sdk-tool"]
    assert [one.get("symd_frames_index") for one in samples(process)[:4]] == [0, 1, 1, 2]
    assert (done.report.already, done.report.resolved) == (3, 1)


def test_the_older_form_with_one_object_instead_of_a_list_is_read(resolver, sample):
    document = json.loads(sample("pc_sampling.json"))
    [document["rocprofiler-sdk-tool"]] = document["rocprofiler-sdk-tool"]
    assert profiles.symbolize(json.dumps(document).encode(), resolver).report.resolved == 4


def test_the_csv_is_refused_because_it_has_no_addresses(resolver, sample):
    with pytest.raises(Unsupported, match=r"no program counters.*--output-format json"):
        profiles.symbolize(sample("pc_sampling.csv"), resolver)


@pytest.mark.parametrize(
    "record",
    ["{}", "[]", "3", '{"record": {"pc": []}}', '{"record": {"pc": {"code_object_id": "2", "code_object_offset": 1}}}',
     '{"record": {"pc": {"code_object_id": 2, "code_object_offset": 1.5}}}',
     '{"record": {"pc": {"code_object_id": true, "code_object_offset": 0}}}'],
)  # fmt: skip
def test_a_sample_of_another_shape_is_counted_and_stays(resolver, record):
    text = f'{{"rocprofiler-sdk-tool": [{{"strings": {{}}, "buffer_records": {{"pc_sample_host_trap": [{record}]}}}}]}}'
    done = profiles.symbolize(text.encode(), resolver)
    assert done.data == text.encode()
    assert done.report.unresolved == {Reason.MALFORMED: 1}


@pytest.mark.parametrize("offset", [-1, 1 << 64, -(1 << 70)])
def test_an_offset_that_is_no_address_is_outside(resolver, sample, offset):
    data = sample("pc_sampling.json").replace(b'"code_object_offset": 16}', b'"code_object_offset": %d}' % offset)
    assert profiles.symbolize(data, resolver).report.unresolved[Reason.OUTSIDE_TEXT] == 1


def test_deep_nesting_is_refused(resolver):
    data = b'{"rocprofiler-sdk-tool": [{"metadata": ' + b"[" * 200_000
    with pytest.raises(Malformed):
        rocprofv3.symbolize(data, resolver, Options())
