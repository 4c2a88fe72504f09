"""Where device addresses mean something, what is loaded there when, and other names of modules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from symd.model.addresses import DeviceAddress, Query
from symd.model.columns import I64
from symd.model.identities import Digest, ObjectPath

CONTEXT_HINT = 'pass Context(host="…", process=1, device="…"), of symd.model.contexts'
EVENT_HINT = "pass a list of Load and Unload, of symd.model.contexts"
ALIAS_HINT = 'pass Alias("build-id", key, module), of symd.model.contexts'


@dataclass(frozen=True, slots=True)
class Context:
    """Where device addresses mean something: one device as one process sees it. Equal contexts are the same one, so a
    process number that the system uses again needs an attribute that tells the two apart (such as its start time).

    ``clock`` names the clock whose nanoseconds all times of the context count. ``address_bits`` is 64 where addresses
    are taken as they are; 48 or 57 where they are canonical: then an address with its sign extended and the same one
    with zeros above that many bits are one address.
    """

    host: str = ""
    process: int = 0
    device: str = ""
    clock: str = ""
    address_bits: int = 64
    attributes: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ContextRecord:
    """A known context. ``id`` follows from what it says; ``create_time`` is seconds since the epoch."""

    id: str
    context: Context
    create_time: float


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of a load: ``size`` bytes of device memory at ``address``; its first byte is ``start`` of the module
    that is loaded (in the code object at ``path``, or any when None). Size 0: to the end of the kernel or section
    that ``start`` names."""

    address: DeviceAddress
    size: int
    start: Query
    path: ObjectPath | None = None


@dataclass(frozen=True, slots=True)
class Load:
    """A module came to device memory at ``time`` (nanoseconds): at ``segments``, or whole at load base ``load_base`` (device
    address = load_base + object address modulo 2^64; ``path`` names one code object of several). With neither it is known to
    have been loaded and nobody knows where: no address means it.

    ``key`` names the load until its unload, as a driver's handle does; "" lets it be named after what it says.
    ``unload_time`` is when it was unloaded, where that is known already.
    """

    module: Digest
    time: int
    segments: tuple[Segment, ...] = ()
    load_base: int | None = None
    path: ObjectPath | None = None
    key: str = ""
    unload_time: int | None = None


@dataclass(frozen=True, slots=True)
class Unload:
    """What was loaded under ``key`` went at ``time`` (nanoseconds): from then on it is not there."""

    key: str
    time: int


@dataclass(frozen=True, slots=True)
class LoadInContext:
    """A load, its ``number`` among all loads, and the context in which it was told."""

    context: ContextRecord
    number: int
    load: Load


@dataclass(frozen=True, slots=True)
class Alias:
    """Another name of a module, or of the code object at ``path`` in it: ``key``, of a kind such as "build-id",
    "amd-uri", "cupti-crc"; unique in ``context`` (an id), or everywhere when that is ""."""

    kind: str
    key: str
    module: Digest
    path: ObjectPath | None = None
    context: str = ""


class AddressForm(NamedTuple):
    """How numbers are written: a number is (device address >> ``shift``), of which only the low ``known_bits`` of the address
    are known. Intel's EU-stall samples hold 29-bit instruction pointers in units of 8 bytes: ``AddressForm(3, 32)``."""

    shift: int = 0
    known_bits: int = 64


WHOLE_ADDRESS = AddressForm()

Times = I64 | int | None
"""Nanoseconds of a context's clock: one for each address, one for all, or None for after everything that was told."""
