"""The records that libraries in a program hand over, read into values and turned into the events of
``symd.model.captures``: which process, which bytes, which addresses.

A captured program can write anything here, so each number is checked before it is believed. docs/capture-protocol.md
has the layout; ``native/handover.h`` writes it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from types import MappingProxyType
from typing import Final

from symd.capture.process import COMMAND_BYTES, boot_id, command_words
from symd.errors import LimitExceeded, Malformed, SymdError, Unsupported
from symd.formats import elf
from symd.model.addresses import DeviceAddress
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureEvent,
    CaptureWay,
    FailedBuild,
    ModuleForm,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)

MAGIC: Final = b"symd"
VERSION: Final = 1
HEADER: Final = struct.Struct("<4sHHBBHIQQQQiIQ")
"""magic, version, kind, API, way, 0, process, start time, image, time, handle, result, records lost before, bytes
behind the header."""
_FIELD: Final = struct.Struct("<IIQQ")
"""tag, form, address, bytes that follow."""
_BEYOND_PROCESSES: Final = 1 << 31
"""Numbers of processes are positive numbers of 32 bits with a sign (pid_t)."""
CAPTURE_KERNELS: Final = 100_000
"""Kernels of one captured module."""
CAPTURE_FIELDS: Final = 1_000
"""Fields of one record of a captured module, beside those of its kernels."""
_WHERE: Final = "captured record"


class RecordKind(IntEnum):
    """What a record tells."""

    LOADED = 1
    UNLOADED = 2
    BUILD_FAILED = 3
    FOUND = 4
    """A module that was compiled, or that the program brings along; nobody says that it is loaded."""


class RecordTag(IntEnum):
    """What a field of a record holds."""

    COMMAND = 1
    DEVICE = 2
    KERNEL = 3
    BUILD_LOG = 4
    DATA = 5
    SOURCE = 6
    KEY = 7


_TEXTS: Final[Mapping[int, str]] = MappingProxyType(
    {RecordTag.DEVICE: "device", RecordTag.BUILD_LOG: "build_log", RecordTag.SOURCE: "source", RecordTag.KEY: "key"}
)
"""What the texts of a record are called."""
_APIS: Final[Mapping[int, CaptureApi]] = MappingProxyType(
    {
        1: CaptureApi.LEVEL_ZERO,
        2: CaptureApi.OPENCL,
        3: CaptureApi.CUDA,
        4: CaptureApi.HIP,
        5: CaptureApi.TRITON,
    }
)
_WAYS: Final[Mapping[int, CaptureWay]] = MappingProxyType(
    {1: CaptureWay.PRELOAD, 2: CaptureWay.WRAPPER_DRIVER, 3: CaptureWay.OPENCL_LAYER, 4: CaptureWay.LISTENER}
)
_FORMS: Final[Mapping[int, ModuleForm]] = MappingProxyType({1: ModuleForm.DEBUG_DATA, 2: ModuleForm.NATIVE_BINARY})


@dataclass(frozen=True, slots=True)
class Record:
    """One record. ``process`` and ``start_time`` are as the process sees itself; ``image`` is another number after each
    execve; ``lost`` is how many records before this one could not be handed over. ``source`` is where a module lies: a
    path, or the code object URI of a part of a file. ``key`` is the run's, where the sender knows it. ``kernels`` are
    names with addresses, 0 where the driver says none."""

    kind: RecordKind
    api: CaptureApi
    way: CaptureWay
    process: int
    start_time: int
    image: int
    time: int
    handle: int
    code: int
    lost: int
    command: tuple[str, ...] = ()
    device: str = ""
    kernels: tuple[tuple[str, int], ...] = ()
    build_log: str = ""
    source: str = ""
    key: str = field(default="", repr=False)
    data: Mapping[ModuleForm, bytes] = field(default_factory=dict, repr=False)


def time_of(data: bytes) -> int:
    """The time of a record that was not looked at; 0 where it is none."""
    return int(HEADER.unpack_from(data)[9]) if len(data) >= HEADER.size else 0


def parse_record(data: bytes) -> Record:
    """The record that ``data`` is, all of it.

    Raises Unsupported for a version that this symd does not know, LimitExceeded for too many kernels or fields,
    Malformed for anything else that is no record.
    """
    if len(data) < HEADER.size or not data.startswith(MAGIC):
        raise Malformed("it does not begin like one", where=_WHERE)
    _, version, kind, api, way, _, process, start_time, image, time, handle, code, lost, size = HEADER.unpack_from(data)
    if version != VERSION:
        raise Unsupported(
            f"version {version}, and this symd reads {VERSION}", where=_WHERE, hint="use the libraries of the same symd"
        )
    if size != len(data) - HEADER.size:
        raise Malformed(f"it says {size} bytes behind its header, and has {len(data) - HEADER.size}", where=_WHERE)
    if kind not in set(RecordKind) or api not in _APIS or way not in _WAYS:
        raise Malformed(f"kind {kind}, interface {api}, way {way}: not all are known", where=_WHERE)
    if process >= _BEYOND_PROCESSES:
        raise Malformed(f"no process has the number {process}", where=_WHERE)
    head = (RecordKind(kind), _APIS[api], _WAYS[way], process, start_time, image, time, handle, code, lost)
    return Record(*head, **_contents(data))  # type: ignore[arg-type]


def _contents(data: bytes) -> dict[str, object]:
    command: tuple[str, ...] = ()
    texts = dict.fromkeys(_TEXTS.values(), "")
    kernels: list[tuple[str, int]] = []
    bytes_of: dict[ModuleForm, bytes] = {}
    for tag, form, address, contents in _fields(data):
        if tag == RecordTag.DATA:
            if form not in _FORMS:
                raise Malformed(f"module data of the unknown form {form}", where=_WHERE)
            bytes_of[_FORMS[form]] = bytes(contents)
        elif tag == RecordTag.KERNEL:
            if len(kernels) >= CAPTURE_KERNELS:
                raise _over(f"more than {CAPTURE_KERNELS} kernels", "capture_kernels")
            kernels.append((_text(contents), address))
        elif tag == RecordTag.COMMAND:
            command = command_words(bytes(contents[:COMMAND_BYTES]))
        elif tag in _TEXTS:
            texts[_TEXTS[tag]] = _text(contents)
    return {"command": command, "kernels": tuple(kernels), "data": bytes_of, **texts}


def _over(message: str, limit: str) -> LimitExceeded:
    return LimitExceeded(message, where=_WHERE, metadata={"limit": limit})


def _fields(data: bytes) -> Iterator[tuple[int, int, int, memoryview]]:
    """Tag, form, address and bytes of each field; tags that are not known are for the caller to pass over."""
    whole = memoryview(data)
    at = HEADER.size
    others = 0
    while at < len(data):
        if len(data) - at < _FIELD.size:
            raise Malformed(f"a field is cut off at byte {at}", where=_WHERE)
        tag, form, address, size = _FIELD.unpack_from(data, at)
        at += _FIELD.size
        others += tag != RecordTag.KERNEL
        if others > CAPTURE_FIELDS:
            raise _over(f"more than {CAPTURE_FIELDS} fields beside kernels", "capture_fields")
        if size > len(data) - at:
            raise Malformed(f"the field before byte {at} has {size} bytes, and {len(data) - at} are left", where=_WHERE)
        yield tag, form, address, whole[at : at + size]
        at += size


def _text(contents: bytes | memoryview) -> str:
    return str(contents, "utf-8", "backslashreplace")


_ELF = b"\x7fELF"
_TEXT = ".text."
"""How the names of sections of an Intel kernel's code begin; the kernel's name follows."""
_ADDRESS_BITS = 48
"""Bits of an address of an Intel GPU; those above repeat the highest."""


@dataclass(slots=True)
class _Image:
    """One program that a process runs, with what it has loaded now. ``number`` is of the program: another after execve,
    0 until a record says it."""

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
    """An address with the bits above the 48 that a GPU has as the driver writes them in debug data: copies of the
    highest."""
    low = address & ((1 << _ADDRESS_BITS) - 1)
    return low | ((1 << 64) - (1 << _ADDRESS_BITS)) if low >> (_ADDRESS_BITS - 1) else low


def chosen(data: Mapping[ModuleForm, bytes]) -> tuple[ModuleForm, bytes, Mapping[str, DeviceAddress]]:
    """The form to keep, its bytes, and the kernels' addresses where the bytes say them.

    Debug data that is an ELF image has the load addresses in it, so that it is another file each time. The native
    binary is the same each time, and is kept instead where it has as much: either both have DWARF or neither.
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
    try:
        header = elf.parse_header(data)
        headers = elf.section_headers(data, header)
        names = elf.section_names(data, header, headers)
    except SymdError:
        return {}
    return {name: each.address for name, each in zip(names, headers, strict=True)}
