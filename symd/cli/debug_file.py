"""The debug file of an AMD code object without debug sections: the one that its .gnu_debuglink names, as debuggers look for it, or
what ``symd slim`` left beside it.

Source: GDB's manual, "Separate Debug Files": the file's name, padded to 4 bytes, and the CRC-32 of its content."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from symd import elf
from symd.budget import Budget
from symd.cli.input import comes_to_an_end, read_input
from symd.cli.output import complain
from symd.config import Limits
from symd.containers.amd import amdgpu
from symd.errors import HashMismatch, NoDebugData, SymdError, Unsupported

if TYPE_CHECKING:
    from symd.cli.left_out import AllowedFiles

_LINK, _FOLDER = ".gnu_debuglink", ".debug"
SLIM_SUFFIX = ".debug"


def with_debug_file(data: bytes, file: str, limits: Limits, allowed: AllowedFiles | None = None) -> bytes:
    """The code object ``data``, the content of ``file``, joined with its debug file where that lies in the same folder, or in
    ``.debug`` there under the link's name; ``data`` itself where it needs none or none of its build is there. Those
    that cannot be used are told on stderr then, for nobody named them. With ``allowed`` no other file is opened."""
    unusable: list[SymdError] = []
    for path, checksum in debug_files(data, file, limits, allowed):
        try:
            joined = _joined(data, path, checksum, limits, allowed)
        except SymdError as error:
            unusable.append(error)
            continue
        if joined is not None:
            return joined
    for each in unusable:
        complain(f"answered without a debug file: {each}")
    return data


def debug_files(
    data: bytes, file: str, limits: Limits, allowed: AllowedFiles | None = None
) -> list[tuple[str, int | None]]:
    """Files that may be the debug file of ``data``: paths, and the CRC-32 of the content where the object says it."""
    if file == "-" or not amdgpu.claims(data):
        return []
    try:
        image = elf.parse(data, Budget(limits, len(data)))
    except SymdError:
        return []  # whoever reads it next says what is wrong with it
    if any(section.name.startswith((".debug_", ".zdebug_")) for section in image.sections):
        return []
    return [(path, checksum) for path, checksum in _candidates(image, file) if comes_to_an_end(path, allowed)]


def _candidates(image: elf.Elf, file: str) -> Iterator[tuple[str, int | None]]:
    folder, own = os.path.split(file)
    link = image.by_name.get(_LINK)
    name, _, _ = link.data.partition(b"\0") if link is not None else (b"", b"", b"")
    if link is not None and 0 < len(name) <= len(link.data) - 5:
        base = os.path.basename(os.fsdecode(name))  # noqa: PTH119 - pathlib is slow to load
        [checksum] = struct.unpack("<I", link.data[-4:])
        if base != own:
            yield os.path.join(folder, base), checksum  # noqa: PTH118 - likewise
        yield os.path.join(folder, _FOLDER, base), checksum  # noqa: PTH118 - likewise
    yield f"{file}{SLIM_SUFFIX}", None


def _joined(data: bytes, path: str, checksum: int | None, limits: Limits, allowed: AllowedFiles | None) -> bytes | None:
    """None where the file is another build's, or something else, or cannot be joined to such an object: its name alone says nothing."""
    from symd.split_debug import join  # noqa: PLC0415 - few objects have such a file

    debug = read_input(path, limits, allowed=allowed)
    if not amdgpu.claims(debug) or (checksum is not None and zlib.crc32(debug) != checksum):
        return None
    try:
        return join.joined(data, debug, Budget(limits, len(data) + len(debug)))
    except (HashMismatch, NoDebugData, Unsupported):
        return None
    except SymdError as error:
        raise error.prefix_where(path) from None
