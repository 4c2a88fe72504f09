"""CUPTI PC sampling records as JSON lines, compared with what nvdisasm prints for the same offsets."""

from __future__ import annotations

import json

import pytest

from symd import profiles
from symd.errors import Malformed
from symd.model.answers import Reason
from symd.profiles import Resolver
from symd.profiles.placed import placed
from tests.profiles.conftest import named_module
from tests.profiles.modules import CUBIN, CUBIN_CRC, of_cubin


def records(data):
    return [json.loads(line) for line in data.splitlines()]


def test_records_have_the_lines_that_nvdisasm_finds(resolver, sample):
    found = records(profiles.symbolize(sample("records.jsonl"), resolver).data)
    for record in found[:3]:
        lines = of_cubin(f".text.{record['functionName']}", record["pcOffset"])
        assert [(frame["file"], frame["line"]) for frame in record["frames"]] == lines
    assert [len(record.get("frames", ())) for record in found] == [2, 2, 1, 0, 0]


def test_lines_are_only_prolonged(resolver, sample):
    before, after = sample("records.jsonl"), profiles.symbolize(sample("records.jsonl"), resolver).data
    for old, new in zip(before.splitlines(), after.splitlines(), strict=True):
        assert new.startswith(old[:-1])
    assert [{**record, "frames": None} for record in records(after)] == [
        {**record, "frames": None} for record in records(before)
    ]


def test_an_unknown_crc_is_named(resolver, sample):
    report = profiles.symbolize(sample("records.jsonl"), resolver).report
    assert report.unresolved == {Reason.OUTSIDE_TEXT: 1, Reason.UNKNOWN_MODULE: 1}
    assert report.notes == ("no module was given for the cubin with CRC 99 (0x63)",)


@pytest.mark.parametrize("identity", ["2271560481", "0x87654321", "0x0000000087654321", None])
def test_the_crc_may_be_written_either_way_or_the_function_be_found(engine, sample, identity):
    assert int("87654321", 16) == CUBIN_CRC
    resolver = Resolver(engine, [named_module(engine, CUBIN, identity)])
    assert profiles.symbolize(sample("records.jsonl"), resolver).report.resolved == 3


def test_a_cubin_that_bears_another_crc_is_not_taken_for_its_names(engine, sample):
    """All functions of a cubin begin at 0, so a wrong cubin would give wrong lines and never notice."""
    resolver = Resolver(engine, [named_module(engine, CUBIN, "1")])
    assert profiles.symbolize(sample("records.jsonl"), resolver).report.resolved == 0


def test_line_ends_blank_lines_and_odd_bytes_stay(resolver):
    line = b' {"cubinCrc":2271560481,"functionName":"_Z5probePfPK6float3","pcOffset":0,"x":"\xff\\u0041"} \r\n\r\n'
    done = profiles.symbolize(line + b"{}\n", resolver, name="cupti")
    assert done.data.startswith(line.partition(b"}")[0] + b', "frames": [{')
    assert done.data.endswith(b"} \r\n\r\n{}\n")


@pytest.mark.parametrize(
    "record",
    ["[]", "{}", '{"cubinCrc": 1.0, "pcOffset": 1, "functionName": "f"}',
     '{"cubinCrc": 1, "pcOffset": "1", "functionName": "f"}', '{"cubinCrc": 1, "pcOffset": 1, "functionName": null}'],
)  # fmt: skip
def test_a_record_of_another_shape_is_counted_and_stays(resolver, record):
    done = profiles.symbolize(record.encode(), resolver, name="cupti")
    assert done.report.unresolved == {Reason.MALFORMED: 1}
    assert done.data == record.encode()


@pytest.mark.parametrize("text", [b'{"a": 1} {"b": 2}', b'{"a": 1', b"\xff", b'{"a": 1}\n}'])
def test_a_line_that_is_no_json_is_refused(resolver, text):
    with pytest.raises(Malformed, match="JSON is damaged"):
        profiles.symbolize(text, resolver, name="cupti")


@pytest.mark.parametrize("crc", ["left out", None])
def test_a_record_without_a_crc_goes_by_its_function(engine, sample, crc):
    """The lines that nvdisasm prints, and every sample of the records; without the function's module, its name."""
    kept = [each for each in records(sample("records.jsonl")) if each["cubinCrc"] == CUBIN_CRC][:3]
    bare = [{name: value for name, value in each.items() if name != "cubinCrc"} for each in kept]
    lines = [json.dumps(each if crc == "left out" else each | {"cubinCrc": crc}) for each in bare]
    data = "\n".join(lines).encode()
    resolver = Resolver(engine, [named_module(engine, CUBIN)])
    assert profiles.identify(data).NAME == "cupti"
    for record in records(profiles.symbolize(data, resolver).data):
        expected = of_cubin(f".text.{record['functionName']}", record["pcOffset"])
        assert [(frame["file"], frame["line"]) for frame in record["frames"]] == expected
    found = placed(profiles.samples(data), resolver)
    assert not found.left
    counted = sum(reason["samples"] for each in kept for reason in each["stallReason"])
    assert found.weight(found.totals()) == counted > 0
    alone = profiles.symbolize(data, Resolver(engine, [])).report
    assert alone.unresolved == {Reason.UNKNOWN_MODULE: 3}
    assert set(alone.notes) == {f"no module was given for the function {each['functionName']}" for each in kept}
