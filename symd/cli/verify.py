"""``symd verify FILE``: symd's reading of the debug data beside that of pyelftools, with every difference."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any

import click

from symd.cli.code_objects import daemon_objects, daemon_of, fetching_server_option
from symd.cli.options import example, file_argument, json_option, limit_option, object_option
from symd.cli.output import NO, printable, write_json, write_line
from symd.config import Limits
from symd.debuginfo import reading
from symd.debuginfo.verify import Difference, VerifyReport, verify
from symd.engine.files import working
from symd.engine.files.companion_files import with_debug_file, with_dwo_files, with_kernel_packs
from symd.engine.files.input import read_input
from symd.errors import ObjectNotFound, SymdError
from symd.formats import containers
from symd.formats.budget import DebugBudget
from symd.index.module import contradictory_bytes
from symd.index.module_tables import DecodedObject
from symd.model.code import CodeKind, CodeObject
from symd.model.texts import counted, plural


@click.command("verify", epilog=example("symd verify program.bin\nsymd verify --json kernel.cubin"))
@file_argument
@fetching_server_option
@limit_option
@json_option
@object_option
@click.option(
    "--debug",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="A folder of .dwo files or packages. Those next to FILE are found without this option.",
)
def command(file: str, server: str | None, limits: Limits, as_json: bool, path: str | None, debug: Path | None) -> int:
    """Read the debug data of FILE a second time, with pyelftools, and report every difference.

    This compares the line tables, functions, inlined calls and variables of each code object. The line that begins with
    FILE says how much was compared; lines above it name what could not be compared, and why. Both readings can agree on
    debug data that contradicts itself: the last line then says how many bytes of code get the answer CONTRADICTORY.
    Exit code 1: there is a difference, or nothing was compared. FILE can be "-" for standard input. With --server it
    can be modules/SHA256: the code objects then come from the daemon, and both readings are done here.
    """
    daemon = daemon_of(file, server)
    codes = _codes(file, limits, debug) if daemon is None else tuple(daemon_objects(file, daemon, limits))
    chosen = [code for code in codes if path is None or code.path == path]
    if path is not None and not chosen:
        raise ObjectNotFound.at(path, (code.path for code in codes), file)
    with working(f"reading {printable(file)}"):
        report = verify(chosen)
        budget = DebugBudget(limits, sum(len(code.data) for code in chosen))
        decoded = (reading.read_or_refused(code, budget) for code in chosen if code.kind is not CodeKind.SPIRV)
        sizes = [contradictory_bytes(DecodedObject(*each)) for each in decoded]
    contradictory, text = (sum(column) for column in zip((0, 0), *sizes, strict=True))
    for difference in report.differences:
        if as_json:
            write_json(asdict(difference))
        else:
            write_line(difference_text(difference))
    if as_json:
        write_json(summary_json(report) | {"contradictory_bytes": contradictory, "text_bytes": text})
    else:
        for line in summary_lines(file, report):
            write_line(line)
        if contradictory:
            where = quote(file) if daemon is None else f"--server {quote(daemon)} {quote(file)}"
            readings = "the two readings differ" if report.differences else "both readings agree"
            write_line(
                f"{readings}; the debug data contradicts itself: {contradictory} of {text} bytes of code are CONTRADICTORY"
                f" (symd info {where} shows where)"
            )
    return NO if report.differences or not _compared(report) else 0


def _codes(file: str, limits: Limits, debug: Path | None) -> tuple[CodeObject, ...]:
    data = with_kernel_packs(read_input(file, limits), file, limits)
    data = data if debug is not None else with_debug_file(data, file, limits)
    data = with_dwo_files(data, file, limits, debug)
    try:
        return containers.unpack(data, limits).objects
    except SymdError as error:
        raise error.prefix_where("standard input" if file == "-" else file) from None


def difference_text(difference: Difference) -> str:
    """One difference as a line."""
    place = f"{difference.path}: " if difference.path else ""
    ours, theirs = (text or "nothing" for text in (difference.ours, difference.theirs))
    return f"{place}{difference.kind} {difference.where}: symd reads {ours}; pyelftools reads {theirs}"


def summary_json(report: VerifyReport) -> dict[str, Any]:
    """What was compared, after the differences."""
    return {
        "rows": report.rows,
        "scopes": report.scopes,
        "variables": report.variables,
        "differences": len(report.differences),
        "deviations": [asdict(deviation) for deviation in report.deviations],
        "not_compared": [asdict(left_out) for left_out in report.not_compared],
    }


def summary_lines(file: str, report: VerifyReport) -> list[str]:
    """What was compared, as lines of text. What was left out, and the differences that are pyelftools' known errors,
    come before the sums."""
    lines = [f"{_place(one.path)}not compared: {one.reason}" for one in report.not_compared]
    lines += [f"{_place(one.path)}{one.name} ({counted(one.count, 'time')}): {one.reason}" for one in report.deviations]
    sums = plural(report.rows, "row"), plural(report.scopes, "scope"), plural(report.variables, "variable")
    counts = f"{report.rows} {sums[0]}, {report.scopes} {sums[1]} and {report.variables} {sums[2]}"
    compared = f"{counts} compared with pyelftools"
    if not _compared(report):
        compared = "nothing was compared" + (
            "" if report.not_compared or report.differences else ": there is no code object in it"
        )
    differences = len(report.differences)
    return [*lines, f"{file}: {compared}, {differences} {plural(differences, 'difference')}"]


def _compared(report: VerifyReport) -> int:
    """How many things were."""
    return report.rows + report.scopes + report.variables


def _place(path: str) -> str:
    return f"{path}: " if path else ""
