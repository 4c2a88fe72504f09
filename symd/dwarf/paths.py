"""The full path of a line-table file, joined as llvm-symbolizer joins absolute paths: compilation directory, include
directory, name; nothing is normalised."""

from __future__ import annotations

import re
from collections.abc import Iterator

from symd.budget import exceeded
from symd.config import Limits
from symd.dwarf.line_header import LineHeader

_WINDOWS_ROOT = re.compile(rb"[A-Za-z]:[\\/]|\\\\[^\\/]+[\\/]")


def is_absolute(path: bytes) -> bool:
    """Absolute on POSIX or on Windows: "/x", "C:\\x", "C:/x", "\\\\host\\x"."""
    return path.startswith(b"/") or _WINDOWS_ROOT.match(path) is not None


def append(path: bytes, part: bytes) -> bytes:
    """``path`` and ``part`` with exactly one separator made where neither brings one."""
    if not part or not path:
        return path + part
    if path.endswith(b"/"):
        return path + part.lstrip(b"/")
    return path + part if part.startswith(b"/") else path + b"/" + part


def join(comp_dir: bytes, directory: bytes, name: bytes) -> bytes:
    """The path of ``name`` in ``directory`` of a unit compiled in ``comp_dir``; each may be empty or absolute."""
    if is_absolute(name):
        return name
    if not is_absolute(directory):
        directory = append(comp_dir, directory)
    return append(directory, name)


def file_paths(header: LineHeader, comp_dir: bytes) -> Iterator[bytes]:
    """The full paths of a line table's files, by file register: from 0 in DWARF 5, from 1 before (0 is b""), where
    directory 0 is the compilation's."""
    if header.version >= 5:
        directories = header.directories
        comp_dir = comp_dir or (directories[0] if directories else b"")
    else:
        directories = [b"", *header.directories]
        yield b""
    for name, number in header.files:
        base = b"" if header.version >= 5 and number == 0 else comp_dir
        yield join(base, directories[number] if 0 <= number < len(directories) else b"", name)


class FilePaths:
    """The paths of an object's line tables, made within ``Limits.path_bytes`` bytes in all. ``section`` is where the tables
    stand."""

    def __init__(self, section: str, limits: Limits) -> None:
        self._section, self._most = section, limits.path_bytes
        self._left = limits.path_bytes

    def of(self, header: LineHeader, comp_dir: bytes) -> list[bytes]:
        """``file_paths``. Raises LimitExceeded before more is made than may be."""
        found = []
        for path in file_paths(header, comp_dir):
            self._left -= len(path)
            if self._left < 0:
                what = f"file paths take more than {self._most} bytes"
                raise exceeded("path_bytes", self._most, what, self._section)
            found.append(path)
        return found
