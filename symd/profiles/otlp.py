"""OpenTelemetry profiles (v1development), the ProfilesData or export request message: locations of the dictionary get
their lines, and the function and string tables grow without a duplicate or an orphan."""

from __future__ import annotations

import re
from dataclasses import dataclass

from symd.errors import Malformed, SymdError, Unsupported
from symd.model.answers import Reason
from symd.profiles.address_batch import AddressBatch
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.protobuf_wire import LENGTH, VARINT, Field, each_field, fields, length_field, packed
from symd.profiles.resolver import (
    IdentifiedModule,
    LookupTarget,
    MappedRange,
    MappingPlacer,
    PlacedMapping,
    Resolver,
    crc_names,
    section_target,
)
from symd.profiles.schemas import otlp as schema
from symd.profiles.symbol_table import FunctionKey, ProfileFunctions, StringTable, function_message, lines_of

NAME = "otlp"
FUNCTION_FIELDS = (
    schema.Function.name_strindex,
    schema.Function.system_name_strindex,
    schema.Function.filename_strindex,
    schema.Function.start_line,
)
"""Where a Function has what a ``FunctionKey`` has."""
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


def claims(data: bytes) -> bool:
    """A message of resources and one dictionary, whose string table begins with ""."""
    dictionary = None
    try:
        for item in each_field(data):
            if (
                item.wire != LENGTH
                or item.number not in (schema.ProfilesData.resource_profiles, schema.ProfilesData.dictionary)
                or (item.number == schema.ProfilesData.dictionary and dictionary)
            ):
                return False
            dictionary = item if item.number == schema.ProfilesData.dictionary else dictionary
        inner = each_field(data, dictionary.value, dictionary.end) if dictionary else iter(())
        first = next((item for item in inner if item.number == schema.ProfilesDictionary.string_table), None)
    except SymdError:
        return False
    return first is not None and first.wire == LENGTH and first.value == first.end


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add lines to the dictionary's locations that have none and whose mapping is a known module."""
    spending = ProfileBudget(options, len(data))
    whole = each_field(data, where=WHERE, spending=spending)
    found = [item for item in whole if item.number == schema.ProfilesData.dictionary and item.wire == LENGTH]
    if len(found) != 1:
        raise Unsupported(
            f"a profile with {len(found)} dictionaries", where=WHERE, hint="only one is read: merge them first"
        )
    dictionary = _Dictionary(data, found[0], spending)
    tally = Tally(already=dictionary.symbolized)
    changed = dictionary.rewritten(resolver, options, tally)
    report = tally.report(NAME, "locations", tuple(dictionary.notes))
    if changed is None:
        return Symbolized(data, report)
    joined = data[: found[0].begin] + length_field(schema.ProfilesData.dictionary, changed) + data[found[0].end :]
    return Symbolized(joined, report)


@dataclass(frozen=True, slots=True)
class _Location:
    """A location to symbolize. ``content`` are its fields but the lines; ``kernel`` is what the address counts from
    where that is not the mapping."""

    item: Field
    content: bytes
    mapping: int
    address: int
    kernel: str | None


class _Dictionary:
    def __init__(self, data: bytes, whole: Field, spending: ProfileBudget) -> None:
        self.data = data
        self.whole = whole
        self._spending = spending
        self.fields = self._inside(whole)
        self.tables: dict[int, list[Field]] = {}
        for item in self.fields:
            if item.wire == LENGTH:
                self.tables.setdefault(item.number, []).append(item)
        self._check_zeros()
        self.strings = [
            data[item.value : item.end] for item in self.tables.get(schema.ProfilesDictionary.string_table, ())
        ]
        self.locations: list[_Location] = []
        self.symbolized = 0
        self._read_locations()
        self.notes: list[str] = []
        self._placed: dict[int, tuple[MappedRange, PlacedMapping | Reason] | None] = {}
        self._kernels: dict[tuple[int, str], LookupTarget | Reason] = {}
        self._missing: set[int] = set()

    def _inside(self, item: Field) -> list[Field]:
        return fields(self.data, item.value, item.end, WHERE, self._spending)

    def _check_zeros(self) -> None:
        """Index 0 means "not set": without the zero values every index of this revision would be read wrongly."""
        for number, name in (
            (schema.ProfilesDictionary.mapping_table, "mapping"),
            (schema.ProfilesDictionary.location_table, "location"),
            (schema.ProfilesDictionary.function_table, "function"),
            (schema.ProfilesDictionary.string_table, "string"),
        ):
            entry = next(iter(self.tables.get(number, ())), None)
            if entry is None:
                continue
            inner = () if number == schema.ProfilesDictionary.string_table else self._inside(entry)
            if (number == schema.ProfilesDictionary.string_table and entry.value != entry.end) or any(
                item.wire != VARINT or item.value for item in inner
            ):
                raise Malformed(
                    f"entry 0 of the {name} table is not the zero value",
                    where=WHERE,
                    hint=f"symd reads the layout of {schema.REVISION}",
                )

    def _numbers(self, item: Field) -> dict[int, int]:
        inner = self._inside(item)
        return {one.number: one.value for one in inner if one.wire == VARINT}

    def _read_locations(self) -> None:
        for item in self.tables.get(schema.ProfilesDictionary.location_table, ())[1:]:
            inner = self._inside(item)
            numbers = {one.number: one.value for one in inner if one.wire == VARINT}
            lines = [one for one in inner if one.number == schema.Location.lines and one.wire == LENGTH]
            kernel = self._sampled_kernel(inner, lines) if len(lines) == 1 else None
            if lines and kernel is None:
                self.symbolized += 1
                continue
            content = b"".join(self.data[one.begin : one.end] for one in inner if one not in lines)
            mapping, address = (numbers.get(one, 0) for one in (schema.Location.mapping_index, schema.Location.address))
            self.locations.append(_Location(item, content, mapping, address, kernel))

    def _sampled_kernel(self, inner: list[Field], lines: list[Field]) -> str | None:
        """The kernel of a location that is a cuda-pc frame without a file and a line; None where it is none."""
        indexes = [
            number
            for one in inner
            if one.number == schema.Location.attribute_indices
            for number in packed(self.data, one, WHERE)
        ]
        types = [found[1] for found in map(self._attribute, indexes) if found and found[0] in FRAME_TYPES]
        line = self._numbers(lines[0])
        if CUDA_PC not in types or line.get(schema.Line.line, 0):
            return None
        function = self._numbers(
            self._entry(schema.ProfilesDictionary.function_table, line.get(schema.Line.function_index, 0))
        )
        name, system_name, filename, _ = (function.get(one, 0) for one in FUNCTION_FIELDS)
        known = self._string(system_name) or self._string(name)
        return known if known and not filename else None

    def _entry(self, table: int, number: int) -> Field:
        entries = self.tables.get(table, ())
        if number >= len(entries):
            raise Malformed(f"entry {number} of table {table} is named, there are {len(entries)}", where=WHERE)
        return entries[number]

    def _string(self, number: int) -> str:
        item = self._entry(schema.ProfilesDictionary.string_table, number)
        return self.data[item.value : item.end].decode("utf-8", "replace")

    def rewritten(self, resolver: Resolver, options: Options, tally: Tally) -> bytes | None:
        """The dictionary with what is known added; None when that is nothing."""
        batch = AddressBatch()
        placer = MappingPlacer(resolver, options.limits)
        handles = [self._ask(entry, batch, resolver, placer) for entry in self.locations]
        answers = batch.ask(resolver, options.progress)
        strings = StringTable(self.strings)
        functions = ProfileFunctions(
            self._functions(), max(1, len(self.tables.get(schema.ProfilesDictionary.function_table, ()))), strings
        )
        pieces: list[bytes] = []
        kept = self.whole.value
        for location, handle in zip(self.locations, handles, strict=True):
            answer, item = answers[handle], location.item
            tally.count(answer.reason, resolved=bool(answer.frames))
            if answer.frames:
                content = location.content + lines_of(schema.Location.lines, answer.frames, functions)
                self._spending.written(len(content))
                pieces += [
                    self.data[kept : item.begin],
                    length_field(schema.ProfilesDictionary.location_table, content),
                ]
                kept = item.end
        if not pieces:
            return None
        return b"".join(pieces) + self.data[kept : self.whole.end] + self._tables(functions, strings)

    def _functions(self) -> dict[FunctionKey, int]:
        known: dict[FunctionKey, int] = {}
        for number, item in enumerate(self.tables.get(schema.ProfilesDictionary.function_table, ())):
            numbers = self._numbers(item)
            name, system_name, filename, start_line = (numbers.get(one, 0) for one in FUNCTION_FIELDS)
            key = (name, system_name, filename, start_line)
            if number:
                known.setdefault(key, number)
        return known

    def _tables(self, functions: ProfileFunctions, strings: StringTable) -> bytes:
        zero = (
            []
            if self.tables.get(schema.ProfilesDictionary.function_table) or not functions.added
            else [length_field(schema.ProfilesDictionary.function_table, b"")]
        )
        new = [
            length_field(schema.ProfilesDictionary.function_table, function_message(key, FUNCTION_FIELDS))
            for _, key in functions.added
        ]
        return b"".join(
            [*zero, *new, *(length_field(schema.ProfilesDictionary.string_table, text) for text in strings.added)]
        )

    def _ask(self, entry: _Location, batch: AddressBatch, resolver: Resolver, placer: MappingPlacer) -> int:
        if entry.kernel is not None and entry.mapping:
            target = self._kernel_target(entry.mapping, entry.kernel, resolver)
            return batch.add(target, entry.address)
        known = self._mapping(entry.mapping, resolver, placer) if entry.mapping else None
        if known is None:
            return batch.add(Reason.UNKNOWN_MODULE)
        mapped, placed = known
        is_outside = isinstance(placed, PlacedMapping) and not mapped.holds(entry.address)
        return batch.add(Reason.OUTSIDE_TEXT if is_outside else placed, entry.address)

    def _kernel_target(self, mapping: int, kernel: str, resolver: Resolver) -> LookupTarget | Reason:
        """The section of a kernel in the cubin that is mapped, or in any module without an identity that has it."""
        key = (mapping, kernel)
        if key not in self._kernels:
            item = self._entry(schema.ProfilesDictionary.mapping_table, mapping)
            names = self._identities(item, self._numbers(item))
            found = section_target(resolver, [*names, *_crc_names(names)], f".text.{kernel}")
            if found is Reason.UNKNOWN_MODULE and mapping not in self._missing:
                self._missing.add(mapping)
                self.notes.append(f"no module was given for {' or '.join(names)}")
            self._kernels[key] = found
        return self._kernels[key]

    def _mapping(
        self, number: int, resolver: Resolver, placer: MappingPlacer
    ) -> tuple[MappedRange, PlacedMapping | Reason] | None:
        if number not in self._placed:
            item = self._entry(schema.ProfilesDictionary.mapping_table, number)
            numbers = self._numbers(item)
            extent = (schema.Mapping.memory_start, schema.Mapping.memory_limit, schema.Mapping.file_offset)
            mapped = MappedRange(*(numbers.get(one, 0) for one in extent))
            names = self._identities(item, numbers)
            found = resolver.identified(*names)
            if found is Reason.UNKNOWN_MODULE:
                self.notes.append(f"no module was given for {' or '.join(names) or f'mapping {number}'}")
            placed = placer.place(mapped, found) if isinstance(found, IdentifiedModule) else found
            self._placed[number] = (mapped, placed)
        return self._placed[number]

    def _identities(self, item: Field, numbers: dict[int, int]) -> list[str]:
        """The build ids of a mapping, in the order of ``BUILD_IDS``, then its file name."""
        inner = self._inside(item)
        indexes = [
            number
            for one in inner
            if one.number == schema.Mapping.attribute_indices
            for number in packed(self.data, one, WHERE)
        ]
        attributes = dict(filter(None, map(self._attribute, indexes)))
        names = [attributes[key] for key in BUILD_IDS if attributes.get(key)]
        return [*names, *filter(None, [self._string(numbers.get(schema.Mapping.filename_strindex, 0))])]

    def _attribute(self, number: int) -> tuple[str, str] | None:
        """Key and value of an attribute whose value is a string."""
        item = self._entry(schema.ProfilesDictionary.attribute_table, number)
        inner = self._inside(item)
        keyed, valued = schema.KeyValueAndUnit.key_strindex, schema.KeyValueAndUnit.value
        key = next((one.value for one in inner if one.number == keyed and one.wire == VARINT), 0)
        for value in (one for one in inner if one.number == valued and one.wire == LENGTH):
            for one in self._inside(value):
                if one.number == schema.AnyValue.string_value and one.wire == LENGTH:
                    return self._string(key), self.data[one.value : one.end].decode("utf-8", "replace")
                if one.number == schema.AnyValue.string_value_strindex and one.wire == VARINT:
                    return self._string(key), self._string(one.value)
        return None


def _crc_names(names: list[str]) -> list[str]:
    """What users call a cubin by whose CRC a mapping is named."""
    for name in names:
        found = _CUBIN_CRC.fullmatch(name)
        if found:
            return crc_names(int(found[1] or found[2], 16))
    return []
