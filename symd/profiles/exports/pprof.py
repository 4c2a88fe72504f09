"""pprof's profile.proto, written whole: a location for each address, a Line for each frame there, innermost first."""

from __future__ import annotations

from symd.profiles.pprof import FUNCTION_FIELDS
from symd.profiles.profile_format import Exported, ProfileBudget, rounding_notes, whole
from symd.profiles.protobuf_wire import (
    ProfileFunctions,
    StringTable,
    frame_flags,
    function_message,
    int64_field,
    length_field,
    lines_of,
    number_field,
    packed_field,
)
from symd.profiles.samples import Sample, SampledProfile, shown_frames
from symd.profiles.schemas import Pprof

NAME = "pprof"
TIMESTAMP = "timestamp"
"""The label that holds the time of a sample, in nanoseconds: pprof has no field for it."""


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """Everything: all value types, labels, modules as mappings with their build ids, addresses as they are."""
    writer = _Writer(profile, spending)
    tasks = ("processes and threads are labels",) if any(one.process or one.thread for one in profile.tasks) else ()
    return Exported(writer.whole(), (*rounding_notes(profile), *tasks))


class _Writer:
    def __init__(self, profile: SampledProfile, spending: ProfileBudget) -> None:
        self._profile = profile
        self._spending = spending
        self._strings = StringTable([b""])
        self._functions = ProfileFunctions({}, 1, self._strings)
        self._flags = self._flags_by_module()

    def whole(self) -> bytes:
        profile = self._profile
        types = [
            number_field(Pprof.ValueType.type, self._strings.number(kind.name))
            + number_field(Pprof.ValueType.unit, self._strings.number(kind.unit))
            for kind in profile.value_types
        ]
        pieces = [length_field(Pprof.Profile.sample_type, one) for one in types]
        for sample in profile.samples:
            pieces.append(length_field(Pprof.Profile.sample, self._sample(sample)))
            self._spending.written(len(pieces[-1]))
        locations = [
            length_field(Pprof.Profile.location, self._location(number)) for number in range(len(profile.addresses))
        ]
        pieces += [length_field(Pprof.Profile.mapping, self._mapping(number)) for number in range(len(profile.modules))]
        pieces += locations
        for number, key in self._functions.added:
            content = number_field(Pprof.Function.id, number) + function_message(key, FUNCTION_FIELDS)
            pieces.append(length_field(Pprof.Profile.function, content))
        default = self._strings.number(profile.value_types[profile.default].name if profile.value_types else "")
        pieces.append(length_field(Pprof.Profile.string_table, b""))
        pieces += [length_field(Pprof.Profile.string_table, text) for text in self._strings.added]
        if profile.start is not None:
            pieces.append(int64_field(Pprof.Profile.time_nanos, profile.start))
        pieces.append(int64_field(Pprof.Profile.default_sample_type, default))
        return b"".join(pieces)

    def _sample(self, sample: Sample) -> bytes:
        task = self._profile.tasks[sample.task]
        labels: list[tuple[str, str | int]] = [*sample.labels]
        named = {"process": task.process, "thread": task.thread}
        labels += [(key, value) for key, value in named.items() if value]
        written = [length_field(Pprof.Sample.label, self._label(key, value)) for key, value in labels]
        if sample.time is not None:
            written.append(length_field(Pprof.Sample.label, self._label(TIMESTAMP, sample.time, "nanoseconds")))
        locations = packed_field(Pprof.Sample.location_id, (number + 1 for number in sample.stack))
        return locations + packed_field(Pprof.Sample.value, map(whole, sample.values)) + b"".join(written)

    def _label(self, key: str, value: str | int, unit: str = "") -> bytes:
        name = number_field(Pprof.Label.key, self._strings.number(key))
        if isinstance(value, str):
            return name + number_field(Pprof.Label.str, self._strings.number(value))
        said = number_field(Pprof.Label.num_unit, self._strings.number(unit))
        return name + int64_field(Pprof.Label.num, value) + said

    def _location(self, number: int) -> bytes:
        address = self._profile.addresses[number]
        module = 0 if address.module is None else address.module + 1
        places = number_field(Pprof.Location.id, number + 1) + number_field(Pprof.Location.mapping_id, module)
        places += number_field(Pprof.Location.address, address.address or 0)
        frames = address.frames if address.frames or address.module is not None else shown_frames(address)
        content = places + lines_of(Pprof.Location.line, frames, self._functions)
        self._spending.written(len(content))
        return content

    def _mapping(self, number: int) -> bytes:
        """A module, with its flags."""
        module = self._profile.modules[number]
        values = {
            Pprof.Mapping.id: number + 1,
            Pprof.Mapping.memory_start: module.start,
            Pprof.Mapping.memory_limit: module.limit,
            Pprof.Mapping.file_offset: module.offset,
            Pprof.Mapping.filename: self._strings.number(module.name),
            Pprof.Mapping.build_id: self._strings.number(module.build_id),
            **dict.fromkeys(sorted(self._flags.get(number, ())), 1),
        }
        return b"".join(number_field(one, value) for one, value in values.items())

    def _flags_by_module(self) -> dict[int, set[int]]:
        """The flags of mappings: for what any location of the module has."""
        flags: dict[int, set[int]] = {}
        for address in self._profile.addresses:
            if address.module is not None and address.frames:
                flags.setdefault(address.module, set()).update(frame_flags(address.frames))
        return flags
