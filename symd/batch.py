"""Tables of samples answered inside the program that has them: Ray Data, Spark, Polars, DuckDB, or plain Apache Arrow
and Parquet.

docs/batch.md has the columns that a table of samples has, those of the answers, and an example for each of these
programs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import InvalidInput
from symd.profiles.sample_tables.sample_files import (
    SampleForm,
    SampleModules,
    TableNames,
    answer_file,
    check_arrow,
    open_tables,
)

if TYPE_CHECKING:
    import pyarrow as pa

    from symd.profiles.sample_tables.tables import SampleTables, TableReport

    ArrowSchema: TypeAlias = pa.Schema
    ArrowTable: TypeAlias = pa.Table
    RecordBatch: TypeAlias = pa.RecordBatch

AnyFile: TypeAlias = str | os.PathLike[str]
ROWS_TOGETHER = 1 << 18
"""Rows of small batches that are answered together."""
BYTES_TOGETHER = 1 << 26
"""Bytes of small batches that are answered together; ``ROWS_TOGETHER`` is the other bound, and whichever is reached
first holds."""


class BatchSymbolizer:
    """A function from tables of samples to tables of answers, over modules that are opened when it is first called.

    ``modules`` are files, each also "ID=FILE" where the samples call it ID; ``server`` is the address of a daemon;
    ``store`` is a store that has the modules: its folder, or the URL of its object storage with that of its
    ``catalogue``, of which files are kept in the folder ``cache`` (by default $SYMD_CACHE, or the user's). ``form`` is
    "samples", "locations" or "hot-lines". ``columns`` says what the samples call a column (``{"address": "pc"}``), and
    the names of added columns begin with ``prefix``.

    It can be pickled: whoever gets it opens the modules by the same names. Safe to use from several threads, which wait
    for each other. Every method raises ``SymdError``; one row never does, it has its reason.
    """

    def __init__(
        self,
        modules: AnyFile | Iterable[AnyFile] = (),
        *,
        server: str | None = None,
        store: AnyFile | None = None,
        catalogue: str | None = None,
        cache: AnyFile | None = None,
        form: str = "samples",
        columns: Mapping[str, str] | None = None,
        prefix: str = "",
        limits: Limits | None = None,
    ) -> None:
        check_arrow()
        files = [modules] if isinstance(modules, str | os.PathLike) else modules
        self._source = SampleModules(
            tuple(_absolute(os.fspath(file)) for file in files),
            server,
            None if store is None else _absolute_store(os.fspath(store)),
            catalogue,
            None if cache is None else str(Path(cache).absolute()),
            limits or DEFAULT_LIMITS,
        )
        self._form = _form(form)
        self._names = TableNames(dict(columns or {}), prefix)
        self._lock = RLock()
        self._resources = ExitStack()
        self._opened: SampleTables | None = None

    def __call__(self, samples: ArrowTable | RecordBatch) -> ArrowTable:
        """The answers to a table of samples, as ``output_schema`` says. Hot lines are those of this table: sum them
        over tables."""
        with self._lock:
            return self._tables.answered(samples, self._form)

    def map_in_arrow(self, batches: Iterable[RecordBatch]) -> Iterator[RecordBatch]:
        """The answers to record batches that come one after another, as Spark's ``mapInArrow`` passes them. Small
        batches are answered together."""
        for together in _together(batches):
            with self._lock:
                answered = self._tables.answered_together(together, self._form)
            yield from answered

    def output_schema(self, samples: ArrowSchema) -> ArrowSchema:
        """The columns of the answers to samples with these columns."""
        with self._lock:
            return self._tables.schema(samples, self._form)

    def write(
        self,
        samples: AnyFile,
        target: AnyFile,
        locations: AnyFile | None = None,
        progress: Callable[[int, int], None] = lambda _done, _rows: None,
    ) -> TableReport:
        """Answer the Parquet file ``samples`` into the file ``target``, as ``symd batch`` does. ``progress`` is called
        with the rows that are done, and all. The report is about everything that was answered so far."""
        with self._lock:
            return answer_file(self._tables, samples, target, self._form, locations, progress)

    def locations(self) -> ArrowTable:
        """What the numbers of locations that were answered here so far stand for; ``symd batch`` writes the same
        table."""
        with self._lock:
            return self._tables.locations()

    def report(self) -> TableReport:
        """How many samples were answered so far, by reason."""
        with self._lock:
            return self._tables.report()

    def close(self) -> None:
        """Give back what it holds; the next call opens the modules again."""
        with self._lock:
            self._opened = None
            self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._source, str(self._form), dict(self._names.columns), self._names.prefix)

    @property
    def _tables(self) -> SampleTables:
        if self._opened is None:
            self._opened = self._resources.enter_context(open_tables(self._source, self._names))
        return self._opened


def _made(source: SampleModules, form: str, columns: Mapping[str, str], prefix: str) -> BatchSymbolizer:
    return BatchSymbolizer(
        source.modules,
        server=source.server,
        store=source.store,
        catalogue=source.catalogue,
        cache=source.cache,
        form=form,
        columns=columns,
        prefix=prefix,
        limits=source.limits,
    )


def _together(batches: Iterable[RecordBatch]) -> Iterator[list[RecordBatch]]:
    """Lists of at least ``ROWS_TOGETHER`` rows, or ``BYTES_TOGETHER`` bytes; the last one of what is left."""
    waiting: list[RecordBatch] = []
    rows = size = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= ROWS_TOGETHER or size >= BYTES_TOGETHER:
            yield waiting
            waiting, rows, size = [], 0, 0
    if waiting:
        yield waiting


def _absolute(module: str) -> str:
    """The name of a module's file such that a process in another folder finds it."""
    if Path(module).exists():
        return str(Path(module).absolute())
    identity, equals, file = module.partition("=")
    return f"{identity}={Path(file).absolute()}" if equals and Path(file).exists() else module


def _absolute_store(store: str) -> str:
    """The absolute path of a store's folder; a store that is a URL stays as it is."""
    return store if "://" in store else str(Path(store).absolute())


def _form(text: str) -> SampleForm:
    try:
        return SampleForm(text)
    except ValueError:
        raise InvalidInput(f"there is no form {text!r}", hint=f"one of {', '.join(SampleForm)}") from None
