"""msgpack from untrusted files, and the metadata note of an AMDGPU code object with the arguments of its kernels apart:
they are half of a note, and the same bytes for all kernels of one signature.

Sources: the msgpack specification; LLVM's AMDGPU usage guide, "Code Object V3 Metadata".
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgpack

from symd.errors import Malformed

_KERNELS, _ARGUMENTS = "amdhsa.kernels", ".args"
_NOTHING = b"\xc0"
_MAP, _LIST = (0x80, 0xDE), (0x90, 0xDC)
"""The high nibble of the first byte of a short one, and the first of the two bytes with which longer ones begin."""


class MetadataNote(NamedTuple):
    """A metadata note: ``kernels`` are the map of each kernel without its arguments, and these as they are in the note;
    ``tree`` is all else."""

    tree: dict[Any, Any]
    kernels: list[tuple[dict[Any, Any], bytes]]


def metadata_note(data: bytes, what: str) -> MetadataNote | None:
    """Read a note; None where it is no map. What is no map among the kernels is left out. Raises Malformed."""
    if not _begins(data, 0, _MAP):
        unpacked(data, what)
        return None
    with _readable(what):
        _reader(data).skip()
        reader = _reader(data)
        tree: dict[Any, Any] = {}
        kernels: list[tuple[dict[Any, Any], bytes]] = []
        for _ in range(reader.read_map_header()):
            key = reader.unpack()
            if key != _KERNELS:
                tree[key] = reader.unpack()
            else:
                kernels = list(_kernels(data, reader))
        if reader.tell() < len(data):
            raise msgpack.ExtraData(tree, data[reader.tell() :])
        return MetadataNote(tree, kernels)


def _kernels(data: bytes, reader: msgpack.Unpacker) -> Iterator[tuple[dict[Any, Any], bytes]]:
    if not _begins(data, reader.tell(), _LIST):
        reader.unpack()
        return
    for _ in range(reader.read_array_header()):
        if not _begins(data, reader.tell(), _MAP):
            reader.unpack()
            continue
        kernel, arguments = dict[Any, Any](), _NOTHING
        for _ in range(reader.read_map_header()):
            key = reader.unpack()
            if key == _ARGUMENTS:
                start = reader.tell()
                reader.skip()
                arguments = data[start : reader.tell()]
            else:
                kernel[key] = reader.unpack()
        yield kernel, arguments


def _begins(data: bytes, at: int, heads: tuple[int, int]) -> bool:
    """Whether a map or a list begins at ``at``."""
    head = data[at] if at < len(data) else 0
    return head & 0xF0 == heads[0] or head in (heads[1], heads[1] + 1)


def unpacked(data: bytes, what: str) -> Any:
    """The one value that ``data`` is. Raises Malformed, which names it as ``what``.

    It is walked once before anything is made of it: msgpack allocates as many elements as a list says that it has.
    """
    with _readable(what):
        _reader(data).skip()
        return msgpack.unpackb(data, strict_map_key=False, ext_hook=extension)


@contextmanager
def _readable(what: str) -> Iterator[None]:
    try:
        yield
    except msgpack.OutOfData:
        raise Malformed(f"{what} is cut off") from None
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise Malformed(f"{what} is not msgpack that can be read: {str(error) or type(error).__name__}") from error


def extension(kind: int, data: bytes) -> tuple[int, bytes]:
    """The value of an extension type. msgpack's own hook refuses those below 0, which the specification has for
    itself."""
    return kind, data


def _reader(data: bytes) -> msgpack.Unpacker:
    """Reads ``data`` a value at a time, or skips one without making anything of it."""
    reader = msgpack.Unpacker(strict_map_key=False, ext_hook=extension, max_buffer_size=max(len(data), 1))
    reader.feed(data)
    return reader
