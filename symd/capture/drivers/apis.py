"""The two driver interfaces: what they are called, which library opens them, which inputs they take, what to install,
and the result codes that listing devices and building modules may end with, as their headers spell them (ze_api.h;
CL/cl.h and the extension headers of the Khronos registry). And one question to one driver, with the two files in the
child's working directory in which it gets there.

Each interface's loader library is called through ctypes in a child process only: each call is announced before it is
made, each failure carries the code's name. Both driver bindings share devices, built modules, and build logs cut to a
size that can be shown."""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Protocol

from symd.errors import DriverFailed, DriverMissing
from symd.system.private_files import write_bytes


@dataclass(frozen=True, slots=True)
class Api:
    """An interface of drivers that symd can grab from. ``name`` is the word in requests, ``title`` the one in
    sentences; ``kinds`` are the inputs it builds from."""

    name: str
    title: str
    soname: str
    kinds: tuple[str, ...]
    install: str


LEVEL_ZERO_API: Final = Api(
    "level-zero", "Level Zero", "libze_loader.so.1", ("spirv", "native"), "apt-get install intel-opencl-icd libze1"
)
OPENCL_API: Final = Api(
    "opencl",
    "OpenCL",
    "libOpenCL.so.1",
    ("source", "spirv", "native"),
    "apt-get install intel-opencl-icd ocl-icd-libopencl1",
)
APIS: Final[Mapping[str, Api]] = MappingProxyType({api.name: api for api in (LEVEL_ZERO_API, OPENCL_API)})


class ZeResult(IntEnum):
    """The result codes of Level Zero's functions (``ze_result_t``)."""

    ZE_RESULT_SUCCESS = 0x0
    ZE_RESULT_NOT_READY = 0x1
    ZE_RESULT_ERROR_DEVICE_LOST = 0x70000001
    ZE_RESULT_ERROR_OUT_OF_HOST_MEMORY = 0x70000002
    ZE_RESULT_ERROR_OUT_OF_DEVICE_MEMORY = 0x70000003
    ZE_RESULT_ERROR_MODULE_BUILD_FAILURE = 0x70000004
    ZE_RESULT_ERROR_MODULE_LINK_FAILURE = 0x70000005
    ZE_RESULT_ERROR_DEVICE_REQUIRES_RESET = 0x70000006
    ZE_RESULT_ERROR_DEVICE_IN_LOW_POWER_STATE = 0x70000007
    ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS = 0x70010000
    ZE_RESULT_ERROR_NOT_AVAILABLE = 0x70010001
    ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE = 0x70020000
    ZE_RESULT_ERROR_UNINITIALIZED = 0x78000001
    ZE_RESULT_ERROR_UNSUPPORTED_VERSION = 0x78000002
    ZE_RESULT_ERROR_UNSUPPORTED_FEATURE = 0x78000003
    ZE_RESULT_ERROR_INVALID_ARGUMENT = 0x78000004
    ZE_RESULT_ERROR_INVALID_NULL_HANDLE = 0x78000005
    ZE_RESULT_ERROR_HANDLE_OBJECT_IN_USE = 0x78000006
    ZE_RESULT_ERROR_INVALID_NULL_POINTER = 0x78000007
    ZE_RESULT_ERROR_INVALID_SIZE = 0x78000008
    ZE_RESULT_ERROR_UNSUPPORTED_SIZE = 0x78000009
    ZE_RESULT_ERROR_UNSUPPORTED_ALIGNMENT = 0x7800000A
    ZE_RESULT_ERROR_INVALID_ENUMERATION = 0x7800000C
    ZE_RESULT_ERROR_UNSUPPORTED_ENUMERATION = 0x7800000D
    ZE_RESULT_ERROR_INVALID_NATIVE_BINARY = 0x7800000F
    ZE_RESULT_ERROR_INVALID_GLOBAL_NAME = 0x78000010
    ZE_RESULT_ERROR_INVALID_KERNEL_NAME = 0x78000011
    ZE_RESULT_ERROR_INVALID_FUNCTION_NAME = 0x78000012
    ZE_RESULT_ERROR_INVALID_MODULE_UNLINKED = 0x78000018
    ZE_RESULT_WARNING_ACTION_REQUIRED = 0x7800001B
    ZE_RESULT_ERROR_SURVIVABILITY_MODE_DETECTED = 0x78000020
    ZE_RESULT_ERROR_UNKNOWN = 0x7FFFFFFE


class ClError(IntEnum):
    """The error codes of OpenCL, ``cl_int``."""

    CL_SUCCESS = 0
    CL_DEVICE_NOT_FOUND = -1
    CL_DEVICE_NOT_AVAILABLE = -2
    CL_COMPILER_NOT_AVAILABLE = -3
    CL_MEM_OBJECT_ALLOCATION_FAILURE = -4
    CL_OUT_OF_RESOURCES = -5
    CL_OUT_OF_HOST_MEMORY = -6
    CL_BUILD_PROGRAM_FAILURE = -11
    CL_COMPILE_PROGRAM_FAILURE = -15
    CL_LINKER_NOT_AVAILABLE = -16
    CL_LINK_PROGRAM_FAILURE = -17
    CL_DEVICE_PARTITION_FAILED = -18
    CL_INVALID_VALUE = -30
    CL_INVALID_DEVICE_TYPE = -31
    CL_INVALID_PLATFORM = -32
    CL_INVALID_DEVICE = -33
    CL_INVALID_CONTEXT = -34
    CL_INVALID_BINARY = -42
    CL_INVALID_BUILD_OPTIONS = -43
    CL_INVALID_PROGRAM = -44
    CL_INVALID_PROGRAM_EXECUTABLE = -45
    CL_INVALID_KERNEL_NAME = -46
    CL_INVALID_KERNEL_DEFINITION = -47
    CL_INVALID_KERNEL = -48
    CL_INVALID_OPERATION = -59
    CL_INVALID_PROPERTY = -64
    CL_INVALID_COMPILER_OPTIONS = -66
    CL_INVALID_LINKER_OPTIONS = -67
    CL_INVALID_SPEC_ID = -71
    CL_MAX_SIZE_RESTRICTION_EXCEEDED = -72
    CL_PLATFORM_NOT_FOUND_KHR = -1001
    CL_CONTEXT_TERMINATED_KHR = -1121


_REQUEST: Final = "request.json"
_INPUT: Final = "input.bin"


@dataclass(frozen=True, slots=True)
class DriverRequest:
    """What the process in which a driver runs is asked. ``verb`` is "grab" or "devices". ``simulate`` is a product
    or None for hardware; ``root`` the folder of another driver generation or None for the system's. ``where`` names
    the module in errors; ``seconds`` is the time that the driver gets; ``source_name`` what source text is called in
    debug data ("": nobody says)."""

    verb: str
    api: Api
    simulate: str | None
    root: str | None
    seconds: float
    where: str = ""
    data: bytes = b""
    kind: str = ""
    build_flags: str = ""
    device: int = 0
    source_name: str = ""


def write_request(folder: Path, request: DriverRequest, *, confined: bool, working_folder: str | None = None) -> None:
    """What the child needs to know, whether it must confine itself, in which other folder it compiles, and the
    module."""
    fields = {
        "verb": request.verb,
        "api": request.api.name,
        "simulate": request.simulate,
        "kind": request.kind,
        "build_flags": request.build_flags,
        "device": request.device,
        "source_name": request.source_name,
        "root": request.root,
        "confined": confined,
        "working_folder": working_folder,
        "parent": os.getpid(),
    }
    write_bytes(folder / _REQUEST, json.dumps(fields).encode())
    write_bytes(folder / _INPUT, request.data)


def read_request() -> Mapping[str, Any]:
    """The fields of ``DriverRequest`` of those names, ``api`` by its name, ``confined``, ``working_folder``, and
    ``parent``, a pid; for the child, in its working directory."""
    fields: dict[str, Any] = json.loads(Path(_REQUEST).read_text(encoding="utf-8"))
    return fields


def read_input() -> bytes:
    """The module's bytes; for the child, in its working directory."""
    return Path(_INPUT).read_bytes()


MAX_LOG: Final = 1 << 20
"""Characters of a build log that are kept."""


def bounded(log: str) -> str:
    """The log, or its beginning and its end with a line between that says how much is left out."""
    if len(log) <= MAX_LOG:
        return log
    half = MAX_LOG // 2
    return f"{log[:half]}\n... {len(log) - 2 * half} characters of the build log are left out ...\n{log[-half:]}"


Announce = Callable[[str], None]
"""Called with the name of every driver function before that function is called."""


@dataclass(frozen=True, slots=True)
class Built:
    """A module that the driver built: ``debug_data`` is b"" when the driver has none for it."""

    debug_data: bytes
    native: bytes
    kernels: tuple[str, ...]
    build_log: str


@dataclass(frozen=True, slots=True)
class DriverDevice:
    """One device: how its driver and it call themselves, and the binding's handles (its own last)."""

    driver: str
    name: str
    handles: tuple[ctypes.c_void_p, ...]

    @property
    def handle(self) -> ctypes.c_void_p:
        return self.handles[-1]


class Driver(Protocol):
    """What both bindings do, once made from an ``Announce`` and the simulated product's name or None."""

    def devices(self) -> list[DriverDevice]:
        """All devices of all drivers, in the loader's order. Raises DriverMissing when there is none."""
        ...

    def build(self, device: DriverDevice, data: bytes, kind: str, build_flags: str) -> Built:
        """Build a module for one device and take what the driver has of it.

        Raises BuildFailed with the build log, InvalidInput for bytes that the driver does not take, DriverFailed.
        """
        ...


def no_device(api: Api, failed: str, call: str, simulated: str | None) -> DriverMissing:
    """The error for a call that found no driver or no device."""
    if simulated is None:
        hint = f"to simulate a product such as dg2 takes no device; where no driver is here, {api.install}"
    else:
        hint = f"{api.install}; or this driver does not simulate {simulated!r}"
    return DriverMissing(failed, hint=hint, metadata={"call": call})


_MORE_MEMORY: Final = "raise driver_memory, the limit of the driver's process"


class Loader:
    """The loader library of ``api``, opened. ``codes`` are its result codes; 0 is success.

    Raises DriverMissing when it cannot be opened.
    """

    def __init__(self, api: Api, codes: type[IntEnum], announce: Announce) -> None:
        announce(f"dlopen {api.soname}")
        try:
            self._functions = ctypes.CDLL(api.soname)
        except OSError as error:
            hint = _MORE_MEMORY if "failed to map" in str(error) else api.install
            raise DriverMissing(f"{api.soname} cannot be loaded: {error}", hint=hint) from error
        self._api = api
        self._names = {int(code): code.name for code in codes}
        self._announce = announce

    def call(self, function: str, *arguments: Any) -> int:
        """Call and give the result code back. Arguments are ctypes values: a bare int would be cut to 32 bits."""
        return int(self._function(function, ctypes.c_int32)(*arguments))

    def check(self, function: str, *arguments: Any) -> None:
        """Call; raises DriverFailed unless the result is success."""
        code = self.call(function, *arguments)
        if code:
            raise self.failure(function, code)

    def create(self, function: str, *arguments: Any) -> tuple[ctypes.c_void_p, int]:
        """Call a function that returns a handle and stores its result code through one more, last pointer."""
        code = ctypes.c_int32()
        handle = self._function(function, ctypes.c_void_p)(*arguments, ctypes.byref(code))
        return ctypes.c_void_p(handle), code.value

    def failure(self, function: str, code: int) -> DriverFailed:
        """The error for a code that has no class of its own, with what to do where the code tells."""
        name = self.name(code)
        hint = ""
        if "OUT_OF_HOST_MEMORY" in name:
            hint = _MORE_MEMORY
        elif "DEPENDENCY_UNAVAILABLE" in name:
            hint = f"the driver lacks a library that it needs: {self._api.install}"
        return DriverFailed(f"{function} failed: {name}", hint=hint, metadata={"call": function, "code": name})

    def name(self, code: int) -> str:
        """The code's name and number."""
        number = f"0x{code:08x}" if code > 0 else str(code)
        return f"{self._names.get(code, 'a code without a name')} ({number})"

    def _function(self, name: str, result: Any) -> Any:
        self._announce(name)
        try:
            function = self._functions[name]
        except AttributeError:
            raise DriverMissing(f"{self._api.soname} is too old: it has no {name}", hint=self._api.install) from None
        function.restype = result
        return function
