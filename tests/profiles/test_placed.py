"""Samples on instructions: every format's at the places that its profile was made from, and none of them lost."""

from __future__ import annotations

import csv

import pytest

from symd import profiles
from symd.model.answers import Reason
from symd.profiles.placed import placed
from symd.profiles.samples import Sample, SampledAddress, SampledModule, SampledProfile, ValueType
from tests.profiles.messages import Profile
from tests.profiles.modules import AMD, CUBIN, ZEBIN
from tests.profiles.test_exports import TOTALS


def by_place(found, resolver, module):
    """(section, offset) to values, of the places in one module."""
    digest = resolver.symbolizer.add(module.read_bytes()).sha256
    names = {
        (text.path, kernel.section_index): kernel.section
        for text in resolver.symbolizer.module(digest).objects
        for kernel in text.kernels
    }
    return {
        (names.get((place.path, place.section_index)), place.offset): values
        for place, values in found.values.items()
        if place.digest == digest
    }


def test_counters_of_unitrace_are_columns(resolver, sample):
    """The rows of samples/profiles/stalls.csv."""
    found = placed(profiles.samples(sample("stalls.csv")), resolver)
    assert [each.name for each in found.columns][:3] == ["Active", "ControlStall", "PipeStall"]
    assert found.is_summable
    places = by_place(found, resolver, ZEBIN)
    assert places[".text.smooth", 0x290] == [140, 1, 4, 0, 2, 310, 0, 0, 1]
    assert places[".text.denoise", 0x10][0] == 5
    assert Reason.UNKNOWN_KERNEL in found.left


def test_stall_reasons_of_cupti_are_columns(resolver, sample):
    """The lines of samples/profiles/records.jsonl."""
    found = placed(profiles.samples(sample("records.jsonl")), resolver)
    assert [each.name for each in found.columns] == ["reason 1", "reason 2", "reason 9", "no reason"]
    places = by_place(found, resolver, CUBIN)
    assert places[".text._Z7raycastPfi6float3", 4576] == [0, 3, 41, 0]
    assert places[".text._Z5probePfPK6float3", 528] == [0, 0, 7, 0]


def test_columns_of_different_units_are_no_parts_of_one_whole(resolver, sample):
    found = placed(profiles.samples(sample("kernels.pb.gz")), resolver)
    assert [tuple(each) for each in found.columns] == [("samples", "count"), ("gpu", "nanoseconds")]
    assert not found.is_summable
    assert by_place(found, resolver, ZEBIN) == {(".text.smooth", 0x290): [3, 3000], (".text.smooth", 0x10): [4, 4000]}
    assert sorted(by_place(found, resolver, AMD).values()) == [
        [1, 1000],
        [2, 2000],
        [6, 6000],
    ]  # the last without a mapping


def test_a_mapping_of_no_known_size_is_one(resolver):
    """pprof: memory_limit 0. The code object's text begins at 0x1800, behind the file's first bytes."""
    start = 0x7F0000000000
    profile = Profile(string_table=[b"", b"samples", b"count", b"shade.co"])
    profile.sample_type.add(type=1, unit=2)
    profile.mapping.add(id=1, memory_start=start, filename=3)
    profile.location.add(id=1, mapping_id=1, address=start + 0x1940)
    profile.sample.add(location_id=[1], value=[7])
    data = profile.SerializeToString()
    assert profiles.symbolize(data, resolver).report.resolved == 1
    found = placed(profiles.samples(data), resolver)
    assert list(found.values.values()) == [[7]]
    assert not found.left


def test_a_cubin_without_a_crc_is_no_module(resolver):
    found = placed(
        SampledProfile(
            (ValueType("samples", "count"),),
            [SampledAddress("k+0x10", address=16, module=at) for at in (0, 1)],
            [SampledModule("cubin-", ""), SampledModule("cubin-x", "x")],
            samples=[Sample((at,), (1,)) for at in (0, 1)],
        ),
        resolver,
    )
    assert not found.values
    assert sum(row[0] for row in found.left.values()) == 2


@pytest.mark.parametrize("name", TOTALS)
def test_no_sample_is_lost(resolver, sample, name):
    found = placed(profiles.samples(sample(name)), resolver)
    first = [
        sum(values) if name == "records.jsonl" or found.columns[0].name == "waitcnt" else values[0]
        for values in (*found.values.values(), *found.left.values())
    ]
    assert sum(first) == TOTALS[name]


@pytest.mark.parametrize("name", TOTALS)
def test_every_column_adds_up_to_the_profiles(resolver, sample, name):
    """Also where samples lie in no module: their reasons have a sum for each column."""
    profile = profiles.samples(sample(name))
    found = placed(profile, resolver)
    reasons = len(found.columns) != len(profile.value_types)
    assert sum(found.totals()) == sum(profile.totals()) if reasons else found.totals() == list(profile.totals())


def test_samples_outside_of_kernels_are_told_apart(resolver, sample):
    """Of samples/profiles/stalls.csv two events are at an offset behind the kernel."""
    found = placed(profiles.samples(sample("stalls.csv")), resolver)
    digest = resolver.symbolizer.add(ZEBIN.read_bytes()).sha256
    inside = found.in_kernels(digest, resolver.symbolizer.module(digest))
    left = sum(map(found.weight, found.left.values()))
    total = found.weight(found.totals())
    rows = csv.reader(sample("stalls.csv").decode().splitlines(), skipinitialspace=True)
    assert total == sum(int(cell) for row in rows if len(row) > 2 for cell in row[2:] if cell.strip().isdigit())
    assert (total - left - inside, left) == (2, 13)
