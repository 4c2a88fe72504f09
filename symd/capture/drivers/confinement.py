"""What a driver's process may see and do. A driver compiles what a client sent, with flags that a client sent, and
compilers read files: without confinement, those of the daemon's user.

Confined, the process has an environment of its own, its private folder to write in, the driver's libraries, the Python
that runs it and what the kernel tells about devices to read, the device files, and nothing else: no other file, no
other process, no program to start, no socket. What it may use of memory and time is then bounded by the limits of one
process.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from symd.system.process import confinement
from symd.system.process.confinement import LIBRARIES, READ, USE_DEVICE, WRITE, LandlockAccess, available


class Confinement(enum.Enum):
    """How far the process is kept from what else the user of this process has."""

    NONE = "none"
    """The process sees what its user sees. Meant for users who build files of their own."""
    ENVIRONMENT = "environment"
    """The process has an environment and a folder of its own, but can read every file that its user can."""
    FULL = "full"
    """The process reaches nothing but the driver and its own folder."""


DRIVER_VARIABLES: Final = (
    "LD_LIBRARY_PATH",
    "OCL_ICD_FILENAMES",
    "OCL_ICD_VENDORS",
    "ZE_AFFINITY_MASK",
    "ZE_ENABLE_ALT_DRIVERS",
    "ZE_FLAT_DEVICE_HIERARCHY",
)
"""What an own environment takes over: where the operator's drivers are, and which devices are seen."""
_PATH_VARIABLES: Final = ("LD_LIBRARY_PATH", "OCL_ICD_FILENAMES", "OCL_ICD_VENDORS", "ZE_ENABLE_ALT_DRIVERS")
"""The variables among them that name files or folders, separated by ":" or ","."""

_DRIVERS: Final = ("/opt/intel", "/opt/rocm")
_SETTINGS: Final = ("/etc/OpenCL", "/etc/ld.so.cache", "/etc/localtime", "/usr/share/locale", "/usr/share/zoneinfo")
_SYSTEM: Final = (
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/sys/bus",
    "/sys/class",
    "/sys/dev",
    "/sys/devices",
    "/sys/module",
)
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/dri")


def strongest() -> Confinement:
    """The most that this kernel can do."""
    return Confinement.FULL if available() else Confinement.ENVIRONMENT


def inherited(environment: Mapping[str, str], confinement: Confinement, folder: Path) -> dict[str, str]:
    """What of an environment the process has whose private folder is ``folder``."""
    private = {"TMPDIR": str(folder)}
    if confinement is Confinement.NONE:
        return {**environment, **private}
    taken = {name: environment[name] for name in DRIVER_VARIABLES if name in environment}
    return {"PATH": os.defpath, "LC_ALL": "C", "HOME": str(folder), **private, **taken}


def confine(root: str | None) -> None:
    """Confine this process, which is in its private folder, to itself and to the driver in the folder ``root``.

    Raises OSError where the kernel cannot.
    """
    confinement.confine(_allowed(root), threads=True)


def _allowed(root: str | None) -> Iterator[tuple[str, LandlockAccess]]:
    yield ".", WRITE
    python, package = Path(os.__file__).parent, Path(__file__).resolve().parents[2]
    roots = (str(Path(root).resolve()),) if root is not None else ()
    for path in (str(python), str(package), *roots, *LIBRARIES, *_DRIVERS, *_SETTINGS, *_SYSTEM, *_operators()):
        yield path, READ
    for path in _DEVICES:
        yield path, USE_DEVICE


def _operators() -> Iterator[str]:
    """The absolute paths in the variables that say where drivers are."""
    for name in _PATH_VARIABLES:
        for path in os.environ.get(name, "").replace(",", ":").split(":"):
            if path.startswith("/"):
                yield path
