"""Watches: modules as they are added, loaded, unloaded and removed, with the places to which waiting breakpoints
resolve in them.

A watch first gets what is there, then everything from the log of modules since it began, each once; a slow client reads
later from the log, and nothing waits in memory. Places are worked out when an event is sent: those of a load with the
device addresses at which the load put them (the inverse of ``symd.engine.contexts.device``), but for those that another
load covers by then; those of an unload, and those that a load covers, as the places that are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from symd.engine.contexts.placement import LoadCover, extended, reduced
from symd.engine.contexts.verbs import StoredContexts
from symd.errors import BadQuery, ModuleNotFound, SymdError
from symd.index import Index
from symd.model.addresses import ByAddress, ByKernel, BySection, DeviceAddress
from symd.model.breakpoints import Breakpoint, BreakpointLocation, Located, checked_breakpoints
from symd.model.cancellation import cancelled_by
from symd.model.captures import CaptureApi
from symd.model.columns import U64
from symd.model.contexts import LoadInContext, Segment
from symd.model.identities import Digest, ObjectPath
from symd.model.summaries import ModuleRecord
from symd.model.watches import (
    BreakpointChange,
    ChangeAcknowledged,
    LoadBegan,
    LoadEnded,
    ModuleAdded,
    ModuleRemoved,
    PlacesGone,
    Resolved,
    WatchEvent,
    Watching,
)
from symd.query.breakpoints import answered
from symd.query.code_spans import function_extents
from symd.store import ModuleStore
from symd.store.module_log import ADDED, LOADED, REMOVED, LogEntry, LogSubscription, Position

PAGE = 1000
"""Entries of the log, and modules, that are read together; and happenings that nobody asked for, after which a token is
told all the same: one that is too old is lost."""
_OLDEST = (float("-inf"), "")


class _Closed(Exception):
    """Nobody waits for the answers any more."""


class Watcher:
    """Makes the events of one watch. ``contexts`` are the ids of those whose loads alone are told, ``apis`` those
    through which alone a module was loaded; empty: everything is. ``opener`` opens the index of a digest, ``memory``
    says which loads lie over one; ``changes`` gives the changes of breakpoints that came since it was last asked, which
    is whenever the watch was woken."""

    def __init__(
        self,
        store: ModuleStore,
        subscription: LogSubscription,
        opener: Callable[[str], Index],
        memory: StoredContexts,
        breakpoints: Iterable[Breakpoint] = (),
        contexts: Container[str] = (),
        apis: Container[str] = (),
        changes: Callable[[], Iterable[BreakpointChange]] = tuple,
    ) -> None:
        self._store = store
        self._subscription = subscription
        self._opener = opener
        self._memory = memory
        self._breakpoints = {each.id: each for each in breakpoints}
        self._contexts, self._apis = contexts, apis
        self._changes = changes

    def events(self, resume_token: str = "", *, only_new: bool = False) -> Iterator[WatchEvent]:
        """The events until the subscription is closed: after ``resume_token``, or of what is there (unless
        ``only_new``) and what comes. Raises ``BadQuery`` for what is no token, and ``PositionLost``."""
        log = self._store.module_log
        position = Position.parsed(resume_token) if resume_token else log.end()
        try:
            if resume_token:
                log.after(position, 1)  # one that is lost is said to be before anything else
            elif not only_new:
                for event in self._there(position):
                    yield event
                    yield from self._answers(event, position, self._breakpoints.values())
            yield Watching(str(position))
            yield from self._happenings(position)
        except _Closed:
            return

    def _happenings(self, position: Position) -> Iterator[WatchEvent]:
        untold = 0
        while not self._subscription.is_closed():
            for change in self._changes():
                yield from self._changed(change, position)
            entries = self._store.module_log.after(position, PAGE)
            for entry in entries:
                position = position._replace(sequence=entry.sequence)
                untold += 1
                for event in _ending_with(str(position), self._entry_events(entry, position)):
                    untold = 0
                    yield event
                if self._subscription.is_closed():
                    return
            if untold >= PAGE:
                untold = 0
                yield Watching(str(position))
            if not entries:
                self._subscription.wait()

    def _changed(self, change: BreakpointChange, position: Position) -> Iterator[WatchEvent]:
        """What is there answers the breakpoints that are added, as of ``position``."""
        try:
            added = self._checked(change)
        except SymdError as error:
            yield ChangeAcknowledged(resume_token=str(position), failure=error)
            return
        for name in change.remove:
            self._breakpoints.pop(name, None)
        for event in self._there(position) if added else ():
            yield from self._answers(event, position, added)
        self._breakpoints.update((each.id, each) for each in added)
        yield ChangeAcknowledged(tuple(each.id for each in added), change.remove, str(position))

    def _checked(self, change: BreakpointChange) -> Sequence[Breakpoint]:
        """The breakpoints that are added. Raises ``BadQuery`` for an id that is there, ``LimitExceeded``, and
        ``ContextNotFound``."""
        if change.failure is not None:
            raise change.failure
        added = checked_breakpoints(change.add, self._breakpoints.keys() - set(change.remove))
        self._store.context_log.check_known({name for each in added for name in each.contexts})
        return added

    def _there(self, position: Position) -> Iterator[ModuleAdded | LoadBegan]:
        """What is there and was before ``position``: the rest is told from the log."""
        if not self._loads_alone:
            yield from self._modules_there(position)
        after = 0
        while not self._subscription.is_closed() and (
            page := self._store.context_log.active_loads(after, position.sequence, PAGE)
        ):
            for number in page:
                loaded = self._store.context_log.load(number)
                if loaded is not None and self._is_wanted(loaded):
                    yield LoadBegan(loaded)
            after = page[-1]

    def _modules_there(self, position: Position) -> Iterator[ModuleAdded]:
        after = _OLDEST
        while not self._subscription.is_closed() and (page := self._store.records(after, PAGE)):
            later = self._store.module_log.added_after(position)
            for record in page:
                if record.format and record.sha256 not in later:  # one without a format is not admitted yet
                    yield ModuleAdded(record.sha256, record)
            after = (page[-1].create_time, page[-1].sha256)

    def _entry_events(self, entry: LogEntry, position: Position) -> Iterator[WatchEvent]:
        """The events of an entry of the log; none where nobody asked for it, or its context was forgotten."""
        waiting = self._breakpoints.values()
        if entry.load is not None:
            loaded = self._store.context_log.load(entry.load)
            if loaded is not None and self._is_wanted(loaded):
                yield from self._load_events(entry, loaded, position, waiting)
            elif loaded is not None and entry.kind == LOADED and waiting and self._apis:
                yield from self._covered(loaded, position, waiting)
            return
        if not self._loads_alone:
            event = self._of_module(entry)
            yield event
            yield from self._answers(event, position, waiting)
        if entry.kind == ADDED and waiting:
            for loaded in self._loads_before(entry.digest, position):
                yield from self._of_load(loaded, waiting)

    def _load_events(
        self, entry: LogEntry, loaded: LoadInContext, position: Position, waiting: Iterable[Breakpoint]
    ) -> Iterator[WatchEvent]:
        is_there = bool(waiting) and not self._comes_later(entry.digest, position)
        if entry.kind == LOADED:
            yield LoadBegan(loaded)
            if waiting:
                yield from self._covered(loaded, position, waiting)
            if is_there:
                yield from self._of_load(loaded, waiting, lambda other: other < loaded.number)
            return
        ended = replace(loaded, load=replace(loaded.load, segments=(), unload_time=entry.time))
        yield LoadEnded(ended)
        for each in self._of_load(loaded, waiting) if is_there else ():
            locations = each.answer.locations
            if loaded.load.segments:  # what a later load covers was told to be gone when that began
                locations = tuple(place for place in locations if place.device_addresses)
            if locations:
                yield PlacesGone(each.id, each.digest, replace(each.answer, locations=locations), ended)

    def _covered(
        self, loaded: LoadInContext, position: Position, waiting: Iterable[Breakpoint]
    ) -> Iterator[PlacesGone]:
        """The places that are gone because a load began on top of those that put them there."""
        context, number = loaded.context.id, loaded.number
        try:
            under = {each: self._memory.cover(context, each) for each in self._memory.covered_loads(context, number)}
        except SymdError:  # the context was forgotten since, or says too much: nothing is answered in it
            return
        for each, cover in under.items():
            before = self._store.context_log.load(each)
            if before is None or not self._is_wanted(before) or self._comes_later(before.load.module, position):
                continue
            for held in self._of_load(before, waiting, lambda other: other < number):
                gone = _covered_places(held.answer, cover, number)
                if gone.locations:
                    living = replace(before, load=replace(before.load, segments=(), unload_time=None))
                    yield PlacesGone(held.id, held.digest, gone, living)

    def _of_module(self, entry: LogEntry) -> ModuleAdded | ModuleRemoved:
        if entry.kind == REMOVED:
            return ModuleRemoved(entry.digest)
        return ModuleAdded(entry.digest, self._record(entry.digest))

    def _record(self, digest: Digest) -> ModuleRecord | None:
        try:
            return self._store.record(digest)
        except ModuleNotFound:
            return None

    def _loads_before(self, digest: Digest, position: Position) -> Iterator[LoadInContext]:
        """The loads of a module that were recorded before it was added, and lived then."""
        for number in self._store.context_log.active_loads_of(digest, position.sequence):
            loaded = self._store.context_log.load(number)
            if loaded is not None and self._is_wanted(loaded):
                yield loaded

    def _comes_later(self, digest: Digest, position: Position) -> bool:
        """Whether the module of a load was added after that, or is not there yet: the load answers when it is. A module
        that is being added has bytes that can be asked already, and no format until it is told."""
        try:
            is_told = bool(self._store.record(digest).format)
        except SymdError:
            return True  # whatever the reason, it answers nothing
        return not is_told or self._store.module_log.is_added_after(digest, position)

    def _answers(self, event: WatchEvent, position: Position, waiting: Iterable[Breakpoint]) -> Iterator[Resolved]:
        """What a module that is there, or was added or loaded, answers."""
        match event:
            case ModuleAdded(digest):
                yield from self._of_added(digest, [each for each in waiting if not each.contexts])
            case LoadBegan(loaded):
                if not self._comes_later(loaded.load.module, position):
                    yield from self._of_load(loaded, waiting)

    def _of_added(self, digest: Digest, waiting: Sequence[Breakpoint]) -> Iterator[Resolved]:
        """A module that is gone again or cannot be read, whatever the reason, answers nothing: the watch is about all
        others too."""
        try:
            found = self._asked(self._opener(digest), waiting) if waiting else []
        except SymdError:
            return
        for each, answer in found:
            yield Resolved(each.id, digest, answer)

    def _of_load(
        self,
        loaded: LoadInContext,
        waiting: Iterable[Breakpoint],
        counts: Callable[[int], bool] = lambda _number: True,
    ) -> Iterator[Resolved]:
        """What the breakpoints resolve to in a module that was loaded, in the code object that the load names, with the
        device addresses that its segments say: those that no other load covers whose number ``counts``."""
        here = [each for each in waiting if not each.contexts or loaded.context.id in each.contexts]
        digest, without_segments = loaded.load.module, replace(loaded, load=replace(loaded.load, segments=()))
        try:
            index = self._opener(digest) if here else None
            found = self._asked(index, here) if index else []
            cover = self._memory.cover(loaded.context.id, loaded.number) if found else None
        except SymdError:
            return
        if cover and index:
            places = DevicePlaces(index, loaded, cover, counts)
            for each, answer in found:
                own = replace(answer, locations=tuple(filter(places.may_hold, answer.locations)))
                if own.locations or own.refusal is not None:
                    yield Resolved(each.id, digest, with_device_addresses(own, places), without_segments)

    def _asked(self, index: Index, waiting: Sequence[Breakpoint]) -> list[tuple[Breakpoint, Located]]:
        """Raises ``_Closed`` where the watch has ended: a module takes ten seconds and more for 10,000 breakpoints."""
        with cancelled_by(self._check_open):
            return list(answered(index, waiting))

    def _check_open(self) -> None:
        if self._subscription.is_closed():
            raise _Closed

    @property
    def _loads_alone(self) -> bool:
        return bool(self._contexts or self._apis)

    def _is_wanted(self, loaded: LoadInContext) -> bool:
        if self._contexts and loaded.context.id not in self._contexts:
            return False
        return not self._apis or loaded.load.key.partition(":")[0] in self._apis


def _ending_with(token: str, events: Iterable[WatchEvent]) -> Iterator[WatchEvent]:
    """The events of one happening, of which the last has the token."""
    before: WatchEvent | None = None
    for each in events:
        if before is not None:
            yield before
        before = each
    if before is not None:
        yield replace(before, resume_token=token)


def with_device_addresses(answer: Located, places: DevicePlaces) -> Located:
    """The answer with the device addresses that a load gives its locations, behind those that they have."""
    locations = (
        (each, places.of(each.path, each.section_index, each.section_offset, each.address)) for each in answer.locations
    )
    found = tuple(
        replace(each, device_addresses=tuple(dict.fromkeys((*each.device_addresses, *more))))
        for each, more in locations
    )
    return replace(answer, locations=found)


def _covered_places(answer: Located, cover: LoadCover, number: int) -> Located:
    """The places of an answer at those of their device addresses that the load with that number covers."""
    covered = (
        replace(each, device_addresses=tuple(at for at in each.device_addresses if number in cover.at(at)))
        for each in answer.locations
    )
    return replace(answer, locations=tuple(each for each in covered if each.device_addresses))


def checked_apis(names: Iterable[str]) -> frozenset[str]:
    """Raises ``BadQuery`` for what is no interface."""
    asked, known = frozenset(names), [each.value for each in CaptureApi]
    unknown = next((name for name in asked if name not in known), None)
    if unknown is not None:
        raise BadQuery(f"{unknown[:80]!r} is not a driver API", hint=f"there are {', '.join(known)}")
    return asked


Interval = tuple[int, int, int]
"""(first place, bytes, device address of the first)."""


class DevicePlaces:
    """The segments of one load of the module that ``index`` describes, by what they hold. What loads whose number
    ``counts`` cover is not theirs any more."""

    def __init__(
        self,
        index: Index,
        loaded: LoadInContext,
        cover: LoadCover,
        counts: Callable[[int], bool] = lambda _number: True,
    ) -> None:
        segments, self._width = loaded.load.segments, loaded.context.context.address_bits
        self._cover, self._counts = cover, counts
        self._paths = {segment.path for segment in segments}
        self._numbers = index.section_numbers
        by_section: dict[int, list[Interval]] = defaultdict(list)
        by_address: dict[ObjectPath | None, list[Interval]] = defaultdict(list)
        starts = _Starts(index)
        for segment in segments:
            if isinstance(segment.start, ByAddress):
                by_address[segment.path].append((segment.start.address, segment.size, segment.address))
            for number, first in starts.of(segment):
                by_section[number].append((first, segment.size, segment.address))
        self._by_section = {number: _columns(found) for number, found in by_section.items()}
        self._by_address = {path: _columns(found) for path, found in by_address.items()}

    def may_hold(self, place: BreakpointLocation) -> bool:
        """Whether the load may have put the place's code object on the device: it names that one, or none."""
        return not self._paths or bool(self._paths & {place.path, None})

    def of(self, path: ObjectPath, section: int, offset: int, address: int) -> tuple[DeviceAddress, ...]:
        """The device addresses of the place at section offset ``offset`` and object address ``address``, lowest first;
        none where the load does not say."""
        number = self._numbers.get((path, section), -1)
        found = set(_found(self._by_section.get(number), offset))
        for named in (path, None):
            found.update(_found(self._by_address.get(named), address))
        held = [each for each in sorted(found) if not any(map(self._counts, self._cover.at(each)))]
        low, _ = reduced(np.array(held, np.uint64), self._width)
        return tuple(map(DeviceAddress, extended(low, self._width).tolist()))


class _Starts:
    """Finds what a segment that is named by function or section begins with: (number of a text section, section
    offset)."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._named: dict[str | int, list[int]] = defaultdict(list)
        for number, where in enumerate(index.sections):
            for name in (where.section, where.section_index):
                if name is not None:
                    self._named[name].append(number)

    def of(self, segment: Segment) -> Iterator[tuple[int, int]]:
        match segment.start:
            case ByKernel(kernel, offset):
                extents = function_extents(self._index, kernel, segment.path)
                found = [(section, first + offset) for section, first, _ in extents]
            case BySection(section, offset):
                found = [(number, offset) for number in self._named.get(section, ())]
            case _:
                return
        for number, first in found:
            if segment.path in (None, self._index.sections[number].path):
                yield number, first


def _columns(intervals: Sequence[Interval]) -> tuple[U64, U64, U64]:
    first, size, address = (np.array(column, np.uint64) for column in zip(*intervals, strict=True))
    return first, size, address


def _found(columns: tuple[U64, U64, U64] | None, place: int) -> list[int]:
    if columns is None:
        return []
    first, size, address = columns
    distance = np.uint64(place) - first  # modulo 2^64: what lies before a segment is farther than it is long
    inside = distance < size
    addresses: list[int] = (address[inside] + distance[inside]).tolist()
    return addresses
