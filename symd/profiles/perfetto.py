"""Perfetto traces: the symbols of frames go to the end of the trace, in ModuleSymbols packets, as Perfetto's own symbolizer appends them;
nothing else changes.

Source: google/perfetto, docs/learning-more/symbolization.md, at ec5d16b1. A build id is bytes, not digits; lines stand innermost first.
The address is a frame's rel_pc, which is an address of the file as its program
headers say: its mapping's load_bias is p_vaddr - p_offset there. A mapping has no kind: of a GPU's module it is one like any other."""

from __future__ import annotations

from itertools import islice

from symd.errors import SymdError
from symd.model.answers import Reason
from symd.profiles.address_batch import AddressBatch, ResolvedAddress
from symd.profiles.format import Options, Symbolized, Tally
from symd.profiles.mapped import MappedRange, MappingPlacer, PlacedMapping
from symd.profiles.perfetto_trace import Packet, TracedMapping, each_packet
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.protobuf_wire import LENGTH, VARINT, each_field, fields, length_field, number_field, text_field
from symd.profiles.resolver import IdentifiedModule, Resolver
from symd.profiles.samples import shown_name
from symd.profiles.schemas import perfetto as schema

NAME = "perfetto"
CLAIM_PACKETS = 16
"""Packets that are looked at to recognise the format."""
OF_A_PACKET = frozenset(
    {
        schema.TracePacket.clock_snapshot,
        schema.TracePacket.timestamp,
        schema.TracePacket.trusted_packet_sequence_id,
        schema.TracePacket.sequence_flags,
        schema.TracePacket.trace_config,
        schema.TracePacket.trace_stats,
        schema.TracePacket.incremental_state_cleared,
        schema.TracePacket.compressed_packets,
        schema.TracePacket.first_packet_on_sequence,
        schema.TracePacket.zstd_compressed_packets,
    }
)
"""Fields of TracePacket that every trace has some of, and no message that other profiles begin with."""
_Key = tuple[str, bytes]


def claims(data: bytes) -> bool:
    """Packets and nothing else at the beginning, of which one has a field that is a packet's."""
    try:
        first = list(islice(each_field(data), CLAIM_PACKETS))
        numbers = {one.number for item in first for one in each_field(data, item.value, item.end)}
    except SymdError:
        return False
    return all(item.number == schema.Trace.packet and item.wire == LENGTH for item in first) and bool(
        numbers & OF_A_PACKET
    )


def module_symbols(packet: Packet) -> list[tuple[_Key, dict[int, bytes]]]:
    """The symbols that a packet brings: path and build id, and the AddressSymbols message by address."""
    found = []
    for item in packet.messages(schema.TracePacket.module_symbols):
        path, build_id, addresses = b"", b"", {}
        for one in fields(packet.data, item.value, item.end):
            content = packet.data[one.value : one.end] if one.wire == LENGTH else b""
            if one.number == schema.ModuleSymbols.path:
                path = content
            elif one.number == schema.ModuleSymbols.build_id:
                build_id = content
            elif one.number == schema.ModuleSymbols.address_symbols:
                numbers = {part.number: part.value for part in reversed(fields(content)) if part.wire == VARINT}
                addresses[numbers.get(schema.AddressSymbols.address, 0)] = content
        found.append(((path.decode("utf-8", "replace"), build_id), addresses))
    return found


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Append the symbols of frames that have a mapping and no symbols yet. A module is known by its build id, in hexadecimal
    digits or as the text that it is, or by the path of the mapping."""
    spending = ProfileBudget(options, len(data))
    wanted: dict[TracedMapping, dict[int, None]] = {}
    known: dict[_Key, set[int]] = {}
    for packet in each_packet(data, spending):
        for key, addresses in module_symbols(packet):
            known.setdefault(key, set()).update(addresses)
        for number in packet.tables.new_frames():
            frame = packet.tables.frame(number)
            if frame.mapping is not None and frame.rel_pc is not None:
                wanted.setdefault(frame.mapping, {})[frame.rel_pc] = None
    asked = _Asked(resolver, options)
    tally = Tally()
    for mapping, places in wanted.items():
        there = known.get((mapping.path, mapping.build_id), set())
        tally.already += len(there & places.keys())
        asked.add(mapping, [place for place in places if place not in there])
    pieces = asked.packets(tally, spending)
    report = tally.report(NAME, "frames", asked.notes())
    return Symbolized(data + b"".join(pieces) if pieces else data, report)


class _Asked:
    """The addresses of all mappings, looked up together."""

    def __init__(self, resolver: Resolver, options: Options) -> None:
        self._resolver = resolver
        self._options = options
        self._placer = MappingPlacer(resolver, options.limits)
        self._batch = AddressBatch()
        self._handles: dict[_Key, dict[int, int]] = {}
        self._missing: dict[str, None] = {}

    def add(self, mapping: TracedMapping, addresses: list[int]) -> None:
        """``rel_pc`` counts load_bias in; the segment that holds the mapping's file offset says what it ought to be."""
        names = identities(mapping)
        found = self._resolver.identified(*names)
        # The file's own offsets: what the placer adds to them is the load bias of the segment, or the text section's place.
        ranged = MappedRange(mapping.exact_offset, 0, mapping.exact_offset)
        placed = self._placer.place(ranged, found) if isinstance(found, IdentifiedModule) else found
        if placed is Reason.UNKNOWN_MODULE:
            self._missing[" or ".join(names) or "a mapping without path and build id"] = None
        handles = self._handles.setdefault((mapping.path, mapping.build_id), {})
        for address in addresses:
            if isinstance(placed, PlacedMapping):
                at = address - mapping.load_bias + placed.bias
                handles[address] = self._batch.add(self._batch.target(placed.target), at)
            else:
                handles[address] = self._batch.refuse(placed)

    def packets(self, tally: Tally, spending: ProfileBudget) -> list[bytes]:
        """A packet for each module that has symbols now."""
        answers = self._batch.ask(self._resolver, self._options.progress)
        packets = []
        for (path, build_id), handles in self._handles.items():
            symbols = []
            for address, handle in handles.items():
                answer = answers[handle]
                tally.count(answer.reason, resolved=bool(answer.frames))
                if answer.frames:
                    content = number_field(schema.AddressSymbols.address, address) + _lines(answer)
                    symbols.append(length_field(schema.ModuleSymbols.address_symbols, content))
                    spending.written(len(symbols[-1]))
            if symbols:
                named = text_field(schema.ModuleSymbols.path, path)
                named += length_field(schema.ModuleSymbols.build_id, build_id) if build_id else b""
                module = length_field(schema.TracePacket.module_symbols, named + b"".join(symbols))
                packets.append(length_field(schema.Trace.packet, module))
        return packets

    def notes(self) -> tuple[str, ...]:
        return tuple(f"no module was given for {name}" for name in self._missing)


def identities(mapping: TracedMapping) -> list[str]:
    """What users call the module of a mapping: the digits of its build id, the text that the bytes are, its path."""
    names = [mapping.build_id.hex()] if mapping.build_id else []
    text = mapping.build_id.decode("ascii", "replace")
    names += [text] if text and text.isprintable() and "\ufffd" not in text else []
    return [*names, *([mapping.path] if mapping.path else [])]


def _lines(answer: ResolvedAddress) -> bytes:
    pieces = []
    for frame in answer.frames:
        line = min(frame.line, 0xFFFFFFFF) if frame.file else 0
        named = text_field(schema.Line.function_name, shown_name(frame))
        position = text_field(schema.Line.source_file_name, frame.file or "") + number_field(
            schema.Line.line_number, line
        )
        pieces.append(length_field(schema.AddressSymbols.lines, named + position))
    return b"".join(pieces)
