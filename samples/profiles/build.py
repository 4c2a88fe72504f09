"""Writes the binary profiles beside this file, each with the format's own library and never with symd.

    python samples/profiles/build.py

kernels.pb.gz needs Go and Google's pprof package (Debian: golang-go, golang-github-google-pprof-dev); those of OTLP need
opentelemetry-proto from PyPI, stacks.pftrace perfetto. The text profiles are written by hand from the lists of fields that README.md names.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path

from google.protobuf import json_format
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.profiles.v1development.profiles_pb2 import (
    Function,
    KeyValueAndUnit,
    Line,
    Link,
    Location,
    Mapping,
    ProfilesData,
    Sample,
    Stack,
)
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

HERE = Path(__file__).parent
AMD = HERE.parent / "amdgpu/bin/v5-gfx90a.co"
ZEBIN = HERE.parent / "kernels/bin/filters/igc2-dg2-opt.zebin"
AMD_LOAD, GEN_TEXT = 0x7F4200000000, 0xFFFF800100400000


def pprof() -> bytes:
    """What pprof.go writes."""
    command = ["go", "run", HERE / "pprof.go", hashlib.sha256(ZEBIN.read_bytes()).hexdigest()]
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}
    return subprocess.run(command, check=True, env=environment, capture_output=True).stdout


def otlp() -> ProfilesData:
    """The same places as in pprof.go; one mapping has a build id attribute, the other a file name."""
    data = ProfilesData()
    tables = data.dictionary
    strings = [
        "",
        "shade.co",
        "process.executable.build_id.gnu",
        "draw",
        "/src/render.cpp",
        "samples",
        "count",
        "stall",
    ]
    tables.string_table.extend(strings)
    tables.attribute_table.extend(
        [
            KeyValueAndUnit(),
            KeyValueAndUnit(
                key_strindex=2, value=AnyValue(string_value=hashlib.sha256(ZEBIN.read_bytes()).hexdigest())
            ),
            KeyValueAndUnit(key_strindex=7, value=AnyValue(string_value="memory")),
        ]
    )
    tables.mapping_table.extend(
        [
            Mapping(),
            Mapping(memory_start=AMD_LOAD, memory_limit=AMD_LOAD + 0x4000, filename_strindex=1),
            Mapping(memory_start=GEN_TEXT, memory_limit=GEN_TEXT + 0x440, file_offset=0x40, attribute_indices=[1]),
        ]
    )
    tables.function_table.extend([Function(), Function(name_strindex=3, filename_strindex=4, start_line=9)])
    tables.link_table.append(Link())
    tables.location_table.extend(
        [
            Location(),
            Location(address=0x401234, lines=[Line(function_index=1, line=12)]),
            Location(mapping_index=1, address=AMD_LOAD + 0x1940),
            Location(mapping_index=1, address=AMD_LOAD + 0x1950, attribute_indices=[2]),
            Location(mapping_index=2, address=GEN_TEXT + 0x290),
            Location(address=0x10),
        ]
    )
    tables.stack_table.extend([Stack(), *(Stack(location_indices=[leaf, 1]) for leaf in (2, 3, 4, 5))])
    profile = data.resource_profiles.add().scope_profiles.add().profiles.add()
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 5, 6
    profile.samples.extend(Sample(stack_index=stack, values=[stack]) for stack in (1, 2, 3, 4))
    profile.original_payload_format = "made"
    return data


def cuda_pc() -> ProfilesData:
    """PC samples as Parca's agent reports them: one location of type cuda-pc and then the host's, a sample for each stall reason."""
    data = ProfilesData()
    tables = data.dictionary
    strings = ["", "cubin-0000000087654321", "process.executable.build_id.htlhash", "profile.frame.type"]
    strings += ["_Z7raycastPfi6float3", "_Z5probePfPK6float3", "launch", "process.context.label.cuda_stall_reason"]
    strings += ["samples", "count", "thread.id"]
    tables.string_table.extend(strings)
    crc = f"{0x87654321:016x}{0:016x}"
    tables.attribute_table.extend(
        [
            KeyValueAndUnit(),
            KeyValueAndUnit(key_strindex=2, value=AnyValue(string_value=crc)),
            KeyValueAndUnit(key_strindex=3, value=AnyValue(string_value="cuda-pc")),
            KeyValueAndUnit(key_strindex=3, value=AnyValue(string_value="native")),
            KeyValueAndUnit(key_strindex=7, value=AnyValue(string_value="smsp__pcsamp_sample_buffer_full")),
            KeyValueAndUnit(key_strindex=7, value=AnyValue(string_value="smsp__pcsamp_warps_issue_stalled_wait")),
            KeyValueAndUnit(key_strindex=10, value=AnyValue(int_value=4712)),
        ]
    )
    tables.mapping_table.extend([Mapping(), Mapping(filename_strindex=1, attribute_indices=[1])])
    tables.function_table.extend(
        [Function(), Function(name_strindex=4), Function(name_strindex=5), Function(name_strindex=6)]
    )
    tables.link_table.append(Link())
    tables.location_table.extend(
        [
            Location(),
            Location(mapping_index=1, address=4576, lines=[Line(function_index=1)], attribute_indices=[2]),
            Location(mapping_index=1, address=528, lines=[Line(function_index=2)], attribute_indices=[2]),
            Location(address=0x401000, lines=[Line(function_index=3)], attribute_indices=[3]),
            Location(mapping_index=1, address=1 << 20, lines=[Line(function_index=2)], attribute_indices=[2]),
        ]
    )
    tables.stack_table.extend([Stack(), *(Stack(location_indices=[leaf, 3]) for leaf in (1, 2, 4))])
    resource = data.resource_profiles.add()
    attribute = resource.resource.attributes.add(key="process.pid")
    attribute.value.int_value = 4711
    profile = resource.scope_profiles.add().profiles.add()
    profile.sample_type.type_strindex, profile.sample_type.unit_strindex = 8, 9
    profile.time_unix_nano = 1_700_000_000_000_000_000
    profile.samples.extend(
        Sample(
            stack_index=stack,
            values=[count],
            timestamps_unix_nano=[profile.time_unix_nano + stack],
            attribute_indices=[6, why],
        )
        for stack, count, why in ((1, 41, 4), (1, 3, 5), (2, 7, 5), (3, 2, 4))
    )
    return data


def perfetto() -> bytes:
    """Stack samples of a GPU's module, with its build id, on a host frame that has a name; perf's samples of the same; and a stack that
    the sample itself holds."""
    trace = Trace()
    first = trace.packet.add(trusted_packet_sequence_id=1, sequence_flags=1)
    defaults = first.trace_packet_defaults.stack_sample_defaults
    defaults.source = "gpu.stalls"
    defaults.primary_descriptor.name, defaults.primary_descriptor.unit_str = "samples", "stalls"
    defaults.follower_descriptors.add(name="issued", unit=9)
    interned = first.interned_data
    for table, texts in (
        (interned.build_ids, [hashlib.sha256(AMD.read_bytes()).digest(), b"c0ffee"]),
        (interned.mapping_paths, [b"opt", b"render", b"shade.co", b"usr", b"bin"]),
        (interned.function_names, [b"draw"]),
    ):
        for number, text in enumerate(texts, 1):
            table.add(iid=number, str=text)
    interned.mappings.add(
        iid=1, build_id=1, start=AMD_LOAD, end=AMD_LOAD + 0x4000, path_string_ids=[1, 2, 3], exact_offset=0, load_bias=0
    )
    interned.mappings.add(iid=2, build_id=2, start=0x400000, end=0x500000, path_string_ids=[4, 5, 2])
    interned.frames.add(iid=1, mapping_id=2, rel_pc=0x1234, function_name_id=1)
    for number, address in enumerate((0x1940, 0x1950, 0x10), 2):
        interned.frames.add(iid=number, mapping_id=1, rel_pc=address)
        interned.callstacks.add(iid=number, frame_ids=[1, number])
    for time, stack, weight in ((1000, 2, 5), (2000, 3, 7), (3000, 4, 1)):
        packet = trace.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=time)
        packet.stack_sample.task_context.pid, packet.stack_sample.task_context.tid = 4711, 4712
        packet.stack_sample.callstack_iid = stack
        packet.stack_sample.primary_weight = weight
        packet.stack_sample.follower_weights.append(1)
    packet = trace.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=4000)
    packet.stack_sample.callstack.frames.add(function_name="draw", source_file="/src/render.cpp", line_number=12)
    packet.stack_sample.primary_weight = 3
    packet = trace.packet.add(trusted_packet_sequence_id=1, sequence_flags=2, timestamp=5000)
    packet.perf_sample.pid, packet.perf_sample.tid, packet.perf_sample.callstack_iid = 4711, 4711, 3
    return trace.SerializeToString()


def rocpd() -> bytes:
    """A database as rocprofv3 writes one of kernel dispatches: tables of these names, without most of their columns."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute("PRAGMA page_size = 512")
        tables = {"metadata": "tag, value", "info_code_object": "id, uri", "info_kernel_symbol": "id, kernel_name"}
        tables |= {"kernel_dispatch": "id, kernel_id, start, end"}
        for name, columns in tables.items():
            quoted = ", ".join(f'"{column}"' for column in columns.split(", "))
            database.execute(f'CREATE TABLE "rocpd_{name}_0001" ({quoted})')
        database.execute("INSERT INTO rocpd_metadata_0001 VALUES ('schema_version', '3')")
        database.execute("INSERT INTO rocpd_kernel_dispatch_0001 VALUES (1, 1, 1191331312000, 1191331313000)")
        database.commit()
        return database.serialize()


if __name__ == "__main__":
    (HERE / "kernels.pb.gz").write_bytes(pprof())
    (HERE / "kernels.otlp").write_bytes(otlp().SerializeToString(deterministic=True))
    (HERE / "kernels.otlp.json").write_text(json_format.MessageToJson(otlp(), indent=1) + "\n")
    (HERE / "stacks.pftrace").write_bytes(perfetto())
    (HERE / "dispatches.db").write_bytes(rocpd())
    (HERE / "cuda_pc.otlp").write_bytes(cuda_pc().SerializeToString(deterministic=True))
