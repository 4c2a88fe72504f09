"""Records of libraries in programs to the events of ``symd.model.captures``: which process, which bytes, which addresses."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from symd.capture.process import boot_id
from symd.capture.records import Record, RecordKind
from symd.errors import SymdError
from symd.model.addresses import DeviceAddress
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureEvent,
    FailedBuild,
    ModuleForm,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)

_ELF = b"\x7fELF"
_TEXT = ".text."
"""How the names of sections of an Intel kernel's code begin; the kernel's name follows."""
_ADDRESS_BITS = 48
"""Bits of an address of an Intel GPU; those above repeat the highest."""


@dataclass(slots=True)
class _Image:
    """One program that a process runs, with what it has loaded now. ``number`` is of the program: another after execve, 0 until a
    record says it."""

    number: int
    process: CapturedProcess
    loaded: set[tuple[CaptureApi, int]] = field(default_factory=set)


class RecordEvents:
    """Makes events of records, in the order in which these come."""

    def __init__(self, host: str = "") -> None:
        self._host = host or os.uname().nodename
        self._boot = "" if host else boot_id()
        self._images: dict[int, _Image] = {}

    def events(self, record: Record, process: int) -> Iterator[CaptureEvent]:
        """What a record tells of ``process``, whose number this is as symd sees it."""
        before = self._images.get(process)
        if before is not None and not before.number:
            before.number = record.image
        if before is not None and record.image not in (before.number, 0):  # 0: the process could not find it
            yield ProcessEnded(before.process, record.time)
            before = None
        image = before or self._new_image(record, process)
        module = (record.api, record.handle)
        gone = record.kind in (RecordKind.LOADED, RecordKind.UNLOADED) and module in image.loaded
        if gone:
            image.loaded.discard(module)
            yield ModuleUnloaded(image.process, record.api, record.handle, record.time)
        if record.kind is RecordKind.LOADED and any(record.data.values()):  # some drivers give nothing
            image.loaded.add(module)
            yield self._loaded(record, image.process)
        elif record.kind is RecordKind.FOUND and any(record.data.values()):
            yield _found(record, image.process)
        elif record.kind is RecordKind.BUILD_FAILED:
            yield FailedBuild(
                image.process, record.api, record.way, record.time, record.code, record.build_log, record.device
            )

    def resume(self, events: Iterable[CaptureEvent]) -> None:
        """Go on after events that another made of the same programs' records, and that tell no end of theirs."""
        for event in events:
            if isinstance(event, ModuleLoaded):
                image = self._images.setdefault(event.process.process, _Image(0, event.process))
                image.loaded.add((event.api, event.handle))
            elif isinstance(event, ModuleUnloaded) and event.process.process in self._images:
                self._images[event.process.process].loaded.discard((event.api, event.handle))
            elif isinstance(event, ProcessEnded):
                self._images.pop(event.process.process, None)

    def processes(self) -> list[int]:
        """Numbers (PIDs) of the processes that have not ended."""
        return list(self._images)

    def ended(self, process: int, time: int) -> Iterator[CaptureEvent]:
        """The process ended, or became a program that hands nothing over."""
        image = self._images.pop(process, None)
        if image is not None:
            yield ProcessEnded(image.process, time)

    def image(self, process: int) -> int:
        """The number of the program that the process ran when its last record came; 0 where none said it."""
        image = self._images.get(process)
        return image.number if image else 0

    def _new_image(self, record: Record, process: int) -> _Image:
        named = CapturedProcess(self._host, process, record.start_time, record.command, self._boot)
        self._images[process] = _Image(record.image, named)
        return self._images[process]

    def _loaded(self, record: Record, process: CapturedProcess) -> ModuleLoaded:
        form, data, addresses = chosen(record.data)
        said = {name: DeviceAddress(canonical(address)) for name, address in record.kernels if address}
        return ModuleLoaded(
            process=process,
            api=record.api,
            way=record.way,
            handle=record.handle,
            time=record.time,
            form=form,
            data=data,
            device=record.device,
            kernels=tuple(dict.fromkeys(name for name, _ in record.kernels)),
            addresses=addresses or said,
            build_log=record.build_log,
        )


def _found(record: Record, process: CapturedProcess) -> ModuleFound:
    form, data = next((form, data) for form, data in record.data.items() if data)
    kernels = tuple(dict.fromkeys(name for name, _ in record.kernels))
    return ModuleFound(record.way, record.time, form, data, record.source, record.api, process, record.device, kernels)


def canonical(address: int) -> int:
    """An address with the bits above the 48 that a GPU has as the driver writes them in debug data: copies of the highest."""
    low = address & ((1 << _ADDRESS_BITS) - 1)
    return low | ((1 << 64) - (1 << _ADDRESS_BITS)) if low >> (_ADDRESS_BITS - 1) else low


def chosen(data: Mapping[ModuleForm, bytes]) -> tuple[ModuleForm, bytes, Mapping[str, DeviceAddress]]:
    """The form to keep, its bytes, and the kernels' addresses where the bytes say them.

    Debug data that is an ELF image has the load addresses in it, so that it is another file each time. The native binary is the same
    each time, and is kept instead where it has as much: either both have DWARF or neither.
    """
    debug, native = data.get(ModuleForm.DEBUG_DATA), data.get(ModuleForm.NATIVE_BINARY, b"")
    if not debug:
        return ModuleForm.NATIVE_BINARY, native, {}
    sections = _sections(debug)
    addresses = {
        name.removeprefix(_TEXT): DeviceAddress(address)
        for name, address in sections.items()
        if name.startswith(_TEXT) and address
    }
    if native and (".debug_info" in sections) == (".debug_info" in _sections(native)):
        return ModuleForm.NATIVE_BINARY, native, addresses
    return ModuleForm.DEBUG_DATA, debug, addresses


def _sections(data: bytes) -> dict[str, int]:
    """The addresses of an ELF image's sections by name; none where it is no ELF image, or a damaged one."""
    if not data.startswith(_ELF):
        return {}
    from symd.formats import elf  # noqa: PLC0415 - slow to import: the program is started meanwhile

    try:
        header = elf.parse_header(data)
        headers = elf.section_headers(data, header)
        names = elf.section_names(data, header, headers)
    except SymdError:
        return {}
    return {name: each.address for name, each in zip(names, headers, strict=True)}
