"""The verbs of symd, and the in-process engine that joins the rooms to answer them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Protocol, Self

from symd import containers, debuginfo, index
from symd.config import Limits
from symd.errors import DriverMissing, NoDebugData, ObjectNotFound, SymdError
from symd.index import Index
from symd.index.builder import Indexed
from symd.index.shelf import Shelf
from symd.model import (
    U64,
    Answer,
    Answers,
    CodeObject,
    DebugInfo,
    Grabbed,
    GrabRequest,
    KernelSummary,
    LineTable,
    ModuleRecord,
    ModuleSummary,
    ObjectSummary,
    Query,
)
from symd.query.lines import lines
from symd.query.symbolize import symbolize, symbolize_column
from symd.store import Store


class Symbolizer(Protocol):
    """What the in-process engine and the client over gRPC both do, with the same words and the same answers.

    Digests are lower-case hexadecimal SHA-256 of the module's bytes. All methods raise ``SymdError``.
    """

    def missing(self, digests: Sequence[str]) -> list[str]:
        """Those of ``digests`` that are not in the store, in the order given."""
        ...

    def add(self, data: bytes, label: str = "") -> ModuleSummary:
        """Store a module and index it. Adding what is there already is cheap and changes nothing."""
        ...

    def grab(self, request: GrabRequest) -> tuple[ModuleSummary, Grabbed]:
        """Build a module with a real driver, take its debug data and add that."""
        ...

    def modules(self) -> Iterator[ModuleRecord]:
        """The catalogue, oldest first."""
        ...

    def module(self, digest: str) -> ModuleSummary:
        """One module described: code objects, kernels, notes."""
        ...

    def object_data(self, digest: str, path: str) -> bytes:
        """The bytes of the code object at nesting path ``path``."""
        ...

    def lines(self, digest: str, path: str | None = None) -> Iterator[LineTable]:
        """The decoded line table, one for each code object (or only the one at ``path``)."""
        ...

    def symbolize(self, digest: str, queries: Sequence[Query], path: str | None = None) -> Answers:
        """Frames for each query, in order; ``path`` restricts all of them to one code object."""
        ...

    def symbolize_one(self, digest: str, query: Query, path: str | None = None) -> Answer:
        """The same for one query, by the shortest way."""
        ...

    def symbolize_column(
        self,
        digest: str,
        values: U64,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
    ) -> Answers:
        """The same for a column of numbers: kernel offsets when ``kernel`` is given, section offsets when ``section``
        is, object addresses otherwise."""
        ...


def build_index(data: bytes, limits: Limits) -> bytes:
    """Module bytes to index file: opened, decoded, merged. Raises what opening raises; a code object whose debug data
    cannot be decoded is kept with its names, and the reason becomes a note."""
    unpacked = containers.unpack(data, limits)
    indexed = [_indexed(code) for code in unpacked.objects]
    summary = ModuleSummary(
        hashlib.sha256(data).hexdigest(),
        len(data),
        unpacked.format,
        tuple(_object_summary(item) for item in indexed),
        unpacked.notes,
    )
    return index.build(indexed, summary)


def _indexed(code: CodeObject) -> Indexed:
    try:
        debug = debuginfo.read(code)
    except SymdError as error:
        return Indexed(code, error)
    return Indexed(debuginfo.named(code, debug), debug)


def _object_summary(item: Indexed) -> ObjectSummary:
    code, debug = item.code, item.debug
    notes = debug.warnings if isinstance(debug, DebugInfo) else (f"debug data cannot be read: {debug}",)
    names = {section.index: section.name for section in code.sections}
    kernels = tuple(
        KernelSummary(k.name, names.get(k.section_index), k.section_index, k.offset, k.size, k.facts)
        for k in code.kernels
    )
    return ObjectSummary(
        code.path,
        code.format,
        code.target,
        len(code.data),
        hashlib.sha256(code.data).hexdigest(),
        code.debug,
        kernels,
        code.facts,
        (*code.warnings, *notes),
    )


Grabber = Callable[[GrabRequest, Limits], Grabbed]


class Engine:
    """The verbs over a store in this process. Safe to use from several threads; a module that several ask for at once
    is indexed once.

    ``grab`` is the function that drives real drivers (``symd.drivers.grab``); without one the verb of that name is
    refused. ``open_indexes`` so many indexes stay open.
    """

    def __init__(self, store: Store, limits: Limits | None = None, grab: Grabber | None = None) -> None:
        self.store = store
        self.limits = limits or Limits()
        self._grab = grab
        self._indexes = Shelf(512)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the store. Indexes that are being read stay readable."""
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

    def admit(self, digest: str, *, known: bool = False) -> ModuleSummary:
        """Index a module whose bytes were just stored (``known``: were there before). One that cannot be indexed is
        taken out of the store again, and the reason is remembered."""
        try:
            summary = self._index(digest).summary
        except SymdError as error:
            if not known:
                self.store.remove(digest)
                self.store.remember_failure(digest, index.VERSION, error)
            raise
        self.store.set_format(digest, summary.format)
        return summary

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
        unpacked = containers.unpack(bytes(self.store.data(digest)), self.limits)
        for code in unpacked.objects:
            if code.path == path:
                return code.data
        raise ObjectNotFound(f"there is no code object {path!r}", where=digest, metadata={"object": path})

    def lines(self, digest: str, path: str | None = None) -> Iterator[LineTable]:
        return lines(self._index(digest), path)

    def symbolize(self, digest: str, queries: Sequence[Query], path: str | None = None) -> Answers:
        return symbolize(self._index(digest), queries, path)

    def symbolize_one(self, digest: str, query: Query, path: str | None = None) -> Answer:
        return self.symbolize(digest, [query], path)[0]

    def symbolize_column(
        self,
        digest: str,
        values: U64,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
    ) -> Answers:
        return symbolize_column(self._index(digest), values, kernel=kernel, section=section, path=path)

    def _index(self, digest: str) -> Index:
        """The open index; opened from the store, or built, when it is not."""
        found = self._indexes.get(digest)
        if found is not None:
            return found
        with self._indexes.making(digest):
            found = self._indexes.get(digest) or self._open(digest)
            self._indexes.put(digest, found)
        return found

    def _open(self, digest: str) -> Index:
        stored = self.store.index(digest, index.VERSION)
        if stored is not None:
            return Index(stored)
        self._refuse_known_failure(digest)
        data = self.store.data(digest)
        try:
            built = build_index(bytes(data), self.limits)
        except SymdError as error:
            self.store.remember_failure(digest, index.VERSION, error)
            raise
        self.store.put_index(digest, index.VERSION, built)
        return Index(self.store.index(digest, index.VERSION) or built)

    def _refuse_known_failure(self, digest: str) -> None:
        failure = self.store.failure(digest, index.VERSION)
        if failure is not None:
            raise failure
