"""pprof's profile.proto, written whole: a location for each address, a Line for each frame there, innermost first.

Field numbers as ``symd.profiles.pprof`` has them; besides Sample: location_id 1, value 2, label 3; Label: key 1, str 2, num 3,
num_unit 4; Profile: sample_type 1, sample 2, time_nanos 9, period_type 11, period 12."""

from __future__ import annotations

from symd.profiles.exports.export import Exported, rounding_notes, whole
from symd.profiles.pprof import (
    FUNCTION,
    HAS_FILENAMES,
    HAS_FUNCTIONS,
    HAS_INLINE_FRAMES,
    HAS_LINE_NUMBERS,
    LINE,
    LOCATION,
    MAPPING,
    STRING,
)
from symd.profiles.protobuf_wire import int64_field, length_field, number_field, packed_field
from symd.profiles.samples import Sample, SampledProfile, shown_frames
from symd.profiles.spending import Spending
from symd.profiles.symbol_table import FunctionTable, StringTable, function_message, lines_of

NAME = "pprof"
SAMPLE_TYPE, SAMPLE, TIME_NANOS = 1, 2, 9
TIMESTAMP = "timestamp"
"""The label that holds the time of a sample, in nanoseconds: pprof has no field for it."""


def export(profile: SampledProfile, spending: Spending) -> Exported:
    """Everything: all value types, labels, modules as mappings with their build ids, addresses as they are."""
    writer = _Writer(profile, spending)
    tasks = ("processes and threads are labels",) if any(one.process or one.thread for one in profile.tasks) else ()
    return Exported(writer.whole(), (*rounding_notes(profile), *tasks))


class _Writer:
    def __init__(self, profile: SampledProfile, spending: Spending) -> None:
        self._profile = profile
        self._spending = spending
        self._strings = StringTable([b""])
        self._functions = FunctionTable({}, 1, self._strings)
        self._flags = self._flags_by_module()

    def whole(self) -> bytes:
        profile = self._profile
        types = [
            number_field(1, self._strings.number(kind.name)) + number_field(2, self._strings.number(kind.unit))
            for kind in profile.value_types
        ]
        pieces = [length_field(SAMPLE_TYPE, one) for one in types]
        for sample in profile.samples:
            pieces.append(length_field(SAMPLE, self._sample(sample)))
            self._spending.written(len(pieces[-1]))
        locations = [length_field(LOCATION, self._location(number)) for number in range(len(profile.addresses))]
        pieces += [length_field(MAPPING, self._mapping(number)) for number in range(len(profile.modules))]
        pieces += locations
        for number, key in self._functions.added:
            pieces.append(length_field(FUNCTION, number_field(1, number) + function_message(2, key)))
        pieces.append(length_field(STRING, b""))
        pieces += [length_field(STRING, text) for text in self._strings.added]
        if profile.start is not None:
            pieces.append(int64_field(TIME_NANOS, profile.start))
        return b"".join(pieces)

    def _sample(self, sample: Sample) -> bytes:
        task = self._profile.tasks[sample.task]
        labels: list[tuple[str, str | int]] = [*sample.labels]
        named = {"process": task.process, "thread": task.thread}
        labels += [(key, value) for key, value in named.items() if value]
        written = [length_field(3, self._label(key, value)) for key, value in labels]
        if sample.time is not None:
            written.append(length_field(3, self._label(TIMESTAMP, sample.time, "nanoseconds")))
        locations = packed_field(1, (number + 1 for number in sample.stack))
        return locations + packed_field(2, map(whole, sample.values)) + b"".join(written)

    def _label(self, key: str, value: str | int, unit: str = "") -> bytes:
        name = number_field(1, self._strings.number(key))
        if isinstance(value, str):
            return name + number_field(2, self._strings.number(value))
        return name + int64_field(3, value) + number_field(4, self._strings.number(unit))

    def _location(self, number: int) -> bytes:
        address = self._profile.addresses[number]
        module = 0 if address.module is None else address.module + 1
        places = number_field(1, number + 1) + number_field(2, module) + number_field(3, address.address or 0)
        frames = address.frames if address.frames or address.module is not None else shown_frames(address)
        content = places + lines_of(LINE, frames, self._functions)
        self._spending.written(len(content))
        return content

    def _mapping(self, number: int) -> bytes:
        """A module, with its flags."""
        module = self._profile.modules[number]
        numbers = (number + 1, module.start, module.limit, module.offset)
        texts = (self._strings.number(module.name), self._strings.number(module.build_id))
        return b"".join(number_field(at, value) for at, value in enumerate((*numbers, *texts), 1)) + b"".join(
            number_field(flag, 1) for flag in sorted(self._flags.get(number, ()))
        )

    def _flags_by_module(self) -> dict[int, set[int]]:
        """The flags of mappings: for what any location of the module has."""
        flags: dict[int, set[int]] = {}
        for address in self._profile.addresses:
            if address.module is None or not address.frames:
                continue
            mine = flags.setdefault(address.module, {HAS_INLINE_FRAMES})
            for frame in address.frames:
                mine |= {HAS_FUNCTIONS} if frame.function or frame.linkage_name else set()
                mine |= {HAS_FILENAMES} if frame.file else set()
                mine |= {HAS_LINE_NUMBERS} if frame.line else set()
        return flags
