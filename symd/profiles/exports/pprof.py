"""pprof's profile.proto, written whole: a location for each address, a Line for each frame there, innermost first."""

from __future__ import annotations

from symd.profiles.pprof import add_lines, new_functions, set_flags
from symd.profiles.profile_format import Exported, ProfileBudget, rounding_notes, whole
from symd.profiles.protobuf import StringTable
from symd.profiles.samples import ADDRESSES, Sample, SampledProfile, shown_frames
from symd.v1 import pprof_pb2

NAME = "pprof"
TIMESTAMP = "timestamp"
"""The label that holds the time of a sample, in nanoseconds: pprof has no field for it."""


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """Everything: all value types, labels, modules as mappings with their build ids, addresses as they are."""
    message = pprof_pb2.Profile(string_table=[b""], time_nanos=profile.start or 0)
    strings = StringTable(message.string_table, "the profile", of_bytes=True)
    for kind in profile.value_types:
        message.sample_type.add(type=strings.number(kind.name), unit=strings.number(kind.unit))
    if profile.value_types:
        message.default_sample_type = strings.number(profile.value_types[profile.default].name)
    for sample in profile.samples:
        _add_sample(message, strings, sample, profile)
        spending.written(message.sample[-1].ByteSize())
    for number, module in enumerate(profile.modules, 1):
        message.mapping.add(
            id=number,
            memory_start=module.start,
            memory_limit=min(module.limit, ADDRESSES - 1),
            file_offset=module.offset,
            filename=strings.number(module.name),
            build_id=strings.number(module.build_id),
        )
    functions = new_functions(message, strings, {}, 1)
    for number, address in enumerate(profile.addresses, 1):
        location = message.location.add(id=number, address=address.address or 0)
        if address.module is not None:
            location.mapping_id = address.module + 1
        if address.module is not None and address.frames:
            set_flags(message.mapping[address.module], address.frames)
        is_named = address.frames or address.module is not None
        add_lines(location, address.frames if is_named else shown_frames(address), functions)
        spending.written(location.ByteSize())
    tasks = ("processes and threads are labels",) if any(one.process or one.thread for one in profile.tasks) else ()
    return Exported(message.SerializeToString(), (*rounding_notes(profile), *tasks))


def _add_sample(message: pprof_pb2.Profile, strings: StringTable, sample: Sample, profile: SampledProfile) -> None:
    added = message.sample.add(
        location_id=[number + 1 for number in sample.stack], value=[whole(value) for value in sample.values]
    )
    task = profile.tasks[sample.task]
    named = {"process": task.process, "thread": task.thread}
    for key, value in (*sample.labels, *((key, value) for key, value in named.items() if value)):
        if isinstance(value, str):
            added.label.add(key=strings.number(key), str=strings.number(value))
        else:
            added.label.add(key=strings.number(key), num=whole(value))
    if sample.time is not None:
        unit = strings.number("nanoseconds")
        added.label.add(key=strings.number(TIMESTAMP), num=whole(sample.time), num_unit=unit)
