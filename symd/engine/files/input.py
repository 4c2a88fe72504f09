"""The bytes that a verb reads: a file, a part of one, or standard input; and which files may be read for somebody else.

What is read may travel to a daemon. So a file that a module or a profile names is read only where it lies beside the
file that names it, and an assistant reads only what the user allowed.
"""

from __future__ import annotations

import mmap
import os
import re
import stat
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from shlex import quote
from typing import BinaryIO, cast

from symd.config import Limits
from symd.errors import InvalidInput, LimitExceeded, NoSuchFile, PermissionDenied, SymdError
from symd.formats.budget import Budget
from symd.formats.containers import compressed_file, uri
from symd.model.frame_text import printable
from symd.model.identities import named_digest
from symd.system.messages import alike, complain, os_error_text
from symd.system.symlinks import opened_below

_SHOWN = 4


class AllowedFiles:
    """The one check of all files that an assistant has opened, by whatever name it or the bytes of another file call
    them: those below ``roots`` and the ``files`` themselves, which are there. Raises OSError where one is not."""

    def __init__(self, roots: Sequence[Path], files: Sequence[str], hint: str) -> None:
        self.roots = tuple(dict.fromkeys(str(root.expanduser().resolve(strict=True)) for root in roots))
        self.files = tuple(files)
        self._real = frozenset(os.path.realpath(file, strict=True) for file in files)
        self._hint = hint

    def holds(self, path: str | os.PathLike[str]) -> bool:
        """Whether what a path leads to is allowed, be it there or not; a folder is where it, or one above it, is one of
        the roots."""
        return self._root_of(_led_to(path)) is not None

    def check(self, path: str) -> None:
        """Raises PermissionDenied for a path that leads to nothing allowed, in the same words whether or not something
        is there."""
        if not self.holds(path):
            raise self._refusal(path)

    def opened(self, path: str) -> BinaryIO:
        """The regular file at a path. Raises PermissionDenied, and OSError where it cannot be read."""
        real = _led_to(path)
        root = self._root_of(real)
        if root is None:
            raise self._refusal(path)
        return os.fdopen(opened_below(Path(root), Path(real)), "rb")

    def _refusal(self, path: str) -> PermissionDenied:
        return PermissionDenied(
            "symd mcp does not open this path: it lies below no --source-root, and is none of the files that it was started with",
            where=printable(path[:200]),
            hint=self._hint,
        )

    def _root_of(self, real: str) -> str | None:
        """The root that a path without links lies below; "/" for one of the files."""
        if real in self._real:
            return "/"
        return next((root for root in self.roots if f"{real}/".startswith(f"{root.rstrip('/')}/")), None)


def _led_to(path: str | os.PathLike[str]) -> str:
    """Where a path leads, without links; nowhere for what is no path."""
    try:
        return os.path.realpath(path)
    except ValueError:  # a NUL
        return ""


def is_below(path: Path, folders: Sequence[Path]) -> bool:
    """Whether a path, as it is written, stays inside one of the folders."""
    whole = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps ".."
    return any(whole.is_relative_to(os.path.abspath(folder)) for folder in folders)  # noqa: PTH100 - Path.absolute keeps ".."


def say_left_out(file: str, paths: Sequence[str], hint: str) -> None:
    """Tell the user, once for all of them, which files of this machine stayed here."""
    if not paths:
        return
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    names = ", ".join(printable(path) for path in paths[:_SHOWN])
    complain(f"{printable(file)} names files that are not sent to the daemon: {names}{more}; {hint}")


COMPRESSED_SUFFIXES = (".gz", ".zst", ".xz", ".bz2", ".lz4")
"""How the names of compressed files end that ``formats.containers.compressed_file`` reads."""
_HEAD = 64
"""Bytes from which a format may be known."""
_MIN_DIGITS = 8
"""Hexadecimal digits from which the name of no file may be meant as a module of a daemon."""
_MODULE_NAME = (
    "to name a module of a daemon write modules/ with its SHA-256 or the beginning of it, and --server ADDRESS"
)


def module_digest(file: str) -> str | None:
    """The digest in ``modules/SHA256``, the name of a module that a daemon has; None for anything else."""
    if not file.startswith("modules/"):
        return None

    return named_digest(file)


def module_beginning(file: str) -> str | None:
    """The digits in ``modules/`` and the beginning of a SHA-256, or in eight and more of these digits alone, where no
    file is called so; None for anything else."""
    digits = file.removeprefix("modules/")
    shortest = _MIN_DIGITS if digits == file else 1
    if not shortest <= len(digits) <= 64 or digits.strip("0123456789abcdef"):
        return None
    return None if os.path.exists(file) else digits  # noqa: PTH110 - pathlib is slow to load


def called(file: str | bytes) -> str:
    """What errors call a file: "" where there are its bytes alone."""
    if isinstance(file, bytes):
        return ""
    return "standard input" if file == "-" else file


def check_no_module_name(file: str) -> None:
    """Raises ``InvalidInput`` for the name of a daemon's module where no daemon is asked and no file is called so."""
    if module_digest(file) and not os.path.exists(file):  # noqa: PTH110 - pathlib is slow to load
        raise InvalidInput("a module's name means something to a daemon only", where=file, hint="give --server ADDRESS")


def read_input(
    file: str,
    limits: Limits,
    mappable: Callable[[bytes], bool] | None = None,
    *,
    expand: bool = True,
    allowed: AllowedFiles | None = None,
) -> bytes:
    """The bytes of a file, of the part that a code object URI names, or of standard input for "-". What gzip, zstd, xz,
    bzip2 or lz4 made of one, such as ``file.gz``, is expanded, within what ``formats.budget.Budget`` allows; not so
    without ``expand``. Raises ``InvalidInput``, also for what is empty, ``LimitExceeded``, and ``Unsupported`` for a
    URI into a process.

    A file of whose first bytes ``mappable`` holds is mapped rather than read: its slices are bytes, itself it can be
    asked for its length only. With ``allowed`` nothing else is opened; raises PermissionDenied.
    """
    data = _read(file, limits, mappable, allowed)
    if not len(data):
        raise InvalidInput("the file is empty", where=called(file), hint="what wrote it may have failed")
    if not (expand and file.endswith(COMPRESSED_SUFFIXES)):
        return data

    if not compressed_file.claims(data):
        return data
    try:
        return compressed_file.expanded(data, Budget(limits, len(data)))
    except SymdError as error:
        raise error.prefix_where(file) from None


def _read(
    file: str, limits: Limits, mappable: Callable[[bytes], bool] | None, allowed: AllowedFiles | None = None
) -> bytes:
    if file == "-":
        return _bounded(sys.stdin.buffer, "standard input", limits)
    if not file:
        raise InvalidInput("the name of the file is empty", where="''", hint="a variable of the shell may be unset")
    place = uri.parse_uri(file) if uri.is_uri(file) else uri.CodeObjectUri(file)
    try:
        # pathlib is slow to load, and not needed for one file
        with open(place.path, "rb") if allowed is None else allowed.opened(place.path) as stream:  # noqa: PTH123
            if place.size is not None:
                return _cut(stream, place, file, limits)
            status = os.fstat(stream.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > limits.module_size:
                raise _too_large(file, limits)
            if mappable and stat.S_ISREG(status.st_mode):
                if mappable(stream.read(_HEAD)):
                    return cast("bytes", mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ))
                stream.seek(0)
            return _bounded(stream, file, limits)
    except (OSError, ValueError, OverflowError) as error:
        kind = NoSuchFile if isinstance(error, FileNotFoundError) else InvalidInput
        raise kind(
            f"cannot read the file: {os_error_text(error)}",
            where=file,
            hint=_hint(error, place.path, file, is_open_to_all=allowed is None),
        ) from error


def _hint(error: Exception, path: str, name: str, *, is_open_to_all: bool) -> str:
    """What to do where a file cannot be read, if anything is known. What lies beside it is told only where all files
    may be read."""
    if isinstance(error, FileNotFoundError):
        if name.startswith("modules/") or module_beginning(name):
            return _MODULE_NAME
        return _elsewhere(path) or (_called_nearly_so(path) if is_open_to_all else "")
    if isinstance(error, IsADirectoryError):
        return f"`symd collect --once {quote(path)}` gives the modules in a folder to a daemon"
    return ""


def _elsewhere(path: str) -> str:
    """What to do with a path that names no file of this system."""
    if re.match(r"\w+://", path):
        return "symd reads files: download it first"
    if re.match(r"[A-Za-z]:[\\/]", path):
        return "this is a path of Windows; in WSL that drive is below /mnt"
    if re.match(r"[\w.@-]+:[~/]", path):
        return f"symd reads files of this machine: scp {quote(path)} . copies it here"
    if re.search(r"[*?]", path):
        return "no file of this folder fits the pattern, so the shell left it as it is"
    return ""


def _called_nearly_so(path: str) -> str:
    """The files of the same folder that have nearly this name, or begin with it and a blank."""
    folder, base = os.path.split(path)
    try:
        there = sorted(os.listdir(folder or os.curdir))  # noqa: PTH208 - pathlib is slow to load
    except OSError:
        return f"there is no folder {folder}" if folder and not os.path.isdir(folder) else ""  # noqa: PTH112 - pathlib is slow to load
    cut = [each for each in there if each.startswith(f"{base} ")]
    near = cut or alike(base, there)
    if not near:
        return ""
    shown = " or ".join(quote(os.path.join(folder, each)) for each in near)  # noqa: PTH118 - pathlib is slow to load
    return f"did you mean {printable(shown)}?"


def _cut(stream: BinaryIO, place: uri.CodeObjectUri, name: str, limits: Limits) -> bytes:
    """The bytes that a URI's range names; the rest of the file, which may be large, is not read."""
    offset, size = place.offset or 0, place.size or 0
    end = stream.seek(0, os.SEEK_END)
    if offset + size > end:
        raise InvalidInput(f"the URI's range ends at byte {offset + size}, past the file's {end} bytes", where=name)
    if size > limits.module_size:
        raise _too_large(name, limits)
    stream.seek(offset)
    return stream.read(size)


def _bounded(stream: BinaryIO, name: str, limits: Limits) -> bytes:
    data = stream.read(limits.module_size + 1)
    if len(data) > limits.module_size:
        raise _too_large(name, limits)
    return data


def _too_large(name: str, limits: Limits) -> LimitExceeded:
    return LimitExceeded(
        f"it is larger than {limits.module_size} bytes",
        where=name,
        hint="raise it with --limit module_size=BYTES",
        metadata={"limit": "module_size"},
    )


def is_regular_file(text: str) -> bool:
    """Whether a URI that somebody else wrote names a file whose bytes can be read and come to an end."""
    try:
        return comes_to_an_end(uri.parse_uri(text).path)
    except SymdError:
        return False


def comes_to_an_end(path: str | os.PathLike[str], allowed: AllowedFiles | None = None) -> bool:
    """Whether there is a regular file with bytes in it, that the kernel does not make up as it is read (some of those
    never end), and that is ``allowed``."""
    if allowed is not None and not allowed.holds(path):
        return False
    try:
        status = os.stat(path)  # noqa: PTH116 - pathlib is slow to load
        return stat.S_ISREG(status.st_mode) and status.st_size > 0 and status.st_dev not in _made_up()
    except (OSError, ValueError):
        return False


def _made_up() -> set[int]:
    """The devices of the kernel's own file systems; the root's where one is not mounted says nothing."""
    root = os.stat("/").st_dev  # noqa: PTH116 - pathlib is slow to load
    found = {os.stat(folder).st_dev for folder in ("/proc", "/sys") if os.path.isdir(folder)}  # noqa: PTH112, PTH116 - pathlib is slow to load
    return found - {root}
