"""The verbs of symd, and the in-process engine that joins the rooms to answer them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import Self

from symd import containers, elf, index
from symd.api import AliasVerbs, ContextVerbs, Receiving
from symd.config import Limits
from symd.contexts.verbs import Contexts, StoredAliases
from symd.errors import (
    DataLoss,
    DriverMissing,
    InvalidInput,
    LimitExceeded,
    NoDebugData,
    NotFound,
    ObjectNotFound,
    SymdError,
    ToolMissing,
    Unsupported,
)
from symd.index import Index
from symd.index.cache import IndexCache
from symd.index.module import build_index, described
from symd.index.module_tables import Indexed
from symd.index.partial import MANY, PartialIndex
from symd.model.addresses import ByKernel, KernelOffset, Query
from symd.model.answers import Answer, Answers
from symd.model.breakpoints import Breakpoint, Event, Located, SourceLine, Watch, Watching, check_breakpoints
from symd.model.code import CodeObject
from symd.model.columns import U64
from symd.model.grabs import Grabbed, GrabRequest
from symd.model.line_tables import LineLevel, LineTable
from symd.model.listings import WHOLE_MODULE, Listing, ListingPart
from symd.model.names import NamedItem, NameQuery
from symd.model.sources import PathRule, SourceText
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.variables import InScope
from symd.query.breakpoints import locate
from symd.query.lines import lines
from symd.query.listing import Disassemble, chosen, listings
from symd.query.names import find_names
from symd.query.ptx_lines import ptx_table
from symd.query.source_text import from_module
from symd.query.symbolize import symbolize, symbolize_column, symbolize_one
from symd.query.variables import variables
from symd.query.watch import resolved
from symd.store import Store, Upload
from symd.store.arrivals import Arrivals, Listener

Grabber = Callable[[GrabRequest, Limits], Grabbed]
Builder = Callable[[bytes, Limits], bytes]
_SMALL = 1 << 16
"""Bytes of a module that is indexed in the thread that asks."""
_COPIED = 1 << 18
"""Bytes of an index that is read rather than mapped: a mapping holds a file descriptor."""
_EXCERPTS = 4
"""Modules of many code objects that are kept open while their indexes are made."""


class Engine:
    """The verbs over a store in this process. Safe to use from several threads; a module that several ask for at once
    is indexed once.

    ``grab`` is the function that drives real drivers (``symd.drivers.grab``); without one the verb of that name is
    refused. ``disassemble`` runs disassemblers (``symd.disasm.disassemble``); likewise. ``build`` indexes modules that
    are not small, elsewhere than in the thread that asks where it can (``symd.service.building``).
    """

    def __init__(
        self,
        store: Store,
        limits: Limits | None = None,
        grab: Grabber | None = None,
        disassemble: Disassemble | None = None,
        build: Builder = build_index,
    ) -> None:
        self.store = store
        self.limits = limits or Limits()
        self._grab = grab
        self._disassemble = disassemble
        self._build = build
        self._indexes = IndexCache(self.limits.open_indexes)
        self._excerpts: dict[str, PartialIndex] = {}
        self._arrivals = Arrivals()
        self.contexts: ContextVerbs = Contexts(store.context_log, self._index)
        self.aliases: AliasVerbs = StoredAliases(store.aliases, store.context_log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store and end all watches. Indexes that are being read stay readable."""
        self._arrivals.close()
        self._indexes.clear()
        self.store.close()

    def missing(self, digests: Sequence[str]) -> list[str]:
        return self.store.missing(digests)

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        digest = hashlib.sha256(data).hexdigest()
        known = not self.store.missing([digest])
        if not known:
            self._refuse_known_failure(digest)
            self.store.put(data, label)
        return self.admit(digest, known=known)

    def receive(self, label: str = "") -> Receiving:
        """Begin to take a module whose bytes come piece by piece; in memory there is never more than a piece."""
        return _Arriving(self.store.writer(), partial(self._keep, label=label))

    def _keep(self, upload: Upload, digest: str, label: str) -> ModuleSummary:
        known = not self.store.missing([digest])
        if not known and upload.digest == digest:
            self._refuse_known_failure(digest)
        upload.commit(digest, label)
        return self.admit(digest, known=known)

    def admit(self, digest: str, *, known: bool = False) -> ModuleSummary:
        """Index a module whose bytes were just stored (``known``: were there before). One that cannot be indexed is
        taken out of the store again, and the reason is remembered."""
        try:
            opened = None if self._indexes.get(digest) else self._excerpt(digest)
            summary = opened.summary if opened else self._index(digest).summary
        except SymdError as error:
            if not known:
                self.store.remove(digest)
                self.store.remember_failure(digest, index.VERSION, error)
            raise
        self.store.set_format(digest, summary.format)
        if not known:
            self._arrivals.announce(digest)
        return summary

    def resume(self) -> None:
        """Admit what a process that was killed had stored and not indexed yet, or take it out again."""
        for record in [record for record in self.modules() if not record.format]:
            with suppress(InvalidInput, LimitExceeded, Unsupported, NotFound):
                self.admit(record.sha256)

    def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        if self._grab is None:
            raise DriverMissing("this engine was made without drivers", hint="use the daemon, or symd grab")
        grabbed = self._grab(request, self.limits)
        if not grabbed.debug_data:
            raise NoDebugData(
                f"the driver built {', '.join(grabbed.kernels) or 'the module'} and has no debug data for it",
                where=grabbed.driver,
                hint="build from source with -g, or give SPIR-V that carries debug information",
            )
        return self.add(grabbed.debug_data, request.label), grabbed

    def modules(self) -> Iterator[ModuleRecord]:
        page = self.store.records()
        while page:
            yield from page
            page = self.store.records(after=(page[-1].added, page[-1].sha256))

    def module(self, digest: str) -> ModuleSummary:
        return self._index(digest).summary

    def object_data(self, digest: str, path: str) -> bytes:
        for code in self._objects(digest):
            if code.path == path:
                return code.data
        raise ObjectNotFound(f"there is no code object {path!r}", where=digest, metadata={"object": path})

    def lines(self, digest: str, path: str | None = None, level: LineLevel = LineLevel.SOURCE) -> Iterator[LineTable]:
        if level is LineLevel.PTX:
            return self._ptx_lines(digest, path)
        return lines(self._index(digest), path)

    def _ptx_lines(self, digest: str, path: str | None) -> Iterator[LineTable]:
        """Decoded anew when asked: no index holds this level, which few files have and nobody looks addresses up in."""
        self._index(digest)
        chosen = [code for code in self._objects(digest) if path in (None, code.path)]
        if not chosen:
            raise ObjectNotFound(f"there is no code object {path!r}", where=digest, hint="symd info FILE lists them")
        return (table for table in map(ptx_table, chosen) if table is not None)

    def symbolize(self, digest: str, queries: Sequence[Query], path: str | None = None) -> Answers:
        return symbolize(self._index_for(digest, queries), queries, path)

    def symbolize_one(self, digest: str, query: Query, path: str | None = None) -> Answer:
        found = self._indexes.get(digest)
        if found is None:
            found = self._index_for(digest, (query,))
        return symbolize_one(found, query, path)

    def symbolize_column(
        self,
        digest: str,
        values: U64,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
    ) -> Answers:
        meant = () if kernel is None else (ByKernel(kernel, KernelOffset(0)),)
        found = self._index_for(digest, meant)
        return symbolize_column(found, values, kernel=kernel, section=section, path=path)

    def locate(
        self,
        digest: str,
        where: SourceLine,
        path: str | None = None,
        *,
        every: bool = False,
        rules: Sequence[PathRule] = (),
    ) -> Located:
        return locate(self._index(digest), where, path, every=every, rules=rules)

    def names(self, digest: str, wanted: NameQuery, path: str | None = None) -> Sequence[NamedItem]:
        return find_names(self._index(digest), wanted, path)

    def variables(self, digest: str, query: Query, path: str | None = None) -> InScope:
        return variables(self._index(digest), query, lambda: self._objects(digest), path)

    def listing(self, digest: str, part: ListingPart = WHOLE_MODULE) -> Iterator[Listing]:
        if self._disassemble is None:
            raise ToolMissing("this engine was made without disassemblers", hint="use the daemon, or symd listing")
        codes = chosen(self._objects(digest), part)
        return listings(self._index(digest), codes, self._disassemble(codes, part.kernel, self.limits))

    def sources(self, digest: str, files: Sequence[str], path: str | None = None) -> list[SourceText]:
        return from_module(self._objects(digest), files, path)

    def _objects(self, digest: str) -> tuple[CodeObject, ...]:
        """The code objects themselves, opened anew."""
        return containers.unpack(bytes(self.store.data(digest)), self.limits).objects

    def watch(self, breakpoints: Sequence[Breakpoint], *, known: bool = True) -> Watch:
        check_breakpoints(breakpoints)
        listener = self._arrivals.listen()
        return Watch(self._events(tuple(breakpoints), listener, known), listener.close)

    def _events(self, breakpoints: tuple[Breakpoint, ...], news: Listener, known: bool) -> Iterator[Event]:
        """What arrives while the modules that are there are gone through is told once."""
        told: set[str] = set()
        for record in self.modules() if known else ():
            if news.closed:
                return
            told.add(record.sha256)
            yield from self._resolved(record.sha256, breakpoints)
        overlap = len(news)
        yield Watching()
        while (digest := news.take()) is not None:
            if overlap <= 0 or digest not in told:
                yield from self._resolved(digest, breakpoints)
            overlap -= 1

    def _resolved(self, digest: str, breakpoints: tuple[Breakpoint, ...]) -> Iterator[Event]:
        """A module that is gone again or cannot be read answers nothing."""
        try:
            found = self._index(digest)
        except (NotFound, InvalidInput, LimitExceeded, Unsupported):
            return
        yield from resolved(found, digest, breakpoints)

    def _index(self, digest: str) -> Index:
        """The open index; opened from the store, or built, when it is not."""
        found = self._indexes.get(digest)
        if found is not None:
            return found
        with self._indexes.making(digest):
            found = self._indexes.get(digest) or self._stored(digest) or self._built(digest)
            self._indexes.put(digest, found)
            self._excerpts.pop(digest, None)
        return found

    def _stored(self, digest: str) -> Index | None:
        """The index in the store; None when there is none or it is damaged, which a new one mends."""
        stored = self.store.index(digest, index.VERSION)
        if stored is None:
            return None
        try:
            found = Index(bytes(stored) if len(stored) < _COPIED else stored)
            found.check()
        except DataLoss:
            return None
        return found

    def _built(self, digest: str) -> Index:
        self._refuse_known_failure(digest)
        data = bytes(self.store.data(digest))
        build = self._build if len(data) > _SMALL else build_index
        try:
            built = build(data, self.limits)
        except SymdError as error:
            self.store.remember_failure(digest, index.VERSION, error)
            raise
        self.store.put_index(digest, index.VERSION, built)
        return self._stored(digest) or Index(built)

    def _index_for(self, digest: str, queries: Sequence[Query]) -> Index:
        """An index that answers ``queries``, which all name a kernel; of a module of many code objects not the whole one,
        when that is not made yet."""
        found = self._indexes.get(digest)
        if found is None and queries and all(isinstance(query, ByKernel) for query in queries):
            excerpt = self._excerpt(digest)
            found = excerpt.index(queries) if excerpt else None
        return found or self._index(digest)

    def _excerpt(self, digest: str) -> PartialIndex | None:
        """The module opened and not decoded; None when it has an index, or is of few code objects."""
        known = self._excerpts.get(digest)
        if known is not None or self.store.index(digest, index.VERSION) is not None:
            return known
        data = self.store.data(digest)
        if len(data) <= _SMALL or bytes(data[:4]) == elf.MAGIC:
            return None
        self._refuse_known_failure(digest)
        owned = bytes(data)
        unpacked = containers.unpack(owned, self.limits)
        if len(unpacked.objects) < MANY:
            return None
        bare = [Indexed(code, None) for code in unpacked.objects]
        made = PartialIndex(unpacked.objects, described(owned, digest, unpacked, bare), parts=False)
        while len(self._excerpts) >= _EXCERPTS:
            self._excerpts.pop(next(iter(self._excerpts)), None)
        self._excerpts[digest] = made
        if self._build is not build_index:
            threading.Thread(target=self._index_quietly, args=(digest,), daemon=True).start()
        return made

    def _index_quietly(self, digest: str) -> None:
        """What goes wrong is told to whoever asks next."""
        with suppress(SymdError):
            self._index(digest)

    def _refuse_known_failure(self, digest: str) -> None:
        failure = self.store.failure(digest, index.VERSION)
        if failure is not None:
            raise failure


class _Arriving:
    """``Receiving`` by a store: the bytes go to the disk as they come, and ``keep`` gets them with their digest."""

    def __init__(self, upload: Upload, keep: Callable[[Upload, str], ModuleSummary]) -> None:
        self._upload = upload
        self._keep = keep

    @property
    def size(self) -> int:
        return self._upload.size

    def write(self, chunk: bytes) -> None:
        self._upload.write(chunk)

    def commit(self, expected_digest: str) -> ModuleSummary:
        return self._keep(self._upload, expected_digest)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._upload.abort()
