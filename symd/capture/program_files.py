"""Device code in files of running programs: the part that a code object URI names, and a file that a process has
mapped.

A mapped file is read, not mapped again: the process may truncate it at any time, and touching a mapping past the end of
its file kills the process that does so (SIGBUS).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Final

from symd.config import Limits
from symd.errors import InvalidInput, LimitExceeded, SymdError
from symd.formats import containers, elf
from symd.formats.containers import archive, compressed_file, host_elf, uri
from symd.formats.elf.constants import ET_DYN, ET_EXEC, SHN_XINDEX
from symd.system.messages import os_error_text


def read_part(place: uri.CodeObjectUri, limits: Limits, open_path: Callable[[str], int]) -> bytes:
    """The bytes. Raises InvalidInput where they cannot be had whole, LimitExceeded for too many."""
    try:
        descriptor = open_path(place.path)
    except OSError as error:
        raise _unreadable(place, error) from error
    try:
        status = os.fstat(descriptor)
        size = status.st_size if place.size is None else place.size
        if size > limits.folder_bytes:
            hint = "raise it with --limit folder_bytes=NUMBER"
            metadata = {"limit": "folder_bytes"}
            message = f"it is larger than {limits.folder_bytes:,} bytes"
            raise LimitExceeded(message, where=place.path, hint=hint, metadata=metadata)
        data = _read(descriptor, size, place) if stat.S_ISREG(status.st_mode) else b""
        if len(data) != size:
            raise InvalidInput("the file does not have that part", where=place.path)
        return data
    finally:
        os.close(descriptor)


def _read(descriptor: int, size: int, place: uri.CodeObjectUri) -> bytes:
    try:
        return os.pread(descriptor, size, place.offset or 0)
    except OSError as error:
        raise _unreadable(place, error) from error


def _unreadable(place: uri.CodeObjectUri, error: OSError) -> InvalidInput:
    reason = os_error_text(error)
    return InvalidInput(f"cannot read the file: {reason}", where=place.path)


def is_device_code(data: bytes) -> bool:
    """Whether a reader of device code claims the bytes: nothing else of a file is taken because a program says so."""
    form = containers.identify(data)
    return form is not None and form not in (archive, compressed_file, host_elf)


Read = Callable[[int, int], bytes]
"""Offset and size to bytes, fewer where the file ends."""
_HEAD_BYTES: Final = 4096
_PIECE: Final = 1 << 24
_MOST_TABLE_BYTES: Final = 16 << 20
"""Bytes of section headers, and of their names: more than linkers write."""


def device_code(descriptor: int, limits: Limits) -> bytes | None:
    """The file's bytes where it is a module or holds some; None for anything else, of which the beginning and the names
    of sections are read. Raises OSError, LimitExceeded for a large one, InvalidInput where it was cut off meanwhile."""

    def read(offset: int, size: int) -> bytes:
        parts = []
        while size > 0 and (part := os.pread(descriptor, min(size, _PIECE), offset)):
            parts.append(part)
            offset, size = offset + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    status = os.fstat(descriptor)
    head = read(0, _HEAD_BYTES) if stat.S_ISREG(status.st_mode) else b""
    kind = elf.kind(head)
    if kind is not None and kind.type in (ET_EXEC, ET_DYN) and kind.machine in host_elf.MACHINES:
        if not host_elf.carries_device_code(_section_names(read, head)):
            return None
        return _whole(read, status.st_size, limits)
    if kind is None or kind.machine not in host_elf.MACHINES or status.st_size > limits.folder_bytes:
        return _whole(read, status.st_size, limits) if head and is_device_code(head) else None
    data = _whole(read, status.st_size, limits)  # a relocatable object or a core file tells only with all of it
    return data if is_device_code(data) or host_elf.carries_device_code(_section_names(read, head)) else None


def _whole(read: Read, size: int, limits: Limits) -> bytes:
    if size > limits.folder_bytes:
        hint = "give the file itself to symd, or raise it with --limit folder_bytes=NUMBER"
        message = f"it carries device code and is larger than {limits.folder_bytes:,} bytes"
        raise LimitExceeded(message, hint=hint, metadata={"limit": "folder_bytes"})
    data = read(0, size)
    if len(data) < size:
        raise InvalidInput(f"it was cut off to {len(data):,} bytes while it was read")
    return data


def _section_names(read: Read, head: bytes) -> list[str]:
    """The names of an ELF image's sections, by its section table and the names' alone; none where these are damaged."""
    try:
        header = elf.parse_header(head)
        if not header.shoff:
            return []
        table = read(header.shoff, min(header.shnum * header.shentsize or _MOST_TABLE_BYTES, _MOST_TABLE_BYTES))
        headers = elf.section_headers(head + table, header._replace(shoff=len(head)))
        number = headers[0].link if headers and header.shstrndx == SHN_XINDEX else header.shstrndx
        if not 0 < number < len(headers):
            return []
        names = read(headers[number].offset, min(headers[number].size, _MOST_TABLE_BYTES))
        headers[number] = headers[number]._replace(offset=0, size=len(names))
        return elf.section_names(names, header, headers)
    except (SymdError, OverflowError):  # an offset that no file has
        return []
