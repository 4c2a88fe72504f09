"""What stores have in common, whatever keeps the catalogue and the bytes: the base of stores, and remembered failures
(which errors last, and how they are kept as text and raised again); and modules that arrive in pieces: hashed as they
are written, in the store only once they are whole and as announced.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from symd.config import Limits
from symd.errors import (
    HashMismatch,
    InvalidInput,
    LimitExceeded,
    ModuleNotFound,
    SymdError,
    Unsupported,
    error_from_dict,
    error_to_dict,
)
from symd.model.identities import Digest, checked_digest
from symd.model.summaries import ModuleRecord
from symd.store import rows
from symd.store.budgets import Evicted, EvictionLog, Usage, check_label, check_size, moment
from symd.store.context_log import AliasTable, ContextLog
from symd.store.files import IncomingFile, disk
from symd.store.folder import digest_of_bytes, not_found
from symd.store.housekeeping import Writability
from symd.store.module_log import ADDED, ModuleLog, Removals, append_to_log
from symd.store.rows import CatalogueQueries, Connection, lock_timeout_left

LASTING = (InvalidInput, Unsupported, LimitExceeded)
"""Errors that are remembered, because the same bytes meet the same end every time. What time, a driver or a disk
caused is not among them."""


def lasts(error: SymdError) -> bool:
    return isinstance(error, LASTING)


def encode(error: SymdError) -> str:
    """One JSON object that ``decode`` makes an equal error of."""
    return json.dumps(error_to_dict(error))


def decode(text: str) -> SymdError | None:
    """The error again; None when its class, or a field, is one that this version does not know: then it is found out
    anew."""
    try:
        return error_from_dict(json.loads(text))
    except (ValueError, KeyError, TypeError):
        return None


log = logging.getLogger("symd.store")

OLDEST = (float("-inf"), "")


class Figures(NamedTuple):
    """How many modules there are, the bytes of their files and of their indexes, free bytes of the disk, and what was
    set aside in ``damaged/``."""

    modules: int
    module_bytes: int
    index_bytes: int
    free: int
    damaged: int


class Attempt(NamedTuple):
    """An attempt to index a module. ``begun`` earlier ones have no answer; ``ending`` says of the last one how it ended
    ("": with its process). ``waited``: another one was under way until now, and may have left an answer. ``file`` is
    for the index: empty, and gone when the attempt ends, unless it was kept by then (``ModuleStore.keep_index``)."""

    begun: int
    ending: str
    waited: bool
    file: IncomingFile


class ModuleStore(ABC):
    """Modules by digest, with their indexes, remembered failures, aliases and contexts: what the engine, the daemon and
    the watches use. ``symd.store.Store`` keeps them in a folder, ``symd.store.shared`` for several machines; what is
    the same wherever the bytes lie is here. Safe to use from several threads."""

    _catalogue: CatalogueQueries
    _limits: Limits
    _incoming_folder: Path
    """The folder of files being written."""
    writability: Writability
    """Whether what is written is taken."""
    given_up = 0
    """Modules that were given up since this process began, because attempts to index them had no end."""

    def _make_parts(self) -> None:
        """What a store has beside its catalogue, which is there by now, and the bytes."""
        self.aliases = AliasTable(self._catalogue, self._limits)
        """Other names of modules."""
        self.module_log = ModuleLog(self._catalogue, self._limits)
        """What happens to modules, here or by another process, for those who follow it."""
        self.context_log = ContextLog(self._catalogue, self._limits, self.module_log.notify)
        """Contexts, and what was loaded in them when."""
        self.removals = Removals()
        """Tells of modules that are removed, here or by another process."""
        self.eviction_log = EvictionLog(self._limits)
        """Tells of modules that this process evicts."""
        self.usage = Usage()
        """When modules were used, and which are in use."""

    @abstractmethod
    def close(self) -> None:
        """Give the connections back; who listens hears no more. Harmless when repeated; mapped bytes stay readable."""

    @abstractmethod
    def adopt(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Bring the catalogue in step with bytes that it has no row for, until ``stop`` says so."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @abstractmethod
    def missing(self, digests: Sequence[str]) -> list[str]:
        """The digests among ``digests`` whose modules are not in the store, in the order given."""

    def is_stored(self, digest: str) -> bool:
        """Whether the module is in the store at this moment: what is added again need not be written then."""
        return not self.missing([digest])

    def writer(self) -> Upload:
        """Begin a streamed upload."""
        with disk(self._incoming_folder):
            return Upload(self._incoming(), self._limits, self._accept)

    @contextmanager
    def scratch(self) -> Iterator[IncomingFile]:
        """An empty file that is gone afterwards; what was mapped of it stays readable."""
        with disk(self._incoming_folder):
            file = self._incoming()
        try:
            yield file
        finally:
            with disk(file.path):
                file.discard()

    @abstractmethod
    def _incoming(self) -> IncomingFile:
        """A new one. Raises OSError."""

    @abstractmethod
    def _accept(self, file: IncomingFile, digest: Digest, size: int, label: str, format: str) -> None:  # noqa: A002
        """Take a whole file in, and then its row; when the row is refused the file goes again."""

    def put(self, data: bytes | bytearray | memoryview, label: str = "", format: str = "") -> str:  # noqa: A002 - the word of ModuleRecord
        """Store a module and return its digest. One that is there already keeps its label and format."""
        check_size(memoryview(data).nbytes, self._limits)
        digest = digest_of_bytes(data)
        if self.is_stored(digest):
            return digest
        with self.writer() as upload:
            upload.write(data)
            return upload.commit(digest, label, format)

    @abstractmethod
    def data(self, digest: str) -> memoryview:
        """The module's bytes, mapped read-only. Raises ``ModuleNotFound``, and ``DataLoss`` when the file is shorter
        or longer than it was."""

    @abstractmethod
    def file(self, digest: str) -> AbstractContextManager[Path]:
        """Where the module's bytes stand; while they are used the module is not evicted. Raises as ``data`` does; the
        bytes are not looked at."""

    @abstractmethod
    def set_aside(self, digest: str) -> bool:
        """Make a module whose bytes are not those of its digest missing until they are added again; its row, label,
        aliases and indexes stay. False where the bytes are right, or there are none."""

    @abstractmethod
    def index(self, digest: str, version: int) -> memoryview | None:
        """The module's index in format ``version``, mapped read-only; None when there is none."""

    @abstractmethod
    def drop_index(self, digest: str, version: int) -> None:
        """Remove an index; it is made again when it is needed."""

    @abstractmethod
    def drop_older_indexes(self, digest: str, version: int) -> None:
        """Remove a module's indexes of formats older than ``version``, where it has one of that."""

    def put_index(self, digest: str, version: int, data: bytes | bytearray | memoryview) -> memoryview | None:
        """Keep an index, in place of an older one, and give it back as ``index`` does: None where the store has no room
        for it. Failures and attempts remembered up to ``version`` are forgotten."""
        with self.scratch() as file:
            file.write(data)
            self.keep_index(file, digest, version)
        return self.index(digest, version)

    @abstractmethod
    def keep_index(self, file: IncomingFile, digest: str, version: int, format: str = "") -> bool:  # noqa: A002 - the word of ModuleRecord
        """Keep the index in a file of ``scratch`` or an attempt, if there is room for it; whether it is kept. With
        ``format`` the module is admitted by the same transaction, as ``admit`` does it."""

    @abstractmethod
    def _take_out(self, connection: Connection, digest: Digest) -> None:
        """Within a transaction, remove a module with its indexes."""

    @contextmanager
    def adding(self, digest: str, version: int, data: bytes | None = None, label: str = "") -> Iterator[Arrival]:
        """Add a module, which is indexed under ``version`` inside and not evicted meanwhile. A new one whose ``data``
        are at hand is put into the store; of another one the upload is committed inside. At the end the module is
        admitted; a new one for which an error ends it is refused. Raises what is remembered of a new one
        (``raise_failure``)."""
        with self.usage.pin(digest):
            arrival = Arrival(is_new=not self.is_stored(digest))
            if arrival.is_new:
                self.raise_failure(digest, version)
                if data is not None:
                    with self.writer() as upload:
                        upload.write(data)
                        arrival.commit(upload, digest, label)
            try:
                with ExitStack() as stack:
                    if arrival.is_new and arrival.is_stored:
                        arrival.path = stack.enter_context(self.file(digest))
                    yield arrival
                if arrival.format:
                    self.admit(digest, arrival.format)
            except SymdError as error:
                if arrival.is_new and arrival.is_stored:
                    self.refuse(digest, version, error)
                raise

    def outdated(self, version: int) -> list[Digest]:
        """The modules that have indexes of formats older than ``version`` only, the least recently used first: so the
        order of their uses stays. Those that cannot be indexed under ``version`` are left out."""
        return self._catalogue.outdated(version)

    @abstractmethod
    def attempt(self, digest: str, version: int) -> AbstractContextManager[Attempt]:
        """An attempt to index the module, at which all threads and processes take turns. It is counted before it
        begins: should it end this process, or the one that does the work, the count is what is left of it. An index or
        a failure that is kept forgets the count. Raises ``DeadlineExceeded`` where another process holds the turn for
        longer than an attempt may take."""

    def note_attempt(self, digest: str, version: int, ending: str) -> None:
        """Say how an attempt ended that had no answer."""
        with self._catalogue.writing(survives_power_cut=False) as connection:
            query = "UPDATE attempts SET ending = ? WHERE sha256 = ? AND version = ?"
            connection.execute(query, (ending, checked_digest(digest), version))

    def forget_attempts(self, digest: str, version: int) -> None:
        """Forget the count: what ended the attempt is no fault of the module's."""
        with self._catalogue.writing(survives_power_cut=False) as connection:
            rows.forget_attempts(connection, checked_digest(digest), version)

    def failure(self, digest: str, version: int) -> SymdError | None:
        """The error that indexing this module under ``version`` ends with, if one is remembered."""
        text = self._catalogue.failure(checked_digest(digest), version)
        error = decode(text) if text else None
        if text and error is None:
            log.warning("what was remembered of indexing %s cannot be read: it is found out anew", digest)
        return error

    def raise_failure(self, digest: str, version: int) -> None:
        """Raise the error that indexing this module under ``version`` ends with, if one is remembered, unless the limit
        that it names has been raised since."""
        failure = self.failure(digest, version)
        if failure is not None and not _was_raised(failure, self._limits):
            raise failure

    def remember_failure(self, digest: str, version: int, error: SymdError) -> bool:
        """Keep ``error`` as the outcome of indexing; False when it is of a kind that may not last (``failures``).
        The module itself need not be in the store: what was refused is known when it is sent again."""
        if not lasts(error):
            return False
        with self._catalogue.writing() as connection:
            rows.remember(connection, checked_digest(digest), version, error.reason, encode(error))
            rows.forget_attempts(connection, checked_digest(digest), version)
        if "attempts" in error.metadata:
            self.given_up += 1
        return True

    @abstractmethod
    def figures(self) -> Figures:
        """How much there is, now."""

    def is_catalogued(self, digest: str) -> bool:
        """Whether the catalogue has the module, damaged or not: the least that can be asked of it."""
        return self._catalogue.has(checked_digest(digest))

    def record(self, digest: str) -> ModuleRecord:
        """The module's line of the catalogue. Raises ``ModuleNotFound``."""
        record = self._catalogue.record(checked_digest(digest))
        if record is None:
            raise self._not_found(digest)
        return record

    def records(self, after: tuple[float, str] = OLDEST, limit: int = 1000) -> list[ModuleRecord]:
        """One page of the catalogue, oldest first: up to ``limit`` records that come after ``after``, which is
        (added, sha256) of the last one seen and need not be in the store any more."""
        return self._catalogue.records(after, limit)

    def admit(self, digest: str, format: str) -> None:  # noqa: A002 - the word of ModuleRecord
        """Record the outermost format of a module that could be opened. Those who listen are told that it is there,
        where nobody has admitted it before: whoever puts a module into the store may be killed before it is told."""
        with self._changing(digest) as connection:
            is_first = self._admit(connection, digest, format)
        if is_first:
            self.module_log.notify()

    def _admit(self, connection: Connection, digest: str, format: str) -> bool:  # noqa: A002
        """Admit a module within a transaction; whether nobody had admitted it before, which those who listen are to be
        told."""
        first = "UPDATE modules SET format = ? WHERE sha256 = ? AND format = ''"
        is_first = connection.execute(first, (format, digest)).rowcount > 0
        if is_first:
            append_to_log(self._catalogue, connection, [(ADDED, digest, None, None)], self._limits.module_events)
        else:
            connection.execute("UPDATE modules SET format = ? WHERE sha256 = ?", (format, digest))
        return is_first

    def refuse(self, digest: str, version: int, error: SymdError) -> None:
        """Remove a module that cannot be indexed, and remember why where that is of a kind that lasts. One that was
        admitted stays as it is: somebody was told that it is there. One that is gone need not be removed."""
        with self._catalogue.writing() as connection:
            if rows.is_admitted(connection, digest):
                return
            is_there = rows.exists(connection, digest)
            if is_there:
                self._take_out(connection, checked_digest(digest))
        if is_there:
            self._notify_removed([digest])
        self.remember_failure(digest, version, error)

    def relabel(self, digest: str, label: str) -> None:
        """Give the module another label. Raises ``ModuleNotFound``, and ``LimitExceeded`` for one that is too long."""
        check_label(label)
        with self._changing(digest, lock_timeout_left()) as connection:
            connection.execute("UPDATE modules SET label = ? WHERE sha256 = ?", (label, digest))

    def remove(self, digest: str) -> None:
        """Remove a module with its indexes and aliases, and forget how reading it failed, also of one that was refused.
        Raises ``ModuleNotFound`` where nothing is known of it. Its files go first: where the catalogue refuses the
        rest, it is missing, and may be removed again."""
        with self._catalogue.writing(seconds=lock_timeout_left()) as connection:
            remembered = rows.forget_outcomes(connection, checked_digest(digest))
            if not remembered and not rows.exists(connection, digest):
                raise _absent(digest, rows.eviction(connection, digest))
            self._take_out(connection, checked_digest(digest))
        self._notify_removed([digest])

    def _report(self, evicted: Evicted) -> None:
        self._notify_removed(evicted.modules)
        self.eviction_log.write(evicted)

    def _notify_removed(self, digests: Sequence[str]) -> None:
        self.removals.notify(digests)
        self.module_log.notify()

    def _size(self, digest: str) -> int:
        """The module's catalogued size. Raises ``ModuleNotFound``."""
        checked = checked_digest(digest)
        size = self._catalogue.sizes([checked]).get(checked)
        if size is None:
            raise self._not_found(digest)
        return size

    def _not_found(self, digest: str) -> ModuleNotFound:
        """The error for a module that is not there, with what is remembered of how it went. Within a transaction
        ``_absent`` is asked by its connection instead: one that holds the lock and waits for a second connection may
        wait for those who wait for the lock."""
        return _absent(digest, self._catalogue.eviction(digest))

    @contextmanager
    def _changing(self, digest: str, seconds: float | None = None) -> Iterator[Connection]:
        """A transaction about one module, which must be there; ``seconds`` as of ``CatalogueQueries.writing``."""
        checked_digest(digest)
        with self._catalogue.writing(seconds=seconds) as connection:
            if not rows.exists(connection, digest):
                raise _absent(digest, rows.eviction(connection, digest))
            yield connection


def _was_raised(failure: SymdError, limits: Limits) -> bool:
    """Whether a failure names a limit and the value that it had, and the limit is higher by now."""
    name, value = failure.metadata.get("limit", ""), failure.metadata.get("value", "")
    try:
        return float(getattr(limits, name)) > float(value)
    except (AttributeError, ValueError):
        return False


def _absent(digest: str, eviction: rows.Eviction | None) -> ModuleNotFound:
    """The error for a module that is not there, because it was evicted where that is so."""
    if eviction is None:
        return not_found(digest)
    return ModuleNotFound(
        f"module {digest} was evicted at {moment(eviction.time)}, because the store was full; it was used last at"
        f" {moment(eviction.used)}",
        hint="add it again; the daemon's operator may raise the limit store_size",
        metadata={"module": f"modules/{digest}", "evicted": moment(eviction.time)},
    )


class Arrival:
    """A module that is being added. ``is_new``: it was not in the store before; ``is_stored``: it is there now.
    ``path`` is where the bytes of a new one stand that was put there at once. Whoever adds the module sets ``format``,
    with which it is admitted at the end."""

    def __init__(self, *, is_new: bool) -> None:
        self.is_new = is_new
        self.is_stored = not is_new
        self.path: Path | None = None
        self.format = ""

    def commit(self, upload: Upload, digest: str, label: str) -> None:
        """Take the bytes of the module into the store. Raises as ``Upload.commit``."""
        upload.commit(digest, label)
        self.is_stored = True


Accept = Callable[[IncomingFile, Digest, int, str, str], None]
"""Takes a whole, synced file with its digest, size, label and format into the store."""


class Upload:
    """One upload; a context manager that aborts what was not committed. Not for use by several threads at once."""

    def __init__(self, file: IncomingFile, limits: Limits, accept: Accept) -> None:
        self._file = file
        self._limits = limits
        self._accept = accept
        self._hash = hashlib.sha256()
        self.size = 0
        """Bytes written so far."""

    @property
    def digest(self) -> Digest:
        """SHA-256 of what was written so far."""
        return Digest(self._hash.hexdigest())

    def opened(self) -> int:
        """A descriptor to read what was written, also after ``commit`` and ``abort``. The caller closes it."""
        with disk(self._file.path):
            return os.open(self._file.path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def path(self) -> str:
        """The path of the file that takes the bytes, until ``commit``."""
        return str(self._file.path)

    def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """Append. Raises ``LimitExceeded`` before the module would pass ``Limits.module_size``."""
        size = self.size + memoryview(chunk).nbytes
        check_size(size, self._limits)
        self._file.write(chunk)
        self._hash.update(chunk)
        self.size = size

    def check_digest(self, expected_digest: str) -> None:
        """Raises ``HashMismatch`` where what was written so far has another digest."""
        if self.digest != checked_digest(expected_digest):
            raise HashMismatch(
                f"the bytes have SHA-256 {self.digest}, announced was {expected_digest}",
                hint="send the module again",
                metadata={"actual": self.digest, "expected": expected_digest},
            )

    def commit(self, expected_digest: str = "", label: str = "", format: str = "") -> Digest:  # noqa: A002 - the word of ModuleRecord
        """Take the module into the store and return its digest. Where that is not ``expected_digest`` (when one is
        given) raises ``HashMismatch``; ``LimitExceeded`` for a label that is too long or where the store has no room;
        after any error the store is as it was before the upload."""
        digest = self.digest
        try:
            check_label(label)
            if expected_digest:
                self.check_digest(expected_digest)
            with disk(self._file.path):
                self._file.sync()
            self._accept(self._file, digest, self.size, label, format)
        finally:
            self._file.discard()
        return digest

    def abort(self) -> None:
        """Forget what was written. Harmless after ``commit`` and when repeated."""
        with disk(self._file.path):
            self._file.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()
