"""Perfetto traces: the symbols of frames are appended as ModuleSymbols packets, as Perfetto's own symbolizer does;
nothing else changes. Samples are read from stack samples with their counters, and from samples of perf.

Source: google/perfetto, docs/learning-more/symbolization.md, at ec5d16b1. A build id is bytes, not digits; lines are
innermost first. The address is a frame's rel_pc, which is an address of the file as its program headers say: its
mapping's load_bias is p_vaddr - p_offset there. A mapping has no kind: that of a GPU's module looks like any other.
"""

from __future__ import annotations

from itertools import islice

from symd.errors import SymdError
from symd.model.answers import Frame, Reason
from symd.profiles.addresses import AddressBatch, MappedRange, MappingPlacer, ResolvedAddress
from symd.profiles.perfetto_trace import Packet, TracedFrame, TracedMapping, each_packet
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.protobuf_wire import (
    LENGTH,
    VARINT,
    Field,
    each_field,
    fields,
    length_field,
    number_field,
    packed,
    text_field,
)
from symd.profiles.resolver import IdentifiedModule, Resolver
from symd.profiles.samples import (
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    Task,
    ValueType,
    place_in_file,
    shown_name,
)
from symd.profiles.schemas import Perfetto

NAME = "perfetto"
CLAIM_PACKETS = 16
"""Packets that are looked at to recognize the format."""
OF_A_PACKET = frozenset(
    {
        Perfetto.TracePacket.clock_snapshot,
        Perfetto.TracePacket.timestamp,
        Perfetto.TracePacket.trusted_packet_sequence_id,
        Perfetto.TracePacket.sequence_flags,
        Perfetto.TracePacket.trace_config,
        Perfetto.TracePacket.trace_stats,
        Perfetto.TracePacket.incremental_state_cleared,
        Perfetto.TracePacket.compressed_packets,
        Perfetto.TracePacket.first_packet_on_sequence,
        Perfetto.TracePacket.zstd_compressed_packets,
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
    return all(item.number == Perfetto.Trace.packet and item.wire == LENGTH for item in first) and bool(
        numbers & OF_A_PACKET
    )


def module_symbols(packet: Packet) -> list[tuple[_Key, dict[int, bytes]]]:
    """The symbols that a packet brings: path and build id, and the AddressSymbols message by address."""
    found = []
    for item in packet.messages(Perfetto.TracePacket.module_symbols):
        path, build_id, addresses = b"", b"", {}
        for one in fields(packet.data, item.value, item.end):
            content = packet.data[one.value : one.end] if one.wire == LENGTH else b""
            if one.number == Perfetto.ModuleSymbols.path:
                path = content
            elif one.number == Perfetto.ModuleSymbols.build_id:
                build_id = content
            elif one.number == Perfetto.ModuleSymbols.address_symbols:
                numbers = {part.number: part.value for part in reversed(fields(content)) if part.wire == VARINT}
                addresses[numbers.get(Perfetto.AddressSymbols.address, 0)] = content
        found.append(((path.decode("utf-8", "replace"), build_id), addresses))
    return found


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Append the symbols of frames that have a mapping and no symbols yet. A module is known by its build id, in
    hexadecimal digits or as the text that it is, or by the path of the mapping."""
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
        build_id, *names = identities(mapping) if mapping.build_id else ("", *identities(mapping))
        found = self._resolver.module_of(*names, build_id=build_id)
        # The file's own offsets: what the placer adds to them is the load bias of the segment, or the text section's
        # place.
        ranged = MappedRange(mapping.exact_offset, 0, mapping.exact_offset)
        placed = self._placer.place(ranged, found) if isinstance(found, IdentifiedModule) else found
        if placed is Reason.UNKNOWN_MODULE:
            without = "a mapping without path and build id"
            self._missing[self._resolver.not_given(*names, build_id=build_id, otherwise=without)] = None
        handles = self._handles.setdefault((mapping.path, mapping.build_id), {})
        for address in addresses:
            handles[address] = self._batch.add(placed, address - mapping.load_bias)

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
                    content = number_field(Perfetto.AddressSymbols.address, address) + _lines(answer)
                    symbols.append(length_field(Perfetto.ModuleSymbols.address_symbols, content))
                    spending.written(len(symbols[-1]))
            if symbols:
                named = text_field(Perfetto.ModuleSymbols.path, path)
                named += length_field(Perfetto.ModuleSymbols.build_id, build_id) if build_id else b""
                module = length_field(Perfetto.TracePacket.module_symbols, named + b"".join(symbols))
                packets.append(length_field(Perfetto.Trace.packet, module))
        return packets

    def notes(self) -> tuple[str, ...]:
        return tuple(self._missing)


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
        named = text_field(Perfetto.Line.function_name, shown_name(frame))
        position = text_field(Perfetto.Line.source_file_name, frame.file or "") + number_field(
            Perfetto.Line.line_number, line
        )
        pieces.append(length_field(Perfetto.AddressSymbols.lines, named + position))
    return b"".join(pieces)


WHERE = "the Perfetto trace"


DESCRIPTORS = Perfetto.InternedData.stack_sample_counter_descriptors
READ = frozenset(
    {
        Perfetto.TracePacket.trace_packet_defaults,
        Perfetto.TracePacket.module_symbols,
        Perfetto.TracePacket.perf_sample,
        Perfetto.TracePacket.stack_sample,
    }
)
"""The fields of packets that are looked into."""
UNITS = (
    "",
    "nanoseconds",
    "cycles",
    "instructions",
    "bytes",
    "page faults",
    "cache misses",
    "cache references",
    "branch misses",
    "count",
)
"""StackSample.Unit, by number."""
PERF = ValueType("samples", "count")


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """Every stack sample and every sample of perf. Raises Malformed and LimitExceeded."""
    return _Reader(data, spending).profile()


class _Reader:
    def __init__(self, data: bytes, spending: ProfileBudget) -> None:
        self._spending = spending
        self._packets = [one for one in each_packet(data, spending) if any(at.number in READ for at in one.fields)]
        self._symbols: dict[tuple[str, bytes], dict[int, tuple[Frame, ...]]] = {}
        self._found = SampledProfile((), tasks=[])
        self._addresses = AddressTable(self._found.addresses)
        self._columns: dict[ValueType, int] = {}
        self._tasks: dict[Task, int] = {}
        self._modules: dict[TracedMapping, int] = {}
        self._defaults: dict[int, tuple[ValueType | None, list[ValueType]]] = {}
        self._rows: list[tuple[Sample, dict[int, int]]] = []

    def profile(self) -> SampledProfile:
        """Symbols are at the end of a trace, so they are read first."""
        for packet in self._packets:
            for key, addresses in module_symbols(packet):
                known = self._symbols.setdefault(key, {})
                known.update({at: _symbol_frames(content) for at, content in addresses.items()})
        for packet in self._packets:
            self._read_defaults(packet)
            for item in packet.messages(Perfetto.TracePacket.stack_sample):
                self._stack_sample(packet, item)
            for item in packet.messages(Perfetto.TracePacket.perf_sample):
                self._perf_sample(packet, item)
        found = self._found
        found.value_types = tuple(self._columns) or (PERF,)
        width = range(len(found.value_types))
        self._spending.read_table(len(self._rows), len(width))
        found.samples = [one._replace(values=tuple(row.get(at, 0) for at in width)) for one, row in self._rows]
        if not self._rows:
            found.notes.append("heap profiles and the streaming profiles of Chrome are not read")
        found.tasks = list(self._tasks) or [Task()]
        return found

    def _inside(self, packet: Packet, item: Field) -> list[Field]:
        return fields(packet.data, item.value, item.end, WHERE)

    def _read_defaults(self, packet: Packet) -> None:
        for item in packet.messages(Perfetto.TracePacket.trace_packet_defaults):
            for one in self._inside(packet, item):
                if one.number == Perfetto.TracePacketDefaults.stack_sample_defaults and one.wire == LENGTH:
                    inner = self._inside(packet, one)
                    primary = _descriptors(packet, inner, Perfetto.StackSampleDefaults.primary_descriptor)
                    others = _descriptors(packet, inner, Perfetto.StackSampleDefaults.follower_descriptors)
                    self._defaults[packet.sequence] = (primary[0] if primary else None, others)

    def _stack_sample(self, packet: Packet, item: Field) -> None:
        inner = self._inside(packet, item)
        content = {one.number: packet.data[one.value : one.end] for one in inner if one.wire == LENGTH}
        numbers = {one.number: one.value for one in inner if one.wire == VARINT}
        context = content.get(Perfetto.StackSample.task_context, b"")
        task = {one.number: one.value for one in fields(context) if one.wire == VARINT}
        primary, followers = self._counters(packet, inner, content, numbers)
        row: dict[int, int] = {}
        weights = _packed(packet, inner, Perfetto.StackSample.follower_weights)
        weight = numbers.get(Perfetto.StackSample.primary_weight, 1 if not weights else 0)
        counted = [(primary, weight), *zip(followers, weights, strict=False)]
        for kind, weight in counted:
            column = self._columns.setdefault(kind, len(self._columns))
            row[column] = row.get(column, 0) + weight
        inline = content.get(Perfetto.StackSample.callstack)
        interned = numbers.get(Perfetto.StackSample.callstack_iid, 0)
        stack = self._interned(packet, interned) if inline is None else self._inline(inline)
        self._add(
            packet,
            stack,
            row,
            Task(task.get(Perfetto.StackSample.TaskContext.pid, 0), task.get(Perfetto.StackSample.TaskContext.tid, 0)),
        )

    def _counters(
        self, packet: Packet, inner: list[Field], content: dict[int, bytes], numbers: dict[int, int]
    ) -> tuple[ValueType, list[ValueType]]:
        """Inline, interned, or the sequence's defaults."""
        primary, followers = self._defaults.get(packet.sequence, (None, []))
        if (own := content.get(Perfetto.StackSample.primary_descriptor)) is not None:
            primary = _descriptor(own)
        elif (number := numbers.get(Perfetto.StackSample.primary_descriptor_iid)) is not None:
            primary = _descriptor(packet.tables.entry(DESCRIPTORS, number))
        inline = _descriptors(packet, inner, Perfetto.StackSample.follower_descriptors)
        named = _packed(packet, inner, Perfetto.StackSample.follower_descriptor_iids)
        interned = [_descriptor(packet.tables.entry(DESCRIPTORS, at)) for at in named]
        return primary or PERF, inline or interned or followers

    def _perf_sample(self, packet: Packet, item: Field) -> None:
        numbers = {one.number: one.value for one in self._inside(packet, item) if one.wire == VARINT}
        stack = numbers.get(Perfetto.PerfSample.callstack_iid)
        if stack is not None:
            column = self._columns.setdefault(PERF, len(self._columns))
            task = Task(numbers.get(Perfetto.PerfSample.pid, 0), numbers.get(Perfetto.PerfSample.tid, 0))
            self._add(packet, self._interned(packet, stack), {column: 1}, task)

    def _add(self, packet: Packet, stack: list[int], row: dict[int, int], task: Task) -> None:
        number = self._tasks.setdefault(task, len(self._tasks))
        self._spending.read()
        self._rows.append(
            (Sample(tuple(reversed(stack)), (), packet.number(Perfetto.TracePacket.timestamp), number), row)
        )

    def _inline(self, data: bytes) -> list[int]:
        """Frames that the sample itself has, outermost first."""
        found = []
        for item in fields(data, where=WHERE, spending=self._spending):
            is_frame = item.number == Perfetto.InlineCallstack.frames and item.wire == LENGTH
            inner = fields(data, item.value, item.end, WHERE) if is_frame else []
            text = {one.number: _text(data, one) for one in inner if one.wire == LENGTH}
            line = _number(inner, Perfetto.InlineCallstack.Frame.line_number)
            function, file = (
                text.get(Perfetto.InlineCallstack.Frame.function_name, ""),
                text.get(Perfetto.InlineCallstack.Frame.source_file),
            )
            frame = Frame(function or None, None, file or None, line, 0, inlined=False)
            found.append(self._addresses.number(SampledAddress(function, (frame,))))
        return found

    def _interned(self, packet: Packet, number: int) -> list[int]:
        return [self._address(packet.tables.frame(at)) for at in packet.tables.callstack(number)]

    def _address(self, frame: TracedFrame) -> int:
        """A frame with the trace's symbols where it has some, else with the name that it bears itself."""
        mapping = frame.mapping
        named = Frame(frame.function or None, None, frame.source or None, frame.line, 0, inlined=False)
        own = (named,) if frame.function or frame.source else ()
        if mapping is None or frame.rel_pc is None:
            return self._addresses.number(SampledAddress(frame.function or "(unnamed)", own))
        if mapping not in self._modules:
            self._modules[mapping] = len(self._found.modules)
            build_id = mapping.build_id.hex()
            module = SampledModule(mapping.path, build_id, mapping.start, mapping.end, mapping.exact_offset)
            self._found.modules.append(module)
        frames = self._symbols.get((mapping.path, mapping.build_id), {}).get(frame.rel_pc, ())
        label = place_in_file(mapping.path, frame.rel_pc)
        placed = frame.rel_pc - mapping.load_bias - mapping.exact_offset + mapping.start
        return self._addresses.number(SampledAddress(label, frames or own, max(0, placed), self._modules[mapping]))


def _symbol_frames(content: bytes) -> tuple[Frame, ...]:
    """The lines of an AddressSymbols message, innermost first."""
    lines = [
        one
        for one in fields(content, where=WHERE)
        if one.number == Perfetto.AddressSymbols.lines and one.wire == LENGTH
    ]
    found = []
    for at, line in enumerate(lines):
        inner = fields(content, line.value, line.end, WHERE)
        text = {one.number: _text(content, one) for one in inner if one.wire == LENGTH}
        function, file = text.get(Perfetto.Line.function_name), text.get(Perfetto.Line.source_file_name)
        number = _number(inner, Perfetto.Line.line_number)
        found.append(Frame(function or None, None, file or None, number, 0, inlined=at < len(lines) - 1))
    return tuple(found)


def _descriptor(data: bytes) -> ValueType:
    inner = fields(data, where=WHERE)
    text = {one.number: _text(data, one) for one in inner if one.wire == LENGTH}
    unit = _number(inner, Perfetto.StackSample.CounterDescriptor.unit)
    named = text.get(Perfetto.StackSample.CounterDescriptor.unit_str) or (UNITS[unit] if unit < len(UNITS) else "")
    return ValueType(text.get(Perfetto.StackSample.CounterDescriptor.name, "samples"), named)


def _descriptors(packet: Packet, inner: list[Field], number: int) -> list[ValueType]:
    """What the fields with this number say."""
    return [_descriptor(packet.data[one.value : one.end]) for one in inner if one.number == number]


def _packed(packet: Packet, inner: list[Field], number: int) -> list[int]:
    return [at for one in inner if one.number == number for at in packed(packet.data, one, WHERE)]


def _number(inner: list[Field], number: int) -> int:
    return next((one.value for one in inner if one.number == number and one.wire == VARINT), 0)


def _text(data: bytes, item: Field) -> str:
    return data[item.value : item.end].decode("utf-8", "replace")
