"""The process in which a driver runs: it reads one request from its working directory, answers on one pipe, and leaves.

It is started without site-packages and without the packages' own initialization, so that nothing but the driver is
loaded. What the driver prints goes elsewhere and cannot spoil the answer.

A driver compiles what a client sent, with flags that a client sent, and compilers read files: without confinement,
those of the daemon's user. Confined, the process has an environment of its own, its private folder to write in, the
driver's libraries, the Python that runs it and what the kernel tells about devices to read, the device files, and
nothing else: no other file, no other process, no program to start, no socket. What it may use of memory and time is
then bounded by the limits of one process.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from symd.capture.drivers import simulate
from symd.capture.drivers.apis import Announce, Driver, DriverDevice, bounded, read_input, read_request
from symd.capture.drivers.level_zero import LevelZero
from symd.capture.drivers.opencl import OpenCL, naming_source
from symd.errors import BuildFailed, FailedPrecondition, InvalidInput, SymdError, error_to_dict
from symd.system.process import confinement
from symd.system.process.confinement import LIBRARIES, READ, USE_DEVICE, WRITE, LandlockAccess
from symd.system.process.frames import BYTES, CALL, ERROR, JSON, MEMORY, die_with, write_frame

_SIGXFSZ: Final = 25
"""signal(7)."""

_DRIVERS: Final[Mapping[str, Callable[[Announce, str | None], Driver]]] = MappingProxyType(
    {"level-zero": LevelZero, "opencl": OpenCL}
)

Answer = tuple[dict[str, Any], Sequence[bytes]]


def main(descriptor: int) -> None:
    """Answer the request of the working directory on ``descriptor`` and end the process, never to return.

    The answer is frames: CALL before each call of the driver; last ERROR, MEMORY, or BYTES for each byte string and one
    JSON.
    """
    os.set_inheritable(descriptor, False)
    try:
        request = read_request()
        die_with(request["parent"])
        _die_of_large_files()
        if request["confined"]:
            _confine(request["root"])
        value, byte_strings = _answer(request, lambda call: write_frame(descriptor, CALL, call.encode()))
    except SymdError as error:
        if isinstance(error, BuildFailed):
            error.build_log = bounded(error.build_log)
        write_frame(descriptor, ERROR, json.dumps(error_to_dict(error)).encode())
    except MemoryError:
        write_frame(descriptor, MEMORY, b"")
    else:
        for each in byte_strings:
            write_frame(descriptor, BYTES, each)
        write_frame(descriptor, JSON, json.dumps(value).encode())
    os._exit(0)  # the driver's own exit handlers are of no use any more, and may crash


_PATH_VARIABLES: Final = ("LD_LIBRARY_PATH", "OCL_ICD_FILENAMES", "OCL_ICD_VENDORS", "ZE_ENABLE_ALT_DRIVERS")
"""Variables that name files or folders of drivers, separated by ":" or ","."""
_DRIVER_FOLDERS: Final = ("/opt/intel", "/opt/rocm")
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


def _confine(root: str | None) -> None:
    """Confine this process, which is in its private folder, to itself and to the driver in the folder ``root``. Raises
    FailedPrecondition where it does not work: then no driver is loaded."""
    try:
        confinement.confine(_allowed(root), threads=True)
    except OSError as error:
        raise FailedPrecondition(
            f"the driver's process cannot be confined: {error}",
            hint="a daemon that is started with grab-unconfined runs drivers without",
        ) from error


def _allowed(root: str | None) -> Iterator[tuple[str, LandlockAccess]]:
    yield ".", WRITE
    python, package = Path(os.__file__).parent, Path(__file__).resolve().parents[2]
    roots = (str(Path(root).resolve()),) if root is not None else ()
    for path in (str(python), str(package), *roots, *LIBRARIES, *_DRIVER_FOLDERS, *_SETTINGS, *_SYSTEM, *_operators()):
        yield path, READ
    for path in _DEVICES:
        yield path, USE_DEVICE


def _operators() -> Iterator[str]:
    """The absolute paths in the variables that say where drivers are."""
    for name in _PATH_VARIABLES:
        for path in os.environ.get(name, "").replace(",", ":").split(":"):
            if path.startswith("/"):
                yield path


def _answer(request: Mapping[str, Any], announce: Announce) -> Answer:
    """The value and byte strings for the verb "devices" or "grab"."""
    simulated = request["simulate"]
    driver = _DRIVERS[request["api"]](announce, simulated)
    devices = driver.devices()
    if simulated is not None:
        simulate.check_driver(simulated, devices[0].driver)
    if request["verb"] == "devices":
        return {"devices": [(device.driver, device.name) for device in devices]}, ()
    device = _chosen(devices, request["device"])
    flags = request["build_flags"]
    if request["kind"] == "source":
        flags = naming_source(flags, request["source_name"], device)
    data = read_input()
    if request["working_folder"] is not None:
        os.chdir(request["working_folder"])
    built = driver.build(device, data, request["kind"], flags)
    log = bounded(built.build_log)
    value = {"kernels": built.kernels, "build_log": log, "driver": device.driver, "device": device.name}
    return value, (built.debug_data, built.native)


def _chosen(devices: Sequence[DriverDevice], number: int) -> DriverDevice:
    if number < len(devices):
        return devices[number]
    names = ", ".join(f"{index} {device.name}" for index, device in enumerate(devices))
    raise InvalidInput(f"there is no device {number}", hint=f"choose one of: {names}")


def _die_of_large_files() -> None:
    """Let the kernel end this process where it writes too large a file, so that its parent knows what happened:
    Python has the kernel ignore SIGXFSZ."""
    ctypes.CDLL(None).signal(ctypes.c_int(_SIGXFSZ), None)
