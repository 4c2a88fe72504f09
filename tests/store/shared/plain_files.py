"""A stand-in for ``CachedFiles`` of a few lines, with its files in one folder: what the tests of the catalogue need of an object storage."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from symd.store.files import mapped


class PlainFiles:
    """For one process. ``log`` is what was asked of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log: list[tuple[str, str]] = []

    @contextmanager
    def file(self, name: str) -> Iterator[Path | None]:
        path = self.folder / name
        yield path if path.exists() else None

    def mapped(self, name: str) -> memoryview | None:
        path = self.folder / name
        return mapped(path) if path.exists() else None

    def add(self, name: str, path: Path) -> None:
        self.log.append(("add", name))
        target = self.folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target.with_suffix(".new"))
        target.with_suffix(".new").replace(target)

    def sizes(self, names: Sequence[str], seconds: float = 0.0) -> dict[str, int]:
        return {name: path.stat().st_size for name in names if (path := self.folder / name).exists()}

    def drop(self, name: str) -> None:
        self.log.append(("drop", name))

    def remove(self, name: str) -> None:
        self.log.append(("remove", name))
        (self.folder / name).unlink(missing_ok=True)

    def names(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}
