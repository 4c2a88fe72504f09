"""Watches. Modules as they are added, loaded, unloaded and removed: first comes what is there, then everything from the
log of modules that happened since the watch began, each once; who is slow reads later from the log, and nothing waits
in memory. Breakpoints that wait: each module that is there, is added or is loaded is asked for their lines, and what it
answers is an event; of a load with the device addresses at which it put a place of its module, the way back from what
``symd.engine.contexts.device`` answers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from symd.engine.contexts.placement import extended, reduced
from symd.errors import BadQuery, LimitExceeded, ModuleNotFound, PositionLost, SymdError
from symd.index import Index
from symd.model.addresses import ByAddress, ByKernel, BySection, DeviceAddress
from symd.model.breakpoints import Breakpoint
from symd.model.captures import CaptureApi
from symd.model.columns import U64
from symd.model.contexts import (
    CaughtUp,
    LoadBegan,
    LoadEnded,
    LoadInContext,
    ModuleAdded,
    ModuleEvent,
    ModuleRemoved,
    Segment,
)
from symd.model.identities import Digest, ObjectPath
from symd.model.summaries import ModuleRecord
from symd.model.watches import Event, Resolved, Watching
from symd.query.breakpoints import answered
from symd.store import ModuleStore
from symd.store.module_log import LOADED, REMOVED, LogEntry, LogSubscription, Position

PAGE = 1000
"""Entries of the log, and modules, that are read together."""
_OLDEST = (float("-inf"), "")


class ModuleWatcher:
    """Makes the events of one watch. ``contexts`` are the ids of those whose loads alone are told, ``apis`` those through which alone a
    module was loaded; empty: everything is."""

    def __init__(
        self,
        store: ModuleStore,
        subscription: LogSubscription,
        contexts: Container[str] = (),
        apis: Container[str] = (),
    ) -> None:
        self._store = store
        self._subscription = subscription
        self._contexts, self._apis = contexts, apis

    def events(self, resume_after: str = "", *, only_new: bool = False) -> Iterator[ModuleEvent]:
        """The events until the subscription is closed: after ``resume_after``, or of what is there (unless ``only_new``) and what comes.
        Raises ``BadQuery`` for what is no position, and ``PositionLost``."""
        log = self._store.module_log
        position = Position.parsed(resume_after) if resume_after else log.end()
        if resume_after:
            log.after(position, 1)  # one that is lost is said to be before anything else
        elif not only_new:
            yield from self._there(position)
        yield CaughtUp(str(position))
        untold = 0
        while not self._subscription.is_closed():
            entries = log.after(position, PAGE)
            for entry in entries:
                position = position._replace(sequence=entry.sequence)
                untold += 1
                event = self._event(str(position), entry)
                if event is not None:
                    untold = 0
                    yield event
                if self._subscription.is_closed():
                    return
            if untold >= PAGE:
                untold = 0
                yield CaughtUp(str(position))
            if not entries:
                self._subscription.wait()

    def _there(self, position: Position) -> Iterator[ModuleEvent]:
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
                    yield LoadBegan("", loaded)
            after = page[-1]

    def _modules_there(self, position: Position) -> Iterator[ModuleEvent]:
        after = _OLDEST
        while not self._subscription.is_closed() and (page := self._store.records(after, PAGE)):
            later = self._store.module_log.added_after(position)
            for record in page:
                if record.format and record.sha256 not in later:  # one without a format is not admitted yet
                    yield ModuleAdded("", record.sha256, record)
            after = (page[-1].create_time, page[-1].sha256)

    def _event(self, position: str, entry: LogEntry) -> ModuleEvent | None:
        """What an entry tells; None where nobody asked for it, or its context was forgotten."""
        if entry.load is None:
            return None if self._loads_alone else self._of_module(position, entry)
        loaded = self._store.context_log.load(entry.load)
        if loaded is None or not self._is_wanted(loaded):
            return None
        if entry.kind == LOADED:
            return LoadBegan(position, replace(loaded, load=replace(loaded.load, unload_time=None)))
        return LoadEnded(position, replace(loaded, load=replace(loaded.load, segments=(), unload_time=entry.time)))

    def _of_module(self, position: str, entry: LogEntry) -> ModuleEvent:
        if entry.kind == REMOVED:
            return ModuleRemoved(position, entry.digest)
        return ModuleAdded(position, entry.digest, self._record(entry.digest))

    def _record(self, digest: Digest) -> ModuleRecord | None:
        try:
            return self._store.record(digest)
        except ModuleNotFound:
            return None

    @property
    def _loads_alone(self) -> bool:
        return bool(self._contexts or self._apis)

    def _is_wanted(self, loaded: LoadInContext) -> bool:
        if self._contexts and loaded.context.id not in self._contexts:
            return False
        return not self._apis or loaded.load.key.partition(":")[0] in self._apis


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
    """The segments of one load of the module that ``index`` describes, in a context whose addresses have ``width`` bits, by what they
    hold."""

    def __init__(self, index: Index, segments: Sequence[Segment], width: int) -> None:
        self._width = width
        self._numbers = {(where.path, where.section_index): number for number, where in enumerate(index.sections)}
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
        """The device addresses of the place at section offset ``offset`` and object address ``address``, lowest first; none where the
        load does not say."""
        number = self._numbers.get((path, section), -1)
        found = set(_found(self._by_section.get(number), offset))
        for named in (path, None):
            found.update(_found(self._by_address.get(named), address))
        low, _ = reduced(np.array(sorted(found), np.uint64), self._width)
        return tuple(map(DeviceAddress, extended(low, self._width).tolist()))


class _Starts:
    """Finds what a segment that is named by kernel or section begins with: (number of a text section, section offset)."""

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


_SILENT = 1000
"""Happenings without an answer after which a position is told all the same: one that is too old is lost."""


class _Closed(Exception):
    """Nobody waits for the answers any more."""


class _Asked(NamedTuple):
    """What each module is asked."""

    breakpoints: Sequence[Breakpoint]
    opener: Callable[[str], Index]
    is_closed: Callable[[], bool]

    def answers_of(self, index: Index, digest: Digest) -> list[Resolved]:
        """Raises _Closed."""
        return [
            Resolved(each.id, digest, answer) for each, answer in answered(index, self.breakpoints, self._check_open)
        ]

    def _check_open(self) -> None:
        if self.is_closed():
            raise _Closed


def breakpoint_events(
    breakpoints: Sequence[Breakpoint],
    happenings: Iterator[ModuleEvent],
    store: ModuleStore,
    opener: Callable[[str], Index],
    is_closed: Callable[[], bool],
    *,
    resumed: bool = False,
) -> Iterator[Event]:
    """The events of a watch over everything that ``happenings`` tell (``ModuleWatcher``). ``opener`` opens the index of a digest.
    ``is_closed`` says whether the watch has ended: a module takes ten seconds and more for 10,000 breakpoints. Raises ``LimitExceeded`` when so much happened
    that some of it is forgotten; of a watch that is ``resumed`` after a position, ``PositionLost``."""
    asked = _Asked(breakpoints, opener, is_closed)
    watching, silent = False, 0
    try:
        for each in happenings:
            answers = list(_answers(each, asked, store))
            yield from answers[:-1]
            if answers:
                yield replace(answers[-1], position=each.position)
            silent = 0 if answers else silent + 1
            if (isinstance(each, CaughtUp) and not watching) or (silent >= _SILENT and each.position):
                watching, silent = True, 0
                yield Watching(each.position)
    except _Closed:
        return
    except PositionLost as error:
        if resumed:
            raise
        hint = "watch again; modules that are there already are looked at first"
        raise LimitExceeded(error.message, hint=hint, metadata=error.metadata) from error


def _answers(happening: ModuleEvent, asked: _Asked, store: ModuleStore) -> Iterator[Resolved]:
    match happening:
        case ModuleAdded(position, digest):
            yield from _added(asked, digest)
            for loaded in _told_before(store, digest, position):
                yield from _loaded(asked, loaded)
        case LoadBegan(position, loaded):
            if not _comes_later(store, loaded.load.module, position):
                yield from _loaded(asked, loaded)


def _told_before(store: ModuleStore, digest: Digest, position: str) -> Iterator[LoadInContext]:
    """The loads of a module that were told before it was added, and live."""
    if position:
        for number in store.context_log.active_loads_of(digest, Position.parsed(position).sequence):
            loaded = store.context_log.load(number)
            if loaded is not None:
                yield loaded


def _comes_later(store: ModuleStore, digest: Digest, position: str) -> bool:
    """Whether the module of a load was added after that, or is not there yet: the load is told again when it is. A module that is
    being added has bytes that can be asked already, and no format until it is told."""
    if not position:
        return False
    try:
        is_told = bool(store.record(digest).format)
    except SymdError:
        return True  # whatever the reason, it answers nothing
    return not is_told or store.module_log.is_added_after(digest, Position.parsed(position))


def _added(asked: _Asked, digest: Digest) -> Iterator[Resolved]:
    """A module that is gone again or cannot be read, whatever the reason, answers nothing: the watch is about all others
    too."""
    try:
        found = asked.answers_of(asked.opener(digest), digest)
    except SymdError:
        return
    yield from found


def _loaded(asked: _Asked, loaded: LoadInContext) -> Iterator[Resolved]:
    """What the breakpoints resolve to in a module that was loaded, with the device addresses that the load's
    segments say."""
    try:
        index = asked.opener(loaded.load.module)
        found = asked.answers_of(index, loaded.load.module)
    except SymdError:
        return
    if found:
        places = DevicePlaces(index, loaded.load.segments, loaded.context.context.address_bits)
        without_segments = replace(loaded, load=replace(loaded.load, segments=()))
        for each in found:
            yield _placed(each, places, without_segments)


def _placed(answer: Resolved, places: DevicePlaces, loaded: LoadInContext) -> Resolved:
    locations = tuple(
        replace(each, device_addresses=places.of(each.path, each.section_index, each.section_offset, each.address))
        for each in answer.answer.locations
    )
    return replace(answer, answer=replace(answer.answer, locations=locations), loaded=loaded)
