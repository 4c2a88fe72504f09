"""The folder of one run: the socket to which a program's libraries hand over, and files of theirs where the socket
fails them.

It is this user's alone. Where that is root a program may have another user's rights by the time it hands something
over, so that everybody may write here then who knows the name of the inner folder: it is random, other users see it
neither in the environment of the run's processes nor in the kernel's list of sockets, and the outer folder cannot be
listed. Who is neither root nor this user shows the key too, which is in the environment alone.

The outer folder is locked (flock(2)) while the run lasts, and the kernel unlocks it however that ends. What a run
leaves that was killed is found by the next one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from symd.capture.process import is_running, start_time
from symd.errors import StoreUnavailable
from symd.system.messages import os_error_text
from symd.system.private_files import bind_socket, folder_hint, make_folder, new_folder, temp_dir, write_bytes

_PREFIX: Final = "symd-run-"
_NOTE: Final = "run.json"
_INNER_BYTES: Final = 95
"""The longest path of the inner folder that ``native/handover.h`` takes."""
_RECORD: Final = ".record"
_BEGINNING_SECONDS: Final = 60.0
"""How old a folder without a note is before it is believed to be nobody's: its maker may be about to lock it."""


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one ``symd run``, in which its program's libraries hand over modules. ``outer`` is private but
    for passing through where this is root, ``inner`` what the program knows; ``lock`` is an open descriptor, ``key``
    what a record has in it whose sender is another user."""

    outer: Path
    inner: Path
    lock: int
    key: str = field(default="", repr=False)

    @property
    def socket(self) -> Path:
        """Where the receiver listens."""
        return self.inner / "socket"

    @property
    def dumps(self) -> Path:
        """What compilers and drivers write, where they are asked to."""
        return self.inner / "dumps"

    @property
    def native(self) -> Path:
        """Where libraries are built where the user's cache cannot be written. Everybody sees the compiler's command
        line, so that the inner folder's name may not be there."""
        return self.outer / "native"

    @property
    def spool(self) -> Path:
        """Where records lie that could not be sent."""
        return self.inner / "spool"

    def spooled(self) -> list[Path]:
        """Whole records, the oldest first."""
        spool = f"{self.inner}/spool"  # text: this is asked again and again, while a program waits for a processor
        names = [name for name in _names(spool) if name.endswith(_RECORD)]
        paths = (Path(spool, name) for name in names)
        return sorted(filter(_may_be_record, paths), key=lambda path: (written_at(path), path.name))

    def note(self, out: Path, process: int) -> None:
        """Take down for the next run, should this one be killed, where the captures of ``process`` go. Raises
        OSError."""
        fields = {
            "inner": self.inner.name,
            "key": self.key,
            "out": str(out),
            "process": process,
            "start_time": start_time(process),
        }
        write_bytes(self.outer / _NOTE, json.dumps(fields).encode())

    def remove(self) -> None:
        """Remove all of it; the lock is let go."""
        shutil.rmtree(self.outer, ignore_errors=True)
        self.leave()

    def end(self) -> None:
        """Remove it, unless programs that outlive the run still have it in their environment: then it is left for a
        later run, once the oldest of them has ended."""
        users = _users(self.inner)
        if not users:
            self.remove()
            return
        found = _read_note(self.outer, self.lock)
        if found is not None:
            with contextlib.suppress(OSError):
                self.note(found[1], min(users, key=lambda process: start_time(process) or math.inf))
        self.leave()

    def leave(self) -> None:
        """Let the lock go."""
        with contextlib.suppress(OSError):
            os.close(self.lock)


def make_run_folder() -> RunFolder:
    """A new one, locked. Raises StoreUnavailable where none can be made."""
    parent = _parent()
    try:
        outer = new_folder(_PREFIX, Path(parent))
        lock = _lock(outer)
        inner = outer / secrets.token_hex(16)
        for folder, mode in ((inner, 0o711), (inner / "spool", 0o1733), (outer, 0o711)):
            make_folder(folder, exist_ok=True)
            let_in(folder, mode)
    except OSError as error:
        raise StoreUnavailable(
            f"no folder can be made for the run: {os_error_text(error)}",
            where=parent,
            hint=folder_hint("TMPDIR", error),
        ) from error
    return RunFolder(outer, inner, lock, secrets.token_hex(16))


def let_in(path: Path, mode: int) -> None:
    """Let users open what a program needs whom it may become: root's program any, another user's none that could not
    anyway."""
    if os.geteuid() == 0:
        path.chmod(mode)


def listen(folder: RunFolder, listener: socket.socket) -> None:
    """Make ``folder.socket`` and listen there. The kernel tells everybody the path by which a socket was made
    (/proc/net/unix, proc(5)), so that this is one that means something to this process alone. Raises OSError."""
    folder.socket.unlink(missing_ok=True)
    inner = os.open(folder.inner, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        bind_socket(listener, f"/proc/self/fd/{inner}/{folder.socket.name}")
    finally:
        os.close(inner)
    let_in(folder.socket, 0o666)
    listener.listen(socket.SOMAXCONN)


def abandoned() -> Iterator[tuple[RunFolder, Path]]:
    """Folders of this user's runs that were killed, locked again, with where their captures go; whoever takes one
    removes it. Those whose program still runs, or whose libraries a process may still load, are left, and those without
    a note are removed: their program had not begun."""
    parent = Path(_parent())
    for outer in (parent / name for name in _names(parent) if name.startswith(_PREFIX)):
        try:
            status = outer.lstat()
            young = time.time() - status.st_mtime < _BEGINNING_SECONDS
            if status.st_uid != os.geteuid() or (young and not (outer / _NOTE).exists()):
                continue
            lock = _lock(outer)
        except OSError:
            continue  # it lasts, or it is gone
        found = _read_note(outer, lock)
        if found is None:
            RunFolder(outer, outer, lock).remove()
        elif is_running(found[2], found[3]) or in_use(found[0].inner):
            os.close(lock)
        else:
            yield found[0], found[1]


def in_use(inner: Path) -> bool:
    """Whether a living process of this user still has the folder in its environment (/proc/PID/environ, proc(5)): the
    dynamic loader looks there for its libraries at each exec."""
    return bool(_users(inner))


def _users(inner: Path) -> list[int]:
    wanted = os.fsencode(inner)
    users = []
    for name in filter(str.isdecimal, _names(Path("/proc"))):
        with contextlib.suppress(OSError):  # it is another user's, or gone
            if wanted in Path(f"/proc/{name}/environ").read_bytes():
                users.append(int(name))
    return users


def _read_note(outer: Path, lock: int) -> tuple[RunFolder, Path, int, int] | None:
    """What the note of a run says: its folder, where its captures go, its program and since when; None where there is
    none."""
    try:
        note = json.loads((outer / _NOTE).read_text())
        folder = RunFolder(outer, outer / str(note["inner"]), lock, str(note["key"]))
        return folder, Path(note["out"]), int(note["process"]), int(note["start_time"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _parent() -> str:
    """The folder for temporary files, unless a socket's path below it would be too long."""
    longest = _INNER_BYTES - len(_PREFIX) - 16 - 34
    place = str(temp_dir())
    return place if len(place) <= longest else "/tmp"  # noqa: S108 - not chosen by us otherwise


def _lock(folder: Path) -> int:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _names(folder: Path | str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - names, of a folder that may be gone
    except OSError:
        return []


def _may_be_record(path: Path) -> bool:
    """A folder is none, and could not be removed as a file is."""
    try:
        return not stat.S_ISDIR(path.lstat().st_mode)
    except OSError:
        return False


def written_at(record: Path) -> int:
    """When a spooled record was written, nanoseconds since boot: its name begins with it. 0 for another name."""
    first = record.name.partition("-")[0]
    return int(first) if first.isdecimal() and first.isascii() else 0
