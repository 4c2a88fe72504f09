"""A filter of system calls: a process gives up starting others, sockets, and reaching into other processes.

So limits of one process are limits of all that it does. Threads stay possible. Called in the child itself, before it loads
what is not to be trusted; it cannot be undone.

Source: seccomp(2), linux/filter.h, linux/seccomp.h, linux/audit.h; the numbers of asm/unistd_64.h (x86-64) and
asm-generic/unistd.h (AArch64).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Mapping
from typing import Final

_PR_SET_NO_NEW_PRIVS: Final = 38
_PR_SET_SECCOMP: Final = 22
_SECCOMP_MODE_FILTER: Final = 2
_CLONE_THREAD: Final = 0x00010000

_LOAD_WORD: Final = 0x20  # BPF_LD | BPF_W | BPF_ABS
_IF_EQUAL: Final = 0x15  # BPF_JMP | BPF_JEQ | BPF_K
_IF_AT_LEAST: Final = 0x35  # BPF_JMP | BPF_JGE | BPF_K
_IF_SET: Final = 0x45  # BPF_JMP | BPF_JSET | BPF_K
_RETURN: Final = 0x06  # BPF_RET | BPF_K
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
"""Offsets in struct seccomp_data; of an argument its low half, on little-endian machines."""

_ALLOW: Final = 0x7FFF0000
_KILL: Final = 0x80000000
_REFUSE: Final = 0x00050000
"""With an errno in its low half."""
_X32: Final = 0x40000000
"""From here on x86-64 numbers are those of the x32 interface."""

_X86_64: Final[Mapping[str, int]] = {
    "socket": 41,
    "connect": 42,
    "socketpair": 53,
    "fork": 57,
    "vfork": 58,
    "execve": 59,
    "ptrace": 101,
    "rt_sigqueueinfo": 129,
    "tkill": 200,
    "rt_tgsigqueueinfo": 297,
    "process_vm_readv": 310,
    "process_vm_writev": 311,
    "execveat": 322,
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "pidfd_getfd": 438,
}
_AARCH64: Final[Mapping[str, int]] = {
    "ptrace": 117,
    "tkill": 130,
    "rt_sigqueueinfo": 138,
    "socket": 198,
    "socketpair": 199,
    "connect": 203,
    "execve": 221,
    "rt_tgsigqueueinfo": 240,
    "process_vm_readv": 270,
    "process_vm_writev": 271,
    "execveat": 281,
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "pidfd_getfd": 438,
}
_CLONE3: Final = 435
"""Its flags stand in memory, where no filter sees them: it is said not to exist, and the C library uses clone."""

_MACHINES: Final[Mapping[str, tuple[int, Mapping[str, int], int, tuple[int, int]]]] = {
    "x86_64": (0xC000003E, _X86_64, 56, (62, 234)),
    "aarch64": (0xC00000B7, _AARCH64, 220, (129, 131)),
}
"""Machine: AUDIT_ARCH, what is refused, the numbers of clone, and of kill and tgkill."""


def available() -> bool:
    """Whether the filter knows this machine's system calls."""
    return platform.machine() in _MACHINES


def restrict() -> None:
    """Refuse with EPERM from now on: new processes and programs, sockets, signals to and memory of other processes.

    Raises OSError where the kernel has no filters or the machine is not known.
    """
    if not available():
        raise OSError(f"no filter of system calls for {platform.machine()}")
    code = _program(os.getpid(), platform.machine())
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    _succeed(libc.prctl(ctypes.c_int(_PR_SET_NO_NEW_PRIVS), *map(ctypes.c_ulong, (1, 0, 0, 0))))
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    _succeed(libc.prctl(ctypes.c_int(_PR_SET_SECCOMP), mode, ctypes.create_string_buffer(header, len(header))))


def _program(process: int, machine: str) -> bytes:
    """The filter's instructions. Each test jumps over one return, so that no distance depends on what stands between."""
    architecture, refused, clone, signals = _MACHINES[machine]
    refuse, absent = _REFUSE | errno.EPERM, _REFUSE | errno.ENOSYS
    code = [_step(_LOAD_WORD, _ARCHITECTURE), *_unless(_IF_EQUAL, architecture, _KILL), _step(_LOAD_WORD, _NUMBER)]
    code += _when(_IF_AT_LEAST, _X32, refuse)
    code += _when(_IF_EQUAL, _CLONE3, absent)
    for number in refused.values():
        code += _when(_IF_EQUAL, number, refuse)
    for number in signals:  # to itself alone, as abort(3) does
        code += _only(number, _unless(_IF_EQUAL, process, refuse))
    code += _only(clone, _unless(_IF_SET, _CLONE_THREAD, refuse))
    return b"".join((*code, _step(_RETURN, _ALLOW)))


def _only(number: int, test: list[bytes]) -> list[bytes]:
    """``test`` of the first argument, for the system call ``number``."""
    inside = [_step(_LOAD_WORD, _FIRST_ARGUMENT), *test, _step(_RETURN, _ALLOW)]
    return [_step(_IF_EQUAL, number, no=len(inside)), *inside]


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
