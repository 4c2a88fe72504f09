"""The process in which a driver runs: it reads one request from its working directory, answers on one pipe, and leaves.

It is started without site-packages and without the packages' own initialisation, so that nothing but the driver is
loaded. What the driver prints goes elsewhere and cannot spoil the answer.
"""

from __future__ import annotations

import ctypes
import functools
import json
import os
import resource
import signal
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from symd.drivers import simulate
from symd.drivers.frames import BLOB, CALL, INPUT, REQUEST, VALUE, write_frame
from symd.drivers.level_zero import LevelZero
from symd.drivers.library import Announce, Device, Driver
from symd.drivers.opencl import OpenCL
from symd.errors import BuildFailed, InvalidInput, LimitExceeded, SymdError

_PR_SET_PDEATHSIG: Final = 1
_DRIVERS: Final[Mapping[str, Callable[[Announce, str | None], Driver]]] = MappingProxyType(
    {"level-zero": LevelZero, "opencl": OpenCL}
)

Answer = tuple[dict[str, Any], Sequence[bytes]]


def main(descriptor: int) -> None:
    """Answer the request of the working directory on ``descriptor`` and end the process, never to return."""
    os.set_inheritable(descriptor, False)
    request = json.loads(Path(REQUEST).read_text(encoding="utf-8"))
    _confine(request["memory"])
    announce = functools.partial(_announce, descriptor)
    try:
        value, blobs = _answer(request, announce)
    except SymdError as error:
        value, blobs = {"error": _described(error)}, ()
    except MemoryError:
        value, blobs = {"error": _described(_too_large(request["memory"]))}, ()
    for blob in blobs:
        write_frame(descriptor, BLOB, blob)
    write_frame(descriptor, VALUE, json.dumps(value).encode())
    os._exit(0)  # the driver's own exit handlers are of no use any more, and may crash


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
    built = driver.build(device, Path(INPUT).read_bytes(), request["kind"], request["build_flags"])
    value = {"kernels": built.kernels, "build_log": built.build_log, "driver": device.driver, "device": device.name}
    return value, (built.debug_data, built.native)


def _chosen(devices: Sequence[Device], number: int) -> Device:
    if number < len(devices):
        return devices[number]
    names = ", ".join(f"{at} {device.name}" for at, device in enumerate(devices))
    raise InvalidInput(f"there is no device {number}", hint=f"choose one of: {names}")


def _described(error: SymdError) -> dict[str, Any]:
    """An error as JSON; the parent makes the same one of it."""
    return {
        "reason": error.reason,
        "message": error.message,
        "hint": error.hint,
        "metadata": error.metadata,
        "build_log": error.build_log if isinstance(error, BuildFailed) else None,
    }


def _too_large(memory: int) -> LimitExceeded:
    return LimitExceeded(
        f"the driver's process would need more than its {memory} bytes of memory", hint="raise driver_memory"
    )


def _confine(memory: int) -> None:
    """At most ``memory`` bytes of address space, no core file, and no life without the parent."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory) if hard < 0 else (min(memory, hard), hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.CDLL(None).prctl(ctypes.c_int(_PR_SET_PDEATHSIG), ctypes.c_ulong(signal.SIGKILL))


def _announce(descriptor: int, call: str) -> None:
    write_frame(descriptor, CALL, call.encode())
