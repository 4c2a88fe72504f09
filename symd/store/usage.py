"""When modules were used last, and which are in use: what eviction goes by.

A use is noted in memory; the times come to the catalogue now and then, so that no question waits for a disk."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock

from symd.store import rows
from symd.store.catalogue_queries import CatalogueQueries


class Usage:
    """Uses of modules in this process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._noted: dict[str, float] = {}
        self._held: Counter[str] = Counter()
        self._asked: list[Callable[[], Iterable[str]]] = []
        self._open: list[Callable[[str], bool]] = []

    def follow(self, asked: Callable[[], Iterable[str]], is_open: Callable[[str], bool]) -> None:
        """Ask a cache of open indexes too, so that a question about an open index has to note nothing: ``asked`` gives the modules that were
        asked for since it was called last, ``is_open`` says whether a module's index is open."""
        self._asked.append(asked)
        self._open.append(is_open)

    def note(self, digest: str) -> None:
        """The module is used now."""
        self._noted[digest] = time.time()

    @contextmanager
    def pin(self, digest: str) -> Iterator[None]:
        """The module is being added, indexed or read: it is not to be removed for want of room."""
        with self._lock:
            self._held[digest] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[digest] -= 1
                if not self._held[digest]:
                    del self._held[digest]
            self.note(digest)

    def is_held(self, digest: str) -> bool:
        return digest in self._held

    def is_open(self, digest: str) -> bool:
        """Whether the module's index is open."""
        return any(is_open(digest) for is_open in self._open)

    def recent(self) -> Mapping[str, float]:
        """When modules were used since ``write`` was called last, in seconds since the epoch."""
        for asked in self._asked:
            for digest in asked():
                self.note(digest)
        return self._noted.copy()

    def write(self, catalogue: CatalogueQueries, *, survives_power_cut: bool = True) -> None:
        """Write the times into the catalogue, and forget them; they are kept for the next time where that fails."""
        self.recent()
        with self._lock:
            times, self._noted = self._noted, {}
        if not times:
            return
        try:
            with catalogue.writing(survives_power_cut=survives_power_cut) as connection:
                rows.touch(connection, times)
        except BaseException:
            with self._lock:
                self._noted = {**times, **self._noted}
            raise
