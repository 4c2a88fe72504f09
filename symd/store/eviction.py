"""What goes when the store is full: ``Limits.store_size`` bounds the bytes of modules and indexes together.

First go indexes of formats that a newer one has replaced. Then whole modules, each with its indexes, the least recently
used first: those that no alias and no load in a context names and whose index is not open; those whose index is open,
which is closed; at last, when nothing else is left, those that are named, in the same order. Their aliases go with them,
and loads of them answer UNKNOWN_MODULE until they are added again. A module that is being added, indexed or read at this
moment is never removed. Where all that does not make room, nothing goes and what asked for it is refused."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from symd.config import Limits
from symd.model.identities import Digest
from symd.store import rows
from symd.store.budgets import exceeded, totals
from symd.store.catalogue_queries import bytes_of_rows
from symd.store.connection import FILE_SIZE, LARGEST_FILE, MOMENT, NUMBER, Connection, of_module, readable
from symd.store.files import sync_folder
from symd.store.paths import StorePaths
from symd.store.rows import Eviction
from symd.store.usage import Usage

_REPLACED = """
    SELECT sha256, version, size FROM indexes WHERE version < (SELECT max(version) FROM indexes) ORDER BY version, sha256
"""
_BY_USE = f"""
    SELECT sha256, size + (SELECT coalesce(sum(size), 0) FROM indexes WHERE indexes.sha256 = modules.sha256), used
    FROM modules
    WHERE size BETWEEN 0 AND {LARGEST_FILE}
      AND :named = (EXISTS (SELECT 1 FROM aliases WHERE aliases.sha256 = modules.sha256)
                    OR EXISTS (SELECT 1 FROM loads WHERE loads.module = modules.sha256))
    ORDER BY used, sha256
"""  # noqa: S608 - a constant


RemoveFile = Callable[[Path], None]
"""Takes a file that need not be there out of its place. Raises OSError."""


@dataclass(frozen=True, slots=True)
class Evicted:
    """What went: whole modules, and the indexes (digest, version) of replaced formats; how many bytes were to come in."""

    evictions: Sequence[Eviction] = ()
    indexes: Sequence[tuple[Digest, int]] = ()
    needed: int = 0

    @property
    def modules(self) -> list[Digest]:
        return [eviction.digest for eviction in self.evictions]


NOTHING = Evicted()


def unlink(path: Path) -> None:
    """Remove a file that can be made anew, if it is there, whatever becomes of the transaction: its bytes may be the room that lacks. Raises
    OSError."""
    path.unlink(missing_ok=True)


def make_room(
    connection: Connection,
    paths: StorePaths,
    usage: Usage,
    limits: Limits,
    needed: int,
    kept: str = "",
    *,
    remove_file: RemoveFile,
    remove_index: RemoveFile | None = None,
    most: int | None = None,
) -> Evicted:
    """Within a transaction, remove what must go so that ``needed`` more bytes fit, but not the module ``kept``; of the modules the first ``most``.
    Files go before their rows: a kill between leaves rows without a file, which the next start drops. ``remove_index`` takes the
    indexes, where ``remove_file`` does not. Raises as ``chosen``."""
    evicted = chosen(connection, usage, limits, needed, kept)
    evicted = replace(evicted, evictions=evicted.evictions[:most])
    remove_indexes(connection, paths, evicted.indexes, remove_index or remove_file)
    remove_modules(connection, paths, evicted.modules, remove_file, remove_index)
    note_evictions(connection, evicted)
    return evicted


def chosen(connection: Connection, usage: Usage, limits: Limits, needed: int, kept: str = "") -> Evicted:
    """Within a transaction, what must go so that ``needed`` more bytes fit, and not the module ``kept``.

    Raises ``LimitExceeded`` where that many bytes cannot be had.
    """
    held = totals(connection).bytes
    if held < 0 or held + needed > limits.store_size:
        held = bytes_of_rows(connection)  # nothing goes for a row whose size is none
    excess = held + needed - limits.store_size
    if excess <= 0:
        return NOTHING
    rows.touch(connection, usage.recent())  # kept: what is refused is rolled back
    evicted = _chosen(connection, usage, excess, kept)
    if evicted is None:
        what = f"the store may have {limits.store_size} bytes, and what is in use leaves no room for {needed} more"
        raise exceeded(limits, "store_size", what, "try again later")
    return replace(evicted, needed=needed)


def note_evictions(connection: Connection, evicted: Evicted) -> None:
    """Remember which modules went, and nothing else of them."""
    for eviction in evicted.evictions:
        rows.forget_outcomes(connection, eviction.digest)  # a kill may have left the count of an attempt
        rows.note_eviction(connection, eviction)


def remove_indexes(
    connection: Connection,
    paths: StorePaths,
    which: Sequence[tuple[Digest, int]],
    remove_file: RemoveFile = unlink,
) -> None:
    """Index files, then their rows."""
    for digest, version in which:
        remove_file(paths.index(digest, version))
    rows.forget_indexes(connection, which)


def remove_modules(
    connection: Connection,
    paths: StorePaths,
    which: Sequence[Digest],
    remove_file: RemoveFile,
    remove_index: RemoveFile | None = None,
    *,
    durable: bool = True,
) -> None:
    """Module files with their indexes, then their rows. ``remove_index`` takes the indexes, where ``remove_file`` does not."""
    for digest in which:
        for index in paths.indexes(digest):
            (remove_index or remove_file)(index)
        path = paths.module(digest)
        remove_file(path)
        for aside in paths.asides(digest):
            remove_file(aside)
        if durable and path.parent.is_dir():
            sync_folder(path.parent)
    rows.delete(connection, which)


def _chosen(connection: Connection, usage: Usage, excess: int, kept: str) -> Evicted | None:
    """What makes ``excess`` bytes free; None where all that may go does not."""
    indexes: list[tuple[Digest, int]] = []
    freed: Counter[str] = Counter()
    for digest, version, size in readable(connection.execute(_REPLACED), _replaced):
        if excess <= 0:
            break
        indexes.append((digest, version))
        freed[digest] += size
        excess -= size
    modules: list[Eviction] = []
    unnamed = _candidates(connection, usage, kept, named=False)
    for found in chain(unnamed, _candidates(connection, usage, kept, named=True)):
        if excess <= 0:
            break
        modules.append(found)
        excess -= found.size - freed[found.digest]
    return Evicted(modules, indexes) if excess <= 0 else None


def _candidates(connection: Connection, usage: Usage, kept: str, *, named: bool) -> Iterator[Eviction]:
    """Modules that may go, in the order in which they go."""
    closed_last: list[Eviction] = []
    now = time.time()
    for digest, size, used in readable(connection.execute(_BY_USE, {"named": named}), _used):
        if digest == kept or usage.is_held(digest):
            continue
        if usage.is_open(digest):
            closed_last.append(Eviction(digest, size, used, now))
        else:
            yield Eviction(digest, size, used, now)
    yield from closed_last


def _replaced(row: Sequence[Any]) -> tuple[Digest, int, int]:
    digest, version, size = of_module(row, NUMBER, FILE_SIZE)
    return digest, version, size


def _used(row: Sequence[Any]) -> tuple[Digest, int, float]:
    digest, size, used = of_module(row, NUMBER, MOMENT)
    return digest, size, used
