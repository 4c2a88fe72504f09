"""Statements that change the catalogue's rows, and what they need to know of them, in the SQL that SQLite and PostgreSQL have in common: one row
a module, its indexes, remembered failures and attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import NamedTuple

from symd.model.identities import Digest
from symd.model.summaries import ModuleRecord
from symd.store.connection import FILE_SIZE, LAST_SECOND, MOMENT, NUMBER, TEXT, Connection, of_module, typed

MAX_FAILURES = 100_000
"""The most failures that are remembered, the youngest: whoever sends malformed modules for ever cannot fill the
disk."""
MAX_EVICTIONS = 10_000
"""The most evictions that are remembered, the youngest."""
_DELETED_AT_ONCE = 500
"""Modules of one statement."""
_OF_A_MODULE = ("indexes", "aliases", "modules", "failures")
"""Tables, in this order: rows that are there still when their module goes are looked for module by module."""
_OLDER = """
    SELECT sha256, version FROM indexes WHERE sha256 = :sha256 AND version < :version
    AND EXISTS (SELECT 1 FROM indexes WHERE sha256 = :sha256 AND version = :version)
"""


_MENDED = ", ".join(
    [f"{column} = coalesce(modules.{column}, excluded.{column})" for column in ("format", "label")]
    + [
        f"{column} = CASE WHEN modules.{column} BETWEEN 0 AND {LAST_SECOND} THEN modules.{column} ELSE excluded.{column} END"
        for column in ("added", "used")
    ]
)
_INSERT = f"""
    INSERT INTO modules (sha256, size, format, label, added, used) VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (sha256) DO UPDATE SET size = excluded.size, {_MENDED}
"""  # noqa: S608 - constants


class Eviction(NamedTuple):
    """A module that was removed to make room: the bytes of its file and its indexes, when it was used last and when it went, in
    seconds since the epoch."""

    digest: Digest
    size: int
    used: float
    time: float


def insert(connection: Connection, record: ModuleRecord) -> None:
    """Add a module's row; one that is there already stays as it is, but for values that symd did not write."""
    connection.execute(
        _INSERT,
        (record.sha256, record.size, record.format, record.label, record.create_time, record.create_time),
    )


def delete(connection: Connection, digests: Iterable[Digest]) -> None:
    """Drop modules with their failures, aliases and the rows of their indexes; other processes are told (``changes``)."""
    left = iter(digests)
    while some := list(islice(left, _DELETED_AT_ONCE)):
        among = f"IN ({', '.join('?' * len(some))})"
        for table in _OF_A_MODULE:
            connection.execute(f"DELETE FROM {table} WHERE sha256 {among}", some)  # noqa: S608 - constants


def exists(connection: Connection, digest: str) -> bool:
    return connection.execute("SELECT 1 FROM modules WHERE sha256 = ?", (digest,)).fetchone() is not None


def keep_index(connection: Connection, digest: Digest, version: int, size: int) -> None:
    """Note an index file of ``size`` bytes; failures and attempts remembered up to ``version`` are forgotten."""
    connection.execute(
        "INSERT INTO indexes (sha256, version, size) VALUES (?, ?, ?)"
        " ON CONFLICT (sha256, version) DO UPDATE SET size = excluded.size",
        (digest, version, size),
    )
    connection.execute("DELETE FROM failures WHERE sha256 = ? AND version <= ?", (digest, version))
    forget_attempts(connection, digest, version)


def forget_indexes(connection: Connection, which: Iterable[tuple[Digest, int]]) -> None:
    """Drop the rows of index files that are gone."""
    connection.executemany("DELETE FROM indexes WHERE sha256 = ? AND version = ?", which)


def older_indexes(connection: Connection, digest: Digest, version: int) -> list[tuple[Digest, int]]:
    """A module's indexes older than ``version``; none where it has no index of that version."""
    return connection.execute(_OLDER, {"sha256": digest, "version": version}).fetchall()


def index_size(connection: Connection, digest: Digest, version: int) -> int:
    """Bytes of an index file, 0 where there is none, or its row says what no file has: it is made again, with its row."""
    query = "SELECT size FROM indexes WHERE sha256 = ? AND version = ?"
    row = connection.execute(query, (digest, version)).fetchone()
    return int(row[0]) if row and FILE_SIZE.takes(row[0]) else 0


def note_eviction(connection: Connection, eviction: Eviction) -> None:
    """Keep what was evicted, the youngest ``MAX_EVICTIONS``, until it is added again."""
    connection.execute("DELETE FROM evictions WHERE sha256 = ?", (eviction.digest,))
    query = "INSERT INTO evictions (sha256, size, used, evicted) VALUES (?, ?, ?, ?) RETURNING sequence"
    values = (eviction.digest, eviction.size, eviction.used, eviction.time)
    (newest,) = typed(connection.execute(query, values).fetchone(), NUMBER)
    connection.execute("DELETE FROM evictions WHERE sequence <= ?", (newest - MAX_EVICTIONS,))


def eviction(connection: Connection, digest: str) -> Eviction | None:
    """How a module was evicted, where that is remembered."""
    query = "SELECT sha256, size, used, evicted FROM evictions WHERE sha256 = ?"
    row = connection.execute(query, (digest,)).fetchone()
    return Eviction(*of_module(row, NUMBER, MOMENT, MOMENT)) if row else None


def touch(connection: Connection, times: Mapping[str, float]) -> None:
    """Note when modules were used last; times only ever advance."""
    update = "UPDATE modules SET used = :at WHERE sha256 = :sha256 AND used < :at"
    connection.executemany(update, [{"at": at, "sha256": digest} for digest, at in sorted(times.items())])


def remember(connection: Connection, digest: Digest, version: int, reason: str, error: str) -> None:
    """Keep one failure a digest and version; the oldest beyond ``MAX_FAILURES`` go."""
    connection.execute("DELETE FROM failures WHERE sha256 = ? AND version = ?", (digest, version))
    query = "INSERT INTO failures (sha256, version, reason, error) VALUES (?, ?, ?, ?) RETURNING sequence"
    (newest,) = typed(connection.execute(query, (digest, version, reason, error)).fetchone(), NUMBER)
    connection.execute("DELETE FROM failures WHERE sequence <= ?", (newest - MAX_FAILURES,))


def count_attempt(connection: Connection, digest: Digest, version: int) -> tuple[int, str]:
    """Count one more attempt at a digest and version, where the module is there; how many there were before, and how the last
    one ended."""
    before = attempts(connection, digest, version)
    connection.execute(
        "INSERT INTO attempts (sha256, version, count, ending)"
        " SELECT sha256, ?, 1, '' FROM modules WHERE sha256 = ?"
        " ON CONFLICT (sha256, version) DO UPDATE SET count = attempts.count + 1, ending = ''",
        (version, digest),
    )
    newest = "(SELECT max(sequence) FROM attempts)"
    connection.execute(f"DELETE FROM attempts WHERE sequence <= {newest} - ?", (MAX_FAILURES,))  # noqa: S608 - a constant
    return before


def attempts(connection: Connection, digest: Digest, version: int) -> tuple[int, str]:
    """How many attempts at a digest and version there were, and how the last one ended."""
    query = "SELECT count, ending FROM attempts WHERE sha256 = ? AND version = ?"
    count, ending = typed(connection.execute(query, (digest, version)).fetchone() or (0, ""), NUMBER, TEXT)
    return count, ending


def forget_attempts_of_nothing(connection: Connection) -> None:
    """The counts of modules that were taken out because whoever read them died (``Store.refuse``) outlive no start."""
    connection.execute("DELETE FROM attempts WHERE sha256 NOT IN (SELECT sha256 FROM modules)")


def forget_attempts(connection: Connection, digest: Digest, version: int) -> None:
    """Forget the attempts up to a version: the last one has ended with an answer, an error, or for a reason that is not the module's."""
    connection.execute("DELETE FROM attempts WHERE sha256 = ? AND version <= ?", (digest, version))


def forget_outcomes(connection: Connection, digest: Digest) -> bool:
    """Forget failures and attempts of every version; whether there were any."""
    failed = connection.execute("DELETE FROM failures WHERE sha256 = ?", (digest,)).rowcount
    attempted = connection.execute("DELETE FROM attempts WHERE sha256 = ?", (digest,)).rowcount
    return failed + attempted > 0
