"""msgpack of strangers.

Source: the msgpack specification."""

from __future__ import annotations

from typing import Any

import msgpack

from symd.errors import Malformed


def unpacked(data: bytes, what: str) -> Any:
    """The one value that ``data`` is. Raises Malformed, which names it as ``what``.

    It is walked once before anything is made of it: msgpack allocates as many elements as a list says that it has.
    """
    reader = reader_of(data)
    try:
        reader.skip()
        return msgpack.unpackb(data, strict_map_key=False, ext_hook=extension)
    except msgpack.OutOfData:
        raise Malformed(f"{what} is cut off") from None
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise Malformed(f"{what} is no msgpack that can be read: {error or type(error).__name__}") from error


def extension(kind: int, data: bytes) -> tuple[int, bytes]:
    """The value of an extension type. msgpack's own hook refuses those below 0, which the specification has for itself."""
    return kind, data


def reader_of(data: bytes) -> msgpack.Unpacker:
    """Reads ``data`` a value at a time, or skips one without making anything of it."""
    reader = msgpack.Unpacker(strict_map_key=False, ext_hook=extension, max_buffer_size=max(len(data), 1))
    reader.feed(data)
    return reader
