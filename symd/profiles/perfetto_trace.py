"""What a Perfetto trace interns about stacks, sequence by sequence, and the packets themselves, compressed ones unpacked.

Source: google/perfetto, protos/perfetto/trace (trace_packet.proto, interned_data/interned_data.proto, profiling/profile_common.proto), as
in the Python package perfetto 0.59.1. Trace: packet 1. TracePacket: trusted_packet_sequence_id 10, interned_data 12, sequence_flags 13,
incremental_state_cleared 41, compressed_packets 50 (deflate), zstd_compressed_packets 133. What is interned belongs to its sequence, until the
state is cleared. InternedData: function_names 5, frames 6, callstacks 7, build_ids 16, mapping_paths 17, source_paths 18, mappings 19; the
entries have their number in field 1."""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import NamedTuple

import zstandard

from symd.budget import exceeded
from symd.config import Limits
from symd.errors import Malformed
from symd.profiles import gzipped
from symd.profiles.protobuf_wire import LENGTH, VARINT, Field, each_field, fields, packed
from symd.profiles.spending import Spending

WHERE = "the Perfetto trace"
PACKET = 1
SEQUENCE, INTERNED, FLAGS, CLEARED, DEFLATED, ZSTD = 10, 12, 13, 41, 50, 133
STATE_CLEARED = 1
FUNCTION_NAMES, FRAMES, CALLSTACKS, BUILD_IDS, PATHS, SOURCES, MAPPINGS = 5, 6, 7, 16, 17, 18, 19
TABLES = frozenset({FUNCTION_NAMES, FRAMES, CALLSTACKS, BUILD_IDS, PATHS, SOURCES, MAPPINGS, 50})
"""Of InternedData what is kept; 50 are counter descriptors of stack samples."""


class Packet(NamedTuple):
    """A packet: its fields lie in ``data``; ``tables`` are those of its sequence, with what it interns itself."""

    data: bytes
    fields: list[Field]
    sequence: int
    tables: Tables

    def messages(self, number: int) -> list[Field]:
        return [item for item in self.fields if item.number == number and item.wire == LENGTH]

    def number(self, number: int) -> int | None:
        return next((item.value for item in self.fields if item.number == number and item.wire == VARINT), None)


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


class Tables:
    """What one sequence has interned: the bytes of each entry by table and number."""

    def __init__(self) -> None:
        self._entries: dict[tuple[int, int], bytes] = {}
        self._frames: dict[int, TracedFrame] = {}
        self._mappings: dict[int, TracedMapping] = {}
        self._new: list[int] = []

    def intern(self, data: bytes, item: Field, spending: Spending) -> None:
        for entry in fields(data, item.value, item.end, WHERE, spending):
            if entry.number in TABLES and entry.wire == LENGTH:
                number = _numbers(data[entry.value : entry.end]).get(1, 0)
                self._entries[entry.number, number] = data[entry.value : entry.end]
                if entry.number == FRAMES:
                    self._new.append(number)
                self._frames.pop(number if entry.number == FRAMES else -1, None)
                self._mappings.pop(number if entry.number == MAPPINGS else -1, None)

    def entry(self, table: int, number: int) -> bytes:
        """The bytes of an entry; b"" where nothing has this number."""
        return self._entries.get((table, number), b"")

    def string(self, table: int, number: int) -> bytes:
        data = self.entry(table, number)
        return next((data[one.value : one.end] for one in fields(data, where=WHERE) if one.number == 2), b"")

    def callstack(self, number: int) -> list[int]:
        """The frames of a call stack, outermost first."""
        data = self.entry(CALLSTACKS, number)
        return [at for one in fields(data, where=WHERE) if one.number == 2 for at in packed(data, one, WHERE)]

    def new_frames(self) -> list[int]:
        """The frames that were interned since this was asked last."""
        new, self._new = self._new, []
        return new

    def frame(self, number: int) -> TracedFrame:
        if number not in self._frames:
            values = _numbers(self.entry(FRAMES, number))
            mapping = self.mapping(values[3]) if values.get(3) else None
            self._frames[number] = TracedFrame(
                _text(self.string(FUNCTION_NAMES, values.get(2, 0))),
                mapping,
                values.get(4, 0) if mapping else None,
                _text(self.string(SOURCES, values.get(5, 0))),
                values.get(6, 0),
            )
        return self._frames[number]

    def mapping(self, number: int) -> TracedMapping:
        if number not in self._mappings:
            data = self.entry(MAPPINGS, number)
            values = _numbers(data)
            parts = [at for one in fields(data, where=WHERE) if one.number == 7 for at in packed(data, one, WHERE)]
            path = "".join(f"/{_text(self.string(PATHS, part))}" for part in parts)
            build_id = self.string(BUILD_IDS, values.get(2, 0))
            numbers = (values.get(at, 0) for at in (8, 6, 4, 5))
            self._mappings[number] = TracedMapping(path, build_id, *numbers)
        return self._mappings[number]


def each_packet(data: bytes, spending: Spending) -> Iterator[Packet]:
    """Every packet in order. Raises Malformed, and LimitExceeded where compressed ones expand too far."""
    sequences: dict[int, Tables] = {}
    for content in _contents(data, spending):
        inner = fields(content, where=WHERE, spending=spending)
        numbers = {one.number: one.value for one in inner if one.wire == VARINT}
        sequence = numbers.get(SEQUENCE, 0)
        tables = sequences.setdefault(sequence, Tables())
        if numbers.get(FLAGS, 0) & STATE_CLEARED or numbers.get(CLEARED):
            tables = sequences[sequence] = Tables()
        for one in inner:
            if one.number == INTERNED and one.wire == LENGTH:
                tables.intern(content, one, spending)
        yield Packet(content, inner, sequence, tables)


def _contents(data: bytes, spending: Spending) -> Iterator[bytes]:
    for item in each_field(data, where=WHERE, spending=spending):
        if item.number != PACKET or item.wire != LENGTH:
            continue
        content = data[item.value : item.end]
        packing = next((one for one in each_field(content, where=WHERE) if one.number in (DEFLATED, ZSTD)), None)
        if packing is None or packing.wire != LENGTH:
            yield content
            continue
        expanded = _expanded(content[packing.value : packing.end], packing.number, spending.limits)
        spending.written(len(expanded))
        for one in each_field(expanded, where=WHERE, spending=spending):
            if one.number == PACKET and one.wire == LENGTH:
                yield expanded[one.value : one.end]


def _expanded(data: bytes, kind: int, limits: Limits) -> bytes:
    """Raises LimitExceeded before the memory is spent."""
    name, most = gzipped.expansion_budget(len(data), limits)
    try:
        if kind == DEFLATED:
            expanded = zlib.decompressobj().decompress(data, most + 1)
        else:
            with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as reader:
                expanded = reader.read(most + 1)
    except (zlib.error, zstandard.ZstdError) as error:
        raise Malformed(f"compressed packets are damaged: {error}", where=WHERE) from error
    if len(expanded) > most:
        value = getattr(limits, name)
        raise exceeded(name, value, f"expands to more than {most} bytes ({name} = {value})", WHERE)
    return expanded


def _numbers(data: bytes) -> dict[int, int]:
    return {one.number: one.value for one in fields(data, where=WHERE) if one.wire == VARINT}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
