"""A Perfetto trace of stack samples: interned call stacks, a frame for each inlined call, and every value type as a counter.

Source: google/perfetto, protos/perfetto/trace, as in the Python package perfetto 0.59.1. Trace: packet 1. TracePacket: timestamp 8,
trusted_packet_sequence_id 10, interned_data 12, sequence_flags 13, process_descriptor 43, trace_packet_defaults 59,
stack_sample 135. InternedData: function_names 5, frames 6, callstacks 7, build_ids 16, mapping_paths 17, source_paths 18, mappings 19.
Frame: iid 1, function_name_id 2, mapping_id 3, rel_pc 4, source_path_iid 5, line_number 6. Callstack: iid 1, frame_ids 2, outermost
first. Mapping: iid 1, build_id 2, start_offset 3, start 4, end 5, path_string_ids 7, exact_offset 8. StackSample: task_context 1
{pid 2, tid 3}, callstack_iid 6, primary_weight 11, follower_weights 14. TracePacketDefaults: stack_sample_defaults 100
{source 1, primary_descriptor 2, follower_descriptors 3}. CounterDescriptor: name 2, unit 3, unit_str 4."""

from __future__ import annotations

from symd.model.answers import Frame
from symd.profiles.exports.export import Exported, Numbering, rounding_notes, whole
from symd.profiles.protobuf_wire import length_field, number_field, packed_field, text_field
from symd.profiles.samples import Sample, SampledProfile, Task, ValueType, shown_frames, shown_name
from symd.profiles.spending import Spending

NAME = "perfetto"
PACKET = 1
TIMESTAMP, SEQUENCE, INTERNED, FLAGS, PROCESS, DEFAULTS, STACK_SAMPLE = 8, 10, 12, 13, 43, 59, 135
FUNCTION_NAMES, FRAMES, CALLSTACKS, BUILD_IDS, PATHS, SOURCES, MAPPINGS = 5, 6, 7, 16, 17, 18, 19
STATE_CLEARED, NEEDS_STATE = 1, 2
"""TracePacket.SequenceFlags."""
UNITS = {"nanoseconds": 1, "ns": 1, "cycles": 2, "instructions": 3, "bytes": 4, "count": 9}
"""StackSample.Unit."""
MICROSECOND = 1000


def export(profile: SampledProfile, spending: Spending) -> Exported:
    """Every value type: the first is the primary counter, the others follow it. Samples without a time stand a microsecond
    apart, in the order of the profile."""
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
        notes.append("the profile has no times: samples stand a microsecond apart, in its order")
    if any(sample.labels for sample in profile.samples):
        notes.append("labels of samples have no place in a Perfetto stack sample")
    if any(value < 0 for sample in profile.samples for value in sample.values):
        notes.append("values below 0 are written as 0")
    return Exported(b"".join(pieces), tuple(notes))


def _packet(content: bytes, time: int, flags: int = NEEDS_STATE) -> bytes:
    head = _always(TIMESTAMP, time) + number_field(SEQUENCE, 1) + number_field(FLAGS, flags)
    return length_field(PACKET, head + content)


def _process(task: Task) -> bytes:
    """A packet that names a process; b"" where nothing is known."""
    if not (task.process and task.name):
        return b""
    return _packet(length_field(PROCESS, number_field(1, task.process) + text_field(6, task.name)), 0)


def _descriptor(kind: ValueType) -> bytes:
    unit = UNITS.get(kind.unit.lower())
    return text_field(2, kind.name or "samples") + (number_field(3, unit) if unit else text_field(4, kind.unit))


class _Writer:
    """Numbers for everything that is interned begin at 1; what is new goes with the packet that needs it first."""

    def __init__(self, profile: SampledProfile, spending: Spending) -> None:
        self._profile = profile
        self._spending = spending
        self._tables = {
            number: Numbering() for number in (FUNCTION_NAMES, FRAMES, CALLSTACKS, BUILD_IDS, PATHS, SOURCES, MAPPINGS)
        }
        self._new: list[bytes] = []
        self._frames: dict[int, tuple[int, ...]] = {}

    def head(self) -> bytes:
        """The first packet: what the counters are called."""
        first, *others = map(_descriptor, self._profile.value_types)
        defaults = text_field(1, "symd") + length_field(2, first) + b"".join(length_field(3, one) for one in others)
        return _packet(length_field(DEFAULTS, length_field(100, defaults)), 0, STATE_CLEARED)

    def sample(self, sample: Sample) -> bytes:
        """The content of a sample's packet, with what it interns."""
        self._new = []
        frames = tuple(frame for number in reversed(sample.stack) for frame in self._address(number))
        task = self._profile.tasks[sample.task]
        context = number_field(2, task.process) + number_field(3, task.thread)
        written = [length_field(1, context)] if context else []
        if frames:
            written.append(number_field(6, self._interned(CALLSTACKS, frames, _frame_ids(frames))))
        first, *others = (max(0, whole(value)) for value in sample.values)
        written.append(number_field(11, first))
        written.append(packed_field(14, others))
        interned = length_field(INTERNED, b"".join(self._new)) if self._new else b""
        return interned + length_field(STACK_SAMPLE, b"".join(written))

    def _interned(self, table: int, key: object, content: bytes) -> int:
        """The number of an entry; its message is iid 1 and ``content``."""
        numbers = self._tables[table]
        before = len(numbers)
        number = numbers.number(key) + 1
        if len(numbers) > before:
            self._spending.written(len(content))
            self._new.append(length_field(table, number_field(1, number) + content))
        return number

    def _string(self, table: int, data: bytes) -> int:
        return self._interned(table, data, length_field(2, data))

    def _address(self, number: int) -> tuple[int, ...]:
        """The numbers of the frames of an address, outermost first."""
        if number not in self._frames:
            frames = reversed(shown_frames(self._profile.addresses[number]))
            self._frames[number] = tuple(self._frame(number, frame) for frame in frames)
        return self._frames[number]

    def _frame(self, number: int, frame: Frame) -> int:
        """A frame with a name; where the address has no frames also its mapping, so that symbols can be added later."""
        address = self._profile.addresses[number]
        name = self._string(FUNCTION_NAMES, shown_name(frame).encode("utf-8", "backslashreplace"))
        content = number_field(2, name)
        if not address.frames and address.module is not None and address.address is not None:
            mapping = self._mapping(address.module)
            module = self._profile.modules[address.module]
            content += number_field(3, mapping) + _always(4, max(0, address.address - module.start + module.offset))
        if frame.file:
            content += number_field(5, self._string(SOURCES, frame.file.encode("utf-8", "backslashreplace")))
            content += number_field(6, min(max(0, frame.line), 0xFFFFFFFF))
        return self._interned(FRAMES, content, content)

    def _mapping(self, number: int) -> int:
        module = self._profile.modules[number]
        build_id = self._string(BUILD_IDS, build_id_bytes(module.build_id)) if module.build_id else 0
        path = [
            self._string(PATHS, part.encode("utf-8", "backslashreplace")) for part in module.name.split("/") if part
        ]
        content = number_field(2, build_id) + number_field(3, module.offset) + number_field(4, module.start)
        content += number_field(5, module.limit) + b"".join(number_field(7, part) for part in path)
        content += number_field(8, module.offset)
        return self._interned(MAPPINGS, number, content)


def build_id_bytes(build_id: str) -> bytes:
    """The bytes that hexadecimal digits stand for, as Perfetto keeps build ids; those of the text where it is no such."""
    try:
        return bytes.fromhex(build_id)
    except ValueError:
        return build_id.encode("utf-8", "backslashreplace")


def _frame_ids(frames: tuple[int, ...]) -> bytes:
    return b"".join(number_field(2, frame) for frame in frames)


def _always(number: int, value: int) -> bytes:
    """A varint field that is written for 0 too: proto2 tells apart what is absent."""
    return number_field(number, value) or bytes([number << 3, 0])
