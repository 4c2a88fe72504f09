"""The loader library of an interface (Level Zero's, OpenCL's ICD loader), called through ctypes: each call is announced
before it is made, each failure carries the code's name. Opened in a child process only. What both driver bindings do,
and what they give: devices, modules that were built, and build logs of a size that can be shown."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, Protocol

from symd.capture.drivers.apis import Api
from symd.errors import DriverFailed, DriverMissing

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
