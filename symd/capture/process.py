"""A running process of this machine as the kernel shows it: who it is, what is mapped into it, its memory, and files
that it names. Another user's are opened only where that user may read them too: whoever captures such a program may be
root, and would read for it what it may not.

Source: proc(5), Documentation/filesystems/proc.rst and admin-guide/mm/pagemap.rst of Linux, ptrace(2) for who may
read; path_resolution(7), inode(7) for the rights."""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Final, NamedTuple, Self

from symd.errors import FailedPrecondition, InvalidInput, SymdError
from symd.model.captures import CapturedProcess
from symd.system.messages import os_error_text
from symd.system.symlinks import MOST_LINKS

_HEAD: Final = re.compile(
    rb"([0-9a-f]+)-([0-9a-f]+) ([r-])([w-])([x-])([ps]) ([0-9a-f]+) ([0-9a-f]+:[0-9a-f]+) ([0-9]+) *(.*)"
)
_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")
_DELETED: Final = " (deleted)"
_NAMED_MEMORY: Final = ("/memfd:", "/dev/", "/SYSV", "/anon_hugepage")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_HELD_PAGES: Final = re.compile(rb"[\x40-\xff]+")
"""The highest bytes of the pagemap entries of pages that are in memory (bit 63) or swapped out (62)."""
_AT_RANDOM: Final = 25
COMMAND_BYTES: Final = 4096
"""The most bytes of a command line that are kept: enough to tell processes apart."""
_PAGES_AT_A_TIME: Final = 1 << 17
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class MemoryMapping(NamedTuple):
    """A range of addresses. ``file`` is the path in the process's own tree, "" for memory without one; ``special`` is
    memory of a device, which reading might disturb; ``held`` are the bytes of it that are in memory or swapped out."""

    start: int
    end: int
    readable: bool
    offset: int
    device: str
    inode: int
    file: str
    deleted: bool
    special: bool
    held: int

    @property
    def is_file(self) -> bool:
        """Whether a file of a disk is behind it, and not memory with a name."""
        return self.file.startswith("/") and not self.file.startswith(_NAMED_MEMORY)


def boot_id() -> str:
    """What tells this boot of the machine from others (random(4)); "" where the kernel does not say."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def image_number(pid: int) -> int:
    """The kernel's random bytes for the program that a process runs (AT_RANDOM, getauxval(3)), another number after
    each execve; 0 where there is no such process, or its memory may not be read."""
    try:
        pairs = dict(struct.iter_unpack("=QQ", Path(f"/proc/{pid}/auxv").read_bytes()))
        with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
            memory.seek(pairs[_AT_RANDOM])
            return int.from_bytes(memory.read(8), sys.byteorder)
    except (OSError, KeyError, ValueError, struct.error):
        return 0


def command_words(text: bytes) -> tuple[str, ...]:
    """The words of a command line as /proc/PID/cmdline has it, of which records hold so much. The last need not end in
    a zero byte: a program may write over them."""
    words = text[:COMMAND_BYTES].removesuffix(b"\0").split(b"\0") if text else ()
    return tuple(word.decode("utf-8", "backslashreplace") for word in words)


def start_time(process: int) -> int:
    """Field 22 of /proc/PID/stat (proc(5)), clock ticks since boot; 0 where there is no such process."""
    return _state(process)[1]


def is_running(process: int, started: int) -> bool:
    """Whether the process that started at the time ``started`` (field 22 of /proc/PID/stat, clock ticks since boot)
    still runs and is no zombie."""
    state, time = _state(process)
    return state not in {b"", b"Z", b"X"} and time == started


def _state(process: int) -> tuple[bytes, int]:
    try:
        fields = Path(f"/proc/{process}/stat").read_bytes().rpartition(b")")[2].split()
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return b"", 0


class RunningProcess:
    """The process with the number ``pid``, which goes on meanwhile. Raises InvalidInput where there is none."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._folder = f"/proc/{pid}"
        self.identity = CapturedProcess(os.uname().nodename, pid, self._start_time(), self._command(), boot_id())
        self._memory: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._memory is not None:
            os.close(self._memory)

    def _start_time(self) -> int:
        found = start_time(self.pid)
        if not found:
            hint = "ps -e lists those of this machine; a container's PID is different on the host"
            raise InvalidInput("there is no such process", where=f"process {self.pid}", hint=hint)
        return found

    def _command(self) -> tuple[str, ...]:
        try:
            return command_words(self._bytes("cmdline"))
        except OSError as error:
            raise self._refused(error) from error

    def _bytes(self, name: str) -> bytes:
        return Path(self._folder, name).read_bytes()

    def has_ended(self) -> bool:
        """Whether the process is gone, or another has its number."""
        return not is_running(self.pid, self.identity.start_time)

    def environment(self) -> dict[str, str]:
        """The environment that the process was started with. Raises FailedPrecondition where it may not be read."""
        try:
            pairs = self._bytes("environ").split(b"\0")
        except OSError as error:
            raise self._refused(error) from error
        texts = [os.fsdecode(pair) for pair in pairs if b"=" in pair]
        return dict(text.split("=", 1) for text in texts)

    def directory(self) -> Path:
        """The working directory of the process, as the process itself would write its path. Raises
        FailedPrecondition where that may not be known."""
        try:
            return Path(self._folder, "cwd").readlink()
        except OSError as error:
            raise self._refused(error) from error

    def mappings(self) -> list[MemoryMapping]:
        """All of its mappings. Raises FailedPrecondition where they may not be read, InvalidInput where it has none."""
        try:
            lines = self._bytes("smaps").splitlines()
        except OSError as error:
            raise self._refused(error) from error
        if not lines:
            raise InvalidInput("has no memory: it has ended, or is a thread of the kernel", where=f"process {self.pid}")
        return list(_mappings(lines))

    def open_file(self, mapping: MemoryMapping) -> int:
        """A descriptor of a mapped file. Raises OSError."""
        if mapping.deleted:
            return os.open(f"{self._folder}/map_files/{mapping.start:x}-{mapping.end:x}", _OPEN)
        return self.open_path(mapping.file)

    def open_path(self, path: str) -> int:
        """A descriptor of a file by the process's own path: one that its user may read, where that is neither this
        process's nor root. Raises OSError."""
        return opened(self.user(), path, f"{self._folder}/root")

    def user(self) -> int:
        """The number of the process's real user. Raises OSError."""
        found = re.search(rb"^Uid:\s+(\d+)", self._bytes("status"), re.MULTILINE)
        return int(found[1]) if found else UNKNOWN_USER

    def shares_files(self) -> bool:
        """Whether a path means the same file to it as here."""
        try:
            mounts = [os.stat(f"{folder}/ns/mnt") for folder in (self._folder, "/proc/self")]  # noqa: PTH116 - text, as all of /proc here
            roots = [os.stat(f"{folder}/root") for folder in (self._folder, "/proc/self")]  # noqa: PTH116
        except OSError:
            return False
        return os.path.samestat(*mounts) and os.path.samestat(*roots)

    def open_memory(self) -> None:
        """Make ``read`` possible. Raises FailedPrecondition, which says who may."""
        try:
            self._memory = os.open(f"{self._folder}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._refused(error) from error

    def read(self, address: int, size: int) -> bytes:
        """The bytes at an address, fewer where there are no more."""
        parts = []
        while size > 0 and self._memory is not None:
            try:
                part = os.pread(self._memory, min(size, 1 << 24), address)
            except (OSError, OverflowError):
                break
            if not part:
                break
            parts.append(part)
            address, size = address + len(part), size - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def number(self, address: int, size: int) -> int | None:
        """The integer of 4 or 8 bytes at an address; None where there is none."""
        found = self.read(address, size)
        return int(struct.unpack({4: "<I", 8: "<Q"}[size], found)[0]) if len(found) == size else None

    def text(self, address: int, most: int) -> str | None:
        """The string at an address, of at most so many bytes."""
        found = self.read(address, most)
        end = found.find(b"\0")
        return None if end < 0 else found[:end].decode("utf-8", "replace")

    def held_ranges(self, mapping: MemoryMapping) -> Iterator[tuple[int, int]]:
        """The parts of a mapping that hold something. What was never touched is not read: that would take memory.
        Raises FailedPrecondition where it may not be known, InvalidInput where the process has ended."""
        with self._pagemap() as pagemap:
            for start in range(mapping.start, mapping.end, _PAGES_AT_A_TIME * _PAGE):
                end = min(start + _PAGES_AT_A_TIME * _PAGE, mapping.end)
                pagemap.seek(start // _PAGE * 8)
                flags = pagemap.read((end - start) // _PAGE * 8)[7::8]
                for run in _HELD_PAGES.finditer(flags):
                    yield start + run.start() * _PAGE, start + run.end() * _PAGE

    def _pagemap(self) -> FileIO:
        try:
            return Path(self._folder, "pagemap").open("rb", buffering=0)
        except OSError as error:
            raise self._refused(error) from error

    def _refused(self, error: OSError) -> SymdError:
        """Why the kernel does not let this process be looked into, and who may."""
        where = f"process {self.pid}"
        if error.errno in (errno.ENOENT, errno.ESRCH):
            return InvalidInput("it has ended", where=where)
        try:
            owner, status = Path(self._folder).stat().st_uid, self._bytes("status")
        except (FileNotFoundError, ProcessLookupError):
            return InvalidInput("it has ended", where=where)
        effective = int(re.findall(rb"^Uid:\s+\d+\s+(\d+)", status, re.MULTILINE)[0])
        mine = os.geteuid()
        if mine not in (effective, 0):
            message = f"the kernel does not let you look into it: it belongs to user {effective}, and you are {mine}"
            return FailedPrecondition(message, where=where, hint="run symd as that user, or as root")
        if owner != effective:
            message = "the kernel does not let you look into it: its program may not be looked into (setuid, capabilities, or by its own wish)"
            return FailedPrecondition(message, where=where, hint="run symd as root")
        scope = _ptrace_scope()
        if scope:
            return FailedPrecondition(
                f"the kernel does not let you look into it (kernel.yama.ptrace_scope is {scope})",
                where=where,
                hint=_SCOPES.get(scope, _SCOPES[3]),
            )
        reason = os_error_text(error)
        hint = "in a container it takes the capability SYS_PTRACE (docker run --cap-add SYS_PTRACE)"
        return FailedPrecondition(f"the kernel does not let you look into it: {reason}", where=where, hint=hint)


_SCOPES: Final = {
    1: "run symd as root, or sysctl kernel.yama.ptrace_scope=0, or start the program with symd run",
    2: "run symd as root, or start the program with symd run",
    3: "nobody may until this machine starts again; start the program with symd run",
}
"""What each value of Yama's switch leaves (Documentation/admin-guide/LSM/Yama.rst)."""


def _ptrace_scope() -> int:
    try:
        return int(Path("/proc/sys/kernel/yama/ptrace_scope").read_text())
    except (OSError, ValueError):
        return 0


def _mappings(lines: list[bytes]) -> Iterator[MemoryMapping]:
    """The mappings that /proc/PID/smaps tells of: a line as in maps, then lines of NAME: VALUE."""
    head: re.Match[bytes] | None = None
    held, flags = 0, b""
    for line in lines:
        found = _HEAD.fullmatch(line)
        if found is not None:
            if head is not None:
                yield _mapping(head, held, flags)
            head, held, flags = found, 0, b""
        elif line.startswith((b"Rss:", b"Swap:")):
            held += int(line.split()[1]) << 10
        elif line.startswith(b"VmFlags:"):
            flags = line[8:]
    if head is not None:
        yield _mapping(head, held, flags)


def _mapping(head: re.Match[bytes], held: int, flags: bytes) -> MemoryMapping:
    start, end, readable, _, _, _, offset, device, inode, name = head.groups()
    file = os.fsdecode(_ESCAPE.sub(lambda octal: bytes([int(octal[1], 8)]), name))
    deleted = file.endswith(_DELETED)
    words = flags.split()
    return MemoryMapping(
        int(start, 16),
        int(end, 16),
        readable == b"r",
        int(offset, 16),
        device.decode(),
        int(inode),
        file.removesuffix(_DELETED),
        deleted,
        b"io" in words or b"pf" in words,
        held,
    )


UNKNOWN_USER: Final = -1
"""The number in place of a user who is not known, whose rights are those that everybody has."""
_HELD: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = 4
_SEARCH: Final = 1


def is_trusted(user: int) -> bool:
    """Whether a user may read whatever this process may: it is this process's, or root."""
    return user in (0, os.geteuid())


def opened(user: int, path: str, root: str = "") -> int:
    """A descriptor, which waits for nobody, of the file at ``path`` below ``root``: any for a trusted user, for another
    what ``opened_for`` opens. Raises OSError."""
    return os.open(root + path, _OPEN) if is_trusted(user) else opened_for(user, path, root or "/")


def opened_for(user: int, path: str, root: str = "/") -> int:
    """A descriptor of the regular file at ``path`` below ``root``, which ``user`` may read, through folders that
    ``user`` may search. Each is held while it is looked at, so that nobody puts another in its place meanwhile. Raises
    OSError.

    Which groups the user is in is not asked: to all but a file's owner only those rights count that its group and all
    others have."""
    with _PathWalk(root) as way:
        names = [*reversed(Path("/", path).parts[1:])]
        while names:
            _check_right(way.status(), user, _SEARCH, path)
            names += reversed(way.step(names.pop()))
        status = way.status()
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", path)
        _check_right(status, user, _READ, path)
        return os.open(f"/proc/self/fd/{way.at}", _OPEN)


def _check_right(status: os.stat_result, user: int, right: int, path: str) -> None:
    mode = status.st_mode
    rights = mode >> 6 if status.st_uid == user else mode >> 3 & mode
    if not rights & right:
        raise PermissionError(errno.EACCES, "its program's user may not read it", path)


class _PathWalk:
    """Where a way through folders has come to: ``at`` is a descriptor (O_PATH)."""

    def __init__(self, root: str) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        self._links = 0
        try:
            self.at = os.dup(self._root)
        except OSError:
            os.close(self._root)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in (self.at, self._root):
            with suppress(OSError):
                os.close(descriptor)

    def status(self) -> os.stat_result:
        """The status of what is there."""
        return os.fstat(self.at)

    def step(self, name: str) -> tuple[str, ...]:
        """Go to ``name``; the names that a symbolic link of that name leads through instead. Raises OSError."""
        if name == ".." and os.path.samestat(self.status(), os.fstat(self._root)):
            return ()
        found = os.open(name, _HELD, dir_fd=self.at)
        if not stat.S_ISLNK(os.fstat(found).st_mode):
            self._go(found)
            return ()
        with _closed(found):
            target = Path(os.readlink("", dir_fd=found))
        self._links += 1
        if self._links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
        if target.is_absolute():
            self._go(os.dup(self._root))
        return target.parts[target.is_absolute() :]

    def _go(self, descriptor: int) -> None:
        os.close(self.at)
        self.at = descriptor


@contextmanager
def _closed(descriptor: int) -> Iterator[None]:
    try:
        yield
    finally:
        os.close(descriptor)
