"""Captured events told to a daemon: modules to its store, and loads and unloads to a context for each process and
device.

Telling an event again changes nothing, so whoever is not sure that one arrived tells it again. Nothing is remembered
here that the daemon does not know: another process may go on where this one ended."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath

from symd.api import Symbolizer
from symd.client import Client
from symd.errors import (
    Busy,
    ContextNotFound,
    InvalidInput,
    KernelNotFound,
    LimitExceeded,
    ModuleNotFound,
    NotFound,
    ObjectNotFound,
    SymdError,
    Unsupported,
)
from symd.model.addresses import ByKernel, DeviceAddress, KernelOffset
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureEvent,
    FailedBuild,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)
from symd.model.contexts import Context, Load, Segment, Unload
from symd.model.identities import Digest
from symd.model.texts import in_utf8

CLOCK = "CLOCK_BOOTTIME"
INTEL_ADDRESS_BITS = 48
"""Addresses of Intel's devices are canonical; the drivers tell them with and without their sign extended."""
COMMAND_LENGTH = 1000
"""The most characters of a command line that a context keeps."""
_INTEL = frozenset({CaptureApi.LEVEL_ZERO, CaptureApi.OPENCL})
LABEL_LENGTH = 200
_Identity = tuple[str, int, str, str]


class DaemonSink:
    """A ``Sink`` over ``symbolizer``, a daemon's client. For one thread at a time."""

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._names: dict[tuple[CapturedProcess, str, int], str] = {}
        self._names_by_process: dict[_Identity, set[str]] = {}
        self.refused: dict[Digest, SymdError] = {}
        """Modules that the daemon did not take, and why: their loads are told all the same."""

    def take(self, event: CaptureEvent) -> None:
        """Tell the daemon. Raises ``Unavailable``, ``DeadlineExceeded`` and ``Busy``, after which it may be told again,
        and what the daemon refuses for good."""
        match event:
            case ModuleLoaded():
                self._loaded(event)
            case ModuleFound():
                self._add(event)
            case ModuleUnloaded():
                self._unloaded(event)
            case ProcessEnded():
                self._ended(event)
            case FailedBuild():
                """A daemon keeps no build logs."""

    def _loaded(self, event: ModuleLoaded) -> None:
        """Record a load as exactly as the daemon takes it: an address of a kernel that the module does not have is left
        out."""
        digest = self._add(event)
        refusal: SymdError | None = None
        for load in self._ways_to_say(event, digest):
            try:
                return self._record(event, load)
            except (InvalidInput, KernelNotFound, ObjectNotFound, ModuleNotFound) as error:
                refusal = error
        if refusal is not None:
            raise refusal
        return None

    def _add(self, event: ModuleLoaded | ModuleFound) -> Digest:
        """The module's digest, after the daemon has its bytes or said why it never will. What was found is told once,
        and ``add`` asks whether the daemon has it; what is loaded may be so by the thousand."""
        digest = Digest(hashlib.sha256(event.data).hexdigest())
        if isinstance(event, ModuleFound) or self._symbolizer.missing([digest]):
            try:
                self._symbolizer.add(event.data, _label(event))
            except Busy:
                raise
            except (InvalidInput, Unsupported, LimitExceeded) as error:
                self.refused[digest] = error
        return digest

    def _ways_to_say(self, event: ModuleLoaded, digest: Digest) -> Iterator[Load]:
        """The load as it may be told, the most exact first and at last without a place."""
        load = Load(digest, event.time, key=key_of(event.api, event.handle))
        if event.addresses:
            yield replace(load, segments=_segments(event.addresses))
            known = self._kernels(digest)
            found = {name: address for name, address in event.addresses.items() if name in known}
            if 0 < len(found) < len(event.addresses):
                yield replace(load, segments=_segments(found))
        if event.load_base is not None:
            yield replace(load, load_base=event.load_base)
        yield load

    def _kernels(self, digest: Digest) -> set[str]:
        """The names of the kernels that the module has; none where it cannot be read."""
        try:
            summary = self._symbolizer.module(digest)
        except (InvalidInput, Unsupported, NotFound, LimitExceeded):
            return set()
        return {kernel.name for code_object in summary.objects for kernel in code_object.kernels}

    def _unloaded(self, event: ModuleUnloaded) -> None:
        """The event names no device: the key is its process's alone, so that the other contexts of that have nothing to
        end."""
        unload = Unload(key_of(event.api, event.handle), event.time)
        for name in self._contexts_of(event.process):
            self._symbolizer.contexts.record(name, [unload])

    def _ended(self, event: ProcessEnded) -> None:
        self._names_by_process.pop(
            _identity(context_for(event.process)), None
        )  # others may have made contexts of it known
        for name in self._contexts_of(event.process):
            living = [
                load
                for _, load in self._symbolizer.contexts.loads(name)
                if load.unload_time is None and load.time < event.time
            ]
            if living:
                self._symbolizer.contexts.record(name, [Unload(load.key, event.time) for load in living])

    def _record(self, event: ModuleLoaded, load: Load) -> None:
        """Record a load in its context, made where the daemon does not know it, or does no more."""
        context = context_of(event)
        where = event.process, context.device, context.address_bits
        with suppress(ContextNotFound):
            if where in self._names:
                self._symbolizer.contexts.record(self._names[where], [load])
                return
        self._names[where] = self._symbolizer.contexts.add(context)
        self._names_by_process.get(_identity(context), set()).add(self._names[where])
        self._symbolizer.contexts.record(self._names[where], [load])

    def _contexts_of(self, process: CapturedProcess) -> list[str]:
        """The contexts of a process, on whatever device, also those that another sink made known."""
        wanted = _identity(context_for(process))
        if wanted not in self._names_by_process:
            every = self._symbolizer.contexts.all()
            self._names_by_process[wanted] = {record.id for record in every if _identity(record.context) == wanted}
        return sorted(self._names_by_process[wanted])


def context_of(event: ModuleLoaded) -> Context:
    """Where the addresses of a load mean something."""
    return context_for(event.process, event.device, INTEL_ADDRESS_BITS if event.api in _INTEL else 64)


def context_for(process: CapturedProcess, device: str = "", address_bits: int = 64) -> Context:
    """The context of a process on a device."""
    attributes = {"start_time": str(process.start_time)}
    if process.boot:
        attributes["boot_id"] = process.boot
    if process.command:
        attributes["command"] = shlex.join(process.command)[:COMMAND_LENGTH]
    return Context(process.host, process.process, device, CLOCK, address_bits, attributes)


def key_of(api: CaptureApi, handle: int) -> str:
    """What names a load of a process until its unload: handles of two interfaces may be equal."""
    return f"{api.value}:{handle:#x}"


def _identity(context: Context) -> _Identity:
    """What tells processes apart, whatever they execute."""
    attributes = context.attributes
    return context.host, context.process, attributes.get("start_time", ""), attributes.get("boot_id", "")


def _segments(addresses: Mapping[str, DeviceAddress]) -> tuple[Segment, ...]:
    """Each kernel whole, at its address."""
    return tuple(Segment(address, 0, ByKernel(name, KernelOffset(0))) for name, address in sorted(addresses.items()))


def _label(event: ModuleLoaded | ModuleFound) -> str:
    """The program and its kernels, or where a module was found of which neither is known."""
    program = PurePath(event.process.command[0]).name if event.process and event.process.command else ""
    words = [program, ", ".join(event.kernels)]
    if isinstance(event, ModuleFound) and not event.kernels:
        words.append(event.source)
    return in_utf8(": ".join(word for word in words if word))[:LABEL_LENGTH]


def client_and_sink(address: str, seconds: float) -> tuple[Client, DaemonSink]:
    """A client of the daemon at an address, each of whose calls may take ``seconds``, and a sink over it."""
    client = Client(address, timeout=seconds)
    return client, DaemonSink(client)
