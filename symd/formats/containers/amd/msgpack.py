"""The msgpack map of an AMDGPU metadata note as columns of kernels, and msgpack from untrusted files.

The arguments of a note's kernels are half of it, and the same bytes for all kernels of one signature; many kernels
differ in their names alone. Equal bytes are read once (``core.kernel_maps``).

Sources: the msgpack specification; LLVM's AMDGPU usage guide, "Code Object V3 Metadata".
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any, NamedTuple

import msgpack

from symd.core.kernel_maps import KernelMaps, UnknownNote
from symd.errors import Malformed

_KERNELS = "amdhsa.kernels"
_APART = (".args", ".name", ".symbol")
"""The keys of a kernel's map whose values are kept apart."""
_UNREADABLE = (ValueError, msgpack.UnpackException, TypeError)


_KEPT_RESTS, _KEPT_ARGUMENTS = 4096, 128
"""How many of the last different ones are kept as what they were made into: the code objects of a library say the same
of their kernels."""
_MOST_KEPT = 4096
"""Bytes of one that is kept."""
Make = Callable[[Any], Any]
"""Makes something of a value."""


def _itself(value: Any) -> Any:
    return value


class Kernels(NamedTuple):
    """The kernels of a metadata note, as columns: ``name`` and ``symbol`` of each kernel, of whatever type and None
    where there is none, and the entry of ``kinds`` that ``kind`` numbers for it: what was made of all else in its map,
    and the number of what was made of its arguments among the ``signatures``."""

    kinds: list[tuple[Any, int]]
    signatures: list[Any]
    kind: list[int]
    name: list[Any]
    symbol: list[Any]


class MetadataNote(NamedTuple):
    """A metadata note: its ``kernels``, and the ``tree`` of all else in it."""

    tree: dict[Any, Any]
    kernels: Kernels


def load(data: bytes, of_map: Make = _itself, of_arguments: Make = _itself) -> MetadataNote | None:
    """Read a note; None where it is no map. ``of_map`` and ``of_arguments`` are given the map of a kernel and what it
    says of its arguments; nobody changes what they make. Raises Malformed."""
    try:
        return _taken_apart(KernelMaps(data), of_map, of_arguments)
    except (UnknownNote, *_UNREADABLE):
        pass  # what is wrong, if anything is, is said of the whole
    tree = _whole(data)
    if not isinstance(tree, dict):
        return None
    listed = tree.pop(_KERNELS, None)
    kernels = [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
    arguments, names, symbols = ([each.get(key) for each in kernels] for key in _APART)
    numbers = [*range(len(kernels))]
    kinds = [*zip(map(of_map, kernels), numbers, strict=True)]
    return MetadataNote(tree, Kernels(kinds, [*map(of_arguments, arguments)], numbers, names, symbols))


def _taken_apart(found: KernelMaps, of_map: Make, of_arguments: Make) -> MetadataNote:
    """Raises UnknownNote, and as ``_value``."""
    tree = _value(found.tree)
    if _KERNELS in tree:  # with a length that takes more bytes than it needs
        raise UnknownNote
    if found.strays:
        _values(found.strays)
    made = [(_kept_rest if len(each) <= _MOST_KEPT else _of_rest)(each, of_map) for each in found.rests]
    kinds = [(made[rest], signature) for rest, signature in found.kinds]
    signatures = [
        (_kept_signature if len(each) <= _MOST_KEPT else _of_signature)(each, of_arguments) for each in found.signatures
    ]
    return MetadataNote(tree, Kernels(kinds, signatures, found.kind, _values(found.names), _values(found.symbols)))


def _of_rest(encoded: bytes, make: Make) -> Any:
    rest = _value(encoded)
    if any(key in rest for key in _APART):  # as above
        raise UnknownNote
    return make(rest)


def _of_signature(encoded: bytes, make: Make) -> Any:
    return make(_value(encoded))


_kept_rest, _kept_signature = lru_cache(_KEPT_RESTS)(_of_rest), lru_cache(_KEPT_ARGUMENTS)(_of_signature)


def _whole(data: bytes) -> Any:
    """The note's value. It is walked once before anything is made of it: msgpack allocates as many elements as a list
    says that it has. Raises Malformed in the library's own words; some of its errors have none."""
    try:
        reader_of(data).skip()
        return _value(data)
    except msgpack.OutOfData as error:
        raise Malformed("Unpack failed: incomplete input") from error
    except _UNREADABLE as error:
        raise Malformed(str(error) or f"is not readable msgpack: {type(error).__name__}") from error


def _value(data: bytes) -> Any:
    return msgpack.unpackb(data, strict_map_key=False, ext_hook=extension)


def _values(encoded: Collection[bytes]) -> list[Any]:
    found: list[Any] = _value(b"".join([b"\xdd", len(encoded).to_bytes(4, "big"), *encoded]))
    return found


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
        raise Malformed(f"{what} is not msgpack that can be read: {error or type(error).__name__}") from error


def extension(kind: int, data: bytes) -> tuple[int, bytes]:
    """The value of an extension type. msgpack's own hook refuses those below 0, which the specification has for
    itself."""
    return kind, data


def reader_of(data: bytes) -> msgpack.Unpacker:
    """Reads ``data`` a value at a time, or skips one without making anything of it."""
    reader = msgpack.Unpacker(strict_map_key=False, ext_hook=extension, max_buffer_size=max(len(data), 1))
    reader.feed(data)
    return reader
