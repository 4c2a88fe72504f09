"""One file, opened in the way of its size and answered in this process without an engine, from as much of its index as
the questions need, or from the index that a store has of it; nothing here needs click. A small file is held in memory
whole, a large one is mapped and opened one code object after the other."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from symd.config import Limits
from symd.debuginfo import separate_files
from symd.engine.files import gc_frozen, gc_paused, working
from symd.engine.files.companion_files import (
    debug_files,
    has_split_files,
    with_debug_file,
    with_dwo_files,
    with_kernel_packs,
)
from symd.engine.files.input import COMPRESSED_SUFFIXES, called, read_input
from symd.errors import SymdError
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.containers import ContainerUnpacker, host_elf
from symd.formats.containers.amd import amdgpu, kpack
from symd.formats.containers.code_reloader import CodeReloader, expanded_size
from symd.formats.containers.file_part import LARGE, MAPPED, forget
from symd.index.lookup import Index
from symd.index.module import keep_freed_memory
from symd.index.partial import MAX_PARTIAL_QUERIES, FileIndex
from symd.model.addresses import ByAddress, ByKernel, Query
from symd.model.answers import Answer
from symd.model.code import CodeObject
from symd.model.columns import U64
from symd.model.frame_text import printable
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary
from symd.query.python_names import PythonNames
from symd.query.symbolize import MAX_CANDIDATES, NameSearchBudget, name_search, symbolize, symbolize_column

if TYPE_CHECKING:
    from symd.model.sources import PathRule

Queries = Sequence[Query] | U64
"""Queries, or a column of object addresses."""


def symbolize_file_index(
    index: FileIndex, questions: Queries, path: str | None, *, as_written: bool
) -> Sequence[Answer]:
    """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them; ``Answers`` where there are
    several."""
    if not isinstance(questions, Sequence):
        return symbolize_column(
            index.whole(path).view(as_written=as_written), questions, path=path, budget=NameSearchBudget()
        )
    budget = NameSearchBudget()
    meant = _by_symbols(index, questions, path, budget)
    return _answers(index.for_queries(meant, path).view(as_written=as_written), meant, path, budget)


def search_partial_index(index: FileIndex, query: Query, path: str | None, *, as_written: bool) -> Answer | None:
    """The answer to one question, where less than the whole index has it; None for every other."""
    budget = NameSearchBudget()
    meant = _by_symbols(index, [query], path, budget)
    found = index.before_whole(meant, path)
    return None if found is None else _answers(found.view(as_written=as_written), meant, path, budget)[0]


def _answers(index: Index, meant: Sequence[Query], path: str | None, budget: NameSearchBudget) -> Sequence[Answer]:
    plain = index.answer(meant[0], path) if len(meant) == 1 else None
    return symbolize(index, meant, path, budget) if plain is None else [plain]


def _by_symbols(
    index: FileIndex, questions: Sequence[Query], path: str | None, budget: NameSearchBudget
) -> Sequence[Query]:
    """The questions, by the symbol of a function where they call it otherwise and mean that one: what has the symbol is
    then all that is decoded."""
    names = {query.kernel for query in questions if isinstance(query, ByKernel)}
    symbols = index.symbols(path) if names else set()
    if names <= symbols:
        return questions
    found = name_search(budget).symbols_meant(names - symbols, symbols)
    plain = {name: each[0] for name, each in found.items() if len(each) == 1}
    return [
        ByKernel(plain[query.kernel], query.offset) if isinstance(query, ByKernel) and query.kernel in plain else query
        for query in questions
    ]


FindIndex = Callable[[bytes], Index | None]
"""Finds an index that was made of a module's bytes before; None where there is none."""


class SmallFile:
    """Answers questions about one file that is held in memory whole. ``data`` are its bytes. Raises ``SymdError``
    where ``file`` (as for ``whole_file``, or its bytes) cannot be read or opened."""

    def __init__(self, file: str | bytes, limits: Limits, find_index: FindIndex | None = None) -> None:
        self.data = data = whole_file(file, limits) if isinstance(file, str) else file
        if find_index is not None:
            stored = find_index(data)
            if stored is not None:
                self._index = FileIndex.of(stored)
                return
        self._heap = keep_freed_memory(len(data))
        try:
            with gc_paused():
                unpacked = containers.unpack(data, limits)
        except SymdError as error:
            raise error.prefix_where(called(file)) from None
        self._index = FileIndex(
            unpacked.objects, ModuleSummary(Digest(""), len(data), unpacked.format, notes=unpacked.notes), limits
        )

    def symbolize(self, questions: Queries, path: str | None = None, *, as_written: bool = False) -> Sequence[Answer]:
        """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them."""
        return symbolize_file_index(self._index, questions, path, as_written=as_written)

    def answer_from_partial_index(
        self, query: Query, path: str | None = None, *, as_written: bool = False
    ) -> Answer | None:
        """The answer to one question, where less than the whole index has it; None where whoever asks on needs that."""
        return search_partial_index(self._index, query, path, as_written=as_written)

    def spirv_with(self, kernel: str) -> str:
        return self._index.spirv_with(kernel)

    def unread(self, path: str | None) -> str:
        return self._index.unread(path)

    def described(self) -> Sequence[ObjectSummary]:
        return self._index.described()


def whole_file(file: str, limits: Limits) -> bytes:
    """The bytes of a file (as for ``read_input``) joined with what lies apart from it; a code object of AMD's is
    mapped. Raises what reading and joining them raises."""
    data = read_input(file, limits, amdgpu.claims)  # can be large; its reader takes sections alone
    if not amdgpu.claims(data):
        data = with_kernel_packs(data, file, limits)
    return with_dwo_files(with_debug_file(data, file, limits), file, limits)


_MAX_WALKS = 3
"""How often a large file is gone through for single questions; who asks for more wants the whole index."""


@contextmanager
def mapped_file(file: str) -> Iterator[mmap.mmap]:
    with open(file, "rb") as stream:  # noqa: PTH123 - pathlib is slow to load
        yield mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


class LargeFile:
    """Addresses of one large file, or of the bytes of one: of its code objects those are kept that the questions need.
    ``data`` are its bytes; a file is mapped. Every question raises ``SymdError`` where it cannot be opened."""

    def __init__(self, file: str | bytes, limits: Limits, find_index: FindIndex | None = None) -> None:
        self._file, self._limits = file, limits
        if isinstance(file, str):
            with mapped_file(file) as mapped:
                self.data = cast("bytes", mapped)
        else:
            self.data = file
        found = find_index(self.data) if find_index is not None else None
        self._stored = FileIndex.of(found) if found is not None else None
        self._asked: tuple[frozenset[str] | None, str | None] | None = None
        self._index: FileIndex | None = None
        self._walks, self._is_part = 0, False
        """How often the file was gone through, and whether the index that is open has some of its code objects
        alone."""

    def symbolize(self, questions: Queries, path: str | None = None, *, as_written: bool = False) -> Sequence[Answer]:
        """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them."""
        return symbolize_file_index(self._index_for(questions, path), questions, path, as_written=as_written)

    def answer_from_partial_index(
        self, query: Query, path: str | None = None, *, as_written: bool = False
    ) -> Answer | None:
        """The answer to one question, where less than the whole index has it; None where whoever asks on needs the
        whole index, and where the file would be gone through once too often."""
        if self._walks >= _MAX_WALKS and not self._holds(_functions([query]), path):
            return None
        index = self._index_for([query], path)
        if self._is_part:
            return symbolize_file_index(index, [query], path, as_written=as_written)[0]
        return search_partial_index(index, query, path, as_written=as_written)

    def _index_for(self, questions: Queries, path: str | None) -> FileIndex:
        """The index that was stored or is open, or one of what the questions need."""
        if self._stored is not None:
            return self._stored
        functions = _functions(questions)
        if self._index is None or not self._holds(functions, path):
            enough = _EnoughTexts(questions if self._index is None else (), path)
            meant = functions if self._index is None and path is None else None  # who asks again may ask for many
            self._walks += 1
            self._index = self._open_index(meant, path, enough)
            self._asked = None if enough.found else (meant, path)
        return self._index

    def _holds(self, functions: frozenset[str] | None, path: str | None) -> bool:
        """Whether the index that is open has all that questions about these functions, or about anything, need."""
        if self._asked is None or self._index is None:
            return False
        known, opened = self._asked
        if opened is not None:
            return opened == path
        return known in (None, functions) and (path is None or self._index.has_object(path))

    def spirv_with(self, kernel: str) -> str:
        """The path of SPIR-V that has this kernel, as ``ModuleSummary.spirv_with`` finds it; the file is gone through
        once more."""
        if self._stored is not None:
            return self._stored.spirv_with(kernel)
        with working(f"reading {printable(called(self._file))}"), gc_paused():
            for code in ContainerUnpacker(self.data, self._limits):
                if code.is_compiler_input and code.has_kernel(kernel):
                    return code.path
                forget(self.data)
        return ""

    def unread(self, path: str | None) -> str:
        """Why debug data was not read, as ``ModuleSummary.unread`` says; only code objects that the last questions
        needed are known."""
        known = self._stored or self._index
        return known.unread(path) if known else ""

    def described(self) -> Sequence[ObjectSummary]:
        """The code objects that the last questions needed, described."""
        known = self._stored or self._index
        return known.described() if known else ()

    def _open_index(self, names: frozenset[str] | None, path: str | None, enough: _EnoughTexts) -> FileIndex:
        """Open an index: with ``path`` of the objects on the way to it, with ``names`` of those with a symbol that may
        be called so. If no symbol may be, debug data may have the name, so that all objects are meant. SPIR-V inside a
        container is meant with ``path`` only."""
        data = self.data
        with gc_paused():
            opening, again = ContainerUnpacker(data, self._limits, path), CodeReloader(data, self._limits)
            objects, named, found, is_empty = [], [], frozenset[str](), True
            budget = NameSearchBudget()
            try:
                for code in opening:
                    is_empty = False
                    kept = again.without_bytes(code)
                    if path is not None or not code.is_compiler_input:
                        objects.append(kept)
                    if names is not None and (known := _names_meant(code, names, budget)):
                        named.append(kept)
                        found |= known
                    del code
                    forget(data)
                    if enough.with_texts_of(kept):
                        break
            except SymdError as error:
                raise error.prefix_where(called(self._file)) from None
            notes = tuple(opening.notes) if is_empty else ()
            summary = ModuleSummary(Digest(""), len(data), opening.format, notes=notes)
            self._is_part = path is not None or enough.found or found == names
            return FileIndex(named if found == names else objects, summary, self._limits, again)


class _EnoughTexts:
    """Says when nothing more of a container can change the answers to ``questions``: where so many text sections hold
    each of the addresses that the answer, which is ambiguous, names no more. ``found`` says that it was so."""

    def __init__(self, questions: Queries, path: str | None) -> None:
        few = isinstance(questions, Sequence) and path is None and len(questions) <= MAX_PARTIAL_QUERIES
        addresses = [query.address for query in questions if isinstance(query, ByAddress)] if few else []
        self._left = dict.fromkeys(addresses, MAX_CANDIDATES) if len(addresses) == len(questions) else {}
        self.found = False

    def with_texts_of(self, code: CodeObject) -> bool:
        """Whether these texts, with those before them, are enough."""
        if not self._left or code.is_compiler_input:
            return False
        for address, left in tuple(self._left.items()):
            held = sum(0 <= address - text.address - code.bias < text.size for text in code.sections if text.executable)
            self._left[address] = left - held
        self.found = all(left <= 0 for left in self._left.values())
        return self.found


def _functions(questions: Queries) -> frozenset[str] | None:
    """The functions that all questions are about; None where one is about something else."""
    if not isinstance(questions, Sequence) or not all(isinstance(query, ByKernel) for query in questions):
        return None
    return frozenset(query.kernel for query in questions if isinstance(query, ByKernel))


def _names_meant(code: CodeObject, names: frozenset[str], budget: NameSearchBudget) -> frozenset[str]:
    """The names among ``names`` that mean a function of a code object."""
    symbols = {kernel.name for kernel in code.kernels} | {function.name for function in code.functions}
    same = names & symbols
    if same == names:
        return same
    return same.union(name_search(budget).symbols_meant(names - same, symbols))


def opened_by_size(file: str | bytes, limits: Limits, store: str | None = None) -> LargeFile | SmallFile:
    """What answers questions about one file, or about the bytes of one, by its size. Raises what opening it raises.
    ``store``: the folder of a store where an index of it may be, "default" for that of the daemon that runs here."""
    find_index = None
    if store is not None:
        from symd.engine.indexes.open_indexes import stored_index  # noqa: PLC0415 - 30 ms: few ask for a store, whose catalogue is slow to import

        find_index = partial(stored_index, store)
    if is_long(file, limits) if isinstance(file, bytes) else is_large(file, limits) and not _may_be_split(file):
        return LargeFile(file, limits, find_index)
    return SmallFile(file, limits, find_index)


def _may_be_split(file: str) -> bool:
    """Whether split debug data of code objects inside it may lie beside it."""
    return has_split_files(Path(file).parent)


def is_large(file: str, limits: Limits) -> bool:
    """Whether ``file`` is opened as a ``LargeFile``: 64 MiB or more, as it is or as its compressed code objects expand,
    with all of its code and debug data in it, none of it in kernel packs or files apart."""
    size = _size(file)
    if file.endswith(COMPRESSED_SUFFIXES) or not min(LARGE, MAPPED) <= size <= limits.module_size:
        return False
    with mapped_file(file) as mapped:
        data = cast("bytes", mapped)
        if not is_long(data, limits):
            return False
        try:
            if amdgpu.claims(data):
                return not (separate_files.skeletons(data, Budget(limits, size)) or debug_files(data, file, limits))
            return not (host_elf.claims(data) and kpack.reference(elf.parse(data, Budget(limits, size))))
        except SymdError:
            return True  # its next reader reports what is wrong with it


def is_long(data: bytes, limits: Limits) -> bool:
    """Whether these are 64 MiB or more, as they are or as its compressed code objects expand."""
    if not MAPPED <= len(data) < LARGE:
        return len(data) >= LARGE
    return expanded_size(data, limits) >= LARGE


def _size(file: str) -> int:
    """Bytes of a regular file; 0 for anything else."""
    try:
        status = os.stat(file)  # noqa: PTH116 - pathlib is slow to load
    except (OSError, ValueError):  # the latter: a name that no file can have
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


class OpenedFile:
    """What answers questions about ``file``, with the names of Python functions that sources tell. ``store``: as for
    ``opened_by_size``, whose errors it raises. ``sources`` are the folders and rules by which sources are found: those
    of the working directory, where nothing is said."""

    def __init__(
        self,
        file: str,
        limits: Limits,
        store: str | None = None,
        sources: tuple[Sequence[Path], Sequence[PathRule]] | None = None,
    ) -> None:
        self._file, self._limits, self._sources = file, limits, sources
        self._names = PythonNames(self._texts)
        self._working = f"reading {printable(file)}"
        with working(self._working), gc_frozen():
            self._opened = opened_by_size(file, limits, store)

    def symbolize(
        self, queries: Sequence[Query] | U64, path: str | None = None, *, as_written: bool = False
    ) -> Sequence[Answer]:
        """Frames for each query, in order, as ``Symbolizer.symbolize`` gives them. Python functions without a name
        get the one that their sources tell, unless ``as_written``."""
        with working(self._working):  # as much of it as these queries need
            answers = self._opened.symbolize(queries, path, as_written=as_written)
            if as_written:
                return answers
            return self._names.named(answers)

    def _texts(self, files: list[str]) -> dict[str, str | None]:
        """The texts of sources: the file itself may carry some."""
        from symd.engine.files.module import source_texts_of_file  # noqa: PLC0415 - 118 ms: only for lines whose function a Python source tells

        return source_texts_of_file(self._file, files, self._sources or ((Path(),), ()), self._limits)

    def kernels(self) -> LargeFile | SmallFile:
        """What knows of its kernels: as much of it as was opened."""
        return self._opened
