"""One file, opened in the way of its size and answered in this process without an engine, from as much of its index as
the questions need, or from the index that a store has of it; nothing here needs click."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from symd.config import Limits
from symd.debuginfo import separate_files
from symd.engine.files.debug_files import debug_files, has_split_files
from symd.engine.files.file_notices import working
from symd.engine.files.gc_control import gc_frozen
from symd.engine.files.input import COMPRESSED_SUFFIXES
from symd.engine.files.large_file import LargeFile, mapped_file
from symd.engine.files.small_file import SmallFile
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers import host_elf
from symd.formats.containers.amd import amdgpu, kpack
from symd.formats.containers.code_reloader import expanded_size
from symd.formats.containers.file_part import LARGE, MAPPED
from symd.model.addresses import Query
from symd.model.answers import Answer, Answers
from symd.model.columns import U64
from symd.model.frame_text import printable
from symd.query.python_names import PythonNames

if TYPE_CHECKING:
    from symd.model.sources import PathRule


def opened_file(file: str | bytes, limits: Limits, store: str | None = None) -> LargeFile | SmallFile:
    """What answers questions about one file, or about the bytes of one, by its size. Raises what opening it raises.
    ``store``: the folder of a store where an index of it may be, "default" for that of the daemon that runs here."""
    find_index = None
    if store is not None:
        from symd.engine.files.stored_index import stored_index  # noqa: PLC0415 - 30 ms: few ask for a store, whose catalogue is slow to import

        find_index = partial(stored_index, store)
    if is_long(file, limits) if isinstance(file, bytes) else is_large(file, limits) and not _may_be_split(file):
        return LargeFile(file, limits, find_index)
    return SmallFile(file, limits, find_index)


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
