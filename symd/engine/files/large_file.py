"""Files too large to be held in memory: mapped, and opened one code object after the other. ``opened_file`` says which
ones."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from symd.config import Limits
from symd.engine.files.file_notices import working
from symd.engine.files.gc_control import gc_paused
from symd.engine.files.input import called
from symd.engine.files.small_file import FindIndex, Queries, search_partial_index, symbolize_file_index
from symd.errors import SymdError
from symd.formats.containers import ContainerUnpacker
from symd.formats.containers.code_reloader import CodeReloader
from symd.formats.containers.file_part import forget
from symd.index.partial import MAX_PARTIAL_QUERIES, FileIndex
from symd.model.addresses import ByAddress, ByKernel, Query
from symd.model.answers import Answer
from symd.model.code import CodeObject
from symd.model.frame_text import printable
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary
from symd.query.symbolize import MAX_CANDIDATES, QueryBudget, name_search

_MOST_WALKS = 3
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
        if self._walks >= _MOST_WALKS and not self._holds(_functions([query]), path):
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
            budget = QueryBudget()
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


def _names_meant(code: CodeObject, names: frozenset[str], budget: QueryBudget) -> frozenset[str]:
    """The names among ``names`` that mean a function of a code object."""
    symbols = {kernel.name for kernel in code.kernels} | {function.name for function in code.functions}
    same = names & symbols
    if same == names:
        return same
    return same.union(name_search(budget).symbols_meant(names - same, symbols))
