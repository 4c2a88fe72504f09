"""pprof's profile.proto: locations get their lines, mappings their has_* flags, and every byte that is
there already stays. Its samples are read, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from symd.errors import Malformed, SymdError
from symd.model.answers import Frame, Reason
from symd.profiles.addresses import (
    AddressBatch,
    MappedRange,
    MappingPlacer,
    PlacedMapping,
    RangeLookup,
    ResolvedAddress,
)
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.protobuf_wire import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    Field,
    FunctionKey,
    ProfileFunctions,
    StringTable,
    StringTableReader,
    each_field,
    fields,
    frame_flags,
    function_message,
    length_field,
    lines_of,
    number_field,
    packed,
    signed,
)
from symd.profiles.resolver import IdentifiedModule, Resolver
from symd.profiles.samples import Sample, SampledAddress, SampledModule, SampledProfile, ValueType, place_in_module
from symd.profiles.schemas import Pprof

NAME = "pprof"
FLAGS = frozenset(
    {
        Pprof.Mapping.has_functions,
        Pprof.Mapping.has_filenames,
        Pprof.Mapping.has_line_numbers,
        Pprof.Mapping.has_inline_frames,
    }
)
"""What a Mapping says that symbolizing adds to its locations."""
GREATEST_FUNCTION_ID = 1 << 62
"""New functions are numbered after the greatest id below this, so that ids never pass 64 bits."""
_READ = frozenset({Pprof.Profile.mapping, Pprof.Profile.location, Pprof.Profile.function, Pprof.Profile.string_table})
"""The fields of Profile that are looked into; samples, the most of all, are passed over."""
ANY = frozenset({VARINT, FIXED64, LENGTH, FIXED32})
_MESSAGES = (
    *(Pprof.Profile.sample_type, Pprof.Profile.sample, Pprof.Profile.mapping, Pprof.Profile.location),
    *(Pprof.Profile.function, Pprof.Profile.string_table, Pprof.Profile.period_type),
)
_NUMBERS = (
    *(Pprof.Profile.drop_frames, Pprof.Profile.keep_frames, Pprof.Profile.time_nanos, Pprof.Profile.duration_nanos),
    *(Pprof.Profile.period, Pprof.Profile.default_sample_type, Pprof.Profile.doc_url),
)
WIRE_TYPES = {number: {LENGTH} for number in _MESSAGES} | {number: {VARINT} for number in _NUMBERS}
"""Wire types of the fields that Profile has; others may come."""
FUNCTION_FIELDS = (
    Pprof.Function.name,
    Pprof.Function.system_name,
    Pprof.Function.filename,
    Pprof.Function.start_line,
)
"""Where a Function has what a ``FunctionKey`` has."""
CLAIM_FIELDS = 1000
"""Fields that are looked at to recognize the format."""
WHERE = "the pprof profile"


def claims(data: bytes) -> bool:
    """The first fields are those of a Profile; where they are all, a string table is among them."""
    try:
        first = list(islice(each_field(data), CLAIM_FIELDS))
    except SymdError:
        return False
    known = all(item.wire in WIRE_TYPES.get(item.number, ANY) for item in first)
    return known and (len(first) == CLAIM_FIELDS or any(item.number == Pprof.Profile.string_table for item in first))


@dataclass(slots=True)
class Mapping:
    """A Mapping as read; ``flags`` are the has_* fields that are set, ``gained`` those that symbolizing adds."""

    at: int
    id: int
    range: MappedRange
    build_id: str
    name: str
    flags: set[int]
    gained: set[int] = field(default_factory=set)
    placed: PlacedMapping | Reason | None = None


@dataclass(frozen=True, slots=True)
class Location:
    """A Location without lines; ``at`` is its number among the fields that are read."""

    at: int
    mapping: int
    address: int


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add lines to the locations that have none and whose mapping is a known module: by build id or file name as the
    user named it, or by SHA-256. A location without a mapping belongs to the one whose range holds its address."""
    spending = ProfileBudget(options, len(data))
    profile = _Profile(data, spending)
    tally = Tally(already=profile.symbolized)
    changed = profile.rewritten(resolver, options, tally)
    report = tally.report(NAME, "locations", profile.notes(resolver))
    if changed is None:
        return Symbolized(data, report)
    return Symbolized(changed, report)


class _Profile:
    def __init__(self, data: bytes, spending: ProfileBudget) -> None:
        self.data = data
        self._spending = spending
        self.fields = [item for item in each_field(data, where=WHERE, spending=spending) if item.number in _READ]
        self.strings = [self._content(item) for item in self.fields if item.number == Pprof.Profile.string_table]
        self.mappings: dict[int, Mapping] = {}
        self.locations: list[Location] = []
        self.symbolized = 0
        self.functions: dict[FunctionKey, int] = {}
        self.next_function = 1
        readers = {
            Pprof.Profile.mapping: self._read_mapping,
            Pprof.Profile.location: self._read_location,
            Pprof.Profile.function: self._read_function,
        }
        for at, item in enumerate(self.fields):
            if item.number in readers:
                readers[item.number](at, item)
        if self.strings and self.strings[0]:
            raise Malformed("the string table does not begin with the empty string", where=WHERE)
        self._in_order = list(self.mappings.values())
        self._ranges = RangeLookup([one.range for one in self._in_order])

    def _content(self, item: Field) -> bytes:
        if item.wire != LENGTH:
            raise Malformed(f"field {item.number} at byte {item.begin} has wire type {item.wire}", where=WHERE)
        return self.data[item.value : item.end]

    def _inside(self, item: Field) -> list[Field]:
        self._content(item)
        return fields(self.data, item.value, item.end, WHERE, self._spending)

    def _numbers(self, item: Field) -> dict[int, int]:
        """The varint fields of a message; of a repeated one the last counts, as in protocol buffers."""
        return {inner.number: inner.value for inner in self._inside(item) if inner.wire == VARINT}

    def _string(self, number: int) -> str:
        if number >= len(self.strings):
            raise Malformed(f"string {number} is named, and there are {len(self.strings)}", where=WHERE)
        return self.strings[number].decode("utf-8", "replace")

    def _read_mapping(self, at: int, item: Field) -> None:
        numbers = self._numbers(item)
        build_id, name = (self._string(numbers.get(one, 0)) for one in (Pprof.Mapping.build_id, Pprof.Mapping.filename))
        extent = (Pprof.Mapping.memory_start, Pprof.Mapping.memory_limit, Pprof.Mapping.file_offset)
        covered = MappedRange(*(numbers.get(one, 0) for one in extent))
        flags = {flag for flag in FLAGS if numbers.get(flag)}
        mapping = Mapping(at, numbers.get(Pprof.Mapping.id, 0), covered, build_id, name, flags)
        if not mapping.id or mapping.id in self.mappings:
            raise Malformed(f"mapping id {mapping.id} is 0 or stands twice", where=WHERE)
        self.mappings[mapping.id] = mapping

    def _read_location(self, at: int, item: Field) -> None:
        numbers: dict[int, int] = {}
        for inner in self._inside(item):
            if inner.number == Pprof.Location.line and inner.wire == LENGTH:
                self.symbolized += 1
                return
            if inner.wire == VARINT:
                numbers[inner.number] = inner.value
        mapping, address = (numbers.get(one, 0) for one in (Pprof.Location.mapping_id, Pprof.Location.address))
        self.locations.append(Location(at, mapping, address))

    def _read_function(self, _at: int, item: Field) -> None:
        numbers = self._numbers(item)
        name, system_name, filename, start_line = (numbers.get(one, 0) for one in FUNCTION_FIELDS)
        key = (name, system_name, filename, start_line)
        number = numbers.get(Pprof.Function.id, 0)
        if number:
            self.functions.setdefault(key, number)
        if number < GREATEST_FUNCTION_ID:
            self.next_function = max(self.next_function, number + 1)

    def rewritten(self, resolver: Resolver, options: Options, tally: Tally) -> bytes | None:
        """The profile with what is known added; None when that is nothing."""
        batch = AddressBatch()
        placer = MappingPlacer(resolver, options.limits)
        handles = [self._ask(location, batch, resolver, placer) for location in self.locations]
        answers = batch.ask(resolver, options.progress)
        strings = StringTable(self.strings)
        functions = ProfileFunctions(self.functions, self.next_function, strings)
        additions: dict[int, bytes] = {}
        for location, handle in zip(self.locations, handles, strict=True):
            answer = answers[handle]
            tally.count(answer.reason, resolved=bool(answer.frames))
            if answer.frames:
                additions[location.at] = _lines(answer, functions)
                self._spending.written(len(additions[location.at]))
                self._gain(location, answer.frames)
        if not additions:
            return None
        for mapping in self.mappings.values():
            if mapping.gained - mapping.flags:
                flags = sorted(mapping.gained - mapping.flags)
                additions[mapping.at] = b"".join(number_field(flag, 1) for flag in flags)
        return self._joined(additions) + _tables(functions, strings)

    def _ask(self, location: Location, batch: AddressBatch, resolver: Resolver, placer: MappingPlacer) -> int:
        mapping = self.mapping_of(location)
        if mapping is None:
            return batch.add(Reason.UNKNOWN_MODULE)
        if mapping.placed is None:
            found = resolver.module_of(mapping.name, build_id=mapping.build_id)
            mapping.placed = placer.place(mapping.range, found) if isinstance(found, IdentifiedModule) else found
        is_outside = isinstance(mapping.placed, PlacedMapping) and not mapping.range.holds(location.address)
        return batch.add(Reason.OUTSIDE_TEXT if is_outside else mapping.placed, location.address)

    def mapping_of(self, location: Location) -> Mapping | None:
        """The location's own mapping, or the only one with a range that holds its address."""
        if location.mapping:
            return self.mappings.get(location.mapping)
        number = self._ranges.only(location.address)
        return None if number is None else self._in_order[number]

    def _gain(self, location: Location, frames: tuple[Frame, ...]) -> None:
        """Set the flags of a mapping as pprof's own symbolizer does: for what any location of the mapping has."""
        mapping = self.mapping_of(location)
        if mapping is not None:
            mapping.gained |= frame_flags(frames)

    def _joined(self, additions: dict[int, bytes]) -> bytes:
        """All fields in their order; additions go to the end of the message they belong to."""
        pieces: list[bytes] = []
        kept = 0
        for at in sorted(additions):
            item = self.fields[at]
            pieces.append(self.data[kept : item.begin])
            pieces.append(length_field(item.number, self.data[item.value : item.end] + additions[at]))
            kept = item.end
        pieces.append(self.data[kept:])
        return b"".join(pieces)

    def notes(self, resolver: Resolver) -> tuple[str, ...]:
        """Which mappings nobody gave a module for."""
        unknown = (one for one in self.mappings.values() if one.placed is Reason.UNKNOWN_MODULE)
        return tuple(
            resolver.not_given(
                one.name, build_id=one.build_id, otherwise=f"mapping {one.id}, which has neither build id nor name"
            )
            for one in unknown
        )


def _lines(answer: ResolvedAddress, functions: ProfileFunctions) -> bytes:
    folded = number_field(Pprof.Location.is_folded, 1) if answer.folded else b""
    return lines_of(Pprof.Location.line, answer.frames, functions) + folded


def _tables(functions: ProfileFunctions, strings: StringTable) -> bytes:
    new = [
        length_field(
            Pprof.Profile.function,
            number_field(Pprof.Function.id, number) + function_message(key, FUNCTION_FIELDS),
        )
        for number, key in functions.added
    ]
    return b"".join(new) + b"".join(length_field(Pprof.Profile.string_table, text) for text in strings.added)


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of a profile. Raises Malformed and LimitExceeded."""
    return _Reader(data, spending).profile()


class _Reader(StringTableReader):
    def __init__(self, data: bytes, spending: ProfileBudget) -> None:
        super().__init__(data, WHERE, spending)
        self._top: dict[int, list[Field]] = {}
        for item in each_field(data, where=WHERE, spending=spending):
            self._top.setdefault(item.number, []).append(item)
        self._strings = [
            data[one.value : one.end].decode("utf-8", "replace") for one in self._messages(Pprof.Profile.string_table)
        ]
        self._functions: dict[int, tuple[str, str, str, int]] = {}
        for item in self._messages(Pprof.Profile.function):
            inner = self._numbers(item)
            self._functions[inner.get(Pprof.Function.id, 0)] = (
                self._string(inner.get(Pprof.Function.name, 0)),
                self._string(inner.get(Pprof.Function.system_name, 0)),
                self._string(inner.get(Pprof.Function.filename, 0)),
                max(signed(inner.get(Pprof.Function.start_line, 0)), 0),
            )

    def _messages(self, number: int) -> list[Field]:
        return [item for item in self._top.get(number, ()) if item.wire == LENGTH]

    def profile(self) -> SampledProfile:
        types = [self._numbers(item) for item in self._messages(Pprof.Profile.sample_type)]
        value_types = tuple(
            ValueType(self._string(one.get(Pprof.ValueType.type, 0)), self._string(one.get(Pprof.ValueType.unit, 0)))
            for one in types
        )
        started = [item.value for item in self._top.get(Pprof.Profile.time_nanos, ()) if item.wire == VARINT]
        chosen = [item.value for item in self._top.get(Pprof.Profile.default_sample_type, ()) if item.wire == VARINT]
        names = [kind.name for kind in value_types]
        default = self._string(chosen[-1]) if chosen else ""
        found = SampledProfile(
            value_types,
            start=signed(started[-1]) if started and started[-1] else None,
            default=names.index(default) if default in names else 0,
        )
        modules = self._modules(found)
        numbers = self._locations(found, modules)
        found.samples = [self._sample(item, numbers, len(value_types)) for item in self._messages(Pprof.Profile.sample)]
        found.notes.append("pprof has no timestamps")
        return found

    def _modules(self, found: SampledProfile) -> dict[int, int]:
        """Mapping id to the module's number."""
        numbers = {}
        for item in self._messages(Pprof.Profile.mapping):
            inner = self._numbers(item)
            numbers[inner.get(Pprof.Mapping.id, 0)] = len(found.modules)
            names = (
                self._string(inner.get(Pprof.Mapping.filename, 0)),
                self._string(inner.get(Pprof.Mapping.build_id, 0)),
            )
            start, end = inner.get(Pprof.Mapping.memory_start, 0), inner.get(Pprof.Mapping.memory_limit, 0)
            found.modules.append(SampledModule(*names, start, end, inner.get(Pprof.Mapping.file_offset, 0)))
        return numbers

    def _locations(self, found: SampledProfile, modules: dict[int, int]) -> dict[int, int]:
        """Location id to the address's number."""
        numbers = {}
        ranges = RangeLookup([MappedRange(one.start, one.limit, one.offset) for one in found.modules])
        for item in self._messages(Pprof.Profile.location):
            inner = self._inside(item)
            values = {one.number: one.value for one in inner if one.wire == VARINT}
            lines = [self._numbers(one) for one in inner if one.number == Pprof.Location.line and one.wire == LENGTH]
            frames = tuple(self._frame(line, inlined=at < len(lines) - 1) for at, line in enumerate(lines))
            mapping, address = values.get(Pprof.Location.mapping_id, 0), values.get(Pprof.Location.address, 0)
            module = modules.get(mapping) if mapping else ranges.only(address)
            label = place_in_module(None if module is None else found.modules[module], address)
            numbers[values.get(Pprof.Location.id, 0)] = len(found.addresses)
            found.addresses.append(SampledAddress(label, frames, address or None, module))
        return numbers

    def _frame(self, line: dict[int, int], *, inlined: bool) -> Frame:
        name, system, file, start_line = self._functions.get(line.get(Pprof.Line.function_id, 0), ("", "", "", 0))
        linkage = system if system != name else None
        position = signed(line.get(Pprof.Line.line, 0)), signed(line.get(Pprof.Line.column, 0))
        return Frame(name or None, linkage or None, file or None, *position, inlined, start_line)

    def _sample(self, item: Field, numbers: dict[int, int], columns: int) -> Sample:
        stack: list[int] = []
        values: list[int] = []
        labels = []
        for one in self._inside(item):
            if one.number == Pprof.Sample.location_id:
                stack += packed(self._data, one, WHERE)
            elif one.number == Pprof.Sample.value:
                values += map(signed, packed(self._data, one, WHERE))
            elif one.number == Pprof.Sample.label and one.wire == LENGTH:
                inner = self._numbers(one)
                text = self._string(inner.get(Pprof.Label.str, 0))
                labels.append(
                    (self._string(inner.get(Pprof.Label.key, 0)), text or signed(inner.get(Pprof.Label.num, 0)))
                )
        if len(values) != columns:
            raise Malformed(f"a sample has {len(values)} values, and there are {columns} types of them", where=WHERE)
        missing = [number for number in stack if number not in numbers]
        if missing:
            raise Malformed(f"a sample names location {missing[0]}, which is not there", where=WHERE)
        return Sample(tuple(numbers[number] for number in stack), tuple(values), labels=tuple(labels))
