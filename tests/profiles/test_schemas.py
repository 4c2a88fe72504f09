"""The fields of the protos of profiles are those that the projects publish, under the same names, with the same numbers."""

from __future__ import annotations

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
from opentelemetry.proto.common.v1 import common_pb2
from opentelemetry.proto.profiles.v1development import profiles_pb2
from opentelemetry.proto.resource.v1 import resource_pb2
from perfetto.protos.perfetto.trace import perfetto_trace_pb2

from symd.profiles.perfetto import OF_A_PACKET
from symd.v1 import otlp_pb2, perfetto_pb2, pprof_pb2
from tests.profiles.messages import Profile

OTLP = (profiles_pb2.DESCRIPTOR, common_pb2.DESCRIPTOR, resource_pb2.DESCRIPTOR)
AS_WRITTEN = {
    FieldDescriptor.TYPE_STRING: FieldDescriptor.TYPE_BYTES,
    FieldDescriptor.TYPE_ENUM: FieldDescriptor.TYPE_UINT32,
}
"""Types that are written alike, by that which stands for both."""

PART_OF = {"ProfileTables": "Profile"}
"""Messages with some of the fields of a published one."""


def shape(field: FieldDescriptor) -> tuple[int, int, bool]:
    return field.number, AS_WRITTEN.get(field.type, field.type), field.is_repeated


def check(own: Descriptor, published: Descriptor) -> int:
    """The number of fields of a message, and of those in it, which all are the published one's."""
    for field in own.fields:
        assert shape(field) == shape(published.fields_by_name[field.name]), field.full_name
    nested = (check(each, published.nested_types_by_name[each.name]) for each in own.nested_types)
    return len(own.fields) + sum(nested)


@pytest.mark.parametrize(
    ("own", "published"),
    [
        (otlp_pb2.DESCRIPTOR, OTLP),
        (perfetto_pb2.DESCRIPTOR, (perfetto_trace_pb2.DESCRIPTOR,)),
        (pprof_pb2.DESCRIPTOR, (Profile.DESCRIPTOR.file,)),
    ],
    ids=["otlp", "perfetto", "pprof"],
)
def test_fields_are_those_of_the_published_packages(own: FileDescriptor, published: tuple[FileDescriptor, ...]) -> None:
    known = {name: message for file in published for name, message in file.message_types_by_name.items()}
    messages = own.message_types_by_name.items()
    assert sum(check(each, known[PART_OF.get(name, name)]) for name, each in messages) > 30


def test_flags_of_perfetto_are_those_of_the_published_package() -> None:
    published = perfetto_trace_pb2.TracePacket.SequenceFlags
    for name in ("SEQ_INCREMENTAL_STATE_CLEARED", "SEQ_NEEDS_INCREMENTAL_STATE"):
        assert perfetto_pb2.SequenceFlags.Value(name) == published.Value(name)


def test_fields_that_make_a_trace_are_those_of_a_packet() -> None:
    packet = perfetto_trace_pb2.TracePacket.DESCRIPTOR
    names = {packet.fields_by_number[number].name for number in OF_A_PACKET}
    assert names == {
        "clock_snapshot", "timestamp", "trusted_packet_sequence_id", "sequence_flags", "trace_config", "trace_stats",
        "incremental_state_cleared", "compressed_packets", "first_packet_on_sequence", "zstd_compressed_packets",
    }  # fmt: skip
