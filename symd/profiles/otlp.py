"""OpenTelemetry profiles (v1development), the ProfilesData or export request message: locations of the dictionary get
their lines, and the function and string tables grow without a duplicate or an orphan.

As samples: the locations of a stack are leaf first. A sample without values counts 1 at each of its times; a sample
with one value for each time pairs them (profiles.proto)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from symd.errors import Malformed, SymdError
from symd.model.answers import Frame
from symd.profiles.addresses import AddressBatch, AddressOrigin, AddressOrigins, MappedRange
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.protobuf import LENGTH, FunctionKey, ProfileFunctions, StringTable, each_field, parsed
from symd.profiles.resolver import Resolver, crc_names
from symd.profiles.samples import (
    PROCESSES,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    Task,
    ValueType,
    place_in_module,
    within,
)
from symd.v1 import otlp_pb2

NAME = "otlp"
REVISION = "opentelemetry-proto v1.11.0"
FRAME_TYPES = ("profile.frame.type", "frame.type")
"""Attributes of a location that say what kind of frame it is, in older and newer semantic conventions."""
CUDA_PC = "cuda-pc"
"""A frame of Parca's agent: the address counts from the start of a kernel, whose mangled name is that of the one
function, without a file or a line; the mapping is the cubin, ``cubin-`` and its CRC in 16 hexadecimal digits by name,
by build id the CRC and 16 zeros (parca-dev/opentelemetry-ebpf-profiler at 9ece4f9e, interpreter/gpu)."""
BUILD_IDS = (
    "process.executable.build_id.gnu",
    "process.executable.build_id.go",
    "process.executable.build_id.htlhash",
)
"""Attributes of a mapping that identify a module; then its file name does."""
_CUBIN_CRC = re.compile(r"cubin-([0-9a-f]{16})|([0-9a-f]{16})0{16}")
WHERE = "the OTLP profile"
Entry = TypeVar("Entry")
_RESOURCES = otlp_pb2.ProfilesData.RESOURCE_PROFILES_FIELD_NUMBER
_DICTIONARY = otlp_pb2.ProfilesData.DICTIONARY_FIELD_NUMBER
_STRINGS = otlp_pb2.ProfilesDictionary.STRING_TABLE_FIELD_NUMBER


def claims(data: bytes) -> bool:
    """A message of resources and one dictionary, whose string table begins with ""."""
    dictionary = None
    try:
        for item in each_field(data):
            is_dictionary = item.number == _DICTIONARY
            if item.wire != LENGTH or not (item.number == _RESOURCES or (is_dictionary and dictionary is None)):
                return False
            dictionary = item.content if is_dictionary else dictionary
        inner = each_field(dictionary or b"")
        first = next((item for item in inner if item.number == _STRINGS), None)
    except SymdError:
        return False
    return first is not None and first.wire == LENGTH and not first.content


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add lines to the dictionary's locations that have none and whose mapping is a known module."""
    spending = ProfileBudget(options, len(data))
    message = parsed(otlp_pb2.ProfilesData, data, WHERE, spending)
    tally = Tally()
    notes = add_lines(message, resolver, options, spending, tally)
    return Symbolized(
        message.SerializeToString() if tally.resolved else data, tally.report(NAME, "locations", tuple(notes))
    )


def add_lines(
    message: otlp_pb2.ProfilesData, resolver: Resolver, options: Options, spending: ProfileBudget, tally: Tally
) -> dict[str, None]:
    """What ``symbolize`` does, to a message; the notes."""
    tables = OtlpTables(message.dictionary, spending)
    tables.check_zeros()
    origins = AddressOrigins(resolver, options.limits, tables.origin)
    batch = AddressBatch()
    pending = []
    for location in tables.message.location_table[1:]:
        kernel = _sampled_kernel(location, tables)
        if location.lines and kernel is None:
            tally.already += 1
        else:
            origin: int | tuple[int, str] | None = location.mapping_index or None
            if origin is not None and kernel is not None:
                origin = location.mapping_index, kernel
            pending.append((location, batch.add(origins.target(origin, location.address), location.address)))
    answers = batch.ask(resolver, options.progress)
    functions = _functions(tables)
    for location, handle in pending:
        answer = answers[handle]
        tally.count(answer.reason, resolved=bool(answer.frames))
        if answer.frames:
            del location.lines[:]
            for frame in answer.frames:
                location.lines.add(function_index=functions.number(frame), line=frame.line, column=frame.column)
            spending.written(location.ByteSize())
    return origins.notes


class OtlpTables:
    """The tables of a dictionary, whose entries name each other by number. Raises Malformed and LimitExceeded."""

    def __init__(self, message: otlp_pb2.ProfilesDictionary, spending: ProfileBudget) -> None:
        spending.read(len(message.mapping_table) + len(message.location_table) + len(message.function_table))
        spending.read(len(message.stack_table) + len(message.attribute_table))
        self.message = message
        self.strings = StringTable(message.string_table, WHERE)
        self._attributes: dict[int, tuple[str, str | int] | None] = {}

    def check_zeros(self) -> None:
        """Index 0 means "not set": without the zero values every index of this revision would be read wrongly."""
        message = self.message
        sizes = {
            "mapping": [one.ByteSize() for one in message.mapping_table[:1]],
            "location": [one.ByteSize() for one in message.location_table[:1]],
            "function": [one.ByteSize() for one in message.function_table[:1]],
        }
        for name, size in sizes.items():
            if any(size):
                raise Malformed(
                    f"entry 0 of the {name} table is not the zero value",
                    where=WHERE,
                    hint=f"symd reads the layout of {REVISION}",
                )

    def attributes(self, indexes: Iterable[int]) -> list[tuple[str, str | int]]:
        """Keys and values of the attributes with these numbers; without those that are neither text nor an integer."""
        return [known for at in indexes if (known := self._attribute(at))]

    def _attribute(self, number: int) -> tuple[str, str | int] | None:
        if number not in self._attributes:
            one = entry(self.message.attribute_table, number, "attribute")
            value = self.value(one.value)
            self._attributes[number] = None if value is None else (self.strings.text(one.key_strindex), value)
        return self._attributes[number]

    def value(self, value: otlp_pb2.AnyValue) -> str | int | None:
        """What is text or an integer."""
        kind = value.WhichOneof("value")
        if kind == "string_value_strindex":
            return self.strings.text(value.string_value_strindex)
        return None if kind is None else value.int_value if kind == "int_value" else value.string_value

    def origin(self, key: int | tuple[int, str]) -> AddressOrigin:
        """A mapping, whose build id names its module before all else where there is another name; or with a kernel's
        name the section of that kernel in the cubin that is mapped."""
        number, kernel = (key, None) if isinstance(key, int) else key
        one = entry(self.message.mapping_table, number, "mapping")
        names = (*self.build_ids(one), *filter(None, [self.strings.text(one.filename_strindex)]))
        if kernel is not None:
            called = " or ".join(names) or f"mapping {number}"
            return AddressOrigin((*names, *_crc_names(names)), section=f".text.{kernel}", called=called)
        build_id, others = (names[0], names[1:]) if len(names) > 1 else ("", names)
        mapped = MappedRange(one.memory_start, one.memory_limit, one.file_offset)
        return AddressOrigin(others, build_id, mapped, called=f"mapping {number}")

    def build_ids(self, mapping: otlp_pb2.Mapping) -> list[str]:
        """The build ids of a mapping, in the order of ``BUILD_IDS``."""
        known = dict(self.attributes(mapping.attribute_indices))
        return [name for key in BUILD_IDS if isinstance(name := known.get(key), str) and name]


def entry(table: Sequence[Entry], number: int, name: str) -> Entry:
    """An entry of a table. Raises Malformed for a number that the table does not have."""
    if not 0 <= number < len(table):
        raise Malformed(f"{name} {number} is named, and there are {len(table)}", where=WHERE)
    return table[number]


def _sampled_kernel(location: otlp_pb2.Location, tables: OtlpTables) -> str | None:
    """The kernel of a location that is a cuda-pc frame without a file and a line; None where it is none."""
    if len(location.lines) != 1 or location.lines[0].line:
        return None
    types = [value for key, value in tables.attributes(location.attribute_indices) if key in FRAME_TYPES]
    if CUDA_PC not in types:
        return None
    function = entry(tables.message.function_table, location.lines[0].function_index, "function")
    text = tables.strings.text
    called = text(function.system_name_strindex) or text(function.name_strindex)
    return called if called and not function.filename_strindex else None


def _functions(tables: OtlpTables) -> ProfileFunctions:
    table = tables.message.function_table
    known: dict[FunctionKey, int] = {}
    for number, one in enumerate(table):
        if number:
            key = one.name_strindex, one.system_name_strindex, one.filename_strindex, one.start_line
            known.setdefault(key, number)

    def add(key: FunctionKey) -> int:
        if not table:
            table.add()
        name, system_name, filename, start_line = key
        table.add(
            name_strindex=name, system_name_strindex=system_name, filename_strindex=filename, start_line=start_line
        )
        return len(table) - 1

    return ProfileFunctions(known, tables.strings, add)


def _crc_names(names: Iterable[str]) -> list[str]:
    """What users call a cubin by whose CRC a mapping is named."""
    for name in names:
        found = _CUBIN_CRC.fullmatch(name)
        if found:
            return crc_names(int(found[1] or found[2], 16))
    return []


PROCESS, THREAD, THREAD_NAME = "process.pid", "thread.id", "thread.name"


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of every profile in the message. Raises Malformed and LimitExceeded."""
    return samples_of(parsed(otlp_pb2.ProfilesData, data, WHERE, spending), spending)


def samples_of(message: otlp_pb2.ProfilesData, spending: ProfileBudget) -> SampledProfile:
    """What ``read_samples`` reads; samples of another type of value get columns of their own."""
    return _Reader(message, spending).profile()


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
