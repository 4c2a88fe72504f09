"""A module's bytes in, its index file out: opened, decoded, merged, described."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import partial
from threading import Thread
from typing import BinaryIO

import numpy as np

from symd.config import DEFAULT_LIMITS, Limits
from symd.debuginfo import reading
from symd.errors import SymdError
from symd.formats import containers
from symd.formats.containers.code_reloader import read_now, settled, without_bytes
from symd.formats.containers.file_part import LARGE, forget, sha256_of
from symd.index.builder import IndexBuilder, check_size
from symd.index.format import Column
from symd.index.locations import module_ranges
from symd.index.module_tables import DecodedObject, module_tables
from symd.index.packing import Arena, Keeper
from symd.index.portions import noted
from symd.model.answers import Reason
from symd.model.code import CodeObject
from symd.model.columns import Interner
from symd.model.debug_info import DebugInfo
from symd.model.identities import Digest
from symd.model.summaries import UNREAD, ModuleSummary, ObjectSummary, code_summary

_KEPT_BYTES = 24 << 20
"""What the columns of a few hundred thousand rows take."""
_LARGE = 4 << 20
"""Bytes of a module of so many rows, which no thread of a daemon indexes."""
_HEAP_FACTOR = 5
"""Times the module's size that its index takes of memory while it is made."""
_ABOVE = 1 << 20
"""Bytes of a block at the end of the heap, which shrinks no further than to what is in use."""
_GAPS = 256
"""The most blocks of ``_ABOVE`` bytes that are taken to find one behind an address: as many may lie free in front of
it."""


def build_index(data: bytes, limits: Limits) -> bytes:
    """Module bytes to index file: opened, decoded, merged. Raises what opening raises; a code object whose debug data
    cannot be decoded is kept with its names, and the reason becomes a note."""
    kept, digest = _heap_for(data), _digest_aside(data)
    made = _indexed(data, digest, containers.unpack(data, limits), limits)
    del kept
    return made


def _indexed(data: bytes, digest: Callable[[], Digest], unpacked: containers.UnpackedModule, limits: Limits) -> bytes:
    indexed = decoded_objects(unpacked.objects, limits, len(data))
    summary = described(data, digest(), unpacked, indexed)
    index = IndexBuilder(Keeper())
    index.add(indexed, summary.objects)
    del indexed  # a third of the memory: the builder's tables have what is needed of it
    index.take()
    return index.made(summary)


def write_index(
    file: BinaryIO, data: bytes, digest: Digest, unpacked: containers.UnpackedModule, limits: Limits
) -> int:
    """Write the index of a module that was opened already into a file; its size in bytes. ``digest`` is the SHA-256
    of ``data``. Raises LimitExceeded for more than ``limits.index_size`` bytes."""
    kept = _heap_for(data)
    made = _indexed(data, lambda: digest, unpacked, limits)
    del kept
    check_size(len(made), limits.index_size)
    return file.write(made)


def write_index_in_turn(file: BinaryIO, data: bytes, digest: Digest | None, limits: Limits) -> int:
    """Write the index of a large module into an empty file that may be read, too; its size in bytes. Some of the
    module's code objects are in memory at a time, and of the others what the index says of them, compressed. Without
    ``digest`` another thread makes it meanwhile. Raises LimitExceeded where the index would take more than
    ``limits.index_size`` bytes."""
    keep_freed_memory()
    known = _digest_aside(data) if digest is None else partial(Digest, digest)
    opening = containers.ContainerUnpacker(data, limits)
    index = IndexBuilder(Arena())
    for code, debug in reading.read_in_turn(opening, limits, len(data)):
        index.add(*_kept(DecodedObject(code, debug), known() if code.data is data else None))
        del code, debug
        forget(data)
        index.settle()
    notes, opened = tuple(opening.notes), tuple(opening.containers)
    return index.write(file, ModuleSummary(known(), len(data), opening.format, (), notes, opened), limits.index_size)


def _kept(item: DecodedObject, digest: Digest | None) -> tuple[list[DecodedObject], list[ObjectSummary]]:
    code = without_bytes(item.code)._replace(facts=settled(item.code.facts))
    return [item._replace(code=code)], [read_now(object_summary(item, digest))]


def judged_summary(item: DecodedObject, digest: Digest | None = None) -> ObjectSummary:
    """``object_summary`` with the notes of contradictions in the object's debug data, which its index would have."""
    summary = object_summary(item, digest)
    module = module_tables([item], Interner())
    alone = ModuleSummary(Digest(""), 0, "", (summary,))
    return noted(alone, [item], module.texts, module_ranges(module).stretches).objects[0]


def contradictory_bytes(item: DecodedObject) -> tuple[int, int]:
    """How many bytes of a code object's text are answered CONTRADICTORY, and how many bytes of text it has."""
    module = module_tables([item], Interner())
    found = module_ranges(module).stretches
    is_open = found.reason == Reason.CONTRADICTORY
    return int((found.stop[is_open] - found.start[is_open]).sum()), int(module.texts.size.sum())


def keep_freed_memory(stored: int = 0) -> Column | None:
    """Let the process keep what it frees from here on: glibc hands large blocks back to the system, page by page, until
    one as large as this was freed. Saves a tenth of a first index.

    For a module of so many bytes as are ``stored``, if they are many, the heap is made as large as its index needs
    before anything is in it: NumPy asks for large pages there, and while the result is kept nothing of it goes back."""
    np.empty(
        _KEPT_BYTES, np.uint8
    )  # Freed at once: that raises glibc's dynamic mmap threshold (mallopt(3)) to this size.
    if not _LARGE < stored < LARGE:
        return None
    try:
        blocks = [np.empty(_KEPT_BYTES - _ABOVE, np.uint8) for _ in range(_HEAP_FACTOR * stored // _KEPT_BYTES + 1)]
        return _block_above(max(map(_address, blocks)))
    except MemoryError:  # the index of this module may need less
        return None


def _block_above(address: int) -> Column:
    """A block of ``_ABOVE`` bytes behind an address of the heap. What is free in front of it is taken first, and given
    back."""
    before = [np.empty(_ABOVE, np.uint8)]
    while _address(before[-1]) < address and len(before) < _GAPS:
        before.append(np.empty(_ABOVE, np.uint8))
    return before[-1]


def _address(block: Column) -> int:
    found: int = block.__array_interface__["data"][0]
    return found


def _heap_for(data: bytes) -> Column | None:
    """``keep_freed_memory`` for a module that is large; small ones leave the process's heap as it is."""
    return keep_freed_memory(len(data)) if len(data) > _LARGE else None


def decoded_objects(
    objects: Sequence[CodeObject], limits: Limits = DEFAULT_LIMITS, stored: int | None = None
) -> list[DecodedObject]:
    """All of each code object decoded, or why it cannot be. ``stored`` is the size of their module's file."""
    return [DecodedObject(code, debug) for code, debug in reading.read_each(objects, limits, stored)]


def described(
    data: bytes, digest: Digest, unpacked: containers.UnpackedModule, indexed: Sequence[DecodedObject]
) -> ModuleSummary:
    """The module's summary; ``digest`` is that of ``data``."""
    return ModuleSummary(
        digest,
        len(data),
        unpacked.format,
        tuple(object_summary(item, digest if item.code.data is data else None) for item in indexed),
        unpacked.notes,
        unpacked.containers,
    )


def object_summary(item: DecodedObject, digest: Digest | None = None) -> ObjectSummary:
    """``digest`` of the object's bytes, where it is known already or somebody else looks for it. Facts and warnings
    that nobody looked at yet stay so."""
    code, debug = item.code, item.debug
    notes = debug.warnings if isinstance(debug, DebugInfo) else ()
    if isinstance(debug, SymdError):
        notes = (f"{UNREAD}{debug}",)
    return code_summary(code, _digest(code.data) if digest is None else digest, notes)


def _digest_aside(data: bytes) -> Callable[[], Digest]:
    """The digest of ``data``, which for a large module another thread makes meanwhile; who asks waits for it."""
    if len(data) <= _LARGE:
        return partial(_digest, data)

    found: list[Digest] = []
    thread = Thread(target=lambda: found.append(Digest(sha256_of(data))), name="symd-digest", daemon=True)
    thread.start()

    def waited() -> Digest:
        thread.join()
        return found[0]

    return waited


def _digest(data: bytes) -> Digest:
    return Digest(hashlib.sha256(data, usedforsecurity=False).hexdigest())
