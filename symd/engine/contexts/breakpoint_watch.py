"""Breakpoints that wait: each module that is there, is added or is loaded is asked for their lines, and what it answers is an
event; of a load with the device addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from symd.engine.contexts.device_places import DevicePlaces
from symd.errors import LimitExceeded, PositionLost, SymdError
from symd.index import Index
from symd.model.breakpoints import Breakpoint, Event, Resolved, Watching
from symd.model.contexts import LoadInContext
from symd.model.identities import Digest
from symd.model.module_events import CaughtUp, LoadBegan, ModuleAdded, ModuleEvent
from symd.query.watched import resolved
from symd.store import ModuleStore
from symd.store.module_log import Position

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
        return list(resolved(index, digest, self.breakpoints, self._check_open))

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
    """The same of a load, with the device addresses that its segments say."""
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
