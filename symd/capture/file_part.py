"""Device code that lies in a file of a program: the part that a code object URI names."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from symd.config import Limits
from symd.errors import InvalidInput, LimitExceeded
from symd.formats import containers
from symd.formats.containers import archive, compressed_file, host_elf, uri
from symd.system.os_errors import os_error_text

_OPEN = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def opened(path: str) -> int:
    """A descriptor of a file here, which waits for nobody. Raises OSError."""
    return os.open(path, _OPEN)


def read_part(place: uri.CodeObjectUri, limits: Limits, open_path: Callable[[str], int] = opened) -> bytes:
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
