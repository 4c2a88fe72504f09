"""Records as ``native/handover.h`` lays them out, made by hand."""

from __future__ import annotations

import struct

LOADED, UNLOADED, FAILED, FOUND = 1, 2, 3, 4
COMMAND, DEVICE, KERNEL, BUILD_LOG, DATA, SOURCE, KEY = 1, 2, 3, 4, 5, 6, 7
DEBUG_DATA, NATIVE_BINARY = 1, 2


def field(tag: int, contents: bytes, form: int = 0, address: int = 0) -> bytes:
    return struct.pack("<IIQQ", tag, form, address, len(contents)) + contents


def record(
    kind: int = LOADED,
    fields: bytes = b"",
    *,
    magic: bytes = b"symd",
    version: int = 1,
    api: int = 2,
    way: int = 3,
    process: int = 100,
    start_time: int = 5,
    image: int = 1,
    time: int = 1000,
    handle: int = 0x1000,
    code: int = 0,
    lost: int = 0,
    size: int | None = None,
) -> bytes:
    head = struct.pack(
        "<4sHHBBHIQQQQiIQ", magic, version, kind, api, way, 0, process, start_time, image, time, handle, code, lost,
        len(fields) if size is None else size,
    )  # fmt: skip
    return head + fields


def loaded(data: bytes = b"bytes", kernel: bytes = b"vadd", *, more: bytes = b"", **head: int) -> bytes:
    """A module that was loaded; ``more`` are further fields."""
    fields = field(KERNEL, kernel) + field(DATA, data, NATIVE_BINARY) + field(COMMAND, b"./a\0-b\0")
    return record(LOADED, fields + more, **head)  # type: ignore[arg-type]
