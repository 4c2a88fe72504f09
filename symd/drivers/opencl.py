"""OpenCL through its ICD loader: devices, and a program built from source, IL or a binary with its debug data.

Constants are those of CL/cl.h; the two debug queries are Intel's. Loaded in a child process only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Final

from symd.drivers.apis import OPENCL_API
from symd.drivers.codes import OPENCL
from symd.drivers.library import Announce, Built, Device, Library, no_device
from symd.errors import BuildFailed, DriverMissing, InvalidInput, SymdError

_PLATFORM_NAME, _PLATFORM_VENDOR = 0x0902, 0x0903
_DEVICE_TYPE_GPU, _DEVICE_TYPE_ALL = 1 << 2, 0xFFFFFFFF
_DEVICE_NAME, _DRIVER_VERSION = 0x102B, 0x102D
_BINARY_SIZES, _BINARIES, _KERNEL_NAMES, _BUILD_LOG = 0x1165, 0x1166, 0x1168, 0x1183
_DEBUG_INFO_INTEL, _DEBUG_INFO_SIZES_INTEL = 0x4100, 0x4101

_DEVICE_NOT_FOUND, _COMPILER_NOT_AVAILABLE, _PLATFORM_NOT_FOUND = -1, -3, -1001
_INVALID_VALUE, _INVALID_BINARY = -30, -42
_BUILD_FAILURES: Final = (-11, -15, -17, -43, -66)
"""CL_BUILD_, CL_COMPILE_, CL_LINK_PROGRAM_FAILURE, CL_INVALID_BUILD_OPTIONS, CL_INVALID_COMPILER_OPTIONS."""


class OpenCL:
    """The ICD loader. Raises DriverMissing when it is not here or knows no platform."""

    def __init__(self, announce: Announce, simulated: str | None = None) -> None:
        self._simulated = simulated
        self._library = Library(OPENCL_API, OPENCL, announce)
        self._platforms = self._handles("clGetPlatformIDs")

    def devices(self) -> list[Device]:
        """All devices of all platforms; where one is simulated, only the GPUs of Intel's platforms."""
        found = [device for platform in self._platforms for device in self._of_platform(platform)]
        if not found:
            failed = f"clGetDeviceIDs found no device: {self._library.name(_DEVICE_NOT_FOUND)}"
            raise no_device(OPENCL_API, failed, "clGetDeviceIDs", self._simulated)
        return found

    def build(self, device: Device, data: bytes, kind: str, build_flags: str) -> Built:
        with self._context(device) as context, self._program(context, device, data, kind) as program:
            code = self._library.call(
                "clBuildProgram", program, c_uint32(1), byref(device.handle), build_flags.encode(), None, None
            )
            log = self._build_log(program, device)
            if code:
                raise self._build_failure("clBuildProgram", code, log)
            # Asked before a successful build, or for several devices at once, the debug query ends the process.
            debug_data = self._per_device(program, _DEBUG_INFO_SIZES_INTEL, _DEBUG_INFO_INTEL)
            native = self._per_device(program, _BINARY_SIZES, _BINARIES)
            names = self._text("clGetProgramInfo", program, _KERNEL_NAMES)
            return Built(debug_data, native, tuple(name for name in names.split(";") if name), log)

    def _handles(self, function: str, *owner: Any) -> list[c_void_p]:
        count = c_uint32()
        code = self._library.call(function, *owner, c_uint32(0), None, byref(count))
        if code == _DEVICE_NOT_FOUND:
            return []
        if code == _PLATFORM_NOT_FOUND:
            failed = f"{function} failed: {self._library.name(code)}; no OpenCL driver found a device"
            raise no_device(OPENCL_API, failed, function, self._simulated)
        if code:
            raise self._library.failure(function, code)
        handles = (c_void_p * count.value)()
        self._library.check(function, *owner, c_uint32(count.value), handles, None)
        return [c_void_p(handle) for handle in handles]

    def _of_platform(self, platform: c_void_p) -> Iterator[Device]:
        simulated = self._simulated is not None
        if simulated and "Intel" not in self._text("clGetPlatformInfo", platform, _PLATFORM_VENDOR):
            return
        wanted = c_uint64(_DEVICE_TYPE_GPU if simulated else _DEVICE_TYPE_ALL)
        platform_name = self._text("clGetPlatformInfo", platform, _PLATFORM_NAME)
        for handle in self._handles("clGetDeviceIDs", platform, wanted):
            version = self._text("clGetDeviceInfo", handle, _DRIVER_VERSION)
            yield Device(f"{platform_name} {version}", self._text("clGetDeviceInfo", handle, _DEVICE_NAME), (handle,))

    @contextmanager
    def _context(self, device: Device) -> Iterator[c_void_p]:
        context, code = self._library.create("clCreateContext", None, c_uint32(1), byref(device.handle), None, None)
        if code:
            raise self._library.failure("clCreateContext", code)
        try:
            yield context
        finally:
            self._library.call("clReleaseContext", context)

    @contextmanager
    def _program(self, context: c_void_p, device: Device, data: bytes, kind: str) -> Iterator[c_void_p]:
        function, arguments = _creation(device, data, kind)
        program, code = self._library.create(function, context, *arguments)
        if code:
            raise self._build_failure(function, code, "")
        try:
            yield program
        finally:
            self._library.call("clReleaseProgram", program)

    def _build_failure(self, function: str, code: int, log: str) -> SymdError:
        failed = f"{function} failed: {self._library.name(code)}"
        metadata = {"call": function, "code": self._library.name(code)}
        if code in _BUILD_FAILURES or log.strip():
            return BuildFailed(failed, build_log=log, metadata=metadata)
        if code == _COMPILER_NOT_AVAILABLE:
            return DriverMissing(failed, hint=OPENCL_API.install, metadata=metadata)
        if code == _INVALID_BINARY or (code == _INVALID_VALUE and function != "clBuildProgram"):
            return InvalidInput(failed, hint="these bytes are not what this driver takes", metadata=metadata)
        return self._library.failure(function, code)

    def _build_log(self, program: c_void_p, device: Device) -> str:
        return self._text("clGetProgramBuildInfo", program, _BUILD_LOG, device.handle)

    def _per_device(self, program: c_void_p, sizes: int, contents: int) -> bytes:
        """The one device's entry of a pair of queries: sizes first, then the bytes into a buffer of ours.

        b"" where the driver has none, and where it does not know the query.
        """
        size = c_size_t(0)
        code = self._library.call(
            "clGetProgramInfo", program, c_uint32(sizes), c_size_t(ctypes.sizeof(size)), byref(size), None
        )
        if code == _INVALID_VALUE or (not code and not size.value):
            return b""
        if code:
            raise self._library.failure("clGetProgramInfo", code)
        buffer = ctypes.create_string_buffer(size.value)
        pointers = (c_void_p * 1)(ctypes.addressof(buffer))
        width = c_size_t(ctypes.sizeof(pointers))
        self._library.check("clGetProgramInfo", program, c_uint32(contents), width, pointers, None)
        return buffer.raw

    def _text(self, function: str, handle: c_void_p, name: int, *middle: c_void_p) -> str:
        """A string property; ``middle`` stands between the handle and the property's name."""
        size = c_size_t()
        head = (handle, *middle, c_uint32(name))
        self._library.check(function, *head, c_size_t(0), None, byref(size))
        buffer = ctypes.create_string_buffer(size.value + 1)
        self._library.check(function, *head, c_size_t(size.value), buffer, None)
        return buffer.value.decode("utf-8", "replace")


def _creation(device: Device, data: bytes, kind: str) -> tuple[str, tuple[Any, ...]]:
    """The function that makes a program of this kind, and its arguments between the context and the result code."""
    length = c_size_t(len(data))
    if kind == "spirv":
        return "clCreateProgramWithIL", (data, length)
    text = c_char_p(data)
    if kind == "source":
        return "clCreateProgramWithSource", (c_uint32(1), byref(text), byref(length))
    arguments = (c_uint32(1), byref(device.handle), byref(length), byref(text), byref(c_int32()))
    return "clCreateProgramWithBinary", arguments
