"""The verbs of symd, and the in-process engine that joins the rooms to answer them."""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Self, overload

from symd.api import AliasVerbs, Receiving, ServedContextVerbs
from symd.config import DEFAULT_LIMITS, Limits
from symd.cores import DumpContents, with_frames
from symd.cores.answering import CoreAnswering, KeptCode
from symd.engine.contexts import LoadedPlaces, code_at
from symd.engine.contexts.verbs import StoredAliases, StoredContexts
from symd.engine.contexts.watches import Watcher, checked_apis
from symd.engine.indexes.manager import IndexManager
from symd.engine.reading.questions import (
    CallFrameData,
    CodeIdentities,
    DumpedBytes,
    DumpedMemory,
    EmbeddedSources,
    FrameAddresses,
    InProcessReader,
    ListedCode,
    ObjectBytes,
    PtxLinesRequest,
    Reader,
    SectionBytes,
    StoppedWaves,
    VariablesAt,
    WriteObject,
)
from symd.engine.scopes import RecentCode, ScopeReader
from symd.errors import (
    DriverMissing,
    NoDebugData,
    StoreUnavailable,
    SymdError,
    ToolMissing,
    Unavailable,
    WorkerDied,
)
from symd.index import VERSION, Index
from symd.model.addresses import ByDevice, ByKernel, KernelOffset, Query
from symd.model.answers import Answer, Answers, Reason
from symd.model.arguments import (
    AnyColumn,
    AnyNames,
    AnyPlace,
    AnyQuery,
    AnyTimes,
    ColumnQuestion,
    ContextName,
    ModuleName,
    address_column,
    checked_bytes,
    checked_column,
    checked_context_id,
    checked_files,
    checked_kernel,
    checked_level,
    checked_modules,
    checked_names,
    checked_object,
    checked_part,
    checked_path,
    checked_place,
    checked_places,
    checked_queries,
    checked_query,
    checked_question,
    checked_rules,
    checked_section,
    checked_targets,
    checked_within,
    is_one_query,
    unchecked_digest,
)
from symd.model.breakpoints import Breakpoint, Located, Refusal, checked_breakpoints
from symd.model.cancellation import check_cancelled
from symd.model.contexts import DeviceAnswers, Origin
from symd.model.cores import CoreDump
from symd.model.grabs import GRAB_HINT, Grabbed, GrabRequest
from symd.model.identities import Digest
from symd.model.line_tables import (
    WHOLE_MODULE,
    Around,
    CodePart,
    LineLevel,
    LineTable,
    Listing,
    ListingPart,
    RowsInParts,
)
from symd.model.names import NamedItem
from symd.model.sources import PathRule, SourceText
from symd.model.summaries import ModuleRecord, ModuleSummary
from symd.model.texts import checked_label, of_kind
from symd.model.variables import InScope, Visible
from symd.model.watches import BreakpointChange, Watch
from symd.query.breakpoints import locate
from symd.query.code_spans import CodeFinder, check_ranged, ranged, spans
from symd.query.line_tables import Disassemble, Disassembled, lines, listings, of_part, ptx_within, stored_tables
from symd.query.names import find_names
from symd.query.source_files import with_named
from symd.query.symbolize import NameSearchBudget, symbolize, symbolize_column, symbolize_one
from symd.store import ModuleStore, Upload
from symd.store.catalogued import OLDEST

_answer = Index.answer
"""``Index.answer`` as a function. ``index.answer`` would be looked for in the dictionary of that index first, memory
that the processor's caches do not hold where questions come one at a time."""


Grabber = Callable[[GrabRequest, Limits], Grabbed]
"""Drives a real driver (``symd.capture.drivers.grab``)."""


class Engine:
    """The verbs over a store in this process. Safe to use from several threads; a module that several ask for at once
    is indexed once (``symd.engine.indexes``).

    ``grab`` is the function that drives real drivers (``symd.capture.drivers.grab``); without one the verb of that name
    is refused. ``disassemble`` runs disassemblers (``symd.query.disasm.disassemble``); likewise. ``reader`` reads
    modules' bytes: without one this process does; a daemon has other processes do it (``symd.server.workers``).
    """

    def __init__(
        self,
        store: ModuleStore,
        limits: Limits | None = None,
        grab: Grabber | None = None,
        disassemble: Disassemble | None = None,
        reader: Reader | None = None,
    ) -> None:
        self.store = store
        self.limits = limits or DEFAULT_LIMITS
        self._grab = grab
        self._disassemble = disassemble
        self._indexes = IndexManager(store, self.limits, reader or InProcessReader(self.limits))
        self._recent_code = RecentCode()
        self._stopping = threading.Event()
        self._contexts = StoredContexts(store.context_log, self._indexes.whole)
        self.contexts: ServedContextVerbs = self._contexts
        self._scopes = ScopeReader(self.contexts, self._indexes)
        self._loaded_code = LoadedPlaces(self._contexts, store.context_log, self._indexes.whole)
        self.aliases: AliasVerbs = StoredAliases(store.aliases, store.context_log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store and end all watches. Indexes that are being read stay readable."""
        self._indexes.close()
        self.store.close()

    def missing(self, digests: Sequence[str]) -> list[str]:
        """While the catalogue cannot say it, modules whose indexes are open count as there: questions about them are
        answered. While the object storage cannot, nobody knows what it has lost."""
        digests = checked_modules(digests)
        try:
            return self.store.missing(digests)
        except StoreUnavailable as error:
            if "storage" in error.metadata or not all(map(self.is_open, digests)):
                raise
            return []

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        return self._indexes.add_bytes(hashlib.sha256(checked_bytes(data)).hexdigest(), data, checked_label(label))

    def receive(self, label: str = "") -> Receiving:
        """Begin to take a module whose bytes come piece by piece; in memory there is never more than a piece."""
        return _Arriving(self.store.writer(), partial(self._indexes.add_upload, label=checked_label(label)))

    def resume(self) -> None:
        """Finish what a process that was killed had begun: give files without a row theirs, and index what was stored
        and is not indexed yet, or take it out again; then make indexes of older formats anew. May take long, and has no
        haste: a daemon does it beside its work. Ends early when ``stop_resuming`` is called, or where nothing can be
        read for now."""
        self.store.adopt(self._stopping.is_set)
        unfinished = [record.sha256 for record in self.modules() if not record.format]
        if self._done_for_each(unfinished, self._indexes.index_stored):
            self._done_for_each(self.store.outdated(VERSION), self._indexes.rebuild_outdated)

    def _done_for_each(self, digests: Sequence[str], act: Callable[[str], object]) -> bool:
        """Whether all could be tried before ``stop_resuming`` or the end of what reads them."""
        for digest in digests:
            if self._stopping.is_set():
                return False
            try:
                act(digest)
            except Unavailable as error:
                if not isinstance(error, WorkerDied):
                    return False
            except SymdError:
                continue  # it is remembered, or counted; whoever asks for the module hears it
        return True

    def stop_resuming(self) -> None:
        """Let ``resume`` end after the module at hand."""
        self._stopping.set()

    def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        of_kind(request, GrabRequest, GRAB_HINT)
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
        return self.records(OLDEST)

    def records(self, after: tuple[float, str], at_once: int = 1000) -> Iterator[ModuleRecord]:
        while page := self.store.records(after, at_once):
            yield from page
            after = page[-1].create_time, page[-1].sha256

    def record(self, digest: ModuleName) -> ModuleRecord:
        return self.store.record(unchecked_digest(digest))

    def relabel(self, digest: ModuleName, label: str) -> ModuleRecord:
        self.store.relabel(unchecked_digest(digest), checked_label(label))
        return self.record(digest)

    def remove(self, digest: ModuleName) -> None:
        self._indexes.remove(unchecked_digest(digest))

    def module(self, digest: ModuleName) -> ModuleSummary:
        return self._indexes.whole(unchecked_digest(digest)).summary

    def object_data(self, digest: ModuleName, path: str) -> bytes:
        return self._indexes.ask(unchecked_digest(digest), ObjectBytes(checked_object(path)))

    def object_pieces(self, digest: str, path: str, size: int) -> Iterator[bytes]:
        with self.store.scratch() as file:
            self._indexes.ask(digest, WriteObject(path, str(file.path)))
            return file.pieces(size)

    def module_pieces(self, digest: str, size: int) -> Iterator[bytes]:
        """The module's own bytes in pieces of ``size`` bytes; it is not evicted meanwhile. Raises
        ``ModuleNotFound``."""
        with self.store.file(digest) as path, path.open("rb") as file:
            while piece := file.read(size):
                yield piece

    def section_data(self, digest: str, path: str | None, name: str) -> bytes:
        """The bytes of a section as they are in the file: of the code object at ``path``, or (None) of the module.
        Raises ``NotFound``."""
        return self._indexes.ask(digest, SectionBytes(path, name))

    def lines(
        self,
        digest: ModuleName,
        path: str | None = None,
        level: LineLevel = LineLevel.SOURCE,
        within: CodePart | None = None,
    ) -> Iterator[LineTable]:
        digest, path, level = unchecked_digest(digest), checked_path(path), checked_level(level)
        index, within = self._indexes.whole(digest), checked_within(within)
        if level is LineLevel.SOURCE:
            return lines(index, path, within)
        tables = self._indexes.ask(digest, PtxLinesRequest(path))
        return iter(tables) if within is None else ptx_within(index, tables, path, within)

    def stored_lines(
        self, digest: str, path: str | None = None, within: CodePart | None = None
    ) -> Iterator[RowsInParts]:
        index = self._indexes.whole(digest)
        return stored_tables(index, path) if within is None else lines(index, path, within)

    def symbolize(
        self,
        digest: ModuleName,
        queries: Iterable[AnyQuery],
        path: str | None = None,
        *,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> Answers:
        path, column = checked_path(path), address_column(queries)
        if column is not None and not with_ranges:
            return self.symbolize_column(digest, column, path=path, as_written=as_written)
        asked = checked_queries(queries)
        if with_ranges:
            check_ranged(len(asked))
            index = self._indexes.whole(unchecked_digest(digest)).view(as_written=as_written)
            return ranged(index, symbolize(index, asked, path, NameSearchBudget()))
        index = self._indexes.for_queries(unchecked_digest(digest), asked).view(as_written=as_written)
        return symbolize(index, asked, path, NameSearchBudget())

    def symbolize_one(
        self,
        digest: ModuleName,
        query: AnyQuery,
        path: str | None = None,
        *,
        with_ranges: bool = False,
    ) -> Answer:
        digest, asked, path = unchecked_digest(digest), checked_query(query), checked_path(path)
        if with_ranges:
            whole = self._indexes.whole(digest)
            return CodeFinder(whole).ranged(symbolize_one(whole, asked, path, NameSearchBudget()))
        index = self._indexes.get_open(digest)
        if index is None:
            first = self.answer_from_index_file(digest, asked, path)
            if first is not None:
                return first
            index = self._indexes.for_queries(digest, (asked,))
        return symbolize_one(index, asked, path, NameSearchBudget())

    def answer_from_open_index(self, digest: str, query: Query, path: str | None = None) -> Answer | None:
        index = self._indexes.get_open(digest)
        return _answer(index, query, path) if index else None

    def answer_from_index_file(self, digest: str, query: Query, path: str | None = None) -> Answer | None:
        return self._indexes.search_stored_index(digest, query) if path is None else None

    def packed_summary(self, digest: str) -> bytes | None:
        index = self._indexes.get_open(digest)
        return index.columns.summary.tobytes() if index else None

    def is_open(self, digest: str) -> bool:
        return self._indexes.get_open(digest) is not None

    def without_waiting(self) -> AbstractContextManager[None]:
        return self._indexes.without_waiting()

    def symbolize_column(
        self,
        digest: ModuleName,
        values: AnyColumn,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
        as_written: bool = False,
    ) -> Answers:
        budget = NameSearchBudget()
        kernel, section, path = checked_kernel(kernel), checked_section(section), checked_path(path)
        meant = () if kernel is None else (ByKernel(kernel, KernelOffset(0)),)
        index = self._indexes.for_queries(unchecked_digest(digest), meant).view(as_written=as_written)
        column = checked_column(values)
        return symbolize_column(index, column, kernel=kernel, section=section, path=path, budget=budget)

    def symbolize_origins(
        self,
        values: AnyColumn,
        origins: Sequence[Origin],
        origin: AnyColumn | None = None,
        times: AnyTimes = None,
        *,
        as_written: bool = False,
    ) -> DeviceAnswers:
        return self.answers(checked_question(values, origins, origin, times), as_written=as_written)

    def answers(
        self,
        question: ColumnQuestion,
        own: str = "",
        *,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> DeviceAnswers:
        def opened(digest: str) -> Index:
            return self._indexes.whole(digest).view(as_written=as_written)

        return self._contexts.answers(question, opened, own, with_ranges=with_ranges)

    def locate(
        self,
        digest: ModuleName,
        where: AnyPlace,
        path: str | None = None,
        *,
        every_address: bool = False,
        rules: Sequence[PathRule] = (),
        targets: Sequence[str] = (),
        context: ContextName = "",
    ) -> Located:
        place, path, memory = checked_place(where), checked_path(path), checked_context_id(context)
        asked, name = place, unchecked_digest(digest)
        if isinstance(place, ByDevice):
            found = self.contexts.place(place)
            if found.query is None or found.module is None:
                if found.reason is Reason.AMBIGUOUS:
                    code_at(self.contexts, place)  # which says so
                return Located(place, (), Refusal.OUTSIDE_TEXT)
            asked, name, path, memory = found.query, found.module, found.path, memory or place.context
        located = locate(
            self._indexes.whole(name),
            asked,
            path,
            every_address=every_address,
            rules=checked_rules(rules),
            targets=checked_targets(targets),
        )
        if memory:
            located = self._loaded_code.addressed(located, name, memory)
        return replace(located, requested=place, module=Digest(name)) if asked is not place else located

    def watch(
        self,
        breakpoints: Sequence[Breakpoint] = (),
        *,
        contexts: Sequence[ContextName] = (),
        apis: Sequence[str] = (),
        only_new: bool = False,
        resume_token: str = "",
        changes: Callable[[], Iterable[BreakpointChange]] = tuple,
    ) -> Watch:
        waiting = checked_breakpoints(breakpoints)
        names = [checked_context_id(each) for each in contexts]
        for name in {*names, *(name for each in waiting for name in each.contexts)}:
            self.contexts.get(name)
        subscription = self.store.module_log.subscribe()
        own: deque[BreakpointChange] = deque()

        def change(wanted: BreakpointChange) -> None:
            own.append(wanted)
            subscription.notify()

        def came() -> Iterator[BreakpointChange]:
            while own:
                yield own.popleft()
            yield from changes()

        watcher = Watcher(
            self.store,
            subscription,
            self._indexes.whole,
            self._contexts,
            waiting,
            frozenset(names),
            checked_apis(apis),
            came,
        )
        events = watcher.events(resume_token, only_new=only_new)
        return Watch(events, change, subscription.close, subscription.notify)

    def names(
        self,
        digest: ModuleName,
        wanted: AnyNames,
        path: str | None = None,
    ) -> Sequence[NamedItem]:
        return find_names(self._indexes.whole(unchecked_digest(digest)), checked_names(wanted), checked_path(path))

    @overload
    def variables(  # type: ignore[overload-overlap] # a text is one query, and not its characters
        self, digest: ModuleName, query: AnyQuery | ByDevice, path: str | None = None, *, with_ranges: bool = False
    ) -> InScope: ...
    @overload
    def variables(
        self,
        digest: ModuleName,
        query: Iterable[AnyQuery | ByDevice],
        path: str | None = None,
        *,
        with_ranges: bool = False,
    ) -> list[InScope]: ...
    def variables(
        self,
        digest: ModuleName,
        query: AnyQuery | ByDevice | Iterable[AnyQuery | ByDevice],
        path: str | None = None,
        *,
        with_ranges: bool = False,
    ) -> InScope | list[InScope]:
        every = checked_places((query,) if is_one_query(query) else query)  # type: ignore[arg-type]
        name, path = unchecked_digest(digest), checked_path(path)
        found = self._scopes.at_each(name, every, path, with_ranges=with_ranges)
        return found[0] if is_one_query(query) else found

    def listing(
        self,
        digest: ModuleName,
        part: ListingPart = WHOLE_MODULE,
    ) -> Iterator[Listing]:
        part = checked_part(part)
        if self._disassemble is None:
            raise ToolMissing("this engine was made without disassemblers", hint="use the daemon, or symd listing")
        digest, at = unchecked_digest(digest), None
        if isinstance(part.within, Around) and isinstance(part.within.query, ByDevice):
            at = code_at(self.contexts, part.within.query)
            digest, part = (
                at.module or "",
                replace(part, path=at.path, within=replace(part.within, query=at.query or part.within.query)),
            )
        index = self._indexes.whole(digest)
        wanted = None if part.within is None else tuple(spans(index, part.within, part.path, NameSearchBudget()))
        check_cancelled()
        alone = wanted[0] if wanted is not None and len(wanted) == 1 else None
        kept = None if alone is None else self._recent_code.get(digest, part.target, alone)
        if kept is None:
            codes = self._indexes.ask(digest, ListedCode(part.path, wanted, part.target))
            texts = self._disassemble(codes, wanted, self.limits)
            found = [Disassembled(code.path, code.target, text) for code, text in zip(codes, texts, strict=True)]
            if alone is not None:
                self._recent_code.keep(digest, part.target, alone, found)
        else:
            found = [kept]
        if part.within is not None and wanted is not None:
            found = [of_part(each, part.within, wanted) for each in found]
        listed = listings(index, found, f"modules/{digest}")
        if at is None or alone is None:
            return listed
        start = (at.address - alone.start) % (1 << 64)
        return (replace(each, module=at.module, section_device_address=start) for each in listed)

    def core(self, digest: ModuleName, modules: Sequence[ModuleName] = ()) -> CoreDump:
        digest = unchecked_digest(digest)
        stopped = with_frames(self._indexes.ask(digest, StoppedWaves()))
        kept = [
            KeptCode(other, *each)
            for other in checked_modules(modules)
            for each in self._indexes.ask(other, CodeIdentities())
        ]
        contents = DumpContents(partial(self._memory, digest), partial(self._dumped, digest))
        answering = CoreAnswering(digest, kept, self.symbolize, self._visible_at_each, self._frame_addresses, contents)
        frames = tuple(
            (number, self._indexes.ask(other, CallFrameData(path)))
            for number, other, path in answering.call_frame_sources(stopped)
        )
        if any(content for _, content in frames):
            stopped = with_frames(self._indexes.ask(digest, StoppedWaves(frames)))
        return answering.with_lines_and_values(stopped)

    def _memory(self, digest: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes | None, ...]:
        return self._indexes.ask(digest, DumpedMemory(tuple(ranges)))

    def _dumped(self, digest: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes | None, ...]:
        return self._indexes.ask(digest, DumpedBytes(tuple(ranges)))

    def _frame_addresses(
        self, digest: str, path: str, places: Sequence[tuple[int, int]]
    ) -> tuple[tuple[int, int] | None, ...]:
        return self._indexes.ask(digest, FrameAddresses(path, tuple(places)))

    def _visible_at_each(self, digest: str, path: str, places: Sequence[tuple[int, int]]) -> tuple[Visible | str, ...]:
        return self._indexes.ask(digest, VariablesAt(path, tuple(places)))

    def sources(self, digest: ModuleName, files: Sequence[str], path: str | None = None) -> list[SourceText]:
        digest, path = unchecked_digest(digest), checked_path(path)
        found = self._indexes.ask(digest, EmbeddedSources(tuple(checked_files(files)), path))
        return with_named(found, self._indexes.whole(digest), path)


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
