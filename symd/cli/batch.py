"""``symd batch IN OUT``: samples in a Parquet file to frames, locations or hot lines in another."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from symd.cli.options import complete_files, example, json_option, limit_option, module_server_option
from symd.cli.output import NO, check_output_is_not_input, progress_bar, say_notes, write_json
from symd.cli.store import is_url, named_store
from symd.config import Limits
from symd.model.reasons import ANSWERED, Reason
from symd.model.texts import counted, plural
from symd.profiles.sample_tables.answering import NO_MODULE
from symd.profiles.sample_tables.sample_files import (
    SampleForm,
    SampleModules,
    TableNames,
    answer_file,
    check_arrow,
    check_samples,
    named_file,
    open_tables,
    written_paths,
)
from symd.system.messages import complain

if TYPE_CHECKING:
    from symd.profiles.sample_tables.tables import TableReport

_UNKNOWN = frozenset((Reason.UNKNOWN_MODULE, Reason.UNKNOWN_KERNEL))
_OTHER_FORMATS = (".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".txt", ".arrow", ".feather", ".gz", ".xlsx")
"""What names of files end in that are not Parquet."""
_NAME_THEM = "-m FILE names the module that the samples are of, -m ID=FILE each that they call ID; --store FOLDER or --server ADDRESS has them"
_WHO_KNOWS_CONTEXTS = "--server ADDRESS or --store FOLDER names who was told of contexts"
_SAY_WHICH = "a column `module` says of each sample which it is of, by the SHA-256 or the label that `symd modules` lists; or -m names a single one"


@click.command(
    "batch",
    epilog=example(
        "symd batch -m shade.co samples.parquet frames.parquet\n"
        "symd batch -m shade.co --out-form hot-lines samples.parquet lines.parquet\n"
        "symd batch --store /var/lib/symd --out-form locations --column address=pc samples.parquet out.parquet\n"
        "symd batch --store s3://symd/modules --catalogue postgresql://symd@db/symd samples.parquet frames.parquet"
    ),
)
@click.argument("source", metavar="IN", shell_complete=complete_files)
@click.argument("target", metavar="OUT", shell_complete=complete_files)
@click.option(
    "-m",
    "--module",
    "modules",
    multiple=True,
    metavar="[ID=]FILE|FOLDER",
    shell_complete=complete_files,
    help="A module that the samples refer to, or a folder of such modules; ID is the samples' name for it.",
)
@module_server_option
@click.option(
    "--store",
    metavar="FOLDER|URL",
    help='Read modules and indexes from this store, without a daemon: its folder, "default" for that of the daemon that runs here, or, with --catalogue, its'
    " object storage, s3://BUCKET/PREFIX or file:///FOLDER.",
)
@click.option(
    "--catalogue",
    envvar="SYMD_CATALOGUE",
    metavar="URL",
    help="The database of a --store in object storage, postgresql://USER@HOST/DATABASE; $SYMD_CATALOGUE may name it.",
)
@click.option(
    "--cache",
    metavar="FOLDER",
    default="",
    show_default="$SYMD_CACHE or the user's cache",
    help="The folder on this machine for files from object storage; the limit cache_size bounds its size.",
)
@click.option(
    "--out-form",
    "form",
    type=click.Choice([each.value for each in SampleForm]),
    default=SampleForm.SAMPLES.value,
    show_default=True,
    help="What to write: samples with their frames; samples with location numbers; or source lines with their sample totals.",
)
@click.option(
    "--locations",
    metavar="FILE",
    help="With --out-form locations: the file that says what the numbers stand for.  [default: out.locations.parquet if OUT is out.parquet]",
)
@click.option(
    "--column",
    "columns",
    multiple=True,
    metavar="NAME=THEIRS",
    help="The name of a column in IN, such as address=pc. NAME is context, device_address, time, module, object, kernel, offset, address or weight.",
)
@click.option(
    "--prefix",
    default="",
    metavar="TEXT",
    help="A prefix for the names of added columns; those of hot lines stay the same.",
)
@limit_option
@json_option
@click.pass_context
def command(
    context: click.Context,
    source: str,
    target: str,
    modules: tuple[str, ...],
    server: str | None,
    store: str | None,
    catalogue: str | None,
    cache: str,
    form: str,
    locations: str | None,
    columns: tuple[str, ...],
    prefix: str,
    limits: Limits,
    as_json: bool,
) -> int:
    """Add source frames to the samples of the Parquet file IN, write them to the Parquet file OUT, and print a report
    to stderr.

    A row of IN names a place: context and device_address (and time, in nanoseconds); module and address; or kernel
    and offset (and module). A module is named by its SHA-256, by the ID or file name given with --module, or by its
    label in the store. Every row gets an answer: frames, or the reason why there are none. docs/batch.md describes
    the columns. OUT is either written completely or left unchanged. OUT can be the same file as IN, except with
    --out-form hot-lines. Exit code 1: there are samples, but none has a line or a function.
    """
    if "-" in (source, target):
        raise click.UsageError(
            "IN and OUT must be files: Parquet is read from its end; write a file's name instead of -"
        )
    if store is not None and context.get_parameter_source("server") is ParameterSource.ENVIRONMENT:
        server = None  # what is written counts before what is set for all verbs
    if store is not None and server is not None:
        raise click.UsageError("--store and --server cannot be used together")
    store = None if store is None else named_store(store)
    if context.get_parameter_source("catalogue") is ParameterSource.ENVIRONMENT and not is_url(store or ""):
        catalogue = None  # it is that of another store
    if locations is not None and form != "locations":
        raise click.UsageError("--locations needs --out-form locations")
    for each in filter(None, (target, locations)):
        if Path(each).suffix.lower() in _OTHER_FORMATS and each != source:
            shown = quote(str(Path(each).with_suffix(".parquet")))
            hint = f"DuckDB's COPY (FROM {shown}) TO {quote(each)} converts it"
            raise click.UsageError(f"{each} would be a Parquet file: write {shown}; {hint}")
    written = written_paths(target, SampleForm(form), locations)
    check_output_is_not_input(written, (named_file(each)[1] for each in modules))
    check_samples(Path(source))
    check_arrow()
    names = TableNames(dict(map(_renamed, columns)), prefix)
    kept = SampleModules(modules, server, store, catalogue, cache, limits)
    with progress_bar() as show, open_tables(kept, names) as tables:
        report = answer_file(
            tables, source, target, SampleForm(form), locations, lambda done, rows: show("samples", done, rows)
        )
    _report(report, as_json=as_json)
    if not as_json:
        _say_what_is_missing(report, has_modules=bool(modules), has_store=store is not None or server is not None)
    return NO if report.samples and not ANSWERED & report.reasons.keys() else 0


def _say_what_is_missing(report: TableReport, *, has_modules: bool, has_store: bool) -> None:
    if not has_store and any(note.startswith("contexts/") for note in report.notes):
        complain(_WHO_KNOWS_CONTEXTS)
    elif not has_store and not has_modules and _UNKNOWN & report.reasons.keys():
        complain(_NAME_THEM)
    elif has_store and NO_MODULE in report.notes:
        complain(_SAY_WHICH)


def _renamed(text: str) -> tuple[str, str]:
    name, equals, theirs = text.partition("=")
    if not equals or not name or not theirs:
        raise click.UsageError(f"--column {text}: write NAME=THEIRS, such as address=pc")
    return name, theirs


def _report(report: TableReport, *, as_json: bool) -> None:
    if as_json:
        write_json(report_json(report))
        return
    placeless = (
        f", {report.placeless:,} {plural(report.placeless, 'names', 'name')} no place" if report.placeless else ""
    )
    reasons = ", ".join(f"{count:,} {reason.name}" for reason, count in report.reasons.items())
    weight = "" if report.weight is None else f" (weight {report.weight:,})"
    found = f"{counted(report.samples, 'sample')}{weight} at {counted(report.locations, 'location')}"
    complain(f"{found}{f': {reasons}' if reasons else ''}{placeless}")
    say_notes(report.notes)


def report_json(report: TableReport) -> dict[str, Any]:
    """The report as an object; ``reasons`` maps each reason to its count."""
    return {
        "samples": report.samples,
        "placeless": report.placeless,
        "reasons": {reason.name: count for reason, count in report.reasons.items()},
        "locations": report.locations,
        "notes": list(report.notes),
        "weight": report.weight,
    }
