"""``symd extract FILE DIR``: every code object as a file of its own; ``symd slim IN OUT``: an AMD code object without
what the runtime does not need, its debug data in a file of its own."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

import click

from symd.cli.code_objects import daemon_object, daemon_of, fetching_server_option, file_objects
from symd.cli.options import complete_files, example, file_verb, json_option, limit_option, shown_anyway
from symd.cli.output import check_output_is_not_input, write_json, write_line
from symd.config import Limits
from symd.debuginfo.separate_files import Slimmed, slim
from symd.engine.files.added_module import open_daemon_module
from symd.engine.files.input import read_input
from symd.errors import InvalidInput, SymdError, UnknownFormat, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import identify
from symd.formats.containers.amd import amdgpu
from symd.model.code import CodeKind
from symd.model.summaries import ObjectSummary
from symd.system.atomic_output import output_folder, write_file, writing
from symd.system.messages import complain

_UNSAFE = re.compile(r"[^A-Za-z0-9._+-]+")
STEM_CHARACTERS = 150
"""Letters of an object's path that its file name has at the most."""


@click.command("extract", epilog=example("symd extract program.bin objects/"))
@file_verb
@click.argument("folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("-f", "--force", is_flag=True, help="Replace existing files that have other contents.")
def command(file: str, server: str | None, limits: Limits, as_json: bool, folder: Path, force: bool) -> None:
    """Write every code object inside FILE to a file in DIR, which is created if necessary, and print the files' names.

    Names come from the objects' nesting paths. FILE can be "-" for standard input, or file://PATH#offset=N&size=N for a
    part of a file.
    """
    name_of = FileNames(Path(file).name)
    place, is_whole = None, False
    for item, data in _objects(file, server, limits):
        is_whole = not item.path
        name = name_of(item)
        place = place or output_folder(folder, hint="choose another DIR")
        _write(place / name, data, file, force=force)
        _report_extracted(item, folder / name, as_json)
    if place is not None and is_whole:
        complain(f"{file} is one code object, with no others inside, so it was copied")


def _objects(file: str, server: str | None, limits: Limits) -> Iterator[tuple[ObjectSummary, bytes]]:
    if server is None:
        yield from file_objects(file, limits)
        return
    with open_daemon_module(file, server, limits) as module:
        for item in module.summary().objects:
            yield item, module.symbolizer.object_data(module.digest, item.path)


class FileNames:
    """A file name for each object: only harmless characters, none twice (not even where case does not count), and an
    ending that tells the kind. ``whole`` names the object that is the file itself."""

    def __init__(self, whole: str) -> None:
        self._whole = whole
        self._taken: set[str] = set()
        self._following: dict[str, int] = {}

    def __call__(self, item: ObjectSummary) -> str:
        stem = _UNSAFE.sub("_", item.path or self._whole).strip("._-")[-STEM_CHARACTERS:] or "object"
        ending = ".spv" if item.kind is CodeKind.SPIRV else ".elf"
        stem = stem.removesuffix(ending)
        name = f"{stem}{ending}"
        number = self._following.get(name.lower(), 2)
        first = name.lower()
        while name.lower() in self._taken:
            name, number = f"{stem}-{number}{ending}", number + 1
        self._following[first] = number
        self._taken.add(name.lower())
        return name


def _write(path: Path, data: bytes, file: str, *, force: bool) -> None:
    """A file of these contents that is there already stays, as does ``file``, which is being read; links in the folder
    are never followed."""
    with writing(path, "choose another DIR"):
        if not force and (path.exists() or path.is_symlink()):
            _check_same(path, data)
            return
    check_output_is_not_input((path,), (file,))
    write_file(path, data, hint="choose another DIR", follow_links=False)


def _check_same(path: Path, data: bytes) -> None:
    with memoryview(data) as found:  # of a file that is mapped, which compares as an object
        is_same = path.is_file() and path.read_bytes() == found
    if not is_same:
        raise InvalidInput("there is another file of that name", where=str(path), hint="--force replaces it")


def _report_extracted(item: ObjectSummary, path: Path, as_json: bool) -> None:
    if not as_json:
        write_line(str(path))
        return
    write_json(
        {
            "object": item.path,
            "file": str(path),
            "format": item.format,
            "target": item.target,
            "size": item.size,
            "sha256": item.sha256,
        }
    )


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
def slim_command(
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
    _report_slimmed(file, output, debug_path if result.debug else None, result, as_json)
    if strip_debug and result.removed:
        complain(
            f"{' '.join(result.removed)} were removed too, which the runtime does not read; llvm-objcopy --strip-debug"
            f" {quote(file)} {quote(str(output))} keeps them"
        )


def _slimmed(file: str, server: str | None, limits: Limits) -> Slimmed:
    daemon = daemon_of(file, server)
    data = read_input(file, limits) if daemon is None else daemon_object(file, daemon, limits)
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


def _report_slimmed(file: str, output: Path, debug: Path | None, result: Slimmed, as_json: bool) -> None:
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
