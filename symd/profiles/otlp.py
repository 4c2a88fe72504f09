"""OpenTelemetry profiles (v1development), the ProfilesData or export request message: locations of the dictionary get
their lines, and the function and string tables grow without a duplicate or an orphan."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from symd.errors import Malformed, SymdError, Unsupported
from symd.model.answers import Reason
from symd.profiles.addresses import AddressBatch, MappedRange, MappingPlacer, PlacedMapping
from symd.profiles.profile_format import Options, ProfileBudget, Symbolized, Tally
from symd.profiles.protobuf_wire import (
    LENGTH,
    VARINT,
    Field,
    FunctionKey,
    ProfileFunctions,
    StringTable,
    StringTableReader,
    each_field,
    fields,
    function_message,
    length_field,
    lines_of,
    packed,
    signed,
)
from symd.profiles.resolver import IdentifiedModule, LookupTarget, Resolver, crc_names, section_target
from symd.profiles.schemas import Otlp

NAME = "otlp"
FUNCTION_FIELDS = (
    Otlp.Function.name_strindex,
    Otlp.Function.system_name_strindex,
    Otlp.Function.filename_strindex,
    Otlp.Function.start_line,
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
                or item.number not in (Otlp.ProfilesData.resource_profiles, Otlp.ProfilesData.dictionary)
                or (item.number == Otlp.ProfilesData.dictionary and dictionary)
            ):
                return False
            dictionary = item if item.number == Otlp.ProfilesData.dictionary else dictionary
        inner = each_field(data, dictionary.value, dictionary.end) if dictionary else iter(())
        first = next((item for item in inner if item.number == Otlp.ProfilesDictionary.string_table), None)
    except SymdError:
        return False
    return first is not None and first.wire == LENGTH and first.value == first.end


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add lines to the dictionary's locations that have none and whose mapping is a known module."""
    spending = ProfileBudget(options, len(data))
    whole = each_field(data, where=WHERE, spending=spending)
    found = [item for item in whole if item.number == Otlp.ProfilesData.dictionary and item.wire == LENGTH]
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
    joined = data[: found[0].begin] + length_field(Otlp.ProfilesData.dictionary, changed) + data[found[0].end :]
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


class OtlpDictionary(StringTableReader):
    """The tables of a dictionary, whose entries name each other by number. Raises Malformed and LimitExceeded."""

    def __init__(self, data: bytes, dictionary: Iterable[Field], spending: ProfileBudget) -> None:
        super().__init__(data, WHERE, spending)
        self._tables: dict[int, list[Field]] = {}
        for item in dictionary:
            if item.wire == LENGTH:
                self._tables.setdefault(item.number, []).append(item)
        texts = self._table(Otlp.ProfilesDictionary.string_table)
        self._strings = [data[one.value : one.end].decode("utf-8", "replace") for one in texts]
        self._attributes: dict[int, tuple[str, str | int] | None] = {}

    def _table(self, number: int) -> Sequence[Field]:
        return self._tables.get(number, ())

    def _entry(self, table: int, number: int) -> Field:
        entries = self._table(table)
        if number >= len(entries):
            raise Malformed(f"entry {number} of table {table} is named, there are {len(entries)}", where=WHERE)
        return entries[number]

    def _attributes_of(self, inner: Sequence[Field], number: int) -> list[tuple[str, str | int]]:
        """Keys and values of the attributes that a message names in the field with that number."""
        indexes = [at for one in inner if one.number == number for at in packed(self._data, one, WHERE)]
        return [known for at in indexes if (known := self._attribute(at))]

    def _attribute(self, number: int) -> tuple[str, str | int] | None:
        """Key and value; None where the value is neither text nor an integer."""
        if number not in self._attributes:
            inner = self._inside(self._entry(Otlp.ProfilesDictionary.attribute_table, number))
            key = next((one.value for one in inner if one.number == Otlp.KeyValueAndUnit.key_strindex), 0)
            values = (one for one in inner if one.number == Otlp.KeyValueAndUnit.value and one.wire == LENGTH)
            found = next(map(self._any_value, values), None)
            self._attributes[number] = None if found is None else (self._string(key), found)
        return self._attributes[number]

    def _any_value(self, item: Field) -> str | int | None:
        """An AnyValue that is text or an integer."""
        for one in self._inside(item):
            if one.number == Otlp.AnyValue.string_value and one.wire == LENGTH:
                return self._data[one.value : one.end].decode("utf-8", "replace")
            if one.number == Otlp.AnyValue.int_value and one.wire == VARINT:
                return signed(one.value)
            if one.number == Otlp.AnyValue.string_value_strindex and one.wire == VARINT:
                return self._string(one.value)
        return None


class _Dictionary(OtlpDictionary):
    def __init__(self, data: bytes, whole: Field, spending: ProfileBudget) -> None:
        super().__init__(data, fields(data, whole.value, whole.end, WHERE, spending), spending)
        self._whole = whole
        self._check_zeros()
        self.locations: list[_Location] = []
        self.symbolized = 0
        self._read_locations()
        self.notes: list[str] = []
        self._placed: dict[int, tuple[MappedRange, PlacedMapping | Reason] | None] = {}
        self._kernels: dict[tuple[int, str], LookupTarget | Reason] = {}
        self._missing: set[int] = set()

    def _check_zeros(self) -> None:
        """Index 0 means "not set": without the zero values every index of this revision would be read wrongly."""
        for number, name in (
            (Otlp.ProfilesDictionary.mapping_table, "mapping"),
            (Otlp.ProfilesDictionary.location_table, "location"),
            (Otlp.ProfilesDictionary.function_table, "function"),
            (Otlp.ProfilesDictionary.string_table, "string"),
        ):
            entry = next(iter(self._table(number)), None)
            if entry is None:
                continue
            inner = () if number == Otlp.ProfilesDictionary.string_table else self._inside(entry)
            if (number == Otlp.ProfilesDictionary.string_table and entry.value != entry.end) or any(
                item.wire != VARINT or item.value for item in inner
            ):
                raise Malformed(
                    f"entry 0 of the {name} table is not the zero value",
                    where=WHERE,
                    hint=f"symd reads the layout of {Otlp.REVISION}",
                )

    def _read_locations(self) -> None:
        for item in self._table(Otlp.ProfilesDictionary.location_table)[1:]:
            inner = self._inside(item)
            numbers = {one.number: one.value for one in inner if one.wire == VARINT}
            lines = [one for one in inner if one.number == Otlp.Location.lines and one.wire == LENGTH]
            kernel = self._sampled_kernel(inner, lines) if len(lines) == 1 else None
            if lines and kernel is None:
                self.symbolized += 1
                continue
            content = b"".join(self._data[one.begin : one.end] for one in inner if one not in lines)
            mapping, address = (numbers.get(one, 0) for one in (Otlp.Location.mapping_index, Otlp.Location.address))
            self.locations.append(_Location(item, content, mapping, address, kernel))

    def _sampled_kernel(self, inner: list[Field], lines: list[Field]) -> str | None:
        """The kernel of a location that is a cuda-pc frame without a file and a line; None where it is none."""
        known = self._attributes_of(inner, Otlp.Location.attribute_indices)
        types = [value for key, value in known if key in FRAME_TYPES]
        line = self._numbers(lines[0])
        if CUDA_PC not in types or line.get(Otlp.Line.line, 0):
            return None
        function = self._numbers(
            self._entry(Otlp.ProfilesDictionary.function_table, line.get(Otlp.Line.function_index, 0))
        )
        name, system_name, filename, _ = (function.get(one, 0) for one in FUNCTION_FIELDS)
        called = self._string(system_name) or self._string(name)
        return called if called and not filename else None

    def rewritten(self, resolver: Resolver, options: Options, tally: Tally) -> bytes | None:
        """The dictionary with what is known added; None when that is nothing."""
        batch = AddressBatch()
        placer = MappingPlacer(resolver, options.limits)
        handles = [self._ask(entry, batch, resolver, placer) for entry in self.locations]
        answers = batch.ask(resolver, options.progress)
        texts = self._table(Otlp.ProfilesDictionary.string_table)
        strings = StringTable([self._data[one.value : one.end] for one in texts])
        functions = ProfileFunctions(
            self._functions(), max(1, len(self._table(Otlp.ProfilesDictionary.function_table))), strings
        )
        pieces: list[bytes] = []
        kept = self._whole.value
        for location, handle in zip(self.locations, handles, strict=True):
            answer, item = answers[handle], location.item
            tally.count(answer.reason, resolved=bool(answer.frames))
            if answer.frames:
                content = location.content + lines_of(Otlp.Location.lines, answer.frames, functions)
                self._spending.written(len(content))
                pieces += [
                    self._data[kept : item.begin],
                    length_field(Otlp.ProfilesDictionary.location_table, content),
                ]
                kept = item.end
        if not pieces:
            return None
        return b"".join(pieces) + self._data[kept : self._whole.end] + self._added(functions, strings)

    def _functions(self) -> dict[FunctionKey, int]:
        known: dict[FunctionKey, int] = {}
        for number, item in enumerate(self._table(Otlp.ProfilesDictionary.function_table)):
            numbers = self._numbers(item)
            name, system_name, filename, start_line = (numbers.get(one, 0) for one in FUNCTION_FIELDS)
            key = (name, system_name, filename, start_line)
            if number:
                known.setdefault(key, number)
        return known

    def _added(self, functions: ProfileFunctions, strings: StringTable) -> bytes:
        zero = (
            []
            if self._table(Otlp.ProfilesDictionary.function_table) or not functions.added
            else [length_field(Otlp.ProfilesDictionary.function_table, b"")]
        )
        new = [
            length_field(Otlp.ProfilesDictionary.function_table, function_message(key, FUNCTION_FIELDS))
            for _, key in functions.added
        ]
        return b"".join(
            [*zero, *new, *(length_field(Otlp.ProfilesDictionary.string_table, text) for text in strings.added)]
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
            item = self._entry(Otlp.ProfilesDictionary.mapping_table, mapping)
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
            item = self._entry(Otlp.ProfilesDictionary.mapping_table, number)
            numbers = self._numbers(item)
            extent = (Otlp.Mapping.memory_start, Otlp.Mapping.memory_limit, Otlp.Mapping.file_offset)
            mapped = MappedRange(*(numbers.get(one, 0) for one in extent))
            names = self._identities(item, numbers)
            build_id = names[0] if len(names) > 1 else ""
            found = resolver.module_of(*names, build_id=build_id)
            if found is Reason.UNKNOWN_MODULE:
                self.notes.append(
                    resolver.not_given(*names[bool(build_id) :], build_id=build_id, otherwise=f"mapping {number}")
                )
            placed = placer.place(mapped, found) if isinstance(found, IdentifiedModule) else found
            self._placed[number] = (mapped, placed)
        return self._placed[number]

    def _identities(self, item: Field, numbers: dict[int, int]) -> list[str]:
        """The build ids of a mapping, in the order of ``BUILD_IDS``, then its file name."""
        attributes = dict(self._attributes_of(self._inside(item), Otlp.Mapping.attribute_indices))
        names = [name for key in BUILD_IDS if isinstance(name := attributes.get(key), str) and name]
        return [*names, *filter(None, [self._string(numbers.get(Otlp.Mapping.filename_strindex, 0))])]


def _crc_names(names: list[str]) -> list[str]:
    """What users call a cubin by whose CRC a mapping is named."""
    for name in names:
        found = _CUBIN_CRC.fullmatch(name)
        if found:
            return crc_names(int(found[1] or found[2], 16))
    return []
