"""pprof's profile.proto: locations get their lines, mappings their has_* flags, and every byte that is
there already stays.

Field numbers: github.com/google/pprof, proto/profile.proto, at revision b9395ee17fa0.
Profile: mapping 3, location 4, function 5, string_table 6. Mapping: id 1, memory_start 2, memory_limit 3, file_offset 4,
filename 5, build_id 6, has_functions 7, has_filenames 8, has_line_numbers 9, has_inline_frames 10. Location: id 1,
mapping_id 2, address 3, line 4, is_folded 5. Line: function_id 1, line 2, column 3. Function: id 1, name 2,
system_name 3, filename 4, start_line 5."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from symd.errors import Malformed, SymdError
from symd.model.answers import Frame, Reason
from symd.profiles.address_batch import AddressBatch, ResolvedAddress
from symd.profiles.format import Options, Symbolized, Tally
from symd.profiles.mapped import MappedRange, MappingPlacer, PlacedMapping, RangeLookup
from symd.profiles.protobuf_wire import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    Field,
    each_field,
    fields,
    length_field,
    number_field,
)
from symd.profiles.resolver import IdentifiedModule, Resolver
from symd.profiles.spending import Spending
from symd.profiles.symbol_table import FunctionKey, FunctionTable, StringTable, function_message, lines_of

NAME = "pprof"
MAPPING, LOCATION, FUNCTION, STRING = 3, 4, 5, 6
HAS_FUNCTIONS, HAS_FILENAMES, HAS_LINE_NUMBERS, HAS_INLINE_FRAMES = 7, 8, 9, 10
LINE, IS_FOLDED = 4, 5
GREATEST_FUNCTION_ID = 1 << 62
"""New functions are numbered after the greatest id below this, so that ids never pass 64 bits."""
_READ = frozenset({MAPPING, LOCATION, FUNCTION, STRING})
"""The fields of Profile that are looked into; samples, the most of all, are passed over."""
ANY = frozenset({VARINT, FIXED64, LENGTH, FIXED32})
WIRE_TYPES = {number: {LENGTH} for number in (1, 2, 3, 4, 5, 6, 11)} | {
    number: {VARINT} for number in (7, 8, 9, 10, 12, 14, 15)
}
"""Wire types of the fields that Profile has; others may come."""
CLAIM_FIELDS = 1000
"""Fields that are looked at to recognise the format."""
WHERE = "the pprof profile"


def claims(data: bytes) -> bool:
    """The first fields are those of a Profile; where they are all, a string table is among them."""
    try:
        first = list(islice(each_field(data), CLAIM_FIELDS))
    except SymdError:
        return False
    known = all(item.wire in WIRE_TYPES.get(item.number, ANY) for item in first)
    return known and (len(first) == CLAIM_FIELDS or any(item.number == STRING for item in first))


@dataclass(slots=True)
class Mapping:
    """A Mapping as read; ``flags`` are the has_* fields that are set, ``gained`` those that symbolizing adds."""

    at: int
    id: int
    range: MappedRange
    names: tuple[str, ...]
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
    spending = Spending(options.limits, len(data))
    profile = _Profile(data, spending)
    tally = Tally(already=profile.symbolized)
    changed = profile.rewritten(resolver, options, tally)
    report = tally.report(NAME, "locations", profile.notes())
    if changed is None:
        return Symbolized(data, report)
    return Symbolized(changed, report)


class _Profile:
    def __init__(self, data: bytes, spending: Spending) -> None:
        self.data = data
        self._spending = spending
        self.fields = [item for item in each_field(data, where=WHERE, spending=spending) if item.number in _READ]
        self.strings = [self._content(item) for item in self.fields if item.number == STRING]
        self.mappings: dict[int, Mapping] = {}
        self.locations: list[Location] = []
        self.symbolized = 0
        self.functions: dict[FunctionKey, int] = {}
        self.next_function = 1
        readers = {MAPPING: self._read_mapping, LOCATION: self._read_location, FUNCTION: self._read_function}
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
        names = tuple(filter(None, (self._string(numbers.get(6, 0)), self._string(numbers.get(5, 0)))))
        covered = MappedRange(numbers.get(2, 0), numbers.get(3, 0), numbers.get(4, 0))
        flags = {flag for flag in range(HAS_FUNCTIONS, HAS_INLINE_FRAMES + 1) if numbers.get(flag)}
        mapping = Mapping(at, numbers.get(1, 0), covered, names, flags)
        if not mapping.id or mapping.id in self.mappings:
            raise Malformed(f"mapping id {mapping.id} is 0 or stands twice", where=WHERE)
        self.mappings[mapping.id] = mapping

    def _read_location(self, at: int, item: Field) -> None:
        numbers: dict[int, int] = {}
        for inner in self._inside(item):
            if inner.number == LINE and inner.wire == LENGTH:
                self.symbolized += 1
                return
            if inner.wire == VARINT:
                numbers[inner.number] = inner.value
        self.locations.append(Location(at, numbers.get(2, 0), numbers.get(3, 0)))

    def _read_function(self, _at: int, item: Field) -> None:
        numbers = self._numbers(item)
        key = (numbers.get(2, 0), numbers.get(3, 0), numbers.get(4, 0), numbers.get(5, 0))
        number = numbers.get(1, 0)
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
        functions = FunctionTable(self.functions, self.next_function, strings)
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
            return batch.refuse(Reason.UNKNOWN_MODULE)
        if mapping.placed is None:
            found = resolver.identified(*mapping.names)
            mapping.placed = placer.place(mapping.range, found) if isinstance(found, IdentifiedModule) else found
        if isinstance(mapping.placed, Reason):
            return batch.refuse(mapping.placed)
        if not mapping.range.holds(location.address):
            return batch.refuse(Reason.OUTSIDE_TEXT)
        return batch.add(batch.target(mapping.placed.target), location.address + mapping.placed.bias)

    def mapping_of(self, location: Location) -> Mapping | None:
        """The location's own mapping, or the only one with a range that holds its address."""
        if location.mapping:
            return self.mappings.get(location.mapping)
        number = self._ranges.only(location.address)
        return None if number is None else self._in_order[number]

    def _gain(self, location: Location, frames: tuple[Frame, ...]) -> None:
        """As pprof's own symbolizer sets the flags: for what any location of the mapping has."""
        mapping = self.mapping_of(location)
        if mapping is None:
            return
        mapping.gained.add(HAS_INLINE_FRAMES)
        for frame in frames:
            mapping.gained |= {HAS_FUNCTIONS} if frame.function or frame.linkage_name else set()
            mapping.gained |= {HAS_FILENAMES} if frame.file else set()
            mapping.gained |= {HAS_LINE_NUMBERS} if frame.line else set()

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

    def notes(self) -> tuple[str, ...]:
        """Which mappings nobody gave a module for."""
        unknown = [one for one in self.mappings.values() if one.placed is Reason.UNKNOWN_MODULE]
        names = [" or ".join(one.names) or f"mapping {one.id}, which has neither build id nor name" for one in unknown]
        return tuple(f"no module was given for {name}" for name in names)


def _lines(answer: ResolvedAddress, functions: FunctionTable) -> bytes:
    folded = number_field(IS_FOLDED, 1) if answer.folded else b""
    return lines_of(LINE, answer.frames, functions) + folded


def _tables(functions: FunctionTable, strings: StringTable) -> bytes:
    new = [
        length_field(FUNCTION, number_field(1, number) + function_message(2, key)) for number, key in functions.added
    ]
    return b"".join(new) + b"".join(length_field(STRING, text) for text in strings.added)
