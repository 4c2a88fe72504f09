"""Samples of OTLP profiles. The locations of a stack are leaf first. A sample without values counts 1 at each of its
times; a sample with one value for each time pairs them (profiles.proto).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles.otlp import BUILD_IDS, WHERE, OtlpDictionary
from symd.profiles.otlp_json import binary_documents
from symd.profiles.profile_format import ProfileBudget
from symd.profiles.protobuf_wire import FIXED64, LENGTH, VARINT, Field, each_field, fields, fixed, packed, signed
from symd.profiles.samples import (
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    Task,
    ValueType,
    joined,
    place_in_module,
)
from symd.profiles.schemas import Otlp

PROCESS, THREAD, THREAD_NAME = "process.pid", "thread.id", "thread.name"


_NAMES = (Otlp.Function.name_strindex, Otlp.Function.system_name_strindex, Otlp.Function.filename_strindex)


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of every profile in the message; those of another type of value get columns of their own. Raises
    Malformed and LimitExceeded."""
    return _Reader(data, spending).profile()


def read_json(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of OTLP as JSON; of several documents all."""
    documents = [read(one, spending) for one in binary_documents(data, spending)]
    types = {kind for one in documents for kind in one.value_types}
    spending.read_table(sum(len(one.samples) for one in documents), len(types))
    return joined(documents)


@dataclass(slots=True)
class _Columns:
    """The columns of values, one for each type that any profile has."""

    types: dict[ValueType, int] = field(default_factory=dict)

    def number(self, one: ValueType) -> int:
        return self.types.setdefault(one, len(self.types))


class _Reader(OtlpDictionary):
    def __init__(self, data: bytes, spending: ProfileBudget) -> None:
        self._top = list(each_field(data, where=WHERE, spending=spending))
        tables = (one for one in self._top if one.number == Otlp.ProfilesData.dictionary and one.wire == LENGTH)
        inside = (item for one in tables for item in fields(data, one.value, one.end, WHERE, spending))
        super().__init__(data, inside, spending)
        self._functions = [self._numbers(item) for item in self._table(Otlp.ProfilesDictionary.function_table)]
        self._stacks = [self._stack(item) for item in self._table(Otlp.ProfilesDictionary.stack_table)]

    def profile(self) -> SampledProfile:
        found = SampledProfile(())
        self._read_modules(found)
        for item in self._table(Otlp.ProfilesDictionary.location_table):
            found.addresses.append(self._location(item, found))
        columns = _Columns()
        tasks: dict[Task, int] = {}
        rows: list[tuple[Sample, int]] = []
        for process, one in self._profiles():
            rows += self._samples(one, process, columns, tasks, found)
        found.value_types = tuple(columns.types) or (ValueType("", ""),)
        found.tasks = list(tasks) or [Task()]
        width = len(found.value_types)
        self._spending.read_table(len(rows), width)
        found.samples = [
            sample._replace(values=tuple(sample.values[0] if at == column else 0 for at in range(width)))
            for sample, column in rows
        ]
        if any(sample.time is None for sample in found.samples):
            found.notes.append("some samples have no time")
        return found

    def _read_modules(self, found: SampledProfile) -> None:
        """Every mapping but entry 0, which means none."""
        for item in self._table(Otlp.ProfilesDictionary.mapping_table)[1:]:
            inner = self._inside(item)
            values = {one.number: one.value for one in inner if one.wire == VARINT}
            known = dict(self._attributes_of(inner, Otlp.Mapping.attribute_indices))
            build_id = next((str(known[key]) for key in BUILD_IDS if known.get(key)), "")
            name = self._string(values.get(Otlp.Mapping.filename_strindex, 0))
            start, end = values.get(Otlp.Mapping.memory_start, 0), values.get(Otlp.Mapping.memory_limit, 0)
            found.modules.append(SampledModule(name, build_id, start, end, values.get(Otlp.Mapping.file_offset, 0)))

    def _location(self, item: Field, found: SampledProfile) -> SampledAddress:
        inner = self._inside(item)
        values = {one.number: one.value for one in inner if one.wire == VARINT}
        lines = [self._numbers(one) for one in inner if one.number == Otlp.Location.lines and one.wire == LENGTH]
        frames = tuple(self._frame(line, inlined=at < len(lines) - 1) for at, line in enumerate(lines))
        module, address = values.get(Otlp.Location.mapping_index, 0), values.get(Otlp.Location.address, 0)
        if module > len(found.modules):
            raise Malformed(f"mapping {module} is named, there are {len(found.modules)}", where=WHERE)
        label = place_in_module(found.modules[module - 1] if module else None, address)
        return SampledAddress(label, frames, address or None, module - 1 if module else None)

    def _frame(self, line: dict[int, int], *, inlined: bool) -> Frame:
        number = line.get(Otlp.Line.function_index, 0)
        if number >= max(1, len(self._functions)):
            raise Malformed(f"function {number} is named, there are {len(self._functions)}", where=WHERE)
        known = self._functions[number] if self._functions else {}
        name, system, file = (self._string(known.get(at, 0)) for at in _NAMES)
        linkage = system if system != name else ""
        position = signed(line.get(Otlp.Line.line, 0)), signed(line.get(Otlp.Line.column, 0))
        start_line = max(signed(known.get(Otlp.Function.start_line, 0)), 0)
        return Frame(name or None, linkage or None, file or None, *position, inlined, start_line)

    def _stack(self, item: Field) -> tuple[int, ...]:
        locations = (one for one in self._inside(item) if one.number == Otlp.Stack.location_indices)
        return tuple(at for one in locations for at in packed(self._data, one, WHERE))

    def _profiles(self) -> Iterator[tuple[int, Field]]:
        """(process id, 0 where the resource has none; the profile)."""
        for whole in self._top:
            if whole.number != Otlp.ProfilesData.resource_profiles or whole.wire != LENGTH:
                continue
            inner = self._inside(whole)
            resources = (one for one in inner if one.number == Otlp.ResourceProfiles.resource)
            process = next(filter(None, map(self._process, resources)), 0)
            for scope in inner:
                if scope.number != Otlp.ResourceProfiles.scope_profiles or scope.wire != LENGTH:
                    continue
                for one in self._inside(scope):
                    if one.number == Otlp.ScopeProfiles.profiles and one.wire == LENGTH:
                        yield process, one

    def _process(self, resource: Field) -> int:
        """The number in the attribute process.pid of a Resource."""
        for one in self._inside(resource):
            if one.number != Otlp.Resource.attributes or one.wire != LENGTH:
                continue
            inner = {part.number: part for part in self._inside(one) if part.wire == LENGTH}
            key, content = inner.get(Otlp.KeyValue.key), inner.get(Otlp.KeyValue.value)
            if key and content and self._data[key.value : key.end] == PROCESS.encode():
                value = self._any_value(content)
                return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0
        return 0

    def _samples(
        self, item: Field, process: int, columns: _Columns, tasks: dict[Task, int], found: SampledProfile
    ) -> Iterator[tuple[Sample, int]]:
        inner = self._inside(item)
        types = (one for one in inner if one.number == Otlp.Profile.sample_type and one.wire == LENGTH)
        kind = next(map(self._numbers, types), {})
        texts = (self._string(kind.get(at, 0)) for at in (Otlp.ValueType.type_strindex, Otlp.ValueType.unit_strindex))
        column = columns.number(ValueType(*texts))
        times = (one for one in inner if one.number == Otlp.Profile.time_unix_nano and one.wire == FIXED64)
        started = next((fixed(self._data, one) for one in times), 0)
        if started:
            found.start = min(started, found.start or started)
        for one in inner:
            if one.number == Otlp.Profile.samples and one.wire == LENGTH:
                for sample in self._sample(one, process, tasks, len(found.addresses)):
                    yield sample, column

    def _sample(self, item: Field, process: int, tasks: dict[Task, int], addresses: int) -> Iterator[Sample]:
        inner = self._inside(item)
        number = next((one.value for one in inner if one.number == Otlp.Sample.stack_index and one.wire == VARINT), 0)
        numbers = (one for one in inner if one.number == Otlp.Sample.values)
        values = [signed(value) for one in numbers for value in packed(self._data, one, WHERE)]
        times = [time for one in inner if one.number == Otlp.Sample.timestamps_unix_nano for time in self._times(one)]
        labels = tuple(self._attributes_of(inner, Otlp.Sample.attribute_indices))
        if number >= max(1, len(self._stacks)):
            raise Malformed(f"stack {number} is named, there are {len(self._stacks)}", where=WHERE)
        stack = self._stacks[number] if self._stacks else ()
        if any(at >= addresses for at in stack):
            raise Malformed(f"location {max(stack)} is named, there are {addresses}", where=WHERE)
        known = dict(labels)
        thread, name = known.get(THREAD, 0), known.get(THREAD_NAME, "")
        task = Task(process, thread if isinstance(thread, int) else 0, str(name))
        shared = tasks.setdefault(task, len(tasks))
        kept = tuple(label for label in labels if label[0] not in (THREAD, THREAD_NAME))
        if times and len(values) in (0, len(times)):
            for time, value in zip(times, values or [1] * len(times), strict=True):
                yield Sample(stack, (value,), time, shared, kept)
            return
        yield Sample(stack, (sum(values),), None, shared, kept)

    def _times(self, item: Field) -> list[int]:
        """A repeated fixed64 field, packed or a single one."""
        if item.wire not in (LENGTH, FIXED64) or (item.end - item.value) % 8:
            raise Malformed(f"the times at byte {item.begin} are not a list of 64-bit numbers", where=WHERE)
        self._spending.read((item.end - item.value) // 8)
        return [int.from_bytes(self._data[at : at + 8], "little") for at in range(item.value, item.end, 8)]
