"""Samples of a Perfetto trace: stack samples with their counters, and samples of perf.

Source: google/perfetto, protos/perfetto/trace/profiling/stack_sample.proto and profile_packet.proto, at ec5d16b1. TracePacket: timestamp 8,
trace_packet_defaults 59 {stack_sample_defaults 100 {primary_descriptor 2, follower_descriptors 3}}, perf_sample 66, stack_sample 135.
StackSample: task_context 1 {pid 2, tid 3}, callstack 5 {frames 1 {function_name 1, source_file 2, line_number 3}}, callstack_iid 6,
primary_descriptor 9, primary_descriptor_iid 10, primary_weight 11, follower_descriptors 12, follower_descriptor_iids 13, follower_weights 14;
CounterDescriptor: name 2, unit 3, unit_str 4, interned in field 50. PerfSample: pid 2, tid 3, callstack_iid 4."""

from __future__ import annotations

from symd.model.answers import Frame
from symd.profiles.perfetto import MODULE_SYMBOLS, module_symbols
from symd.profiles.perfetto_trace import Packet, TracedFrame, TracedMapping, each_packet
from symd.profiles.protobuf_wire import LENGTH, VARINT, Field, fields, packed
from symd.profiles.sampled.places import place_in_file
from symd.profiles.samples import AddressTable, Sample, SampledAddress, SampledModule, SampledProfile, Task, ValueType
from symd.profiles.spending import Spending

WHERE = "the Perfetto trace"
TIMESTAMP, DEFAULTS, PERF_SAMPLE, STACK_SAMPLE, DESCRIPTORS = 8, 59, 66, 135, 50
READ = frozenset({DEFAULTS, MODULE_SYMBOLS, PERF_SAMPLE, STACK_SAMPLE})
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


def read(data: bytes, spending: Spending) -> SampledProfile:
    """Every stack sample and every sample of perf. Raises Malformed and LimitExceeded."""
    return _Reader(data, spending).profile()


class _Reader:
    def __init__(self, data: bytes, spending: Spending) -> None:
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
            for item in packet.messages(STACK_SAMPLE):
                self._stack_sample(packet, item)
            for item in packet.messages(PERF_SAMPLE):
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
        for item in packet.messages(DEFAULTS):
            for one in self._inside(packet, item):
                if one.number == 100 and one.wire == LENGTH:
                    inner = self._inside(packet, one)
                    primary = [_descriptor(packet.data[at.value : at.end]) for at in inner if at.number == 2]
                    others = [_descriptor(packet.data[at.value : at.end]) for at in inner if at.number == 3]
                    self._defaults[packet.sequence] = (primary[0] if primary else None, others)

    def _stack_sample(self, packet: Packet, item: Field) -> None:
        inner = self._inside(packet, item)
        content = {one.number: packet.data[one.value : one.end] for one in inner if one.wire == LENGTH}
        numbers = {one.number: one.value for one in inner if one.wire == VARINT}
        task = {one.number: one.value for one in fields(content.get(1, b"")) if one.wire == VARINT}
        primary, followers = self._counters(packet, inner, content, numbers)
        row: dict[int, int] = {}
        weights = [at for one in inner if one.number == 14 for at in packed(packet.data, one, WHERE)]
        counted = [(primary, numbers.get(11, 1 if not weights else 0)), *zip(followers, weights, strict=False)]
        for kind, weight in counted:
            column = self._columns.setdefault(kind, len(self._columns))
            row[column] = row.get(column, 0) + weight
        stack = self._inline(content[5]) if 5 in content else self._interned(packet, numbers.get(6, 0))
        self._add(packet, stack, row, Task(task.get(2, 0), task.get(3, 0)))

    def _counters(
        self, packet: Packet, inner: list[Field], content: dict[int, bytes], numbers: dict[int, int]
    ) -> tuple[ValueType, list[ValueType]]:
        """Inline, interned, or the sequence's defaults."""
        primary, followers = self._defaults.get(packet.sequence, (None, []))
        if 9 in content:
            primary = _descriptor(content[9])
        elif 10 in numbers:
            primary = _descriptor(packet.tables.entry(DESCRIPTORS, numbers[10]))
        inline = [_descriptor(packet.data[one.value : one.end]) for one in inner if one.number == 12]
        named = [at for one in inner if one.number == 13 for at in packed(packet.data, one, WHERE)]
        interned = [_descriptor(packet.tables.entry(DESCRIPTORS, at)) for at in named]
        return primary or PERF, inline or interned or followers

    def _perf_sample(self, packet: Packet, item: Field) -> None:
        numbers = {one.number: one.value for one in self._inside(packet, item) if one.wire == VARINT}
        if 4 in numbers:
            column = self._columns.setdefault(PERF, len(self._columns))
            task = Task(numbers.get(2, 0), numbers.get(3, 0))
            self._add(packet, self._interned(packet, numbers[4]), {column: 1}, task)

    def _add(self, packet: Packet, stack: list[int], row: dict[int, int], task: Task) -> None:
        number = self._tasks.setdefault(task, len(self._tasks))
        self._spending.read()
        self._rows.append((Sample(tuple(reversed(stack)), (), packet.number(TIMESTAMP), number), row))

    def _inline(self, data: bytes) -> list[int]:
        """Frames that the sample itself has, outermost first."""
        found = []
        for item in fields(data, where=WHERE, spending=self._spending):
            inner = fields(data, item.value, item.end, WHERE) if item.number == 1 and item.wire == LENGTH else []
            text = {one.number: _text(data, one) for one in inner if one.wire == LENGTH}
            line = next((one.value for one in inner if one.number == 3 and one.wire == VARINT), 0)
            frame = Frame(text.get(1) or None, None, text.get(2) or None, line, 0, inlined=False)
            found.append(self._addresses.number(SampledAddress(text.get(1, ""), (frame,))))
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
    lines = [one for one in fields(content, where=WHERE) if one.number == 2 and one.wire == LENGTH]
    found = []
    for at, line in enumerate(lines):
        inner = fields(content, line.value, line.end, WHERE)
        text = {one.number: _text(content, one) for one in inner if one.wire == LENGTH}
        number = next((one.value for one in inner if one.number == 3 and one.wire == VARINT), 0)
        found.append(Frame(text.get(1) or None, None, text.get(2) or None, number, 0, inlined=at < len(lines) - 1))
    return tuple(found)


def _descriptor(data: bytes) -> ValueType:
    inner = fields(data, where=WHERE)
    text = {one.number: _text(data, one) for one in inner if one.wire == LENGTH}
    unit = next((one.value for one in inner if one.number == 3 and one.wire == VARINT), 0)
    return ValueType(text.get(2, "samples"), text.get(4) or (UNITS[unit] if unit < len(UNITS) else ""))


def _text(data: bytes, item: Field) -> str:
    return data[item.value : item.end].decode("utf-8", "replace")
