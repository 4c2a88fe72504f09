"""A profile's samples on the instructions of modules: for each place where samples were taken its sums, a column a
counter or stall reason."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

from symd.model.answers import Answers, Frame, Reason
from symd.model.line_tables import Listing
from symd.model.summaries import KernelSummary, ModuleSummary
from symd.profiles.addresses import AddressBatch, AddressOrigin, AddressOrigins, MappedRange, PlacedMapping
from symd.profiles.profile_format import Options, no_progress
from symd.profiles.resolver import IdentifiedModule, LookupTarget, OtherBuild, Resolver, crc_names
from symd.profiles.samples import ADDRESSES, Sample, SampledAddress, SampledProfile, Value, ValueType

STALL_REASON: Final = "stall_reason"
"""The label of a sample that says why its wave or warp waited."""
_NAMED: Final = re.compile(r"(?:\[(.+)\]|(.+))", re.DOTALL)
_PLACE: Final = re.compile(r'"?(.*?)"?\+0x([0-9a-fA-F]{1,16})', re.DOTALL)
_CRC: Final = re.compile(r"[0-9a-fA-F]{1,16}")


class InstructionPlace(NamedTuple):
    """An instruction of a module, by the section of a code object; ``address`` is its object address."""

    digest: str
    path: str
    section_index: int
    offset: int
    address: int


@dataclass(slots=True)
class SampleColumns:
    """What the samples of a profile are summed by. ``is_summable``: the columns are parts of one whole, such as stall
    reasons; else the one with the number ``default`` is shown first."""

    columns: tuple[ValueType, ...]
    is_summable: bool
    default: int = 0
    _numbers: dict[ValueType, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._numbers = {kind: number for number, kind in enumerate(self.columns)}

    def of(self, sample: Sample, profile: SampledProfile) -> dict[int, Value]:
        """The values of a sample of the profile, by the numbers of the columns that they count in."""
        if profile.value_types and profile.value_types[0] in self._numbers:
            return dict(enumerate(sample.values))
        name = _reason(sample) or "no reason"
        return {self._numbers[ValueType(name, profile.value_types[0].name)]: sample.values[0]}

    def sample_weight(self, counted: Mapping[int, Value]) -> Value:
        """What a sample whose values are ``counted`` by ``of`` adds to the ``weight`` of its place."""
        return sum(counted.values()) if self.is_summable else counted.get(self.default, 0)

    def weight(self, row: Sequence[Value]) -> Value:
        """What is shown of the sums of columns before another column is chosen."""
        return sum(row) if self.is_summable else row[self.default]

    @property
    def unit(self) -> str:
        """What a weight counts."""
        if not self.columns:
            return "samples"
        if self.is_summable and len(self.columns) > 1:
            return self.columns[0].unit or "samples"
        return self.columns[self.default].name or "samples"


@dataclass(slots=True)
class PlacedSamples(SampleColumns):
    """The samples of a profile by the instructions that they lie at. ``values[place]`` has a sum for each of
    ``columns``. ``left`` are samples that lie nowhere, by reason, also a sum for each column;
    ``other_builds`` are modules whose name some have, and not the build ID; ``notes`` are the profile's own."""

    values: dict[InstructionPlace, list[Value]] = field(default_factory=dict)
    left: dict[Reason, list[Value]] = field(default_factory=dict)
    other_builds: tuple[OtherBuild, ...] = ()
    notes: tuple[str, ...] = ()

    def totals(self) -> list[Value]:
        """The sum of each column over the whole profile."""
        rows = (*self.values.values(), *self.left.values())
        return [sum(column) for column in zip(*rows, strict=True)] or [0] * len(self.columns)

    def on_instructions(self, digest: str, listing: Listing) -> list[Value]:
        """The weight of the samples at each instruction of a code object's listing, in its order: those whose place is
        one of the instruction's bytes."""
        answers = listing.answers
        sections = [(each.path, each.section_index) for each in answers.text_sections]
        starts: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for number, (section, offset) in enumerate(
            zip(answers.text_section.tolist(), answers.offset.tolist(), strict=True)
        ):
            starts.setdefault(sections[section - 1], []).append((offset, number))
        for each in starts.values():
            each.sort()
        weights: list[Value] = [0] * len(listing.text)
        for place, row in self.values.items():
            instructions = starts.get((place.path, place.section_index), ()) if place.digest == digest else ()
            at = bisect_right(instructions, place.offset, key=itemgetter(0)) - 1
            if at >= 0 and place.offset - instructions[at][0] < listing.size[instructions[at][1]]:
                weights[instructions[at][1]] += self.weight(row)
        return weights

    def in_kernels(self, digest: str, summary: ModuleSummary) -> Value:
        """The weight of the samples in kernels of a module; all code of an object that has none counts as one."""
        whole = {each.path for each in summary.objects if not each.kernels}
        kernels: dict[tuple[str, int | None], list[KernelSummary]] = {}
        for each in summary.objects:
            for kernel in each.kernels:
                kernels.setdefault((each.path, kernel.section_index), []).append(kernel)
        return sum(
            self.weight(row)
            for place, row in self.values.items()
            if place.digest == digest
            and (
                place.path in whole
                or any(
                    0 <= place.offset - kernel.offset < kernel.size
                    for kernel in kernels.get((place.path, place.section_index), ())
                )
            )
        )


def placed(profile: SampledProfile, resolver: Resolver, options: Options | None = None) -> PlacedSamples:
    """Every sample at its leaf: the innermost entry of its stack that is an address. Raises what the symbolizer
    raises."""
    options = options or Options()
    counted = sample_columns(profile)
    found = PlacedSamples(counted.columns, counted.is_summable, counted.default, notes=tuple(profile.notes))
    addresses = AddressPlaces(profile, resolver, options)
    places, found.other_builds = addresses.places, tuple(addresses.other_builds)
    for sample in profile.samples:
        values = found.of(sample, profile)
        place = next((place for at in sample.stack if (place := places.get(at)) is not None), Reason.UNKNOWN_MODULE)
        width = len(found.columns)
        if isinstance(place, Reason):
            row = found.left.setdefault(place, [0] * width)
        else:
            row = found.values.setdefault(place, [0] * width)
        for column, value in values.items():
            row[column] += value
    return found


def sample_columns(profile: SampledProfile) -> SampleColumns:
    """A column for each stall reason where samples have them, else for each value type."""
    reasons = sorted({reason for sample in profile.samples if (reason := _reason(sample)) is not None})
    if not reasons or len(profile.value_types) != 1:
        is_summable = len({each.unit for each in profile.value_types}) == 1
        return SampleColumns(tuple(dict.fromkeys(profile.value_types)), is_summable, profile.default)
    unit = profile.value_types[0].name
    names = [*reasons, *(("no reason",) if any(_reason(each) is None for each in profile.samples) else ())]
    return SampleColumns(tuple(ValueType(name, unit) for name in names), is_summable=True)


def _reason(sample: Sample) -> str | None:
    for key, value in sample.labels:
        if key == STALL_REASON:
            return f"reason {value}" if isinstance(value, int) else value.lower().replace("_", " ")
    return None


class AddressPlaces:
    """Where each address of a profile lies, looked up in columns: ``places`` by its number, the reason where that is at
    no one instruction; entries of stacks that are no addresses are missing. An address that may lie in several code
    objects, all of which have the same line there, has ``frames`` and is AMBIGUOUS. Raises what the symbolizer
    raises."""

    def __init__(self, profile: SampledProfile, resolver: Resolver, options: Options) -> None:
        self._profile, self._resolver = profile, resolver
        self._modules = AddressOrigins(resolver, options.limits, self._module)
        self.other_builds = self._modules.other_builds
        self._functions = AddressOrigins(resolver, options.limits, self._function)
        self._named: dict[str, LookupTarget | Reason] = {}
        self._answers: dict[int, tuple[Answers, int]] = {}
        """The answers that an address's is among, and its number there."""
        self.kernels: dict[int, str] = {}
        """The kernel of a known module that an address counts from, in its code or behind its end."""
        self.places = self._all()

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The frames at the address with that number, innermost first; none where no line or function is known."""
        answers, at = self._answers.get(number, (None, 0))
        return () if answers is None else answers[at].frames

    def reason(self, number: int) -> Reason | None:
        """The reason of the answer to the address with that number; None where it lies in no text that is known."""
        answers, at = self._answers.get(number, (None, 0))
        return None if answers is None else answers[at].reason

    def only(self, numbers: Collection[int]) -> AddressPlaces:
        """Returns a copy whose ``places`` are those of the addresses with these numbers; all else is the same."""
        found = copy(self)
        found.places = {number: place for number, place in self.places.items() if number in numbers}
        return found

    def _all(self) -> dict[int, InstructionPlace | Reason]:
        batch = AddressBatch()
        found: dict[int, InstructionPlace | Reason] = {}
        numbers: dict[int, list[int]] = {}
        for number, address in enumerate(self._profile.addresses):
            if address.address is None:
                continue
            target, offset = self._target(address, address.address)
            if isinstance(target, PlacedMapping) and not 0 <= offset + target.bias < ADDRESSES:
                target = Reason.OUTSIDE_TEXT
            if isinstance(target, Reason):
                found[number] = target
            else:
                numbers.setdefault(batch.add(target, offset), []).append(number)
            if isinstance(target, LookupTarget) and target.kernel is not None:
                self.kernels[number] = target.kernel
        for target, handles, answers in batch.asked(self._resolver, no_progress):
            locations = answers.locations
            is_answered = ((locations.function != 0) | (locations.file != 0))[answers.location].tolist()
            reasons = locations.reason[answers.location].tolist()
            columns = answers.text_section.tolist(), answers.offset.tolist()
            for at, (handle, section, offset) in enumerate(zip(handles, *columns, strict=True)):
                place: InstructionPlace | Reason = Reason.AMBIGUOUS if is_answered[at] else Reason(reasons[at])
                if section or is_answered[at]:
                    self._answers |= dict.fromkeys(numbers[handle], (answers, at))
                if section:
                    text = answers.text_sections[section - 1]
                    value = text.address + offset
                    place = InstructionPlace(target.digest, text.path, text.section_index, offset, value)
                found |= dict.fromkeys(numbers[handle], place)
        return found

    def _target(self, entry: SampledAddress, address: int) -> tuple[LookupTarget | PlacedMapping | Reason, int]:
        """What the address of an entry counts from, and the offset."""
        module = None if entry.module is None else self._profile.modules[entry.module]
        if module is not None and entry.module is not None and (module.limit or module.start or module.identity):
            return self._modules.target((entry.module, not entry.frames)), address
        label = _NAMED.fullmatch(entry.label)
        place = _PLACE.fullmatch((label[1] or label[2]) if label else "")
        if place is None:
            return Reason.UNKNOWN_MODULE, 0
        if module is not None and module.name.startswith("cubin-"):
            target = self._functions.target((module.build_id, place[1]))
            return Reason.UNKNOWN_KERNEL if target is Reason.UNKNOWN_MODULE else target, int(place[2], 16)
        if place[1] not in self._named:
            self._named[place[1]] = self._kernel(place[1])
        return self._named[place[1]], int(place[2], 16)

    def _module(self, key: tuple[int, bool]) -> AddressOrigin:
        """The profile's module of a number; it is wanted for an address without frames."""
        number, is_wanted = key
        module = self._profile.modules[number]
        if not (module.limit or module.start):
            return AddressOrigin((module.identity,), is_wanted=is_wanted)
        names = tuple(filter(None, (module.identity, module.name)))
        mapped = MappedRange(module.start, module.limit, module.offset)
        return AddressOrigin(names, module.build_id, mapped, is_wanted=is_wanted)

    def _function(self, key: tuple[str, str]) -> AddressOrigin:
        """A function of the CUDA module with a CRC."""
        crc, name = key
        return AddressOrigin(tuple(crc_names(int(crc, 16)) if _CRC.fullmatch(crc) else ()), section=f".text.{name}")

    def _kernel(self, name: str) -> LookupTarget | Reason:
        identified = self._resolver.identified(name)
        if isinstance(identified, IdentifiedModule):
            return LookupTarget(identified.digest, path=identified.path)
        return self._resolver.kernel_or_file(name)
