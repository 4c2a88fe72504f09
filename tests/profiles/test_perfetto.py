"""Perfetto traces: what is appended is read with Perfetto's own messages, and compared with LLVM."""

from __future__ import annotations

import hashlib
import zlib

import pytest
import zstandard
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

from symd import profiles
from symd.config import Limits
from symd.errors import LimitExceeded, Malformed
from symd.model.answers import Reason
from symd.profiles import Options, Resolver, perfetto
from tests.profiles.conftest import named_module
from tests.profiles.exported import of_perfetto
from tests.profiles.modules import AMD, ZEBIN, of_kernel, of_object

SHA = hashlib.sha256(AMD.read_bytes()).digest()


def symbols(data):
    """(path, build id) to address to (file, line), innermost first."""
    found = {}
    for packet in Trace.FromString(data).packet:
        if packet.HasField("module_symbols"):
            # The build id is bytes in a field that is declared as text.
            module = packet.module_symbols
            rows = {
                one.address: [(line.source_file_name, line.line_number) for line in one.lines]
                for one in module.address_symbols
            }
            found.setdefault(module.path, {}).update(rows)
    return found


def places(frames):
    return [(file, line) for _, file, line, _ in frames]


def test_symbols_are_appended_with_the_lines_that_llvm_finds(resolver, sample, tmp_path):
    before = sample("stacks.pftrace")
    done = profiles.symbolize(before, resolver)
    assert done.data.startswith(before)
    assert symbols(done.data) == {
        "/opt/render/shade.co": {address: places(of_object(AMD, address, tmp_path)) for address in (0x1940, 0x1950)}
    }
    assert b"\x12\x20" + SHA in done.data[len(before) :], "field 2: the bytes of the build id, not its digits"
    assert (done.report.unit, done.report.total, done.report.resolved) == ("frames", 4, 2)
    assert done.report.unresolved == {Reason.OUTSIDE_TEXT: 1, Reason.UNKNOWN_MODULE: 1}
    assert done.report.notes == ("no module was given for 633066666565 or c0ffee or /usr/bin/render",)


@pytest.mark.parametrize("identity", [SHA.hex(), "/opt/render/shade.co", None])
def test_a_module_is_meant_by_build_id_or_path(engine, sample, identity):
    done = profiles.symbolize(sample("stacks.pftrace"), Resolver(engine, [named_module(engine, AMD, identity)]))
    assert done.report.resolved == 2


def test_a_later_run_fills_the_rest(engine, sample):
    first = profiles.symbolize(sample("stacks.pftrace"), Resolver(engine, [named_module(engine, AMD, SHA.hex())]))
    named = Resolver(engine, [named_module(engine, AMD, "c0ffee")])
    second = profiles.symbolize(first.data, named)
    assert (second.report.already, second.report.resolved) == (2, 0)
    assert second.data is first.data
    assert second.report.unresolved == {Reason.OUTSIDE_TEXT: 2}


def trace_of(mapping, frames):
    trace = Trace()
    packet = trace.packet.add(trusted_packet_sequence_id=3, sequence_flags=1)
    packet.interned_data.build_ids.add(iid=1, str=b"kernels")
    packet.interned_data.mappings.add(iid=1, build_id=1, **mapping)
    for number, address in enumerate(frames, 1):
        packet.interned_data.frames.add(iid=number, mapping_id=1, rel_pc=address)
    return trace


def test_an_address_of_an_unlinked_module_is_an_offset_into_its_file(engine, tmp_path):
    """Every kernel of a zebin is at address 0: the file offset says which is meant (readelf -S: .text.smooth at 0x40)."""
    named = Resolver(engine, [named_module(engine, ZEBIN, "kernels")])
    data = trace_of({"exact_offset": 0x40}, [0x40 + 0x290]).SerializeToString()
    assert symbols(profiles.symbolize(data, named).data) == {"": {0x2D0: places(of_kernel("smooth", 0x290, tmp_path))}}


@pytest.mark.parametrize(("load_bias", "rel_pc"), [(0, 0x950), (0x1000, 0x1950)])
def test_a_wrong_load_bias_is_put_right_by_the_program_headers(engine, tmp_path, load_bias, rel_pc):
    """The text of this object is at file offset 0x900 and address 0x1900 (readelf -l)."""
    named = Resolver(engine, [named_module(engine, AMD, "kernels")])
    data = trace_of({"exact_offset": 0x900, "load_bias": load_bias}, [rel_pc]).SerializeToString()
    assert symbols(profiles.symbolize(data, named).data) == {"": {rel_pc: places(of_object(AMD, 0x1950, tmp_path))}}


def test_what_is_interned_belongs_to_its_sequence_until_the_state_is_cleared(engine):
    named = Resolver(engine, [named_module(engine, AMD, "kernels")])
    one, other = trace_of({}, [0x1940]), trace_of({}, [0x1950])
    other.packet[0].interned_data.build_ids[0].str = b"others"
    assert profiles.symbolize((one.SerializeToString() + other.SerializeToString()), named).report.resolved == 1
    other.packet[0].trusted_packet_sequence_id = 4
    kept = trace_of({}, [])
    kept.packet[0].sequence_flags = 2
    kept.packet[0].interned_data.frames.add(iid=9, mapping_id=1, rel_pc=0x1958)
    whole = one.SerializeToString() + other.SerializeToString() + kept.SerializeToString()
    assert set(symbols(profiles.symbolize(whole, named).data)[""]) == {0x1940, 0x1958}


@pytest.mark.parametrize("kind", ["deflate", "zstd"])
def test_compressed_packets_are_read(resolver, sample, kind):
    inner = sample("stacks.pftrace")
    trace = Trace()
    packet = trace.packet.add()
    if kind == "deflate":
        packet.compressed_packets = zlib.compress(inner)
    else:
        packet.zstd_compressed_packets = zstandard.ZstdCompressor().compress(inner)
    data = trace.SerializeToString()
    assert perfetto.claims(data)
    done = profiles.symbolize(data, resolver)
    assert done.report.resolved == 2
    assert symbols(done.data) == symbols(profiles.symbolize(inner, resolver).data)
    assert profiles.samples(done.data).totals() == profiles.samples(inner).totals()


def test_compressed_packets_expand_so_far_and_no_further(resolver):
    bomb = Trace()
    bomb.packet.add().compressed_packets = zlib.compress(bytes(1 << 24), 9)
    with pytest.raises(LimitExceeded, match="expand to more than"):
        profiles.symbolize(bomb.SerializeToString(), resolver, Options(Limits(profile_size=1 << 21)))
    damaged = Trace()
    damaged.packet.add().compressed_packets = b"\x78\x9cno"
    with pytest.raises(Malformed, match="compressed packets are damaged"):
        profiles.symbolize(damaged.SerializeToString(), resolver)


def test_samples_have_their_counters_times_and_tasks(resolver, sample):
    found = profiles.samples(profiles.symbolize(sample("stacks.pftrace"), resolver).data)
    assert [tuple(one) for one in found.value_types] == [
        ("samples", "stalls"),
        ("issued", "count"),
        ("samples", "count"),
    ]
    assert [one.values for one in found.samples] == [(5, 1, 0), (7, 1, 0), (1, 1, 0), (3, 0, 0), (0, 0, 1)]
    assert [one.time for one in found.samples] == [1000, 2000, 3000, 4000, 5000]
    tasks = [(found.tasks[one.task].process, found.tasks[one.task].thread) for one in found.samples]
    assert tasks == [(4711, 4712)] * 3 + [(0, 0), (4711, 4711)]
    leaf = found.addresses[found.samples[1].stack[0]]
    assert [(frame.function, frame.line, frame.inlined) for frame in leaf.frames] == [
        ("blend", 20, True),
        ("shade", 29, False),
    ]
    assert leaf.address == 0x7F4200001950
    assert found.modules[leaf.module].build_id == SHA.hex()


def test_what_symd_exports_it_reads_again(resolver, sample):
    written = profiles.convert(sample("stalls.csv"), resolver, "perfetto").data
    again = profiles.convert(written, resolver, "speedscope")
    assert again.report.format == "perfetto"
    found = profiles.samples(written)
    assert found.totals() == profiles.samples(sample("stalls.csv")).totals()
    assert sum(of_perfetto(written).values()) == found.totals()[0]


def test_addresses_of_an_exported_trace_can_be_symbolized_later(engine, resolver, sample, tmp_path):
    """From a profile whose modules nobody gave, to a trace, which gets its symbols when they are there."""
    renamed = sample("kernels.otlp").replace(b"shade.co", b"other.co")
    trace = profiles.convert(renamed, Resolver(engine, []), "perfetto").data
    done = profiles.symbolize(trace, Resolver(engine, [named_module(engine, AMD, "/other.co")]))
    assert symbols(done.data)["/other.co"] == {at: places(of_object(AMD, at, tmp_path)) for at in (0x1940, 0x1950)}


@pytest.mark.parametrize("data", [b"", b"\x0a\x00", b"\x0a\x02\x08\x01", b"\x0a\x02\x50\x01\x12\x00", b"\x0a\x01\x50"])
def test_other_messages_are_no_traces(data):
    assert not perfetto.claims(data)
