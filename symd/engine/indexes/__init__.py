"""The life of an index: partial, whole, stored, or a failure that is remembered.

An index answers every question about a module by search. Making one takes a while, so there are layers, and a question
is answered by the first that can:

1. *Open*: a whole index in memory or mapped, in ``IndexCache``. Looking there takes no lock; it is all that most
   questions ever do. What was used longest ago is closed when the open ones take more than ``Limits.open_indexes``
   bytes.
2. *Partial*: a module that is opened and of which only what the questions so far needed is decoded (``PartialIndex``).
   It has the format of a whole one and gives the same answers, or none: then the next layer is asked. A process that
   answers a few questions about one file and ends (``index.partial``) goes no further than it must. A store's module
   has one when it has many code objects and the questions name kernels, so that the first answer need not wait for all
   of them; the whole is made meanwhile, where there is somewhere else to make it.
3. *Stored*: the index file that the store has under the module's digest and ``format.VERSION``. One that is damaged, or
   is not what the schema says, is made anew. The first question for one address is answered from the file, without
   opening it (``search_stored_index``): what is read of it is compared with its checksums; the next one opens it.
4. *Built*: made from the module's bytes and put into the store. Whoever asks first builds; others who ask for the same
   module wait.

Whoever reads a module's bytes is a ``Reader``: in a daemon another process, for large modules and for small. What it
makes of them comes back as an index file, which is checked before anything of it is believed.

*Failures* are answers too. That bytes are malformed, unsupported or beyond a limit is the same every time: the store
keeps the error under digest and version (``store.catalogued`` says which kinds last), and it is raised again without
another look at the bytes, unless the limit that it names has been raised since. A module that was just added and cannot
be indexed is taken out of the store again; what is remembered stays. A new ``format.VERSION`` forgets indexes and
failures alike, because both are kept under it.

*Attempts* are counted before they begin, so that bytes which end the process that reads them, or this one, do so
``MAX_ATTEMPTS`` times and not forever: then the module is malformed, and that is remembered. An answer or an error
forgets the count.

*Damage*: where the bytes of a stored module are not those of its digest any more, its file is set aside. Its index,
which has a checksum of its own, goes on answering, and adding the same bytes again mends the rest.

*Ahead*: the index of a module that came piece by piece is begun when its bytes are whole and hashed, while the disk
still takes them in; nothing is kept of it before the module's own row is.

*Admission*: ``add``, ``keep`` and ``admit`` take a module whose bytes are at hand through the layers once, so that what
is in the catalogue with a format has been opened, and tell those who listen that it is there.

``indexes`` has all that, with the attempts and what builds in the background in ``attempts``. Here are the open
indexes, kept while they are used."""

from __future__ import annotations

import threading
from heapq import heapify, heappop, heappush, heapreplace

from symd.index.lookup import Index

_LEAST_COMPACTED = 64
"""A heap of fewer entries is left as it is."""


class IndexCache:
    """The most recently used indexes that together take no more than ``budget`` bytes. The last one put stays, however
    large it is. Safe to use from several threads; whoever only looks takes no lock.

    Time is counted in turns: one ends when an index is put, and when one is asked for again that was asked for in it.
    Of indexes that were last asked for in the same turn none counts as older. So many of them share a number, and a
    look at one that has left the processor's caches neither makes nor frees one."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._items: dict[str, Index] = {}
        self._oldest: list[tuple[int, str]] = []
        self._turn = 0
        self._held = 0
        self._noted = -1

    def asked(self) -> list[str]:
        """The modules whose indexes were asked for since this was called last."""
        with self._lock:
            since, self._noted = self._noted, self._turn
            self._turn += 1
            return [digest for digest, item in self._items.items() if item.used > since]

    def get(self, digest: str) -> Index | None:
        found = self._items.get(digest)
        if found is None:
            return None
        turn = self._turn
        if found.used == turn:
            self._turn = turn = turn + 1
        found.used = turn
        return found

    def put(self, digest: str, item: Index) -> None:
        """Keep an index, in place of an older one of that module."""
        with self._lock:
            self._forget(digest)
            item.used = self._turn
            self._items[digest] = item
            self._note_oldest(digest)
            self._turn += 1
            self._held += item.weight
            self._shrink()

    def digests(self) -> tuple[str, ...]:
        """The modules whose indexes are open."""
        return tuple(self._items)

    def forget(self, digest: str) -> None:
        """Let go of a module's index."""
        with self._lock:
            self._forget(digest)

    def _note_oldest(self, digest: str) -> None:
        """Add an index to the heap, which is made anew where most of it is of indexes that are gone."""
        if len(self._oldest) < 2 * len(self._items) + _LEAST_COMPACTED:
            heappush(self._oldest, (self._turn, digest))
        else:
            self._oldest = [(item.used, each) for each, item in self._items.items()]
            heapify(self._oldest)

    def _shrink(self) -> None:
        """What was asked for since it was noted is noted anew, so that the heap's top is in truth the oldest."""
        while self._held > self._budget and len(self._items) > 1:
            turn, digest = self._oldest[0]
            held = self._items.get(digest)
            if held is not None and held.used != turn:
                heapreplace(self._oldest, (held.used, digest))
            else:
                heappop(self._oldest)
                self._forget(digest)

    def _forget(self, digest: str) -> None:
        held = self._items.pop(digest, None)
        if held is not None:
            self._held -= held.weight

    def clear(self) -> None:
        with self._lock:
            self._items.clear()
            self._oldest.clear()
            self._held = 0

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, digest: str) -> bool:
        """Whether an index is open, without counting as a use."""
        return digest in self._items
