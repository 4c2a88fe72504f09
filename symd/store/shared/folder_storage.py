"""An object storage that is a folder, ``file:///folder``: what a network file system shares between machines, and what tests compare with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from symd.errors import InvalidInput, StoreUnavailable
from symd.store.files import NOT_MADE, IncomingFile, disk, make_folder, open_file, size_of, sweep
from symd.store.ownership import check_private
from symd.store.shared.object_storage import check_size, checked_name
from symd.system.private_files import written

PIECE: Final = 1 << 20
"""Bytes copied at a time."""


class FolderStorage:
    """Each name is a file below ``root``. ``.incoming/`` has what is being written."""

    def __init__(self, root: Path, *, make: bool = True) -> None:
        """Without ``make`` nothing is written, and ``InvalidInput`` is raised where there is no such folder."""
        self._root = root
        self._incoming = root / ".incoming"
        with disk(root):
            if not make and not root.is_dir():
                raise InvalidInput("there is no such folder", where=str(root), hint="give that of the daemons")
            check_private(root)
            if make:
                with disk(root, NOT_MADE):
                    make_folder(self._incoming)
                sweep(self._incoming)
            self._is_known = self._incoming.is_dir()

    def put(self, name: str, path: Path) -> None:
        """``ObjectStorage.put``; on return the file survives a power cut."""
        target = self._path(name)
        with disk(target):
            file = IncomingFile(self._incoming)
            try:
                with os.fdopen(open_file(path), "rb") as source:
                    while piece := source.read(PIECE):
                        file.write(piece)
                file.sync()
                file.publish(target)
            finally:
                file.discard()

    def fetch(self, name: str, path: Path, most: int) -> bool:
        """``ObjectStorage.fetch``."""
        source = self._path(name)
        with disk(source):
            try:
                handle = open_file(source)
            except (FileNotFoundError, NotADirectoryError):
                self._check_in_place()
                return False
            with os.fdopen(handle, "rb") as found:
                check_size(name, os.fstat(handle).st_size, most)
                with disk(path), written(path) as target:
                    shutil.copyfileobj(found, target, PIECE)
        return True

    def size(self, name: str) -> int | None:
        """``ObjectStorage.size``."""
        path = self._path(name)
        with disk(path):
            try:
                size = size_of(path)
            except NotADirectoryError:
                size = None
            if size is None:
                self._check_in_place()
            return size

    def remove(self, name: str) -> None:
        """``ObjectStorage.remove``."""
        path = self._path(name)
        with disk(path), suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            path.unlink()

    def names(self, prefix: str) -> Iterator[tuple[str, int]]:
        """``ObjectStorage.names``."""
        with disk(self._root):
            self._check_in_place()
            yield from _files(self._root, "", prefix)

    def _check_in_place(self) -> None:
        """Raises ``StoreUnavailable`` where the folder, which was opened, is not there any more: nothing in it is lost."""
        if self._is_known and not self._incoming.is_dir():
            raise StoreUnavailable(
                "the folder of the object storage is not what it was: it has no .incoming any more",
                where=str(self._root),
                hint="mount it again, or put it back",
                metadata={"storage": str(self._root)},
            )

    def _path(self, name: str) -> Path:
        return self._root / checked_name(name)


def _files(folder: Path, above: str, prefix: str) -> Iterator[tuple[str, int]]:
    """The files below ``folder`` whose names begin with ``prefix``, in the order of their names, which begin with ``above``."""
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not entry.name.startswith(".")]
    except FileNotFoundError:
        return  # it was removed meanwhile
    named = sorted((f"{above}{entry.name}{'/' if entry.is_dir() else ''}", entry) for entry in entries)
    for name, entry in named:
        if entry.is_dir():
            if name.startswith(prefix) or prefix.startswith(name):
                yield from _files(Path(entry.path), name, prefix)
        elif name.startswith(prefix) and (size := size_of(Path(entry.path))) is not None:
            yield name, size
