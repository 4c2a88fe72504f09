"""A module's bytes in, its index file out: opened, decoded, merged, described."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from symd import containers, debuginfo
from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import SymdError
from symd.index.builder import build
from symd.index.module_tables import DecodedObject
from symd.model.code import CodeObject
from symd.model.debug_info import DebugInfo
from symd.model.identities import Digest
from symd.model.summaries import KernelSummary, ModuleSummary, ObjectSummary

_KEPT_BYTES = 24 << 20
"""What the columns of a few hundred thousand rows take."""
_LARGE = 4 << 20
"""Bytes of a module of so many rows, which no thread of a daemon indexes."""


def build_index(data: bytes, limits: Limits) -> bytes:
    """Module bytes to index file: opened, decoded, merged. Raises what opening raises; a code object whose debug data
    cannot be decoded is kept with its names, and the reason becomes a note."""
    return index_of(data, _digest(data), containers.unpack(data, limits), limits)


def index_of(data: bytes, digest: Digest, unpacked: containers.OpenedModule, limits: Limits) -> bytes:
    """The same for a module that was opened already; ``digest`` is that of ``data``."""
    if len(data) > _LARGE:
        keep_freed_memory()
    indexed = decoded_objects(unpacked.objects, limits)
    return build(indexed, described(data, digest, unpacked, indexed))


def keep_freed_memory() -> None:
    """Let the process keep what it frees from here on: glibc hands large blocks back to the system, page by page, until
    one as large as this was freed. Saves a tenth of a first index."""
    np.empty(
        _KEPT_BYTES, np.uint8
    )  # Freed at once: that raises glibc's dynamic mmap threshold (mallopt(3)) to this size.


def decoded_objects(objects: Sequence[CodeObject], limits: Limits = DEFAULT_LIMITS) -> list[DecodedObject]:
    """All of each code object decoded, or why it cannot be."""
    return [DecodedObject(code, debug) for code, debug in debuginfo.read_each(objects, limits)]


def described(
    data: bytes, digest: Digest, unpacked: containers.OpenedModule, indexed: Sequence[DecodedObject]
) -> ModuleSummary:
    """The module's summary; ``digest`` is that of ``data``."""
    return ModuleSummary(
        digest,
        len(data),
        unpacked.format,
        tuple(_object_summary(item, digest if item.code.data is data else None) for item in indexed),
        unpacked.notes,
        unpacked.containers,
    )


def _object_summary(item: DecodedObject, digest: Digest | None) -> ObjectSummary:
    """``digest`` of the object's bytes, where it is known already. Facts and warnings that nobody looked at yet stay
    so."""
    code, debug = item.code, item.debug
    notes = debug.warnings if isinstance(debug, DebugInfo) else ()
    if isinstance(debug, SymdError):
        notes = (f"debug data cannot be read: {debug}",)
    names = {section.index: section.name for section in code.sections}
    kernels = tuple(
        KernelSummary(k.name, names.get(k.section_index), k.section_index, k.offset, k.size, k.facts)
        for k in code.kernels
    )
    return ObjectSummary(
        code.path,
        code.format,
        code.target,
        len(code.data),
        digest or _digest(code.data),
        code.debug.value,
        kernels,
        code.facts,
        (*code.warnings, *notes) if notes else code.warnings,
    )


def _digest(data: bytes) -> Digest:
    import hashlib  # noqa: PLC0415 - slow to load, and one question of one file needs no digest

    return Digest(hashlib.sha256(data).hexdigest())
