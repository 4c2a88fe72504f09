"""A module's description as the msgpack that an index file carries, and back. A record is the list of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgpack

from symd.containers.lazy import LazyMapping, LazySequence
from symd.errors import DataLoss
from symd.model.summaries import ContainerSummary, KernelSummary, ModuleSummary, ObjectSummary

_INTEGER = 1
"""The extension type of an integer that takes more than 64 bits: its bytes, little-endian, two's complement."""


def pack(summary: ModuleSummary) -> bytes:
    """Facts and notes that nobody looked at yet are read now."""
    fields = _module_fields(summary)
    try:
        packed: bytes = msgpack.packb(fields, default=_plain)
    except UnicodeEncodeError:  # half a surrogate pair in a text; said beforehand, this makes every text dearer
        packed = msgpack.packb(fields, default=_plain, unicode_errors="surrogatepass")
    return packed


def _module_fields(module: ModuleSummary) -> tuple[Any, ...]:
    opened = [(each.path, each.format, each.size, each.facts) for each in module.containers]
    objects = [_object_fields(each) for each in module.objects]
    return module.sha256, module.size, module.format, objects, module.notes, opened


def _object_fields(item: ObjectSummary) -> tuple[Any, ...]:
    kernels = [
        (kernel.name, kernel.section, kernel.section_index, kernel.offset, kernel.size, kernel.facts)
        for kernel in item.kernels
    ]
    return (item.path, item.format, item.target, item.size, item.sha256, item.debug, kernels, item.facts, item.notes)


def _plain(value: object) -> Any:
    """What msgpack does not know, in terms of what it does."""
    if isinstance(value, LazyMapping | LazySequence):
        return value.plain()
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, int):
        return msgpack.ExtType(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True))
    raise TypeError(f"facts hold a {type(value).__name__}, which is not JSON")


def unpack(data: bytes) -> ModuleSummary:
    """Raises DataLoss."""
    try:
        return _module(msgpack.unpackb(data, ext_hook=_integer, unicode_errors="surrogatepass", strict_map_key=False))
    except (ValueError, TypeError, msgpack.UnpackException) as error:
        raise DataLoss(f"has a summary that does not read: {error}", where="index file") from error


def _integer(kind: int, data: bytes) -> int:
    if kind != _INTEGER:
        raise ValueError(f"extension type {kind} is not known")
    return int.from_bytes(data, "little", signed=True)


def _module(fields: list[Any]) -> ModuleSummary:
    digest, size, form, objects, notes, containers = fields
    opened = tuple(ContainerSummary(*each) for each in containers)
    return ModuleSummary(digest, size, form, tuple(map(_object, objects)), tuple(notes), opened)


def _object(fields: list[Any]) -> ObjectSummary:
    path, form, target, size, digest, debug, kernels, facts, notes = fields
    described = tuple(KernelSummary(*each) for each in kernels)
    return ObjectSummary(path, form, target, size, digest, debug, described, facts, tuple(notes))
