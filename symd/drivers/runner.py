"""Drivers from the parent's side: start a child for one request, and turn whatever became of it into the answer or into
one error that names the driver, the call, the signal and what to do."""

from __future__ import annotations

import hashlib
import json
import math
import os
import signal
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from symd.config import Limits
from symd.drivers import simulate
from symd.drivers.apis import APIS, Api
from symd.drivers.frames import BLOB, CALL, INPUT, REQUEST, VALUE, read_frames
from symd.drivers.process import Ended, run
from symd.errors import (
    BuildFailed,
    DriverCrashed,
    DriverFailed,
    DriverTimeout,
    InvalidInput,
    LimitExceeded,
    SymdError,
    by_reason,
)
from symd.model.grabs import Grabbed, GrabRequest

# The packages' own initialisation is left out: no NumPy and no gRPC beside a driver.
_START: Final = """\
import sys, types
for name, folder in (("symd", sys.argv[1]), ("symd.drivers", sys.argv[1] + "/drivers")):
    package = sys.modules[name] = types.ModuleType(name)
    package.__path__ = [folder]
from symd.drivers.child import main
main(int(sys.argv[2]))
"""
_COMPILING: Final = ("zeModuleCreate", "clCreateProgramWithIL", "clCreateProgramWithBinary", "clBuildProgram")
"""Calls that read the module, so that a bad one may end the process."""
_SPIRV_MAGIC: Final = (b"\x03\x02\x23\x07", b"\x07\x23\x02\x03")
_HEADROOM: Final = 1 << 20
"""Bytes of an answer besides the module: names, the build log."""


@dataclass(frozen=True, slots=True)
class Job:
    """One question to one driver: ``verb`` is "grab" or "devices"; ``where`` names the module in errors."""

    verb: str
    api: Api
    simulate: str | None
    driver_root: str | None
    seconds: float
    where: str = ""
    data: bytes = b""
    kind: str = ""
    build_flags: str = ""
    device: int = 0


def grab(request: GrabRequest, limits: Limits) -> Grabbed:
    """Build a module with a real driver in a process of its own and take its debug data, native binary and names.

    An empty ``debug_data`` means that the driver has none. Raises InvalidInput (BuildFailed with the whole build log),
    LimitExceeded, DriverMissing, DriverTimeout, DriverFailed (DriverCrashed); each names the module as ``where``.
    """
    job = _job(request, limits)
    value, blobs = ask(job, limits)
    debug_data, native = blobs
    return Grabbed(debug_data, native, tuple(value["kernels"]), value["build_log"], value["driver"], value["device"])


def ask(job: Job, limits: Limits) -> tuple[dict[str, Any], list[bytes]]:
    """Run the job in a child process; its value and byte strings. Raises as ``grab`` does."""
    try:
        command = [*child_command(job)]
        with tempfile.TemporaryDirectory(prefix="symd-driver-", ignore_cleanup_errors=True) as name:
            folder = Path(name)
            _write_request(folder, job, limits)
            environment = simulate.environment(os.environ, job.simulate, job.driver_root) | {"TMPDIR": name}
            largest = 2 * limits.module_size + _HEADROOM
            ended = run(command, environment=environment, folder=folder, seconds=job.seconds, largest=largest)
        return _understood(ended, job, limits)
    except OSError as error:
        raise DriverFailed(f"the driver's process cannot be started: {error}", where=job.where) from error
    except SymdError as error:
        error.where = error.where or job.where
        raise


def child_command(job: Job) -> list[str]:
    """The words that start the child; the descriptor's number is appended to them."""
    package = str(Path(__file__).resolve().parent.parent)
    return [*simulate.launcher(job.api, job.driver_root), sys.executable, "-I", "-S", "-c", _START, package]


def _job(request: GrabRequest, limits: Limits) -> Job:
    where = request.label or f"module {hashlib.sha256(request.data).hexdigest()[:12]}"
    try:
        _check(request, limits)
    except SymdError as error:
        raise error.at(where) from None
    return Job(
        "grab",
        APIS[request.api],
        request.simulate,
        request.driver_root,
        min(request.timeout, limits.driver_seconds),
        where,
        request.data,
        request.kind,
        request.build_flags,
        request.device,
    )


def _check(request: GrabRequest, limits: Limits) -> None:
    api = APIS.get(request.api)
    if api is None:
        raise InvalidInput(f"unknown driver interface {request.api!r}", hint=f"one of {', '.join(APIS)}")
    if request.kind not in api.kinds:
        hint = f"it takes {', '.join(api.kinds)}"
        raise InvalidInput(f"{api.title} does not build from {request.kind!r}", hint=hint)
    if not request.data:
        raise InvalidInput("an empty module", hint="give its bytes")
    if request.kind == "spirv" and request.data[:4] not in _SPIRV_MAGIC:
        raise InvalidInput("not SPIR-V: it does not start with SPIR-V's magic number", hint="choose another kind")
    if len(request.data) > limits.module_size:
        raise LimitExceeded(f"{len(request.data)} bytes are more than module_size, {limits.module_size}")
    if not request.build_flags.isprintable():
        raise InvalidInput("the build flags hold characters that do not print", hint="write them on one line")
    if request.device < 0:
        raise InvalidInput(f"there is no device {request.device}", hint="devices are numbered from 0")
    if not (request.timeout > 0 and math.isfinite(request.timeout)):
        raise InvalidInput(f"a timeout of {request.timeout} seconds", hint="give a positive number")
    if request.simulate is not None:
        simulate.check_product(request.simulate, request.driver_root)


def _write_request(folder: Path, job: Job, limits: Limits) -> None:
    request = {
        "verb": job.verb,
        "api": job.api.name,
        "simulate": job.simulate,
        "memory": limits.driver_memory,
        "kind": job.kind,
        "build_flags": job.build_flags,
        "device": job.device,
    }
    (folder / REQUEST).write_text(json.dumps(request), encoding="utf-8")
    (folder / INPUT).write_bytes(job.data)


def _understood(ended: Ended, job: Job, limits: Limits) -> tuple[dict[str, Any], list[bytes]]:
    """The answer of a child, or the error that its end means."""
    try:
        frames = read_frames(ended.answer)
        value = json.loads(frames[-1][1]) if frames and frames[-1][0] == VALUE else None
    except ValueError as error:
        raise _ending(DriverFailed, f"answered with bytes that make no sense: {error}", "", ended, job) from None
    call = next((payload.decode() for kind, payload in reversed(frames) if kind == CALL), "start-up")
    if value is not None:
        if "error" in value:
            raise _error(value["error"])
        return value, [payload for kind, payload in frames if kind == BLOB]
    if ended.cut == "deadline":
        raise _ending(
            DriverTimeout, f"did not come back within {job.seconds:g} seconds and was ended", call, ended, job
        )
    if ended.cut == "size":
        raise LimitExceeded(f"the driver gave more than twice module_size, {limits.module_size} bytes")
    if ended.status < 0:
        name = _signal_name(-ended.status)
        crashed = _ending(DriverCrashed, f"died of {name}", call, ended, job)
        crashed.metadata["signal"] = name
        raise crashed
    raise _ending(DriverFailed, f"ended its process with status {ended.status} and no answer", call, ended, job)


def _error(described: Mapping[str, Any]) -> SymdError:
    """The error that the child described."""
    message, hint, metadata = described["message"], described["hint"], described["metadata"]
    if described["build_log"] is not None:
        return BuildFailed(message, build_log=described["build_log"], hint=hint, metadata=metadata)
    kind = by_reason(described["reason"]) or DriverFailed
    return kind(message, hint=hint, metadata=metadata)


def _ending(kind: type[SymdError], what: str, call: str, ended: Ended, job: Job) -> SymdError:
    """The error for a child that gave no answer."""
    driver = f"the {job.api.title} driver" + (f", simulating {job.simulate}," if job.simulate else "")
    at = f" in {call}" if call else ""
    last = ended.chatter.strip().rpartition("\n")[2].strip()
    said = f"; its last words: {last[:300]}" if last else ""
    metadata = {"api": job.api.name, "call": call, "output": ended.chatter}
    return kind(f"{driver} {what}{at}{said}", hint=_advice(kind, call, job), metadata=metadata)


def _advice(kind: type[SymdError], call: str, job: Job) -> str:
    """What to do about a child that gave no answer."""
    steps = []
    if kind is DriverTimeout:
        steps.append("give it more time")
    if kind is DriverCrashed:
        steps.append("its memory was limited by driver_memory")
    if call in _COMPILING:
        steps.append("check the module, SPIR-V with spirv-val")
    steps.append(f"if the driver itself is damaged: {job.api.install}")
    return "; ".join(steps)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
