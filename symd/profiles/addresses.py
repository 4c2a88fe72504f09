"""Addresses of a profile: from what they count from, such as a mapping, which says what part of which file was loaded
where, to addresses in a code object; and all of them in columns, each distinct one looked up once, so that a million
samples cost a few searches."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from symd.config import Limits
from symd.errors import SymdError
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.elf.constants import PT_LOAD
from symd.model.answers import Answers, Frame
from symd.model.reasons import ANSWERED, Reason
from symd.profiles.profile_format import Progress
from symd.profiles.resolver import IdentifiedModule, LookupTarget, OtherBuild, Resolver, machine_objects

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class MappedRange:
    """A range of a program's memory into which a file is mapped: ``[start, limit)`` holds the file's bytes from
    ``offset`` on; limit 0 means that the size is not known."""

    start: int
    limit: int
    offset: int

    def holds(self, address: int) -> bool:
        return self.start <= address and (not self.limit or address < self.limit)


class RangeLookup:
    """Finds the range that holds an address. Ranges without a limit take no part."""

    def __init__(self, ranges: Sequence[MappedRange]) -> None:
        bounded = [(number, one) for number, one in enumerate(ranges) if one.limit > one.start]
        ends = [(one.start, 1, number) for number, one in bounded] + [
            (one.limit, -1, number) for number, one in bounded
        ]
        self._cuts: list[int] = []
        self._holding: list[int | None] = []
        count = total = 0
        for at, sign, number in sorted(ends):
            count, total = count + sign, total + sign * number
            self._cuts.append(at)
            self._holding.append(total if count == 1 else None)

    def only(self, address: int) -> int | None:
        """The number of the one range that holds the address; None when none or several do."""
        slot = bisect_right(self._cuts, address) - 1
        return self._holding[slot] if slot >= 0 else None


@dataclass(frozen=True, slots=True)
class PlacedMapping:
    """A mapping that lies in ``target``: its address ``a`` is ``a + bias`` there."""

    target: LookupTarget
    bias: int


@dataclass(frozen=True, slots=True)
class FileRange:
    """A part of a file that has addresses: the ``size`` bytes from ``offset`` on are those of ``target`` from address
    ``value`` on."""

    offset: int
    size: int
    target: LookupTarget
    value: int


@dataclass(frozen=True, slots=True)
class FileOffsetMap:
    """How a code object's file offsets become addresses; ``whole`` is what a mapping of the object from its first byte
    on means where no range holds that byte (None: nothing)."""

    ranges: tuple[FileRange, ...]
    whole: LookupTarget | None


class MappingPlacer:
    """Places mappings in modules; each code object is read once."""

    def __init__(self, resolver: Resolver, limits: Limits) -> None:
        self._resolver = resolver
        self._limits = limits
        self._known: dict[IdentifiedModule, FileOffsetMap | Reason] = {}

    def place(self, mapped: MappedRange, found: IdentifiedModule) -> PlacedMapping | Reason:
        """Where a mapping lies in a module.

        In a linked object the segment that holds the file offset says how file offsets become addresses (System V ABI,
        "Program Loading"). In an unlinked one, where every kernel is at 0, the file offset falls into one text section,
        and addresses count from there; a mapping of such an object from its first byte on is taken as the object
        itself. A module of several objects is asked by address, and may answer AMBIGUOUS.
        """
        if found not in self._known:
            self._known[found] = self._read(found)
        offsets = self._known[found]
        if isinstance(offsets, Reason):
            return offsets
        for held in offsets.ranges:
            if 0 <= mapped.offset - held.offset < held.size:
                return PlacedMapping(held.target, mapped.offset - mapped.start + held.value - held.offset)
        if offsets.whole is not None and not mapped.offset:
            return PlacedMapping(offsets.whole, -mapped.start)
        return Reason.OUTSIDE_TEXT

    def _read(self, found: IdentifiedModule) -> FileOffsetMap | Reason:
        """The map of the code object that is meant; of a module of several, all addresses."""
        objects = machine_objects(self._resolver.summary(found.digest))
        paths = [item.path for item in objects if found.path in (None, item.path)]
        if len(paths) != 1:
            return FileOffsetMap((), LookupTarget(found.digest))
        whole = LookupTarget(found.digest, path=paths[0])
        data = self._resolver.symbolizer.object_data(found.digest, paths[0])
        try:
            return self._of_image(data, whole) if data.startswith(elf.MAGIC) else FileOffsetMap((), whole)
        except SymdError:
            return Reason.MALFORMED

    def _of_image(self, data: bytes, whole: LookupTarget) -> FileOffsetMap:
        image = elf.parse(data, Budget(self._limits, len(data)), whole.path or "the code object")
        loads = [segment for segment in image.segments if segment.type == PT_LOAD]
        if loads and containers.unpack(data, self._limits).objects[0].linked:
            return FileOffsetMap(tuple(FileRange(one.offset, one.file_size, whole, one.address) for one in loads), None)
        texts = [
            FileRange(
                header.offset, section.size, LookupTarget(whole.digest, section=section.index, path=whole.path), 0
            )
            for section, header in zip(image.sections, elf.section_headers(data, image.header), strict=True)
            if section.executable
        ]
        return FileOffsetMap(tuple(texts), whole)


class AddressOrigin(NamedTuple):
    """What addresses of a profile count from, as the profile has it: a module of some of these names, a ``section`` in
    it, or where it is mapped the ``range`` that they lie in. ``called`` is what a note calls an origin that is no
    mapping, or has no name. ``is_wanted``: it is for the user to give the module."""

    names: tuple[str, ...]
    build_id: str = ""
    range: MappedRange | None = None
    section: str = ""
    called: str = ""
    is_wanted: bool = True


class AddressOrigins(Generic[Key]):
    """Where the origins of a profile's addresses lie in modules, each found once. ``origin`` gives that of a key;
    ``notes`` say for which there is no module, ``other_builds`` are modules that have a mapping's name and are not the
    build that the profile names."""

    def __init__(self, resolver: Resolver, limits: Limits, origin: Callable[[Key], AddressOrigin]) -> None:
        self.notes: dict[str, None] = {}
        self.other_builds: dict[OtherBuild, None] = {}
        self._resolver, self._origin = resolver, origin
        self._placer = MappingPlacer(resolver, limits)
        self._known: dict[Key, tuple[AddressOrigin, LookupTarget | PlacedMapping | Reason]] = {}
        self._told: set[tuple[tuple[str, ...], str, str, bool]] = set()

    def target(self, key: Key | None, address: int | None = None) -> LookupTarget | PlacedMapping | Reason:
        """What the addresses of an origin count from; an ``address`` has to lie in its range. No key has no module."""
        if key is None:
            return Reason.UNKNOWN_MODULE
        if key not in self._known:
            origin = self._origin(key)
            self._known[key] = origin, self._found(origin)
        origin, target = self._known[key]
        is_outside = address is not None and origin.range is not None and not origin.range.holds(address)
        return Reason.OUTSIDE_TEXT if is_outside and isinstance(target, PlacedMapping) else target

    def _found(self, origin: AddressOrigin) -> LookupTarget | PlacedMapping | Reason:
        """A section whose module is not known is that of the only module without an identity that has it."""
        is_wanted = origin.is_wanted and not origin.section
        identified = self._resolver.module_of if is_wanted else self._resolver.identified
        found = identified(*origin.names, build_id=origin.build_id)
        if found is Reason.UNKNOWN_MODULE and origin.section:
            target = self._resolver.section(origin.section)
            if target is not Reason.UNKNOWN_KERNEL:
                return target
        if found is Reason.UNKNOWN_MODULE:
            self._tell_unknown(origin)
        if isinstance(found, Reason):
            return found
        if origin.range is not None:
            return self._placer.place(origin.range, found)
        return LookupTarget(found.digest, section=origin.section or None, path=found.path)

    def _tell_unknown(self, origin: AddressOrigin) -> None:
        """Note once that the module of an origin is not known, however many ranges of it there are."""
        told = origin.names, origin.build_id, origin.called, origin.range is None
        if told not in self._told:
            self._told.add(told)
            self.other_builds |= dict.fromkeys(self._resolver.other_builds(origin.names, origin.build_id))
            self.notes[self._not_given(origin)] = None

    def _not_given(self, origin: AddressOrigin) -> str:
        is_named = origin.build_id or any(origin.names)
        if origin.called and not (is_named and origin.range):
            return f"no module was given for {origin.called}"
        return self._resolver.not_given(*origin.names, build_id=origin.build_id)


REQUEST_ADDRESSES = 1 << 20
"""Addresses in one request."""
WRITTEN_REASONS = ANSWERED - {Reason.DEBUG_DATA_ELSEWHERE}
"""Reasons whose frames are written into a profile. A name that only the symbol table knows (NO_DEBUG_INFO), or a line
without a function, is not: it would keep better debug data from being used later."""


@dataclass(frozen=True, slots=True)
class ResolvedAddress:
    """The answer to one address; ``frames`` are innermost first and empty unless the answer is to be written.
    ``folded``: other kernels begin where this one does, so the names are one choice of several."""

    reason: Reason
    frames: tuple[Frame, ...] = ()
    folded: bool = False


class AddressBatch:
    """Addresses are added one by one, each for a handle; ``ask`` then looks all of them up, and its answers are indexed
    by handle. Equal addresses have one handle."""

    def __init__(self) -> None:
        self._targets: dict[LookupTarget, int] = {}
        self._handles: dict[tuple[int, int], int] = {}
        self._refused: dict[int, Reason] = {}

    def add(self, target: LookupTarget | PlacedMapping | Reason, offset: int = 0) -> int:
        """The handle of the address ``offset`` bytes into a target, or of an address in what is mapped; that of a
        reason answers with it."""
        if isinstance(target, PlacedMapping):
            offset += target.bias
            target = target.target
        if isinstance(target, Reason):
            handle = self._handles.setdefault((-1, int(target)), len(self._handles))
            self._refused[handle] = target
            return handle
        key = self._targets.setdefault(target, len(self._targets)), offset
        return self._handles.setdefault(key, len(self._handles))

    def ask(self, resolver: Resolver, progress: Progress) -> list[ResolvedAddress]:
        """The answers, by handle."""
        answers = [ResolvedAddress(Reason.OUTSIDE_TEXT)] * len(self._handles)
        for handle, reason in self._refused.items():
            answers[handle] = ResolvedAddress(reason)
        for target, handles, found in self.asked(resolver, progress):
            for handle, answer in zip(handles, _resolved(found, _FoldedKernels(resolver, target)), strict=True):
                answers[handle] = answer
        return answers

    def asked(self, resolver: Resolver, progress: Progress) -> Iterator[tuple[LookupTarget, list[int], Answers]]:
        """The answers about each target, up to ``REQUEST_ADDRESSES`` at a time, with the handles of their addresses. A
        number that is no 64-bit address has none."""
        done = 0
        for target, (handles, offsets) in self._columns().items():
            for start in range(0, len(handles), REQUEST_ADDRESSES):
                progress("looking up addresses", done, len(self._handles))
                part = slice(start, start + REQUEST_ADDRESSES)
                yield target, handles[part], resolver.symbolize(target, np.array(offsets[part], np.uint64))
                done += len(handles[part])
        progress("looking up addresses", len(self._handles), len(self._handles))

    def _columns(self) -> dict[LookupTarget, tuple[list[int], list[int]]]:
        """Target to (handles, offsets), of 64-bit addresses alone."""
        targets = list(self._targets)
        columns: dict[LookupTarget, tuple[list[int], list[int]]] = {target: ([], []) for target in targets}
        for (number, offset), handle in self._handles.items():
            if number >= 0 and 0 <= offset < 1 << 64:
                handles, offsets = columns[targets[number]]
                handles.append(handle)
                offsets.append(offset)
        return columns


def _resolved(answers: Answers, folded: _FoldedKernels) -> Sequence[ResolvedAddress]:
    """The answers in order; frames are made once for each location, not for each address."""
    numbers, inverse = np.unique(answers.location, return_inverse=True)
    distinct = [_location(answers, number) for number in numbers.tolist()]
    result = [distinct[at] for at in inverse.tolist()]
    for at in folded.holding(answers):
        result[at] = ResolvedAddress(result[at].reason, result[at].frames, folded=True)
    return result


def _location(answers: Answers, number: int) -> ResolvedAddress:
    reason = Reason(int(answers.locations.reason[number]))
    frames = answers.locations.frames(number) if reason in WRITTEN_REASONS else ()
    named = tuple(frame for frame in frames if frame.function or frame.file)
    return ResolvedAddress(reason, named)


class _FoldedKernels:
    """The ranges of code that kernels of several names share (identical code folding)."""

    def __init__(self, resolver: Resolver, target: LookupTarget) -> None:
        names: dict[tuple[str, int, int, int], set[str]] = {}
        for item in resolver.summary(target.digest).objects:
            for kernel in item.kernels:
                key = (item.path, kernel.section_index, kernel.offset, kernel.size)
                names.setdefault(key, set()).add(kernel.name)
        self._ranges = [key for key, several in names.items() if len(several) > 1]

    def holding(self, answers: Answers) -> list[int]:
        """The indexes of the answers that lie in such a range."""
        inside = np.zeros(len(answers), bool)
        for path, section, offset, size in self._ranges:
            numbers = [
                number + 1
                for number, text in enumerate(answers.text_sections)
                if (text.path, text.section_index) == (path, section)
            ]
            start = np.uint64(offset)
            near = (answers.offset >= start) & (answers.offset - start < np.uint64(size))
            inside |= np.isin(answers.text_section, numbers) & near
        return [int(at) for at in np.flatnonzero(inside)]
