"""Watches: modules as they are added, loaded, unloaded and removed, with the places to which waiting breakpoints
resolve in them.

A watch first gets what is there, then everything from the log of modules since it began, each once; a slow client reads
later from the log, and nothing waits in memory. Places are worked out when an event is sent: those of a load with the
device addresses at which the load put them (the inverse of ``symd.engine.contexts.device``), those of an unload as the
places that are gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from symd.engine.contexts.placement import extended, reduced
from symd.errors import BadQuery, ModuleNotFound, SymdError
from symd.index import Index
from symd.model.addresses import ByAddress, ByKernel, BySection, DeviceAddress
from symd.model.breakpoints import Breakpoint, Located, checked_breakpoints
from symd.model.captures import CaptureApi
from symd.model.columns import U64
from symd.model.contexts import LoadInContext, Segment
from symd.model.identities import Digest, ObjectPath
from symd.model.summaries import ModuleRecord
from symd.model.waiting import waited_for
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
    through which alone a module was loaded; empty: everything is. ``opener`` opens the index of a digest; ``changes``
    gives the changes of breakpoints that came since it was last asked, which is whenever the watch was woken."""

    def __init__(
        self,
        store: ModuleStore,
        subscription: LogSubscription,
        opener: Callable[[str], Index],
        breakpoints: Iterable[Breakpoint] = (),
        contexts: Container[str] = (),
        apis: Container[str] = (),
        changes: Callable[[], Iterable[BreakpointChange]] = tuple,
    ) -> None:
        self._store = store
        self._subscription = subscription
        self._opener = opener
        self._breakpoints = {each.id: each for each in breakpoints}
        self._contexts, self._apis = contexts, apis
        self._changes = changes

    def events(self, resume_token: str = "", *, only_new: bool = False) -> Iterator[WatchEvent]:
        """The events until the subscription is closed: after ``resume_token``, or of what is there (unless
        ``only_new``) and what comes. Raises ``BadQuery`` for what is no token, or a change that cannot be made, and
        ``PositionLost``."""
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
        """What is there answers the breakpoints that are added, as of ``position``. Raises ``BadQuery`` for an id that
        is there, ``LimitExceeded``, and ``ContextNotFound``."""
        for name in change.remove:
            self._breakpoints.pop(name, None)
        added = checked_breakpoints(change.add, self._breakpoints)
        self._store.context_log.check_known({name for each in added for name in each.contexts})
        for event in self._there(position) if added else ():
            yield from self._answers(event, position, added)
        self._breakpoints.update((each.id, each) for each in added)
        yield ChangeAcknowledged(tuple(each.id for each in added), change.remove, str(position))

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
            if is_there:
                yield from self._of_load(loaded, waiting)
            return
        ended = replace(loaded, load=replace(loaded.load, segments=(), unload_time=entry.time))
        yield LoadEnded(ended)
        for each in self._of_load(loaded, waiting) if is_there else ():
            if each.answer.locations:
                yield PlacesGone(each.id, each.digest, each.answer, ended)

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

    def _of_load(self, loaded: LoadInContext, waiting: Iterable[Breakpoint]) -> Iterator[Resolved]:
        """What the breakpoints resolve to in a module that was loaded, with the device addresses that the load's
        segments say."""
        here = [each for each in waiting if not each.contexts or loaded.context.id in each.contexts]
        digest, without_segments = loaded.load.module, replace(loaded, load=replace(loaded.load, segments=()))
        try:
            index = self._opener(digest) if here else None
            found = self._asked(index, here) if index else []
        except SymdError:
            return
        if found and index:
            places = DevicePlaces(index, loaded.load.segments, loaded.context.context.address_bits)
            for each, answer in found:
                yield Resolved(each.id, digest, with_device_addresses(answer, places), without_segments)

    def _asked(self, index: Index, waiting: Sequence[Breakpoint]) -> list[tuple[Breakpoint, Located]]:
        """Raises ``_Closed`` where the watch has ended: a module takes ten seconds and more for 10,000 breakpoints."""
        with waited_for(self._check_open):
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


def checked_apis(names: Iterable[str]) -> frozenset[str]:
    """Raises ``BadQuery`` for what is no interface."""
    try:
        return frozenset(CaptureApi(name).value for name in names)
    except ValueError as error:
        known = ", ".join(each.value for each in CaptureApi)
        raise BadQuery(f"there is no such interface: {str(error)[:80]}", hint=f"there are {known}") from None


Interval = tuple[int, int, int]
"""(first place, bytes, device address of the first)."""


class DevicePlaces:
    """The segments of one load of the module that ``index`` describes, in a context whose addresses have ``width``
    bits, by what they hold."""

    def __init__(self, index: Index, segments: Sequence[Segment], width: int) -> None:
        self._width = width
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

    def of(self, path: ObjectPath, section: int, offset: int, address: int) -> tuple[DeviceAddress, ...]:
        """The device addresses of the place at section offset ``offset`` and object address ``address``, lowest first;
        none where the load does not say."""
        number = self._numbers.get((path, section), -1)
        found = set(_found(self._by_section.get(number), offset))
        for named in (path, None):
            found.update(_found(self._by_address.get(named), address))
        low, _ = reduced(np.array(sorted(found), np.uint64), self._width)
        return tuple(map(DeviceAddress, extended(low, self._width).tolist()))


class _Starts:
    """Finds what a segment that is named by kernel or section begins with: (number of a text section, section
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
                entries = [entry for entry in self._index.kernels_named(kernel) if entry.size]
                found = [(entry.section, entry.offset + offset) for entry in entries]
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
