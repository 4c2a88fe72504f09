"""The debug file of an AMD code object without debug sections: the one that its .gnu_debuglink or its build ID names, as debuggers look for
it, or what ``symd slim`` left beside it.

Source: GDB's manual, "Separate Debug Files"."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from symd.config import Limits
from symd.engine.files.input import comes_to_an_end, read_input
from symd.errors import HashMismatch, NoDebugData, SymdError, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.amd import amdgpu
from symd.system.notices import complain

if TYPE_CHECKING:
    from symd.engine.files.left_out import AllowedFiles

_FOLDER = ".debug"
_OF_SYSTEM = "/usr/lib/debug"
"""Where distributions put debug files: below a folder's own path, and by build ID."""
SLIM_SUFFIX = ".debug"


def with_debug_file(data: bytes, file: str, limits: Limits, allowed: AllowedFiles | None = None) -> bytes:
    """The code object ``data``, the content of ``file``, joined with its debug file where that lies in the same folder, or in
    ``.debug`` there under the link's name, or where distributions put it; ``data`` itself where it needs none or none of its build is
    there. Those that cannot be used, and one that is missing, are told on stderr then, for nobody named them. With ``allowed`` no
    other file is opened."""
    image = _image(data, file, limits)
    if image is None:
        return data
    unusable: list[SymdError] = []
    candidates = _there(image, file, allowed)
    for path, checksum in candidates:
        try:
            joined = _joined(data, path, checksum, limits, allowed)
        except SymdError as error:
            unusable.append(error)
            continue
        if joined is not None:
            return joined
    if not any(checksum is not None for _, checksum in candidates):
        unusable += _missing(image, file)
    for each in unusable:
        complain(f"answered without a debug file: {each}")
    return data


def _missing(image: elf.Elf, file: str) -> list[SymdError]:
    """What the object's link names, if it has one, and where that was looked for."""
    link = elf.debug_link(image.sections)
    if not link:
        return []
    name = os.fsdecode(link.name)
    places = [os.path.dirname(path) or "." for path, checksum in _candidates(image, file) if checksum is not None]  # noqa: PTH120 - pathlib is slow to load
    return [NoDebugData(f"{name}, to which it links, is in none of {', '.join(dict.fromkeys(places))}", where=file)]


def debug_files(
    data: bytes, file: str, limits: Limits, allowed: AllowedFiles | None = None
) -> list[tuple[str, int | None]]:
    """Files that may be the debug file of ``data``: paths, and the CRC-32 of the content where the object says it."""
    image = _image(data, file, limits)
    return [] if image is None else _there(image, file, allowed)


def _there(image: elf.Elf, file: str, allowed: AllowedFiles | None) -> list[tuple[str, int | None]]:
    return [(path, checksum) for path, checksum in _candidates(image, file) if comes_to_an_end(path, allowed)]


def _image(data: bytes, file: str, limits: Limits) -> elf.Elf | None:
    """The image of a code object that may have a debug file; None for others."""
    if file == "-" or not amdgpu.claims(data):
        return None
    try:
        image = elf.parse(data, Budget(limits, len(data)))
    except SymdError:
        return None  # whoever reads it next says what is wrong with it
    return None if any(section.name.startswith((".debug_", ".zdebug_")) for section in image.sections) else image


def _candidates(image: elf.Elf, file: str) -> Iterator[tuple[str, int | None]]:
    folder, own = os.path.split(file)
    link, build_id = elf.debug_link(image.sections), image.build_id()
    join = os.path.join  # pathlib is slow to load
    if link is not None:
        base = os.fsdecode(link.name)
        if base != own:
            yield join(folder, base), link.checksum
        yield join(folder, _FOLDER, base), link.checksum
        yield join(f"{_OF_SYSTEM}{os.path.abspath(folder)}", base), link.checksum  # noqa: PTH100
    yield f"{file}{SLIM_SUFFIX}", None
    if build_id is not None:
        yield join(_OF_SYSTEM, ".build-id", build_id[:2], f"{build_id[2:]}.debug"), None


def _joined(data: bytes, path: str, checksum: int | None, limits: Limits, allowed: AllowedFiles | None) -> bytes | None:
    """None where the file is another build's, or something else, or cannot be joined to such an object: its name alone says nothing. Of a
    file to which the object links that is raised."""
    from symd.debuginfo.split import join  # noqa: PLC0415 - few objects have such a file

    debug = read_input(path, limits, allowed=allowed)
    found = zlib.crc32(debug)
    if checksum not in (None, found):
        message = f"it is of another build: its CRC-32 is {found:#010x}, where the object links to {checksum:#010x}"
        raise HashMismatch(message, where=path)
    if not amdgpu.claims(debug):
        return None
    try:
        return join.joined(data, debug, Budget(limits, len(data) + len(debug)))
    except (HashMismatch, NoDebugData, Unsupported):
        return None
    except SymdError as error:
        raise error.prefix_where(path) from None
