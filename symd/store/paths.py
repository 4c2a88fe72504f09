"""Where things lie in a store's folder."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from symd.errors import InvalidInput, ModuleNotFound
from symd.model.identities import Digest, checked_digest, is_digest
from symd.store.files import make_folder

_NO_STORE: Final = (
    "a store is made by its daemon (symd serve --store FOLDER); `symd status` says where that of a daemon of yours is"
)
CATALOGUE_NAME: Final = re.compile(r"catalogue(?:-([1-9][0-9]{0,8}))?\.sqlite")
"""The names of a catalogue's file, with the number of one that replaced another."""
_ADD: Final = "add it first: symd info --server ADDRESS FILE, Client.add or UploadModule"


def not_found(digest: str) -> ModuleNotFound:
    return ModuleNotFound(f"no module {digest} in this store", hint=_ADD, metadata={"module": f"modules/{digest}"})


def digest_of(data: bytes | bytearray | memoryview) -> Digest:
    """Lower-case hexadecimal SHA-256: the name of a module."""
    return Digest(hashlib.sha256(data).hexdigest())


class StorePaths:
    """The files and folders of a store below ``root``: ``modules/ab/<sha256>``, ``index/<format
    version>/ab/<sha256>.idx``, the catalogue beside them and a copy of it; ``incoming/`` holds files being written
    and ``damaged/`` those whose bytes were not what they should be."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.incoming = root / "incoming"
        self.damaged = root / "damaged"
        self.modules = root / "modules"
        self.index_files = root / "index"
        self.catalogue_copy = root / "catalogue.copy"

    @property
    def folders(self) -> tuple[Path, ...]:
        """What stands in the store's folder beside the catalogue."""
        return self.incoming, self.modules, self.index_files, self.damaged

    def create(self, *, durable: bool) -> None:
        for folder in (self.incoming, self.modules, self.index_files):
            make_folder(folder, durable=durable)

    def check_store(self) -> None:
        """Raises ``InvalidInput`` where the folder has not what a store's has, OSError where nobody may look."""
        names = {entry.name for entry in _entries(self.root)}
        beside = {self.index_files.name, self.incoming.name, "catalogue.lock"}
        has_catalogue = any(map(CATALOGUE_NAME.fullmatch, names))  # a copy made by hand has it and the modules alone
        if self.modules.name not in names or not (has_catalogue or names & beside):
            raise InvalidInput("there is no store", where=str(self.root), hint=_NO_STORE)

    def module(self, digest: str) -> Path:
        return self.modules / checked_digest(digest)[:2] / digest

    def index(self, digest: str, version: int) -> Path:
        return Path(f"{self.index_files}/{version}/{checked_digest(digest)[:2]}/{digest}.idx")

    def indexes(self, digest: str) -> Iterator[Path]:
        """The index files of one module, of every format version."""
        return self.index_files.glob(f"*/{checked_digest(digest)[:2]}/{digest}.idx")

    def asides(self, digest: str) -> list[Path]:
        """What was set aside in the place of a module's file, which has other bytes than the module: called as the digest, or with more behind it."""
        return [Path(entry) for entry in _entries(self.damaged) if entry.name.startswith(checked_digest(digest))]

    def all_damaged(self) -> set[Digest]:
        """The digests of which something was set aside."""
        return {name for entry in _entries(self.damaged) if is_digest(name := entry.name[:64])}

    def damaged_files(self) -> dict[Digest, Path]:
        """A file that was set aside for each such digest; a folder, a link or a pipe that stood in a module's place never was a module."""
        return {
            name: Path(entry)
            for entry in _entries(self.damaged)
            if entry.is_file(follow_symlinks=False) and is_digest(name := entry.name[:64])
        }


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where there is none."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []
