"""A Parquet file of samples answered into another, which is written whole or stays as it was. Apache Arrow is imported when one is."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from symd.errors import InvalidInput, StoreUnavailable, ToolMissing, extra_hint
from symd.profiles.sample_tables.form import Form
from symd.system.atomic_output import check_no_input, replacing
from symd.system.os_errors import os_error_text

if TYPE_CHECKING:
    from symd.profiles.sample_tables.tables import SampleTables, TableReport

_HINT = "choose another OUT"
_NO_FOLDER = "make its folder first, or choose another OUT"


def check_arrow() -> None:
    """Raises ToolMissing where there is no Apache Arrow."""
    if find_spec("pyarrow") is None:
        raise ToolMissing("pyarrow is not installed here", where="symd-gpu[data]", hint=extra_hint("data"))


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
    from symd.profiles.sample_tables.parquet_files import SampleFile, write_answers  # noqa: PLC0415 - Arrow is slow to import

    for each in (samples, target):
        if "://" in os.fspath(each):
            hint = "copy what is elsewhere to this machine first, and the answers back"
            raise InvalidInput("samples are files of this machine, and no URLs", where=str(each), hint=hint)
    paths = written_paths(target, form, locations)
    hint = _HINT if all(path.parent.is_dir() for path in paths) else _NO_FOLDER
    check_no_input(paths if form is Form.HOT_LINES else paths[:-1], (Path(samples),))
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        raise InvalidInput(
            "samples and locations are two files", where=str(target), hint="give the locations another name"
        )
    with SampleFile(Path(samples), tables.names) as file:
        tables.schema(file.schema, form)  # what is wrong with its columns is said before anything is written
        with replacing(*paths, hint=hint) as temporaries:
            try:
                write_answers(file, tables, form, temporaries[-1], temporaries[0] if len(paths) > 1 else None, progress)
            except OSError as error:
                reason = os_error_text(error)
                raise StoreUnavailable(f"cannot write the file: {reason}", where=str(target), hint=_HINT) from error
    return tables.report()


def written_paths(
    target: str | os.PathLike[str], form: Form, locations: str | os.PathLike[str] | None = None
) -> list[Path]:
    """The files that ``answer_file`` writes: ``target`` last, before it that of the locations where the form has one. Where ``target`` has every
    row and column of the samples again, it may be their file."""
    path = Path(target)
    if form is not Form.LOCATIONS:
        return [path]
    return [Path(locations) if locations is not None else locations_path(path), path]


def locations_path(target: Path) -> Path:
    """The file of the locations beside the file of the samples: ``out.locations.parquet`` beside ``out.parquet``."""
    return target.with_name(f"{target.stem}.locations{target.suffix}")
