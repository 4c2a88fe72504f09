"""The schema of a catalogue whose own cannot be read any more, taken from a fresh one.

SQLite says of which page a table begins in its schema alone: where damage meets that, every table is lost to it, although their
pages are whole. A catalogue that symd made has its tables where each fresh one has them, or after a ``VACUUM`` where that puts them. One that an
older symd made may not; then a table begins on a page of another kind, and nothing is done, or its rows are none that symd wrote, and whoever
reads them (``store.salvage``) leaves them out.

Layouts: https://www.sqlite.org/fileformat2.html, 1.3 (header of the database) and 1.6 (pages of B-trees)."""

from __future__ import annotations

import os
import sqlite3
import struct
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, Final

from symd.errors import DataLoss
from symd.store.catalogue import existing, translated
from symd.system.private_files import new_file

_MAGIC: Final = b"SQLite format 3\0"
_HEADER_BYTES: Final = 100
_INTERIOR_INDEX, _INTERIOR_TABLE, _LEAF_INDEX, _LEAF_TABLE = 0x02, 0x05, 0x0A, 0x0D
_KINDS: Final = ({_INTERIOR_INDEX, _LEAF_INDEX}, {_INTERIOR_TABLE, _LEAF_TABLE})
"""First bytes of the pages of an index or a table without rowid, and of any other table."""
_PAGE_SIZE, _VERSIONS, _PAGES, _SCHEMA = 16, 18, 28, 60
"""Places in the header: bytes of a page, versions of the format for writing and reading, the number of pages (behind it
the first of those not used and how many they are), and ``user_version``."""
_ROLLBACK_JOURNAL: Final = 1
"""As version of the format: there is no log of writes to be looked for."""


def is_schema_lost(damaged: Path, fresh: sqlite3.Connection) -> bool:
    """Whether SQLite cannot read the schema of a catalogue, or reads as many entries as ``fresh`` has, but others. Where there are fewer or
    more, they were dropped or added on purpose, or the catalogue is of an older symd. Raises ``StoreUnavailable``."""
    try:
        with translated(damaged), closing(existing(damaged)) as connection:
            found = _entries(connection)
    except DataLoss:
        return True
    expected = _entries(fresh)
    return len(found) == len(expected) and found != expected


def restore_schema(copied: Path, fresh: Path, tables: Sequence[str]) -> bool:
    """Give ``copied``, the copy of a damaged catalogue with what its log of writes had, the schema of ``fresh``, a catalogue without rows that
    nobody writes to. False where not all ``tables`` begin where they would: nothing is written. Raises ``sqlite3.Error`` and OSError."""
    compact = copied.with_name(f"{copied.name}.schema")
    compact.unlink(missing_ok=True)  # of a rebuild that was killed: VACUUM INTO takes an empty file alone
    os.close(new_file(compact))
    try:
        with closing(existing(fresh)) as connection:
            connection.execute("VACUUM INTO ?", (str(compact),))
        return any(_write_schema(copied, layout, tables) for layout in (fresh, compact))
    finally:
        compact.unlink(missing_ok=True)


def _write_schema(copied: Path, fresh: Path, tables: Sequence[str]) -> bool:
    original, roots = fresh.read_bytes(), _roots(fresh, tables)
    size = _page_size(original)
    with copied.open("r+b") as file:
        count = file.seek(0, os.SEEK_END) // size
        if _has_other_layout(file, original, size, roots):
            return False
        pages = _schema_pages(original, size)
        numbers = {page: count + 1 + place for place, page in enumerate(sorted(pages.keys() - {1}))} | {1: 1}
        for page, content in pages.items():
            _renumber(content, _HEADER_BYTES if page == 1 else 0, numbers)
        first, count = pages[1], count + len(pages) - 1
        first[_VERSIONS : _VERSIONS + 2] = bytes([_ROLLBACK_JOURNAL] * 2)
        struct.pack_into(">III", first, _PAGES, count, 0, 0)
        for page, content in pages.items():
            file.seek((numbers[page] - 1) * size)
            file.write(content)
        file.truncate(count * size)
    return True


def fold_log(path: Path) -> None:
    """Bring what the log of writes has into a catalogue's file, which nobody else has open: SQLite does so when the last who has read it closes
    it, even if what it read made no sense. What damage keeps it from bringing in is lost. Raises ``StoreUnavailable`` and OSError where the disk
    refuses: room is taken first, because of a lack of it SQLite says nothing there."""
    log = Path(f"{path}-wal")
    if not log.exists():
        return
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, max(path.stat().st_size + log.stat().st_size, 1))
    with suppress(DataLoss), translated(path), closing(existing(path)) as connection:
        connection.execute("SELECT * FROM sqlite_master").fetchone()
    log.unlink(missing_ok=True)


def _entries(connection: sqlite3.Connection) -> list[tuple[str, str, str]]:
    return sorted(connection.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master").fetchall())


def _page_size(data: bytes) -> int:
    size: int = struct.unpack_from(">H", data, _PAGE_SIZE)[0]
    return 65536 if size == 1 else size


def _roots(path: Path, tables: Sequence[str]) -> list[int]:
    """The pages, from 1, on which the tables of a catalogue begin."""
    with closing(existing(path)) as connection:
        pages = dict(connection.execute("SELECT name, rootpage FROM sqlite_master").fetchall())
    return [pages[table] for table in tables]


def _has_other_layout(file: BinaryIO, fresh: bytes, size: int, roots: Sequence[int]) -> bool:
    """Whether the header says so, of an older schema or pages of another size, or a table does not begin where it does in a fresh catalogue. A page
    that begins with no kind that there is is damaged: that says nothing."""
    file.seek(0)
    header = file.read(_HEADER_BYTES)
    if header.startswith(_MAGIC) and any(
        header[at : at + count] != fresh[at : at + count] for at, count in ((_SCHEMA, 4), (_PAGE_SIZE, 2))
    ):
        return True
    for root in roots:
        start = (root - 1) * size
        file.seek(start)
        kind = next(kind for kind in _KINDS if fresh[start] in kind)
        if any(found in other for other in _KINDS if other is not kind for found in file.read(1)):
            return True
    return False


def _schema_pages(data: bytes, size: int) -> dict[int, bytearray]:
    """The pages of the table ``sqlite_master``, by number: the first, and those that it leads to."""
    pages: dict[int, bytearray] = {}
    left = [1]
    while left:
        page = left.pop()
        pages[page] = bytearray(data[(page - 1) * size : page * size])
        left += [child for _, child in _children(pages[page], _HEADER_BYTES if page == 1 else 0)]
    return pages


def _children(page: bytes | bytearray, start: int) -> list[tuple[int, int]]:
    """Where on an interior page, which begins at ``start``, the number of a page stands, and which."""
    if page[start] != _INTERIOR_TABLE:
        return []
    cells: int = struct.unpack_from(">H", page, start + 3)[0]
    places = [start + 8, *struct.unpack_from(f">{cells}H", page, start + 12)]
    return [(place, struct.unpack_from(">I", page, place)[0]) for place in places]


def _renumber(page: bytearray, start: int, numbers: Mapping[int, int]) -> None:
    for place, child in _children(page, start):
        struct.pack_into(">I", page, place, numbers[child])
