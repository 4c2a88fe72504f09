"""Modules, queries, line tables and grabs come back over the wire as they were.

Times as Protocol Buffers' own conversions have them.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from google.rpc import code_pb2
from hypothesis import given
from hypothesis import strategies as st

from symd.errors import BadQuery, InvalidInput, Malformed
from symd.formats.lazy import LazyMapping
from symd.model.addresses import ByAddress, ByDevice, ByKernel, BySection, DeviceAddress
from symd.model.arguments import ColumnQuestion
from symd.model.contexts import AddressForm, Origin
from symd.model.grabs import GrabRequest
from symd.model.line_tables import LineLevel
from symd.model.summaries import KernelSummary, ModuleRecord
from symd.rpc.wire.fields import from_time, module_digest, module_name, to_duration, to_timestamp
from symd.rpc.wire.grabs import from_grab_request, to_grab_request
from symd.rpc.wire.line_tables import from_chunks, to_chunks, to_level
from symd.rpc.wire.line_tables import from_request as from_line_request
from symd.rpc.wire.modules import (
    facts_text,
    from_facts,
    from_facts_text,
    from_module,
    from_record,
    to_code_object,
    to_container,
    to_facts,
    to_kernel,
    to_module,
    to_value,
)
from symd.rpc.wire.queries import add_any_query, from_any_query, from_column, from_query, to_query, write_column
from symd.v1 import fact_pb2, module_service_pb2, query_pb2, symbol_service_pb2
from tests.server.fakes import DIGEST, GOOD, line_table, summary

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_facts_come_back_with_their_types_and_order(facts):
    messages = [fact_pb2.Fact.FromString(fact.SerializeToString()) for fact in to_facts(facts)]
    back = from_facts(messages)
    assert back == facts
    assert list(back) == list(facts)
    assert [type(value) for value in back.values()] == [type(value) for value in facts.values()]


@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_facts_come_back_from_json_text_as_from_messages(facts):
    text = facts_text(facts)
    writable = all(value not in (float("inf"), float("-inf")) for value in leaves(facts))
    assert bool(text) == bool(facts and writable)
    if text:
        back = from_facts_text(text)
        assert back == facts
        assert list(back) == list(facts)
        assert [type(value) for value in leaves(back)] == [type(value) for value in leaves(facts)]


def leaves(value):
    inner = value.values() if isinstance(value, dict) else value
    return [leaf for each in inner for leaf in leaves(each)] if isinstance(value, dict | list) else [value]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), "half a pair: \ud800", "no UTF-8: \udcff"])
def test_what_json_cannot_write_goes_as_messages(value):
    kernel = KernelSummary("k", ".text", 1, 0, 8, {"deep": [{"value": value}]})
    message = to_kernel(kernel, "", as_json=True)
    assert not message.facts_json
    assert message.facts == to_kernel(kernel, "").facts


@pytest.mark.parametrize("text", ["[1]", "{", "7", "[" * 100_000])
def test_facts_of_another_daemon_that_are_no_object_are_malformed(text):
    with pytest.raises(Malformed, match="not a JSON object"):
        from_facts_text(text)


def test_facts_that_are_unpacked_at_every_look_are_looked_at_once():
    looked = []

    def read():
        looked.append(1)
        return {"a": 1, "b": [1, 2], "c": 3}

    class Packed(LazyMapping):
        def value(self):
            return self._read()

        def items(self):
            return self.value().items()

    assert from_facts_text(facts_text(Packed(read))) == {"a": 1, "b": [1, 2], "c": 3}
    assert len(looked) == 1


@pytest.mark.parametrize("value", [2**64, -(2**63) - 1, 99999999999999999999])
def test_an_integer_that_64_bits_cannot_hold_travels_as_decimal_text(value):
    (message,) = to_facts({"simd_size": value})
    assert message.value.WhichOneof("kind") == "text"
    assert from_facts([message]) == {"simd_size": str(value)}


def test_what_json_does_not_have_is_no_fact():
    with pytest.raises(TypeError):
        to_value(object())


@pytest.mark.parametrize("as_json", [False, True])
def test_a_module_comes_back_with_code_objects_and_kernels(as_json):
    module = summary(GOOD)
    objects = [to_code_object(each) for each in module.objects]
    kernels = [to_kernel(kernel, each.path, as_json=as_json) for each in module.objects for kernel in each.kernels]
    containers = map(to_container, module.containers)
    message = to_module(ModuleRecord(module.sha256, module.size, module.format, "mine", 1.5), module)
    assert from_module(message, objects, kernels, containers) == module
    assert (message.name, message.label) == (f"modules/{module.sha256}", "mine")
    contents = message.contents
    assert (contents.code_object_count, contents.kernel_count, contents.container_count) == (2, 1, 2)


@given(st.floats(0, 4e9))
def test_a_record_comes_back_with_its_time_to_the_nanosecond(added):
    record = ModuleRecord("ab" * 32, 12, "zebin", "my label", added, "MALFORMED")
    message = to_module(record)
    back = from_record(message)
    assert abs(back.create_time - added) < 1e-9 + 1e-15 * added
    assert back == ModuleRecord("ab" * 32, 12, "zebin", "my label", back.create_time, "MALFORMED")
    assert (message.failure.code, message.HasField("contents")) == (code_pb2.INVALID_ARGUMENT, False)


@given(st.floats(1.5e9, 4e9))
def test_a_time_of_this_century_comes_back_exactly(added):
    assert from_record(to_module(ModuleRecord("ab" * 32, 1, "", "", added))).create_time == added


@pytest.mark.parametrize(
    "query",
    [
        ByAddress(0),
        ByAddress(2**64 - 1),
        ByKernel("vadd", 0),
        ByKernel("", 5),
        BySection(".text", 8),
        BySection("", 8),
        BySection(0, 8),
        BySection(7, 0),
    ],
)
def test_a_query_comes_back(query):
    assert from_query(query_pb2.Query.FromString(to_query(query).SerializeToString())) == query


@pytest.mark.parametrize(
    "query", [ByAddress(-1), ByAddress(1 << 64), ByKernel("k", -1), BySection(1 << 32, 0), ByKernel("\ud800", 0)]
)
def test_a_number_or_name_that_does_not_fit_is_a_bad_query(query):
    with pytest.raises(BadQuery):
        to_query(query)


@pytest.mark.parametrize(
    "message",
    [query_pb2.Query(), query_pb2.Query(section_offset=query_pb2.SectionOffset(offset=3))],
)
def test_a_query_without_an_address_is_refused(message):
    with pytest.raises(BadQuery):
        from_query(message)


@given(
    st.lists(st.integers(0, 2**64 - 1)),
    st.sampled_from([(None, None), ("vadd", None), (None, ".text"), (None, 3), (None, 0), (None, "")]),
)
def test_a_column_of_queries_comes_back(numbers, which):
    column = ColumnQuestion(np.array(numbers, np.uint64), [Origin("", None, *which)])
    message = query_pb2.PackedQueries()
    write_column(message, column)
    back = from_column(query_pb2.PackedQueries.FromString(message.SerializeToString()), DIGEST)
    assert back.values.tolist() == numbers
    assert back.origins == [Origin(DIGEST, None, *which)]
    assert message.count == len(numbers)


ORIGINS = [
    Origin(DIGEST, None, "vadd"),
    Origin(DIGEST, "inner/1", None, 3),
    Origin("b" * 64, "", None, ".text"),
    Origin("b" * 64),
    Origin(context="c" * 32, form=AddressForm(3, 32)),
]


@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 4), st.integers(0, 2**63 - 2))),
    st.sampled_from(["none", "one", "each"]),
)
def test_a_column_of_several_origins_comes_back(rows, timed):
    values, origin, each = (
        np.array(column, kind)
        for column, kind in zip(
            zip(*rows, strict=True) if rows else ((), (), ()), (np.uint64, np.uint32, np.int64), strict=True
        )
    )
    times = {"none": None, "one": 7, "each": each}[timed]
    message = query_pb2.PackedQueries()
    write_column(message, ColumnQuestion(values, ORIGINS, origin, times))
    back = from_column(query_pb2.PackedQueries.FromString(message.SerializeToString()))
    assert (back.values.tolist(), list(back.origins)) == (values.tolist(), ORIGINS)
    assert back.numbers.tolist() == origin.tolist()
    assert np.array_equal(back.times, times) if timed == "each" else back.times == times


@pytest.mark.parametrize(
    ("message", "field"),
    [
        (query_pb2.PackedQueries(count=1, origins=[query_pb2.Origin(function="k")]), "module"),
        (
            query_pb2.PackedQueries(count=1, origins=[query_pb2.Origin(module="modules/x")]),
            "packed_queries.origins.module",
        ),
        (query_pb2.PackedQueries(count=1, origins=[query_pb2.Origin(context="x")]), "packed_queries.origins.context"),
        (query_pb2.PackedQueries(count=1, origin=b"\1"), "packed_queries.origin"),
        (query_pb2.PackedQueries(count=2, origin=b"\1"), "packed_queries.origin"),
    ],
)
def test_an_origin_that_cannot_be_is_refused_and_its_field_named(message, field):
    with pytest.raises(InvalidInput) as caught:
        from_column(message)
    assert caught.value.metadata["field"] == field


@pytest.mark.parametrize("time", [None, 0, 2**63 - 2])
def test_a_device_address_comes_back_where_it_may_be_asked_for(time):
    query = ByDevice("c" * 32, DeviceAddress(2**64 - 1), time)
    request = symbol_service_pb2.SymbolizeRequest()
    add_any_query(request.queries, query)
    assert from_any_query(request.queries[0]) == query
    with pytest.raises(BadQuery, match="cannot be asked for here"):
        from_query(request.queries[0])


@pytest.mark.parametrize(
    "message",
    [
        query_pb2.PackedQueries(values=b"1234567"),
        query_pb2.PackedQueries(values=b"12345", count=4),
        query_pb2.PackedQueries(values=b"123", count=1),
        query_pb2.PackedQueries(values=bytes(16), count=1),
    ],
)
def test_a_column_that_cannot_be_is_refused_and_its_field_named(message):
    with pytest.raises(BadQuery) as caught:
        from_column(message)
    assert caught.value.metadata["field"] == "packed_queries.values"


@pytest.mark.parametrize("width", [1, 2, 4, 8])
def test_a_column_is_as_wide_as_its_count_says_and_an_empty_one_is_zeros(width):
    message = query_pb2.PackedQueries(values=(255).to_bytes(width, "little") * 3, count=3)
    assert from_column(message).values.tolist() == [255] * 3
    assert from_column(query_pb2.PackedQueries(count=3)).values.tolist() == [0, 0, 0]


def test_line_tables_come_back_from_their_chunks():
    tables = [line_table(), line_table("inner", 0), line_table("last", 3)]
    back = list(from_chunks(chunk for table in tables for chunk in to_chunks(table)))
    assert [(t.path, t.target, list(t.text_sections), list(t.strings)) for t in back] == [
        (t.path, t.target, list(t.text_sections), list(t.strings)) for t in tables
    ]
    for mine, theirs in zip(tables, back, strict=True):
        for name in ("text_section", "offset", "kernel", "function", "file", "line", "column", "flags"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))
            assert getattr(mine, name).dtype == getattr(theirs, name).dtype


def test_the_text_of_ptx_lines_comes_back_and_no_other_table_gets_one():
    texts = np.arange(150_000, dtype=np.uint32) % 5
    tables = [line_table(), replace(line_table("ptx"), text=texts)]
    plain, ptx = from_chunks(chunk for table in tables for chunk in to_chunks(table))
    assert plain.text is None
    np.testing.assert_array_equal(ptx.text, texts)


@pytest.mark.parametrize("name", ["text_section", "kernel", "function", "file", "text"])
def test_a_row_that_names_what_never_came_is_malformed(name):
    table = replace(line_table("ptx"), text=np.zeros(150_000, np.uint32))
    wrong = getattr(table, name).copy()
    wrong[-1] = 1000
    with pytest.raises(Malformed, match=r"there is no .* 100[01]"):
        list(from_chunks(to_chunks(replace(table, **{name: wrong}))))


def test_a_level_comes_back_and_an_unknown_one_is_refused():
    def level(number):
        request = symbol_service_pb2.GetLineTableRequest(module="modules/" + "0" * 64, level=number)
        return from_line_request(request)[2]

    assert [level(to_level(each)) for each in LineLevel] == list(LineLevel)
    assert level(0) is LineLevel.SOURCE
    with pytest.raises(InvalidInput):
        level(99)


def test_no_chunk_of_a_line_table_passes_what_clients_take_by_default():
    assert max(chunk.ByteSize() for chunk in to_chunks(line_table())) < 4 << 20


def test_a_line_table_that_breaks_off_is_malformed():
    chunks = list(to_chunks(line_table()))
    with pytest.raises(Malformed):
        list(from_chunks(chunks[:-1]))
    with pytest.raises(Malformed):
        list(from_chunks(chunks[1:]))


def test_a_grab_comes_back():
    request = GrabRequest("opencl", "source", b"kernel", "-g", 2, "dg2", "/opt/new", 12.5, "label", "/src/k.cl")
    assert from_grab_request(to_grab_request(request), None) == request
    assert from_grab_request(to_grab_request(request), 2.5) == replace(request, timeout=2.5)
    bare = GrabRequest("level-zero", "spirv", b"")
    assert from_grab_request(to_grab_request(bare), None) == bare


@pytest.mark.parametrize(
    "request_", [GrabRequest("metal", "source", b""), GrabRequest("opencl", "ptx", b""),
                 GrabRequest("opencl", "spirv", b"", device=-1)],
)  # fmt: skip
def test_a_grab_of_something_unknown_is_refused(request_):
    with pytest.raises(InvalidInput):
        to_grab_request(request_)


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ('#line 3 "gen/a.h"', '#line 3 "/work/gen/a.h"'),
        ('  #\tline 3 "../a.h"\r', '  #\tline 3 "/work/../a.h"\r'),
        ('# 7 "a.h" 1 3', '# 7 "/work/a.h" 1 3'),
        ('# 1 "<built-in>"', '# 1 "<built-in>"'),
        ('#line 3 "/src/a.h"', '#line 3 "/src/a.h"'),
        ("#line 3", "#line 3"),
        ('int a; #line 3 "a.h"', 'int a; #line 3 "a.h"'),
        ('#include "a.h"', '#include "a.h"'),
    ],
)
def test_relative_names_of_source_text_count_from_the_callers_folder(
    monkeypatch: pytest.MonkeyPatch, written: str, told: str
):
    monkeypatch.setattr("pathlib.Path.cwd", lambda: Path("/work"))
    source = GrabRequest("opencl", "source", f"int x;\n{written}\n".encode(), "-g -s k.cl -I inc", label="k.cl")
    got = from_grab_request(to_grab_request(source), None)
    assert got.data == f"int x;\n{told}\n".encode()
    assert (got.source_name, got.build_flags) == ("/work/k.cl", '-g -s "/work/k.cl" -I inc')
    binary = replace(source, kind="spirv", api="level-zero")
    assert from_grab_request(to_grab_request(binary), None) == binary


def test_a_grab_that_names_no_driver_is_refused():
    with pytest.raises(InvalidInput):
        from_grab_request(module_service_pb2.GrabModuleRequest(), None)


@pytest.mark.parametrize("name", ["", "modules/", "modules/" + "A" * 64, "x" * 64, "modules/" + "a" * 64 + "\n"])
def test_what_is_no_module_name_is_refused(name):
    with pytest.raises(BadQuery):
        module_digest(name)


def test_a_module_name_names_its_digest():
    assert module_digest(module_name("0f" * 32)) == "0f" * 32


@pytest.mark.parametrize("seconds", [0, 1, 0.999_999_999_9, 1_763_800_000.123_456, -1.5])
def test_a_timestamp_is_the_moment_that_protocol_buffers_say(seconds):
    message = to_timestamp(seconds)
    assert 0 <= message.nanos < 1_000_000_000
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    assert abs(message.ToDatetime(UTC) - moment) <= timedelta(microseconds=1)
    assert from_time(message) == pytest.approx(seconds, abs=1e-6)


@pytest.mark.parametrize("seconds", [0, 0.25, 120.0, 59.999_999_999_9])
def test_a_duration_is_as_long_as_protocol_buffers_say(seconds):
    message = to_duration(seconds)
    assert abs(message.ToTimedelta() - timedelta(seconds=seconds)) <= timedelta(microseconds=1)
    assert from_time(message) == pytest.approx(seconds)
