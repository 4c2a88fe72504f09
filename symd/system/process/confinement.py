"""Confinement of a process that meets bytes of strangers: the files that it was given, the system calls that computing
takes (``seccomp``), and nothing else.

By Landlock a process gives up, for good and for all that it starts, every file but those that it names, every TCP
connection, and signals and abstract sockets to others. It needs no privilege. It is called in the child itself, before
the child loads what is not to be trusted. What stays possible: learning whether a file exists and how large it is,
which Landlock does not restrict.

Source: landlock(7), linux/landlock.h; https://docs.kernel.org/userspace-api/landlock.html.
"""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from collections.abc import Iterable, Iterator
from enum import IntFlag
from pathlib import Path
from typing import Final

from symd.system.process import seccomp

_CREATE_RULESET: Final = 444
_ADD_RULE: Final = 445
_RESTRICT_SELF: Final = 446
"""System call numbers, the same on every architecture."""
_CREATE_RULESET_VERSION: Final = 1
_RULE_PATH_BENEATH: Final = 1


class LandlockAccess(IntFlag):
    """What may be done with a file or with what is below a folder (LANDLOCK_ACCESS_FS_*)."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    REMOVE_DIR = 1 << 4
    REMOVE_FILE = 1 << 5
    MAKE_CHAR = 1 << 6
    MAKE_DIR = 1 << 7
    MAKE_REG = 1 << 8
    MAKE_SOCK = 1 << 9
    MAKE_FIFO = 1 << 10
    MAKE_BLOCK = 1 << 11
    MAKE_SYM = 1 << 12
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEV = 1 << 15


READ: Final = LandlockAccess.READ_FILE | LandlockAccess.READ_DIR
USE_DEVICE: Final = READ | LandlockAccess.WRITE_FILE | LandlockAccess.IOCTL_DEV
WRITE: Final = (
    READ
    | LandlockAccess.WRITE_FILE
    | LandlockAccess.TRUNCATE
    | LandlockAccess.MAKE_REG
    | LandlockAccess.MAKE_DIR
    | LandlockAccess.REMOVE_FILE
    | LandlockAccess.REMOVE_DIR
    | LandlockAccess.REFER
)
"""Files and folders, made and removed; no links, sockets or devices."""

_OF_FILES: Final = (
    LandlockAccess.EXECUTE
    | LandlockAccess.WRITE_FILE
    | LandlockAccess.READ_FILE
    | LandlockAccess.TRUNCATE
    | LandlockAccess.IOCTL_DEV
)
"""What the kernel takes in a rule for a file that is no folder."""
_KNOWN: Final = (
    (1, (1 << 13) - 1),
    (2, LandlockAccess.REFER),
    (3, LandlockAccess.TRUNCATE),
    (5, LandlockAccess.IOCTL_DEV),
)
"""(interface version, what it brought)."""
_TCP: Final = 0b11
"""LANDLOCK_ACCESS_NET_BIND_TCP and _CONNECT_TCP, since version 4."""
_SCOPES: Final = 0b11
"""LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET and _SIGNAL, since version 6."""


def version() -> int:
    """The version of Landlock's interface in this kernel; 0 where it has none or it is switched off."""
    libc = ctypes.CDLL(None, use_errno=True)
    found = int(
        libc.syscall(ctypes.c_long(_CREATE_RULESET), None, ctypes.c_size_t(0), ctypes.c_uint32(_CREATE_RULESET_VERSION))
    )
    return max(found, 0)


def restrict(allowed: Iterable[tuple[str, LandlockAccess]]) -> None:
    """Leave this process only the paths of ``allowed`` and what is below them; paths that are not there are passed
    over.

    Raises OSError where the kernel cannot, with the process as it was but for what it gains by programs that it starts
    (no_new_privs).
    """
    known = version()
    if not known:
        raise OSError("this kernel has no Landlock")
    handled = sum(access for since, access in _KNOWN if since <= known)
    attributes = struct.pack("=QQQ", handled, _TCP if known >= 4 else 0, _SCOPES if known >= 6 else 0)
    size = 24 if known >= 6 else 16 if known >= 4 else 8
    libc = ctypes.CDLL(None, use_errno=True)
    seccomp.gain_no_privileges(libc)
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    ruleset = seccomp.succeed(
        libc.syscall(ctypes.c_long(_CREATE_RULESET), buffer, ctypes.c_size_t(size), ctypes.c_uint32(0)),
        "landlock_create_ruleset",
    )
    try:
        for path, access in allowed:
            _allow(libc, ruleset, path, access & handled)
        seccomp.succeed(
            libc.syscall(ctypes.c_long(_RESTRICT_SELF), ctypes.c_int(ruleset), ctypes.c_uint32(0)),
            "landlock_restrict_self",
        )
    finally:
        os.close(ruleset)


def _allow(libc: ctypes.CDLL, ruleset: int, path: str, access: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # not there, or not ours to see: nothing to allow
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            access &= _OF_FILES
        rule = ctypes.create_string_buffer(struct.pack("=Qi", access, descriptor), 12)
        seccomp.succeed(
            libc.syscall(
                ctypes.c_long(_ADD_RULE),
                ctypes.c_int(ruleset),
                ctypes.c_int(_RULE_PATH_BENEATH),
                rule,
                ctypes.c_uint32(0),
            ),
            f"landlock_add_rule for {path}",
        )
    finally:
        os.close(descriptor)


_OF_PYTHON: Final = ("site-packages", "dist-packages", "lib-dynload")
"""How folders of modules are called."""
LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
"""Where shared libraries are."""


def available() -> bool:
    """Whether this kernel can confine a process so."""
    return version() > 0 and seccomp.available()


def confine(allowed: Iterable[tuple[str, LandlockAccess]], *, threads: bool = False, program: bool = False) -> None:
    """Confine this process to files of ``allowed`` and what is below them. It keeps the descriptors that it has, starts
    ``threads`` where it may, and may become another ``program`` where that is said: one of those files that may be
    executed.

    Raises OSError where the kernel cannot.
    """
    restrict(allowed)
    seccomp.restrict(threads=threads, program=program)


def interpreter() -> Iterator[tuple[str, LandlockAccess]]:
    """What a Python process reads after its start: modules that are imported late, their libraries, how much memory it
    has."""
    package = Path(__file__).resolve().parents[2]
    modules = [path for path in sys.path if Path(path).name in _OF_PYTHON]
    library = Path(os.__file__).parent.parent  # with the libraries that came with it, beside its modules
    for path in (str(library), str(package), *modules, *_linked(modules), *LIBRARIES, "/proc/self"):
        yield path, READ
    for path in ("/dev/null", "/dev/urandom"):
        yield path, USE_DEVICE


def _linked(folders: Iterable[str]) -> Iterator[str]:
    """Where the packages lie that are links in ``folders``: Landlock asks about the file, not about the way to it."""
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                yield from (os.path.realpath(each.path) for each in entries if each.is_symlink())
        except OSError:  # not there, or not ours to see: nothing is imported from it
            continue
