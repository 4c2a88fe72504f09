"""``symd extract FILE DIR``: every code object as a file of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click

from symd.cli.file_objects import file_objects
from symd.cli.options import example, file_verb
from symd.cli.output import check_output_is_not_input, write_json, write_line
from symd.config import Limits
from symd.engine.files.added_module import open_daemon_module
from symd.errors import InvalidInput
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
        _report(item, folder / name, as_json)
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


def _report(item: ObjectSummary, path: Path, as_json: bool) -> None:
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
