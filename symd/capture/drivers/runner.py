"""Drivers from the parent's side: start a child for one request, and turn whatever became of it into the answer or into
one error that names the driver, the call, the signal and what to do. One request builds a module; others ask for the
drivers and devices of this machine, with hardware and simulated, of Level Zero and OpenCL. What NVIDIA's driver has its
own program says: symd reads CUDA code without a driver, and the programs that it captures from need one."""

from __future__ import annotations

import enum
import hashlib
import json
import math
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from symd.capture.drivers import simulate
from symd.capture.drivers.apis import APIS, Api, DriverRequest, write_request
from symd.config import DEFAULT_LIMITS, Limits
from symd.errors import (
    BuildFailed,
    DriverCrashed,
    DriverFailed,
    DriverNotConfigured,
    DriverTimeout,
    InvalidInput,
    LimitExceeded,
    SymdError,
    error_from_dict,
)
from symd.formats.containers import spirv
from symd.model.grabs import Grabbed, GrabRequest
from symd.system.messages import os_error_text
from symd.system.private_files import child_folder
from symd.system.process.confinement import available
from symd.system.process.frames import BYTES, CALL, ERROR, JSON, MEMORY, read_frames
from symd.system.process.process import ProcessLimits
from symd.system.process.run import Ended, Limit, run, run_tool


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
# The packages' own initialization is left out: no NumPy and no gRPC beside a driver.
_START: Final = """\
import sys, types
for name, folder in (("symd", ""), ("symd.capture", "/capture"), ("symd.capture.drivers", "/capture/drivers")):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [sys.argv[1] + folder]
from symd.capture.drivers.child import main
main(int(sys.argv[2]))
"""
DRIVER_DISK: Final = 512 << 20
"""Bytes that the driver's process writes into its folder; builds that were tried wrote 20 KB."""
DRIVER_FILES: Final = 4096
"""Files and folders that it makes there; builds that were tried made two."""
DRIVER_THREADS: Final = 256
"""Threads of the driver's process."""
_PASSED: Final[Mapping[Limit, tuple[str, str]]] = MappingProxyType(
    {
        Limit.MEMORY: ("driver_memory", "would need more than {} bytes of memory"),
        Limit.ANSWER: ("module_size", "gave more than twice {} bytes"),
        Limit.FILE_SIZE: ("driver_disk", "wrote a file of more than {} bytes"),
        Limit.WRITTEN: ("driver_disk", "wrote more than {} bytes of files"),
        Limit.FILES: ("driver_files", "made more than {} files and folders"),
        Limit.THREADS: ("driver_threads", "had more than {} threads"),
    }
)
"""For each limit of the process: its name in errors, and what the process did."""
_COMPILING: Final = ("zeModuleCreate", "clCreateProgramWithIL", "clCreateProgramWithBinary", "clBuildProgram")
"""Calls that read the module, so that a bad one may end the process."""
_ANSWER_BYTES_BESIDE_THE_MODULE: Final = 1 << 20
"""Kernel names, the build log."""
_OPEN_FILES: Final = 1024
_BLOCK: Final = 512
"""Bytes of the unit of ``st_blocks`` (stat(2))."""
_MISSING_FILE: Final = ("file not found", "cannot open file")
"""Clang's words for an #include that leads nowhere, and for one that leads to what it may not read."""
_NO_FILES: Final = "the driver's process sees no file but the driver's own: send the source with what it includes"
_NO_REASON: Final = "the compiler gave no reason; its memory was limited by driver_memory"
_USUAL_SECONDS: Final = 60.0
"""A timeout that long nobody need have asked for: it is cut to driver_seconds without a word."""
_OUTPUT_IN_METADATA: Final = 4096
"""Characters of what the driver printed that go along with an error."""
_SYSTEM_DRIVER_ALONE: Final[Mapping[str, str]] = MappingProxyType({})


def grab(
    request: GrabRequest,
    limits: Limits,
    drivers: Mapping[str, str] = _SYSTEM_DRIVER_ALONE,
    confinement: Confinement | None = None,
) -> Grabbed:
    """Build a module with a real driver in a process of its own and take its debug data, native binary and names.

    ``drivers`` are the folders of driver generations beside the system's, by the names that requests know them by;
    ``confinement`` None is the strongest that this kernel has. An empty ``debug_data`` means that the driver has none.
    Raises InvalidInput (BuildFailed with the whole build log, DriverNotConfigured), LimitExceeded, DriverMissing,
    DriverTimeout, DriverFailed (DriverCrashed); each names the module as ``where``. Where nobody waits for the answer
    any more (``symd.model.cancellation``) the driver is not started, or ended.
    """
    asked = _driver_request(request, limits, drivers)
    value, byte_strings = ask(asked, limits, confinement or strongest())
    debug_data, native = byte_strings
    return Grabbed(debug_data, native, tuple(value["kernels"]), value["build_log"], value["driver"], value["device"])


def ask(
    request: DriverRequest, limits: Limits, confinement: Confinement = Confinement.NONE
) -> tuple[dict[str, Any], list[bytes]]:
    """Answer the request in a child process; its value and byte strings. Raises as ``grab`` does."""
    try:
        command = child_command(request)
        with child_folder("driver") as folder:
            compiled_in = _working_folder(request, confinement)
            write_request(folder, request, confined=confinement is Confinement.FULL, working_folder=compiled_in)
            base = inherited(os.environ, confinement, folder)
            environment = simulate.environment(base, request.simulate, request.root, compiled_in)
            ended = run(
                command,
                _process_limits(request, limits, folder),
                folder=folder,
                environment=environment,
                own_pipe=True,
            )
        return _understood(ended, request, limits)
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        raise DriverFailed(
            f"the driver's process cannot be started: {what}{os_error_text(error)}", where=request.where
        ) from error
    except SymdError as error:
        error.where = error.where or request.where
        if isinstance(error, BuildFailed):
            error.hint = error.hint or _advice_on_build(error.build_log, confinement)
        raise


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


def _working_folder(request: DriverRequest, confinement: Confinement) -> str | None:
    """The folder of the user's in which source text is compiled that is the user's own, as by the compiler's other
    programs: relative names in it count from there. None where it is another's, or there is none."""
    if request.kind != "source" or confinement is not Confinement.NONE:
        return None
    try:
        return os.getcwd()  # noqa: PTH109 - as text
    except OSError:
        return None


def _process_limits(request: DriverRequest, limits: Limits, folder: Path) -> ProcessLimits:
    given = sum(path.stat().st_blocks * _BLOCK for path in folder.iterdir())
    return ProcessLimits(
        request.seconds,
        limits.driver_memory,
        2 * limits.module_size + _ANSWER_BYTES_BESIDE_THE_MODULE,
        file_size=DRIVER_DISK,
        open_files=_OPEN_FILES,
        written=DRIVER_DISK + given,
        files=DRIVER_FILES,
        threads=DRIVER_THREADS,
    )


def _advice_on_build(build_log: str, confinement: Confinement) -> str:
    if not build_log.strip():
        return _NO_REASON
    missing = confinement is Confinement.FULL and any(words in build_log for words in _MISSING_FILE)
    return _NO_FILES if missing else ""


def child_command(request: DriverRequest) -> list[str]:
    """The words that start the child; the descriptor's number is appended to them."""
    package = str(Path(__file__).resolve().parents[2])
    return [*simulate.launcher(request.api, request.root), sys.executable, "-I", "-S", "-c", _START, package]


def _driver_request(request: GrabRequest, limits: Limits, drivers: Mapping[str, str]) -> DriverRequest:
    where = request.label or f"module {hashlib.sha256(request.data).hexdigest()[:12]}"
    try:
        root = _root(request.driver, drivers)
        _check(request, limits)
        if request.simulate is not None:
            simulate.check_product(request.simulate, root)
    except SymdError as error:
        raise error.prefix_where(where) from None
    return DriverRequest(
        "grab",
        APIS[request.api],
        request.simulate,
        root,
        min(request.timeout, limits.driver_seconds),
        where,
        request.data,
        request.kind,
        request.build_flags,
        request.device,
        request.source_name or request.label,
    )


def _root(name: str, drivers: Mapping[str, str]) -> str | None:
    """The folder of the driver of that name, None for the system's."""
    if name and name not in drivers:
        known = f"one of {', '.join(sorted(drivers))}" if drivers else "none is configured"
        raise DriverNotConfigured(f"there is no driver {name!r}", hint=f"{known}; without a name it is the system's")
    return drivers[name] if name else None


def _check(request: GrabRequest, limits: Limits) -> None:
    api = APIS.get(request.api)
    if api is None:
        raise InvalidInput(f"unknown driver interface {request.api!r}", hint=f"one of {', '.join(APIS)}")
    if request.kind not in api.kinds:
        hint = f"it takes {', '.join(api.kinds)}"
        raise InvalidInput(f"{api.title} does not build from {request.kind!r}", hint=hint)
    if not request.data:
        raise InvalidInput("an empty module", hint="give its bytes")
    if request.kind == "spirv" and not spirv.claims(request.data):
        raise InvalidInput("not SPIR-V: it does not start with SPIR-V's magic number", hint="choose another kind")
    if len(request.data) > limits.module_size:
        raise LimitExceeded(f"{len(request.data)} bytes are more than module_size, {limits.module_size}")
    if not request.build_flags.isprintable():
        raise InvalidInput("the build flags hold characters that do not print", hint="write them on one line")
    if request.device < 0:
        raise InvalidInput(f"there is no device {request.device}", hint="devices are numbered from 0")
    if not (request.timeout > 0 and math.isfinite(request.timeout)):
        raise InvalidInput(f"a timeout of {request.timeout} seconds", hint="give a positive number")
    if request.timeout > max(limits.driver_seconds, _USUAL_SECONDS):
        raise LimitExceeded(
            f"a timeout of {request.timeout:g} seconds is more than driver_seconds, {limits.driver_seconds:g}",
            hint="ask for less, or raise the limit driver_seconds",
            metadata={"limit": "driver_seconds"},
        )


def _understood(ended: Ended, request: DriverRequest, limits: Limits) -> tuple[dict[str, Any], list[bytes]]:
    """The answer of a child, or the error that its end means."""
    try:
        frames = read_frames(ended.answer)
        last, payload = frames[-1] if frames else (b"", b"")
        value = json.loads(payload) if last == JSON else None
        error = error_from_dict(json.loads(payload)) if last == ERROR else None
    except (ValueError, KeyError, TypeError) as wrong:
        raise _no_answer(DriverFailed, f"answered with bytes that make no sense: {wrong}", "", ended, request) from None
    if value is not None:
        return value, [payload for kind, payload in frames if kind == BYTES]
    if error is not None:
        raise error
    if last == MEMORY:
        raise _limit_exceeded(Limit.MEMORY, limits)
    call = next((payload.decode() for kind, payload in reversed(frames) if kind == CALL), "start-up")
    raise _death(ended, call, request, limits)


def _death(ended: Ended, call: str, request: DriverRequest, limits: Limits) -> SymdError:
    """The error for a child that ended inside ``call``."""
    if ended.ending.limit is Limit.SECONDS:
        what = f"did not come back within {request.seconds:g} seconds and was ended"
        return _no_answer(DriverTimeout, what, call, ended, request)
    if ended.ending.limit is not None and ended.ending.limit in _PASSED:
        return _limit_exceeded(ended.ending.limit, limits)
    if ended.ending.signal:
        crashed = _no_answer(DriverCrashed, str(ended.ending), call, ended, request)
        crashed.metadata["signal"] = ended.ending.signal
        return crashed
    what = f"ended its process with status {ended.ending.status} and no answer"
    return _no_answer(DriverFailed, what, call, ended, request)


def _limit_exceeded(passed: Limit, limits: Limits) -> LimitExceeded:
    name, what = _PASSED[passed]
    fixed = {"driver_disk": DRIVER_DISK, "driver_files": DRIVER_FILES, "driver_threads": DRIVER_THREADS}
    value, hint = (fixed[name], "") if name in fixed else (getattr(limits, name), f"raise {name}")
    metadata = {"limit": name, "value": str(value)}
    return LimitExceeded(f"the driver's process {what.format(value)}", hint=hint, metadata=metadata)


def _no_answer(kind: type[SymdError], what: str, call: str, ended: Ended, request: DriverRequest) -> SymdError:
    """An error that says which driver did ``what`` in which call, its last words, and what to do."""
    driver = f"the {request.api.title} driver" + (f", simulating {request.simulate}," if request.simulate else "")
    place = f" in {call}" if call else ""
    said = f"; its last words: {ended.last_words}" if ended.last_words else ""
    metadata = {"api": request.api.name, "call": call, "output": ended.printed[-_OUTPUT_IN_METADATA:]}
    return kind(f"{driver} {what}{place}{said}", hint=_advice(kind, call, request), metadata=metadata)


def _advice(kind: type[SymdError], call: str, request: DriverRequest) -> str:
    """What to do about a child that gave no answer."""
    steps = []
    if kind is DriverTimeout:
        steps.append("give it more time")
    if kind is DriverCrashed:
        steps.append("its memory was limited by driver_memory")
    if call in _COMPILING:
        steps.append("check the module, SPIR-V with spirv-val")
    steps.append(f"if the driver itself is damaged: {request.api.install}")
    return "; ".join(steps)


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
        parts = pool.map(lambda api: _survey(api, root, limits or DEFAULT_LIMITS), APIS.values())
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
_SMI_LIMITS: Final = ProcessLimits(seconds=10.0, memory=4096 << 20, answer=1 << 16)
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
        ended = run_tool(command, _SMI_LIMITS, environment=os.environ)
    except SymdError as error:
        return DriverReport("cuda", None, problem=error.message, hint=_IN_A_CONTAINER)
    lines = ended.answer.decode("utf-8", "replace").splitlines()
    rows = [line.rpartition(", ") for line in lines if ", " in line]
    if ended.ending.status != 0 or not rows:
        said = next((line for line in lines if line), "") or ended.last_words or str(ended.ending)
        return DriverReport("cuda", None, problem=f"{_NVIDIA_SMI} says: {said}", hint=_IN_A_CONTAINER)
    return DriverReport("cuda", None, rows[0][2], tuple(name for name, _, _ in rows))
