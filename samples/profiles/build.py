"""Writes the binary profiles beside this file, each with the format's own library and never with symd.

    python samples/profiles/build.py

kernels.pb.gz needs Go and Google's pprof package (Debian: golang-go, golang-github-google-pprof-dev); kernels.otlp needs
opentelemetry-proto from PyPI. The text profiles are written by hand from the lists of fields that README.md names.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

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

HERE = Path(__file__).parent
ZEBIN = HERE.parent / "kernels/bin/filters/igc2-dg2-opt.zebin"
AMD_LOAD, GEN_TEXT = 0x7F4200000000, 0xFFFF800100400000


def pprof() -> bytes:
    """What pprof.go writes."""
    command = ["go", "run", HERE / "pprof.go", hashlib.sha256(ZEBIN.read_bytes()).hexdigest()]
    environment = {**os.environ, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}
    return subprocess.run(command, check=True, env=environment, capture_output=True).stdout


def otlp() -> bytes:
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
    return data.SerializeToString(deterministic=True)


if __name__ == "__main__":
    (HERE / "kernels.pb.gz").write_bytes(pprof())
    (HERE / "kernels.otlp").write_bytes(otlp())
