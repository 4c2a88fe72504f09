"""pprof's profile.proto: locations get their lines, mappings their has_* flags, and every field that is there already
stays. Its samples are read, and any profile is written whole: a location for each address, a Line for each frame
there, innermost first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from symd.errors import Malformed, SymdError
from symd.model.answers import Frame
from symd.profiles.addresses import AddressBatch, AddressOrigin, AddressOrigins, MappedRange, RangeLookup
from symd.profiles.profile_format import Exported, Options, ProfileBudget, Symbolized, Tally, rounding_notes, whole
from symd.profiles.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    FunctionKey,
    ProfileFunctions,
    StringTable,
    each_field,
    parsed,
)
from symd.profiles.resolver import Resolver
from symd.profiles.samples import (
    ADDRESSES,
    Sample,
    SampledAddress,
    SampledModule,
    SampledProfile,
    ValueType,
    place_in_module,
    shown_frames,
)
from symd.v1 import pprof_pb2

NAME = "pprof"
GREATEST_FUNCTION_ID = 1 << 62
"""New functions are numbered after the greatest id below this, so that ids never pass 64 bits."""
ANY = frozenset({VARINT, FIXED64, LENGTH, FIXED32})
WIRE_TYPES = {number: {LENGTH} for number in (1, 2, 3, 4, 5, 6, 11)} | {
    number: {VARINT} for number in (7, 8, 9, 10, 12, 14, 15)
}
"""Wire types of the fields that Profile has; others may come."""
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
    strings = pprof_pb2.Profile.STRING_TABLE_FIELD_NUMBER
    return known and (len(first) == CLAIM_FIELDS or any(item.number == strings for item in first))


class _Tables:
    """The tables of a profile. Raises Malformed and LimitExceeded."""

    def __init__(self, message: pprof_pb2.Profile | pprof_pb2.ProfileTables, spending: ProfileBudget) -> None:
        spending.read(len(message.mapping) + len(message.location) + len(message.function))
        self.message = message
        self.strings = StringTable(message.string_table, WHERE, of_bytes=True)
        self.ranges = [MappedRange(one.memory_start, one.memory_limit, one.file_offset) for one in message.mapping]
        self._numbers = {one.id: number for number, one in enumerate(message.mapping)}
        if 0 in self._numbers or len(self._numbers) < len(message.mapping):
            raise Malformed("a mapping's id is 0 or stands twice", where=WHERE)
        self._by_range = RangeLookup(self.ranges)

    def origin(self, number: int) -> AddressOrigin:
        one = self.message.mapping[number]
        called = f"mapping {one.id}, which has neither build id nor name"
        names = (self.strings.text(one.filename),)
        return AddressOrigin(names, self.strings.text(one.build_id), self.ranges[number], called=called)

    def mapping_of(self, location: pprof_pb2.Location) -> int | None:
        """The number of the location's own mapping, or of the only one with a range that holds its address."""
        if location.mapping_id:
            return self._numbers.get(location.mapping_id)
        return self._by_range.only(location.address)


def symbolize(data: bytes, resolver: Resolver, options: Options) -> Symbolized:
    """Add lines to the locations that have none and whose mapping is a known module: by build id or file name as the
    user named it, or by SHA-256. A location without a mapping belongs to the one whose range holds its address."""
    spending = ProfileBudget(options, len(data))
    message = parsed(pprof_pb2.ProfileTables, data, WHERE, spending)
    profile = _Tables(message, spending)
    origins = AddressOrigins(resolver, options.limits, profile.origin)
    batch = AddressBatch()
    pending = []
    for location in message.location:
        if not location.line:
            target = origins.target(profile.mapping_of(location), location.address)
            pending.append((location, batch.add(target, location.address)))
    answers = batch.ask(resolver, options.progress)
    tally = Tally(already=len(message.location) - len(pending))
    functions = _functions(profile)
    for location, handle in pending:
        answer = answers[handle]
        tally.count(answer.reason, resolved=bool(answer.frames))
        if answer.frames:
            _add_lines(location, answer.frames, functions)
            location.is_folded = location.is_folded or answer.folded
            spending.written(location.ByteSize())
            number = profile.mapping_of(location)
            if number is not None:
                _set_flags(message.mapping[number], answer.frames)
    report = tally.report(NAME, "locations", tuple(origins.notes))
    return Symbolized(message.SerializeToString() if tally.resolved else data, report)


def _functions(profile: _Tables) -> ProfileFunctions:
    known: dict[FunctionKey, int] = {}
    for one in profile.message.function:
        if one.id:
            known.setdefault((one.name, one.system_name, one.filename, one.start_line), one.id)
    ids = (one.id for one in profile.message.function if one.id < GREATEST_FUNCTION_ID)
    return _new_functions(profile.message, profile.strings, known, 1 + max(ids, default=0))


def _new_functions(
    message: pprof_pb2.Profile | pprof_pb2.ProfileTables,
    strings: StringTable,
    known: dict[FunctionKey, int],
    first: int,
) -> ProfileFunctions:
    """The function table of a profile; ``first`` is the id of the next new function."""
    begin = len(message.function)

    def add(key: FunctionKey) -> int:
        number = first + len(message.function) - begin
        name, system_name, filename, start_line = key
        message.function.add(id=number, name=name, system_name=system_name, filename=filename, start_line=start_line)
        return number

    return ProfileFunctions(known, strings, add)


def _add_lines(location: pprof_pb2.Location, frames: Iterable[Frame], functions: ProfileFunctions) -> None:
    """Add the lines of a location: leaf first, as frames are."""
    for frame in frames:
        location.line.add(function_id=functions.number(frame), line=frame.line, column=frame.column)


def _set_flags(mapping: pprof_pb2.Mapping, frames: Iterable[Frame]) -> None:
    """Set the flags of a mapping as pprof's own symbolizer does: for what any location of the mapping has."""
    mapping.has_inline_frames = True
    for frame in frames:
        mapping.has_functions |= bool(frame.function or frame.linkage_name)
        mapping.has_filenames |= bool(frame.file)
        mapping.has_line_numbers |= bool(frame.line)


def read_samples(data: bytes, spending: ProfileBudget) -> SampledProfile:
    """The samples of a profile. Raises Malformed and LimitExceeded."""
    message = parsed(pprof_pb2.Profile, data, WHERE, spending)
    spending.read(len(message.sample))
    profile = _Tables(message, spending)
    text = profile.strings.text
    types = tuple(ValueType(text(one.type), text(one.unit)) for one in message.sample_type)
    names, default = [kind.name for kind in types], text(message.default_sample_type)
    found = SampledProfile(types, start=message.time_nanos or None)
    found.default = names.index(default) if default in names else 0
    for mapped, one in zip(profile.ranges, message.mapping, strict=True):
        named = text(one.filename), text(one.build_id)
        found.modules.append(SampledModule(*named, mapped.start, mapped.limit, mapped.offset))
    functions = {one.id: one for one in message.function}
    for location in message.location:
        spending.read(len(location.line))
        last = len(location.line) - 1
        frames = tuple(
            _frame(line, functions.get(line.function_id), profile.strings, inlined=at < last)
            for at, line in enumerate(location.line)
        )
        number = profile.mapping_of(location)
        label = place_in_module(None if number is None else found.modules[number], location.address)
        found.addresses.append(SampledAddress(label, frames, location.address or None, number))
    numbers = {one.id: number for number, one in enumerate(message.location)}
    for sample in message.sample:
        spending.read(len(sample.label))
        found.samples.append(_sample(sample, numbers, len(types), profile.strings))
    return found


_UNNAMED = pprof_pb2.Function()


def _frame(line: pprof_pb2.Line, function: pprof_pb2.Function | None, strings: StringTable, *, inlined: bool) -> Frame:
    known = function or _UNNAMED
    name, system, file = (strings.text(at) for at in (known.name, known.system_name, known.filename))
    linkage = system if system != name else None
    start_line = max(known.start_line, 0)
    return Frame(name or None, linkage or None, file or None, line.line, line.column, inlined, start_line)


def _sample(sample: pprof_pb2.Sample, numbers: dict[int, int], columns: int, strings: StringTable) -> Sample:
    values = tuple(sample.value)
    if len(values) != columns:
        raise Malformed(f"a sample has {len(values)} values, and there are {columns} types of them", where=WHERE)
    time, labels = None, list[tuple[str, str | int]]()
    for one in sample.label:
        key = strings.text(one.key)
        if key == TIMESTAMP and strings.text(one.num_unit) == _NANOSECONDS:
            time = one.num
        else:
            labels.append((key, strings.text(one.str) or one.num))
    try:
        return Sample(tuple(numbers[one] for one in sample.location_id), values, time, labels=tuple(labels))
    except KeyError as error:
        raise Malformed(f"a sample names location {error}, which is not there", where=WHERE) from error


TIMESTAMP = "timestamp"
"""The label that holds the time of a sample, in nanoseconds: pprof has no field for it."""
_NANOSECONDS = "nanoseconds"


def export(profile: SampledProfile, spending: ProfileBudget) -> Exported:
    """Everything: all value types, labels, modules as mappings with their build ids, addresses as they are."""
    message = pprof_pb2.Profile(string_table=[b""], time_nanos=profile.start or 0)
    strings = StringTable(message.string_table, WHERE, of_bytes=True)
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
    functions = _new_functions(message, strings, {}, 1)
    for number, address in enumerate(profile.addresses, 1):
        location = message.location.add(id=number, address=address.address or 0)
        if address.module is not None:
            location.mapping_id = address.module + 1
        if address.module is not None and address.frames:
            _set_flags(message.mapping[address.module], address.frames)
        is_named = address.frames or address.module is not None
        _add_lines(location, address.frames if is_named else shown_frames(address), functions)
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
        unit = strings.number(_NANOSECONDS)
        added.label.add(key=strings.number(TIMESTAMP), num=whole(sample.time), num_unit=unit)
