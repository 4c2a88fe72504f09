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
from symd.profiles.protobuf_wire import LENGTH, VARINT, Field, each_field, fields, packed
from symd.profiles.schemas import Perfetto

WHERE = "the Perfetto trace"
_Packet, _Interned = Perfetto.TracePacket, Perfetto.InternedData
TABLES = frozenset(
    {
        _Interned.function_names,
        _Interned.frames,
        _Interned.callstacks,
        _Interned.build_ids,
        _Interned.mapping_paths,
        _Interned.source_paths,
        _Interned.mappings,
        _Interned.stack_sample_counter_descriptors,
    }
)
"""The fields of InternedData that are kept. Each entry has its number in the field ``iid``."""
_COMPRESSED = (_Packet.compressed_packets, _Packet.zstd_compressed_packets)


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

    def intern(self, data: bytes, item: Field, spending: ProfileBudget) -> None:
        for entry in fields(data, item.value, item.end, WHERE, spending):
            if entry.number in TABLES and entry.wire == LENGTH:
                number = _numbers(data[entry.value : entry.end]).get(Perfetto.InternedString.iid, 0)
                self._entries[entry.number, number] = data[entry.value : entry.end]
                if entry.number == _Interned.frames:
                    self._new.append(number)
                self._frames.pop(number if entry.number == _Interned.frames else -1, None)
                self._mappings.pop(number if entry.number == _Interned.mappings else -1, None)

    def entry(self, table: int, number: int) -> bytes:
        """The bytes of an entry; b"" where nothing has this number."""
        return self._entries.get((table, number), b"")

    def string(self, table: int, number: int) -> bytes:
        data = self.entry(table, number)
        texts = (one for one in fields(data, where=WHERE) if one.number == Perfetto.InternedString.str)
        return next((data[one.value : one.end] for one in texts), b"")

    def callstack(self, number: int) -> list[int]:
        """The frames of a call stack, outermost first."""
        data = self.entry(_Interned.callstacks, number)
        return _all_numbers(data, Perfetto.Callstack.frame_ids)

    def new_frames(self) -> list[int]:
        """The frames that were interned since this was asked last."""
        new, self._new = self._new, []
        return new

    def frame(self, number: int) -> TracedFrame:
        if number not in self._frames:
            values = _numbers(self.entry(_Interned.frames, number))
            mapped = values.get(Perfetto.Frame.mapping_id, 0)
            mapping = self.mapping(mapped) if mapped else None
            self._frames[number] = TracedFrame(
                _text(self.string(_Interned.function_names, values.get(Perfetto.Frame.function_name_id, 0))),
                mapping,
                values.get(Perfetto.Frame.rel_pc, 0) if mapping else None,
                _text(self.string(_Interned.source_paths, values.get(Perfetto.Frame.source_path_iid, 0))),
                values.get(Perfetto.Frame.line_number, 0),
            )
        return self._frames[number]

    def mapping(self, number: int) -> TracedMapping:
        if number not in self._mappings:
            data = self.entry(_Interned.mappings, number)
            values = _numbers(data)
            parts = _all_numbers(data, Perfetto.Mapping.path_string_ids)
            self._mappings[number] = TracedMapping(
                "".join(f"/{_text(self.string(_Interned.mapping_paths, part))}" for part in parts),
                self.string(_Interned.build_ids, values.get(Perfetto.Mapping.build_id, 0)),
                values.get(Perfetto.Mapping.exact_offset, 0),
                values.get(Perfetto.Mapping.load_bias, 0),
                values.get(Perfetto.Mapping.start, 0),
                values.get(Perfetto.Mapping.end, 0),
            )
        return self._mappings[number]


def each_packet(data: bytes, spending: ProfileBudget) -> Iterator[Packet]:
    """Every packet in order. Raises Malformed, and LimitExceeded where compressed ones expand too far."""
    sequences: dict[int, Tables] = {}
    for content in _contents(data, spending):
        inner = fields(content, where=WHERE, spending=spending)
        numbers = {one.number: one.value for one in inner if one.wire == VARINT}
        sequence = numbers.get(_Packet.trusted_packet_sequence_id, 0)
        tables = sequences.setdefault(sequence, Tables())
        flags = numbers.get(_Packet.sequence_flags, 0)
        is_cleared = flags & Perfetto.SequenceFlags.incremental_state_cleared
        if is_cleared or numbers.get(_Packet.incremental_state_cleared):
            tables = sequences[sequence] = Tables()
        for one in inner:
            if one.number == _Packet.interned_data and one.wire == LENGTH:
                tables.intern(content, one, spending)
        yield Packet(content, inner, sequence, tables)


def _contents(data: bytes, spending: ProfileBudget) -> Iterator[bytes]:
    for item in each_field(data, where=WHERE, spending=spending):
        if item.number != Perfetto.Trace.packet or item.wire != LENGTH:
            continue
        content = data[item.value : item.end]
        packing = next((one for one in each_field(content, where=WHERE) if one.number in _COMPRESSED), None)
        if packing is None or packing.wire != LENGTH:
            yield content
            continue
        expanded = _expanded(content[packing.value : packing.end], packing.number, spending.limits)
        spending.written(len(expanded))
        for one in each_field(expanded, where=WHERE, spending=spending):
            if one.number == Perfetto.Trace.packet and one.wire == LENGTH:
                yield expanded[one.value : one.end]


def _expanded(data: bytes, kind: int, limits: Limits) -> bytes:
    """Raises LimitExceeded before the memory is spent."""
    most, too_large = profile_format.expansion_budget(len(data), limits)
    try:
        if kind == _Packet.compressed_packets:
            expanded = zlib.decompressobj().decompress(data, most + 1)
        else:
            with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(data)) as reader:
                expanded = reader.read(most + 1)
    except (zlib.error, zstandard.ZstdError) as error:
        raise Malformed(f"compressed packets are damaged: {error}", where=WHERE) from error
    if len(expanded) > most:
        raise too_large
    return expanded


def _all_numbers(data: bytes, number: int) -> list[int]:
    """What a repeated varint field of a message has."""
    return [each for one in fields(data, where=WHERE) if one.number == number for each in packed(data, one, WHERE)]


def _numbers(data: bytes) -> dict[int, int]:
    return {one.number: one.value for one in fields(data, where=WHERE) if one.wire == VARINT}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
