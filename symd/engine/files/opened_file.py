"""Questions about one opened file, answered from as much of its index as they need.

The index that a store has of a file which a command reads itself: no daemon is asked, and nothing is written.

Addresses of one file, symbolized in this process and without a store: as much of the file is decoded as they need.

Files too large to be held in memory: mapped, and opened one code object after the other. ``opened_file`` says which ones.

One file, opened in the way of its size.
"""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from symd.config import Limits, default_store
from symd.engine.files.debug_files import debug_files, with_debug_file, with_dwo_files
from symd.engine.files.gc_control import gc_paused
from symd.engine.files.input import COMPRESSED_SUFFIXES, called, read_input
from symd.errors import DataLoss, InvalidInput, SymdError
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.containers import ContainerUnpacker
from symd.formats.containers.amd import amdgpu
from symd.formats.containers.code_reloader import CodeReloader
from symd.formats.containers.file_part import LARGE, MAPPED, forget, sha256_of
from symd.index.file_header import VERSION
from symd.index.file_index import MAX_PARTIAL_QUERIES, FileIndex
from symd.index.lookup import Index
from symd.index.module import keep_freed_memory
from symd.model.addresses import ByAddress, ByKernel, Query
from symd.model.answers import Answer
from symd.model.code import CodeObject
from symd.model.columns import U64
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary
from symd.model.texts import printable
from symd.query.candidates import MAX_CANDIDATES
from symd.query.query_budget import QueryBudget
from symd.query.symbolize import symbolize, symbolize_column
from symd.system.notices import complain

if TYPE_CHECKING:
    from symd.store.paths import StorePaths


Queries = Sequence[Query] | U64
"""Queries, or a column of object addresses."""


def file_answers(
    index: FileIndex, questions: Queries, path: str | None, limits: Limits, *, as_written: bool
) -> Sequence[Answer]:
    """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them; ``Answers`` where there are several."""
    if not isinstance(questions, Sequence):
        return symbolize_column(
            index.whole(path).read(as_written=as_written), questions, path=path, effort=QueryBudget(limits)
        )
    effort = QueryBudget(limits)
    meant = _by_symbols(index, questions, path, effort)
    return _answers(index.for_queries(meant, path).read(as_written=as_written), meant, path, effort)


def first_answer(
    index: FileIndex, query: Query, path: str | None, limits: Limits, *, as_written: bool
) -> Answer | None:
    """The answer to one question, where less than the whole index has it; None for every other."""
    effort = QueryBudget(limits)
    meant = _by_symbols(index, [query], path, effort)
    found = index.before_whole(meant, path)
    return None if found is None else _answers(found.read(as_written=as_written), meant, path, effort)[0]


def _answers(index: Index, meant: Sequence[Query], path: str | None, effort: QueryBudget) -> Sequence[Answer]:
    plain = index.answer(meant[0], path) if len(meant) == 1 else None
    return symbolize(index, meant, path, effort) if plain is None else [plain]


def _by_symbols(index: FileIndex, questions: Sequence[Query], path: str | None, effort: QueryBudget) -> Sequence[Query]:
    """The questions, by the symbol of a function where they call it otherwise and mean that one: what has the symbol is then all that is
    decoded."""
    names = {query.kernel for query in questions if isinstance(query, ByKernel)}
    symbols = index.symbols(path) if names else set()
    if names <= symbols:
        return questions
    from symd.query.function_names import symbols_meant  # noqa: PLC0415 - most people name kernels

    found = symbols_meant(names - symbols, symbols, effort)
    plain = {name: each[0] for name, each in found.items() if len(each) == 1}
    return [
        ByKernel(plain[query.kernel], query.offset) if isinstance(query, ByKernel) and query.kernel in plain else query
        for query in questions
    ]


def stored_index(store: str, data: bytes) -> Index | None:
    """The index of a module's bytes in a store's folder, "default" for that of the daemon that runs here; None where it has none that is sound.
    Raises ``FailedPrecondition`` where others may write in the folder, and StoreUnavailable."""
    from symd.store.files import disk, mapped  # noqa: PLC0415 - few ask for a store, whose catalogue is slow to import
    from symd.store.ownership import check_private  # noqa: PLC0415
    from symd.store.paths import StorePaths  # noqa: PLC0415

    folder = default_store() if store == "default" else Path(store)
    digest = sha256_of(data)
    with disk(folder):
        check_private(folder)
        try:
            file = mapped(StorePaths(folder).index(digest, VERSION))
        except FileNotFoundError:
            _say_no_store(StorePaths(folder))
            return None
    try:
        return Index.checked(file, digest)
    except DataLoss:
        return None  # the daemon makes it anew


def _say_no_store(paths: StorePaths) -> None:
    """Where a folder is no store it may be another that was meant."""
    try:
        paths.check_store()
    except InvalidInput as error:
        complain(f"{printable(str(paths.root))}: {error.message}, so the file itself is read")


class SmallFile:
    """``data`` are the bytes of the file joined with what lies apart from it; a code object of AMD's is mapped. Raises ``SymdError`` where ``file``
    (as for ``read_input``, or its bytes) cannot be read or opened."""

    def __init__(self, file: str | bytes, limits: Limits, store: str | None = None) -> None:
        """``store``: where an index of it may be, as for ``stored_index``."""
        self._limits = limits
        self.data = data = _read(file, limits) if isinstance(file, str) else file
        if store is not None:
            stored = stored_index(store, data)
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
        return file_answers(self._index, questions, path, self._limits, as_written=as_written)

    def first_answer(self, query: Query, path: str | None = None, *, as_written: bool = False) -> Answer | None:
        """The answer to one question, where less than the whole index has it; None where whoever asks on needs that."""
        return first_answer(self._index, query, path, self._limits, as_written=as_written)

    def spirv_with(self, kernel: str) -> str:
        """As of ``ModuleSummary``."""
        return self._index.spirv_with(kernel)

    def unread(self, path: str | None) -> str:
        """As of ``ModuleSummary``."""
        return self._index.unread(path)

    def kernel_sizes(self, kernel: str, path: str | None = None) -> set[int]:
        """As of ``ModuleSummary``."""
        return self._index.kernel_sizes(kernel, path)


def _read(file: str, limits: Limits) -> bytes:
    data = read_input(file, limits, amdgpu.claims)  # can be large; its reader takes sections alone
    if not amdgpu.claims(data):
        from symd.engine.files.debug_files import with_kernel_packs  # noqa: PLC0415 - only a host's program has any

        data = with_kernel_packs(data, file, limits)
    return with_dwo_files(with_debug_file(data, file, limits), file, limits)


_MOST_WALKS = 3
"""So often a large file is gone through for single questions; who asks for more wants the whole index."""


class LargeFile:
    """Addresses of one large file, or of the bytes of one: of its code objects those are kept that the questions need. ``data`` are its bytes; a file
    is mapped. Every question raises ``SymdError`` where it cannot be opened."""

    def __init__(self, file: str | bytes, limits: Limits, store: str | None = None) -> None:
        self._file, self._limits = file, limits
        if isinstance(file, str):
            with mapped_file(file) as mapped:
                self.data = cast("bytes", mapped)
        else:
            self.data = file
        found = stored_index(store, self.data) if store is not None else None
        self._stored = FileIndex.of(found) if found is not None else None
        self._asked: tuple[frozenset[str] | None, str | None] | None = None
        self._index: FileIndex | None = None
        self._walks, self._is_part = 0, False
        """How often the file was gone through, and whether the index that is open has some of its code objects alone."""

    def symbolize(self, questions: Queries, path: str | None = None, *, as_written: bool = False) -> Sequence[Answer]:
        """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them."""
        return file_answers(self._index_for(questions, path), questions, path, self._limits, as_written=as_written)

    def first_answer(self, query: Query, path: str | None = None, *, as_written: bool = False) -> Answer | None:
        """As of ``SmallFile``; None, too, where the file would be gone through once too often."""
        if self._walks >= _MOST_WALKS and not self._holds(_functions([query]), path):
            return None
        index = self._index_for([query], path)
        if self._is_part:
            return file_answers(index, [query], path, self._limits, as_written=as_written)[0]
        return first_answer(index, query, path, self._limits, as_written=as_written)

    def _index_for(self, questions: Queries, path: str | None) -> FileIndex:
        """The index that was stored or is open, or one of what the questions need."""
        if self._stored is not None:
            return self._stored
        functions = _functions(questions)
        if self._index is None or not self._holds(functions, path):
            enough = _EnoughTexts(questions if self._index is None else (), path)
            meant = functions if self._index is None and path is None else None  # who asks again may ask for many
            self._walks += 1
            self._index = self._opened(meant, path, enough)
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
        """As of ``ModuleSummary``. The file is opened once more."""
        if self._stored is not None:
            return self._stored.spirv_with(kernel)
        with gc_paused():
            for code in ContainerUnpacker(self.data, self._limits):
                if code.is_compiler_input and code.has_kernel(kernel):
                    return code.path
                forget(self.data)
        return ""

    def unread(self, path: str | None) -> str:
        """As of ``ModuleSummary``, of the code objects that the last questions needed."""
        known = self._stored or self._index
        return known.unread(path) if known else ""

    def kernel_sizes(self, kernel: str, path: str | None = None) -> set[int]:
        """As of ``ModuleSummary``, among the code objects that the last questions needed."""
        known = self._stored or self._index
        return known.kernel_sizes(kernel, path) if known else set()

    def _opened(self, names: frozenset[str] | None, path: str | None, enough: _EnoughTexts) -> FileIndex:
        """With ``path``: an index of the objects on the way to it. With ``names``: of those with a symbol that may be called so. If no
        symbol may be, debug data may have the name, so that all objects are meant. SPIR-V inside a container is meant with ``path`` only."""
        data = self.data
        with gc_paused():
            opening, again = ContainerUnpacker(data, self._limits, path), CodeReloader(data, self._limits)
            objects, named, found, is_empty = [], [], frozenset[str](), True
            effort = QueryBudget(self._limits)
            try:
                for code in opening:
                    is_empty = False
                    kept = again.without_bytes(code)
                    if path is not None or not code.is_compiler_input:
                        objects.append(kept)
                    if names is not None and (known := _names_meant(code, names, effort)):
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
    """Says when nothing more of a container can change the answers to ``questions``: where so many text sections hold each of the
    addresses that the answer, which is ambiguous, names no more. ``found`` says that it was so."""

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


def _names_meant(code: CodeObject, names: frozenset[str], effort: QueryBudget) -> frozenset[str]:
    """Those of the names that mean a function of a code object."""
    symbols = {kernel.name for kernel in code.kernels} | {function.name for function in code.functions}
    same = names & symbols
    if same == names:
        return same
    from symd.query.function_names import symbols_meant  # noqa: PLC0415 - most people name kernels

    return same.union(symbols_meant(names - same, symbols, effort))


def opened_file(file: str | bytes, limits: Limits, store: str | None = None) -> LargeFile | SmallFile:
    """What answers questions about one file, or about the bytes of one, by its size. Raises what opening it raises. ``store``: where an
    index of it may be, as for ``stored_index``."""
    if _is_long(file, limits) if isinstance(file, bytes) else is_large(file, limits) and not _may_be_split(file):
        return LargeFile(file, limits, store)

    return SmallFile(file, limits, store)


def _may_be_split(file: str) -> bool:
    """Whether split debug data of code objects inside it may lie beside it."""
    from pathlib import Path  # noqa: PLC0415 - slow to load, and few files are large

    from symd.engine.files.debug_files import has_split_files  # noqa: PLC0415 - likewise

    return has_split_files(Path(file).parent)


def is_large(file: str, limits: Limits) -> bool:
    """Whether ``file`` is opened by ``large_file``: 64 MiB or more, as it is or as its compressed code objects expand, with all of its
    code and debug data in it, none of it in kernel packs or files apart."""
    size = _size(file)
    if file.endswith(COMPRESSED_SUFFIXES) or not min(LARGE, MAPPED) <= size <= limits.module_size:
        return False
    with mapped_file(file) as mapped:
        data = cast("bytes", mapped)
        if not _is_long(data, limits):
            return False
        try:
            if amdgpu.claims(data):
                from symd.debuginfo.split import dwo  # noqa: PLC0415 - few files are large

                return not (dwo.skeletons(data, Budget(limits, size)) or debug_files(data, file, limits))
            from symd.formats.containers import host_elf  # noqa: PLC0415 - likewise
            from symd.formats.containers.amd import kpack_reference  # noqa: PLC0415 - likewise

            return not (host_elf.claims(data) and kpack_reference.reference(elf.parse(data, Budget(limits, size))))
        except SymdError:
            return True  # whoever reads it next says what is wrong with it


def _is_long(data: bytes, limits: Limits) -> bool:
    """Whether these are 64 MiB or more, as they are or as its compressed code objects expand."""
    if not MAPPED <= len(data) < LARGE:
        return len(data) >= LARGE
    from symd.formats.containers.expanded_size import expanded_size  # noqa: PLC0415 - few files are of that size

    return expanded_size(data, limits) >= LARGE


def _size(file: str) -> int:
    """Of a regular file; 0 of anything else."""
    try:
        status = os.stat(file)  # noqa: PTH116 - pathlib is slow to load
    except (OSError, ValueError):  # the latter: a name that no file can have
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0


@contextmanager
def mapped_file(file: str) -> Iterator[mmap.mmap]:
    with open(file, "rb") as stream:  # noqa: PTH123 - likewise
        yield mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
