"""The tools whose names symd answers to: for what is no GPU code they are asked themselves."""

from __future__ import annotations

import mmap
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NoReturn, cast

from symd.cli.output import SHIM_MARK
from symd.config import Limits
from symd.engine.files.opened_file import LargeFile, SmallFile, opened_by_size
from symd.errors import ToolMissing, UnknownFormat, Unsupported
from symd.formats.containers import host_elf
from symd.model.answers import Answer
from symd.system.installed import chosen_folders, programs

_SCRIPT_BYTES = 512

Symbolize = Callable[..., Sequence[Answer]]
GpuModule = LargeFile | SmallFile


def gpu_module(file: str, limits: Limits) -> GpuModule | None:
    """What answers questions about ``file``; None where its addresses are not those of GPU code: a program of the host
    (its device code is asked for in a file of its own) or a format that symd does not read. Raises what opening it
    raises."""
    if _is_host_program(file):
        return None
    try:
        return opened_by_size(file, limits)
    except (Unsupported, UnknownFormat):
        return None


def _is_host_program(file: str) -> bool:
    try:
        with open(file, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as mapped:  # noqa: PTH123 - as in input.py
            return host_elf.claims(cast("bytes", mapped))
    except (OSError, ValueError):
        return False  # opening it reports what is wrong


def original(name: str) -> str:
    """The program that is really called so: in a folder of SYMD_TOOLS, else the first in PATH, else the newest
    ``name-VERSION``. Raises ToolMissing."""
    for path in (*_called(name, chosen_folders()), *programs(name)):
        if not _is_shim(path):
            return path
    raise ToolMissing(
        f"{name} is not installed, and this file has no GPU code of its own",
        where=name,
        hint="symd answers for GPU modules; install the tool itself for programs of the host",
    )


def _called(name: str, first: Iterable[str]) -> Iterator[str]:
    """The programs of that name in some folders, then in those of PATH."""
    for folder in (*first, *os.environ.get("PATH", os.defpath).split(os.pathsep)):
        found = shutil.which(name, path=folder) if folder else None
        if found is not None:
            yield found


def become(name: str, arguments: Sequence[str]) -> NoReturn:
    """Go on as the original tool. Raises ToolMissing."""
    program = original(name)
    os.execv(program, [program, *arguments])  # noqa: S606 - the user's own command line, handed on


def _is_shim(path: str) -> bool:
    try:
        with open(path, "rb") as stream:  # noqa: PTH123 - as in input.py
            return SHIM_MARK.encode() in stream.read(_SCRIPT_BYTES)
    except OSError:
        return True
