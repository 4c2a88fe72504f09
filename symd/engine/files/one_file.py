"""Addresses of one file, symbolized in this process and without a store: as much of the file is decoded as they need."""

from __future__ import annotations

from collections.abc import Sequence

from symd.config import Limits
from symd.engine.files.debug_file import with_debug_file
from symd.engine.files.dwo_files import with_dwo_files
from symd.engine.files.file_answers import Queries, file_answers, first_answer
from symd.engine.files.garbage import gc_paused
from symd.engine.files.input import called, read_input
from symd.errors import SymdError
from symd.formats import containers
from symd.formats.containers.amd import amdgpu
from symd.index.file_index import FileIndex
from symd.index.module import keep_freed_memory
from symd.model.addresses import Query
from symd.model.answers import Answer
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary


class OneFile:
    """``data`` are the bytes of the file joined with what lies apart from it; a code object of AMD's is mapped. Raises ``SymdError`` where ``file``
    (as for ``read_input``, or its bytes) cannot be read or opened."""

    def __init__(self, file: str | bytes, limits: Limits, store: str | None = None) -> None:
        """``store``: where an index of it may be, as for ``stored_index``."""
        self._limits = limits
        self.data = data = _read(file, limits) if isinstance(file, str) else file
        if store is not None:
            from symd.engine.files.stored_index import stored_index  # noqa: PLC0415 - few ask for a store

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
        from symd.engine.files.kernel_packs import with_kernel_packs  # noqa: PLC0415 - only a host's program has any

        data = with_kernel_packs(data, file, limits)
    return with_dwo_files(with_debug_file(data, file, limits), file, limits)
