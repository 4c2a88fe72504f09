"""The life of an index: partial, whole, stored, or a failure that is remembered.

An index answers every question about a module by search. Making one takes a while, so there are layers, and a question
is answered by the first that can:

1. *Open*: a whole index in memory or mapped, in ``IndexCache``. Looking there takes no lock; it is all that most
   questions ever do. What was used longest ago is closed when the open ones take more than ``Limits.open_indexes``
   bytes.
2. *Partial*: a module that is opened and of which only what the questions so far needed is decoded (``PartialIndex``).
   It has the format of a whole one and gives the same answers, or none: then the next layer is asked. A process that
   answers a few questions about one file and ends (``FileIndex``) goes no further than it must. A store's module has
   one when it has many code objects and the questions name kernels, so that the first answer need not wait for all of
   them; the whole is made meanwhile, where there is somewhere else to make it.
3. *Stored*: the index file that the store has under the module's digest and ``format.VERSION``. One that is damaged, or
   is not what the schema says, is made anew.
4. *Built*: made from the module's bytes and put into the store. Whoever asks first builds; others who ask for the same
   module wait. Small modules are built in the thread that asks, others by ``build``, which may go to another process. A
   process that has no store keeps what it built for as long as it lives.

*Failures* are answers too. That bytes are malformed, unsupported or beyond a limit is the same every time: the store
keeps the error under digest and version (``store.failures`` says which kinds last), and it is raised again without
another look at the bytes. A module that was just added and cannot be indexed is taken out of the store again; what is
remembered stays. A new ``format.VERSION`` forgets indexes and failures alike, because both are kept under it.

*Admission*: ``add``, ``keep`` and ``admit`` take a module whose bytes are at hand through the layers once, so that what
is in the catalogue with a format has been opened, and tell those who listen that it is there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from symd import containers
from symd.config import Limits
from symd.elf.constants import MAGIC
from symd.errors import DataLoss, ObjectNotFound, SymdError
from symd.index import VERSION, Index, build
from symd.index.module import build_index, decoded_objects, described
from symd.index.module_tables import DecodedObject
from symd.index.partial import MIN_OBJECTS, PartialIndex
from symd.model.addresses import ByKernel, Query
from symd.model.code import CodeObject
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary

if TYPE_CHECKING:
    from symd.store import Store, Upload

Builder = Callable[[bytes, Limits], bytes]
MAX_PARTIAL_QUERIES = 64
"""Queries about one file that a partial index may answer; more need most of the file anyway."""
_SMALL_MODULE_BYTES = 1 << 16
"""A module of so many bytes is indexed in the thread that asks."""
_COPIED_INDEX_BYTES = 1 << 18
"""An index of fewer bytes is read rather than mapped: a mapping holds a file descriptor."""
_OPEN_PARTIALS = 4
"""Modules of many code objects that are kept open while their indexes are made."""


class FileIndex:
    """The index of one opened module in a process without a store: partial, then whole."""

    def __init__(self, objects: Sequence[CodeObject], summary: ModuleSummary, limits: Limits) -> None:
        self._objects, self._limits = objects, limits
        self._summary = summary

    def for_queries(self, queries: Sequence[Query]) -> Index:
        """An index that answers ``queries``."""
        if "_whole" in vars(self) or len(queries) > MAX_PARTIAL_QUERIES:
            return self._whole
        return self._partial.index(queries) or self._whole

    @cached_property
    def _partial(self) -> PartialIndex:
        return PartialIndex(self._objects, self._summary, units=True, limits=self._limits)

    @cached_property
    def _whole(self) -> Index:
        return Index(build(decoded_objects(self._objects, self._limits), self._summary))


class Indexes:
    """The indexes of the modules in a store. Safe to use from several threads; a module that several ask for at once is
    indexed once. ``build`` makes an index file of a module's bytes."""

    def __init__(self, store: Store, limits: Limits, build: Builder = build_index) -> None:
        from symd.index.cache import IndexCache  # noqa: PLC0415 - whoever reads one file needs none

        self._store = store
        self._limits = limits
        self._build = build
        self._cache = IndexCache(limits.open_indexes)
        self.get_open = self._cache.get
        """The open index of a module, or None: the cache's own method, because single questions ask nothing else."""
        self._partials: dict[str, PartialIndex] = {}
        self._building: dict[str, threading.Lock] = {}
        store.usage.follow(self._cache.asked, self._cache.__contains__)
        store.departures.listen(self._forget)

    def whole(self, digest: str) -> Index:
        """The whole index, from the first layer that has it. Raises what is remembered of the module, or building it."""
        return self.get_open(digest) or self._opened(digest, None)

    def for_queries(self, digest: str, queries: Sequence[Query]) -> Index:
        """An index that answers ``queries``; where these name kernels, not the whole one when that is not made yet."""
        found = self.get_open(digest)
        if found is None and queries and all(isinstance(query, ByKernel) for query in queries):
            partial = self._partial(digest, None)
            found = partial.index(queries) if partial else None
        return found or self.whole(digest)

    def add(self, digest: str, data: bytes, label: str) -> ModuleSummary:
        """Put a module into the store and index it. Where it is there already nothing changes."""
        state = self._store.state(digest, VERSION)
        if not state.present:
            if state.failure is not None:
                raise state.failure
            self._store.put(data, label)
        return self._admitted(digest, data, new=not state.present)

    def keep(self, upload: Upload, digest: str, label: str) -> ModuleSummary:
        """The same for bytes that came piece by piece. ``digest`` is what they should have."""
        state = self._store.state(digest, VERSION)
        if state.failure is not None and not state.present and upload.digest == digest:
            raise state.failure
        upload.commit(digest, label)
        return self._admitted(digest, None, new=not state.present)

    def admit(self, digest: str) -> ModuleSummary:
        """Index a module that is in the store and never was, or take it out again."""
        return self._admitted(digest, None, new=True)

    def remove(self, digest: str) -> None:
        """Take a module out of the store and forget its index, also one that is being made. Raises ``ModuleNotFound``."""
        with self._building.setdefault(digest, threading.Lock()):
            try:
                self._store.remove(digest)
                self._partials.pop(digest, None)
                self._cache.forget(digest)
            finally:
                self._building.pop(digest, None)

    def code_objects(self, digest: str) -> tuple[CodeObject, ...]:
        """The code objects themselves, opened anew: no index has their bytes."""
        return containers.unpack(bytes(self._store.data(digest)), self._limits).objects

    def code_object(self, digest: str, path: str) -> CodeObject:
        """The one at ``path``. Raises ``ObjectNotFound``."""
        for code in self.code_objects(digest):
            if code.path == path:
                return code
        raise ObjectNotFound.at(path, digest)

    def close(self) -> None:
        """Forget all. Indexes that are being read stay readable."""
        self._cache.clear()

    def _forget(self, digests: Sequence[str] | None) -> None:
        """Let go of modules that are gone; None: of all."""
        for digest in self._cache.digests() if digests is None else digests:
            self._partials.pop(digest, None)
            self._cache.forget(digest)

    def _admitted(self, digest: str, data: bytes | None, *, new: bool) -> ModuleSummary:
        """``data``: the bytes of a module that was not there before, where they are in memory."""
        fresh = data if new else None
        try:
            known = None if new else self.get_open(digest)
            summary = (known or self._partial(digest, fresh) or self._opened(digest, fresh)).summary
        except SymdError as error:
            if new:
                self._store.refuse(digest, VERSION, error)
            raise
        self._store.admit(digest, summary.format, tell=new)
        return summary

    def _opened(self, digest: str, fresh: bytes | None) -> Index:
        """Stored or built, one thread at a time. Of a module that is ``fresh``, nothing is stored or remembered yet."""
        with self._building.setdefault(digest, threading.Lock()):
            try:
                found = self.get_open(digest)
                if found is None:
                    stored = None if fresh else self._readable(self._store.index(digest, VERSION))
                    found = stored or self._built(digest, fresh)
                    self._cache.put(digest, found)
                    self._partials.pop(digest, None)
                return found
            finally:
                self._building.pop(digest, None)

    def _readable(self, stored: memoryview | None) -> Index | None:
        """An index file opened; None when there is none or it is damaged, which a new one mends."""
        if stored is None:
            return None
        try:
            return Index.checked(bytes(stored) if len(stored) < _COPIED_INDEX_BYTES else stored)
        except DataLoss:
            return None

    def _built(self, digest: str, fresh: bytes | None) -> Index:
        if fresh is None:
            self._refuse_known_failure(digest)
        data = fresh or bytes(self._store.data(digest))
        make = self._build if len(data) > _SMALL_MODULE_BYTES else build_index
        try:
            built = make(data, self._limits)
        except SymdError as error:
            self._store.remember_failure(digest, VERSION, error)
            raise
        return self._readable(self._store.put_index(digest, VERSION, built)) or Index(built)

    def _partial(self, digest: str, fresh: bytes | None) -> PartialIndex | None:
        """The module opened and not decoded; None when it has an index, or is of few code objects."""
        known = self._partials.get(digest)
        if known is not None:
            return known
        if fresh is None and self._store.index(digest, VERSION) is not None:
            return None
        data = fresh or self._store.data(digest)
        if len(data) <= _SMALL_MODULE_BYTES or data[:4] == MAGIC:
            return None
        if fresh is None:
            self._refuse_known_failure(digest)
        made = self._partial_of(digest, bytes(data))
        if made is not None:
            while len(self._partials) >= _OPEN_PARTIALS:
                self._partials.pop(next(iter(self._partials)), None)
            self._partials[digest] = made
            if self._build is not build_index:
                threading.Thread(target=self._build_meanwhile, args=(digest,), daemon=True).start()
        return made

    def _partial_of(self, digest: str, data: bytes) -> PartialIndex | None:
        unpacked = containers.unpack(data, self._limits)
        if len(unpacked.objects) < MIN_OBJECTS:
            return None
        undecoded = [DecodedObject(code, None) for code in unpacked.objects]
        return PartialIndex(
            unpacked.objects, described(data, Digest(digest), unpacked, undecoded), units=False, limits=self._limits
        )

    def _build_meanwhile(self, digest: str) -> None:
        """What goes wrong is remembered, or met again by whoever asks next."""
        try:
            self.whole(digest)
        except SymdError:
            return

    def _refuse_known_failure(self, digest: str) -> None:
        failure = self._store.failure(digest, VERSION)
        if failure is not None:
            raise failure
