"""The msgpack map of an AMDGPU metadata note, with the arguments of its kernels apart: they are half of the note, and the
same bytes for all kernels of one signature, so that they are read once.

Source: the msgpack specification; LLVM's AMDGPU usage guide, "Code Object V3 Metadata"."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import msgpack

from symd.containers.amd.bounded_msgpack import reader_of
from symd.errors import Malformed

_KERNELS, _ARGUMENTS = "amdhsa.kernels", ".args"
_ENCODED_KEY = b"\xa5.args"
_NOTHING = b"\xc0"
_LISTS = (0xDC, 0xDD)
_MAPS = (0xDE, 0xDF)


class Kernels(NamedTuple):
    """The ``maps`` of the kernels, without arguments; these are the entry of ``signatures`` that ``signature`` numbers for
    each kernel, of whatever type."""

    maps: list[dict[Any, Any]]
    signature: list[int]
    signatures: list[Any]


class Note(NamedTuple):
    """``tree`` is what the note says beside its kernels."""

    tree: dict[Any, Any]
    kernels: Kernels


def load(data: bytes) -> Note | None:
    """Read a note; None where it is no map. Raises Malformed.

    It is walked once before anything is read: msgpack allocates as many elements as a list says that it has.
    """
    reader = reader_of(data)
    try:
        reader.skip()
    except msgpack.OutOfData as error:
        raise Malformed("Unpack failed: incomplete input") from error
    except (ValueError, msgpack.UnpackException) as error:
        raise _malformed(error) from error
    try:
        if reader.tell() < len(data):
            raise msgpack.ExtraData(None, b"")
        return _note(data) if _is(data, 0, 0x80, _MAPS) else None
    except (ValueError, msgpack.UnpackException, TypeError) as error:
        _whole(data)  # says what comes first in the note; its parts are read in another order
        raise _malformed(error) from error


def _whole(data: bytes) -> Any:
    try:
        return _value(data)
    except (ValueError, msgpack.UnpackException, TypeError) as error:
        raise _malformed(error) from error


def _malformed(error: Exception) -> Malformed:
    """The library's own words; some of its errors have none."""
    return Malformed(str(error) or f"is not readable msgpack: {type(error).__name__}")


def _value(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False)


def _note(data: bytes) -> Note:
    reader = reader_of(data)
    tree, kernels = {}, Kernels([], [], [])
    for _ in range(reader.read_map_header()):
        key, begin = reader.unpack(), reader.tell()
        if key != _KERNELS:
            tree[key] = reader.unpack()
        elif _is(data, begin, 0x90, _LISTS):
            reader.skip()
            kernels = _kernels(data[begin : reader.tell()])
        else:
            reader.unpack()
            kernels = Kernels([], [], [])
    return Note(tree, kernels)


def _kernels(data: bytes) -> Kernels:
    """The maps of a list, each parted in two. One reader leads from map to map, the other looks into those whose arguments are not
    those of the one before."""
    lead, reader = reader_of(data), reader_of(data)
    reader.read_array_header()
    rests: list[bytes] = []
    arguments: list[bytes] = []
    passed = 0
    for _ in range(lead.read_array_header()):
        begin = lead.tell()
        lead.skip()
        is_map = _is(data, begin, 0x80, _MAPS)
        parts = _parted_alike(data, begin, lead.tell(), arguments[-1]) if is_map and arguments else None
        if parts is None:
            for _ in range(passed):
                reader.skip()
            passed = 0
            if not is_map:
                reader.unpack()
                continue
            parts = _parted(data, reader, lead.tell())
        else:
            passed += 1
        rests.append(parts[0])
        arguments.append(parts[1])
    maps = _value(struct.pack(">BI", 0xDD, len(rests)) + b"".join(rests))
    number = {encoded: at for at, encoded in enumerate(dict.fromkeys(arguments))}
    return Kernels(maps, [number[encoded] for encoded in arguments], [*map(_value, number)])


def _parted_alike(data: bytes, begin: int, end: int, arguments: bytes) -> tuple[bytes, bytes] | None:
    """The same of the map ``data[begin:end]`` where these arguments come first in it; else None. LLVM writes the keys in order,
    and no value in msgpack is the beginning of another."""
    if data[begin] == _MAPS[0]:
        size, key = int.from_bytes(data[begin + 1 : begin + 3], "big"), begin + 3
    else:
        size, key = data[begin] & 0xF, begin + 1
    first = key + len(_ENCODED_KEY)
    if not size or data[begin] == _MAPS[1] or not data.startswith(_ENCODED_KEY + arguments, key):
        return None
    return struct.pack(">BI", 0xDF, size - 1) + data[first + len(arguments) : end], arguments


def _parted(data: bytes, reader: msgpack.Unpacker, end: int) -> tuple[bytes, bytes]:
    """The map at which ``reader`` stands and which ends at ``end``: what is left without its arguments, and these."""
    size = reader.read_map_header()
    first = reader.tell()
    for _ in range(size):
        before = reader.tell()
        key, begin = reader.unpack(), reader.tell()
        reader.skip()
        if key == _ARGUMENTS:
            after = reader.tell()
            rest = data[first:before] + reader.read_bytes(end - after)
            return struct.pack(">BI", 0xDF, size - 1) + rest, data[begin:after]
    return struct.pack(">BI", 0xDF, size) + data[first:end], _NOTHING


def _is(data: bytes, at: int, short: int, long: tuple[int, int]) -> bool:
    """Whether a list or map stands there: its short form's first byte in the high nibble, or one of the long forms."""
    return data[at] & 0xF0 == short or data[at] in long
