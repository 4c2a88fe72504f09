"""A Perfetto trace of stack samples: interned call stacks, a frame for each inlined call, and every value type as a
counter.

Call stacks stand outermost first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from symd.model.answers import Frame
from symd.profiles.perfetto_trace import Counter
from symd.profiles.profile_format import Exported, ProfileBudget, rounding_notes, whole
from symd.profiles.protobuf import encodable
from symd.profiles.samples import ADDRESSES, Sample, SampledProfile, ValueType, shown_frames, shown_name
from symd.v1 import perfetto_pb2

NAME = "perfetto"
Cell = TypeVar("Cell")
UNITS = {"nanoseconds": 1, "ns": 1, "cycles": 2, "instructions": 3, "bytes": 4, "count": 9}
"""StackSample.Unit."""
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
    unit = UNITS.get(kind.unit.lower(), 0)
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
