"""A store's folder: who may change it, where the files of modules and indexes are in it, and what else is there.

If another user could change the folder, it could hold other modules, and answers, from one moment to the next. Contents
are told from names and kinds alone; nothing is opened, so that no FIFO, no device and no huge file can hold up the
caller.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

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
CATALOGUE_NAME: Final = re.compile(r"catalogue(?:-([1-9][0-9]{0,8}))?\.sqlite")
"""The names of a catalogue's file, with the number of one that replaced another."""
_ADD: Final = "add it first: UploadModule, or Client.add in Python"


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
        """What is in the store's folder beside the catalogue."""
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
        """What was set aside in the place of a module's file, which has other bytes than the module: called as the
        digest, or with more behind it."""
        return [Path(entry) for entry in _entries(self.damaged) if entry.name.startswith(checked_digest(digest))]

    def all_damaged(self) -> set[Digest]:
        """The digests of which something was set aside."""
        return {name for entry in _entries(self.damaged) if is_digest(name := entry.name[:64])}

    def damaged_files(self) -> dict[Digest, Path]:
        """A file that was set aside for each such digest; a folder, a link or a pipe that was in a module's place
        never was a module."""
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


_KEPT = re.compile(r"catalogue(?:(?:-[1-9][0-9]{0,8})?\.sqlite|\.copy)(?:-wal|-shm|-journal)?|catalogue\.lock")
_SHARD = re.compile(r"[0-9a-f]{2}")
_VERSION = re.compile(r"[1-9][0-9]{0,8}")
_INCOMING = re.compile(r"incoming-.+")
_OF_THE_SYSTEM = frozenset({"lost+found"})
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a FIFO"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class Misplaced(NamedTuple):
    """Something in a place where symd would look for something else, or that it may not read."""

    path: Path
    problem: str
    mode: int | None
    """The mode with which it can be used; None where it cannot."""


@dataclass(slots=True)
class Tree:
    """What is there: bytes of each module's file and of each index's, and what does not belong."""

    modules: dict[Digest, int] = field(default_factory=dict)
    indexes: dict[tuple[Digest, int], int] = field(default_factory=dict)
    misplaced: list[Misplaced] = field(default_factory=list)
    unknown: list[Path] = field(default_factory=list)
    """Files and folders with names that symd gives to nothing. They are left alone."""
    unreadable: set[Path] = field(default_factory=set)
    """Folders that cannot be listed, and files that cannot be read."""


def look(paths: StorePaths) -> Tree:
    """What is there now. Raises OSError where the store's own folder cannot be listed."""
    return _Looking(paths).seen()


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


class _Looking:
    """One look at a store's folder."""

    def __init__(self, paths: StorePaths) -> None:
        self._paths = paths
        self._owner = paths.root.stat().st_uid
        self._tree = Tree()

    def seen(self) -> Tree:
        self._root()
        self._modules()
        self._indexes()
        for entry in self._listed(self._paths.incoming):
            if _INCOMING.fullmatch(entry.name):
                self._size(entry, stat.S_ISREG)
            else:
                self._tree.unknown.append(Path(entry.path))
        return self._tree

    def _root(self) -> None:
        folders = {folder.name for folder in self._paths.folders}
        with os.scandir(self._paths.root) as found:
            for entry in found:
                if entry.name in folders:
                    self._size(entry, stat.S_ISDIR, refused=OTHERS)
                elif _KEPT.fullmatch(entry.name):
                    self._size(entry, stat.S_ISREG, stat.S_IRUSR | stat.S_IWUSR, refused=OTHERS)
                elif entry.name not in _OF_THE_SYSTEM:
                    self._tree.unknown.append(Path(entry.path))

    def _modules(self) -> None:
        for shard in self._folders(self._paths.modules, _SHARD):
            for entry in self._listed(shard):
                digest = entry.name
                if not is_digest(digest) or digest[:2] != shard.name:
                    self._tree.unknown.append(Path(entry.path))
                elif (size := self._size(entry, stat.S_ISREG)) is not None:
                    self._tree.modules[digest] = size

    def _indexes(self) -> None:
        for version in self._folders(self._paths.index_files, _VERSION):
            for shard in self._folders(version, _SHARD):
                for entry in self._listed(shard):
                    self._index(entry, int(version.name), shard.name)

    def _index(self, entry: os.DirEntry[str], version: int, shard: str) -> None:
        digest, dot, ending = entry.name.partition(".")
        if not is_digest(digest) or digest[:2] != shard or dot + ending != ".idx":
            self._tree.unknown.append(Path(entry.path))
        elif (size := self._size(entry, stat.S_ISREG)) is not None:
            self._tree.indexes[digest, version] = size

    def _folders(self, folder: Path, names: re.Pattern[str]) -> Iterator[Path]:
        """The folders in ``folder`` that have such names."""
        for entry in self._listed(folder):
            if not names.fullmatch(entry.name):
                self._tree.unknown.append(Path(entry.path))
            elif self._size(entry, stat.S_ISDIR) is not None:
                yield Path(entry.path)

    def _listed(self, folder: Path) -> list[os.DirEntry[str]]:
        """What is in a folder; nothing where it is none, or nobody may look."""
        try:
            with os.scandir(folder) as found:
                return list(found)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError:
            self._tree.unreadable.add(folder)
            return []

    def _size(
        self,
        entry: os.DirEntry[str],
        expected: Callable[[int], bool],
        needed: int = stat.S_IRUSR,
        *,
        refused: int = 0,
    ) -> int | None:
        """The bytes of what is as expected; anything else is misplaced, and what is gone is nothing. ``needed``: what a
        file's owner must be allowed; ``refused``: what nobody may be."""
        try:
            status = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        mode = stat.S_IMODE(status.st_mode)
        if not expected(status.st_mode):
            kind = next((words for test, words in _KINDS if test(status.st_mode)), "of no known kind")
            wanted = "a folder" if expected is stat.S_ISDIR else "a file"
            self._misplaced(entry, f"is {kind} where {wanted} belongs", None)
            return None
        if status.st_uid != self._owner:
            if not os.access(entry.path, os.R_OK):
                self._misplaced(entry, f"belongs to user {status.st_uid} and cannot be read (mode {mode:04o})", None)
                self._tree.unreadable.add(Path(entry.path))
                return None
            return status.st_size
        needed = stat.S_IRWXU if expected is stat.S_ISDIR else needed
        if mode & needed != needed:
            self._misplaced(entry, f"has the mode {mode:04o}, with which it cannot be used", (mode | needed) & ~refused)
        elif mode & refused:
            self._misplaced(entry, f"has the mode {mode:04o}, with which other users may open it", mode & ~refused)
        return status.st_size

    def _misplaced(self, entry: os.DirEntry[str], problem: str, mode: int | None) -> None:
        self._tree.misplaced.append(Misplaced(Path(entry.path), problem, mode))
