"""Samples of a pprof profile."""

from __future__ import annotations

from symd.errors import Malformed
from symd.model.answers import Frame
from symd.profiles.mapped import MappedRange, RangeLookup
from symd.profiles.profile_budget import ProfileBudget
from symd.profiles.protobuf_wire import LENGTH, VARINT, Field, each_field, packed, signed
from symd.profiles.sampled.places import StringTableReader, place_in_module
from symd.profiles.samples import Sample, SampledAddress, SampledModule, SampledProfile, ValueType
from symd.profiles.schemas import pprof as schema

WHERE = "the pprof profile"


def read(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of a profile. Raises Malformed and LimitExceeded."""
    return _Reader(data, spending).profile()


class _Reader(StringTableReader):
    def __init__(self, data: bytes, spending: ProfileBudget) -> None:
        super().__init__(data, WHERE, spending)
        self._top: dict[int, list[Field]] = {}
        for item in each_field(data, where=WHERE, spending=spending):
            self._top.setdefault(item.number, []).append(item)
        self._strings = [
            data[one.value : one.end].decode("utf-8", "replace") for one in self._messages(schema.Profile.string_table)
        ]
        self._functions: dict[int, tuple[str, str, str, int]] = {}
        for item in self._messages(schema.Profile.function):
            inner = self._numbers(item)
            self._functions[inner.get(schema.Function.id, 0)] = (
                self._string(inner.get(schema.Function.name, 0)),
                self._string(inner.get(schema.Function.system_name, 0)),
                self._string(inner.get(schema.Function.filename, 0)),
                max(signed(inner.get(schema.Function.start_line, 0)), 0),
            )

    def _messages(self, number: int) -> list[Field]:
        return [item for item in self._top.get(number, ()) if item.wire == LENGTH]

    def profile(self) -> SampledProfile:
        types = [self._numbers(item) for item in self._messages(schema.Profile.sample_type)]
        value_types = tuple(
            ValueType(self._string(one.get(schema.ValueType.type, 0)), self._string(one.get(schema.ValueType.unit, 0)))
            for one in types
        )
        started = [item.value for item in self._top.get(schema.Profile.time_nanos, ()) if item.wire == VARINT]
        chosen = [item.value for item in self._top.get(schema.Profile.default_sample_type, ()) if item.wire == VARINT]
        names = [kind.name for kind in value_types]
        default = self._string(chosen[-1]) if chosen else ""
        found = SampledProfile(
            value_types,
            start=signed(started[-1]) if started and started[-1] else None,
            default=names.index(default) if default in names else 0,
        )
        modules = self._modules(found)
        numbers = self._locations(found, modules)
        found.samples = [
            self._sample(item, numbers, len(value_types)) for item in self._messages(schema.Profile.sample)
        ]
        found.notes.append("pprof has no times of samples")
        return found

    def _modules(self, found: SampledProfile) -> dict[int, int]:
        """Mapping id to the module's number."""
        numbers = {}
        for item in self._messages(schema.Profile.mapping):
            inner = self._numbers(item)
            numbers[inner.get(schema.Mapping.id, 0)] = len(found.modules)
            names = (
                self._string(inner.get(schema.Mapping.filename, 0)),
                self._string(inner.get(schema.Mapping.build_id, 0)),
            )
            start, end = inner.get(schema.Mapping.memory_start, 0), inner.get(schema.Mapping.memory_limit, 0)
            found.modules.append(SampledModule(*names, start, end, inner.get(schema.Mapping.file_offset, 0)))
        return numbers

    def _locations(self, found: SampledProfile, modules: dict[int, int]) -> dict[int, int]:
        """Location id to the address's number."""
        numbers = {}
        ranges = RangeLookup([MappedRange(one.start, one.limit, one.offset) for one in found.modules])
        for item in self._messages(schema.Profile.location):
            inner = self._inside(item)
            values = {one.number: one.value for one in inner if one.wire == VARINT}
            lines = [self._numbers(one) for one in inner if one.number == schema.Location.line and one.wire == LENGTH]
            frames = tuple(self._frame(line, inlined=at < len(lines) - 1) for at, line in enumerate(lines))
            mapping, address = values.get(schema.Location.mapping_id, 0), values.get(schema.Location.address, 0)
            module = modules.get(mapping) if mapping else ranges.only(address)
            label = place_in_module(None if module is None else found.modules[module], address)
            numbers[values.get(schema.Location.id, 0)] = len(found.addresses)
            found.addresses.append(SampledAddress(label, frames, address or None, module))
        return numbers

    def _frame(self, line: dict[int, int], *, inlined: bool) -> Frame:
        name, system, file, start_line = self._functions.get(line.get(schema.Line.function_id, 0), ("", "", "", 0))
        linkage = system if system != name else None
        position = signed(line.get(schema.Line.line, 0)), signed(line.get(schema.Line.column, 0))
        return Frame(name or None, linkage or None, file or None, *position, inlined, start_line)

    def _sample(self, item: Field, numbers: dict[int, int], columns: int) -> Sample:
        stack: list[int] = []
        values: list[int] = []
        labels = []
        for one in self._inside(item):
            if one.number == schema.Sample.location_id:
                stack += packed(self._data, one, WHERE)
            elif one.number == schema.Sample.value:
                values += map(signed, packed(self._data, one, WHERE))
            elif one.number == schema.Sample.label and one.wire == LENGTH:
                inner = self._numbers(one)
                text = self._string(inner.get(schema.Label.str, 0))
                labels.append(
                    (self._string(inner.get(schema.Label.key, 0)), text or signed(inner.get(schema.Label.num, 0)))
                )
        if len(values) != columns:
            raise Malformed(f"a sample has {len(values)} values, and there are {columns} types of them", where=WHERE)
        missing = [number for number in stack if number not in numbers]
        if missing:
            raise Malformed(f"a sample names location {missing[0]}, which is not there", where=WHERE)
        return Sample(tuple(numbers[number] for number in stack), tuple(values), labels=tuple(labels))
