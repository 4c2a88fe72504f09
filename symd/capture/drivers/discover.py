"""The drivers and devices of this machine, with hardware and simulated: of Level Zero and OpenCL, each asked in a
process of its own, and of NVIDIA. symd reads CUDA code without a driver; the programs that it captures from need one.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from symd.capture.drivers import simulate
from symd.capture.drivers.apis import APIS, Api, DriverRequest
from symd.capture.drivers.runner import ask
from symd.config import Limits
from symd.errors import SymdError
from symd.system.messages import os_error_text
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


LIBRARY: Final = "libcuda.so.1"
_CHILD: Final = Path(__file__).with_name("cuda_child.py")
_LIMITS: Final = ProcessLimits(seconds=10.0, memory=4096 << 20, answer=1 << 10)
_FILE_BYTES: Final = 1 << 16
_SHOWN: Final = 40
"""Characters."""
_VERSION: Final = re.compile(r"[0-9]+(?:\.[0-9]+)+", re.ASCII)
_MODEL: Final = re.compile(r"^Model:[ \t]*(.+)$", re.MULTILINE)
_MINOR: Final = re.compile(r"^Device Minor:[ \t]*([0-9]{1,9})[ \t]*$", re.MULTILINE | re.ASCII)
_DEVICE: Final = re.compile(r"nvidia([0-9]{1,9})", re.ASCII)
_WSL: Final = "dev/dxg"
"""The device of Windows' subsystem for Linux, whose kernel has no driver of NVIDIA's own."""
_STUB: Final = 34
"""CUDA_ERROR_STUB_LIBRARY (cuda.h)."""
_NOT_NEEDED: Final = "symd reads CUDA code without it; programs that run under symd run need it"
_IN_A_CONTAINER: Final = "in a container, start it with the devices (docker run --gpus all)"


def cuda_report(root: Path = Path("/"), library: str = LIBRARY) -> DriverReport:
    """What the kernel's driver says of itself below ``root``, the devices that it has, and the version of the library
    that programs load."""
    kernel, devices = _kernel_driver(root), tuple(_devices(root))
    here = bool(kernel or devices or (root / _WSL).exists())
    version, refusal = _library_version(library)
    driver = ", ".join(part for part in (kernel, f"CUDA {version}" if version else "") if part)
    report = DriverReport("cuda", None, driver, devices)
    if not here and not version:
        return replace(report, problem="no NVIDIA driver is here", hint=_NOT_NEEDED)
    if not version:
        said = f"the kernel's driver {kernel or '(without a version)'} is here, but {library} cannot be used: {refusal}"
        return replace(report, problem=said, hint=_what_to_do(library, refusal, kernel))
    if not here:
        said = (
            f"{library} (CUDA {version}) is here, but no driver of the kernel: there is no /proc/driver/nvidia/version"
        )
        return replace(report, problem=said, hint=f"modprobe nvidia; {_IN_A_CONTAINER}")
    if not devices and not (root / _WSL).exists():
        said = f"the driver {driver} is here, but no device: there is no /dev/nvidia0"
        return replace(report, problem=said, hint=f"nvidia-modprobe -u; {_IN_A_CONTAINER}")
    return report


def _what_to_do(library: str, refusal: str, kernel: str) -> str:
    """What to do where programs cannot load the library, or it does not answer."""
    if refusal.startswith(f"{library}: ") and refusal.endswith(os.strerror(errno.ENOENT)):
        return f"install the driver's library (Debian: apt-get install libcuda1); {_IN_A_CONTAINER}"
    if refusal.endswith(f" {_STUB}"):
        return (
            "the CUDA toolkit's stub, for linkers alone, is found first: take its folder, stubs, out of LD_LIBRARY_PATH"
        )
    like = f" of the kernel driver's version, {kernel}" if kernel else ""
    return f"the library that is found is not whole, or another one: look where it is (ldconfig -p, LD_LIBRARY_PATH), and install one{like}"


def _kernel_driver(root: Path) -> str:
    """The version of the kernel's driver; "" where it says none."""
    line = _text(root / "proc/driver/nvidia/version").partition("\n")[0]
    found = _VERSION.search(line.partition("Kernel Module")[2])
    return found[0] if found else ""


def _devices(root: Path) -> Iterator[str]:
    """The models of the devices that have a file, by number; the file's name where no model is told. A container has
    files of some."""
    folder = root / "proc/driver/nvidia/gpus"
    told = [_text(folder / each / "information") for each in _names(folder)]
    models = {minor[1]: model[1] for text in told if (minor := _MINOR.search(text)) and (model := _MODEL.search(text))}
    numbers = [found[1] for each in _names(root / "dev") if (found := _DEVICE.fullmatch(each))]
    for number in sorted(numbers, key=int):
        yield models.get(number, f"/dev/nvidia{number}").strip()


def _names(folder: Path) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - the names alone
    except OSError:
        return []


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_FILE_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


def _library_version(library: str) -> tuple[str, str]:
    """(the version of CUDA, "") or ("", what is in the way). The library is loaded in a process of its own."""
    try:
        ended = run_tool([sys.executable, "-I", "-S", str(_CHILD), library], _LIMITS, environment=os.environ)
    except SymdError as error:
        return "", error.message
    except OSError as error:
        return "", os_error_text(error)
    said = ended.answer.decode("ascii", "replace").strip().rpartition("\n")[2]  # libraries print too
    if ended.ending.status != 0:
        return "", ended.last_words or str(ended.ending)
    if not (said.isascii() and said.isdecimal()):
        return "", f"it says that it has version {said[:_SHOWN] or 'nothing'}"
    return f"{int(said) // 1000}.{int(said) % 1000 // 10}", ""
