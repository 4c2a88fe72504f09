"""Profiles in the formats of other tools: every reader finds the same stacks with the same totals, and they are LLVM's."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent

from symd import profiles
from symd.config import Limits
from symd.engine.engine import Engine
from symd.errors import BadQuery, LimitExceeded, SymdError, Unsupported
from symd.model.answers import Frame
from symd.profiles import EXPORTS, Options
from symd.profiles.profile_format import ProfileBudget
from symd.profiles.samples import Sample, SampledAddress, SampledModule, SampledProfile, Task, ValueType
from symd.store import Store
from tests.profiles.exported import READ, of_folded, of_pprof, of_speedscope, packets
from tests.profiles.messages import Profile
from tests.profiles.modules import AMD, SAMPLES, of_cubin, of_kernel, of_object
from tests.tools import require

ALL = sorted(EXPORTS)
NAMED = ("kernels.pb.gz", "kernels.otlp", "stalls.csv", "pc_sampling.json", "records.jsonl", "stacks.folded",
         "kernels.otlp.json", "cuda_pc.otlp", "code.json", "proton.hatchet")  # fmt: skip
TOTALS = {"kernels.pb.gz": 28, "kernels.otlp": 10, "stalls.csv": 244, "pc_sampling.json": 7, "records.jsonl": 52,
          "stacks.folded": 171, "kernels.otlp.json": 10, "cuda_pc.otlp": 53, "code.json": 6216,
          "proton.hatchet": 3}  # fmt: skip
"""Sums of the first value of each sample profile, added up by hand from the text that it was made from."""
SUMMED = {"stalls.csv": 244 + 348}
"""Sums of all values of those that have several of one unit."""


def places(frames):
    """(file, line), root first."""
    return [(file, line) for _, file, line, _ in reversed(frames)]


def lines_of(stack):
    return [(file, line) for _, file, line in stack if file]


@pytest.mark.parametrize("to", ALL)
@pytest.mark.parametrize("name", NAMED)
def test_the_sum_of_the_values_stays(resolver, sample, name, to):
    converted = profiles.convert(sample(name), resolver, to)
    data = gzip.decompress(converted.data) if converted.data.startswith(b"\x1f\x8b") else converted.data
    assert sum(READ[to](data).values()) == (SUMMED.get(name, TOTALS[name]) if to == "folded" else TOTALS[name])


def test_the_sum_of_a_value_of_several_threads_stays(resolver, sample):
    data = sample("stacks.pftrace")
    for to, read in (("pprof", of_pprof), ("folded", of_folded)):
        assert sum(read(profiles.convert(data, resolver, to).data).values()) == 5 + 7 + 1 + 3
    scope = json.loads(profiles.convert(data, resolver, "speedscope").data)
    firefox = json.loads(profiles.convert(data, resolver, "firefox").data)
    for series in (
        [(one["name"], sum(one["weights"])) for one in scope["profiles"]],
        [(one["name"], sum(one["samples"]["weight"])) for one in firefox["threads"]],
    ):
        assert sorted(series) == [
            ("issued [count], process 4711 thread 4712", 3),
            ("samples [count], process 4711 thread 4711", 1),
            ("samples [stalls]", 3),
            ("samples [stalls], process 4711 thread 4712", 13),
        ]


@pytest.mark.parametrize("to", ALL)
def test_inlined_calls_are_frames_of_their_own_where_llvm_finds_them(resolver, sample, tmp_path, to):
    found = READ[to](profiles.convert(sample("stalls.csv"), resolver, to).data)
    by_lines = {tuple(lines_of(stack)): total for stack, total in found.items()}
    rows = [row for row in csv.reader(sample("stalls.csv").decode().splitlines(), skipinitialspace=True) if row[2:]][1:]
    values = {(row[0].partition("[")[0], int(row[1], 16)): [*map(int, filter(str.strip, row[2:]))] for row in rows}
    expected = {}
    for kernel, offset in (("smooth", 0), ("smooth", 0x290), ("smooth", 0x2E8), ("denoise", 16)):
        counted = values[kernel, offset]  # Active, and eight reasons of stalls
        expected[tuple(places(of_kernel(kernel, offset, tmp_path)))] = sum(counted) if to == "folded" else counted[0]
    assert {key: total for key, total in by_lines.items() if key} == expected
    assert {name for stack in found for name, _, _ in stack} >= {"smooth", "mean", "keep", "denoise"}


@pytest.mark.parametrize("to", ALL)
def test_the_host_frames_stay_below_the_devices(resolver, sample, tmp_path, to):
    found = READ[to](profiles.convert(sample("kernels.otlp"), resolver, to).data)
    [stack] = [stack for stack, total in found.items() if total == 2]
    assert stack[0] == ("draw", "/src/render.cpp", 12)
    assert lines_of(stack)[1:] == places(of_object(AMD, 0x1950, tmp_path))


@pytest.mark.parametrize("to", ALL)
def test_stall_reasons_of_one_instruction_are_added_up(resolver, sample, to):
    found = READ[to](profiles.convert(sample("records.jsonl"), resolver, to).data)
    place = list(reversed(of_cubin(".text._Z7raycastPfi6float3", 4576)))
    of_raycast = {stack: total for stack, total in found.items() if any("raycast" in name for name, *_ in stack)}
    assert [total for stack, total in of_raycast.items() if lines_of(stack) == place] == [44]


@pytest.mark.parametrize("name", sorted(set(NAMED) - {"kernels.pb.gz"}))
def test_gos_pprof_reads_what_is_written(resolver, sample, tmp_path, name):
    """``go tool pprof`` refuses a profile that is not consistent; -raw prints every sample."""
    path = tmp_path / "profile.pb"
    path.write_bytes(profiles.convert(sample(name), resolver, "pprof").data)
    environment = {**os.environ, "HOME": str(tmp_path), "PPROF_BINARY_PATH": str(tmp_path)}
    command = [require("go"), "tool", "pprof", "-symbolize=none", "-raw", str(path)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    samples = done.stdout.partition("Samples:\n")[2].partition("Locations\n")[0]
    rows = [line.partition(":")[0].split() for line in samples.splitlines() if line[:1] == " " and "[" not in line]
    assert sum(int(row[0]) for row in rows) == TOTALS[name]


def test_gos_pprof_shows_inlined_frames_labels_and_build_ids(resolver, sample, tmp_path):
    path = tmp_path / "profile.pb"
    path.write_bytes(profiles.convert(sample("records.jsonl"), resolver, "pprof").data)
    environment = {**os.environ, "HOME": str(tmp_path)}
    command = [require("go"), "tool", "pprof", "-symbolize=none", "-raw", str(path)]
    shown = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    assert "stall_reason:[9]" in shown
    assert "cubin-0000000087654321 87654321 [FN][FL][LN][IN]" in shown
    for file, line in of_cubin(".text._Z7raycastPfi6float3", 4576):
        assert f" {file}:{line} s=0" in shown


def test_every_value_of_a_row_is_kept_with_its_unit(resolver, sample):
    data = sample("stalls.csv")
    scope = json.loads(profiles.convert(data, resolver, "speedscope").data)
    assert [(one["name"], one["endValue"]) for one in scope["profiles"]] == [
        ("Active [Events]", 244), ("ControlStall [Events]", 1), ("PipeStall [Events]", 4), ("DistStall [Events]", 2),
        ("SbidStall [Events]", 329), ("InstrFetchStall [Events]", 11), ("OtherStall [Events]", 1),
    ]  # fmt: skip
    profile = Profile.FromString(profiles.convert(data, resolver, "pprof").data)
    assert [profile.string_table[one.type] for one in profile.sample_type][:3] == [
        b"Active",
        b"ControlStall",
        b"PipeStall",
    ]
    assert {profile.string_table[one.unit] for one in profile.sample_type} == {b"Events"}
    trace = packets(profiles.convert(data, resolver, "perfetto").data)
    defaults = trace.packet[0].trace_packet_defaults.stack_sample_defaults
    assert (defaults.primary_descriptor.name, defaults.primary_descriptor.unit_str) == ("Active", "Events")
    assert [one.name for one in defaults.follower_descriptors][4:6] == ["SbidStall", "SyncStall"]
    sums = [
        sum(column) for column in zip(*(one.stack_sample.follower_weights for one in trace.packet[1:]), strict=True)
    ]
    assert sums == [1, 4, 0, 2, 329, 0, 11, 1]


def test_folded_stacks_say_which_values_are_summed(resolver, sample):
    (note,) = [each for each in profiles.convert(sample("stalls.csv"), resolver, "folded").notes if "one value" in each]
    assert note.startswith("folded stacks have one value: the sum of Active, ControlStall, ")
    assert not any("one value" in each for each in profiles.convert(sample("stacks.pftrace"), resolver, "pprof").notes)


def test_one_value_is_chosen_by_its_name(resolver, sample):
    stalls = profiles.convert(sample("stalls.csv"), resolver, "folded", value="SbidStall")
    assert sum(of_folded(stalls.data).values()) == 329
    with pytest.raises(BadQuery, match="no values called 'Stalls'") as caught:
        profiles.convert(sample("stalls.csv"), resolver, "folded", value="Stalls")
    assert "Active, ControlStall" in caught.value.hint


def test_times_are_kept_or_their_absence_is_told(resolver, sample):
    timed = profiles.convert(sample("pc_sampling.json"), resolver, "perfetto")
    times = [one.timestamp for one in packets(timed.data).packet if one.HasField("stack_sample")]
    assert times == [
        1191331312921,
        1191331312981,
        1191331313001,
        1191331313101,
        1191331313201,
        1191331313301,
        1191331313401,
    ]
    assert "the profile has no times" not in " ".join(timed.notes)
    assert {one.stack_sample.task_context.pid for one in packets(timed.data).packet[1:]} == {4711}
    firefox = json.loads(profiles.convert(sample("pc_sampling.json"), resolver, "firefox").data)
    assert firefox["threads"][0]["samples"]["time"] == [0, 6e-5, 8e-5, 18e-5, 28e-5, 38e-5, 48e-5]
    by_way_of_pprof = profiles.convert(sample("pc_sampling.json"), resolver, "pprof").data
    again = json.loads(profiles.convert(by_way_of_pprof, resolver, "firefox").data)
    assert again["threads"][0]["samples"]["time"] == firefox["threads"][0]["samples"]["time"]
    for to in ("perfetto", "firefox"):
        untimed = profiles.convert(sample("stalls.csv"), resolver, to)
        assert "has no times" in " ".join(untimed.notes)
    trace = packets(profiles.convert(sample("stalls.csv"), resolver, "perfetto").data)
    assert [(one.HasField("timestamp"), one.timestamp) for one in trace.packet[1:]] == [
        (True, 1000 * at) for at in range(6)
    ]


def test_a_profile_in_the_wanted_format_is_symbolized_in_place(resolver, sample):
    data = sample("kernels.pb.gz")
    assert profiles.convert(data, resolver, "pprof").data == gzip.decompress(profiles.symbolize(data, resolver).data)


def test_addresses_that_nobody_resolved_keep_their_place(sample):
    limits = Limits()
    with Engine(Store.temporary(limits), limits) as engine:
        nothing = profiles.Resolver(engine, [])
        check_unresolved(nothing, sample)


def check_unresolved(nothing, sample):
    found = profiles.convert(sample("kernels.otlp"), nothing, "pprof")
    profile = Profile.FromString(found.data)
    assert found.report.resolved == 0
    assert 0x7F4200001950 in [one.address for one in profile.location if not one.line]
    trace = packets(profiles.convert(sample("kernels.otlp"), nothing, "perfetto").data)
    frames = {one.rel_pc: one for packet in trace.packet for one in packet.interned_data.frames if one.mapping_id}
    assert set(frames) == {0x1940, 0x1950, 0x40 + 0x290}, "addresses of a linked file, file offsets of an unlinked one"
    mappings = {one.iid: one for packet in trace.packet for one in packet.interned_data.mappings}
    ids = {one.iid: one.str for packet in trace.packet for one in packet.interned_data.build_ids}
    [build_id] = [ids[one.build_id] for one in mappings.values() if one.build_id]
    assert len(build_id) == 32, "a SHA-256, in bytes and not in digits"


def test_what_has_no_samples_says_so(resolver, sample):
    with pytest.raises(Unsupported, match="no program counters"):
        profiles.convert(sample("pc_sampling.csv"), resolver, "folded")
    with pytest.raises(BadQuery, match="'chrome' is not a format that can be written") as caught:
        profiles.convert(sample("stalls.csv"), resolver, "chrome")
    assert "speedscope" in caught.value.hint


@pytest.mark.parametrize("to", ALL)
def test_what_is_written_is_bounded(resolver, sample, to):
    data = sample("stalls.csv")
    least = len(profiles.symbolize(data, resolver).data)
    many = data + b'"smooth", 290, 1, 0, 0, 0, 0, 0, 0, 0, 0\n' * 20000
    limits = Limits(profile_size=least + len(many) + 5_000_000)
    assert profiles.convert(many, resolver, to, Options(limits)).report.resolved > 20000
    with pytest.raises(LimitExceeded):
        profiles.export(wide_profile(), to, ProfileBudget(Options(Limits(profile_size=10000)), 0))


def wide_profile():
    """Many samples of deep stacks: small in, large out."""
    frames = [
        tuple(Frame(f"f{at}", None, "a.cl", 1 + number, 1, inlined=at < 99) for at in range(100))
        for number in range(200)
    ]
    addresses = [SampledAddress(f"k+{at}", frames[at], at) for at in range(200)]
    return SampledProfile(
        (ValueType("samples", "count"),), addresses, samples=[Sample((at,), (1,)) for at in range(200)]
    )


names = st.text(
    st.characters(codec="utf-8", exclude_characters=";\n\r()", exclude_categories=["Z", "C"]), min_size=1, max_size=6
)
frame = st.builds(
    Frame,
    names,
    st.none(),
    st.none() | names,
    st.integers(1, 1 << 30),
    st.just(3),
    inlined=st.just(False),
    start_line=st.just(0),
)


@st.composite
def sampled(draw):
    stacks = draw(st.lists(st.lists(frame, min_size=1, max_size=4), min_size=1, max_size=5))
    addresses = []
    for number, frames in enumerate(stacks):
        placed = [
            one._replace(inlined=at < len(frames) - 1, line=one.line if one.file else 0)
            for at, one in enumerate(frames)
        ]
        module = draw(st.sampled_from([None, 0]))
        addresses.append(SampledAddress(f"a+{number}", tuple(placed), 0x1000 + number, module))
    some = st.lists(st.integers(0, len(addresses) - 1), min_size=1, max_size=4).map(tuple)
    rows = draw(st.lists(st.tuples(some, st.integers(1, 1 << 40), st.integers(0, 1)), min_size=1, max_size=8))
    times = draw(st.booleans())
    return SampledProfile(
        (ValueType("samples", "count"),),
        addresses,
        [SampledModule("/lib/kernel.co", "c0ffee", 0x1000, 0x2000)],
        [Task(1, 2, "main"), Task(1, 3)],
        [Sample(stack, (value,), 5 + at if times else None, 0) for at, (stack, value, _) in enumerate(rows)],
    )


@pytest.mark.parametrize("to", ALL)
@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(profile=sampled())
def test_generated_profiles_come_out_whole(to, profile):
    expected = Counter()
    for one in profile.samples:
        stack = [
            (item.function, item.file or "", item.line)
            for at in reversed(one.stack)
            for item in reversed(profile.addresses[at].frames)
        ]
        expected[tuple(stack)] += one.values[0]
    written = profiles.export(profile, to, ProfileBudget(Options(), 0))
    found = READ[to](written.data)
    assert sum(found.values()) == sum(expected.values())
    assert found == expected


def test_two_threads_are_two_series():
    base = wide_profile()
    base.tasks = [Task(7, 8, "render"), Task(7, 9)]
    base.samples = [Sample((0,), (3,), 10, 0), Sample((1,), (4,), 5, 1), Sample((1,), (5,), 7, 1)]
    scope = json.loads(profiles.export(base, "speedscope", ProfileBudget(Options(), 0)).data)
    assert [(one["name"], one["endValue"]) for one in scope["profiles"]] == [
        ("samples [count], render", 3), ("samples [count], process 7 thread 9", 9),
    ]  # fmt: skip
    firefox = json.loads(profiles.export(base, "firefox", ProfileBudget(Options(), 0)).data)
    assert [(one["pid"], one["tid"], one["samples"]["time"]) for one in firefox["threads"]] == [
        ("7", 8, [5e-6]), ("7", 9, [0, 2e-6]),
    ]  # fmt: skip
    trace = packets(profiles.export(base, "perfetto", ProfileBudget(Options(), 0)).data)
    assert [(one.stack_sample.task_context.tid, one.timestamp) for one in trace.packet if one.HasField("stack_sample")] == [
        (8, 10), (9, 5), (9, 7),
    ]  # fmt: skip


def test_times_are_weights_in_the_units_that_viewers_know():
    base = wide_profile()
    base.value_types = (ValueType("gpu", "nanoseconds"),)
    base.samples = [Sample((0,), (2_500_000,)), Sample((1,), (500_000,))]
    firefox = json.loads(profiles.export(base, "firefox", ProfileBudget(Options(), 0)).data)["threads"][0]["samples"]
    assert (firefox["weightType"], firefox["weight"]) == ("tracing-ms", [2.5, 0.5])
    assert (
        json.loads(profiles.export(base, "speedscope", ProfileBudget(Options(), 0)).data)["profiles"][0]["unit"]
        == "nanoseconds"
    )
    trace = packets(profiles.export(base, "perfetto", ProfileBudget(Options(), 0)).data)
    assert trace.packet[0].trace_packet_defaults.stack_sample_defaults.primary_descriptor.unit == 1


def test_fractions_are_rounded_where_a_format_has_none_and_told():
    base = wide_profile()
    base.samples = [Sample((0,), (2.5,)), Sample((1,), (1.25,))]
    assert of_speedscope(profiles.export(base, "speedscope", ProfileBudget(Options(), 0)).data).total() == 3.75
    assert of_folded(profiles.export(base, "folded", ProfileBudget(Options(), 0)).data).total() == 3.75
    whole = profiles.export(base, "pprof", ProfileBudget(Options(), 0))
    assert "rounded" in " ".join(whole.notes)
    assert of_pprof(whole.data).total() == 3


@pytest.mark.parametrize("name", NAMED)
def test_speedscopes_schema_takes_it(resolver, sample, name):
    """SYMD_SPEEDSCOPE: the folder of the npm package speedscope, which carries the schema of its format."""
    folder = os.environ.get("SYMD_SPEEDSCOPE")
    if not folder:
        pytest.skip("SYMD_SPEEDSCOPE is not set")
    jsonschema = pytest.importorskip("jsonschema")
    [schema] = Path(folder).rglob("file-format-schema.json")
    document = json.loads(profiles.convert(sample(name), resolver, "speedscope").data)
    jsonschema.validate(document, json.loads(schema.read_text()))


@pytest.mark.parametrize("name", NAMED)
def test_the_firefox_profiler_opens_it(resolver, sample, tmp_path, name):
    """SYMD_PROFILER_CLI: the command of the npm package @firefox-devtools/profiler-cli, the Firefox Profiler without a browser."""
    command = os.environ.get("SYMD_PROFILER_CLI")
    if not command:
        pytest.skip("SYMD_PROFILER_CLI is not set")
    path = tmp_path / "profile.json"
    path.write_bytes(profiles.convert(sample(name), resolver, "firefox").data)
    environment = {**os.environ, "HOME": str(tmp_path)}

    def run(*words):
        return subprocess.run(
            [*command.split(), *words], check=True, capture_output=True, text=True, env=environment
        ).stdout

    run("load", str(path))
    try:
        tree = run("thread", "samples-top-down")
    finally:
        run("stop")
    largest, total = max(READ["firefox"](path.read_bytes()).items(), key=lambda item: item[1])
    assert f"self: {100 * total / TOTALS[name]:.1f}%]" in tree
    assert f"{largest[-1][0]} [total: " in tree


@pytest.mark.parametrize("to", ALL)
def test_a_profile_without_samples_says_so(resolver, to):
    """A trace of Chrome's events has none, and its packets are no stack samples."""
    trace = Trace(packet=[TracePacket(timestamp=5, track_event=TrackEvent(name="Paint"))] * 3).SerializeToString()
    told = " ".join(profiles.convert(trace, resolver, to).notes)
    if to != "perfetto":  # which is written as it is
        assert "no samples" in told
        assert "streaming profiles of Chrome are not read" in told


ODD_NUMBERS = (
    b"-1",
    b"0",
    b"1.5",
    b"18446744073709551616",
    b"1" + b"0" * 40,
    b"9" * 5000,
    b"1e999",
    b"NaN",
    b"-Infinity",
)


@pytest.mark.parametrize("name", NAMED)
@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_mutilated_profile_is_converted_or_refused(resolver, name, data):
    """Bytes are flipped, cut out and doubled, and numbers become odd ones: an error of symd's own, or a profile that its reader takes."""
    sample = (SAMPLES / name).read_bytes()
    text = bytearray(gzip.decompress(sample) if name.endswith(".gz") else sample)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(text) - 1))
        kind = data.draw(st.sampled_from(["flip", "cut", "double", "number"]))
        digits = re.compile(rb"[0-9]+").search(text, at) if kind == "number" else None
        if digits:
            text[digits.start() : digits.end()] = data.draw(st.sampled_from(ODD_NUMBERS))
        elif kind == "flip":
            text[at] = data.draw(st.integers(0, 255))
        elif kind == "cut" and len(text) > 40:
            del text[at : at + data.draw(st.integers(1, 20))]
        else:
            text[at:at] = text[at : at + 10]
    form = profiles.identify(sample if not name.endswith(".gz") else gzip.decompress(sample))
    to = data.draw(st.sampled_from(ALL))
    try:
        converted = profiles.convert(bytes(text), resolver, to, name=form.NAME)
    except SymdError:
        return
    if to != form.NAME:
        READ[to](converted.data)


def test_the_samples_are_those_of_the_folder():
    assert {path.name for path in SAMPLES.glob("*.*")} >= set(NAMED)
