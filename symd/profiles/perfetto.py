"""Perfetto traces: the symbols of frames are appended as ModuleSymbols packets, as Perfetto's own symbolizer does;
nothing else changes. Samples are read from stack samples with their counters, and from samples of perf. A profile is
written as stack samples: interned call stacks, outermost first, a frame for each inlined call, and every value type as
a counter.

Source: google/perfetto, docs/learning-more/symbolization.md, at ec5d16b1. A build id is bytes, not digits; lines are
innermost first. The address is a frame's rel_pc, which is an address of the file as its program headers say: its
mapping's load_bias is p_vaddr - p_offset there. A mapping has no kind: that of a GPU's module looks like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TypeVar

from symd.errors import SymdError
from symd.model.answers import Frame
from symd.profiles.addresses import AddressBatch, AddressOrigin, AddressOrigins, MappedRange, ResolvedAddress
from symd.profiles.perfetto_trace import (
    PACKET,
    Counter,
    Packet,
    TracedFrame,
    TracedMapping,
    each_packet,
    text_of,
)
from symd.profiles.profile_format import Exported, Options, ProfileBudget, Symbolized, Tally, rounding_notes, whole
from symd.profiles.protobuf import LENGTH, each_field, encodable
from symd.profiles.resolver import Resolver
from symd.profiles.samples import (
    ADDRESSES,
    AddressTable,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    Task,
    ValueType,
    place_in_file,
    shown_frames,
    shown_name,
)
from symd.v1 import perfetto_pb2

NAME = "perfetto"
CLAIM_PACKETS = 16
"""Packets that are looked at to recognize the format."""
OF_A_PACKET = frozenset({6, 8, 10, 13, 33, 35, 41, 50, 87, 133})
"""Fields of TracePacket that every trace has some of, and no message that other profiles begin with: clock_snapshot,
timestamp, trusted_packet_sequence_id, sequence_flags, trace_config, trace_stats, incremental_state_cleared,
compressed_packets, first_packet_on_sequence, zstd_compressed_packets."""
_Key = tuple[str, bytes]


def claims(data: bytes) -> bool:
    """Packets and nothing else at the beginning, of which one has a field that is a packet's."""
    try:
        first = list(islice(each_field(data), CLAIM_PACKETS))
        numbers = {one.number for item in first for one in each_field(item.content)}
    except SymdError:
        return False
    return all(item.number == PACKET and item.wire == LENGTH for item in first) and bool(numbers & OF_A_PACKET)


def _key(symbols: perfetto_pb2.ModuleSymbols) -> _Key:
    """What the symbols of a module go with: a mapping's path and build id."""
    return text_of(symbols.path), symbols.build_id


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Append the symbols of frames that have a mapping and no symbols yet. A module is known by its build id, in
    hexadecimal digits or as the text that it is, or by the path of the mapping."""
    spending = ProfileBudget(options, len(data))
    wanted: dict[TracedMapping, dict[int, None]] = {}
    known: dict[_Key, set[int]] = {}
    for packet in each_packet(data, spending):
        symbols = packet.message.module_symbols
        if symbols.address_symbols:
            spending.read(len(symbols.address_symbols))
            known.setdefault(_key(symbols), set()).update(one.address for one in symbols.address_symbols)
        for number in packet.tables.new_frames():
            frame = packet.tables.frame(number)
            if frame.mapping is not None and frame.rel_pc is not None:
                wanted.setdefault(frame.mapping, {})[frame.rel_pc] = None
    origins = AddressOrigins(resolver, options.limits, _origin)
    batch = AddressBatch()
    tally = Tally()
    asked: dict[_Key, dict[int, int]] = {}
    for mapping, places in wanted.items():
        there = known.get((mapping.path, mapping.build_id), set())
        tally.already += len(there & places.keys())
        target = origins.target(mapping)
        handles = asked.setdefault((mapping.path, mapping.build_id), {})
        for place in places:
            if place not in there:
                handles[place] = batch.add(target, place - mapping.load_bias)  # rel_pc counts it in
    added = _symbols(asked, batch.ask(resolver, options.progress), tally, spending)
    report = tally.report(NAME, "frames", tuple(origins.notes))
    return Symbolized(data + added.SerializeToString() if added.packet else data, report)


def _origin(mapping: TracedMapping) -> AddressOrigin:
    """The file's own offsets: the segment that holds the mapping's offset says what the load bias ought to be."""
    build_id, *names = identities(mapping) if mapping.build_id else ("", *identities(mapping))
    ranged = MappedRange(mapping.exact_offset, 0, mapping.exact_offset)
    return AddressOrigin(tuple(names), build_id, ranged, called="a mapping without path and build id")


def _symbols(
    asked: dict[_Key, dict[int, int]], answers: list[ResolvedAddress], tally: Tally, spending: ProfileBudget
) -> perfetto_pb2.Trace:
    """A packet for each module that has symbols now; ``asked`` are the handles of its addresses."""
    trace = perfetto_pb2.Trace()
    for (path, build_id), handles in asked.items():
        symbols = perfetto_pb2.ModuleSymbols(path=encodable(path).encode(), build_id=build_id)
        for address, handle in handles.items():
            answer = answers[handle]
            tally.count(answer.reason, resolved=bool(answer.frames))
            if answer.frames:
                added = symbols.address_symbols.add(address=address)
                for frame in answer.frames:
                    _add_line(added, frame)
                spending.written(added.ByteSize())
        if symbols.address_symbols:
            trace.packet.add(module_symbols=symbols)
    return trace


def identities(mapping: TracedMapping) -> list[str]:
    """What users call the module of a mapping: the digits of its build id, the text that the bytes are, its path."""
    names = [mapping.build_id.hex()] if mapping.build_id else []
    text = mapping.build_id.decode("ascii", "replace")
    names += [text] if text and text.isprintable() and "\ufffd" not in text else []
    return [*names, *([mapping.path] if mapping.path else [])]


def _add_line(symbols: perfetto_pb2.AddressSymbols, frame: Frame) -> None:
    symbols.lines.add(
        function_name=encodable(shown_name(frame)).encode(),
        source_file_name=encodable(frame.file).encode(),
        line_number=frame.line if frame.file else 0,
    )


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
UNIT_NUMBERS = {"ns": 1} | {UNITS[number]: number for number in (1, 2, 3, 4, 9)}
PERF = ValueType("samples", "count")
_READ = frozenset({"trace_packet_defaults", "module_symbols", "perf_sample", "stack_sample"})
"""The fields of packets that are looked into for samples."""


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """Every stack sample and every sample of perf. Raises Malformed and LimitExceeded."""
    return _Reader(data, spending).profile()


class _Reader:
    def __init__(self, data: bytes, spending: ProfileBudget) -> None:
        self._spending = spending
        self._kept = [
            (one.message.SerializeToString(), one.tables)  # a message takes ten times as much as its bytes
            for one in each_packet(data, spending)
            if _READ & {at.name for at, _ in one.message.ListFields()}
        ]
        self._symbols: dict[_Key, dict[int, tuple[Frame, ...]]] = {}
        self._found = SampledProfile((), tasks=[])
        self._addresses = AddressTable(self._found.addresses)
        self._columns: dict[ValueType, int] = {}
        self._tasks: dict[Task, int] = {}
        self._modules: dict[TracedMapping, int] = {}
        self._defaults: dict[int, perfetto_pb2.StackSampleDefaults] = {}
        self._rows: list[tuple[Sample, dict[int, int]]] = []

    def profile(self) -> SampledProfile:
        """Symbols are at the end of a trace, so they are read first."""
        for packet in self._packets():
            self._read_symbols(packet.message.module_symbols)
        for packet in self._packets():
            message = packet.message
            if message.HasField("trace_packet_defaults"):
                defaults = message.trace_packet_defaults.stack_sample_defaults
                self._defaults[message.trusted_packet_sequence_id] = defaults
            if message.HasField("stack_sample"):
                self._stack_sample(packet, message.stack_sample)
            if message.perf_sample.HasField("callstack_iid"):
                self._perf_sample(packet, message.perf_sample)
        found = self._found
        found.value_types = tuple(self._columns) or (PERF,)
        width = range(len(found.value_types))
        self._spending.read_table(len(self._rows), len(width))
        found.samples = [one._replace(values=tuple(row.get(at, 0) for at in width)) for one, row in self._rows]
        if not self._rows:
            found.notes.append("heap profiles and the streaming profiles of Chrome are not read")
        found.tasks = list(self._tasks) or [Task()]
        return found

    def _packets(self) -> Iterator[Packet]:
        for content, tables in self._kept:
            yield Packet(perfetto_pb2.TracePacket.FromString(content), tables)

    def _read_symbols(self, symbols: perfetto_pb2.ModuleSymbols) -> None:
        for one in symbols.address_symbols:
            self._spending.read(1 + len(one.lines))
            last = len(one.lines) - 1
            self._symbols.setdefault(_key(symbols), {})[one.address] = tuple(
                _frame(line.function_name, line.source_file_name, line.line_number, inlined=at < last)
                for at, line in enumerate(one.lines)
            )

    def _stack_sample(self, packet: Packet, sample: perfetto_pb2.StackSample) -> None:
        primary, followers = self._counters(packet, sample)
        weights = sample.follower_weights
        weight = sample.primary_weight if sample.HasField("primary_weight") else int(not weights)
        row: dict[int, int] = {}
        for kind, value in [(primary, weight), *zip(followers, weights, strict=False)]:
            column = self._columns.setdefault(_value_type(kind), len(self._columns))
            row[column] = row.get(column, 0) + value
        is_inline = sample.HasField("callstack")
        stack = self._inline(sample.callstack) if is_inline else self._interned(packet, sample.callstack_iid)
        self._add(packet, stack, row, Task(sample.task_context.pid, sample.task_context.tid))

    def _counters(self, packet: Packet, sample: perfetto_pb2.StackSample) -> tuple[Counter | None, list[Counter]]:
        """Inline, interned, or the sequence's defaults; None is a sample of perf."""
        defaults = self._defaults.get(packet.message.trusted_packet_sequence_id)
        primary = defaults.primary_descriptor if defaults and defaults.HasField("primary_descriptor") else None
        if sample.HasField("primary_descriptor"):
            primary = sample.primary_descriptor
        elif sample.HasField("primary_descriptor_iid"):
            primary = packet.tables.counter(sample.primary_descriptor_iid)
        interned = [packet.tables.counter(number) for number in sample.follower_descriptor_iids]
        inherited = list(defaults.follower_descriptors) if defaults else []
        return primary, list(sample.follower_descriptors) or interned or inherited

    def _perf_sample(self, packet: Packet, sample: perfetto_pb2.PerfSample) -> None:
        column = self._columns.setdefault(PERF, len(self._columns))
        self._add(packet, self._interned(packet, sample.callstack_iid), {column: 1}, Task(sample.pid, sample.tid))

    def _add(self, packet: Packet, stack: list[int], row: dict[int, int], task: Task) -> None:
        number = self._tasks.setdefault(task, len(self._tasks))
        self._spending.read()
        time = packet.message.timestamp if packet.message.HasField("timestamp") else None
        self._rows.append((Sample(tuple(reversed(stack)), (), time, number), row))

    def _inline(self, stack: perfetto_pb2.InlineCallstack) -> list[int]:
        """Frames that the sample itself has, outermost first."""
        self._spending.read(len(stack.frames))
        frames = (_frame(one.function_name, one.source_file, one.line_number, inlined=False) for one in stack.frames)
        return [self._addresses.number(SampledAddress(one.function or "", (one,))) for one in frames]

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


def _frame(function: bytes, file: bytes, line: int, *, inlined: bool) -> Frame:
    return Frame(text_of(function) or None, None, text_of(file) or None, line, 0, inlined=inlined)


def _value_type(counter: Counter | None) -> ValueType:
    if counter is None:
        return PERF
    unit = UNITS[counter.unit] if counter.unit < len(UNITS) else ""
    return ValueType(
        text_of(counter.name) if counter.HasField("name") else "samples", text_of(counter.unit_str) or unit
    )


Cell = TypeVar("Cell")
MICROSECOND = 1000


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """Every value type: the one that is shown first is the primary counter, the others follow it. Samples without a
    time are spaced 1 µs apart, in the order of the profile."""
    times = [sample.time for sample in profile.samples if sample.time is not None]
    timed = bool(times) and len(times) == len(profile.samples)
    writer = _Writer(profile)
    pieces = [writer.head()]
    for at, sample in enumerate(profile.samples):
        time = sample.time if timed and sample.time is not None else at * MICROSECOND
        pieces.append(writer.packet(sample, time))
        spending.written(len(pieces[-1]))
    notes = list(rounding_notes(profile))
    if not timed:
        notes.append("the profile has no times: samples are spaced 1 µs apart in file order")
    if any(sample.labels for sample in profile.samples):
        notes.append("labels of samples have no place in a Perfetto stack sample")
    if any(value < 0 for sample in profile.samples for value in sample.values):
        notes.append("values below 0 are written as 0")
    return Exported(b"".join(pieces), tuple(notes))


def _counter(kind: ValueType) -> Counter:
    unit = UNIT_NUMBERS.get(kind.unit.lower(), 0)
    return Counter(name=_text(kind.name or "samples"), unit=unit, unit_str=b"" if unit else _text(kind.unit))


class _Writer:
    """Numbers for everything that is interned begin at 1; what is new goes with the packet that needs it first."""

    def __init__(self, profile: SampledProfile) -> None:
        self._profile = profile
        self._numbers: dict[str, dict[object, int]] = {}
        self._new = perfetto_pb2.InternedData()
        self._frames: dict[int, tuple[int, ...]] = {}

    def head(self) -> bytes:
        """The first packets: what the counters are called, and the processes whose names are known."""
        trace = perfetto_pb2.Trace()
        head = _add_packet(trace, 0, perfetto_pb2.SEQ_INCREMENTAL_STATE_CLEARED)
        primary, *followers = map(_counter, self._primary_first(self._profile.value_types))
        defaults = head.trace_packet_defaults.stack_sample_defaults
        defaults.MergeFrom(
            perfetto_pb2.StackSampleDefaults(source=b"symd", primary_descriptor=primary, follower_descriptors=followers)
        )
        for task in self._profile.tasks:
            if task.process and task.name:
                described = _add_packet(trace, 0).process_descriptor
                described.pid, described.process_name = task.process, _text(task.name)
        return trace.SerializeToString()

    def _primary_first(self, values: Sequence[Cell]) -> Iterator[Cell]:
        """One of each value type, in the order of the counters."""
        yield values[self._profile.default]
        yield from (value for at, value in enumerate(values) if at != self._profile.default)

    def packet(self, sample: Sample, time: int) -> bytes:
        """A packet of a sample, with what it interns."""
        frames = tuple(frame for number in reversed(sample.stack) for frame in self._address(number))
        task = self._profile.tasks[sample.task]
        primary, *followers = (max(0, whole(value)) for value in self._primary_first(sample.values))
        trace = perfetto_pb2.Trace()
        packet = _add_packet(trace, time)
        written = packet.stack_sample
        written.primary_weight = primary
        written.follower_weights.extend(followers)
        if task.process or task.thread:
            written.task_context.pid, written.task_context.tid = task.process, task.thread & 0xFFFFFFFF
        if frames:
            written.callstack_iid, is_new = self._number("callstacks", frames)
            if is_new:
                self._new.callstacks.add(iid=written.callstack_iid, frame_ids=frames)
        if self._new.ByteSize():
            packet.interned_data.CopyFrom(self._new)
            self._new = perfetto_pb2.InternedData()
        return trace.SerializeToString()

    def _number(self, table: str, key: object) -> tuple[int, bool]:
        """The number of an entry, and whether it is new."""
        numbers = self._numbers.setdefault(table, {})
        is_new = key not in numbers
        return numbers.setdefault(key, len(numbers) + 1), is_new

    def _string(self, table: str, data: bytes) -> int:
        number, is_new = self._number(table, data)
        if is_new:
            getattr(self._new, table).add(iid=number, str=data)
        return number

    def _address(self, number: int) -> tuple[int, ...]:
        """The numbers of the frames of an address, outermost first."""
        if number not in self._frames:
            frames = reversed(shown_frames(self._profile.addresses[number]))
            self._frames[number] = tuple(self._frame(number, frame) for frame in frames)
        return self._frames[number]

    def _frame(self, number: int, frame: Frame) -> int:
        """A frame with a name; where the address has no frames also its mapping, so that symbols can be added later."""
        address = self._profile.addresses[number]
        written = perfetto_pb2.Frame(function_name_id=self._string("function_names", _text(shown_name(frame))))
        if not address.frames and address.module is not None and address.address is not None:
            module = self._profile.modules[address.module]
            written.mapping_id = self._mapping(address.module)
            written.rel_pc = max(0, min(address.address - module.start + module.offset, ADDRESSES - 1))
        if frame.file:
            written.source_path_iid = self._string("source_paths", _text(frame.file))
            written.line_number = min(max(0, frame.line), 0xFFFFFFFF)
        written.iid, is_new = self._number("frames", written.SerializeToString())
        if is_new:
            self._new.frames.append(written)
        return written.iid

    def _mapping(self, number: int) -> int:
        module = self._profile.modules[number]
        iid, is_new = self._number("mappings", number)
        if is_new:
            self._new.mappings.add(
                iid=iid,
                build_id=self._string("build_ids", build_id_bytes(module.build_id)) if module.build_id else 0,
                start_offset=module.offset,
                start=module.start,
                end=min(module.limit, ADDRESSES - 1),
                path_string_ids=[self._string("mapping_paths", _text(part)) for part in module.name.split("/") if part],
                exact_offset=module.offset,
            )
        return iid


def _add_packet(
    trace: perfetto_pb2.Trace, time: int, flags: int = perfetto_pb2.SEQ_NEEDS_INCREMENTAL_STATE
) -> perfetto_pb2.TracePacket:
    time = max(0, min(time, ADDRESSES - 1))
    return trace.packet.add(timestamp=time, trusted_packet_sequence_id=1, sequence_flags=flags)


def _text(text: str) -> bytes:
    return encodable(text).encode()


def build_id_bytes(build_id: str) -> bytes:
    """The bytes that hexadecimal digits stand for, as Perfetto keeps build ids; those of the text where it is no
    such."""
    try:
        return bytes.fromhex(build_id)
    except ValueError:
        return _text(build_id)
