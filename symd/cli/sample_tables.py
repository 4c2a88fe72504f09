"""The symbolizer, the modules and the names that a run over tables of samples takes; and such a run from file to file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from symd.api import Symbolizer
from symd.cli.module import open_symbolizer
from symd.cli.named_module import named_module, readable_names
from symd.cli.output_file import replacing
from symd.config import DEFAULT_LIMITS, Limits
from symd.engine import Engine
from symd.errors import InvalidInput, StoreUnavailable, ToolMissing
from symd.store import Store

if TYPE_CHECKING:
    from symd.sample_tables.tables import Form, SampleTables, TableNames, TableReport

_HINT = "choose another OUT"


@dataclass(frozen=True, slots=True)
class SampleModules:
    """Where the modules of samples are: ``modules`` are [ID=]FILE, ``server`` is a daemon's address, ``store`` the folder of a store."""

    modules: tuple[str, ...] = ()
    server: str | None = None
    store: str | None = None
    limits: Limits = DEFAULT_LIMITS


def check_arrow() -> None:
    """Raises ToolMissing where there is no Apache Arrow."""
    if find_spec("pyarrow") is None:
        raise ToolMissing("pyarrow is not installed here", where="symd[data]", hint="pip install 'symd[data]'")


@contextmanager
def open_tables(
    source: SampleModules, names: TableNames, tell: Callable[[str], None] = lambda _: None
) -> Iterator[SampleTables]:
    """Tables of samples answered from these modules. ``tell`` hears of a tool that is missing where answers are worse without it."""
    from symd.sample_tables.tables import SampleTables  # noqa: PLC0415 - Arrow is an extra, and slow to import

    with _open_symbolizer(source) as symbolizer:
        named = [named_module(text, symbolizer, source.server, source.limits) for text in source.modules]
        yield SampleTables(symbolizer, named, names, partial(readable_names, limits=source.limits, tell=tell))


def _open_symbolizer(source: SampleModules) -> AbstractContextManager[Symbolizer]:
    if source.store is None:
        return open_symbolizer(source.server, source.limits)
    if source.server is not None:
        raise InvalidInput("modules come from a store or from a daemon, not from both", hint="give one of the two")
    if not Path(source.store).is_dir():
        raise InvalidInput("there is no such store", where=source.store, hint="symd serve --store FOLDER makes one")
    return Engine(Store(Path(source.store), source.limits, adopt_later=True), source.limits)


def answer_file(
    tables: SampleTables,
    samples: str | os.PathLike[str],
    target: str | os.PathLike[str],
    form: Form,
    locations: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _rows: None,
) -> TableReport:
    """Answer the Parquet file ``samples`` into the file ``target``, which is written whole or stays as it was. With the form ``locations``
    the file of that name gets what the numbers of locations stand for (by default ``locations_path``). ``progress`` is called with the
    rows that are done, and all. Raises InvalidInput and Malformed for the samples, StoreUnavailable where a file cannot be written, and
    what the symbolizer raises."""
    from symd.sample_tables.parquet_files import SampleFile, write_answers  # noqa: PLC0415 - likewise
    from symd.sample_tables.tables import Form  # noqa: PLC0415

    paths = [Path(target)]
    if form is Form.LOCATIONS:
        paths.insert(0, Path(locations) if locations is not None else locations_path(paths[0]))
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise InvalidInput(
            "samples and locations are two files", where=str(target), hint="give the locations another name"
        )
    with SampleFile(Path(samples), tables.names) as file:
        tables.schema(file.schema, form)  # what is wrong with its columns is said before anything is written
        with replacing(*paths, hint=_HINT) as temporaries:
            try:
                write_answers(file, tables, form, temporaries[-1], temporaries[0] if len(paths) > 1 else None, progress)
            except OSError as error:
                reason = (error.strerror or str(error)).lower()
                raise StoreUnavailable(f"cannot write the file: {reason}", where=str(target), hint=_HINT) from error
    return tables.report()


def locations_path(target: Path) -> Path:
    """The file of the locations beside the file of the samples: ``out.locations.parquet`` beside ``out.parquet``."""
    return target.with_name(f"{target.stem}.locations{target.suffix}")
