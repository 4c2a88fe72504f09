"""The full paths of the files of line tables, joined by ``path_names``, in bounds.

How the parts of a source file's path are joined, as llvm-symbolizer joins absolute paths: compilation directory, include
directory, name; nothing is normalised. Imports what everybody has imported: one question of one file needs it too.
"""

from __future__ import annotations

from symd.core.line_header import LineHeader
from symd.formats.budget import beyond

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


PATH_BYTES = 256 << 20
"""Bytes of the paths that directories and files of one code object's line tables make: a few long directories and many files multiply."""
_WINDOWS_ROOT = rb"[A-Za-z]:[\\/]|\\\\[^\\/]+[\\/]"


def is_absolute(path: bytes) -> bool:
    """Absolute on POSIX or on Windows: "/x", "C:\\x", "C:/x", "\\\\host\\x"."""
    if path.startswith(b"/"):
        return True
    if path[1:2] != b":" and not path.startswith(b"\\\\"):
        return False
    import re  # noqa: PLC0415 - slow to import, and few paths begin so

    return re.match(_WINDOWS_ROOT, path) is not None


def append(path: bytes, part: bytes) -> bytes:
    """``path`` and ``part`` with exactly one separator made where neither brings one."""
    if not part or not path:
        return path + part
    if path.endswith(b"/"):
        return path + part.lstrip(b"/")
    return path + part if part.startswith(b"/") else path + b"/" + part


def join(comp_dir: bytes, directory: bytes, name: bytes) -> bytes:
    """The path of ``name`` in ``directory`` of a unit compiled in ``comp_dir``; each may be empty or absolute. Nothing where there is no name,
    as in a table whose strings are missing: a folder is no source file."""
    if not name or is_absolute(name):
        return name
    if not is_absolute(directory):
        directory = append(comp_dir, directory)
    return append(directory, name)


def table_paths(
    version: int, directories: Sequence[bytes], files: Sequence[tuple[bytes, int]], comp_dir: bytes
) -> Iterator[bytes]:
    """The full paths of a line table's ``files`` (name and directory index), by file register: from 0 in DWARF 5, from 1 before
    (0 is b""), where directory 0 is the compilation's."""
    if version >= 5:
        comp_dir = comp_dir or (directories[0] if directories else b"")
    else:
        directories = [b"", *directories]
        yield b""
    for name, number in files:
        base = b"" if version >= 5 and number == 0 else comp_dir
        yield join(base, directories[number] if 0 <= number < len(directories) else b"", name)


class FilePaths:
    """The paths of an object's line tables, made within ``PATH_BYTES`` bytes in all. ``section`` is where the tables
    stand."""

    def __init__(self, section: str) -> None:
        self._section, self._left = section, PATH_BYTES

    def of(self, header: LineHeader, comp_dir: bytes) -> list[bytes]:
        """``table_paths``. Raises LimitExceeded before more is made than may be."""
        found = []
        for path in table_paths(header.version, header.directories, header.files, comp_dir):
            self._left -= len(path)
            if self._left < 0:
                what = f"file paths take more than {PATH_BYTES} bytes"
                raise beyond("path_bytes", PATH_BYTES, what, self._section)
            found.append(path)
        return found
