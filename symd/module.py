"""A module opened in this process, as a value to ask: what ``symd.open`` returns.

It is read as the commands read FILE: kernel packs and split debug data that lie where the file says come with it. The
first single questions are answered as ``symd symbolize`` answers them, from as much of the file as they need; every
other question needs the engine, which indexes all of it. With a server the same questions go to a daemon."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import cached_property
from threading import Lock
from typing import TYPE_CHECKING, Self, SupportsIndex, TypeAlias, overload

import numpy as np
from numpy.typing import NDArray

from symd.api import Symbolizer
from symd.config import DEFAULT_LIMITS, Limits
from symd.engine.files import working
from symd.engine.files.added_module import add_bytes
from symd.engine.files.input import check_no_module_name, read_input
from symd.engine.files.listing_sources import with_python_names
from symd.engine.files.module import add_with_debug, joined_with, kernel_names, open_symbolizer
from symd.engine.files.opened_file import opened_by_size
from symd.errors import BadQuery, FailedPrecondition, HashMismatch, InvalidInput, SymdError
from symd.formats.containers import unpack
from symd.formats.containers.file_part import forget, sha256_of
from symd.model.addresses import ByAddress, ByKernel, BySection, KernelOffset, Query, SectionOffset
from symd.model.answers import Answer, Answers
from symd.model.arguments import (
    AnyColumn,
    AnyNames,
    AnyPlace,
    AnyQuery,
    ModuleName,
    checked_column,
    checked_kernel,
    checked_level,
    checked_object,
    checked_path,
    checked_query,
    checked_section,
    is_one_query,
    unchecked_digest,
)
from symd.model.breakpoints import BreakpointLocation, Located
from symd.model.contexts import Origin
from symd.model.cores import CoreDump
from symd.model.frame_text import printable
from symd.model.identities import ObjectPath
from symd.model.line_tables import CodePart, LineLevel, LineTable, Listing, ListingPart
from symd.model.names import NamedItem
from symd.model.sources import PathRule, SourceText
from symd.model.summaries import KernelSummary, ModuleRecord, ModuleSummary, ObjectSummary
from symd.model.variables import InScope
from symd.query.source_files import Allowed
from symd.store.budgets import check_size

if TYPE_CHECKING:
    from symd.profiles.samples import SampledProfile

AnyModule: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | ModuleSummary | ModuleRecord
"""A file by its path, or file://PATH#offset=N&size=N for a part of one; a module's bytes; with a server also what names
one of its modules: modules/SHA256, a summary or a record."""


class Module:
    """One module and the questions about it. Safe to use from several threads; ``close``, ``with`` or the end of the
    last reference gives back what it holds. It can be pickled: one of a file as the file's path, which is opened again
    and must be the same file still; one of bytes as these bytes.

    A file is read as its questions need it. Every method raises ``SymdError`` (``symd.errors``); one that needs more of
    a file that was written to since it was opened raises ``HashMismatch``.
    """

    def __init__(
        self, source: AnyModule, *, debug: str | os.PathLike[str] | None, server: str | None, limits: Limits
    ) -> None:
        """``symd.open`` says what these are."""
        self._opened = source, debug, server, limits
        self._called = _name(source, server)
        self._resources, self._lock = ExitStack(), Lock()
        self._first = _FirstAnswers(source, self._called, limits) if server is None and debug is None else None
        """None when there is an engine, and when the module is closed."""
        self._engine = None if self._first else self._start()

    def close(self) -> None:
        """Give back what it holds; no question is answered any more."""
        with self._lock:
            self._first = None
            self._resources.close()

    @cached_property
    def sha256(self) -> str:
        """The module's name: the SHA-256 of its bytes, in lower-case hexadecimal."""
        first = self._first
        return first.digest() if first else self._open_engine()[1]

    @property
    def name(self) -> str:
        """What whoever opened it called it: a path, or the SHA-256 of bytes."""
        return self._called or self.sha256

    @property
    def _symbolizer(self) -> Symbolizer:
        return self._open_engine()[0]

    def _open_engine(self) -> tuple[Symbolizer, str]:
        """What answers all questions, and the module's digest there."""
        if self._engine is None:
            with self._lock:
                if self._engine is None:
                    if self._first is None:
                        raise FailedPrecondition("the module is closed", where=self._called, hint="open it again")
                    self._engine, self._first = self._start(), None
        return self._engine

    def _start(self) -> tuple[Symbolizer, str]:
        source, debug, server, limits = self._opened
        with ExitStack() as stack:
            symbolizer = with_python_names(stack.enter_context(open_symbolizer(server, limits)), Allowed(), limits)
            if self._first:
                digest = self._first.add_to(symbolizer)
            else:
                digest = _digest(symbolizer, source, debug, server, limits)
            self._resources.push(stack.pop_all())
        return symbolizer, digest

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        source, debug, server, limits = self._opened
        kept = bytes(source) if isinstance(source, bytearray | memoryview) else source
        return _opened_again, (kept, debug, server, limits, self.sha256)

    @property
    def symbolizer(self) -> Symbolizer:
        """The engine, or the client, that answers; the module is in it under ``sha256``."""
        return self._symbolizer

    @property
    def summary(self) -> ModuleSummary:
        """What is inside, however nested."""
        return self._symbolizer.module(self.sha256)

    @property
    def objects(self) -> tuple[ObjectSummary, ...]:
        """The code objects of the module, in its order."""
        return self.summary.objects

    @property
    def kernels(self) -> tuple[KernelSummary, ...]:
        """The kernels of all its code objects."""
        return tuple(kernel for each in self.objects for kernel in each.kernels)

    @overload
    def symbolize(  # type: ignore[overload-overlap] # an array of one number could be a number
        self,
        queries: NDArray[np.integer],
        *,
        kernel: str | Iterable[str] | None = None,
        section: str | int | None = None,
        path: str | None = None,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> Answers: ...
    @overload
    def symbolize(  # type: ignore[overload-overlap] # a text is one query, and not its characters
        self,
        queries: Query | str | SupportsIndex | BreakpointLocation,
        *,
        kernel: str | None = None,
        section: str | int | None = None,
        path: str | None = None,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> Answer: ...
    @overload
    def symbolize(
        self,
        queries: Iterable[AnyQuery],
        *,
        kernel: str | Iterable[str] | None = None,
        section: str | int | None = None,
        path: str | None = None,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> Answers: ...
    def symbolize(
        self,
        queries: AnyQuery | BreakpointLocation | Iterable[AnyQuery] | NDArray[np.integer],
        *,
        kernel: str | Iterable[str] | None = None,
        section: str | int | None = None,
        path: str | None = None,
        as_written: bool = False,
        with_ranges: bool = False,
    ) -> Answer | Answers:
        """Frames, innermost first: one answer to one query, and a batch of answers, in order, to several.

        A query is text as ``symd symbolize`` takes it ("vadd+0x1b0", "(.text)+8", "0x110"), a number (an object
        address), a ``Query``, or a location that ``locate`` returned. With ``kernel`` or ``section`` queries are
        numbers: bytes from its start. ``kernel`` may also be a column with the kernel of each number. ``path``
        restricts all to one code object. ``with_ranges``: answers also say how far they hold (``Answer.ranges``), which
        a debugger needs to step.

        >>> for frame in module.symbolize("shade+0x78").frames:
        ...     print(frame)
        blend at /src/shade.cl:13:25
        shade at /src/shade.cl:23:18
        >>> [answer.frames[0].line for answer in module.symbolize([0x78, 0x80], kernel="shade")]
        [13, 13]
        """
        if with_ranges and (kernel is not None or section is not None):
            raise BadQuery("ranges are told of queries, not of offsets", hint='write "kernel+0x10"')
        if (
            kernel is not None
            and section is None
            and not isinstance(kernel, str | bytes)
            and isinstance(kernel, Iterable)
        ):
            return self._in_kernels(queries, kernel, path, as_written=as_written)
        if kernel is not None or section is not None:
            return self._offsets(queries, kernel, section, path, as_written=as_written)
        if _is_one(queries):
            one, path = _place(queries, path)
            if not with_ranges:
                return self._one(one, path, as_written=as_written)
            return self._symbolizer.symbolize(self.sha256, [one], path, as_written=as_written, with_ranges=True)[0]
        return self._symbolizer.symbolize(
            self.sha256,
            queries,  # type: ignore[arg-type] # as was just found
            path,
            as_written=as_written,
            with_ranges=with_ranges,
        )

    def _one(self, query: Query, path: str | None, *, as_written: bool) -> Answer:
        path = checked_path(path)
        with self._lock:
            answer = self._first.answer(query, path, as_written=as_written) if self._first else None
        if answer is not None:
            return answer
        if as_written:
            return self._symbolizer.symbolize(self.sha256, [query], path, as_written=True)[0]
        return self._symbolizer.symbolize_one(self.sha256, query, path)

    def _in_kernels(self, offsets: object, kernels: Iterable[str], path: str | None, *, as_written: bool) -> Answers:
        """Each offset counts from the kernel beside it."""
        column = checked_column(offsets)  # type: ignore[arg-type] # it says what is wrong
        numbers: dict[str, int] = {}
        origin = [numbers.setdefault(str(checked_kernel(each)), len(numbers)) for each in kernels]
        if len(origin) != len(column):
            hint = "kernel= is one name, or a name for each offset"
            raise BadQuery(f"there are {len(column):,} offsets and {len(origin):,} kernels", hint=hint)
        origins = [Origin(self.sha256, checked_path(path), kernel=each) for each in numbers]
        return self._symbolizer.symbolize_origins(column, origins, origin, as_written=as_written).answers

    def _offsets(
        self,
        offsets: object,
        kernel: object,
        section: str | int | None,
        path: str | None,
        *,
        as_written: bool,
    ) -> Answer | Answers:
        if kernel is not None and section is not None:
            raise BadQuery("offsets count from a kernel's start or from a section's, not from both", hint="give one")
        kernel, section = checked_kernel(kernel), checked_section(section)  # type: ignore[arg-type] # it says what is wrong
        if _is_one(offsets):
            (offset,) = checked_column([offsets]).tolist()  # type: ignore[list-item] # it says what is wrong
            if kernel is not None:
                return self._one(ByKernel(kernel, KernelOffset(offset)), path, as_written=as_written)
            return self._one(BySection(section or 0, SectionOffset(offset)), path, as_written=as_written)
        column: AnyColumn = offsets  # type: ignore[assignment] # likewise
        return self._symbolizer.symbolize_column(
            self.sha256, column, kernel=kernel, section=section, path=path, as_written=as_written
        )

    def lines(
        self, path: str | None = None, *, kernel: str | None = None, level: LineLevel | str = LineLevel.SOURCE
    ) -> list[LineTable]:
        """The decoded line tables, one for each code object that has one; with ``kernel`` only the rows in that kernel.
        Raises KernelNotFound."""
        kernel = checked_kernel(kernel)
        tables = self._symbolizer.lines(self.sha256, path, checked_level(level))
        if kernel is None:
            return list(tables)

        names = kernel_names(self._symbolizer, self.sha256, kernel, path)
        return [part for each in tables if len(part := each.of_kernels(names))]

    def locate(
        self,
        where: AnyPlace,
        path: str | None = None,
        *,
        every_address: bool = False,
        rules: Sequence[PathRule] = (),
        targets: Sequence[str] = (),
    ) -> Located:
        """The addresses for a breakpoint at a source line ("vadd.cl:8", "vadd.cl:8:5"), a function ("vadd"), a kernel
        ("kernel:vadd") or a query ("vadd+0x10"), or why there are none. ``targets``: only in code objects for one of
        these."""
        return self._symbolizer.locate(
            self.sha256, where, path, every_address=every_address, rules=rules, targets=targets
        )

    def names(self, wanted: AnyNames = "*", path: str | None = None) -> list[NamedItem]:
        """Kernels, functions and source files by name; a pattern where there is ``*``, ``?`` or ``[`` in it."""
        return list(self._symbolizer.names(self.sha256, wanted, path))

    @overload
    def variables(  # type: ignore[overload-overlap] # a text is one query, and not its characters
        self, query: AnyQuery | BreakpointLocation, path: str | None = None
    ) -> InScope: ...
    @overload
    def variables(self, query: Iterable[AnyQuery], path: str | None = None) -> list[InScope]: ...
    def variables(
        self, query: AnyQuery | BreakpointLocation | Iterable[AnyQuery], path: str | None = None
    ) -> InScope | list[InScope]:
        """The variables in scope at one place (a query, or a location that ``locate`` returned), with their frames,
        their types and where they live; at several, in order, where there are several queries."""
        if isinstance(query, BreakpointLocation):
            query, path = _place(query, path)
        return self._symbolizer.variables(self.sha256, query, path)

    def listing(
        self, within: CodePart | None = None, *, path: str | None = None, target: str | None = None
    ) -> list[Listing]:
        """The instructions with the frames that each comes from, code object by code object: all, or those of one
        function, around a place or in a range of a section (``symd.model.line_tables``). Needs the disassembler of the
        code's vendor; raises ``ToolMissing``, which says what to install. ``target`` is the device, for code that does
        not say."""
        part = ListingPart(None if path is None else ObjectPath(path), within, target)
        return list(self._symbolizer.listing(self.sha256, part))

    def sources(self, files: Iterable[str], path: str | None = None) -> list[SourceText]:
        """The texts of source files that the module carries, named as frames name them, in order."""
        if isinstance(files, str):
            files = [files]
        return self._symbolizer.sources(self.sha256, files, path)  # type: ignore[arg-type] # any iterable, which is checked there

    def core(self, modules: Iterable[ModuleName] = ()) -> CoreDump:
        """What every warp or wave of a GPU core dump was doing; ``modules`` of the same symbolizer answer for code that
        the dump holds without debug data."""
        try:
            return self._symbolizer.core(self.sha256, modules)  # type: ignore[arg-type] # likewise
        except SymdError as error:
            raise error.prefix_where(self.name) from None

    def profile(
        self, source: str | os.PathLike[str] | bytes, *, identity: str | None = None, form: str | None = None
    ) -> SampledProfile:
        """The samples of a profile, a file or its bytes, with the frames of those that lie in this module. ``identity``
        is what the profile calls it (build id, code object id, CRC, file name), where nothing else tells; ``form`` is
        the profile's format, where its bytes do not."""
        from symd import profiles  # noqa: PLC0415 - 44 ms: most questions are about no profile

        *_, limits = self._opened
        label = "the profile" if isinstance(source, bytes) else os.fspath(source)
        data = source if isinstance(source, bytes) else read_input(label, limits, expand=False)
        resolver = profiles.Resolver(self._symbolizer, [profiles.NamedModule(self.sha256, self.name, identity)])
        try:
            return profiles.symbolized_samples(data, resolver, profiles.Options(limits), form)
        except SymdError as error:
            error.where = error.where.replace("the profile", label, 1)
            raise

    def object_data(self, path: str = "") -> bytes:
        """The bytes of the code object at nesting path ``path``: of a file nothing else is opened. Raises
        ObjectNotFound."""
        path = checked_object(path)
        with self._lock:
            data = self._first.object_data(path) if self._first else None
        return self._symbolizer.object_data(self.sha256, path) if data is None else data

    def __repr__(self) -> str:
        summary = self.summary
        objects, kernels = len(summary.objects), sum(len(each.kernels) for each in summary.objects)
        return f"<symd.Module {self.name!r}: {summary.format}, code objects: {objects}, kernels: {kernels}>"


class _FirstAnswers:
    """A file, or bytes, of which as much is opened as single questions need. Not for use by several threads at once."""

    def __init__(self, source: AnyModule, called: str, limits: Limits) -> None:
        self._called, self._limits = called, limits
        with self._reading():
            if isinstance(source, bytes | bytearray | memoryview):
                check_size(memoryview(source).nbytes, limits)
                self._file = opened_by_size(bytes(source), limits)
            else:
                check_no_module_name(called)
                self._file = opened_by_size(called, limits)
        self._status = self._status_now()

    def answer(self, query: Query, path: str | None, *, as_written: bool) -> Answer | None:
        """The answer to a query; None where only the engine has it: it says what is wrong, and looks for names
        elsewhere."""
        self._check_unchanged()
        try:
            with self._reading():
                answer = self._file.answer_from_partial_index(query, path, as_written=as_written)
        except SymdError:
            return None
        lacks_names = answer is not None and any(frame.inlined and not frame.function for frame in answer.frames)
        return answer if as_written or not lacks_names else None

    def object_data(self, path: str) -> bytes | None:
        """The bytes of the code object at ``path``; None where only the engine says why there are none."""
        self._check_unchanged()
        try:
            with self._reading():
                found = unpack(self._file.data, self._limits, path).objects
        except SymdError:
            return None
        return found[0].data[:] if found else None  # of a mapped file the bytes

    def digest(self) -> str:
        """The SHA-256 of the bytes."""
        self._check_unchanged()
        return sha256_of(self._file.data)

    def add_to(self, symbolizer: Symbolizer) -> str:
        """Add the module to an engine; its digest."""
        self._check_unchanged()
        with self._reading():
            data = self._file.data[:]
            forget(self._file.data)
            return add_bytes(symbolizer, data, self._called, None)

    def _reading(self) -> AbstractContextManager[None]:
        return working(f"reading {printable(self._called or 'the bytes')}")

    def _check_unchanged(self) -> None:
        """Raises HashMismatch where the bytes are mapped and the file was written to since it was opened."""
        data: object = self._file.data
        if not isinstance(data, mmap.mmap):
            return
        before, now = self._status, self._status_now()
        is_other = before and now and before.st_ino == now.st_ino and before.st_mtime_ns != now.st_mtime_ns
        if is_other or data.size() != len(data):
            hint = "open it again, or open its bytes: open(path, 'rb').read()"
            raise HashMismatch("the file was changed since it was opened", where=self._called, hint=hint)

    def _status_now(self) -> os.stat_result | None:
        """The status of the file that has the name now, which may be another file than the one that was opened."""
        try:
            return os.stat(self._called)  # noqa: PTH116 - a name, not a path
        except (OSError, ValueError):
            return None


def _place(query: object, path: str | None) -> tuple[Query, str | None]:
    """A query, and the code object that it is about. Raises BadQuery."""
    if not isinstance(query, BreakpointLocation):
        return checked_query(query), path  # type: ignore[arg-type] # it says what is wrong
    own = query.path if path is None else path
    if query.section is None:
        return ByAddress(query.address), own
    return BySection(query.section_index, query.section_offset), own


def _is_one(query: object) -> bool:
    """Whether this is one query; an array without dimensions is one number."""
    return is_one_query(query) or (isinstance(query, np.ndarray) and not query.ndim)


def _name(source: object, server: str | None) -> str:
    """What the user calls it; "" for bytes. Raises InvalidInput for what names and is no module."""
    if isinstance(source, ModuleSummary | ModuleRecord):
        if server is None:
            raise InvalidInput(
                "a summary names a module of a daemon", where=source.sha256, hint="give server=, or open the file"
            )
        return f"modules/{source.sha256}"
    if isinstance(source, bytes | bytearray | memoryview):
        return ""
    if isinstance(source, str | os.PathLike):
        path = os.fspath(source)
        if path == "-":
            raise InvalidInput("no file", where=path, hint="pass sys.stdin.buffer.read() for standard input")
        if isinstance(path, str):
            return path
    kind = type(source).__name__
    what = f"a module is a file or its bytes, not {'an' if kind[0] in 'AEIOaeio' else 'a'} {kind}"
    several = isinstance(source, Iterable) and not hasattr(source, "read")
    raise InvalidInput(what, hint="open each for itself" if several else "pass a path, or open(path, 'rb').read()")


def _digest(
    symbolizer: Symbolizer,
    source: AnyModule,
    debug: str | os.PathLike[str] | None,
    server: str | None,
    limits: Limits,
) -> str:
    if isinstance(source, ModuleSummary | ModuleRecord):
        return symbolizer.record(unchecked_digest(source)).sha256
    if isinstance(source, bytes | bytearray | memoryview):
        digest, name = symbolizer.add(bytes(source)).sha256, "the bytes"
        return digest if debug is None else joined_with(symbolizer, digest, name, os.fspath(debug), limits)
    return add_with_debug(symbolizer, os.fspath(source), server, limits, None if debug is None else os.fspath(debug))


def _opened_again(source: AnyModule, debug: str | None, server: str | None, limits: Limits, digest: str) -> Module:
    """What was pickled. Raises HashMismatch where the file is another one now."""
    module = Module(source, debug=debug, server=server, limits=limits)
    if module.sha256 != digest:
        module.close()
        raise HashMismatch(
            "the file is not the one that was pickled", where=module.name, hint="open it again by its name"
        )
    return module


def open_module(
    source: AnyModule,
    *,
    debug: str | os.PathLike[str] | None = None,
    server: str | None = None,
    limits: Limits | None = None,
) -> Module:
    """Open a module, in this process or (``server``: an address, or "default") in a daemon. ``source`` is a file's path
    or a module's bytes; ``AnyModule`` lists the rest. ``debug`` is a file or folder with debug data that is apart from
    it; ``limits`` bound what is read in this process. Raises ``SymdError``. As ``symd.open``.

    >>> module = symd.open("samples/amdgpu/bin/v4-gfx900.co")
    >>> [kernel.name for kernel in module.kernels]
    ['shade', 'clear']
    """
    return Module(source, debug=debug, server=server, limits=limits or DEFAULT_LIMITS)
