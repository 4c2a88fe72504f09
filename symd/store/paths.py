"""Where things lie in a store's folder."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from symd.errors import InvalidInput, ModuleNotFound
from symd.model.identities import Digest, checked_digest, is_digest
from symd.store.files import make_folder


def not_found(digest: str) -> ModuleNotFound:
    return ModuleNotFound(
        f"no module {digest} in this store", hint="add it first", metadata={"module": f"modules/{digest}"}
    )


def digest_of(data: bytes | bytearray | memoryview) -> Digest:
    """Lower-case hexadecimal SHA-256: the name of a module."""
    return Digest(hashlib.sha256(data).hexdigest())


class StorePaths:
    """``modules/ab/<sha256>``, ``index/<format version>/ab/<sha256>.idx``, the catalogue beside them; ``incoming/`` holds
    files being written and ``damaged/`` those whose bytes were not what they should be."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.incoming = root / "incoming"
        self.damaged = root / "damaged"
        self._modules = root / "modules"
        self._index = root / "index"

    def create(self, *, durable: bool) -> None:
        for folder in (self.incoming, self._modules, self._index):
            make_folder(folder, durable=durable)

    def check_store(self) -> None:
        """Raises ``InvalidInput`` where the folder has not what a store's has."""
        if not self._modules.is_dir():
            raise InvalidInput("there is no store", where=str(self.root), hint="give its folder with --store")

    def module(self, digest: str) -> Path:
        return self._modules / checked_digest(digest)[:2] / digest

    def aside(self, digest: str) -> Path:
        """Where a module's file goes that has other bytes than the module."""
        return self.damaged / checked_digest(digest)

    def index(self, digest: str, version: int) -> Path:
        return self._index / str(version) / checked_digest(digest)[:2] / f"{digest}.idx"

    def indexes(self, digest: str) -> Iterator[Path]:
        """The index files of one module, of every format version."""
        return self._index.glob(f"*/{checked_digest(digest)[:2]}/{digest}.idx")

    def all_modules(self) -> set[Digest]:
        """The digests that have a module file."""
        return {path.name for path in self._modules.glob("??/*") if is_digest(path.name)}

    def all_damaged(self) -> set[Digest]:
        """The digests of which a file was set aside."""
        return {Digest(path.name) for path in self.damaged.glob("*") if is_digest(path.name)}

    def all_indexes(self) -> set[tuple[Digest, int]]:
        """Digest and format version of every index file."""
        found = ((path.stem, path.parts[-3]) for path in self._index.glob("*/??/*.idx"))
        return {(digest, int(version)) for digest, version in found if is_digest(digest) and version.isdecimal()}
