"""``symd symbolize FILE QUERY...``, for up to three addresses or places in kernels whose debug data is plain."""

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
from symd.model.frame_text import PlainAnswer

_MOST_QUERIES = 3
"""Queries that are answered one by one, each from the units that it needs; of more the command line decodes everything
once."""
_MOST_BYTES = 64 << 20
"""Larger files are opened otherwise (``formats.containers.file_part.LARGE``)."""
_MAPPED = 1 << 20
"""Bytes of a file that is mapped."""
_WITH_OTHERS = frozenset({"host-elf"})
"""Formats of files beside which others may lie that belong to them."""


def file_answers(asked: Asked) -> str | None:
    """What is written for a file and queries; None where an answer is not plain: then the command line answers."""
    file, queries = asked
    if len(queries) > _MOST_QUERIES:
        return None
    gc.disable()  # thousands of objects, of which none refers to itself
    try:
        data = _content(file)
        if data is None:
            return None
        opening = ContainerUnpacker(data, DEFAULT_LIMITS, outline=True)
        objects = [*opening]
        if opening.format in _WITH_OTHERS:
            return None
        found = []
        for query, kernel, value in queries:
            place = at_kernel(objects, kernel, value) if kernel else at_address(objects, value)
            answer = None if place is None else answer_at(*place)
            if answer is None:
                return None
            found.append(answer_text(query, answer))
        return "".join(found)
    except (OSError, SymdError):
        return None
    finally:
        gc.enable()


def _content(file: str) -> bytes | None:
    """The bytes of a file that is neither large nor something else; a longer one is mapped."""
    try:
        handle = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except ValueError:  # a name that no file can have
        return None
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size < _MOST_BYTES:
            return None
        if status.st_size < _MAPPED:
            return os.read(handle, _MAPPED)
        return mmap.mmap(handle, 0, access=mmap.ACCESS_READ)  # type: ignore[return-value] # it has what is asked of bytes
    finally:
        os.close(handle)


def answer_at(code: CodeObject, section: int, offset: int) -> PlainAnswer | None:
    """The answer at a byte of text, by the number of its section; None where the whole index has to say."""
    if code.kind is CodeKind.SPIRV:
        from symd.debuginfo.spirv import one_address as spirv  # noqa: PLC0415 - one of the two is needed

        return spirv.answer_at(code, offset)
    from symd.debuginfo import one_address  # noqa: PLC0415 - one of the two is needed

    return one_address.answer_at(code, section, offset, DEFAULT_LIMITS)


_TextByte = tuple["CodeObject", int, int]
"""A byte of text: its code object, the number of its section, the offset in that."""


def at_address(objects: Sequence[CodeObject], address: int) -> _TextByte | None:
    """The only byte of text at an object address."""
    places = [
        (code, text.index, address - code.bias - text.address)
        for code in objects
        for text in code.sections
        if text.executable and 0 <= address - code.bias - text.address < text.size
    ]
    return places[0] if len(places) == 1 else None


def at_kernel(objects: Sequence[CodeObject], name: str, offset: int) -> _TextByte | None:
    """The byte at an offset of the only kernel of a name."""
    found = [(code, kernel) for code in objects for kernel in code.kernels if kernel.name == name]
    if len(found) != 1 or any(code.kernel_named_by_debug_data for code in objects):
        return None
    ((code, kernel),) = found
    size = next((text.size for text in code.sections if text.executable and text.index == kernel.section_index), 0)
    return (
        (code, kernel.section_index, kernel.offset + offset) if kernel.size and kernel.offset + offset < size else None
    )
