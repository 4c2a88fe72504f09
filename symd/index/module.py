"""A module's bytes in, its index file out: opened, decoded, merged, described."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from symd import containers, debuginfo
from symd.config import Limits
from symd.errors import SymdError
from symd.index.builder import build
from symd.index.joined import Indexed
from symd.model import CodeObject, DebugInfo, KernelSummary, ModuleSummary, ObjectSummary

_KEPT_BYTES = 24 << 20
"""Freed memory that the process keeps: what the columns of a few hundred thousand rows take."""


def build_index(data: bytes, limits: Limits) -> bytes:
    """Module bytes to index file: opened, decoded, merged. Raises what opening raises; a code object whose debug data
    cannot be decoded is kept with its names, and the reason becomes a note."""
    # glibc hands large blocks back to the system until one as large as this was freed; then their pages are used again,
    # which saves a tenth of a first index.
    np.empty(_KEPT_BYTES, np.uint8)
    unpacked = containers.unpack(data, limits)
    indexed = [decoded(code) for code in unpacked.objects]
    return build(indexed, described(data, unpacked, indexed))


def decoded(code: CodeObject) -> Indexed:
    """All of a code object decoded, or why it cannot be."""
    try:
        debug = debuginfo.read(code)
    except SymdError as error:
        return Indexed(code, error)
    return Indexed(debuginfo.named(code, debug), debug)


def described(data: bytes, unpacked: containers.Unpacked, indexed: Sequence[Indexed]) -> ModuleSummary:
    """The module's summary."""
    digest = hashlib.sha256(data).hexdigest()
    return ModuleSummary(
        digest,
        len(data),
        unpacked.format,
        tuple(_object_summary(item, digest if item.code.data is data else None) for item in indexed),
        unpacked.notes,
        unpacked.containers,
    )


def _object_summary(item: Indexed, digest: str | None) -> ObjectSummary:
    """``digest`` of the object's bytes, where it is known already. Facts and warnings that nobody looked at yet stay so."""
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
        digest or hashlib.sha256(code.data).hexdigest(),
        code.debug,
        kernels,
        code.facts,
        (*code.warnings, *notes) if notes else code.warnings,
    )
