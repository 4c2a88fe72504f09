"""``symd symbolize FILE QUERY...``, for up to three addresses or places in kernels, where no index is needed."""

from __future__ import annotations

import gc
import mmap
import os
import stat
from collections.abc import Sequence

from symd.cli.start import Asked, answer_text
from symd.config import DEFAULT_LIMITS
from symd.errors import SymdError
from symd.formats.containers import ContainerUnpacker
from symd.model.code import CodeKind, CodeObject
from symd.model.frame_text import AnswerTuple, NeedsIndex, log_needs_index
from symd.model.reasons import Reason

_MOST_QUERIES = 3
"""Queries that are answered one by one, each from the units that it needs; of more the command line decodes everything
once."""
_MOST_BYTES = 64 << 20
"""Larger files are opened otherwise (``formats.containers.file_part.LARGE``)."""
_MAPPED = 1 << 20
"""Bytes of a file that is mapped."""
_WITH_OTHERS = frozenset({"host-elf"})
"""Formats of files beside which others may lie that belong to them."""


def direct_answers_text(asked: Asked) -> str | None:
    """What is written for a file and queries; None where an answer needs an index: then the command line answers."""
    gc.disable()  # thousands of objects, of which none refers to itself
    try:
        return _direct_text(*asked)
    except (OSError, SymdError, NeedsIndex) as reason:
        log_needs_index(asked[0], reason)
        return None
    finally:
        gc.enable()


def _direct_text(file: str, queries: Sequence[tuple[str, str, int]]) -> str:
    if len(queries) > _MOST_QUERIES:
        raise NeedsIndex("the command line decodes a file once for many queries")

    opening = ContainerUnpacker(_content(file), DEFAULT_LIMITS, outline=True)
    objects = [*opening]
    if opening.format in _WITH_OTHERS:
        raise NeedsIndex("files beside this one may belong to it")

    found = []
    for query, kernel, value in queries:
        place = at_kernel(objects, kernel, value) if kernel else at_address(objects, value)
        answer = direct_answer(*place)
        found.append(answer_text(query, answer, Reason(answer[0]).name))
    return "".join(found)


def _content(file: str) -> bytes:
    """The bytes of a file; a longer one is mapped. Raises NeedsIndex for one that is large or no regular file."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError as error:
        raise NeedsIndex("no file can have this name") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size < _MOST_BYTES:
            raise NeedsIndex("no regular file, or one that is empty or large")
        if status.st_size < _MAPPED:
            return os.read(handle, _MAPPED)
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)  # type: ignore[return-value] # it has what is asked of bytes
    finally:
        os.close(handle)


def direct_answer(code: CodeObject, section: int, offset: int) -> AnswerTuple:
    """The answer at a byte of text, by the number of its section. Raises NeedsIndex where the whole index has to say,
    and SymdError for debug data that cannot be read."""
    if code.kind is CodeKind.SPIRV:
        from symd.debuginfo.spirv import one_address as spirv  # noqa: PLC0415 - 7 ms: one of the two is needed

        return spirv.answer_at_offset(code, offset)
    from symd.debuginfo import one_address  # noqa: PLC0415 - 12 ms: one of the two is needed

    return one_address.answer_at(code, section, offset, DEFAULT_LIMITS)


_TextByte = tuple["CodeObject", int, int]
"""A byte of text: its code object, the number of its section, the offset in that."""


def at_address(objects: Sequence[CodeObject], address: int) -> _TextByte:
    """The only byte of text at an object address. Raises NeedsIndex unless there is exactly one."""
    places = [
        (code, text.index, address - code.bias - text.address)
        for code in objects
        for text in code.sections
        if text.executable and 0 <= address - code.bias - text.address < text.size
    ]
    if len(places) != 1:
        raise NeedsIndex(f"{len(places)} text sections hold the address")
    return places[0]


def at_kernel(objects: Sequence[CodeObject], name: str, offset: int) -> _TextByte:
    """The byte at an offset of the only kernel of a name. Raises NeedsIndex where none or several have the name, or the
    offset is behind the kernel's end."""
    found = [(code, kernel) for code in objects for kernel in code.kernels if kernel.name == name]
    if len(found) != 1 or any(code.kernel_named_by_debug_data for code in objects):
        raise NeedsIndex(f"{len(found)} kernels have the name, or debug data names kernels")
    ((code, kernel),) = found
    size = next((text.size for text in code.sections if text.executable and text.index == kernel.section_index), 0)
    if offset >= kernel.size or kernel.offset + offset >= size:
        raise NeedsIndex("the offset is behind the kernel's end")
    return code, kernel.section_index, kernel.offset + offset
