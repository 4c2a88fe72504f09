"""Modules as they are added, loaded, unloaded and removed, for one who watches.

First comes what is there, then everything from the log of modules that happened since the watch began, each once. Who is slow reads
later from the log: nothing waits in memory."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import replace

from symd.errors import BadQuery, ModuleNotFound
from symd.model.captures import CaptureApi
from symd.model.contexts import LoadInContext
from symd.model.identities import Digest
from symd.model.module_events import CaughtUp, LoadBegan, LoadEnded, ModuleAdded, ModuleEvent, ModuleRemoved
from symd.model.summaries import ModuleRecord
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
