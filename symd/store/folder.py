"""A store's folder: who may change it, and where the files of modules and indexes are in it.

If another user could change the folder, it could hold other modules, and answers, from one moment to the next. Contents
are told from names and kinds alone; nothing is opened, so that no FIFO and no device can hold up the caller.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from symd.errors import FailedPrecondition, InvalidInput, ModuleNotFound
from symd.model.identities import Digest, checked_digest, is_digest
from symd.store.files import make_folder
from symd.system.symlinks import replaceable, resolved

log = logging.getLogger("symd.store")

OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
"""What nobody but the store's user may do with what is in its folder: whoever may open it, if only to read it, may
hold its lock (flock(2))."""
_WRITING: Final = stat.S_IWGRP | stat.S_IWOTH


def check_owner(folder: Path) -> None:
    """Raises ``FailedPrecondition`` where ``folder`` is there and belongs to another user than the one of this process.
    Root is no exception: what root writes in a user's store, that user's daemon could not open any more. Raises
    OSError."""
    try:
        owner = folder.stat().st_uid
    except FileNotFoundError:
        return
    if owner != os.geteuid():
        hint = f"run this as user {owner}, or choose another store folder with --store"
        raise FailedPrecondition("the store belongs to another user", where=str(folder), hint=hint)


def keep_from_others(folder: Path) -> None:
    """Let nobody else open what is in a folder, as one is that was copied without its mode. Raises OSError."""
    mode = stat.S_IMODE(folder.stat().st_mode)
    if mode & OTHERS:
        folder.chmod(mode & ~OTHERS)
        log.warning(
            "%s had the mode %04o, with which other users may open it: it has %04o now", folder, mode, mode & ~OTHERS
        )


def check_private(folder: Path) -> None:
    """Raises ``FailedPrecondition`` where ``folder`` is not this user's, or others may write in it or put another
    folder in its place. Raises OSError."""
    check_owner(folder)
    if not folder.exists():
        resolved(folder)  # it would be made where a stranger's link leads
        return
    if folder.stat().st_mode & _WRITING:
        raise FailedPrecondition(
            "other users may change the store",
            where=str(folder),
            hint=f"chmod go-w {folder}, or choose another with --store",
        )
    above = replaceable(folder)
    if above is not None:
        raise FailedPrecondition(
            "other users may put another folder in the place of the store's",
            where=str(above),
            hint=f"{_kept_from_others(above)}, or choose another store folder with --store",
        )


def _kept_from_others(above: Path) -> str:
    return "name the folder itself" if above.is_symlink() else f"chmod o-w {above} (or +t)"


_NO_STORE: Final = (
    "a store is made by its daemon (symd serve --store FOLDER); `symd status` says where that of a daemon of yours is"
)
_ADD: Final = "add it first: UploadModule, or Client.add in Python"


def not_found(digest: str) -> ModuleNotFound:
    return ModuleNotFound(f"no module {digest} in this store", hint=_ADD, metadata={"module": f"modules/{digest}"})


def digest_of_bytes(data: bytes | bytearray | memoryview) -> Digest:
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
        self.catalogue = root / "catalogue.sqlite"
        self.catalogue_copy = root / "catalogue.copy"

    @property
    def folders(self) -> tuple[Path, ...]:
        """What is in the store's folder beside the catalogue."""
        return self.incoming, self.modules, self.index_files, self.damaged

    def create(self, *, durable: bool) -> None:
        for folder in (self.incoming, self.modules, self.index_files):
            make_folder(folder, durable=durable)

    def check_store(self) -> None:
        """Raises ``InvalidInput`` where the folder has not what a store's has, OSError where nobody may look."""
        names = {entry.name for entry in _entries(self.root)}
        beside = {self.index_files.name, self.incoming.name, "catalogue.lock"}
        beside.add(self.catalogue.name)  # a copy made by hand has it and the modules alone
        if self.modules.name not in names or not names & beside:
            raise InvalidInput("there is no store", where=str(self.root), hint=_NO_STORE)

    def module(self, digest: str) -> Path:
        return self.modules / checked_digest(digest)[:2] / digest

    def index(self, digest: str, version: int) -> Path:
        return Path(f"{self.index_files}/{version}/{checked_digest(digest)[:2]}/{digest}.idx")

    def indexes(self, digest: str) -> Iterator[Path]:
        """The index files of one module, of every format version."""
        return self.index_files.glob(f"*/{checked_digest(digest)[:2]}/{digest}.idx")

    def damaged_module(self, digest: str) -> Path:
        """Where a module's file is set aside that has other bytes than the module."""
        return self.damaged / checked_digest(digest)

    def damaged_modules(self) -> set[Digest]:
        """The modules of which a file was set aside."""
        return {entry.name for entry in _entries(self.damaged) if is_digest(entry.name)}


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """What is in a folder; nothing where there is none."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError):
        return []


_KEPT = re.compile(r"catalogue\.(?:sqlite|copy)(?:-wal|-shm|-journal)?|catalogue\.lock")
_SHARD = re.compile(r"[0-9a-f]{2}")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_OF_THE_SYSTEM = frozenset({"lost+found"})


@dataclass(slots=True)
class Tree:
    """What is there: bytes of each module's file and of each index's. Whatever has another name, or is no file, is not
    symd's, and left alone."""

    modules: dict[Digest, int] = field(default_factory=dict)
    indexes: dict[tuple[Digest, int], int] = field(default_factory=dict)


def look(paths: StorePaths) -> Tree:
    """What is there now. Raises OSError where a folder cannot be listed."""
    tree = Tree()
    for digest, size in _sizes(paths.modules, ""):
        tree.modules[digest] = size
    for version in _entries(paths.index_files):
        if _VERSION.fullmatch(version.name):
            for digest, size in _sizes(Path(version), ".idx"):
                tree.indexes[digest, int(version.name)] = size
    return tree


def _sizes(folder: Path, ending: str) -> Iterator[tuple[Digest, int]]:
    """The files in the folders below ``folder`` that are called as a digest is, and the bytes of each."""
    for shard in _entries(folder):
        for entry in _entries(Path(shard)) if _SHARD.fullmatch(shard.name) else ():
            digest = entry.name.removesuffix(ending)
            if entry.name == digest + ending and is_digest(digest) and digest.startswith(shard.name):
                with suppress(FileNotFoundError):
                    if entry.is_file(follow_symlinks=False):
                        yield digest, entry.stat(follow_symlinks=False).st_size


def keep_own_from_others(paths: StorePaths) -> None:
    """Let nobody else open what is in the store's folder: whoever may open its lock may hold it. Raises OSError."""
    own = {folder.name for folder in paths.folders}
    for entry in _entries(paths.root):
        if not entry.is_symlink() and (entry.name in own or _KEPT.fullmatch(entry.name)):
            with suppress(FileNotFoundError):  # the last process that closes a catalogue removes SQLite's files
                keep_from_others(Path(entry))


def check_links(paths: StorePaths) -> None:
    """Raises ``FailedPrecondition`` where a folder of the store, or its catalogue, is a link: files are renamed from
    one folder into another, and whoever may write where the link leads may change the store. Raises OSError."""
    names = {folder.name for folder in paths.folders}
    with os.scandir(paths.root) as found:
        links = [Path(entry) for entry in found if entry.is_symlink()]
    for link in links:
        if link.name in names or _KEPT.fullmatch(link.name):
            raise FailedPrecondition(
                f"it is a symbolic link to {link.readlink()}",
                where=str(link),
                hint="move what it leads to into its place, or choose with --store the folder in which everything is to stand",
            )


def check_no_others(paths: StorePaths) -> None:
    """Raises ``FailedPrecondition`` where the folder has neither a catalogue nor modules, and something else: a start
    would take files of others for its own. Raises OSError."""
    try:
        with os.scandir(paths.root) as found:
            entries = list(found)
    except FileNotFoundError:
        return
    if any(_KEPT.fullmatch(entry.name) for entry in entries) or _has_shards(paths.modules):
        return
    own = {folder.name for folder in paths.folders} | _OF_THE_SYSTEM
    others = sorted(entry.name for entry in entries if entry.name not in own or entry.is_file(follow_symlinks=False))
    if others:
        raise FailedPrecondition(
            f"the folder is not a store, and is not empty: {ascii(others[0])[1:-1]}",
            where=str(paths.root),
            hint="choose with --store an empty folder, or one that is not there yet",
        )


def _has_shards(modules: Path) -> bool:
    try:
        with os.scandir(modules) as found:
            return any(_SHARD.fullmatch(entry.name) for entry in found)
    except OSError:
        return False
