"""``symd slim IN OUT``: an AMD code object without what the runtime does not need, its debug data in a file of its
own."""

from __future__ import annotations

import os
from pathlib import Path
from shlex import quote

import click

from symd.cli.module_objects import daemon_object, fetching_server_option, is_of_daemon
from symd.cli.options import complete_files, example, json_option, limit_option, shown_anyway
from symd.cli.output import check_output_is_not_input, write_json, write_line
from symd.config import Limits
from symd.debuginfo.separate_files import Slimmed, slim
from symd.engine.files.input import read_input
from symd.errors import InvalidInput, SymdError, UnknownFormat, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import identify
from symd.formats.containers.amd import amdgpu
from symd.system.atomic_output import write_file
from symd.system.messages import complain


@click.command("slim", epilog=example("symd slim kernels.co small.co\nsymd symbolize small.co 0x1b00"))
@click.argument("file", metavar="IN", shell_complete=complete_files)
@click.argument("output", metavar="OUT", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--debug-out",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Where to write the debug data.  [default: OUT.debug]",
)
@fetching_server_option
@limit_option
@json_option
@click.option("-g", "-S", "-d", "--strip-debug", "strip_debug", is_flag=True, hidden=True)
@shown_anyway("-s", "--strip-all")
def command(
    file: str,
    output: Path,
    debug_out: Path | None,
    server: str | None,
    limits: Limits,
    as_json: bool,
    strip_debug: bool,
) -> None:
    """Write IN, an AMD code object, to OUT, keeping only what the runtime needs.

    Sections and program headers that the runtime does not read are dropped and the file is packed; code, kernel
    descriptors and all addresses stay the same. Debug data goes to a file of its own. symd finds it next to OUT;
    anywhere else, name it with --debug. IN can be "-" for standard input, or with --server modules/SHA256. Existing
    files are replaced.
    """
    debug_path = debug_out or output.with_name(f"{output.name}.debug")
    _check_apart(file, output, debug_path)
    result = _slimmed(file, server, limits)
    if result.debug:
        write_file(debug_path, result.debug, hint="choose another name")
    write_file(output, result.data, hint="choose another name")
    _report(file, output, debug_path if result.debug else None, result, as_json)
    if strip_debug and result.removed:
        complain(
            f"{' '.join(result.removed)} were removed too, which the runtime does not read; llvm-objcopy --strip-debug"
            f" {quote(file)} {quote(str(output))} keeps them"
        )


def _slimmed(file: str, server: str | None, limits: Limits) -> Slimmed:
    data = daemon_object(file, server, limits) if is_of_daemon(file, server) else read_input(file, limits)
    try:
        if not amdgpu.claims(data):
            raise _refusal(data)
        return slim(data, Budget(limits, len(data)))
    except SymdError as error:
        raise error.prefix_where("standard input" if file == "-" else file) from None


def _refusal(data: bytes) -> SymdError:
    found = identify(data)
    if found is None:
        return UnknownFormat("neither an AMD code object nor any other format that symd knows")
    hint = "symd extract FILE DIR writes the code objects inside as files of their own"
    return Unsupported(f"this is {found.NAME}; only AMD code objects can be slimmed", hint=hint)


def _check_apart(file: str, output: Path, debug: Path) -> None:
    """Raises InvalidInput where an output would be written over the input, which has more than both outputs together,
    or over the other output."""
    check_output_is_not_input((output, debug), (file,))
    if os.path.realpath(output) == os.path.realpath(debug):
        raise InvalidInput("the debug data would replace the code object", where=str(output), hint="give another name")


def _report(file: str, output: Path, debug: Path | None, result: Slimmed, as_json: bool) -> None:
    size, percent = len(result.data), round(100 * len(result.data) / result.before, 1)
    if as_json:
        fields = {
            "file": file,
            "before": result.before,
            "output": str(output),
            "after": size,
            "percent": percent,
            "debug": str(debug) if debug else None,
            "debug_size": len(result.debug),
            "removed": list(result.removed),
        }
        write_json(fields)
        return
    write_line(f"before   {result.before} bytes  {file}")
    write_line(f"after    {size} bytes ({percent} %)  {output}")
    if debug:
        write_line(f"debug    {len(result.debug)} bytes  {debug}")
    write_line(f"removed  {' '.join(result.removed) or 'nothing'}")
