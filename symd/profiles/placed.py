"""A profile's samples on the instructions of modules: for each place where samples were taken its sums, a column a
counter or stall reason."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final, NamedTuple

import numpy as np

from symd.model.answers import Answers, Frame, Reason
from symd.model.line_tables import Listing
from symd.model.summaries import KernelSummary, ModuleSummary
from symd.profiles.addresses import MappedRange, MappingPlacer, PlacedMapping
from symd.profiles.profile_format import Options
from symd.profiles.resolver import IdentifiedModule, LookupTarget, OtherBuild, Resolver, crc_names
from symd.profiles.samples import Sample, SampledAddress, SampledProfile, Value, ValueType

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
    """Where each address of a profile lies, looked up in columns: ``places`` by its number; entries of stacks that are
    no addresses are missing. Raises what the symbolizer raises."""

    def __init__(self, profile: SampledProfile, resolver: Resolver, options: Options) -> None:
        self._profile, self._resolver = profile, resolver
        self._placer = MappingPlacer(resolver, options.limits)
        self._named: dict[str, LookupTarget | Reason] = {}
        self._mapped: dict[tuple[int, bool], PlacedMapping | Reason] = {}
        self.other_builds: dict[OtherBuild, None] = {}
        """Modules that have a mapping's name and are not the build that the profile names."""
        self._answers: dict[int, tuple[Answers, int]] = {}
        """The answers that an address's is among, and its number there."""
        self.kernels: dict[int, str] = {}
        """The kernel of a known module that an address counts from, in its code or behind its end."""
        self.places = self._all()

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The frames at the address with that number, innermost first; none where it lies in no text that is known."""
        answers, at = self._answers.get(number, (None, 0))
        return () if answers is None else answers[at].frames

    def reason(self, number: int) -> Reason | None:
        """The reason of the answer to the address with that number; None where it lies in no text that is known."""
        answers, at = self._answers.get(number, (None, 0))
        return None if answers is None else answers[at].reason

    def _all(self) -> dict[int, InstructionPlace | Reason]:
        found: dict[int, InstructionPlace | Reason] = {}
        wanted: dict[LookupTarget, list[tuple[int, int]]] = {}
        for number, address in enumerate(self._profile.addresses):
            target = self._target(address)
            if isinstance(target, Reason):
                found[number] = target
            elif target is not None:
                wanted.setdefault(target[0], []).append((number, target[1]))
        for each, entries in wanted.items():
            found |= self._looked_up(each, entries)
        return found

    def _looked_up(
        self, target: LookupTarget, entries: list[tuple[int, int]]
    ) -> Iterator[tuple[int, InstructionPlace | Reason]]:
        answers = self._resolver.symbolize(target, np.array([offset for _, offset in entries], np.uint64))
        sections, offsets = answers.text_section.tolist(), answers.offset.tolist()
        for at, ((number, _), section, offset) in enumerate(zip(entries, sections, offsets, strict=True)):
            if target.kernel is not None:
                self.kernels[number] = target.kernel
            if section:
                text = answers.text_sections[section - 1]
                place = InstructionPlace(target.digest, text.path, text.section_index, offset, text.address + offset)
                self._answers[number] = answers, at
                yield number, place
            else:
                yield number, Reason.OUTSIDE_TEXT

    def _target(self, address: SampledAddress) -> tuple[LookupTarget, int] | Reason | None:
        """What the address counts from, and the offset; None for what is no address."""
        if address.address is None:
            return None
        module = None if address.module is None else self._profile.modules[address.module]
        if module is not None and (module.limit or module.start):
            return self._in_mapping(address, address.module or 0)
        if module is not None and module.identity:
            known = self._asked(address)(module.identity)
            return (
                (LookupTarget(known.digest, path=known.path), address.address)
                if isinstance(known, IdentifiedModule)
                else known
            )
        label = _NAMED.fullmatch(address.label)
        place = _PLACE.fullmatch((label[1] or label[2]) if label else "")
        if place is None:
            return Reason.UNKNOWN_MODULE
        section = module is not None and module.name.startswith("cubin-")
        target = self._of_name(place[1], module.build_id if section and module is not None else None)
        return target if isinstance(target, Reason) else (target, int(place[2], 16))

    def _in_mapping(self, address: SampledAddress, number: int) -> tuple[LookupTarget, int] | Reason:
        module = self._profile.modules[number]
        key = number, not address.frames
        if key not in self._mapped:
            names = tuple(filter(None, (module.identity, module.name)))
            identified = self._asked(address)(*names, build_id=module.build_id)
            if identified is Reason.UNKNOWN_MODULE:
                self.other_builds |= dict.fromkeys(self._resolver.other_builds(names, module.build_id))
            mapped = MappedRange(module.start, module.limit, module.offset)
            self._mapped[key] = (
                self._placer.place(mapped, identified) if isinstance(identified, IdentifiedModule) else identified
            )
        placed_mapping = self._mapped[key]
        if isinstance(placed_mapping, Reason):
            return placed_mapping
        value = (address.address or 0) + placed_mapping.bias
        return (placed_mapping.target, value) if 0 <= value < 1 << 64 else Reason.OUTSIDE_TEXT

    def _asked(self, address: SampledAddress) -> Callable[..., IdentifiedModule | Reason]:
        """What knows the module of an address: of one that has frames, nobody needs a module."""
        return self._resolver.identified if address.frames else self._resolver.module_of

    def _of_name(self, name: str, cubin: str | None) -> LookupTarget | Reason:
        """A kernel, or a module in which offsets are object addresses; ``cubin`` is the CRC of a CUDA module, where
        names are its functions'."""
        key = f"{cubin}\n{name}"
        if key not in self._named:
            self._named[key] = self._function(name, cubin) if cubin is not None else self._kernel(name)
        return self._named[key]

    def _function(self, name: str, crc: str) -> LookupTarget | Reason:
        found = self._resolver.identified(*(crc_names(int(crc, 16)) if _CRC.fullmatch(crc) else ()))
        if isinstance(found, IdentifiedModule):
            return LookupTarget(found.digest, section=f".text.{name}", path=found.path)
        return found if found is not Reason.UNKNOWN_MODULE else self._resolver.section(f".text.{name}")

    def _kernel(self, name: str) -> LookupTarget | Reason:
        identified = self._resolver.identified(name)
        if isinstance(identified, IdentifiedModule):
            return LookupTarget(identified.digest, path=identified.path)
        return self._resolver.kernel_or_file(name)
