"""pprof's Profile for Google's protocol buffer runtime, built from the field numbers that profile.proto publishes. The
runtime is an independent reader and writer of the wire format."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

INT64, UINT64, BOOL, BYTES, MESSAGE = 3, 4, 8, 12, 11
"""FieldDescriptorProto.Type."""
SHAPE: dict[str, list[tuple[int, str, int | str, bool]]] = {
    "ValueType": [(1, "type", INT64, False), (2, "unit", INT64, False)],
    "Sample": [(1, "location_id", UINT64, True), (2, "value", INT64, True), (3, "label", "Label", True)],
    "Label": [
        (1, "key", INT64, False), (2, "str", INT64, False), (3, "num", INT64, False),
        (4, "num_unit", INT64, False),
    ],
    "Mapping": [
        (1, "id", UINT64, False), (2, "memory_start", UINT64, False), (3, "memory_limit", UINT64, False),
        (4, "file_offset", UINT64, False), (5, "filename", INT64, False), (6, "build_id", INT64, False),
        (7, "has_functions", BOOL, False), (8, "has_filenames", BOOL, False), (9, "has_line_numbers", BOOL, False),
        (10, "has_inline_frames", BOOL, False),
    ],
    "Location": [
        (1, "id", UINT64, False), (2, "mapping_id", UINT64, False), (3, "address", UINT64, False),
        (4, "line", "Line", True), (5, "is_folded", BOOL, False),
    ],
    "Line": [(1, "function_id", UINT64, False), (2, "line", INT64, False), (3, "column", INT64, False)],
    "Function": [
        (1, "id", UINT64, False), (2, "name", INT64, False), (3, "system_name", INT64, False),
        (4, "filename", INT64, False), (5, "start_line", INT64, False),
    ],
    "Profile": [
        (1, "sample_type", "ValueType", True), (2, "sample", "Sample", True), (3, "mapping", "Mapping", True),
        (4, "location", "Location", True), (5, "function", "Function", True), (6, "string_table", BYTES, True),
        (9, "time_nanos", INT64, False), (12, "period", INT64, False), (14, "default_sample_type", INT64, False),
    ],
}  # fmt: skip


def _field(number: int, name: str, kind: int | str, repeated: bool) -> FieldDescriptorProto:
    message = isinstance(kind, str)
    return FieldDescriptorProto(
        name=name,
        number=number,
        label=3 if repeated else 1,
        type=MESSAGE if message else kind,
        type_name=f".pprof.{kind}" if message else None,
    )


def _profile() -> Any:
    messages = [DescriptorProto(name=name, field=[_field(*one) for one in shape]) for name, shape in SHAPE.items()]
    pool = DescriptorPool()
    pool.Add(FileDescriptorProto(name="pprof.proto", package="pprof", syntax="proto3", message_type=messages))
    return GetMessageClass(pool.FindMessageTypeByName("pprof.Profile"))


Profile = _profile()


def frames_of(profile: Any, location: Any) -> list[tuple[str, str, str, int, int]]:
    """(name, system name, file, line, column) of a location's lines, leaf first."""
    functions = {one.id: one for one in profile.function}
    strings = [text.decode() for text in profile.string_table]
    return [
        (
            strings[functions[line.function_id].name],
            strings[functions[line.function_id].system_name],
            strings[functions[line.function_id].filename],
            line.line,
            line.column,
        )
        for line in location.line
    ]
