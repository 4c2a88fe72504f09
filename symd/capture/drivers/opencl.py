"""OpenCL through its ICD loader: devices, and a program built from source, IL or a binary with its debug data.

Constants are those of CL/cl.h; the two debug queries are Intel's. Loaded in a child process only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Final

from symd.capture.drivers.apis import OPENCL_API, Announce, Built, ClError, DriverDevice, Loader, no_device
from symd.errors import BuildFailed, DriverMissing, InvalidInput, SymdError

CL_PLATFORM_NAME: Final = 0x0902
CL_PLATFORM_VENDOR: Final = 0x0903
CL_DEVICE_TYPE_GPU: Final = 1 << 2
CL_DEVICE_TYPE_ALL: Final = 0xFFFFFFFF
CL_DEVICE_NAME: Final = 0x102B
CL_DRIVER_VERSION: Final = 0x102D
CL_PROGRAM_BINARY_SIZES: Final = 0x1165
CL_PROGRAM_BINARIES: Final = 0x1166
CL_PROGRAM_KERNEL_NAMES: Final = 0x1168
CL_PROGRAM_BUILD_LOG: Final = 0x1183
CL_PROGRAM_DEBUG_INFO_INTEL: Final = 0x4100
CL_PROGRAM_DEBUG_INFO_SIZES_INTEL: Final = 0x4101

_KNOWS_SOURCE_NAMES: Final = "Intel"
"""How the platforms begin whose compiler takes -s."""
_BUILD_FAILURES: Final = (
    ClError.CL_BUILD_PROGRAM_FAILURE,
    ClError.CL_COMPILE_PROGRAM_FAILURE,
    ClError.CL_LINK_PROGRAM_FAILURE,
    ClError.CL_INVALID_BUILD_OPTIONS,
    ClError.CL_INVALID_COMPILER_OPTIONS,
)


class OpenCL:
    """The ICD loader. Raises DriverMissing when it is not here or knows no platform."""

    def __init__(self, announce: Announce, simulated: str | None = None) -> None:
        self._simulated = simulated
        self._loader = Loader(OPENCL_API, ClError, announce)
        self._platforms = self._handles("clGetPlatformIDs")

    def devices(self) -> list[DriverDevice]:
        """All devices of all platforms; where one is simulated, only the GPUs of Intel's platforms."""
        found = [device for platform in self._platforms for device in self._of_platform(platform)]
        if not found:
            failed = f"clGetDeviceIDs found no device: {self._loader.name(ClError.CL_DEVICE_NOT_FOUND)}"
            raise no_device(OPENCL_API, failed, "clGetDeviceIDs", self._simulated)
        return found

    def build(self, device: DriverDevice, data: bytes, kind: str, build_flags: str) -> Built:
        with self._context(device) as context, self._program(context, device, data, kind) as program:
            code = self._loader.call(
                "clBuildProgram", program, c_uint32(1), byref(device.handle), build_flags.encode(), None, None
            )
            log = self._build_log(program, device)
            if code:
                raise self._build_failure("clBuildProgram", code, log)
            # Asked before a successful build, or for several devices at once, the debug query ends the process.
            debug_data = self._per_device(program, CL_PROGRAM_DEBUG_INFO_SIZES_INTEL, CL_PROGRAM_DEBUG_INFO_INTEL)
            native = self._per_device(program, CL_PROGRAM_BINARY_SIZES, CL_PROGRAM_BINARIES)
            names = self._text("clGetProgramInfo", program, CL_PROGRAM_KERNEL_NAMES)
            return Built(debug_data, native, tuple(name for name in names.split(";") if name), log)

    def _handles(self, function: str, *owner: Any) -> list[c_void_p]:
        count = c_uint32()
        code = self._loader.call(function, *owner, c_uint32(0), None, byref(count))
        if code == ClError.CL_DEVICE_NOT_FOUND:
            return []
        if code == ClError.CL_PLATFORM_NOT_FOUND_KHR:
            failed = f"{function} failed: {self._loader.name(code)}; no OpenCL driver found a device"
            raise no_device(OPENCL_API, failed, function, self._simulated)
        if code:
            raise self._loader.failure(function, code)
        handles = (c_void_p * count.value)()
        self._loader.check(function, *owner, c_uint32(count.value), handles, None)
        return [c_void_p(handle) for handle in handles]

    def _of_platform(self, platform: c_void_p) -> Iterator[DriverDevice]:
        simulated = self._simulated is not None
        if simulated and "Intel" not in self._text("clGetPlatformInfo", platform, CL_PLATFORM_VENDOR):
            return
        wanted = c_uint64(CL_DEVICE_TYPE_GPU if simulated else CL_DEVICE_TYPE_ALL)
        platform_name = self._text("clGetPlatformInfo", platform, CL_PLATFORM_NAME)
        for handle in self._handles("clGetDeviceIDs", platform, wanted):
            version = self._text("clGetDeviceInfo", handle, CL_DRIVER_VERSION)
            yield DriverDevice(
                f"{platform_name} {version}", self._text("clGetDeviceInfo", handle, CL_DEVICE_NAME), (handle,)
            )

    @contextmanager
    def _context(self, device: DriverDevice) -> Iterator[c_void_p]:
        context, code = self._loader.create("clCreateContext", None, c_uint32(1), byref(device.handle), None, None)
        if code:
            raise self._loader.failure("clCreateContext", code)
        try:
            yield context
        finally:
            self._loader.call("clReleaseContext", context)

    @contextmanager
    def _program(self, context: c_void_p, device: DriverDevice, data: bytes, kind: str) -> Iterator[c_void_p]:
        function, arguments = _creation(device, data, kind)
        program, code = self._loader.create(function, context, *arguments)
        if code:
            raise self._build_failure(function, code, "")
        try:
            yield program
        finally:
            self._loader.call("clReleaseProgram", program)

    def _build_failure(self, function: str, code: int, log: str) -> SymdError:
        failed = f"{function} failed: {self._loader.name(code)}"
        metadata = {"call": function, "code": self._loader.name(code)}
        if code in _BUILD_FAILURES or log.strip():
            return BuildFailed(failed, build_log=log, metadata=metadata)
        if code == ClError.CL_COMPILER_NOT_AVAILABLE:
            return DriverMissing(failed, hint=OPENCL_API.install, metadata=metadata)
        if code == ClError.CL_INVALID_BINARY or (code == ClError.CL_INVALID_VALUE and function != "clBuildProgram"):
            return InvalidInput(failed, hint="these bytes are not what this driver takes", metadata=metadata)
        return self._loader.failure(function, code)

    def _build_log(self, program: c_void_p, device: DriverDevice) -> str:
        return self._text("clGetProgramBuildInfo", program, CL_PROGRAM_BUILD_LOG, device.handle)

    def _per_device(self, program: c_void_p, sizes: int, contents: int) -> bytes:
        """The one device's entry of a pair of queries: sizes first, then the bytes into a buffer of ours.

        b"" where the driver has none, and where it does not know the query.
        """
        size = c_size_t(0)
        code = self._loader.call(
            "clGetProgramInfo", program, c_uint32(sizes), c_size_t(ctypes.sizeof(size)), byref(size), None
        )
        if code == ClError.CL_INVALID_VALUE or (not code and not size.value):
            return b""
        if code:
            raise self._loader.failure("clGetProgramInfo", code)
        buffer = ctypes.create_string_buffer(size.value)
        pointers = (c_void_p * 1)(ctypes.addressof(buffer))
        width = c_size_t(ctypes.sizeof(pointers))
        self._loader.check("clGetProgramInfo", program, c_uint32(contents), width, pointers, None)
        return buffer.raw

    def _text(self, function: str, handle: c_void_p, name: int, *middle: c_void_p) -> str:
        """A string property; ``middle`` is between the handle and the property's name."""
        size = c_size_t()
        head = (handle, *middle, c_uint32(name))
        self._loader.check(function, *head, c_size_t(0), None, byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        self._loader.check(function, *head, c_size_t(size.value), buffer, None)
        return buffer.value.decode("utf-8", "replace")


def naming_source(flags: str, name: str, device: DriverDevice) -> str:
    """The build flags with ``-s`` and the name of the source: without it the debug data names no file that exists. They
    stay as they are without ``-g``, with a ``-s`` of the user's, for a name that no flag can hold, and for the drivers
    of others than Intel, which do not know this flag."""
    words = flags.split()
    unnamed = not name or '"' in name or not name.isprintable()
    if unnamed or "-g" not in words or "-s" in words or not device.driver.startswith(_KNOWS_SOURCE_NAMES):
        return flags
    return f'{flags} -s "{name}"'


def _creation(device: DriverDevice, data: bytes, kind: str) -> tuple[str, tuple[Any, ...]]:
    """The function that makes a program of this kind, and its arguments between the context and the result code."""
    length = c_size_t(len(data))
    if kind == "spirv":
        return "clCreateProgramWithIL", (data, length)
    text = c_char_p(data)
    if kind == "source":
        return "clCreateProgramWithSource", (c_uint32(1), byref(text), byref(length))
    arguments = (c_uint32(1), byref(device.handle), byref(length), byref(text), byref(c_int32()))
    return "clCreateProgramWithBinary", arguments
