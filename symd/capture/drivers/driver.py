"""What both driver bindings do, and what they give: devices, and modules that were built."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from symd.capture.drivers.apis import Api
from symd.errors import DriverMissing

Announce = Callable[[str], None]
"""Told the name of every driver function before it is called."""


@dataclass(frozen=True, slots=True)
class Built:
    """A module that the driver built: ``debug_data`` is b"" when the driver has none for it."""

    debug_data: bytes
    native: bytes
    kernels: tuple[str, ...]
    build_log: str


@dataclass(frozen=True, slots=True)
class Device:
    """One device: how its driver and it call themselves, and the binding's handles (its own last)."""

    driver: str
    name: str
    handles: tuple[ctypes.c_void_p, ...]

    @property
    def handle(self) -> ctypes.c_void_p:
        return self.handles[-1]


class Driver(Protocol):
    """What both bindings do, once made from an ``Announce`` and the simulated product's name or None."""

    def devices(self) -> list[Device]:
        """All devices of all drivers, in the loader's order. Raises DriverMissing when there is none."""
        ...

    def build(self, device: Device, data: bytes, kind: str, build_flags: str) -> Built:
        """Build a module for one device and take what the driver has of it.

        Raises BuildFailed with the build log, InvalidInput for bytes that the driver does not take, DriverFailed.
        """
        ...


def no_device(api: Api, failed: str, call: str, simulated: str | None) -> DriverMissing:
    """The error for a call that found no driver or no device."""
    if simulated is None:
        hint = f"--simulate dg2 needs no device; symd doctor says whether a driver is here, else {api.install}"
    else:
        hint = f"{api.install}; or this driver does not simulate {simulated!r}"
    return DriverMissing(failed, hint=hint, metadata={"call": call})
