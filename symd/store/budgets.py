"""Bounds of a store, those that operators set and fixed ones, and eviction from one that is full. An error names the
bound that was passed.

``Limits.store_size`` bounds the bytes of modules and indexes together. First go indexes of formats that a newer one has
replaced. Then whole modules, each with its indexes, the least recently used first: those that no alias and no load in a
context names and whose index is not open; those whose index is open, which is closed; at last those that are named, in
the same order. Their aliases go with them, and loads of them answer UNKNOWN_MODULE until they are added again. A module
that is being added, indexed or read at this moment is never removed. If all that does not make room, nothing goes and
the write is refused.

Times of use are kept in memory and written to the catalogue now and then, so that no question waits for a disk. Each
evicted module is logged, counted and reported to listeners.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import chain
from threading import Lock
from typing import NamedTuple

from symd.config import Limits
from symd.errors import LimitExceeded
from symd.model.contexts import Alias
from symd.model.identities import Digest, is_digest
from symd.store import rows
from symd.store.files import sync_folder
from symd.store.folder import StorePaths, not_found
from symd.store.rows import CatalogueQueries, Connection, DamagedRow, Eviction

LABEL_LENGTH = 1024
"""Characters of a module's label."""
ALIAS_KIND_LENGTH = 64
"""Characters of an alias's kind."""
ALIAS_KEY_LENGTH = 1024
"""Characters of an alias's key."""
MODULE_ALIASES = 10_000
"""Aliases of one module, those of contexts included."""
LOADS = 1_000_000
"""Loads and unloads that one context may be told, over all time."""
MAPPINGS = 4_000_000
"""Mapped segments that one context may have, over all time; each takes about 150 bytes while it is asked about, and up
to 500 where all of them lie in one another."""
_OF_MODULE = "SELECT count(*) FROM aliases WHERE sha256 = ?"


class Totals(NamedTuple):
    """What is in a catalogue: bytes of modules and indexes, numbers of aliases and contexts."""

    bytes: int
    aliases: int
    contexts: int


def totals(connection: Connection) -> Totals:
    """Kept by triggers: nothing is counted to know them."""
    row = connection.execute("SELECT bytes, aliases, contexts FROM totals").fetchone()
    if row is None:
        raise DamagedRow("the table totals is empty")
    return Totals._make(row)


def bytes_of_module(connection: Connection, digest: Digest, size: int) -> int:
    """What a module of ``size`` bytes adds to the store: nothing where it is there already."""
    return 0 if rows.exists(connection, digest) else size


def bytes_of_index(connection: Connection, digest: Digest, version: int, size: int) -> int:
    """What an index of ``size`` bytes adds to the store, beyond the one that it replaces. Raises ``ModuleNotFound``."""
    if not rows.exists(connection, digest):
        raise not_found(digest)
    return size - rows.index_size(connection, digest, version)


def check_size(size: int, limits: Limits) -> None:
    """Raises ``LimitExceeded`` when a module of ``size`` bytes is more than this store takes."""
    if size > limits.module_size:
        raise exceeded(limits, "module_size", f"the module is larger than {limits.module_size} bytes")


def check_label(label: str) -> None:
    """Raises ``LimitExceeded`` for a label that is too long."""
    _check_length(label, "label_length", LABEL_LENGTH, "the label")


def check_alias(alias: Alias) -> None:
    """Raises ``LimitExceeded`` for a kind or key that is too long."""
    _check_length(alias.kind, "alias_kind_length", ALIAS_KIND_LENGTH, "an alias's kind")
    _check_length(alias.key, "alias_key_length", ALIAS_KEY_LENGTH, "an alias's key")


def check_alias_counts(connection: Connection, digests: set[str], limits: Limits) -> None:
    """Raises ``LimitExceeded`` when the store, or one of the modules, has more aliases than it may."""
    if totals(connection).aliases > limits.aliases:
        what = f"the store would have more than {limits.aliases} aliases"
        raise exceeded(limits, "aliases", what, "delete aliases, contexts or modules")
    for digest in sorted(digests):
        if connection.execute(_OF_MODULE, (digest,)).fetchone()[0] > MODULE_ALIASES:
            what = f"module {digest} would have more than {MODULE_ALIASES} aliases"
            raise _beyond("module_aliases", MODULE_ALIASES, what, "delete some of them")


def check_contexts(connection: Connection, limits: Limits) -> None:
    """Raises ``LimitExceeded`` when the store has more contexts than it may."""
    if totals(connection).contexts > limits.contexts:
        what = f"the store would have more than {limits.contexts} contexts"
        raise exceeded(limits, "contexts", what, "delete those that have ended")


def check_context(segments: int, events: int) -> None:
    """Raises ``LimitExceeded`` when a context was told more than it may be."""
    if segments > MAPPINGS:
        what = f"the context would have {segments} segments, at most {MAPPINGS} are kept"
        raise _beyond("mappings", MAPPINGS, what, "begin another context")
    if events > LOADS:
        what = f"the context would have {events} loads and unloads, at most {LOADS} are kept"
        raise _beyond("loads", LOADS, what, "begin another context")


def exceeded(limits: Limits, name: str, what: str, instead: str = "") -> LimitExceeded:
    """The error of the limit ``name``: what is too much, and what may be done instead of raising it."""
    hint = f"raise the limit {name}"
    return _beyond(name, getattr(limits, name), what, f"{instead}, or {hint}" if instead else hint)


def _check_length(text: str, name: str, most: int, whose: str) -> None:
    if len(text) > most:
        raise _beyond(name, most, f"{whose} has {len(text)} characters, at most {most} are taken", "shorten it")


def _beyond(name: str, most: int, what: str, hint: str) -> LimitExceeded:
    return LimitExceeded(what, hint=hint, metadata={"limit": name, "value": str(most)})


_REPLACED = """
    SELECT sha256, version, size FROM indexes WHERE version < (SELECT max(version) FROM indexes) ORDER BY version, sha256
"""
_BY_USE = """
    SELECT sha256, size + (SELECT coalesce(sum(size), 0) FROM indexes WHERE indexes.sha256 = modules.sha256), used
    FROM modules
    WHERE :named = (EXISTS (SELECT 1 FROM aliases WHERE aliases.sha256 = modules.sha256)
                    OR EXISTS (SELECT 1 FROM loads WHERE loads.module = modules.sha256))
    ORDER BY used, sha256
"""


@dataclass(frozen=True, slots=True)
class Evicted:
    """What was evicted: whole modules, and the indexes (digest, version) of replaced formats; ``needed`` is the bytes
    for which room was made."""

    evictions: Sequence[Eviction] = ()
    indexes: Sequence[tuple[Digest, int]] = ()
    needed: int = 0

    def __bool__(self) -> bool:
        return bool(self.evictions or self.indexes)

    @property
    def modules(self) -> list[Digest]:
        return [eviction.digest for eviction in self.evictions]


NOTHING = Evicted()


def make_room(
    connection: Connection, paths: StorePaths, usage: Usage, limits: Limits, needed: int, kept: str = ""
) -> Evicted:
    """Evict, within a transaction, so that ``needed`` more bytes fit; not the module ``kept``. Files go before their
    rows: a kill between leaves rows without a file, which the next start drops. Raises as ``chosen``, and OSError."""
    evicted = chosen(connection, usage, limits, needed, kept)
    remove_indexes(connection, paths, evicted.indexes)
    remove_modules(connection, paths, evicted.modules)
    note_evictions(connection, evicted)
    return evicted


def chosen(connection: Connection, usage: Usage, limits: Limits, needed: int, kept: str = "") -> Evicted:
    """What must be evicted so that ``needed`` more bytes fit; not the module ``kept``. Takes place in a transaction.

    Raises ``LimitExceeded`` where that many bytes cannot be had.
    """
    excess = totals(connection).bytes + needed - limits.store_size
    if excess <= 0:
        return NOTHING
    rows.touch(connection, usage.recent())  # kept: what is refused is rolled back
    evicted = _chosen(connection, usage, excess, kept)
    if evicted is None:
        what = f"the store may have {limits.store_size} bytes, and what is in use leaves no room for {needed} more"
        raise exceeded(limits, "store_size", what, "try again later")
    return replace(evicted, needed=needed)


def note_evictions(connection: Connection, evicted: Evicted) -> None:
    """Note in the catalogue which modules were evicted, and forget all else of them."""
    for eviction in evicted.evictions:
        rows.forget_outcomes(connection, eviction.digest)  # a kill may have left the count of an attempt
        rows.note_eviction(connection, eviction)


def remove_indexes(connection: Connection, paths: StorePaths, which: Sequence[tuple[Digest, int]]) -> None:
    """Remove index files, then their rows. Raises OSError."""
    for digest, version in which:
        paths.index(digest, version).unlink(missing_ok=True)
    rows.forget_indexes(connection, which)


def remove_modules(connection: Connection, paths: StorePaths, which: Sequence[Digest], *, durable: bool = True) -> None:
    """Remove module files with their indexes, then their rows: what is free then is room for the transaction. Raises
    OSError."""
    for digest in which:
        path = paths.module(digest)
        for each in (*paths.indexes(digest), path, paths.damaged_module(digest)):
            each.unlink(missing_ok=True)
        if durable and path.parent.is_dir():
            sync_folder(path.parent)
    rows.delete(connection, which)


def _chosen(connection: Connection, usage: Usage, excess: int, kept: str) -> Evicted | None:
    """What to evict to free ``excess`` bytes; None where all that may be evicted is not enough."""
    indexes: list[tuple[Digest, int]] = []
    freed: Counter[str] = Counter()
    for digest, version, size in connection.execute(_REPLACED).fetchall():
        if excess <= 0:
            break
        if not is_digest(digest):
            continue  # a start drops such rows
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
    """Modules that may be evicted, in the order in which they go; ``named``: those with an alias or a load."""
    closed_last: list[Eviction] = []
    now = time.time()
    for digest, size, used in connection.execute(_BY_USE, {"named": named}).fetchall():
        if digest == kept or usage.is_held(digest) or not is_digest(digest):
            continue
        if usage.is_open(digest):
            closed_last.append(Eviction(digest, size, used, now))
        else:
            yield Eviction(digest, size, used, now)
    yield from closed_last


class Usage:
    """Uses of modules in this process. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._noted: dict[str, float] = {}
        self._held: Counter[str] = Counter()
        self._asked: list[Callable[[], Iterable[str]]] = []
        self._open: list[Callable[[str], bool]] = []

    def follow(self, asked: Callable[[], Iterable[str]], is_open: Callable[[str], bool]) -> None:
        """Ask a cache of open indexes too, so that a question about an open index has to note nothing: ``asked`` gives
        the modules that were asked for since it was called last, ``is_open`` says whether a module's index is open."""
        self._asked.append(asked)
        self._open.append(is_open)

    def note(self, digest: str) -> None:
        """Note that a module is used now."""
        self._noted[digest] = time.time()

    @contextmanager
    def pin(self, digest: str) -> Iterator[None]:
        """Keep a module from being evicted while it is added, indexed or read."""
        with self._lock:
            self._held[digest] += 1
        try:
            yield
        finally:
            with self._lock:
                self._held[digest] -= 1
                if not self._held[digest]:
                    del self._held[digest]
            self.note(digest)

    def is_held(self, digest: str) -> bool:
        return digest in self._held

    def is_open(self, digest: str) -> bool:
        """Whether the module's index is open."""
        return any(is_open(digest) for is_open in self._open)

    def recent(self) -> Mapping[str, float]:
        """When modules were used since ``write`` was called last, in seconds since the epoch."""
        for asked in self._asked:
            for digest in asked():
                self.note(digest)
        return self._noted.copy()

    def write(self, catalogue: CatalogueQueries, *, survives_power_cut: bool = True) -> None:
        """Write the times into the catalogue, and forget them; they are kept for the next time where that fails."""
        self.recent()
        with self._lock:
            times, self._noted = self._noted, {}
        if not times:
            return
        try:
            with catalogue.writing(survives_power_cut=survives_power_cut) as connection:
                rows.touch(connection, times)
        except BaseException:
            with self._lock:
                self._noted = {**times, **self._noted}
            raise


log = logging.getLogger("symd.store")

Listener = Callable[[Eviction], None]
"""Called for each module that was evicted, from several threads. It must not raise."""


class Sums(NamedTuple):
    """What was evicted since the process began: modules, and the bytes of them and their indexes."""

    modules: int = 0
    bytes: int = 0


class EvictionLog:
    """Evictions of this process: a line of the log for each, sums, and listeners. Safe to use from several threads:
    evictions happen one at a time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._listeners: list[Listener] = []
        self.sums = Sums()

    def listen(self, listener: Listener) -> None:
        """Call ``listener`` from now on."""
        self._listeners.append(listener)

    def write(self, evicted: Evicted) -> None:
        """Log what went, and why; call every listener."""
        coming = f"{evicted.needed} bytes were to come in, and " if evicted.needed else ""
        for each in evicted.evictions:
            log.warning(
                "evicted modules/%s: %d bytes, used last at %s; %sstore_size is %d",
                each.digest, each.size, moment(each.used), coming, self._limits.store_size,
            )  # fmt: skip
            self.sums = Sums(self.sums.modules + 1, self.sums.bytes + each.size)
            for listener in self._listeners:
                listener(each)


def moment(seconds: float) -> str:
    """Seconds since the epoch as people write them, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
