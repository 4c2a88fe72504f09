"""Samples of a Perfetto trace: stack samples with their counters, and samples of perf."""

from __future__ import annotations

from symd.model.answers import Frame
from symd.profiles.perfetto import module_symbols
from symd.profiles.perfetto_trace import Packet, TracedFrame, TracedMapping, each_packet
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.protobuf_wire import LENGTH, VARINT, Field, fields, packed
from symd.profiles.sampled.places import place_in_file
from symd.profiles.samples import AddressTable, Sample, SampledAddress, SampledModule, SampledProfile, Task, ValueType
from symd.profiles.schemas import perfetto as schema

WHERE = "the Perfetto trace"


DESCRIPTORS = schema.InternedData.stack_sample_counter_descriptors
READ = frozenset(
    {
        schema.TracePacket.trace_packet_defaults,
        schema.TracePacket.module_symbols,
        schema.TracePacket.perf_sample,
        schema.TracePacket.stack_sample,
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


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
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
        """Symbols stand at the end of a trace, so they are read first."""
        for packet in self._packets:
            for key, addresses in module_symbols(packet):
                known = self._symbols.setdefault(key, {})
                known.update({at: _symbol_frames(content) for at, content in addresses.items()})
        for packet in self._packets:
            self._read_defaults(packet)
            for item in packet.messages(schema.TracePacket.stack_sample):
                self._stack_sample(packet, item)
            for item in packet.messages(schema.TracePacket.perf_sample):
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
        for item in packet.messages(schema.TracePacket.trace_packet_defaults):
            for one in self._inside(packet, item):
                if one.number == schema.TracePacketDefaults.stack_sample_defaults and one.wire == LENGTH:
                    inner = self._inside(packet, one)
                    primary = _descriptors(packet, inner, schema.StackSampleDefaults.primary_descriptor)
                    others = _descriptors(packet, inner, schema.StackSampleDefaults.follower_descriptors)
                    self._defaults[packet.sequence] = (primary[0] if primary else None, others)

    def _stack_sample(self, packet: Packet, item: Field) -> None:
        inner = self._inside(packet, item)
        content = {one.number: packet.data[one.value : one.end] for one in inner if one.wire == LENGTH}
        numbers = {one.number: one.value for one in inner if one.wire == VARINT}
        context = content.get(schema.StackSample.task_context, b"")
        task = {one.number: one.value for one in fields(context) if one.wire == VARINT}
        primary, followers = self._counters(packet, inner, content, numbers)
        row: dict[int, int] = {}
        weights = _packed(packet, inner, schema.StackSample.follower_weights)
        weight = numbers.get(schema.StackSample.primary_weight, 1 if not weights else 0)
        counted = [(primary, weight), *zip(followers, weights, strict=False)]
        for kind, weight in counted:
            column = self._columns.setdefault(kind, len(self._columns))
            row[column] = row.get(column, 0) + weight
        inline = content.get(schema.StackSample.callstack)
        interned = numbers.get(schema.StackSample.callstack_iid, 0)
        stack = self._interned(packet, interned) if inline is None else self._inline(inline)
        self._add(
            packet,
            stack,
            row,
            Task(task.get(schema.StackSample.TaskContext.pid, 0), task.get(schema.StackSample.TaskContext.tid, 0)),
        )

    def _counters(
        self, packet: Packet, inner: list[Field], content: dict[int, bytes], numbers: dict[int, int]
    ) -> tuple[ValueType, list[ValueType]]:
        """Inline, interned, or the sequence's defaults."""
        primary, followers = self._defaults.get(packet.sequence, (None, []))
        if (own := content.get(schema.StackSample.primary_descriptor)) is not None:
            primary = _descriptor(own)
        elif (number := numbers.get(schema.StackSample.primary_descriptor_iid)) is not None:
            primary = _descriptor(packet.tables.entry(DESCRIPTORS, number))
        inline = _descriptors(packet, inner, schema.StackSample.follower_descriptors)
        named = _packed(packet, inner, schema.StackSample.follower_descriptor_iids)
        interned = [_descriptor(packet.tables.entry(DESCRIPTORS, at)) for at in named]
        return primary or PERF, inline or interned or followers

    def _perf_sample(self, packet: Packet, item: Field) -> None:
        numbers = {one.number: one.value for one in self._inside(packet, item) if one.wire == VARINT}
        stack = numbers.get(schema.PerfSample.callstack_iid)
        if stack is not None:
            column = self._columns.setdefault(PERF, len(self._columns))
            task = Task(numbers.get(schema.PerfSample.pid, 0), numbers.get(schema.PerfSample.tid, 0))
            self._add(packet, self._interned(packet, stack), {column: 1}, task)

    def _add(self, packet: Packet, stack: list[int], row: dict[int, int], task: Task) -> None:
        number = self._tasks.setdefault(task, len(self._tasks))
        self._spending.read()
        self._rows.append(
            (Sample(tuple(reversed(stack)), (), packet.number(schema.TracePacket.timestamp), number), row)
        )

    def _inline(self, data: bytes) -> list[int]:
        """Frames that the sample itself has, outermost first."""
        found = []
        for item in fields(data, where=WHERE, spending=self._spending):
            is_frame = item.number == schema.InlineCallstack.frames and item.wire == LENGTH
            inner = fields(data, item.value, item.end, WHERE) if is_frame else []
            text = {one.number: _text(data, one) for one in inner if one.wire == LENGTH}
            line = _number(inner, schema.InlineCallstack.Frame.line_number)
            function, file = (
                text.get(schema.InlineCallstack.Frame.function_name, ""),
                text.get(schema.InlineCallstack.Frame.source_file),
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
        one for one in fields(content, where=WHERE) if one.number == schema.AddressSymbols.lines and one.wire == LENGTH
    ]
    found = []
    for at, line in enumerate(lines):
        inner = fields(content, line.value, line.end, WHERE)
        text = {one.number: _text(content, one) for one in inner if one.wire == LENGTH}
        function, file = text.get(schema.Line.function_name), text.get(schema.Line.source_file_name)
        number = _number(inner, schema.Line.line_number)
        found.append(Frame(function or None, None, file or None, number, 0, inlined=at < len(lines) - 1))
    return tuple(found)


def _descriptor(data: bytes) -> ValueType:
    inner = fields(data, where=WHERE)
    text = {one.number: _text(data, one) for one in inner if one.wire == LENGTH}
    unit = _number(inner, schema.StackSample.CounterDescriptor.unit)
    named = text.get(schema.StackSample.CounterDescriptor.unit_str) or (UNITS[unit] if unit < len(UNITS) else "")
    return ValueType(text.get(schema.StackSample.CounterDescriptor.name, "samples"), named)


def _descriptors(packet: Packet, inner: list[Field], number: int) -> list[ValueType]:
    """What the fields with this number say."""
    return [_descriptor(packet.data[one.value : one.end]) for one in inner if one.number == number]


def _packed(packet: Packet, inner: list[Field], number: int) -> list[int]:
    return [at for one in inner if one.number == number for at in packed(packet.data, one, WHERE)]


def _number(inner: list[Field], number: int) -> int:
    return next((one.value for one in inner if one.number == number and one.wire == VARINT), 0)


def _text(data: bytes, item: Field) -> str:
    return data[item.value : item.end].decode("utf-8", "replace")
