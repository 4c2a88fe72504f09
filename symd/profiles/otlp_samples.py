"""Samples of OTLP profiles. The locations of a stack are leaf first. A sample without values counts 1 at each of its
times; a sample with one value for each time pairs them (profiles.proto).
"""

from __future__ import annotations

from collections.abc import Iterator

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles.otlp import WHERE, OtlpTables, entry
from symd.profiles.otlp_json import each_message
from symd.profiles.profile_format import ProfileBudget
from symd.profiles.protobuf import parsed
from symd.profiles.samples import (
    PROCESSES,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    Task,
    ValueType,
    joined,
    place_in_module,
    within,
)
from symd.v1 import otlp_pb2

PROCESS, THREAD, THREAD_NAME = "process.pid", "thread.id", "thread.name"


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of every profile in the message; those of another type of value get columns of their own. Raises
    Malformed and LimitExceeded."""
    return _Reader(parsed(otlp_pb2.ProfilesData, data, WHERE, spending), spending).profile()


def read_json(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of OTLP as JSON; of several documents all."""
    documents = [_Reader(one, spending).profile() for one in each_message(data, spending)]
    types = {kind for one in documents for kind in one.value_types}
    spending.read_table(sum(len(one.samples) for one in documents), len(types))
    return joined(documents)


class _Reader:
    def __init__(self, message: otlp_pb2.ProfilesData, spending: ProfileBudget) -> None:
        self._message, self._spending = message, spending
        self._tables = OtlpTables(message.dictionary, spending)
        self._stacks = [tuple(one.location_indices) for one in message.dictionary.stack_table]
        self._types: dict[ValueType, int] = {}
        self._tasks: dict[Task, int] = {}

    def profile(self) -> SampledProfile:
        found = SampledProfile(())
        dictionary = self._message.dictionary
        found.modules = list(map(self._module, dictionary.mapping_table[1:]))
        found.addresses = [self._location(one, found) for one in dictionary.location_table]
        rows: list[tuple[Sample, int]] = []
        for process, one in self._profiles():
            if one.time_unix_nano:
                found.start = min(one.time_unix_nano, found.start or one.time_unix_nano)
            rows += self._samples(one, process, len(found.addresses))
        found.value_types = tuple(self._types) or (ValueType("", ""),)
        found.tasks = list(self._tasks) or [Task()]
        width = len(found.value_types)
        self._spending.read_table(len(rows), width)
        found.samples = [
            sample._replace(values=tuple(sample.values[0] if at == column else 0 for at in range(width)))
            for sample, column in rows
        ]
        if any(sample.time is None for sample in found.samples):
            found.notes.append("some samples have no time")
        return found

    def _module(self, mapping: otlp_pb2.Mapping) -> SampledModule:
        name = self._tables.strings.text(mapping.filename_strindex)
        build_id = next(iter(self._tables.build_ids(mapping)), "")
        return SampledModule(name, build_id, mapping.memory_start, mapping.memory_limit, mapping.file_offset)

    def _location(self, location: otlp_pb2.Location, found: SampledProfile) -> SampledAddress:
        self._spending.read(len(location.lines))
        last = len(location.lines) - 1
        frames = tuple(self._frame(line, inlined=at < last) for at, line in enumerate(location.lines))
        module, address = location.mapping_index, location.address
        mapped = entry(found.modules, module - 1, "mapping") if module else None
        label = place_in_module(mapped, address)
        return SampledAddress(label, frames, address or None, module - 1 if module else None)

    def _frame(self, line: otlp_pb2.Line, *, inlined: bool) -> Frame:
        table = self._message.dictionary.function_table
        known = entry(table, line.function_index, "function") if table or line.function_index else otlp_pb2.Function()
        numbers = known.name_strindex, known.system_name_strindex, known.filename_strindex
        name, system, file = map(self._tables.strings.text, numbers)
        linkage = system if system != name else ""
        position = line.line, line.column
        return Frame(name or None, linkage or None, file or None, *position, inlined, max(known.start_line, 0))

    def _profiles(self) -> Iterator[tuple[int, otlp_pb2.Profile]]:
        """(process id, 0 where the resource has none; the profile)."""
        for whole in self._message.resource_profiles:
            values = (self._tables.value(one.value) for one in whole.resource.attributes if one.key == PROCESS)
            process = within(next(values, 0), PROCESSES) or 0
            for scope in whole.scope_profiles:
                for one in scope.profiles:
                    yield process, one

    def _samples(self, profile: otlp_pb2.Profile, process: int, addresses: int) -> Iterator[tuple[Sample, int]]:
        text, kind = self._tables.strings.text, profile.sample_type
        named = ValueType(text(kind.type_strindex), text(kind.unit_strindex))
        column = self._types.setdefault(named, len(self._types))
        for one in profile.samples:
            self._spending.read(1 + len(one.timestamps_unix_nano) + len(one.attribute_indices))
            for sample in self._sample(one, process, addresses):
                yield sample, column

    def _sample(self, sample: otlp_pb2.Sample, process: int, addresses: int) -> Iterator[Sample]:
        number, values, times = sample.stack_index, list(sample.values), list(sample.timestamps_unix_nano)
        stack = entry(self._stacks, number, "stack") if self._stacks or number else ()
        if any(not 0 <= at < addresses for at in stack):
            raise Malformed(f"location {max(stack)} is named, there are {addresses}", where=WHERE)
        labels = self._tables.attributes(sample.attribute_indices)
        known = dict(labels)
        thread, name = known.get(THREAD, 0), known.get(THREAD_NAME, "")
        task = Task(process, thread if isinstance(thread, int) else 0, str(name))
        shared = self._tasks.setdefault(task, len(self._tasks))
        kept = tuple(label for label in labels if label[0] not in (THREAD, THREAD_NAME))
        if times and len(values) in (0, len(times)):
            for time, value in zip(times, values or [1] * len(times), strict=True):
                yield Sample(stack, (value,), time, shared, kept)
            return
        yield Sample(stack, (sum(values),), None, shared, kept)
