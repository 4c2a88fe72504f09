"""A module's whole description in one message, as its index has it (docs/index-format.md): a fifth of the time of lists, and a hundredth of
their bytes."""

from __future__ import annotations

from typing import Any, Final

import msgpack

from symd.errors import Malformed
from symd.model.identities import Digest, ObjectPath
from symd.model.summaries import ContainerSummary, KernelSummary, ModuleSummary, ObjectSummary
from symd.v1.module_pb2 import PackedDescription

VERSION: Final = 1
"""Of the form, which changes with ``symd.index.summary``."""
MOST_PACKED: Final = 1 << 20
"""Bytes of one that is sent."""
MOST_UNPACKED: Final = 64 << 20
"""Bytes of one that is read, unpacked."""
_INTEGER: Final = 1
"""The extension type of an integer that takes more than 64 bits."""
_DAMAGED: Final = (ValueError, TypeError, RecursionError, msgpack.UnpackException)


def to_packed(summary: bytes | None) -> PackedDescription | None:
    """``summary`` is a summary as an index file has it, or None; None too for one that is too large for a message."""
    if summary is None or len(summary) > MOST_PACKED or not _has_believable_size(summary):
        return None
    return PackedDescription(version=VERSION, data=summary)


def from_packed(message: PackedDescription) -> ModuleSummary | None:
    """None where the version is unknown. Raises ``Malformed``."""
    if message.version != VERSION:
        return None
    import zstandard  # noqa: PLC0415 - many a client never needs it

    try:
        if not _has_believable_size(message.data):
            raise ValueError("no believable size")
        data = zstandard.ZstdDecompressor().decompress(message.data, max_output_size=MOST_UNPACKED)
        how = {"ext_hook": _integer, "unicode_errors": "surrogatepass", "strict_map_key": False}
        return _module(msgpack.unpackb(data, **how))
    except (zstandard.ZstdError, MemoryError, *_DAMAGED) as error:
        raise Malformed(
            f"the daemon's description of a module does not read: {error}", hint="use versions that belong together"
        ) from error


def _has_believable_size(packed: bytes) -> bool:
    import zstandard  # noqa: PLC0415 - many a client never needs it

    try:
        return 0 <= zstandard.frame_content_size(packed) <= MOST_UNPACKED
    except zstandard.ZstdError:
        return False


def _integer(kind: int, data: bytes) -> int:
    if kind != _INTEGER:
        raise ValueError(f"extension type {kind} is not known")
    return int.from_bytes(data, "little", signed=True)


def _module(fields: list[Any]) -> ModuleSummary:
    digest, size, form, objects, notes, containers = _typed(fields, str, int, str, list, list, list)
    opened = tuple(map(_container, containers))
    return ModuleSummary(Digest(digest), size, form, tuple(map(_object, objects)), _texts(notes), opened)


def _object(fields: list[Any]) -> ObjectSummary:
    types = str, str, str | None, int, str, str, list, dict, list
    path, form, target, size, digest, debug, kernels, facts, notes = _typed(fields, *types)
    described = tuple(map(_kernel, kernels))
    return ObjectSummary(ObjectPath(path), form, target, size, Digest(digest), debug, described, facts, _texts(notes))


def _kernel(fields: list[Any]) -> KernelSummary:
    if tuple(map(type, fields)) not in _KERNEL:
        raise ValueError("a kernel has other fields")
    return KernelSummary(*fields)


def _container(fields: list[Any]) -> ContainerSummary:
    return ContainerSummary(*_typed(fields, str, str, int, dict))


def _texts(values: list[Any]) -> tuple[str, ...]:
    return tuple(_typed(values, *[str] * len(values)))


def _typed(fields: list[Any], *types: Any) -> list[Any]:
    """The fields, where they have these types. Raises ValueError."""
    if not all(isinstance(field, kind) for field, kind in zip(fields, types, strict=True)):
        raise ValueError("a record has other fields")
    return fields


_KERNEL: Final = frozenset((str, section, int, int, int, dict) for section in (str, type(None)))
"""The types of a kernel's fields."""
