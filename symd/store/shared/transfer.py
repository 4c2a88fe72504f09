"""A transfer from one store into another, of whatever kinds, while daemons may use both.

Each module comes with its index and its aliases; contexts with their loads come after all modules. What the target
already has is not sent, so an interrupted transfer goes on when it is begun anew. A module is compared with its digest
on the way in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock
from typing import Final

from symd.config import MIB
from symd.errors import DataLoss, HashMismatch, LimitExceeded, ModuleNotFound
from symd.index.format import VERSION
from symd.index.lookup import Index
from symd.model.contexts import Alias, ContextRecord
from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store import ModuleStore
from symd.store.catalogued import OLDEST

PAGE: Final = 500
"""Modules, aliases, contexts or loads that are looked at together."""
AT_A_TIME: Final = 4
"""Modules that are copied at a time; most of the time is spent waiting for the stores."""
_PIECE: Final = MIB
Progress = Callable[[int, int], None]
"""Called with the bytes of the modules that are done, and of all modules."""


@dataclass(slots=True)
class Transferred:
    """What was transferred; ``there`` counts modules that the target had already, ``damaged`` are modules that were
    left out because their bytes do not have their digest."""

    modules: int = 0
    module_bytes: int = 0
    there: int = 0
    indexes: int = 0
    aliases: int = 0
    contexts: int = 0
    damaged: list[Digest] = field(default_factory=list)


def transfer(source: ModuleStore, target: ModuleStore, progress: Progress | None = None) -> Transferred:
    """Copy everything of ``source`` into ``target``. Raises what either raises, ``StoreUnavailable`` above all; what
    was copied until then stays, and another call goes on from there.

    Times are not copied: in ``target`` a module was added, and used last, when it came."""
    running = _Transfer(source, target, progress)
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        for page in _pages(source):
            missing = set(target.missing([record.sha256 for record in page]))
            for _ in pool.map(lambda record: running.module(record, new=record.sha256 in missing), page):  # noqa: B023
                pass
    for context in _contexts(source):
        running.context(context)
    return running.done


class _Transfer:
    """One transfer; safe to use from several threads."""

    def __init__(self, source: ModuleStore, target: ModuleStore, progress: Progress | None) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._total = source.figures().module_bytes
        self._seen = 0
        self._lock = Lock()
        self.done = Transferred()

    def module(self, record: ModuleRecord, *, new: bool) -> None:
        """Copy a module, unless it is there, and its index and aliases. One that is gone was removed meanwhile."""
        with suppress(ModuleNotFound):
            if not new or self._copy_bytes(record):
                if new:
                    self._copy_index(record.sha256)
                self._copy_aliases(record.sha256)
                self._count(record.size, new=new)

    def context(self, record: ContextRecord) -> None:
        """Copy a context and its loads."""
        name = self._target.context_log.add(record.context)
        after = 0
        while page := self._source.context_log.loads(record.id, after, PAGE):
            self._target.context_log.record(name, [load for _, load in page])
            after = page[-1][0]
        with self._lock:
            self.done.contexts += 1

    def _copy_bytes(self, record: ModuleRecord) -> bool:
        """Copy a module's bytes. Returns whether they have its digest."""
        try:
            data = self._source.data(record.sha256)
            with self._target.writer() as upload:
                for start in range(0, data.nbytes, _PIECE):
                    upload.write(data[start : start + _PIECE])
                upload.commit(record.sha256, record.label)
        except (DataLoss, HashMismatch):
            with self._lock:
                self.done.damaged.append(record.sha256)
            return False
        if record.format:  # else it is being indexed at this moment
            self._target.admit(record.sha256, record.format)
        return True

    def _copy_index(self, digest: Digest) -> None:
        """Copy a module's index, if there is one of this format and it is sound; else it is made again."""
        stored = self._source.index(digest, VERSION)
        if stored is None:
            return
        try:
            Index.checked(stored, digest)
        except DataLoss:
            return
        with suppress(LimitExceeded):  # the store has no room for it
            if self._target.put_index(digest, VERSION, stored) is not None:
                with self._lock:
                    self.done.indexes += 1

    def _copy_aliases(self, digest: Digest) -> None:
        last: Alias | None = None
        while page := self._source.aliases.of(digest, last, PAGE):
            self._target.aliases.add(page)
            last = page[-1]
            with self._lock:
                self.done.aliases += len(page)

    def _count(self, size: int, *, new: bool) -> None:
        with self._lock:
            self._seen += size
            if new:
                self.done.modules += 1
                self.done.module_bytes += size
            else:
                self.done.there += 1
            if self._progress is not None:
                self._progress(self._seen, self._total)


def _pages(store: ModuleStore) -> Iterator[Sequence[ModuleRecord]]:
    last = OLDEST
    while page := store.records(last, PAGE):
        yield page
        last = (page[-1].create_time, page[-1].sha256)


def _contexts(store: ModuleStore) -> Iterator[ContextRecord]:
    last = ""
    while page := store.context_log.contexts(last, PAGE):
        yield from page
        last = page[-1].id
