"""What a Perfetto trace interns about stacks, sequence by sequence, and the packets themselves, compressed ones
unpacked.

What is interned belongs to its sequence, until the state is cleared. Compressed packets are of deflate or zstd."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import zstandard

from symd.config import Limits
from symd.errors import Malformed
from symd.profiles import profile_format
from symd.profiles.profile_format import ProfileBudget
from symd.profiles.protobuf import LENGTH, each_field, parsed
from symd.v1 import perfetto_pb2

WHERE = "the Perfetto trace"
PACKET = perfetto_pb2.Trace.PACKET_FIELD_NUMBER


class Packet(NamedTuple):
    """A packet; ``tables`` are those of its sequence, with what it interns itself."""

    message: perfetto_pb2.TracePacket
    tables: Tables


class TracedMapping(NamedTuple):
    """A mapping of a trace: the path and the build id (bytes) that name it, and where in its file it begins."""

    path: str
    build_id: bytes
    exact_offset: int
    load_bias: int
    start: int
    end: int


class TracedFrame(NamedTuple):
    """A frame of a trace. ``rel_pc`` is an address of the file, None where the frame has no mapping."""

    function: str
    mapping: TracedMapping | None
    rel_pc: int | None
    source: str
    line: int


Counter = perfetto_pb2.StackSample.CounterDescriptor
_NO_FRAME, _NO_MAPPING = perfetto_pb2.Frame(), perfetto_pb2.Mapping()


class Tables:
    """What one sequence has interned, by the field of InternedData and number."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, int], bytes] = {}
        self._callstacks: dict[int, list[int]] = {}
        self._counters: dict[int, Counter] = {}
        self._interned_frames: dict[int, perfetto_pb2.Frame] = {}
        self._interned_mappings: dict[int, perfetto_pb2.Mapping] = {}
        self._frames: dict[int, TracedFrame] = {}
        self._mappings: dict[int, TracedMapping] = {}
        self._new: list[int] = []

    def intern(self, data: perfetto_pb2.InternedData, spending: ProfileBudget) -> None:
        """Take up what a packet interns."""
        spending.read(sum(len(entries) for _, entries in data.ListFields()))
        for name in ("function_names", "build_ids", "mapping_paths", "source_paths"):
            self._texts.update(((name, one.iid), one.str) for one in getattr(data, name))
        self._callstacks.update((one.iid, list(one.frame_ids)) for one in data.callstacks)
        self._counters.update((one.iid, one) for one in data.stack_sample_counter_descriptors)
        for mapping in data.mappings:
            self._interned_mappings[mapping.iid] = mapping
            self._mappings.pop(mapping.iid, None)
        for frame in data.frames:
            self._interned_frames[frame.iid] = frame
            self._frames.pop(frame.iid, None)
            self._new.append(frame.iid)

    def _text(self, table: str, number: int) -> str:
        return text_of(self._texts.get((table, number), b""))

    def callstack(self, number: int) -> list[int]:
        """The frames of a call stack, outermost first."""
        return self._callstacks.get(number, [])

    def counter(self, number: int) -> Counter:
        """What a counter of stack samples is called."""
        return self._counters.get(number, Counter())

    def new_frames(self) -> list[int]:
        """The frames that were interned since this was asked last."""
        new, self._new = self._new, []
        return new

    def frame(self, number: int) -> TracedFrame:
        if number not in self._frames:
            frame = self._interned_frames.get(number, _NO_FRAME)
            mapping = self._mapping(frame.mapping_id) if frame.mapping_id else None
            self._frames[number] = TracedFrame(
                self._text("function_names", frame.function_name_id),
                mapping,
                frame.rel_pc if mapping else None,
                self._text("source_paths", frame.source_path_iid),
                frame.line_number,
            )
        return self._frames[number]

    def _mapping(self, number: int) -> TracedMapping:
        if number not in self._mappings:
            mapping = self._interned_mappings.get(number, _NO_MAPPING)
            self._mappings[number] = TracedMapping(
                "".join(f"/{self._text('mapping_paths', part)}" for part in mapping.path_string_ids),
                self._texts.get(("build_ids", mapping.build_id), b""),
                mapping.exact_offset,
                mapping.load_bias,
                mapping.start,
                mapping.end,
            )
        return self._mappings[number]


def each_packet(data: bytes, spending: ProfileBudget) -> Iterator[Packet]:
    """Every packet in order. Raises Malformed, and LimitExceeded where compressed ones expand too far."""
    sequences: dict[int, Tables] = {}
    for message in _messages(data, spending):
        sequence = message.trusted_packet_sequence_id
        is_cleared = message.sequence_flags & perfetto_pb2.SEQ_INCREMENTAL_STATE_CLEARED
        if is_cleared or message.incremental_state_cleared or sequence not in sequences:
            sequences[sequence] = Tables()
        if message.HasField("interned_data"):
            sequences[sequence].intern(message.interned_data, spending)
        yield Packet(message, sequences[sequence])


def _messages(data: bytes, spending: ProfileBudget) -> Iterator[perfetto_pb2.TracePacket]:
    for message in _packets(data, spending):
        if message.compressed_packets or message.zstd_compressed_packets:
            expanded = _expanded(message, spending.limits)
            spending.written(len(expanded))
            yield from _packets(expanded, spending)
        else:
            yield message


def _packets(data: bytes, spending: ProfileBudget) -> Iterator[perfetto_pb2.TracePacket]:
    for item in each_field(data, WHERE):
        spending.read()
        if item.number == PACKET and item.wire == LENGTH:
            yield parsed(perfetto_pb2.TracePacket, item.content, WHERE, spending)


def _expanded(message: perfetto_pb2.TracePacket, limits: Limits) -> bytes:
    """Raises LimitExceeded before the memory is spent."""
    data = message.compressed_packets or message.zstd_compressed_packets
    most, too_large = profile_format.expansion_budget(len(data), limits)
    try:
        if message.compressed_packets:
            expanded = zlib.decompressobj().decompress(data, most + 1)
        else:
            with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as reader:
                expanded = reader.read(most + 1)
    except (zlib.error, zstandard.ZstdError) as error:
        raise Malformed(f"compressed packets are damaged: {error}", where=WHERE) from error
    if len(expanded) > most:
        raise too_large
    return expanded


def text_of(data: bytes) -> str:
    """A text of a trace, which need not be UTF-8."""
    return data.decode("utf-8", "replace")
