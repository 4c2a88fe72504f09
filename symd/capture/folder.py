"""Modules that compilers and drivers write into a folder, a cache or a dump folder: those already there, then each file
once it is complete.

The folders themselves are found by the environment variables that each compiler reads. A ``DumpFolder`` is one of a
run's own, for programs that nothing else reaches: private to it, and watched while it lasts.

Sources: inotify(7), a file is complete when its writer closed it or moved it to its place; IGC's flags
(``IGC_ElfDumpEnable``, ``IGC_DumpToCustomDir``), FAQ.md of Intel's compute runtime (``NEO_CACHE_DIR``).
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import stat
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple, Self

from asyncinotify import Event, Inotify, Mask, Watch

from symd.capture import Sink
from symd.config import Limits
from symd.errors import DeadlineExceeded, InvalidInput, LimitExceeded, SymdError, UnknownFormat, Unsupported
from symd.formats import containers
from symd.formats.containers import archive, host_elf
from symd.model.captures import CaptureApi, CaptureWay, ModuleForm, ModuleFound
from symd.system.messages import os_error_text


@dataclass(frozen=True, slots=True)
class CompilerCache:
    """A folder that a compiler or driver fills. ``api`` is None where several share it."""

    name: str
    folder: Path
    api: CaptureApi | None


def compiler_caches(environment: Mapping[str, str], directory: Path = Path()) -> Iterator[CompilerCache]:
    """The caches of a process with this environment and working directory, whether they are there or not. Sources:
    FAQ.md of Intel's compute runtime (NEO_CACHE_DIR, cl_cache_dir and l0_cache_dir of older ones), ``triton.knobs``,
    the CUDA C++ programming guide (CUDA_CACHE_PATH), the README of amd_comgr (AMD_COMGR_CACHE_DIR), DPC++'s
    EnvironmentVariables.md (SYCL_CACHE_DIR)."""
    home = directory / environment.get("HOME", "/")
    cache = directory / (environment.get("XDG_CACHE_HOME") or home / ".cache")

    def chosen(names: tuple[str, ...], otherwise: Path) -> Path:
        return next((directory / environment[name] for name in names if environment.get(name)), otherwise)

    neo = cache / "neo_compiler_cache"
    triton = directory / (environment.get("TRITON_HOME") or home) / ".triton"
    yield CompilerCache("Intel's OpenCL driver", chosen(("NEO_CACHE_DIR", "cl_cache_dir"), neo), CaptureApi.OPENCL)
    yield CompilerCache(
        "Intel's Level Zero driver", chosen(("NEO_CACHE_DIR", "l0_cache_dir"), neo), CaptureApi.LEVEL_ZERO
    )
    yield CompilerCache("SYCL", chosen(("SYCL_CACHE_DIR",), cache / "libsycl_cache"), None)
    yield CompilerCache("Triton", chosen(("TRITON_CACHE_DIR",), triton / "cache"), CaptureApi.TRITON)
    yield CompilerCache("Triton's dumps", chosen(("TRITON_DUMP_DIR",), triton / "dump"), CaptureApi.TRITON)
    yield CompilerCache("CUDA", chosen(("CUDA_CACHE_PATH",), home / ".nv" / "ComputeCache"), CaptureApi.CUDA)
    yield CompilerCache("HIP", chosen(("AMD_COMGR_CACHE_DIR",), cache / "comgr"), CaptureApi.HIP)


FOLDER_FILES: Final = 1_000_000
"""Files of watched folders that are looked at; each takes about 450 bytes of memory."""
FOLDER_DEPTH: Final = 32
"""Folders inside each other below a watched one."""
FOLDERS: Final = 50_000
"""Folders watched at a time, those below others too; the kernel takes about a kilobyte for each."""
_RAISE: Final = "raise it with --limit folder_bytes=NUMBER"
SETTLE_SECONDS: Final = 1.0
"""How long a file that was there before must not have changed before its bytes are believed to be all."""
_WATCHED: Final = (
    Mask.CREATE | Mask.CLOSE_WRITE | Mask.MOVED_TO | Mask.MOVED_FROM | Mask.MOVE_SELF
    | Mask.ONLYDIR | Mask.EXCL_UNLINK | Mask.DONT_FOLLOW
)  # fmt: skip
_GONE: Final = (errno.ENOENT, errno.ENOTDIR)
_KINDS: Final = {
    stat.S_IFLNK: "a link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device",
}  # fmt: skip
_OPEN: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class FolderModule:
    """A file that is a module: its bytes, the outermost format, the names of its kernels."""

    path: str
    data: bytes = field(repr=False)
    digest: str
    format: str
    kernels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file or folder that was not taken, and why."""

    path: str
    error: SymdError


Finding = FolderModule | LeftOut


@dataclass(slots=True)
class Counts:
    """What was seen of the folders so far. ``repeated``: files with the bytes of one before; ``other``: files of other
    formats, or without device code."""

    modules: int = 0
    repeated: int = 0
    other: int = 0
    left_out: int = 0


class _Version(NamedTuple):
    """One state of a file's content."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, status: os.stat_result) -> Self:
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class FolderWatch:
    """The files of ``folders`` and of all folders below them; a context manager.

    Links are not followed: what they name inside a folder is seen there, what they name outside was not asked for. A
    folder that is not there yet is waited for. ``settle`` is SETTLE_SECONDS except in tests.
    """

    def __init__(
        self, folders: Sequence[Path], limits: Limits, settle: float = SETTLE_SECONDS, known: Iterable[str] = ()
    ) -> None:
        """Modules with the SHA-256 of ``known`` are passed over."""
        self.counts = Counts()
        self._known = frozenset(known)
        self._roots = [_root(folder) for folder in folders]
        self._limits, self._settle = limits, settle
        self._inotify = _inotify()
        self._watches: dict[str, Watch] = {}
        self._versions: dict[str, _Version] = {}
        self._digests: set[str] = set()
        self._unsettled: dict[str, tuple[_Version, float]] = {}
        """Files that may still be written: how they were last seen, and since when they are so."""
        self._full = False
        self._since = -math.inf

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Watch no more."""
        self._inotify.close()

    def present(self, since: float = -math.inf) -> Iterator[Finding]:
        """What is there now; ``since`` is a time.time() before which files are passed over. Whoever asks again is
        answered what has changed since."""
        self._since = since
        for root in self._roots:
            yield from self._folder(root, 0)

    def arriving(self, seconds: float, until: float = math.inf) -> Iterator[Finding]:
        """What arrives; ends when nothing more has for ``seconds``, or at the time ``until`` of time.monotonic()."""
        while time.monotonic() < until and (event := self._next_event(seconds)):
            if event.mask & Mask.Q_OVERFLOW:
                yield from self.present(self._since)
            elif event.watch is not None:
                yield from self._happened(event.watch, str(event.name or ""), event.mask)
            yield from self._settled()
        yield from self._settled()
        for root in self._roots:
            if root not in self._watches:
                yield from self._folder(root, 0)

    @property
    def unsettled(self) -> bool:
        """Whether files wait that may still be written."""
        return bool(self._unsettled)

    def absent(self) -> list[str]:
        """The watched folders that do not exist yet."""
        return [root for root in self._roots if root not in self._watches]

    def _next_event(self, seconds: float) -> Event | None:
        self._inotify.sync_timeout = min(seconds, self._settle / 2) if self._unsettled else seconds
        return self._inotify.sync_get()

    def _happened(self, watch: Watch, name: str, mask: Mask) -> Iterator[Finding]:
        folder = str(watch.path)
        path = os.path.join(folder, name)  # noqa: PTH118 - paths are text here: there may be a million
        if mask & Mask.IGNORED:
            if self._watches.get(folder) is watch:
                del self._watches[folder]
        elif mask & Mask.MOVE_SELF:
            if folder in self._roots:
                self._forget(folder)
        elif not mask & Mask.ISDIR:
            if mask & (Mask.CLOSE_WRITE | Mask.MOVED_TO):
                self._unsettled.pop(path, None)
                yield from self._file(path, complete=True)
        elif mask & Mask.MOVED_FROM:
            self._forget(path)
        elif mask & (Mask.CREATE | Mask.MOVED_TO):
            yield from self._folder(path, self._depth(path))

    def _depth(self, path: str) -> int:
        return min(path.removeprefix(root).count(os.sep) for root in self._roots if _below(path, root))

    def _forget(self, folder: str) -> None:
        """A folder was moved away: what it is called now, if it still is below a watched one, another event says."""
        for path in [path for path in self._watches if _below(path, folder)]:
            self._inotify.rm_watch(self._watches.pop(path))

    def _folder(self, folder: str, depth: int) -> Iterator[Finding]:
        """Watch first, look then: what arrives in between is seen twice rather than never."""
        try:
            self._watch(folder, depth)
            with os.scandir(folder) as entries:
                paths = sorted((not entry.is_dir(follow_symlinks=False), entry.path) for entry in entries)
        except OSError as error:
            if error.errno not in _GONE:
                yield self._left_out(folder, InvalidInput(f"cannot look into the folder: {os_error_text(error)}"))
            return
        except LimitExceeded as error:
            yield self._left_out(folder, error)
            return
        for is_file, path in paths:
            yield from self._file(path, complete=False) if is_file else self._folder(path, depth + 1)

    def _watch(self, folder: str, depth: int) -> None:
        if folder in self._watches:
            return
        if depth > FOLDER_DEPTH:
            raise _over("it lies below more than {} folders", "folder_depth", FOLDER_DEPTH)
        if len(self._watches) >= FOLDERS:
            raise _over("more than {} folders are watched", "folders", FOLDERS)
        try:
            watch = self._inotify.add_watch(folder, _WATCHED)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            hint = "raise it, as root: sysctl fs.inotify.max_user_watches=NUMBER"
            raise LimitExceeded("the kernel watches no more folders for this user", hint=hint) from error
        watch.path = Path(folder)  # the kernel knows a folder by its inode, which may have had another name
        self._watches[folder] = watch

    def _settled(self) -> Iterator[Finding]:
        now = time.monotonic()
        for path in [path for path, (_, since) in self._unsettled.items() if now - since >= self._settle]:
            yield from self._file(path, complete=False)

    def _file(self, path: str, *, complete: bool) -> Iterator[Finding]:
        """Take a file whose content was not seen before. One that is not known to be ``complete`` waits until it
        changes no more."""
        try:
            status = os.lstat(path)
            version = _Version.of(status)
            if (
                status.st_mtime < self._since
                or self._versions.get(path) == version
                or not (complete or not stat.S_ISREG(status.st_mode) or self._at_rest(path, version))
            ):
                return
            if not self._remember(path, version):
                return
            data = _content(path, status, self._roots, self._limits)
        except OSError as error:
            self._unsettled.pop(path, None)
            if error.errno not in _GONE:
                yield self._left_out(path, InvalidInput(f"cannot read the file: {os_error_text(error)}"))
        except SymdError as error:
            yield self._left_out(path, error)
        else:
            if data:
                yield from self._module(path, data)

    def _at_rest(self, path: str, version: _Version) -> bool:
        """Whether a file has not changed for a while, by the clock of its disk or as seen from here."""
        now = time.monotonic()
        seen, since = self._unsettled.get(path, (None, now))
        if seen is None and abs(time.time() - version.modified / 1e9) >= self._settle:
            return True
        if seen == version and now - since >= self._settle:
            del self._unsettled[path]
            return True
        if seen != version:
            self._unsettled[path] = (version, now)
        return False

    def _remember(self, path: str, version: _Version) -> bool:
        """Keep that this was looked at; False where too many are kept, which is told once."""
        if path in self._versions or len(self._versions) < FOLDER_FILES:
            self._versions[path] = version
            return True
        if self._full:
            self.counts.left_out += 1
            return False
        self._full = True
        raise _over("more than {} files were looked at, and new ones are left out", "folder_files", FOLDER_FILES)

    def _module(self, path: str, data: bytes) -> Iterator[Finding]:
        digest = hashlib.sha256(data).hexdigest()
        if digest in self._known:
            return
        if digest in self._digests:
            self.counts.repeated += 1
            return
        try:
            opened = containers.unpack(data, self._limits)
        except UnknownFormat:
            self.counts.other += 1
        except SymdError as error:
            if isinstance(error, Unsupported) and _is_for_the_host(data):
                self.counts.other += 1
            else:
                yield self._left_out(path, error)
        else:
            if not opened.objects and opened.format == archive.NAME:  # a static library of the host
                self.counts.other += 1
                return
            self._digests.add(digest)
            self.counts.modules += 1
            kernels = tuple(dict.fromkeys(kernel.name for code in opened.objects for kernel in code.kernels))
            yield FolderModule(path, data, digest, opened.format, kernels)

    def _left_out(self, path: str, error: SymdError) -> LeftOut:
        self.counts.left_out += 1
        return LeftOut(path, error)


def _is_for_the_host(data: bytes) -> bool:
    """Whether these are a program or a static library, which need have no device code. A thin archive only names its
    members."""
    return containers.identify(data) is host_elf or data.startswith(archive.MAGIC)


def _root(folder: Path) -> str:
    """The folder's own path, through links. Raises InvalidInput where something else is there."""
    root = os.path.realpath(folder)
    if os.path.lexists(root) and not os.path.isdir(root):  # noqa: PTH112 - realpath gave text
        hint = f"`symd info --server default {quote(str(folder))}` gives one file to the daemon"
        raise InvalidInput("is not a folder", where=str(folder), hint=hint)
    return root


def _inotify() -> Inotify:
    try:
        return Inotify()
    except OSError as error:
        hint = "raise it, as root: sysctl fs.inotify.max_user_instances=NUMBER"
        raise LimitExceeded(f"the kernel watches no more for this user: {os_error_text(error)}", hint=hint) from error


def _content(path: str, status: os.stat_result, roots: Sequence[str], limits: Limits) -> bytes:
    """The bytes of the very file that was looked at. Raises Unsupported for what is no file, LimitExceeded for a large
    one."""
    if not stat.S_ISREG(status.st_mode):
        raise Unsupported(f"is {_KINDS.get(stat.S_IFMT(status.st_mode), 'no file')}, which is not followed or read")
    if status.st_size > limits.folder_bytes:
        raise _over("it is larger than {} bytes", "folder_bytes", limits.folder_bytes, _RAISE)
    with open(os.open(path, _OPEN), "rb", buffering=0) as stream:  # noqa: PTH123 - a path is opened with other flags
        if not os.path.samestat(os.fstat(stream.fileno()), status) or not _stands_below(stream.fileno(), roots):
            raise Unsupported("it was exchanged for another while it was looked at")
        data = stream.read(limits.folder_bytes + 1)
    if len(data) > limits.folder_bytes:
        raise _over("it is larger than {} bytes", "folder_bytes", limits.folder_bytes, _RAISE)
    return data


def _stands_below(descriptor: int, roots: Sequence[str]) -> bool:
    """Whether an open file really is in one of the folders: a folder on the way to it may have become a link."""
    place = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - text, as all paths here
    return any(_below(place, root) for root in roots)


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _over(sentence: str, limit: str, value: int, hint: str = "") -> LimitExceeded:
    return LimitExceeded(sentence.format(f"{value:,}"), hint=hint, metadata={"limit": limit})


_LOOK_SECONDS: Final = 0.2
"""How often it is asked whether the program has ended, while nothing is written."""

_ROUND_SECONDS: Final = 1.0
"""How often it is asked while files are written without a pause."""
_ENDING_SECONDS: Final = 10.0
"""How long half-written files are waited for once the program has ended: others that it left behind may write without
end."""


class DumpFolder:
    """Tells ``sink`` of each module in ``folder`` until ``finish``; the sink is told by other threads too, one at a
    time."""

    def __init__(self, folder: Path, sink: Sink, limits: Limits) -> None:
        self.modules = 0
        self.left_out: list[SymdError] = []
        """Why files were not taken, or the sink did not take them."""
        self._sink = sink
        self._watch = FolderWatch([folder], limits)
        self._ended = threading.Event()
        self._pool = ThreadPoolExecutor(1, "dumps")
        self._running: Future[None] | None = None

    def start(self) -> None:
        """Begin to look, in a thread; what is there already counts too."""
        self._running = self._pool.submit(self._run)

    def finish(self) -> None:
        """Take what is there still, also half-written files: their writers have ended, or have some seconds to."""
        self._ended.set()
        self._pool.shutdown()
        if self._running:
            self._running.result()
        self._watch.close()

    def _run(self) -> None:
        self._take(self._watch.present())
        while not self._ended.is_set():
            self._take_arriving()
        until = time.monotonic() + _ENDING_SECONDS
        self._take_arriving()
        while self._watch.unsettled and time.monotonic() < until:
            self._take_arriving()
        if self._watch.unsettled:
            self.left_out.append(DeadlineExceeded("files were still being written when the program had ended"))

    def _take_arriving(self) -> None:
        self._take(self._watch.arriving(_LOOK_SECONDS, time.monotonic() + _ROUND_SECONDS))

    def _take(self, findings: Iterable[Finding]) -> None:
        for finding in findings:
            if not isinstance(finding, FolderModule):
                self.left_out.append(finding.error)
                continue
            now = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
            name = Path(finding.path).name
            event = ModuleFound(
                CaptureWay.FOLDER, now, ModuleForm.NATIVE_BINARY, finding.data, name, kernels=finding.kernels
            )
            try:
                self._sink.take(event)
                self.modules += 1
            except SymdError as error:
                self.left_out.append(error)
