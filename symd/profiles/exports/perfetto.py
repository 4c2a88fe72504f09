"""A Perfetto trace of stack samples: interned call stacks, a frame for each inlined call, and every value type as a
counter.

Call stacks stand outermost first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeVar

from symd.model.answers import Frame
from symd.profiles.profile_format import Exported, ExportNumbering, ProfileBudget, rounding_notes, whole
from symd.profiles.protobuf_wire import length_field, number_field, packed_field, text_field
from symd.profiles.samples import Sample, SampledProfile, Task, ValueType, shown_frames, shown_name
from symd.profiles.schemas import Perfetto

NAME = "perfetto"
Cell = TypeVar("Cell")
_Packet, _Interned = Perfetto.TracePacket, Perfetto.InternedData
STATE_CLEARED = Perfetto.SequenceFlags.incremental_state_cleared
NEEDS_STATE = Perfetto.SequenceFlags.needs_incremental_state
UNITS = {"nanoseconds": 1, "ns": 1, "cycles": 2, "instructions": 3, "bytes": 4, "count": 9}
"""StackSample.Unit."""
MICROSECOND = 1000


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """Every value type: the one that is shown first is the primary counter, the others follow it. Samples without a
    time are spaced 1 µs apart, in the order of the profile."""
    times = [sample.time for sample in profile.samples if sample.time is not None]
    timed = bool(times) and len(times) == len(profile.samples)
    writer = _Writer(profile, spending)
    pieces = [writer.head(), *map(_process, profile.tasks)]
    for at, sample in enumerate(profile.samples):
        time = sample.time if timed and sample.time is not None else at * MICROSECOND
        pieces.append(_packet(writer.sample(sample), max(0, time)))
        spending.written(len(pieces[-1]))
    notes = list(rounding_notes(profile))
    if not timed:
        notes.append("the profile has no times: samples are spaced 1 µs apart in file order")
    if any(sample.labels for sample in profile.samples):
        notes.append("labels of samples have no place in a Perfetto stack sample")
    if any(value < 0 for sample in profile.samples for value in sample.values):
        notes.append("values below 0 are written as 0")
    return Exported(b"".join(pieces), tuple(notes))


def _packet(content: bytes, time: int, flags: int = NEEDS_STATE) -> bytes:
    head = _always(_Packet.timestamp, time) + number_field(_Packet.trusted_packet_sequence_id, 1)
    return length_field(Perfetto.Trace.packet, head + number_field(_Packet.sequence_flags, flags) + content)


def _process(task: Task) -> bytes:
    """A packet that names a process; b"" where nothing is known."""
    if not (task.process and task.name):
        return b""
    named = text_field(Perfetto.ProcessDescriptor.process_name, task.name)
    described = number_field(Perfetto.ProcessDescriptor.pid, task.process) + named
    return _packet(length_field(_Packet.process_descriptor, described), 0)


def _descriptor(kind: ValueType) -> bytes:
    unit = UNITS.get(kind.unit.lower())
    counter = Perfetto.StackSample.CounterDescriptor
    said = number_field(counter.unit, unit) if unit else text_field(counter.unit_str, kind.unit)
    return text_field(counter.name, kind.name or "samples") + said


class _Writer:
    """Numbers for everything that is interned begin at 1; what is new goes with the packet that needs it first."""

    def __init__(self, profile: SampledProfile, spending: ProfileBudget) -> None:
        self._profile = profile
        self._spending = spending
        self._tables: dict[int, ExportNumbering] = defaultdict(ExportNumbering)
        self._new: list[bytes] = []
        self._frames: dict[int, tuple[int, ...]] = {}

    def head(self) -> bytes:
        """The first packet: what the counters are called."""
        first, *others = map(_descriptor, self._primary_first(self._profile.value_types))
        own = Perfetto.StackSampleDefaults
        defaults = text_field(own.source, "symd") + length_field(own.primary_descriptor, first)
        defaults += b"".join(length_field(own.follower_descriptors, one) for one in others)
        packed_defaults = length_field(Perfetto.TracePacketDefaults.stack_sample_defaults, defaults)
        return _packet(length_field(_Packet.trace_packet_defaults, packed_defaults), 0, STATE_CLEARED)

    def _primary_first(self, values: Sequence[Cell]) -> Iterator[Cell]:
        """One of each value type, in the order of the counters."""
        yield values[self._profile.default]
        yield from (value for at, value in enumerate(values) if at != self._profile.default)

    def sample(self, sample: Sample) -> bytes:
        """The content of a sample's packet, with what it interns."""
        self._new = []
        frames = tuple(frame for number in reversed(sample.stack) for frame in self._address(number))
        task = self._profile.tasks[sample.task]
        own = Perfetto.StackSample
        context = number_field(own.TaskContext.pid, task.process) + number_field(own.TaskContext.tid, task.thread)
        written = [length_field(own.task_context, context)] if context else []
        if frames:
            stack = self._interned(_Interned.callstacks, frames, _frame_ids(frames))
            written.append(number_field(own.callstack_iid, stack))
        first, *others = (max(0, whole(value)) for value in self._primary_first(sample.values))
        written.append(number_field(own.primary_weight, first))
        written.append(packed_field(own.follower_weights, others))
        interned = length_field(_Packet.interned_data, b"".join(self._new)) if self._new else b""
        return interned + length_field(_Packet.stack_sample, b"".join(written))

    def _interned(self, table: int, key: object, content: bytes) -> int:
        """The number of an entry; its message is that as ``iid``, and ``content``."""
        numbers = self._tables[table]
        before = len(numbers)
        number = numbers.number(key) + 1
        if len(numbers) > before:
            self._spending.written(len(content))
            self._new.append(length_field(table, number_field(Perfetto.InternedString.iid, number) + content))
        return number

    def _string(self, table: int, data: bytes) -> int:
        return self._interned(table, data, length_field(Perfetto.InternedString.str, data))

    def _address(self, number: int) -> tuple[int, ...]:
        """The numbers of the frames of an address, outermost first."""
        if number not in self._frames:
            frames = reversed(shown_frames(self._profile.addresses[number]))
            self._frames[number] = tuple(self._frame(number, frame) for frame in frames)
        return self._frames[number]

    def _frame(self, number: int, frame: Frame) -> int:
        """A frame with a name; where the address has no frames also its mapping, so that symbols can be added later."""
        address = self._profile.addresses[number]
        name = self._string(_Interned.function_names, shown_name(frame).encode("utf-8", "backslashreplace"))
        content = number_field(Perfetto.Frame.function_name_id, name)
        if not address.frames and address.module is not None and address.address is not None:
            mapping = self._mapping(address.module)
            module = self._profile.modules[address.module]
            place = max(0, address.address - module.start + module.offset)
            content += number_field(Perfetto.Frame.mapping_id, mapping) + _always(Perfetto.Frame.rel_pc, place)
        if frame.file:
            source = self._string(_Interned.source_paths, frame.file.encode("utf-8", "backslashreplace"))
            content += number_field(Perfetto.Frame.source_path_iid, source)
            content += number_field(Perfetto.Frame.line_number, min(max(0, frame.line), 0xFFFFFFFF))
        return self._interned(_Interned.frames, content, content)

    def _mapping(self, number: int) -> int:
        module = self._profile.modules[number]
        build_id = self._string(_Interned.build_ids, build_id_bytes(module.build_id)) if module.build_id else 0
        path = [
            self._string(_Interned.mapping_paths, part.encode("utf-8", "backslashreplace"))
            for part in module.name.split("/")
            if part
        ]
        own = Perfetto.Mapping
        content = number_field(own.build_id, build_id) + number_field(own.start_offset, module.offset)
        content += number_field(own.start, module.start) + number_field(own.end, module.limit)
        content += b"".join(number_field(own.path_string_ids, part) for part in path)
        content += number_field(own.exact_offset, module.offset)
        return self._interned(_Interned.mappings, number, content)


def build_id_bytes(build_id: str) -> bytes:
    """The bytes that hexadecimal digits stand for, as Perfetto keeps build ids; those of the text where it is no
    such."""
    try:
        return bytes.fromhex(build_id)
    except ValueError:
        return build_id.encode("utf-8", "backslashreplace")


def _frame_ids(frames: tuple[int, ...]) -> bytes:
    return b"".join(number_field(Perfetto.Callstack.frame_ids, frame) for frame in frames)


def _always(number: int, value: int) -> bytes:
    """A varint field that is written for 0 too: proto2 tells apart what is absent."""
    return number_field(number, value) or bytes([number << 3, 0])
