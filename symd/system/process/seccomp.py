"""A filter of system calls: a process keeps those that computing takes (``system_calls``), and gives up every other, for good.

So limits of one process are limits of all that it does: it starts no other, has no socket, and reaches no other process and
no file's owner, mode or times. Called in the child itself, before it meets what is not to be trusted.

Source: seccomp(2), linux/filter.h, linux/seccomp.h, linux/audit.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from symd.system.process.system_calls import ALLOWED, CHECKED, NEWEST

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2

_LOAD_WORD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_AND: Final = 0x54  # BPF_ALU | BPF_AND | BPF_K
_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_IF_SET: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
"""Offsets in struct seccomp_data; an argument is a u64, its low half first on little-endian machines."""

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_REFUSE: Final = 0x00050000 | errno.EPERM
_ABSENT: Final = 0x00050000 | errno.ENOSYS
_X32: Final = 0x40000000
"""From here on x86-64 numbers are those of the x32 interface."""

_CLONE_THREAD: Final = 0x00010000
_CLONE_NAMESPACES: Final = 0x7E020000
"""CLONE_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET."""
_FCNTL: Final = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030)
"""Copies, flags and locks of descriptors (F_DUPFD to F_SETLKW, F_OFD_*, F_DUPFD_CLOEXEC); not F_SETOWN and F_SETSIG, which have the
kernel send another process a signal."""
_PRCTL: Final = (3, 15, 16, 23, 0x53564D41)
"""PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_SET_VMA. Not PR_SET_PDEATHSIG: the process could turn off with it
that it is killed when its parent dies."""
_IOCTL: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_DRM_IOCTL: Final = ord("d") << 8
"""The type "d" of every request to a graphics device (drm/drm.h), in bits 8 to 15, where a request's number has its type
(asm-generic/ioctl.h)."""

_MACHINES: Final[Mapping[str, tuple[int, int]]] = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""By machine: its AUDIT_ARCH value, and the position of its system call number in each pair of ``ALLOWED`` and ``CHECKED``."""


def available() -> bool:
    """Whether the filter knows this machine's system calls."""
    return os.uname().machine in _MACHINES


def restrict(*, threads: bool, program: bool = False) -> None:
    """From now on refuse this process every system call that is not on the list: with ENOSYS a call that is newer than the
    list, with EPERM any other. Without ``threads`` it can start no further thread, because threads take process numbers,
    of which the machine has few. With ``program`` it can become another program, which is restricted likewise.

    Raises OSError where the kernel has no filters or the machine is not known.
    """
    if not available():
        raise OSError(f"no filter of system calls for {os.uname().machine}")
    code = _program(os.getpid(), os.uname().machine, threads=threads, program=program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    _succeed(libc.prctl(ctypes.c_int(_PR_SET_NO_NEW_PRIVS), *map(ctypes.c_ulong, (1, 0, 0, 0))))
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    _succeed(libc.prctl(ctypes.c_int(_PR_SET_SECCOMP), mode, ctypes.create_string_buffer(header, len(header))))


def _program(process: int, machine: str, *, threads: bool, program: bool) -> bytes:
    """The filter's instructions. A test that fails jumps over the few instructions right behind it, which are for the case that
    it holds; so tests can be added and removed without counting other jumps anew."""
    architecture, column = _MACHINES[machine]
    code = [_step(_LOAD_WORD, _ARCHITECTURE), *_unless(_IF_EQUAL, architecture, _KILL), _step(_LOAD_WORD, _NUMBER)]
    code += _when(_IF_AT_LEAST, _X32, _REFUSE)
    for numbers in ALLOWED.values():
        number = numbers[column]
        if number is not None:
            code += _when(_IF_EQUAL, number, _ALLOW)
    for name, inside in _checks(process, threads=threads, program=program).items():
        code += [_step(_IF_EQUAL, CHECKED[name][column], no=len(inside)), *inside]
    code += _when(_IF_AT_LEAST, NEWEST + 1, _ABSENT)
    return b"".join((*code, _step(_RETURN, _REFUSE)))


def _checks(process: int, *, threads: bool, program: bool) -> Mapping[str, list[bytes]]:
    """For each call that is let through for some arguments: instructions that end the filter."""
    itself = _one_of((0, process))
    return {
        "clone": [
            _load(0),
            *_unless(_IF_SET, _CLONE_THREAD, _REFUSE),
            *_when(_IF_SET, _CLONE_NAMESPACES, _REFUSE),
            _step(_RETURN, _ALLOW if threads else _REFUSE),
        ],
        # Its flags stand in memory, where no filter sees them: it is said not to exist, and the C library uses clone.
        "clone3": [_step(_RETURN, _ABSENT)],
        "execve": [_step(_RETURN, _ALLOW if program else _REFUSE)],
        "fcntl": [_load(1), *_one_of(_FCNTL)],
        "ioctl": [_load(1), *_when_one_of(_IOCTL), _step(_AND, 0xFF00), *_one_of((_DRM_IOCTL,))],
        "kill": [_load(0), *_one_of((process,))],  # as abort(3) does
        "prctl": [_load(0), *_one_of(_PRCTL)],
        # Limits are read, never set: root could raise them.
        "prlimit64": [
            _load(2),
            *_unless(_IF_EQUAL, 0, _REFUSE),
            _load(2, high=True),
            *_unless(_IF_EQUAL, 0, _REFUSE),
            _load(0),
            *itself,
        ],
        "sched_setaffinity": [_load(0), *itself],
        "tgkill": [_load(0), *_one_of((process,))],
    }


def _load(argument: int, *, high: bool = False) -> bytes:
    """One half of an argument."""
    return _step(_LOAD_WORD, _ARGUMENTS + 8 * argument + 4 * high)


def _when_one_of(values: Iterable[int]) -> list[bytes]:
    return [step for value in values for step in _when(_IF_EQUAL, value, _ALLOW)]


def _one_of(values: Iterable[int]) -> list[bytes]:
    """Allow these, refuse all others."""
    return [*_when_one_of(values), _step(_RETURN, _REFUSE)]


def _when(test: int, value: int, result: int) -> list[bytes]:
    return [_step(test, value, no=1), _step(_RETURN, result)]


def _unless(test: int, value: int, result: int) -> list[bytes]:
    return [_step(test, value, yes=1), _step(_RETURN, result)]


def _step(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    """struct sock_filter."""
    return struct.pack("=HBBI", code, yes, no, value)


def _succeed(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
