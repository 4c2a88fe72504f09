"""Breakpoints that wait: each module that is there, is added or is loaded is asked for their lines, and what it answers is an
event; of a load with the device addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from symd.contexts.device_places import DevicePlaces
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


def breakpoint_events(
    breakpoints: Sequence[Breakpoint],
    happenings: Iterator[ModuleEvent],
    store: ModuleStore,
    opener: Callable[[str], Index],
    *,
    resumed: bool = False,
) -> Iterator[Event]:
    """The events of a watch over everything that ``happenings`` tell (``ModuleWatcher``). ``opener`` opens the index of a digest.
    Raises ``LimitExceeded`` when so much happened that some of it is forgotten; of a watch that is ``resumed`` after a position,
    ``PositionLost``."""
    watching, silent = False, 0
    try:
        for each in happenings:
            answers = list(_answers(each, breakpoints, store, opener))
            yield from answers[:-1]
            if answers:
                yield replace(answers[-1], position=each.position)
            silent = 0 if answers else silent + 1
            if (isinstance(each, CaughtUp) and not watching) or (silent >= _SILENT and each.position):
                watching, silent = True, 0
                yield Watching(each.position)
    except PositionLost as error:
        if resumed:
            raise
        hint = "watch again; modules that are there already are looked at first"
        raise LimitExceeded(error.message, hint=hint, metadata=error.metadata) from error


def _answers(
    happening: ModuleEvent, breakpoints: Sequence[Breakpoint], store: ModuleStore, opener: Callable[[str], Index]
) -> Iterator[Resolved]:
    match happening:
        case ModuleAdded(position, digest):
            yield from _added(breakpoints, digest, opener)
            for loaded in _told_before(store, digest, position):
                yield from _loaded(breakpoints, loaded, opener)
        case LoadBegan(position, loaded):
            if not _comes_later(store, loaded.load.module, position):
                yield from _loaded(breakpoints, loaded, opener)


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


def _added(breakpoints: Sequence[Breakpoint], digest: Digest, opener: Callable[[str], Index]) -> Iterator[Resolved]:
    """A module that is gone again or cannot be read, whatever the reason, answers nothing: the watch is about all others
    too."""
    try:
        found = list(resolved(opener(digest), digest, breakpoints))
    except SymdError:
        return
    yield from found


def _loaded(
    breakpoints: Sequence[Breakpoint], loaded: LoadInContext, opener: Callable[[str], Index]
) -> Iterator[Resolved]:
    """The same of a load, with the device addresses that its segments say."""
    try:
        index = opener(loaded.load.module)
        found = list(resolved(index, loaded.load.module, breakpoints))
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
