"""The two driver interfaces: what they are called, which library opens them, which inputs they take, what to install,
and the result codes that listing devices and building modules may end with, as their headers spell them (ze_api.h;
CL/cl.h and the extension headers of the Khronos registry). And one question to one driver, with the two files in the
child's working directory in which it gets there."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

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
