"""Where the values of a profile fall: its lines, instructions, functions, kernels and files, the hottest first.

A sample counts where it was taken: at the first entry of its stack, in the innermost frame there. Nothing is dropped,
so that the values of all places together are those of the profile. Before any module is given, the same sums are those
of the modules and kernels that the profile names, with how much of them has no line yet."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter, itemgetter
from typing import Final, NamedTuple

from symd.errors import BadQuery
from symd.model.answers import Frame, Reason
from symd.model.summaries import KernelSummary, ModuleSummary
from symd.profiles.placed import AddressPlaces, InstructionPlace, SampleColumns, sample_columns
from symd.profiles.resolver import SIMD_WIDTH, is_code_file, module_file_name
from symd.profiles.samples import (
    SampledAddress,
    SampledModule,
    SampledProfile,
    Value,
    ValueType,
    counted_from,
    shown_frames,
    shown_name,
)

BY: Final = ("line", "instruction", "function", "kernel", "file", "stall")
"""What a profile can be summed by."""


class ProfilePlace(NamedTuple):
    """A line, an instruction, a function, a kernel, a file or a stall reason of a profile; what the sum is not by is
    None or 0.
    ``instruction`` is KERNEL+OFFSET, as every verb of the command takes it. ``reason`` says why samples lie in no
    function of a module that is known; of these there is nothing else but the kernel as the profile calls it, and the
    instruction in code of no function."""

    file: str | None = None
    line: int = 0
    function: str | None = None
    kernel: str | None = None
    instruction: str | None = None
    reason: Reason | None = None
    stall: str | None = None


class HotRow(NamedTuple):
    """The sum of a place: ``values`` has one for each column of the profile, ``weight`` is what places are ordered by.
    ``callers`` are the frames that the place was inlined into, innermost first, where most of its weight is, and
    ``caller_weight`` is how much that is; ``other_callers`` counts the other ways in which it was inlined or called."""

    place: ProfilePlace
    weight: Value
    values: tuple[Value, ...]
    callers: tuple[Frame, ...]
    caller_weight: Value
    other_callers: int = 0


class HotProfile(NamedTuple):
    """A profile summed by ``by``, one of ``BY``. ``total`` is the weight of all rows; ``columns`` are what
    ``HotRow.values`` and weights count."""

    by: str
    rows: tuple[HotRow, ...]
    total: Value
    columns: SampleColumns


def hot(
    profile: SampledProfile,
    addresses: AddressPlaces | None,
    summary: Callable[[str], ModuleSummary],
    by: str = "line",
    value: str | None = None,
) -> HotProfile:
    """A profile as it is, or symbolized, summed by one of ``BY``. ``addresses`` are the places of its addresses, None
    where all have frames; ``summary`` tells what is in the module of a digest. ``value`` names the column that counts;
    without it that is all of them where they are parts of a whole, else the one that the profile shows first.

    Raises BadQuery where the profile has no such column, and where it is to be summed by stall reasons and has none."""
    columns = sample_columns(profile)
    if by == "stall":
        return _stalls(profile, columns, value)
    if value is not None:
        columns = replace(columns, is_summable=False, default=_numbered(columns.columns, value))
    naming = _PlaceNames(profile, addresses, summary, by)
    sums: dict[ProfilePlace, list[Value]] = {}
    heaviest: dict[ProfilePlace, dict[tuple[Frame, ...], Value]] = {}
    for sample in profile.samples:
        place, callers = naming.of(sample.stack[0] if sample.stack else None)
        row = sums.setdefault(place, [0] * len(columns.columns))
        counted = columns.of(sample, profile)
        for column, number in counted.items():
            row[column] += number
        chains = heaviest.setdefault(place, {})
        chains[callers] = chains.get(callers, 0) + columns.sample_weight(counted)
    rows = []
    for (place, row), chains in zip(sums.items(), heaviest.values(), strict=True):
        callers, weight = max(chains.items(), key=itemgetter(1))
        rows.append(HotRow(place, columns.weight(row), tuple(row), callers, weight, len(chains) - 1))
    rows.sort(key=lambda row: (-row.weight, *(str(each) for each in row.place)))
    return HotProfile(by, tuple(rows), sum(row.weight for row in rows), columns)


def sample_kernels(
    profile: SampledProfile, addresses: AddressPlaces | None, summary: Callable[[str], ModuleSummary]
) -> list[str | None]:
    """The kernel that each sample of a profile lies in, as a sum by kernels names it, but without the SIMD width of
    one that no module has; None for a module that is not known."""
    naming = _PlaceNames(profile, addresses, summary, "kernel")
    places = (naming.of(sample.stack[0] if sample.stack else None)[0] for sample in profile.samples)
    return [place.kernel if place.reason is None else _unknown_kernel(place.kernel) for place in places]


def _unknown_kernel(name: str | None) -> str | None:
    return None if name is None or is_code_file(name) else SIMD_WIDTH.sub("", name)


def _stalls(profile: SampledProfile, columns: SampleColumns, value: str | None) -> HotProfile:
    """A profile summed by its stall reasons: each column that has samples is a row."""
    if not columns.is_summable or len(columns.columns) < 2:
        hint = "--by line, instruction, function, kernel or file sums it"
        raise BadQuery("the profile has no stall reasons", where="--by stall", hint=hint)
    shown = range(len(columns.columns)) if value is None else [_numbered(columns.columns, value)]
    sums: list[Value] = [0] * len(columns.columns)
    for sample in profile.samples:
        for column, number in columns.of(sample, profile).items():
            sums[column] += number
    rows = [
        HotRow(
            ProfilePlace(stall=columns.columns[at].name),
            sums[at],
            tuple(number if column == at else 0 for column, number in enumerate(sums)),
            (),
            sums[at],
        )
        for at in shown
        if sums[at]
    ]
    rows.sort(key=lambda row: (-row.weight, row.place.stall))
    return HotProfile("stall", tuple(rows), sum(row.weight for row in rows), columns)


def _numbered(columns: Sequence[ValueType], value: str) -> int:
    """The number of the column of that name."""
    names = [each.name for each in columns]
    if value not in names:
        raise BadQuery(f"the profile has no values {value!r}", where="--value", hint=f"it has {', '.join(names)}")
    return names.index(value)


class _PlaceNames:
    """The place of each address of a profile, and the frames that it was inlined into."""

    def __init__(
        self,
        profile: SampledProfile,
        addresses: AddressPlaces | None,
        summary: Callable[[str], ModuleSummary],
        by: str,
    ) -> None:
        self._profile, self._addresses, self._summary, self._by = profile, addresses, summary, by
        self._known: dict[int, tuple[ProfilePlace, tuple[Frame, ...]]] = {}
        self._kernels: dict[tuple[str, str, int], list[KernelSummary]] = {}
        self._modules: set[str] = set()

    def of(self, number: int | None) -> tuple[ProfilePlace, tuple[Frame, ...]]:
        """The place of the address with that number."""
        if number is None:
            return ProfilePlace(reason=Reason.UNKNOWN_MODULE), ()
        if number not in self._known:
            self._known[number] = self._made(number, self._profile.addresses[number])
        return self._known[number]

    def _made(self, number: int, address: SampledAddress) -> tuple[ProfilePlace, tuple[Frame, ...]]:
        place: InstructionPlace | Reason = Reason.UNKNOWN_MODULE
        frames = address.frames
        if self._addresses is not None:
            place = self._addresses.places.get(number, place)
            frames = frames or self._addresses.frames(number)
            if not frames and self._addresses.reason(number) is Reason.GAP:
                return self._nowhere(number, Reason.GAP), ()
        if not frames and isinstance(place, InstructionPlace):
            kernel = self._kernel_at(place)
            frames = (Frame(kernel[0] or address.label, None, None, 0, 0, inlined=False),)
        elif not frames:
            if address.address is not None:
                return self._nowhere(number, place if isinstance(place, Reason) else None), ()
            frames = (Frame(address.label, None, None, 0, 0, inlined=False),)
        innermost = frames[0]
        name = shown_name(innermost)
        if self._by == "file":
            return ProfilePlace(file=innermost.file), ()
        if self._by == "function":
            return ProfilePlace(file=innermost.file, function=name), ()
        at = self._kernel_at(place) if isinstance(place, InstructionPlace) else (None, None)
        if self._by == "kernel":
            return ProfilePlace(kernel=at[0] or self._counted_from(number) or shown_name(frames[-1])), ()
        line = ProfilePlace(innermost.file, innermost.line, name)
        if self._by == "instruction":
            line = line._replace(kernel=at[0], instruction=at[1] or self._written(number))
        return line, tuple(frame._replace(column=0) for frame in frames[1:])

    def _written(self, number: int) -> str:
        """An address as the profile has it, from the begin of a kernel as a query."""
        address, kernel = self._profile.addresses[number], self._counted_from(number)
        if kernel is not None:
            return f"{kernel}+{address.address or 0:#x}"
        return address.label or f"{address.address or 0:#x}"

    def _nowhere(self, number: int, reason: Reason | None) -> ProfilePlace:
        """The place of an address that lies in no function of a known module: behind the end of a kernel it is that
        kernel's, and an unknown kernel has the name that the profile gives it."""
        if self._by == "kernel" and (kernel := self._counted_from(number)):
            return ProfilePlace(kernel=kernel)
        if self._by == "kernel" and reason is Reason.UNKNOWN_KERNEL:
            return ProfilePlace(kernel=counted_from(self._profile.addresses[number]) or None, reason=reason)
        if self._by == "instruction" and reason is Reason.GAP:
            return ProfilePlace(instruction=self._written(number), reason=reason)
        return ProfilePlace(reason=reason)

    def _counted_from(self, number: int) -> str | None:
        """The known kernel that an address counts from."""
        return None if self._addresses is None else self._addresses.kernels.get(number)

    def _kernel_at(self, place: InstructionPlace) -> tuple[str | None, str]:
        """The kernel whose code a place is in, None where it is a function's, and the place as a query."""
        if place.digest not in self._modules:
            self._modules.add(place.digest)
            for each in self._summary(place.digest).objects:
                for kernel in sorted(each.kernels, key=attrgetter("offset")):
                    self._kernels.setdefault((place.digest, each.path, kernel.section_index), []).append(kernel)
        kernels = self._kernels.get((place.digest, place.path, place.section_index), [])
        at = bisect_right(kernels, place.offset, key=attrgetter("offset")) - 1
        if at >= 0 and (place.offset - kernels[at].offset < kernels[at].size or not kernels[at].size):
            return kernels[at].name, f"{kernels[at].name}+{place.offset - kernels[at].offset:#x}"
        return None, f"{place.address:#x}"


class HotPlace(NamedTuple):
    """A line of a file, in a function; one line has several where it is inlined, or a template."""

    file: str
    line: int
    function: str


def hot_lines(profile: SampledProfile, column: int, *, callers: bool = False) -> dict[HotPlace | None, Value]:
    """The sum of the values in a column by the place of each sample's leaf: its innermost frame, or (``callers``) the
    one that all others are inlined into. None: those of samples without a line."""
    places = [_place(profile, number, callers=callers) for number in range(len(profile.addresses))]
    totals: dict[HotPlace | None, Value] = {}
    for sample in profile.samples:
        place = places[sample.stack[0]] if sample.stack else None
        totals[place] = totals.get(place, 0) + sample.values[column]
    return totals


def _place(profile: SampledProfile, number: int, *, callers: bool) -> HotPlace | None:
    frames = profile.addresses[number].frames
    if not frames:
        return None
    frame = frames[-1 if callers else 0]
    if frame.file is None or not frame.line:
        return None
    return HotPlace(frame.file, frame.line, frame.function or frame.linkage_name or "(unnamed)")


_CUBIN = re.compile(r"cubin-([0-9a-f]{16}|)")
"""What CUPTI's cubins are called here, by their CRC; one that has none cannot be given."""


class NamedPart(NamedTuple):
    """What a profile calls a module or a kernel. ``build_id`` and ``identity`` are "" where it has none, as kernels
    have; ``identity`` is the number of a code object. A kernel without a name is code of which nothing is known."""

    name: str
    build_id: str = ""
    identity: str = ""

    @property
    def wanted(self) -> str:
        """The ID that ``-m ID=FILE`` gives a module; "" for memory of a process such as [jit], which is no file."""
        if self.name.startswith("["):
            return ""
        if crc := _CUBIN.fullmatch(self.name):
            return f"{int(crc[1], 16):#x}" if crc[1] else ""
        return self.identity or module_file_name(self.name) or self.build_id


@dataclass(slots=True)
class PartSamples:
    """The weight of the samples in a module or a kernel, and that of those without a line."""

    value: Value = 0
    without_line: Value = 0
    is_wanted: bool = False
    """Whether one of them lies at an address without a line."""


class ProfileContents(NamedTuple):
    """A profile's samples by the modules that they lie in, and by the kernels where it names no module. ``columns``
    say what is counted."""

    columns: SampleColumns
    modules: dict[NamedPart, PartSamples]
    kernels: dict[NamedPart, PartSamples]
    total: Value

    def wanted(self) -> Iterator[str]:
        """The IDs of the modules that have samples without a line."""
        return (part.wanted for part, each in self.modules.items() if each.is_wanted and part.wanted)

    def is_kernel_wanted(self) -> bool:
        """Whether samples without a line count from the begin of a kernel."""
        return any(each.is_wanted for each in self.kernels.values())


def contents(profile: SampledProfile) -> ProfileContents:
    """Sum the samples of a profile by their leaves, the heaviest module and kernel first."""
    columns = sample_columns(profile)
    modules = {_module_part(each): PartSamples() for each in profile.modules}
    kernels: dict[NamedPart, PartSamples] = {}
    total: Value = 0
    leaves: dict[int, _Leaf] = {}  # many samples have few leaves
    for sample in profile.samples:
        weight = columns.sample_weight(columns.of(sample, profile))
        total += weight
        number = sample.stack[0] if sample.stack else _NO_STACK
        if (leaf := leaves.get(number)) is None:
            address = SampledAddress("(no stack)") if number == _NO_STACK else profile.addresses[number]
            leaf = leaves[number] = _leaf(address, profile)
        found = (modules if leaf.is_in_module else kernels).setdefault(leaf.part, PartSamples())
        found.value += weight
        if not leaf.has_line:
            found.without_line += weight
            found.is_wanted = found.is_wanted or leaf.is_place
    return ProfileContents(columns, _heaviest_first(modules), _heaviest_first(kernels), total)


def _heaviest_first(parts: dict[NamedPart, PartSamples]) -> dict[NamedPart, PartSamples]:
    return dict(sorted(parts.items(), key=lambda item: (-item[1].value, item[0])))


def _module_part(module: SampledModule) -> NamedPart:
    return NamedPart(module.name, module.build_id, module.identity)


_NO_STACK = -1


class _Leaf(NamedTuple):
    """What an address lies in, whether that is a module, whether it can be found in a file, and whether it has a
    line."""

    part: NamedPart
    is_in_module: bool
    is_place: bool
    has_line: bool


def _leaf(address: SampledAddress, profile: SampledProfile) -> _Leaf:
    part, is_in_module = _part_of(address, profile)
    is_place = address.address is not None and bool(address.module is not None or counted_from(address))
    return _Leaf(part, is_in_module, is_place, any(frame.line for frame in address.frames[:1]))


def _part_of(address: SampledAddress, profile: SampledProfile) -> tuple[NamedPart, bool]:
    """What an address lies in, and whether that is a module."""
    if address.module is not None:
        return _module_part(profile.modules[address.module]), True
    name = counted_from(address)
    if address.address is not None and not address.frames:
        return NamedPart(name), is_code_file(name)
    return NamedPart(shown_name(shown_frames(address)[-1])), False
