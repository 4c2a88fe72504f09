"""Samples in a Parquet file answered into another, some hundred thousand rows or some MiB at a time: memory does not
grow with the file."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from symd.errors import InvalidInput, Malformed
from symd.profiles.sample_tables.sample_files import SampleForm, TableNames, check_beginning
from symd.profiles.sample_tables.tables import SampleTables, check_types, columns_read, text_columns

ROWS_AT_A_TIME = 1 << 19
BYTES_AT_A_TIME = 1 << 26
"""Bytes of rows that are read together, where the file says how many they have."""
_READ_AT_A_TIME = 1 << 20
"""Bytes of a column that are read at a time. Arrow would read whole columns of row groups, and keep all of them to the
end."""
Progress = Callable[[int, int], None]
"""Called with the rows that are done, and all rows of the file."""


class SampleFile:
    """A Parquet file of samples, opened. Raises InvalidInput for one that cannot be read, and for columns that name no
    place; Malformed for one that is damaged, here or while it is read."""

    def __init__(self, path: Path, names: TableNames) -> None:
        self._path = path
        with self._reading("the beginning or the end"):
            check_beginning(path)
            self.schema = pq.read_schema(path)
            """Its columns, with the types that were written."""
        check_types(self.schema, names.columns)
        coded = text_columns(self.schema, names.columns)
        self._read = columns_read(self.schema, names.columns)
        with self._reading("the beginning or the end"):
            self._file = pq.ParquetFile(path, read_dictionary=coded, pre_buffer=False, buffer_size=_READ_AT_A_TIME)
        self.rows: int = self._file.metadata.num_rows

    def tables(self, *, places_only: bool) -> Iterator[pa.Table]:
        """The rows of the file in order, as tables; texts that name places are dictionaries."""
        columns = self._read if places_only else None
        done = 0
        for rows, groups in groupby(range(self._file.num_row_groups), self._rows_together):
            batches = self._file.iter_batches(rows, row_groups=list(groups), columns=columns)
            while True:
                with self._reading(f"row {done} or one of the next {rows}"):
                    batch = next(batches, None)
                    if batch is None:
                        break
                    batch.validate()
                done += batch.num_rows
                yield pa.Table.from_batches([batch])

    def _rows_together(self, number: int) -> int:
        """How many rows of a row group are read together: a power of two, so that groups that are nearly alike are read
        as one. What the group says of all its columns is asked: Arrow ends the process where what a single one says is
        damaged."""
        with self._reading(f"row group {number}"):
            group = self._file.metadata.row_group(number)
            rows: int = BYTES_AT_A_TIME * max(group.num_rows, 1) // max(group.total_byte_size, 1)
        return min(ROWS_AT_A_TIME, 1 << max(rows, 1).bit_length() - 1)

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _reading(self, part: str) -> Iterator[None]:
        """Errors of the library and of the operating system as symd's; ``part`` is what is read."""
        try:
            yield
        except OSError as error:
            if error.errno is None:
                raise self._damaged(part, error) from error
            reason = os.strerror(error.errno).lower()  # Arrow adds a sentence of its own
            raise InvalidInput(f"cannot read the file: {reason}", where=str(self._path)) from error
        except (pa.ArrowException, UnicodeDecodeError) as error:
            raise self._damaged(part, error) from error

    def _damaged(self, part: str, error: Exception) -> Malformed:
        said = " ".join(str(error).split())[:200]
        return Malformed(
            f"{part} cannot be read as Parquet: {said}",
            where=str(self._path),
            hint="what wrote the file may have been interrupted",
        )


def write_answers(
    samples: SampleFile,
    tables: SampleTables,
    form: SampleForm,
    target: Path,
    locations: Path | None,
    progress: Progress,
) -> None:
    """Answer ``samples`` into a file ``target``, and what the numbers of locations stand for into ``locations``. Raises
    OSError where these cannot be written."""
    declared = tables.schema(samples.schema, form)
    done = 0
    progress(0, samples.rows)
    with ExitStack() as stack:
        if form is SampleForm.HOT_LINES:
            for table in samples.tables(places_only=True):
                tables.count(table)
                done += table.num_rows
                progress(done, samples.rows)
            _write_table(tables.hot_lines(), target)
            return
        sink = stack.enter_context(_TableFile(target, declared))
        for table in samples.tables(places_only=False):
            sink.write(tables.answered(table, form, plain=False))
            done += table.num_rows
            progress(done, samples.rows)
    if locations is not None:
        _write_table(tables.locations(), locations)


def _write_table(table: pa.Table, path: Path) -> None:
    with _TableFile(path, table.schema) as file:
        file.write(table)


class _TableFile:
    """A Parquet file that is written table by table, by a thread of its own: whoever answers does not wait for it.
    Columns may be dictionaries where the schema ``declared`` has plain texts; readers get what is declared."""

    def __init__(self, path: Path, declared: pa.Schema) -> None:
        self._path = path
        self._declared = declared
        self._writer: pq.ParquetWriter | None = None
        self._thread = ThreadPoolExecutor(1)
        self._pending: Future[None] | None = None

    def write(self, table: pa.Table) -> None:
        """Begin to write; what went wrong with the table before is raised here."""
        if self._pending is not None:
            self._pending.result()
        self._pending = self._thread.submit(self._append, table)

    def _append(self, table: pa.Table) -> None:
        if self._writer is None:
            self._writer = self._opened(table.schema)
        self._writer.write_table(table)

    def _opened(self, schema: pa.Schema) -> pq.ParquetWriter:
        writer = pq.ParquetWriter(
            self._path, schema.with_metadata(self._declared.metadata), compression="zstd", store_schema=False
        )
        writer.add_key_value_metadata({"ARROW:schema": b64encode(self._declared.serialize()).decode()})
        return writer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._pending is not None:
                self._pending.result()
            if kind is None and self._writer is None:
                self._writer = self._opened(self._declared)
        finally:
            self._thread.shutdown()
            if self._writer is not None:
                self._writer.close()
