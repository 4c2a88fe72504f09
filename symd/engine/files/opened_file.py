"""One file, opened in the way of its size."""

from __future__ import annotations

import mmap
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from symd.config import Limits
from symd.engine.files.debug_file import debug_files
from symd.engine.files.input import COMPRESSED_SUFFIXES
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.amd import amdgpu
from symd.formats.containers.file_part import LARGE, MAPPED

if TYPE_CHECKING:
    from symd.engine.files.large_file import LargeFile
    from symd.engine.files.one_file import OneFile


def opened_file(file: str | bytes, limits: Limits, store: str | None = None) -> LargeFile | OneFile:
    """What answers questions about one file, or about the bytes of one, by its size. Raises what opening it raises. ``store``: where an
    index of it may be, as for ``stored_index``."""
    if _is_long(file, limits) if isinstance(file, bytes) else is_large(file, limits) and not _may_be_split(file):
        from symd.engine.files.large_file import LargeFile  # noqa: PLC0415 - few files are large

        return LargeFile(file, limits, store)
    from symd.engine.files.one_file import OneFile  # noqa: PLC0415 - likewise

    return OneFile(file, limits, store)


def _may_be_split(file: str) -> bool:
    """Whether split debug data of code objects inside it may lie beside it."""
    from pathlib import Path  # noqa: PLC0415 - slow to load, and few files are large

    from symd.engine.files.dwo_files import has_split_files  # noqa: PLC0415 - likewise

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
