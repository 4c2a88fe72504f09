"""Changes of an access file: one writer at a time, the whole file replaced by another, never readable to others. So a daemon that reads
it meanwhile, and a writer beside, see all of a change or nothing."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path

from symd.errors import FailedPrecondition, NotFound, StoreUnavailable
from symd.server.access_file import EXPIRES, Access, parse_access, parse_expiry, read_text, time_text
from symd.system.os_errors import system_reason
from symd.system.private_files import FILE_MODE, new_file, private_lock
from symd.system.symlinks import resolved

_NAME_CHARACTERS = 100
"""So much of the file's name stands in those of the files beside it."""


def edit(path: Path, change: Callable[[str], str], *, create: bool = False) -> Access:
    """Make the text of the access file what ``change`` makes of it; what it says then. A file that is not there is empty where it may
    be created, unless a link leads to it. Raises as ``read_access``, what ``change`` raises, and StoreUnavailable where the file cannot be written."""
    target = _led_to(path)
    if path.is_symlink() and not target.exists():
        raise FailedPrecondition(
            f"it is a symbolic link to {target}, which is not there", where=str(path), hint="name the file itself"
        )
    with _locked(target):
        before = "" if create and not target.exists() else read_text(target)
        after = change(before)
        access = parse_access(after, path)
        _replace(target, after)
    return access


def added(text: str, line: str) -> str:
    """The text with another line."""
    return f"{text}{'' if not text or text.endswith(chr(10)) else chr(10)}{line}{chr(10)}"


def without(text: str, name: str) -> str:
    """The text without the lines of ``name``. Raises FailedPrecondition where there is none."""
    numbers = _lines_of(text, name)
    return "".join(line for number, line in enumerate(text.splitlines(keepends=True)) if number not in numbers)


def without_older(text: str, name: str) -> str:
    """The text without the tokens of ``name`` but the newest, which is the last one."""
    older = _tokens_of(text, name)[:-1]
    return "".join(line for number, line in enumerate(text.splitlines(keepends=True)) if number not in older)


def ending(text: str, name: str, until: datetime) -> str:
    """The text, in which the tokens of ``name`` expire at ``until``, or earlier where they did."""
    tokens = _tokens_of(text, name)
    lines = text.splitlines(keepends=True)
    return "".join(_until(line, until) if number in tokens else line for number, line in enumerate(lines))


def _lines_of(text: str, name: str) -> list[int]:
    found = [number for number, words in enumerate(map(_words, text.splitlines())) if words[:1] == [name]]
    if not found:
        raise NotFound(f"nobody is called {name!r}", hint="symd token --list has the names")
    return found


def _tokens_of(text: str, name: str) -> list[int]:
    lines = text.splitlines()
    tokens = [number for number in _lines_of(text, name) if _words(lines[number])[2] != "certificate"]
    if not tokens:
        raise FailedPrecondition(f"{name!r} has no token, but a certificate", hint="symd token --list has the kinds")
    return tokens


def _words(line: str) -> list[str]:
    return line.partition("#")[0].split()


def _until(line: str, until: datetime) -> str:
    """A line with the time when it expires, unless it has an earlier one."""
    content, mark, comment = line.rstrip("\n").partition("#")
    words = content.split()
    if len(words) == 4 and parse_expiry(words[3], "") <= until:
        return line
    return " ".join([*words[:3], f"{EXPIRES}{time_text(until)}", *([mark + comment] if mark else [])]) + "\n"


def _led_to(path: Path) -> Path:
    try:
        return resolved(path)
    except OSError as error:
        raise FailedPrecondition(f"it cannot be reached: {system_reason(error)}", where=str(path)) from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Under a lock beside the file: one on the file would be lost with the file."""
    with ExitStack() as stack:
        try:
            stack.enter_context(private_lock(path.with_name(f".{path.name[:_NAME_CHARACTERS]}.lock")))
        except OSError as error:
            raise FailedPrecondition(
                f"the folder cannot be used: {system_reason(error)}", where=str(path.parent)
            ) from error
        yield


def _replace(path: Path, text: str) -> None:
    """Put a file of this text in the place of the old one, with its mode."""
    temporary = path.with_name(f".{path.name[:_NAME_CHARACTERS]}.{secrets.token_hex(4)}")
    try:
        mode = path.stat().st_mode & 0o777 if path.exists() else FILE_MODE
        with os.fdopen(new_file(temporary), "w", encoding="utf-8") as stream:
            os.fchmod(stream.fileno(), mode)
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(path)
    except OSError as error:
        reason = system_reason(error)
        raise StoreUnavailable(
            f"cannot write the file: {reason}", where=str(path), hint="choose another --access"
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
