"""OTLP profiles as JSON: read back by Google's protocol buffer runtime, and the same answers as in the binary form."""

from __future__ import annotations

import json

import pytest
from google.protobuf import json_format
from opentelemetry.proto.profiles.v1development.profiles_pb2 import ProfilesData

from symd import profiles
from symd.errors import Malformed
from symd.model.answers import Reason
from symd.profiles import otlp_json


def parsed(data):
    return json_format.Parse(data.decode(), ProfilesData())


def frames(data, at):
    tables = data.dictionary
    return [
        (
            tables.string_table[tables.function_table[line.function_index].name_strindex],
            tables.string_table[tables.function_table[line.function_index].filename_strindex],
            line.line,
            line.column,
        )
        for line in tables.location_table[at].lines
    ]


def test_the_lines_are_those_of_the_binary_form(resolver, sample):
    text = profiles.symbolize(sample("kernels.otlp.json"), resolver)
    binary = profiles.symbolize(sample("kernels.otlp"), resolver)
    assert parsed(text.data) == ProfilesData.FromString(binary.data)
    assert (text.report.resolved, text.report.already, text.report.total) == (3, 1, 5)
    assert text.report.unresolved == binary.report.unresolved == {Reason.UNKNOWN_MODULE: 1}
    assert len(frames(parsed(text.data), 3)) == 2


def test_nothing_else_of_the_document_changes(resolver, sample):
    """Not even what no OTLP has; the tables only grow."""
    before = json.loads(sample("kernels.otlp.json"))
    before["dictionary"]["locationTable"][3]["x"] = before["x"] = [1e300, "\udcff", {"y": None}]
    after = json.loads(profiles.symbolize(json.dumps(before).encode(), resolver).data)
    for location in after["dictionary"]["locationTable"]:
        if location not in before["dictionary"]["locationTable"]:
            del location["lines"]
    for name in ("functionTable", "stringTable"):
        del after["dictionary"][name][len(before["dictionary"][name]) :]
    assert after == before


def test_names_of_the_proto_are_read_and_written(resolver, sample):
    message = json_format.Parse(sample("kernels.otlp.json").decode(), ProfilesData())
    text = json_format.MessageToJson(message, preserving_proto_field_name=True).encode()
    done = profiles.symbolize(text, resolver)
    assert b'"function_index": 2' in done.data
    assert b'"nameStrindex"' not in done.data
    assert parsed(done.data) == parsed(profiles.symbolize(sample("kernels.otlp.json"), resolver).data)


def test_several_documents_one_a_line(resolver, sample):
    """As the file exporter of the Collector writes them."""
    one = json.dumps(json.loads(sample("kernels.otlp.json")))
    done = profiles.symbolize(f"{one}\n{one}\n".encode(), resolver)
    lines = done.data.decode().splitlines()
    assert (done.report.total, done.report.resolved, len(lines)) == (10, 6, 2)
    assert lines[0] == lines[1]
    assert parsed(lines[0].encode()) == parsed(profiles.symbolize(sample("kernels.otlp.json"), resolver).data)
    assert profiles.samples(done.data).totals() == (20,)


def test_tables_that_are_missing_are_added(resolver):
    text = (
        '{"dictionary": {"stringTable": ["", "shade.co"], "mappingTable": [{}, {"memoryStart": "4096", "filenameStrindex": 1}],'
        ' "locationTable": [{}, {"mappingIndex": 1, "address": "10560"}, {"address": 10560, "mappingIndex": 1, "lines": []}]}}'
    )
    done = profiles.symbolize(text.encode(), resolver)
    data = parsed(done.data)
    assert done.report.resolved == 2
    assert frames(data, 1) == frames(data, 2) == [("shade", "/src/shade.hip", 30, 32)]
    assert not data.dictionary.function_table[0].name_strindex, "entry 0 is the zero value"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"dictionary": {"locationTable": [{}, {"address": "a"}]}}', "address field"),
        ('{"dictionary": {"locationTable": [{}, {"address": 1.5}]}}', "address field"),
        ('{"dictionary": {"locationTable": [{}, {"address": "18446744073709551616"}]}}', "Value out of range"),
        ('{"dictionary": {"locationTable": [{}, 3]}}', "locationTable field"),
        ('{"dictionary": {"stringTable": [3]}}', "stringTable field"),
        ('{"dictionary": {"stringTable": [""]}', "JSON is damaged"),
        ('{"dictionary": {}} []', "a document is not an object"),
    ],
)
def test_what_is_no_such_message_is_refused(resolver, text, says):
    with pytest.raises(Malformed, match=says):
        profiles.symbolize(text.encode(), resolver, name=otlp_json.NAME)
