"""Files that a transaction removes: out of their places at once, gone for good when it has been committed, and back where it was not."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from symd.store.files import incoming_name, remove, sync_folder

log = logging.getLogger("symd.store")


class RemovedFiles:
    """Those of one transaction. They wait in ``folder``, that of files on their way in: what a kill leaves there goes at the next start."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._moved: list[tuple[Path, Path]] = []

    def remove(self, path: Path) -> None:
        """Take a file out of its place, if it is there. Raises OSError."""
        aside = self._folder / incoming_name()
        try:
            path.rename(aside)
        except FileNotFoundError:
            return
        self._moved.append((path, aside))

    def put_back(self) -> None:
        """Into the places that nobody has taken meanwhile."""
        for path, aside in self._moved:
            try:
                if path.exists():
                    remove(aside)
                else:
                    aside.rename(path)
                    self._make_durable(path)
            except OSError as error:
                log.error("%s could not be put back: %s", path, error.strerror)  # noqa: TRY400 - it says all

    def forget(self) -> None:
        """Remove them for good."""
        for path, aside in self._moved:
            try:
                remove(aside)
            except OSError as error:
                log.error("%s was removed, and waits as %s: %s", path, aside, error.strerror)  # noqa: TRY400 - it says all

    def _make_durable(self, path: Path) -> None:
        """A power cut leaves what was put back in its place: among files on their way in it would go. A full disk may refuse that."""
        with suppress(OSError):
            sync_folder(path.parent)


@contextmanager
def removing(folder: Path) -> Iterator[RemovedFiles]:
    """For a transaction that begins and ends inside."""
    removed = RemovedFiles(folder)
    try:
        yield removed
    except BaseException:
        removed.put_back()
        raise
    removed.forget()
