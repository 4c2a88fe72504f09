"""A filter of system calls: a process keeps those of ``ALLOWED``, which computing, reading and writing files that it
may open, and threads take, and gives up every other, for good.

So limits of one process are limits of all that it does: it starts no other, has no socket, and reaches no other process
and no file's owner, mode or times. Called in the child itself, before it meets what is not to be trusted.

The list says what is let through, so that a call that nobody thought of, or that a later kernel adds, is refused. It
was made from what both generations of Intel's drivers, IGC and CPython with NumPy were seen to call, and from what the
C library may call instead. Not on it, among others: sockets; programs and processes; modes, owners, times and extended
attributes of files; links; what acts on other processes (ptrace, pidfd, process_madvise, priorities, affinities,
limits, SysV IPC, POSIX queues); entries to newer code of the kernel (io_uring, bpf, perf_event_open, userfaultfd,
keyctl); namespaces and mounts; files in memory (memfd_create), which no limit counts.

Sources: seccomp(2), linux/filter.h, linux/seccomp.h, linux/audit.h; asm/unistd_64.h (x86-64), asm-generic/unistd.h
(AArch64).
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Final

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
"""The number from which on x86-64 numbers are those of the x32 interface."""

_CLONE_THREAD: Final = 0x00010000
_CLONE_NAMESPACES: Final = 0x7E020000
"""CLONE_NEWNS, _NEWCGROUP, _NEWUTS, _NEWIPC, _NEWUSER, _NEWPID, _NEWNET."""
_FCNTL: Final = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030)
"""Copies, flags and locks of descriptors (F_DUPFD to F_SETLKW, F_OFD_*, F_DUPFD_CLOEXEC); not F_SETOWN and F_SETSIG,
which have the kernel send another process a signal."""
_PRCTL: Final = (3, 15, 16, 23, 0x53564D41)
"""PR_GET_DUMPABLE, PR_SET_NAME, PR_GET_NAME, PR_CAPBSET_READ, PR_SET_VMA. Not PR_SET_PDEATHSIG: the process could turn
off with it that it is killed when its parent dies."""
_IOCTL: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
"""TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX."""
_DRM_IOCTL: Final = ord("d") << 8
"""The type "d" of every request to a graphics device (drm/drm.h), in bits 8 to 15, where a request's number has its
type (asm-generic/ioctl.h)."""

_MACHINES: Final[Mapping[str, tuple[int, int]]] = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""For each machine its AUDIT_ARCH value, and the position of its system call number in each pair of ``ALLOWED`` and
``CHECKED``."""


def available() -> bool:
    """Whether the filter knows this machine's system calls."""
    return os.uname().machine in _MACHINES


def restrict(*, threads: bool, program: bool = False) -> None:
    """From now on refuse this process every system call that is not on the list: with ENOSYS a call that is newer than
    the list, with EPERM any other. Without ``threads`` it can start no further thread, because threads take process
    numbers, of which the machine has few. With ``program`` it can become another program, which is restricted likewise.

    Raises OSError where the kernel has no filters or the machine is not known.
    """
    if not available():
        raise OSError(f"no filter of system calls for {os.uname().machine}")
    code = _program(os.getpid(), os.uname().machine, threads=threads, program=program)
    buffer = ctypes.create_string_buffer(code, len(code))
    header = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    gain_no_privileges(libc)
    mode = ctypes.c_ulong(_SECCOMP_MODE_FILTER)
    succeed(libc.prctl(ctypes.c_int(_PR_SET_SECCOMP), mode, ctypes.create_string_buffer(header, len(header))), "prctl")


def _program(process: int, machine: str, *, threads: bool, program: bool) -> bytes:
    """The filter's instructions. A test that fails jumps over the few instructions right behind it, which are for the
    case that it holds; so tests can be added and removed without counting other jumps anew."""
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
        # Its flags are in memory, where no filter sees them: it is said not to exist, and the C library uses clone.
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


def gain_no_privileges(libc: ctypes.CDLL) -> None:
    """Have programs give this process no rights that it does not have, which is what both filters ask of one without
    privileges. Raises OSError."""
    succeed(libc.prctl(ctypes.c_int(_PR_SET_NO_NEW_PRIVS), *map(ctypes.c_ulong, (1, 0, 0, 0))), "prctl")


def succeed(result: int, call: str) -> int:
    """The result of a system call. Raises OSError where it failed."""
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{call}: {os.strerror(number)}")
    return result


ALLOWED: Final[Mapping[str, tuple[int | None, int | None]]] = {
    # Memory of its own.
    "brk": (12, 214),
    "get_mempolicy": (239, 236),
    "madvise": (28, 233),
    "mbind": (237, 235),
    "membarrier": (324, 283),
    "mincore": (27, 232),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "mremap": (25, 216),
    "msync": (26, 227),
    "munmap": (11, 215),
    # Files, as far as Landlock lets them be opened.
    "access": (21, None),
    "chdir": (80, 49),
    "close": (3, 57),
    "close_range": (436, 436),
    "copy_file_range": (326, 285),
    "creat": (85, None),
    "dup": (32, 23),
    "dup2": (33, None),
    "dup3": (292, 24),
    "faccessat": (269, 48),
    "faccessat2": (439, 439),
    "fadvise64": (221, 223),
    "fallocate": (285, 47),
    "fchdir": (81, 50),
    "fdatasync": (75, 83),
    "flock": (73, 32),
    "fstat": (5, 80),
    "fstatfs": (138, 44),
    "fsync": (74, 82),
    "ftruncate": (77, 46),
    "getcwd": (79, 17),
    "getdents": (78, None),
    "getdents64": (217, 61),
    "lseek": (8, 62),
    "lstat": (6, None),
    "mkdir": (83, None),
    "mkdirat": (258, 34),
    "newfstatat": (262, 79),
    "open": (2, None),
    "openat": (257, 56),
    "pread64": (17, 67),
    "preadv": (295, 69),
    "preadv2": (327, 286),
    "pwrite64": (18, 68),
    "pwritev": (296, 70),
    "pwritev2": (328, 287),
    "read": (0, 63),
    "readahead": (187, 213),
    "readlink": (89, None),
    "readlinkat": (267, 78),
    "readv": (19, 65),
    "rename": (82, None),
    "renameat": (264, 38),
    "renameat2": (316, 276),
    "rmdir": (84, None),
    "sendfile": (40, 71),
    "stat": (4, None),
    "statfs": (137, 43),
    "statx": (332, 291),
    "umask": (95, 166),
    "unlink": (87, None),
    "unlinkat": (263, 35),
    "write": (1, 64),
    "writev": (20, 66),
    # Waiting.
    "epoll_create": (213, None),
    "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21),
    "epoll_pwait": (281, 22),
    "epoll_pwait2": (441, 441),
    "epoll_wait": (232, None),
    "eventfd": (284, None),
    "eventfd2": (290, 19),
    "pipe": (22, None),
    "pipe2": (293, 59),
    "poll": (7, None),
    "ppoll": (271, 73),
    "pselect6": (270, 72),
    "recvfrom": (45, 207),
    "recvmsg": (47, 212),
    "select": (23, None),
    "timerfd_create": (283, 85),
    "timerfd_gettime": (287, 87),
    "timerfd_settime": (286, 86),
    # Threads of its own.
    "arch_prctl": (158, None),
    "exit": (60, 93),
    "exit_group": (231, 94),
    "futex": (202, 98),
    "futex_waitv": (449, 449),
    "getcpu": (309, 168),
    "rseq": (334, 293),
    "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126),
    "sched_getaffinity": (204, 123),
    "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120),
    "sched_yield": (24, 124),
    "set_robust_list": (273, 99),
    "set_tid_address": (218, 96),
    # Signals to itself.
    "alarm": (37, None),
    "getitimer": (36, 102),
    "pause": (34, None),
    "restart_syscall": (219, 128),
    "rt_sigaction": (13, 134),
    "rt_sigpending": (127, 136),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "rt_sigsuspend": (130, 133),
    "rt_sigtimedwait": (128, 137),
    "setitimer": (38, 103),
    "sigaltstack": (131, 132),
    "timer_create": (222, 107),
    "timer_delete": (226, 111),
    "timer_getoverrun": (225, 109),
    "timer_gettime": (224, 108),
    "timer_settime": (223, 110),
    # The clock, and what it is.
    "capget": (125, 90),
    "clock_getres": (229, 114),
    "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115),
    "getegid": (108, 177),
    "geteuid": (107, 175),
    "getgid": (104, 176),
    "getgroups": (115, 158),
    "getpgid": (121, 155),
    "getpgrp": (111, None),
    "getpid": (39, 172),
    "getppid": (110, 173),
    "getpriority": (140, 141),
    "getrandom": (318, 278),
    "getresgid": (120, 150),
    "getresuid": (118, 148),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "getsid": (124, 156),
    "gettid": (186, 178),
    "gettimeofday": (96, 169),
    "getuid": (102, 174),
    "nanosleep": (35, 101),
    "sysinfo": (99, 179),
    "time": (201, None),
    "times": (100, 153),
    "uname": (63, 160),
}
"""Name: the number on x86-64 and on AArch64; None where the machine has no such call."""

CHECKED: Final[Mapping[str, tuple[int, int]]] = {
    "clone": (56, 220),
    "clone3": (435, 435),
    "execve": (59, 221),
    "fcntl": (72, 25),
    "ioctl": (16, 29),
    "kill": (62, 129),
    "prctl": (157, 167),
    "prlimit64": (302, 261),
    "sched_setaffinity": (203, 122),
    "tgkill": (234, 131),
}
"""System calls of which some are let through (``seccomp``): the number of each on x86-64 and on AArch64."""

NEWEST: Final = 450
"""The last number that the list was made with. A C library that knows later calls does without where they do not
exist."""
