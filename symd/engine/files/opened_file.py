"""One file, opened in the way of its size and answered in this process without an engine, from as much of its index as
the questions need, or from the index that a store has of it; nothing here needs click."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

from symd.config import Limits, default_store
from symd.debuginfo import dwo
from symd.engine.files.debug_files import debug_files, has_split_files, with_debug_file, with_dwo_files
from symd.engine.files.file_notices import working
from symd.engine.files.gc_control import gc_frozen, gc_paused
from symd.engine.files.input import COMPRESSED_SUFFIXES, called, read_input
from symd.errors import DataLoss, InvalidInput, SymdError
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.containers import host_elf
from symd.formats.containers.amd import amdgpu, kpack
from symd.formats.containers.code_reloader import expanded_size
from symd.formats.containers.file_part import LARGE, MAPPED, sha256_of
from symd.index.file_header import VERSION
from symd.index.lookup import Index
from symd.index.module import keep_freed_memory
from symd.index.partial import FileIndex
from symd.model.addresses import ByKernel, Query
from symd.model.answers import Answer, Answers
from symd.model.columns import U64
from symd.model.frame_text import printable
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary
from symd.query.python_names import PythonNames
from symd.query.symbolize import QueryBudget, symbolize, symbolize_column
from symd.system.messages import complain

if TYPE_CHECKING:
    from symd.engine.files.large_file import LargeFile
    from symd.model.sources import PathRule
    from symd.store.folder import StorePaths


def stored_index(store: str, data: bytes) -> Index | None:
    """The index of a module's bytes in a store's folder, "default" for that of the daemon that runs here; None where it
    has none that is sound. Raises ``FailedPrecondition`` where others may write in the folder, and StoreUnavailable."""
    from symd.store.files import disk, mapped  # noqa: PLC0415 - 26 ms: few ask for a store, whose catalogue is slow to import
    from symd.store.folder import StorePaths, check_private  # noqa: PLC0415 - 24 ms: few ask for a store

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


Queries = Sequence[Query] | U64
"""Queries, or a column of object addresses."""


def symbolize_file_index(
    index: FileIndex, questions: Queries, path: str | None, *, as_written: bool
) -> Sequence[Answer]:
    """Frames for each question, in order, as ``Symbolizer.symbolize`` gives them; ``Answers`` where there are
    several."""
    if not isinstance(questions, Sequence):
        return symbolize_column(
            index.whole(path).view(as_written=as_written), questions, path=path, budget=QueryBudget()
        )
    budget = QueryBudget()
    meant = _by_symbols(index, questions, path, budget)
    return _answers(index.for_queries(meant, path).view(as_written=as_written), meant, path, budget)


def search_partial_index(index: FileIndex, query: Query, path: str | None, *, as_written: bool) -> Answer | None:
    """The answer to one question, where less than the whole index has it; None for every other."""
    budget = QueryBudget()
    meant = _by_symbols(index, [query], path, budget)
    found = index.before_whole(meant, path)
    return None if found is None else _answers(found.view(as_written=as_written), meant, path, budget)[0]


def _answers(index: Index, meant: Sequence[Query], path: str | None, budget: QueryBudget) -> Sequence[Answer]:
    plain = index.answer(meant[0], path) if len(meant) == 1 else None
    return symbolize(index, meant, path, budget) if plain is None else [plain]


def _by_symbols(index: FileIndex, questions: Sequence[Query], path: str | None, budget: QueryBudget) -> Sequence[Query]:
    """The questions, by the symbol of a function where they call it otherwise and mean that one: what has the symbol is
    then all that is decoded."""
    names = {query.kernel for query in questions if isinstance(query, ByKernel)}
    symbols = index.symbols(path) if names else set()
    if names <= symbols:
        return questions
    from symd.query.function_names import symbols_meant  # noqa: PLC0415 - 4 ms: most people name kernels

    found = symbols_meant(names - symbols, symbols, budget)
    plain = {name: each[0] for name, each in found.items() if len(each) == 1}
    return [
        ByKernel(plain[query.kernel], query.offset) if isinstance(query, ByKernel) and query.kernel in plain else query
        for query in questions
    ]


class SmallFile:
    """Answers questions about one file that is held in memory whole. ``data`` are its bytes. Raises ``SymdError``
    where ``file`` (as for ``whole_file``, or its bytes) cannot be read or opened."""

    def __init__(self, file: str | bytes, limits: Limits, store: str | None = None) -> None:
        """``store``: where an index of it may be, as for ``stored_index``."""
        self.data = data = whole_file(file, limits) if isinstance(file, str) else file
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
        from symd.engine.files.kernel_packs import with_kernel_packs  # noqa: PLC0415 - 0.5 ms: only a host's program has any

        data = with_kernel_packs(data, file, limits)
    return with_dwo_files(with_debug_file(data, file, limits), file, limits)


def opened_file(file: str | bytes, limits: Limits, store: str | None = None) -> LargeFile | SmallFile:
    """What answers questions about one file, or about the bytes of one, by its size. Raises what opening it raises.
    ``store``: where an index of it may be, as for ``stored_index``."""
    if is_long(file, limits) if isinstance(file, bytes) else is_large(file, limits) and not _may_be_split(file):
        from symd.engine.files.large_file import LargeFile  # noqa: PLC0415 - 5 ms: few files are large

        return LargeFile(file, limits, store)
    return SmallFile(file, limits, store)


def _may_be_split(file: str) -> bool:
    """Whether split debug data of code objects inside it may lie beside it."""
    return has_split_files(Path(file).parent)


def is_large(file: str, limits: Limits) -> bool:
    """Whether ``file`` is opened by ``large_file``: 64 MiB or more, as it is or as its compressed code objects expand,
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
                return not (dwo.skeletons(data, Budget(limits, size)) or debug_files(data, file, limits))
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


@contextmanager
def mapped_file(file: str) -> Iterator[mmap.mmap]:
    with open(file, "rb") as stream:  # noqa: PTH123 - pathlib is slow to load
        yield mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


class LocalModule:
    """What answers questions about ``file``. ``store``: as for ``opened_file``, whose errors it raises. ``sources`` are
    the folders and rules by which sources are found that have the names of Python functions: those of the working
    directory, where nothing is said."""

    def __init__(
        self,
        file: str,
        limits: Limits,
        store: str | None = None,
        sources: tuple[Sequence[Path], Sequence[PathRule]] | None = None,
    ) -> None:
        self._file, self._limits, self._sources = file, limits, sources
        self._names: PythonNames | None = None
        self._working = f"reading {printable(file)}"
        with working(self._working), gc_frozen():
            self._opened = opened_file(file, limits, store)

    def symbolize(
        self, queries: Sequence[Query] | U64, path: str | None = None, *, as_written: bool = False
    ) -> Sequence[Answer]:
        """Frames for each query, in order, as ``Symbolizer.symbolize`` gives them. Python functions without a name
        get the one that their sources tell, unless ``as_written``."""
        with working(self._working):  # as much of it as these queries need
            answers = self._opened.symbolize(queries, path, as_written=as_written)
            if as_written or not _lack_names(answers):
                return answers
            if self._names is None:
                self._names = PythonNames(self._texts)
            return self._names.named(answers)

    def _texts(self, files: list[str]) -> dict[str, str | None]:
        """The texts of sources: the file itself may carry some."""
        from symd.engine.files.module import source_texts_of_file  # noqa: PLC0415 - 118 ms: only for Python functions without names

        return source_texts_of_file(self._file, files, self._sources or ((Path(),), ()), self._limits)

    def kernels(self) -> LargeFile | SmallFile:
        """What knows of its kernels: as much of it as was opened."""
        return self._opened


def _lack_names(answers: Sequence[Answer]) -> bool:
    """Whether some inlined call has no name."""
    if isinstance(answers, Answers):
        locations = answers.locations
        return bool(((locations.function == 0) & (locations.inlined != 0)).any())
    return any(frame.inlined and not frame.function for answer in answers for frame in answer.frames)
