"""Samples of OTLP profiles. The locations of a stack are leaf first. A sample without values counts 1 at each of its
times; a sample with one value for each time pairs them (profiles.proto).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles.otlp_json import binary_documents
from symd.profiles.profile_format import ProfileBudget
from symd.profiles.protobuf_wire import FIXED64, LENGTH, VARINT, Field, each_field, fixed, packed, signed
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
from symd.profiles.schemas import otlp as schema
from symd.profiles.symbol_table import StringTableReader

WHERE = "the OTLP profile"
BUILD_IDS = ("process.executable.build_id.gnu", "process.executable.build_id.go", "process.executable.build_id.htlhash")
PROCESS, THREAD, THREAD_NAME = "process.pid", "thread.id", "thread.name"


_NAMES = (schema.Function.name_strindex, schema.Function.system_name_strindex, schema.Function.filename_strindex)


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


class _Reader(StringTableReader):
    def __init__(self, data: bytes, spending: ProfileBudget) -> None:
        super().__init__(data, WHERE, spending)
        self._top = list(each_field(data, where=WHERE, spending=spending))
        self._tables: dict[int, list[Field]] = {}
        for whole in self._top:
            if whole.number == schema.ProfilesData.dictionary and whole.wire == LENGTH:
                for item in self._inside(whole):
                    if item.wire == LENGTH:
                        self._tables.setdefault(item.number, []).append(item)
        texts = self._tables.get(schema.ProfilesDictionary.string_table, ())
        self._strings = [data[one.value : one.end].decode("utf-8", "replace") for one in texts]
        self._functions = [
            self._numbers(item) for item in self._tables.get(schema.ProfilesDictionary.function_table, ())
        ]
        self._attributes = [
            self._attribute(item) for item in self._tables.get(schema.ProfilesDictionary.attribute_table, ())
        ]
        self._stacks = [self._stack(item) for item in self._tables.get(schema.ProfilesDictionary.stack_table, ())]

    def profile(self) -> SampledProfile:
        found = SampledProfile(())
        self._read_modules(found)
        for item in self._tables.get(schema.ProfilesDictionary.location_table, ()):
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
        for item in self._tables.get(schema.ProfilesDictionary.mapping_table, ())[1:]:
            inner = self._inside(item)
            values = {one.number: one.value for one in inner if one.wire == VARINT}
            known = dict(self._attributes_of(inner, schema.Mapping.attribute_indices))
            build_id = next((str(known[key]) for key in BUILD_IDS if known.get(key)), "")
            name = self._string(values.get(schema.Mapping.filename_strindex, 0))
            start, end = values.get(schema.Mapping.memory_start, 0), values.get(schema.Mapping.memory_limit, 0)
            found.modules.append(SampledModule(name, build_id, start, end, values.get(schema.Mapping.file_offset, 0)))

    def _attributes_of(self, inner: list[Field], number: int) -> list[tuple[str, str | int]]:
        indexes = [at for one in inner if one.number == number for at in packed(self._data, one, WHERE)]
        if any(at >= len(self._attributes) for at in indexes):
            raise Malformed(f"attribute {max(indexes)} is named, there are {len(self._attributes)}", where=WHERE)
        return [known for at in indexes if (known := self._attributes[at])]

    def _attribute(self, item: Field) -> tuple[str, str | int] | None:
        """Key and value; None where the value is neither text nor an integer."""
        inner = self._inside(item)
        numbers = {one.number: one.value for one in inner if one.wire == VARINT}
        key = numbers.get(schema.KeyValueAndUnit.key_strindex, 0)
        value = next((one for one in inner if one.number == schema.KeyValueAndUnit.value and one.wire == LENGTH), None)
        found = None if value is None else self._any_value(value)
        return None if found is None else (self._string(key), found)

    def _any_value(self, item: Field) -> str | int | None:
        """An AnyValue that is text or an integer."""
        for one in self._inside(item):
            if one.number == schema.AnyValue.string_value and one.wire == LENGTH:
                return self._data[one.value : one.end].decode("utf-8", "replace")
            if one.number == schema.AnyValue.int_value and one.wire == VARINT:
                return signed(one.value)
            if one.number == schema.AnyValue.string_value_strindex and one.wire == VARINT:
                return self._string(one.value)
        return None

    def _location(self, item: Field, found: SampledProfile) -> SampledAddress:
        inner = self._inside(item)
        values = {one.number: one.value for one in inner if one.wire == VARINT}
        lines = [self._numbers(one) for one in inner if one.number == schema.Location.lines and one.wire == LENGTH]
        frames = tuple(self._frame(line, inlined=at < len(lines) - 1) for at, line in enumerate(lines))
        module, address = values.get(schema.Location.mapping_index, 0), values.get(schema.Location.address, 0)
        if module > len(found.modules):
            raise Malformed(f"mapping {module} is named, there are {len(found.modules)}", where=WHERE)
        label = place_in_module(found.modules[module - 1] if module else None, address)
        return SampledAddress(label, frames, address or None, module - 1 if module else None)

    def _frame(self, line: dict[int, int], *, inlined: bool) -> Frame:
        number = line.get(schema.Line.function_index, 0)
        if number >= max(1, len(self._functions)):
            raise Malformed(f"function {number} is named, there are {len(self._functions)}", where=WHERE)
        known = self._functions[number] if self._functions else {}
        name, system, file = (self._string(known.get(at, 0)) for at in _NAMES)
        linkage = system if system != name else ""
        position = signed(line.get(schema.Line.line, 0)), signed(line.get(schema.Line.column, 0))
        start_line = max(signed(known.get(schema.Function.start_line, 0)), 0)
        return Frame(name or None, linkage or None, file or None, *position, inlined, start_line)

    def _stack(self, item: Field) -> tuple[int, ...]:
        locations = (one for one in self._inside(item) if one.number == schema.Stack.location_indices)
        return tuple(at for one in locations for at in packed(self._data, one, WHERE))

    def _profiles(self) -> Iterator[tuple[int, Field]]:
        """(process id, 0 where the resource has none; the profile)."""
        for whole in self._top:
            if whole.number != schema.ProfilesData.resource_profiles or whole.wire != LENGTH:
                continue
            inner = self._inside(whole)
            resources = (one for one in inner if one.number == schema.ResourceProfiles.resource)
            process = next(filter(None, map(self._process, resources)), 0)
            for scope in inner:
                if scope.number != schema.ResourceProfiles.scope_profiles or scope.wire != LENGTH:
                    continue
                for one in self._inside(scope):
                    if one.number == schema.ScopeProfiles.profiles and one.wire == LENGTH:
                        yield process, one

    def _process(self, resource: Field) -> int:
        """The number in the attribute process.pid of a Resource."""
        for one in self._inside(resource):
            if one.number != schema.Resource.attributes or one.wire != LENGTH:
                continue
            inner = {part.number: part for part in self._inside(one) if part.wire == LENGTH}
            key, content = inner.get(schema.KeyValue.key), inner.get(schema.KeyValue.value)
            if key and content and self._data[key.value : key.end] == PROCESS.encode():
                value = self._any_value(content)
                return value if isinstance(value, int) and 0 <= value < 1 << 31 else 0
        return 0

    def _samples(
        self, item: Field, process: int, columns: _Columns, tasks: dict[Task, int], found: SampledProfile
    ) -> Iterator[tuple[Sample, int]]:
        inner = self._inside(item)
        types = (one for one in inner if one.number == schema.Profile.sample_type and one.wire == LENGTH)
        kind = next(map(self._numbers, types), {})
        texts = (
            self._string(kind.get(at, 0)) for at in (schema.ValueType.type_strindex, schema.ValueType.unit_strindex)
        )
        column = columns.number(ValueType(*texts))
        times = (one for one in inner if one.number == schema.Profile.time_unix_nano and one.wire == FIXED64)
        started = next((fixed(self._data, one) for one in times), 0)
        if started:
            found.start = min(started, found.start or started)
        for one in inner:
            if one.number == schema.Profile.samples and one.wire == LENGTH:
                for sample in self._sample(one, process, tasks, len(found.addresses)):
                    yield sample, column

    def _sample(self, item: Field, process: int, tasks: dict[Task, int], addresses: int) -> Iterator[Sample]:
        inner = self._inside(item)
        number = next((one.value for one in inner if one.number == schema.Sample.stack_index and one.wire == VARINT), 0)
        numbers = (one for one in inner if one.number == schema.Sample.values)
        values = [signed(value) for one in numbers for value in packed(self._data, one, WHERE)]
        times = [time for one in inner if one.number == schema.Sample.timestamps_unix_nano for time in self._times(one)]
        labels = tuple(self._attributes_of(inner, schema.Sample.attribute_indices))
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
            raise Malformed(f"the times at byte {item.begin} are no list of 64-bit numbers", where=WHERE)
        self._spending.read((item.end - item.value) // 8)
        return [int.from_bytes(self._data[at : at + 8], "little") for at in range(item.value, item.end, 8)]
