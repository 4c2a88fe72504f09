"""Level Zero through its loader: devices, and a module built from SPIR-V or a native binary with its debug data.

Structure layouts and constants are those of ze_api.h and zet_api.h. Loaded in a child process only.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from ctypes import POINTER, Structure, byref, c_char, c_char_p, c_size_t, c_uint8, c_uint32, c_uint64, c_void_p
from typing import Any, Final

from symd.capture.drivers.apis import LEVEL_ZERO_API, Announce, Built, DriverDevice, Loader, ZeResult, no_device
from symd.errors import BuildFailed, InvalidInput, SymdError

# ze_structure_type_t
ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES: Final = 0x1
ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES: Final = 0x3
ZE_STRUCTURE_TYPE_CONTEXT_DESC: Final = 0xD
ZE_STRUCTURE_TYPE_MODULE_DESC: Final = 0x1B

# ze_module_format_t
ZE_MODULE_FORMAT_IL_SPIRV: Final = 0
ZE_MODULE_FORMAT_NATIVE: Final = 1

ZET_MODULE_DEBUG_INFO_FORMAT_ELF_DWARF: Final = 0

_FORMATS: Final = {"spirv": ZE_MODULE_FORMAT_IL_SPIRV, "native": ZE_MODULE_FORMAT_NATIVE}
_BUILD_FAILURES: Final = (ZeResult.ZE_RESULT_ERROR_MODULE_BUILD_FAILURE, ZeResult.ZE_RESULT_ERROR_MODULE_LINK_FAILURE)


class _DriverProperties(Structure):
    _fields_ = (("stype", c_uint32), ("next", c_void_p), ("uuid", c_uint8 * 16), ("version", c_uint32))


class _DeviceProperties(Structure):
    _fields_ = (
        ("stype", c_uint32),
        ("next", c_void_p),
        ("type", c_uint32),
        ("vendor", c_uint32),
        ("device", c_uint32),
        ("flags", c_uint32),
        ("subdevice", c_uint32),
        ("core_clock_rate", c_uint32),
        ("max_allocation", c_uint64),
        ("max_hardware_contexts", c_uint32),
        ("max_queue_priority", c_uint32),
        ("threads_per_eu", c_uint32),
        ("eu_simd_width", c_uint32),
        ("eus_per_subslice", c_uint32),
        ("subslices_per_slice", c_uint32),
        ("slices", c_uint32),
        ("timer_resolution", c_uint64),
        ("timestamp_bits", c_uint32),
        ("kernel_timestamp_bits", c_uint32),
        ("uuid", c_uint8 * 16),
        ("name", c_char * 256),
    )


class _ContextDesc(Structure):
    _fields_ = (("stype", c_uint32), ("next", c_void_p), ("flags", c_uint32))


class _ModuleDesc(Structure):
    _fields_ = (
        ("stype", c_uint32),
        ("next", c_void_p),
        ("format", c_uint32),
        ("input_size", c_size_t),
        ("input", c_char_p),
        ("build_flags", c_char_p),
        ("constants", c_void_p),
    )


class LevelZero:
    """The loader, initialized. Raises DriverMissing when it is not here or knows no driver with a device.

    Nothing may follow a failed zeInit: loader 1.8 jumps through null pointers then.
    """

    def __init__(self, announce: Announce, simulated: str | None = None) -> None:
        self._simulated = simulated
        self._loader = Loader(LEVEL_ZERO_API, ZeResult, announce)
        code = self._loader.call("zeInit", c_uint32(0))
        if code == ZeResult.ZE_RESULT_ERROR_UNINITIALIZED:
            failed = f"zeInit failed: {self._loader.name(code)}; no Level Zero driver found a device"
            raise no_device(LEVEL_ZERO_API, failed, "zeInit", simulated)
        if code:
            raise self._loader.failure("zeInit", code)

    def devices(self) -> list[DriverDevice]:
        found = [
            DriverDevice(self._driver_name(driver), self._device_name(handle), (driver, handle))
            for driver in self._handles("zeDriverGet")
            for handle in self._handles("zeDeviceGet", driver)
        ]
        if not found:
            raise no_device(LEVEL_ZERO_API, "no Level Zero driver has a device", "zeDeviceGet", self._simulated)
        return found

    def build(self, device: DriverDevice, data: bytes, kind: str, build_flags: str) -> Built:
        with self._context(device) as context, self._module(context, device, data, kind, build_flags) as (module, log):
            return Built(
                self._sized("zetModuleGetDebugInfo", module, c_uint32(ZET_MODULE_DEBUG_INFO_FORMAT_ELF_DWARF)),
                self._sized("zeModuleGetNativeBinary", module),
                self._kernel_names(module),
                log,
            )

    def _handles(self, function: str, *owner: Any) -> list[c_void_p]:
        count = c_uint32()
        self._loader.check(function, *owner, byref(count), None)
        handles = (c_void_p * count.value)()
        if count.value:
            self._loader.check(function, *owner, byref(count), handles)
        return [c_void_p(handle) for handle in handles[: count.value]]

    def _driver_name(self, driver: c_void_p) -> str:
        properties = _DriverProperties(stype=ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES)
        self._loader.check("zeDriverGetProperties", driver, byref(properties))
        version = properties.version
        return f"Level Zero driver {version >> 24}.{version >> 16 & 0xFF}.{version & 0xFFFF}"

    def _device_name(self, device: c_void_p) -> str:
        properties = _DeviceProperties(stype=ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES)
        self._loader.check("zeDeviceGetProperties", device, byref(properties))
        return bytes(properties.name).decode("utf-8", "replace")

    @contextmanager
    def _context(self, device: DriverDevice) -> Iterator[c_void_p]:
        context = c_void_p()
        description = _ContextDesc(stype=ZE_STRUCTURE_TYPE_CONTEXT_DESC)
        self._loader.check("zeContextCreate", device.handles[0], byref(description), byref(context))
        try:
            yield context
        finally:
            self._loader.call("zeContextDestroy", context)

    @contextmanager
    def _module(
        self, context: c_void_p, device: DriverDevice, data: bytes, kind: str, build_flags: str
    ) -> Iterator[tuple[c_void_p, str]]:
        module, log = c_void_p(), c_void_p()
        description = _ModuleDesc(
            stype=ZE_STRUCTURE_TYPE_MODULE_DESC,
            format=_FORMATS[kind],
            input_size=len(data),
            input=data,
            build_flags=build_flags.encode(),
        )
        code = self._loader.call(
            "zeModuleCreate", context, device.handle, byref(description), byref(module), byref(log)
        )
        text = self._take_log(log)
        if code:
            raise self._build_failure(code, text)
        try:
            yield module, text
        finally:
            self._loader.call("zeModuleDestroy", module)

    def _take_log(self, log: c_void_p) -> str:
        """The build log, which a failed zeModuleCreate leaves too; its handle is gone afterwards."""
        if not log:
            return ""
        text = self._sized("zeModuleBuildLogGetString", log).rstrip(b"\0").decode("utf-8", "replace")
        self._loader.call("zeModuleBuildLogDestroy", log)
        return text

    def _build_failure(self, code: int, log: str) -> SymdError:
        failed = f"zeModuleCreate failed: {self._loader.name(code)}"
        metadata = {"call": "zeModuleCreate", "code": self._loader.name(code)}
        if code in _BUILD_FAILURES:
            return BuildFailed(failed, build_log=log, metadata=metadata)
        if code == ZeResult.ZE_RESULT_ERROR_INVALID_NATIVE_BINARY:
            return InvalidInput(failed, hint="give a native binary of this very device, or SPIR-V", metadata=metadata)
        return self._loader.failure("zeModuleCreate", code)

    def _kernel_names(self, module: c_void_p) -> tuple[str, ...]:
        count = c_uint32()
        self._loader.check("zeModuleGetKernelNames", module, byref(count), None)
        names = (c_char_p * count.value)()
        if count.value:
            self._loader.check("zeModuleGetKernelNames", module, byref(count), names)
        return tuple((name or b"").decode("utf-8", "replace") for name in names)

    def _sized(self, function: str, *arguments: Any) -> bytes:
        """Bytes from a function that tells their size first: its last two parameters are ``size_t*`` and
        ``uint8_t*``."""
        size = c_size_t()
        self._loader.check(function, *arguments, byref(size), None)
        if not size.value:
            return b""
        buffer = ctypes.create_string_buffer(size.value)
        self._loader.check(function, *arguments, byref(size), ctypes.cast(buffer, POINTER(c_uint8)))
        return buffer.raw[: size.value]
