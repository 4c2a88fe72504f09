"""The loader library of an interface (Level Zero's, OpenCL's ICD loader), called through ctypes: each call is announced before it
is made, each failure carries the code's name. Opened in a child process only."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any, Final

from symd.capture.drivers.apis import Api
from symd.capture.drivers.driver import Announce
from symd.errors import DriverFailed, DriverMissing

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
