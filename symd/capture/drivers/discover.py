"""The drivers and devices of this machine, with hardware and simulated: of Level Zero and OpenCL, each asked in a
process of its own, and of NVIDIA. symd reads CUDA code without a driver; the programs that it captures from need one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Final

from symd.capture.drivers import simulate
from symd.capture.drivers.apis import APIS, Api, DriverRequest
from symd.capture.drivers.runner import ask
from symd.config import Limits
from symd.errors import SymdError
from symd.system.process.process import ProcessLimits
from symd.system.process.run import run_tool

_SURVEY_SECONDS: Final = 20.0
_SURVEYS_AT_ONCE: Final = 4
_NO_DEVICE: Final = (
    "the driver is installed and works without hardware (symd grab --simulate dg2); for a device look at /dev/dri, which the"
    " group render may use"
)
_COMMON_PRODUCT: Final = "dg2"
"""A product that both driver generations simulate: its driver's version tells which of them this is."""


@dataclass(frozen=True, slots=True)
class DriverReport:
    """One attempt to find devices. ``simulate`` is the product, or None for hardware; ``problem`` is "" when it worked,
    and ``hint`` says what to install or do when it did not."""

    api: str
    simulate: str | None
    driver: str = ""
    devices: tuple[str, ...] = field(default=())
    problem: str = ""
    hint: str = ""


def survey(root: str | None = None, limits: Limits | None = None) -> list[DriverReport]:
    """Reports for each interface: hardware first, then every product that its driver simulates.

    Where no driver answers, only hardware and one product are reported. ``root`` is the folder of another generation,
    None for the system's.
    """
    with ThreadPoolExecutor(_SURVEYS_AT_ONCE) as pool:
        parts = pool.map(lambda api: _survey(api, root, limits or Limits()), APIS.values())
        return [report for part in parts for report in part]


def _survey(api: Api, root: str | None, limits: Limits) -> Sequence[DriverReport]:
    hardware = _report(api, None, root, limits)
    first = _report(api, _COMMON_PRODUCT, root, limits)
    if first.problem:
        return [hardware, first]
    if hardware.problem:
        hardware = replace(hardware, hint=_NO_DEVICE)
    others = [name for name in simulate.products_of(first.driver) if name != _COMMON_PRODUCT]
    return [hardware, first, *(_report(api, name, root, limits) for name in others)]


def _report(api: Api, product: str | None, root: str | None, limits: Limits) -> DriverReport:
    request = DriverRequest("devices", api, product, root, min(_SURVEY_SECONDS, limits.driver_seconds))
    try:
        value, _ = ask(request, limits)
    except SymdError as error:
        return DriverReport(api.name, product, problem=error.message, hint=error.hint)
    devices = value["devices"]
    drivers = ", ".join(dict.fromkeys(driver for driver, _ in devices))
    return DriverReport(api.name, product, drivers, tuple(name for _, name in devices))


_NVIDIA_SMI: Final = "nvidia-smi"
_LIMITS: Final = ProcessLimits(seconds=10.0, memory=4096 << 20, answer=1 << 16)
_NOT_NEEDED: Final = "symd reads CUDA code without it; programs that run under symd run need it"
_IN_A_CONTAINER: Final = "in a container, start it with the devices (docker run --gpus all)"


def cuda_report() -> DriverReport:
    """What NVIDIA's driver says of itself and of its devices, by ``nvidia-smi``."""
    program = shutil.which(_NVIDIA_SMI)
    if program is None:
        problem = f"no NVIDIA driver is here: there is no {_NVIDIA_SMI}"
        return DriverReport("cuda", None, problem=problem, hint=f"{_NOT_NEEDED}; {_IN_A_CONTAINER}")
    command = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    try:
        ended = run_tool(command, _LIMITS, environment=os.environ)
    except SymdError as error:
        return DriverReport("cuda", None, problem=error.message, hint=_IN_A_CONTAINER)
    lines = ended.answer.decode("utf-8", "replace").splitlines()
    rows = [line.rpartition(", ") for line in lines if ", " in line]
    if ended.ending.status != 0 or not rows:
        said = next((line for line in lines if line), "") or ended.last_words or str(ended.ending)
        return DriverReport("cuda", None, problem=f"{_NVIDIA_SMI} says: {said}", hint=_IN_A_CONTAINER)
    return DriverReport("cuda", None, rows[0][2], tuple(name for name, _, _ in rows))
