"""The full paths of the files of line tables, joined by ``path_names``, in bounds."""

from __future__ import annotations

from symd.config import Limits
from symd.core.line_header import LineHeader
from symd.debuginfo.dwarf.path_names import table_paths
from symd.formats.budget import exceeded


class FilePaths:
    """The paths of an object's line tables, made within ``Limits.path_bytes`` bytes in all. ``section`` is where the tables
    stand."""

    def __init__(self, section: str, limits: Limits) -> None:
        self._section, self._most = section, limits.path_bytes
        self._left = limits.path_bytes

    def of(self, header: LineHeader, comp_dir: bytes) -> list[bytes]:
        """``table_paths``. Raises LimitExceeded before more is made than may be."""
        found = []
        for path in table_paths(header.version, header.directories, header.files, comp_dir):
            self._left -= len(path)
            if self._left < 0:
                what = f"file paths take more than {self._most} bytes"
                raise exceeded("path_bytes", self._most, what, self._section)
            found.append(path)
        return found
