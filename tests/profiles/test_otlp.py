"""OTLP profiles, written and read back with OpenTelemetry's own protocol buffer module."""

from __future__ import annotations

import gzip

import pytest

from symd import profiles
from symd.errors import Malformed
from symd.model.answers import Reason
from symd.profiles import Resolver, otlp
from symd.profiles.profile_format import Options
from tests.profiles.conftest import named_module
from tests.profiles.modules import AMD, CUBIN, of_cubin, of_kernel, of_object
from tests.wire import length_field, number_field

published = pytest.importorskip("opentelemetry.proto.profiles.v1development.profiles_pb2")
common = pytest.importorskip("opentelemetry.proto.common.v1.common_pb2")

LOAD, TEXT = 0x7F4200000000, 0xFFFF800100400000


def frames_of(dictionary, location):
    strings, functions = dictionary.string_table, dictionary.function_table
    found = []
    for line in location.lines:
        function = functions[line.function_index]
        names = (strings[function.system_name_strindex], strings[function.filename_strindex])
        found.append((*names, line.line, line.column))
    return found


def test_the_locations_have_the_frames_that_llvm_finds(resolver, sample, tmp_path):
    done = profiles.symbolize(sample("kernels.otlp"), resolver)
    tables = published.ProfilesData.FromString(done.data).dictionary
    by_address = {one.address: frames_of(tables, one) for one in tables.location_table}
    assert by_address[LOAD + 0x1940] == of_object(AMD, 0x1940, tmp_path)
    assert by_address[LOAD + 0x1950] == of_object(AMD, 0x1950, tmp_path)
    assert by_address[TEXT + 0x290] == of_kernel("smooth", 0x290, tmp_path)
    assert len(by_address[TEXT + 0x290]) == 2
    assert by_address[0x10] == []
    assert (done.report.resolved, done.report.already, dict(done.report.unresolved)) == (
        3, 1, {Reason.UNKNOWN_MODULE: 1}
    )  # fmt: skip


def test_everything_else_stays(resolver, sample):
    old = published.ProfilesData.FromString(sample("kernels.otlp"))
    new = published.ProfilesData.FromString(profiles.symbolize(sample("kernels.otlp"), resolver).data)
    tables, grown = old.dictionary, new.dictionary
    del grown.string_table[len(tables.string_table) :], grown.function_table[len(tables.function_table) :]
    for number, location in enumerate(grown.location_table):
        if not tables.location_table[number].lines:
            location.ClearField("lines")
    assert new == old


def references(tables):
    """Every index that anything holds into the string and function tables."""
    strings = {0}
    for one in tables.function_table:
        strings |= {one.name_strindex, one.system_name_strindex, one.filename_strindex}
    strings |= {one.filename_strindex for one in tables.mapping_table}
    for one in tables.attribute_table:
        strings |= {one.key_strindex, one.unit_strindex}
    functions = {line.function_index for one in tables.location_table for line in one.lines}
    return strings, functions


def test_the_tables_gain_no_orphan_and_no_duplicate(resolver, sample):
    before = len(published.ProfilesData.FromString(sample("kernels.otlp")).dictionary.string_table)
    data = profiles.symbolize(sample("kernels.otlp"), resolver).data
    tables = published.ProfilesData.FromString(data).dictionary
    strings, functions = references(tables)
    added = set(range(before, len(tables.string_table)))
    assert added
    assert added <= strings
    assert functions == set(range(1, len(tables.function_table)))
    assert len(set(tables.string_table)) == len(tables.string_table)
    assert len({one.SerializeToString() for one in tables.function_table}) == len(tables.function_table)
    for table in (tables.function_table, tables.location_table, tables.mapping_table):
        assert table[0] == type(table[0])()


def bare(**attribute):
    """A profile with no function at all; its mapping is known by an attribute."""
    data = published.ProfilesData()
    tables = data.dictionary
    tables.string_table.extend(["", "process.executable.build_id.htlhash", "feed"])
    value = common.AnyValue(**attribute)
    tables.attribute_table.extend([published.KeyValueAndUnit(), published.KeyValueAndUnit(key_strindex=1, value=value)])
    tables.mapping_table.extend([published.Mapping(), published.Mapping(attribute_indices=[1])])
    tables.location_table.extend([published.Location(), published.Location(mapping_index=1, address=0x1950)])
    return data


@pytest.mark.parametrize("attribute", [{"string_value": "feed"}, {"string_value_strindex": 2}])
def test_a_new_function_table_begins_with_the_zero_value(engine, attribute):
    resolver = Resolver(engine, [named_module(engine, AMD, "feed")])
    data = profiles.symbolize(bare(**attribute).SerializeToString(), resolver).data
    tables = published.ProfilesData.FromString(data).dictionary
    assert tables.function_table[0] == published.Function()
    assert [line.function_index for line in tables.location_table[1].lines] == [1, 2]


def test_an_attribute_that_is_no_text_identifies_nothing(engine):
    resolver = Resolver(engine, [named_module(engine, AMD, "feed")])
    data = bare(int_value=3).SerializeToString()
    done = profiles.symbolize(data, resolver)
    assert done.data is data
    assert done.report.notes == ("no module was given for mapping 1",)


def test_unknown_fields_stay(engine):
    odd = length_field(99, b"odd")
    location = length_field(2, odd + number_field(1, 1) + number_field(2, 0x1950))
    mapping = length_field(1, odd + number_field(4, 1))
    zero = length_field(1, b"") + length_field(2, b"") + length_field(5, b"") + length_field(5, b"shade.co")
    data = length_field(1, odd) + length_field(2, odd + zero + mapping + location + odd)
    resolver = Resolver(engine, [named_module(engine, AMD, "shade.co")])
    done = profiles.symbolize(data, resolver)
    assert done.report.resolved == 1
    assert done.data.count(odd) == 5


def test_a_gzipped_profile_stays_gzipped(resolver, sample):
    plain = sample("kernels.otlp")
    done = profiles.symbolize(gzip.compress(plain), resolver)
    assert gzip.decompress(done.data) == profiles.symbolize(plain, resolver).data


def test_another_revisions_layout_is_refused(resolver):
    tables = length_field(5, b"") + length_field(2, number_field(2, 5))
    with pytest.raises(Malformed, match=r"entry 0 of the location table .* v1\.11\.0"):
        otlp.symbolize(length_field(2, tables), resolver, Options())


def test_a_message_of_two_dictionaries_is_no_profile():
    dictionary = length_field(2, length_field(5, b""))
    assert otlp.claims(dictionary)
    assert not otlp.claims(dictionary * 2)


@pytest.mark.parametrize("table", [1, 5, 6])
def test_an_index_past_its_table_is_refused(resolver, table):
    mapping = {1: b"", 5: number_field(4, 9), 6: number_field(5, 9)}[table]
    tables = length_field(5, b"") + length_field(1, b"") + length_field(1, mapping) + length_field(2, b"")
    location = length_field(2, number_field(1, 7 if table == 1 else 1) + number_field(2, 1))
    with pytest.raises(Malformed, match="string 9 is named" if table == 5 else "(mapping 7|attribute 9) is named"):
        otlp.symbolize(length_field(2, tables + location), resolver, Options())


def test_cuda_pc_frames_get_lines_by_crc_and_kernel(resolver, sample):
    """The address counts from the start of the kernel, which the one function names; nvdisasm says what is there."""
    done = profiles.symbolize(sample("cuda_pc.otlp"), resolver)
    tables = published.ProfilesData.FromString(done.data).dictionary
    found = [
        (tables.string_table[tables.function_table[line.function_index].filename_strindex], line.line)
        for line in tables.location_table[1].lines
    ]
    assert found == of_cubin(".text._Z7raycastPfi6float3", 4576)
    assert (done.report.resolved, done.report.already, dict(done.report.unresolved)) == (2, 1, {Reason.OUTSIDE_TEXT: 1})
    kept = tables.location_table[4].lines
    assert [tables.string_table[tables.function_table[one.function_index].name_strindex] for one in kept] == [
        "_Z5probePfPK6float3"
    ]


@pytest.mark.parametrize("identity", [None, "0x87654321", "2271560481", "cubin-0000000087654321"])
def test_a_cubin_of_cuda_pc_frames_has_many_names(engine, sample, identity):
    named = profiles.Resolver(engine, [named_module(engine, CUBIN, identity)])
    assert profiles.symbolize(sample("cuda_pc.otlp"), named).report.resolved == 2


def test_cuda_pc_frames_of_an_unknown_cubin_are_named(engine, sample):
    done = profiles.symbolize(sample("cuda_pc.otlp"), profiles.Resolver(engine, []))
    assert done.data == sample("cuda_pc.otlp")
    assert done.report.notes == ("no module was given for 00000000876543210000000000000000 or cubin-0000000087654321",)


def test_cuda_pc_frames_of_a_cubin_without_a_name_are_counted(engine, sample):
    data = published.ProfilesData.FromString(sample("cuda_pc.otlp"))
    for mapping in data.dictionary.mapping_table:
        mapping.ClearField("attribute_indices")
        mapping.ClearField("filename_strindex")
    done = profiles.symbolize(data.SerializeToString(), profiles.Resolver(engine, []))
    assert done.report.notes == ("no module was given for mapping 1",)


def test_samples_of_cuda_pc_frames_keep_reasons_times_and_threads(sample):
    found = profiles.samples(sample("cuda_pc.otlp"))
    assert [(one.values, dict(one.labels)["process.context.label.cuda_stall_reason"][-4:]) for one in found.samples] == [
        ((41,), "full"), ((3,), "wait"), ((7,), "wait"), ((2,), "full"),
    ]  # fmt: skip
    assert [one.time for one in found.samples] == [1_700_000_000_000_000_000 + at for at in (1, 1, 2, 3)]
    assert [(task.process, task.thread) for task in found.tasks] == [(4711, 4712)]
