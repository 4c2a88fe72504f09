"""Samples from one Parquet file to another, as the command and the library ask for it: what becomes of them, where the
modules are that they speak of by names of their own (``--module [ID=]FILE`` or a folder), and the file that is written
whole or stays as it was. Apache Arrow, which is an extra and slow to import, is imported when a file is answered."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from shlex import quote
from types import ModuleType
from typing import TYPE_CHECKING

from symd.api import Symbolizer
from symd.config import DEFAULT_LIMITS, UNBOUNDED_STORE, Limits, default_cache
from symd.engine.engine import Engine
from symd.engine.files.added_module import add_module
from symd.engine.files.module import open_symbolizer
from symd.errors import InvalidInput, Malformed, StoreUnavailable, SymdError, ToolMissing, extra_hint
from symd.formats.containers import identify
from symd.profiles import NamedModule
from symd.store import ModuleStore, Store
from symd.store.files import disk
from symd.store.folder import StorePaths, check_owner
from symd.store.shared import shared_urls
from symd.system.atomic_output import replacing
from symd.system.messages import check_no_input, os_error_text

if TYPE_CHECKING:
    from symd.profiles.sample_tables.tables import SampleTables, TableReport


class SampleForm(StrEnum):
    """What becomes of samples."""

    SAMPLES = "samples"
    """Every row again, with its reason and its frames."""
    LOCATIONS = "locations"
    """Every row again, with the number of its location; what the numbers stand for is a table of its own."""
    HOT_LINES = "hot-lines"
    """Source lines with the sums of their samples."""


TEXTS = ("context", "module", "object", "kernel")
NUMBERS = ("device_address", "offset", "address")
PLACES = (*TEXTS, *NUMBERS, "time")
WEIGHT = "weight"
"""The columns that a table of samples may have."""


@dataclass(frozen=True, slots=True)
class TableNames:
    """How the columns of a table of samples are called. ``columns`` says for a column of symd's what the table of
    samples calls it; names of columns that symd adds begin with ``prefix``. Raises InvalidInput for a column that symd
    has none of."""

    columns: Mapping[str, str] = field(default_factory=dict)
    prefix: str = ""

    def __post_init__(self) -> None:
        for name in self.columns:
            if name not in (*PLACES, WEIGHT):
                hint = f"write NAME=THEIRS, where NAME is one of {', '.join((*PLACES, WEIGHT))}"
                raise InvalidInput(f"{name!r} is not the name of a column that symd writes", hint=hint)


def named_modules(
    texts: Iterable[str], symbolizer: Symbolizer, server: str | None, limits: Limits
) -> list[NamedModule]:
    """The modules of each ``FILE``, ``ID=FILE`` or ``FOLDER``, which the symbolizer has then; a file whose own name has
    an equals sign is taken as such. Raises ``InvalidInput`` for a folder without a module."""
    found: list[NamedModule] = []
    for text in texts:
        identity, file = named_file(text)
        if not identity and Path(file).is_dir():
            found += _modules_below(file, symbolizer, server, limits)
        else:
            found.append(NamedModule(add_module(symbolizer, file, server, limits), file, identity or None))
    return found


def _modules_below(folder: str, symbolizer: Symbolizer, server: str | None, limits: Limits) -> list[NamedModule]:
    """Every module in a folder and below it; files that are none, or have no device code, are passed over."""
    found = []
    for path in sorted(each for each in Path(folder).rglob("*") if each.is_file()):
        with suppress(OSError, SymdError):
            with path.open("rb") as stream:
                is_module = identify(stream.read(_HEAD)) is not None
            if is_module:
                found.append(NamedModule(add_module(symbolizer, str(path), server, limits), str(path)))
    if not found:
        raise InvalidInput("there is no module in this folder", where=folder, hint="name the folder of what ran")
    return found


def named_file(text: str) -> tuple[str, str]:
    """ID, "" where none is given, and FILE. Raises ``InvalidInput`` where one of the two is empty."""
    identity, equals, file = text.partition("=")
    if not equals or Path(text).exists():
        return "", text
    if not identity or not file:
        raise InvalidInput("a module is named by a file", where=f"--module {text}", hint="write FILE or ID=FILE")
    return identity, file


@dataclass(frozen=True, slots=True)
class SampleModules:
    """Where the modules of samples are: ``modules`` are [ID=]FILE, ``server`` is a daemon's address; ``store`` is the
    folder of a store, or with the URL of its ``catalogue`` the object storage of one that several daemons share, whose
    files are kept in the folder ``cache``."""

    modules: tuple[str, ...] = ()
    server: str | None = None
    store: str | None = None
    catalogue: str | None = None
    cache: str | None = None
    limits: Limits = DEFAULT_LIMITS

    def __post_init__(self) -> None:
        """Raises InvalidInput where one does not go with another."""
        if self.store is not None and self.server is not None:
            raise InvalidInput("modules come from a store or from a daemon, not from both", hint="give one of the two")
        if self.is_shared != bool(self.catalogue):
            raise InvalidInput(
                "the catalogue is not given"
                if self.is_shared
                else "a catalogue goes with a store in an object storage",
                where=self.store or self.catalogue or "",
                hint="a shared store needs both, s3://BUCKET/PREFIX and postgresql://USER@HOST/DATABASE",
            )

    @property
    def is_shared(self) -> bool:
        """Whether the store is one that several daemons share."""
        return "://" in (self.store or "")


def _parquet_files() -> ModuleType:
    from symd.profiles.sample_tables import parquet_files  # noqa: PLC0415 - 58 ms: Arrow is an extra, and slow to import

    return parquet_files


@contextmanager
def open_tables(source: SampleModules, names: TableNames) -> Iterator[SampleTables]:
    """Tables of samples answered from these modules."""
    with _open_symbolizer(source) as symbolizer:
        named = named_modules(source.modules, symbolizer, source.server, source.limits)
        yield _parquet_files().SampleTables(symbolizer, named, names)


@contextmanager
def _open_symbolizer(source: SampleModules) -> Iterator[Symbolizer]:
    if source.store is None:
        with open_symbolizer(source.server, source.limits) as symbolizer:
            yield symbolizer
        return
    with Engine(_open_store(source, source.store), source.limits) as engine:
        yield engine


def _open_store(source: SampleModules, store: str) -> ModuleStore:
    """Who only asks removes nothing for want of room: how much a store may hold is for its daemons to say."""
    limits = source.limits._replace(store_size=UNBOUNDED_STORE)
    if source.is_shared:
        cache = Path(source.cache) if source.cache else default_cache()
        return shared_urls(store, source.catalogue or "", limits).opened(cache, make=False)
    if not Path(store).is_dir():
        raise InvalidInput("there is no such store", where=store, hint="symd serve --store FOLDER makes one")
    with disk(Path(store)):
        check_owner(Path(store))
        StorePaths(Path(store)).check_store()
    return Store(Path(store), limits, adopt_later=True)


_HEAD = 1 << 16
"""Bytes from which a module is known."""
_MAGICS = (b"PAR1", b"PARE")
"""How a file begins, and one whose footer is encrypted."""
_ONE_BY_ONE = "give each of its Parquet files by itself; Polars, DuckDB, Ray and Spark read folders: symd.BatchSymbolizer answers inside them"
_CONVERT = (
    "write the samples as Parquet: DuckDB's COPY (FROM 'samples.csv') TO 'samples.parquet' does that for CSV and JSON"
)
_HINT = "choose another OUT"
_NO_FOLDER = "make its folder first, or choose another OUT"


def check_arrow() -> None:
    """Raises ToolMissing where there is no Apache Arrow."""
    if find_spec("pyarrow") is None:
        raise ToolMissing("pyarrow is not installed here", where="symd-gpu[data]", hint=extra_hint("data"))


def check_samples(path: Path) -> None:
    """Raises InvalidInput for a folder or a module in the place of a Parquet file, Malformed for another file. What is
    not there or cannot be read is said where it is opened."""
    with suppress(OSError):
        check_beginning(path)


def check_beginning(path: Path) -> None:
    """``check_samples``. Raises OSError, also where there is no file: Arrow takes some names for those of other
    machines' files."""
    if stat.S_ISDIR(path.stat().st_mode):
        raise InvalidInput("this is a folder", where=str(path), hint=_ONE_BY_ONE)
    if not path.is_file():
        raise InvalidInput(
            "this is not a regular file", where=str(path), hint="Parquet is read from its end: give a file"
        )
    with path.open("rb") as stream:
        beginning = stream.read(_HEAD)
    if not beginning:
        raise Malformed("the file is empty", where=str(path), hint="what wrote it may have failed")
    if beginning.startswith(_MAGICS):
        return
    if (found := identify(beginning)) is not None:
        hint = f"symd batch -m {quote(str(path))} IN.parquet OUT.parquet; IN.parquet has the samples"
        raise InvalidInput(f"this is a module ({found.NAME}), and no samples", where=str(path), hint=hint)
    raise Malformed("not a Parquet file", where=str(path), hint=_CONVERT)


def answer_file(
    tables: SampleTables,
    samples: str | os.PathLike[str],
    target: str | os.PathLike[str],
    form: SampleForm,
    locations: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], None] = lambda _done, _rows: None,
) -> TableReport:
    """Answer the Parquet file ``samples`` into the file ``target``, which is written whole or stays as it was. With the
    form ``locations`` the file of that name gets what the numbers of locations stand for (by default
    ``locations_path``). ``progress`` is called with the rows that are done, and all. Raises InvalidInput and Malformed
    for the samples, StoreUnavailable where a file cannot be written, and what the symbolizer raises."""
    for each in (samples, target):
        if "://" in os.fspath(each):
            hint = "copy what is elsewhere to this machine first, and the answers back"
            raise InvalidInput("samples are files of this machine, and no URLs", where=str(each), hint=hint)
    paths = written_paths(target, form, locations)
    hint = _HINT if all(path.parent.is_dir() for path in paths) else _NO_FOLDER
    check_no_input(paths if form is SampleForm.HOT_LINES else paths[:-1], (Path(samples),))
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise InvalidInput(
            "samples and locations are two files", where=str(target), hint="give the locations another name"
        )
    parquet = _parquet_files()
    with parquet.SampleFile(Path(samples), tables.names) as file:
        tables.schema(file.schema, form)  # what is wrong with its columns is said before anything is written
        with replacing(*paths, hint=hint) as temporaries:
            try:
                parquet.write_answers(
                    file, tables, form, temporaries[-1], temporaries[0] if len(paths) > 1 else None, progress
                )
            except OSError as error:
                reason = os_error_text(error)
                raise StoreUnavailable(f"cannot write the file: {reason}", where=str(target), hint=_HINT) from error
    return tables.report()


def written_paths(
    target: str | os.PathLike[str], form: SampleForm, locations: str | os.PathLike[str] | None = None
) -> list[Path]:
    """The files that ``answer_file`` writes: ``target`` last, before it that of the locations where the form has one.
    Where ``target`` has every row and column of the samples again, it may be their file."""
    path = Path(target)
    if form is not SampleForm.LOCATIONS:
        return [path]
    return [Path(locations) if locations is not None else locations_path(path), path]


def locations_path(target: Path) -> Path:
    """The file of the locations beside the file of the samples: ``out.locations.parquet`` beside ``out.parquet``."""
    return target.with_name(f"{target.stem}.locations{target.suffix}")
