"""Files that people named to be written: replaced as a whole, or left as they were."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import signal
import stat
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from symd.errors import FailedPrecondition, InvalidInput, StoreUnavailable
from symd.system.messages import os_error_text
from symd.system.private_files import OPENING, make_folder, open_private, remove_stale_files
from symd.system.symlinks import resolved, still_resolved

_ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)
_NAME_CHARACTERS: Final = 100
"""The most characters of a file's name that are in that of the temporary one beside it."""
_CREATING: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_USUAL_MODE: Final = 0o666
"""The mode from which the umask takes."""
_READABLE_MODE: Final = 0o644
_PRIVATE_MODE: Final = 0o600


def write_file(path: Path, data: bytes, *, hint: str, follow_links: bool = True) -> None:
    """Make ``data`` the content of the file at ``path``. Raises ``StoreUnavailable`` with ``hint`` where that fails.

    The bytes go to a temporary file in the same folder, which then takes the place of the old one. So a write that
    fails or is interrupted leaves the old file whole and no temporary one; that of a killed process goes with the next
    write. The permissions of an old file of this user's stay. In the place of another user's file comes one of this
    user's, with those rights only that both the old file and the umask give: whoever made the old one does not choose
    who may write the new one.

    A symbolic link is followed, and what is no regular file (a pipe, /dev/stdout) is written to as it is, unless it is
    a pipe that another user put where everybody may write (``FailedPrecondition``); not so without ``follow_links``:
    whatever has the name is then replaced.
    """
    with writing(path, hint):
        target = resolved(path) if follow_links else path
        if follow_links and path.exists() and not path.is_file():
            _write_as_it_is(path, target, data)
        else:
            _replace(target, data)


def _write_as_it_is(path: Path, target: Path, data: bytes) -> None:
    """Write to the pipe or device at ``target``, to which ``path`` led. Another user's pipe is refused in a folder that
    everybody may write in, unless it is the folder's owner's: that user reads what comes (as Linux does with
    protected_fifos, proc_sys_fs(5)), or lets the opening wait forever."""
    # where /dev/stdout is a pipe, its link in /proc leads to "pipe:[1]" (proc_pid_fd(5))
    held = os.open(target if target.exists() else path, os.O_PATH | os.O_CLOEXEC)
    try:
        _check_same(path, target, held)
        _check_pipe(path, os.fstat(held))
        with os.fdopen(os.open(f"/proc/self/fd/{held}", os.O_WRONLY | os.O_CLOEXEC), "wb") as stream:
            stream.write(data)
    finally:
        os.close(held)


def _check_same(path: Path, target: Path, held: int) -> None:
    """Raises ``FailedPrecondition`` where another file, or a link to one, was put in the place of a pipe or a device
    since it was looked at."""
    leads = os.readlink(f"/proc/self/fd/{held}")  # noqa: PTH115 - text: it may be no path
    if leads not in (str(target), target.name) or stat.S_ISREG(os.fstat(held).st_mode):
        raise FailedPrecondition(
            "another file was put in its place while it was looked at", where=str(path), hint="name another file"
        )


def _check_pipe(path: Path, status: os.stat_result) -> None:
    folder = path.parent.stat()
    strangers = folder.st_mode & stat.S_IWOTH and status.st_uid not in (os.geteuid(), folder.st_uid)
    if stat.S_ISFIFO(status.st_mode) and strangers:
        raise FailedPrecondition(
            "this is another user's pipe in a folder that everybody may write in",
            where=str(path),
            hint="name another file",
        )


def write_file_or_stdout(target: str, data: bytes, *, hint: str) -> None:
    """Make ``data`` the content of the file at ``target``, as ``write_file`` does, or write it to standard output
    where ``target`` is "-"."""
    if target == "-":
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        write_file(Path(target), data, hint=hint)


def output_folder(folder: Path, *, hint: str) -> Path:
    """Where ``folder``, which a person named, leads; it is made where it is not there. Raises ``FailedPrecondition``
    where another user's symbolic link leads there (``resolved``), or where another user puts a link or a folder there
    while it is made, and ``StoreUnavailable`` with ``hint`` where it cannot be made."""
    with writing(folder, hint):
        place = resolved(folder)
        before = place.lstat() if os.path.lexists(place) else None
        make_inside(place)
        _check_made(place, before, hint)
        return still_resolved(place)


def _check_made(folder: Path, before: os.stat_result | None, hint: str) -> None:
    """Raises ``FailedPrecondition`` where a folder that everybody may write in has neither a folder that was there
    ``before`` nor one that nobody else can replace by a link."""
    above, made = folder.parent.stat(), folder.lstat()
    is_shared = above.st_mode & stat.S_ISVTX and above.st_mode & stat.S_IWOTH
    is_same = before is not None and os.path.samestat(before, made)
    if not stat.S_ISDIR(made.st_mode) or (
        is_shared and not is_same and made.st_uid not in (os.geteuid(), above.st_uid)
    ):
        raise FailedPrecondition("another user put something there meanwhile", where=str(folder), hint=hint)


def make_inside(folder: Path) -> None:
    """Make a folder where it is not there, and those above it: nobody may open it who may not open the one above.
    Raises OSError."""
    if not folder.parent.exists():
        make_inside(folder.parent)
    if _is_private(folder.parent):
        make_folder(folder, exist_ok=True)
    else:
        folder.mkdir(exist_ok=True)


def open_inside(path: Path, flags: int) -> int:
    """A descriptor of a file in an output folder, which is made where it is not there: nobody may open it who may not
    open the folder, nor write to it but this user. No link is followed, and no pipe waited for. Raises OSError."""
    if _is_private(path.parent):
        return open_private(path, flags)
    return os.open(path, flags | OPENING, _READABLE_MODE)


def _is_private(folder: Path) -> bool:
    return not folder.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO)


@contextmanager
def writing(path: Path, hint: str) -> Iterator[None]:
    """Raises ``StoreUnavailable`` for what the operating system refuses inside; ``hint`` says what to do about it."""
    try:
        yield
    except (OSError, ValueError) as error:
        lacks_folder = isinstance(error, FileNotFoundError) and not path.parent.exists()
        said = f"the folder {path.parent} does not exist" if lacks_folder else os_error_text(error)
        raise StoreUnavailable(f"cannot write the file: {said}", where=str(path), hint=hint) from error


@contextmanager
def replacing(*paths: Path, hint: str) -> Iterator[tuple[Path, ...]]:
    """For each of ``paths`` a temporary file in the same folder, to be written meanwhile by name; each takes the place
    of its path at the end, the last one last, or is gone after an error. What a killed process left of earlier ones
    goes. Links are followed and permissions kept as by ``write_file``. Raises ``StoreUnavailable`` with ``hint`` where
    that fails, and ``InvalidInput`` for a path of what is no regular file."""
    targets = []
    for path in paths:
        with writing(path, hint):
            targets.append(resolved(path))
    for path, target in zip(paths, targets, strict=True):
        if target.exists() and not target.is_file():
            raise InvalidInput("this is not a regular file, and cannot be replaced", where=str(path), hint=hint)
    temporaries = tuple(map(_beside, targets))
    with _removed_at_the_end(temporaries), ExitStack() as opened:
        for path, target, temporary in zip(paths, targets, temporaries, strict=True):
            with writing(path, hint):
                _remove_abandoned(target)
                opened.enter_context(_create(temporary, target))
        yield temporaries
        for path, target, temporary in zip(paths, targets, temporaries, strict=True):
            with writing(path, hint):
                _put(temporary, target)


def _replace(path: Path, data: bytes) -> None:
    temporary = _beside(path)
    _remove_abandoned(path)
    with _removed_at_the_end([temporary]), _create(temporary, path) as stream:
        stream.write(data)
        stream.flush()
        _put(temporary, path)


@contextmanager
def _removed_at_the_end(temporaries: Sequence[Path]) -> Iterator[None]:
    """Remove what is left of temporary files, also where a signal ends the process that nobody else handles."""
    with ExitStack() as stack:
        stack.callback(_unlink, temporaries)
        if threading.current_thread() is threading.main_thread():
            for number in filter(lambda number: signal.getsignal(number) is signal.SIG_DFL, _ENDINGS):
                signal.signal(number, partial(_end_as_signal, temporaries, os.getpid()))
                stack.callback(signal.signal, number, signal.SIG_DFL)
        yield


def _end_as_signal(temporaries: Sequence[Path], process: int, number: int, _frame: object) -> None:
    """End as the signal does where nobody handles it. A process that was forked meanwhile owns none of the files."""
    if os.getpid() == process:
        _unlink(temporaries)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _unlink(temporaries: Sequence[Path]) -> None:
    for temporary in temporaries:
        temporary.unlink(missing_ok=True)  # it is gone where it has replaced the file


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:_NAME_CHARACTERS]}.{secrets.token_hex(4)}.symd")


def _create(temporary: Path, path: Path) -> BinaryIO:
    """A new file, locked while it is open, so that others can tell it from what a killed process left. Where it shall
    replace a file nobody else may read it before it has that file's permissions."""
    replaced = _replaced(path)
    if replaced is None:
        mode = _USUAL_MODE
    elif _is_own(replaced):
        mode = _PRIVATE_MODE
    else:
        mode = _PRIVATE_MODE | replaced.st_mode & _USUAL_MODE
    while True:
        stream = os.fdopen(os.open(temporary, _CREATING, mode), "wb")
        if _locks(stream) and os.fstat(stream.fileno()).st_nlink:
            return stream
        stream.close()  # it was taken for an abandoned one before it was locked
        temporary.unlink(missing_ok=True)


def _locks(stream: BinaryIO) -> bool:
    """Whether nobody else holds the lock of a new file: one who may read it could do so forever."""
    try:
        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a disk that has no locks: nobody gets one to remove it either
    return True


def _remove_abandoned(path: Path) -> None:
    """Remove the temporary files beside ``path`` whose writers are dead."""
    name = re.compile(rf"\.{re.escape(path.name[:_NAME_CHARACTERS])}\.[0-9a-f]{{8}}\.symd")
    remove_stale_files(path.parent, name, stat.S_ISREG, Path.unlink)


def _put(temporary: Path, path: Path) -> None:
    replaced = _replaced(path)
    if replaced is not None and _is_own(replaced):
        temporary.chmod(replaced.st_mode & 0o777)
    temporary.replace(path)


def _replaced(path: Path) -> os.stat_result | None:
    """The file that is to be replaced; None where there is no file, but at most a link."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    return status if stat.S_ISREG(status.st_mode) else None


def _is_own(status: os.stat_result) -> bool:
    return status.st_uid == os.geteuid()
