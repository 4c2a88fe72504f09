"""What the filter of system calls decides, on both machines that it knows: its instructions are run here one by one."""

from __future__ import annotations

import errno
import struct

import pytest

from symd.system.process import seccomp
from symd.system.process.seccomp import ALLOWED, CHECKED, NEWEST

PROCESS = 4321
ALLOWING, KILLING = 0x7FFF0000, 0x80000000
REFUSING, ABSENT = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def decided(
    machine: str,
    call: str | int,
    *arguments: int,
    architecture: int | None = None,
    threads: bool = True,
    program: bool = False,
) -> int:
    """What the filter returns (linux/filter.h: a program is at most 4096 instructions, and every jump goes forward)."""
    known, column = MACHINES[machine]
    number = call if isinstance(call, int) else {**ALLOWED, **CHECKED}[call][column]
    data = struct.pack("<IIQ6Q", number, architecture or known, 0, *arguments, *[0] * (6 - len(arguments)))
    code = seccomp._program(PROCESS, machine, threads=threads, program=program)
    steps = [struct.unpack_from("=HBBI", code, at) for at in range(0, len(code), 8)]
    assert len(steps) < 4096
    value, at = 0, 0
    while True:
        kind, yes, no, operand = steps[at]
        at += 1
        match kind:
            case 0x20:
                value = struct.unpack_from("<I", data, operand)[0]
            case 0x54:
                value &= operand
            case 0x06:
                return operand
            case 0x15:
                at += yes if value == operand else no
            case 0x35:
                at += yes if value >= operand else no
            case 0x45:
                at += yes if value & operand else no
            case _:
                raise AssertionError(f"no such instruction: {kind:#x}")


def test_every_call_of_the_list_is_let_through_and_no_other(machine: str) -> None:
    column = MACHINES[machine][1]
    allowed = {numbers[column] for numbers in ALLOWED.values()}
    checked = {numbers[column] for numbers in CHECKED.values()}
    for number in set(range(NEWEST + 1)) - checked:
        assert decided(machine, number, *[7] * 6) == (ALLOWING if number in allowed else REFUSING), number
    assert decided(machine, NEWEST + 1) == ABSENT


@pytest.mark.parametrize(
    ("call", "arguments", "decision"),
    [
        ("clone", (0x003D0F00,), ALLOWING),  # what pthread_create asks for
        ("clone", (17,), REFUSING),  # fork
        ("clone", (0x4000 | 0x100 | 17,), REFUSING),  # vfork
        ("clone", (0x003D0F00 | 0x10000000,), REFUSING),  # a thread with a user namespace
        ("clone3", (0, 88), ABSENT),
        ("execve", (0x1000, 0x1000, 0x1000), REFUSING),
        ("kill", (PROCESS, 6), ALLOWING),
        ("kill", (0, 9), REFUSING),
        ("kill", ((1 << 64) - 1, 9), REFUSING),
        ("kill", (PROCESS + 1, 9), REFUSING),
        ("tgkill", (PROCESS, PROCESS, 6), ALLOWING),
        ("tgkill", (1, 1, 9), REFUSING),
        ("fcntl", (1, 3), ALLOWING),
        ("fcntl", (1, 1030, 3), ALLOWING),
        ("fcntl", (1, 8, 1), REFUSING),
        ("fcntl", (1, 10, 9), REFUSING),
        ("fcntl", (1, 15, 0), REFUSING),
        ("ioctl", (3, 0xC0406400), ALLOWING),
        ("ioctl", (3, 0x5401), ALLOWING),
        ("ioctl", (3, 0x5412, 0), REFUSING),
        ("ioctl", (3, 0x40086602), REFUSING),
        ("prctl", (15,), ALLOWING),
        ("prctl", (1, 0), REFUSING),
        ("prctl", (4, 0), REFUSING),
        ("prlimit64", (0, 7, 0, 0x7FFF0000), ALLOWING),
        ("prlimit64", (PROCESS, 7, 0, 0x7FFF0000), ALLOWING),
        ("prlimit64", (1, 7, 0, 0x7FFF0000), REFUSING),
        ("prlimit64", (0, 7, 1, 0), REFUSING),
        ("prlimit64", (0, 7, 1 << 32, 0), REFUSING),
        ("sched_setaffinity", (0, 8), ALLOWING),
        ("sched_setaffinity", (1, 8), REFUSING),
    ],
)
def test_others_by_their_arguments(machine: str, call: str, arguments: tuple[int, ...], decision: int) -> None:
    assert decided(machine, call, *arguments) == decision


def test_a_process_that_is_to_become_a_program_starts_no_other(machine: str) -> None:
    assert decided(machine, "execve", program=True) == ALLOWING
    assert decided(machine, "clone", 17, threads=False, program=True) == REFUSING


def test_threads_where_they_are_not_needed(machine: str) -> None:
    assert decided(machine, "clone", 0x003D0F00, threads=False) == REFUSING
    assert decided(machine, "futex", threads=False) == ALLOWING


def test_another_interface_of_the_processor_is_none(machine: str) -> None:
    assert decided(machine, "read", architecture=0x40000003) == KILLING
    assert decided(machine, 0x40000000 | 1) == REFUSING
