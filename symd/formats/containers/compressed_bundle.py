"""Compressed offload bundles ("CCOB"), versions 1 to 3, zlib or zstd: expanded, then read as the bundle they are.

Source: Clang's offload bundler documentation, "Compressed Bundle Format"."""

from __future__ import annotations

import struct
from typing import NamedTuple

from symd.errors import Malformed, Unsupported
from symd.formats.budget import Budget
from symd.formats.containers import offload_bundle
from symd.formats.containers.file_part import hashed
from symd.formats.containers.format import Contents, Element
from symd.formats.elf.contents import expand_zstd, inflate

NAME = "ccob"
MAGIC = b"CCOB"
_METHODS = {0: "zlib", 1: "zstd"}


class BundleHeader(NamedTuple):
    """The header of a compressed offload bundle. ``size`` is header and payload together, None in version 1, which
    does not record it; ``expanded`` are the bytes of the raw bundle; ``hash`` is what the first eight bytes of its
    MD5 must be, little-endian."""

    version: int
    method: int
    length: int
    size: int | None
    expanded: int
    hash: int


def claims(data: bytes) -> bool:
    """The magic string and a version below 16."""
    return data[:4] == MAGIC and 0 < int.from_bytes(data[4:6], "little") < 16


def read(element: Element, budget: Budget) -> Contents:
    """The elements of the bundle inside. Bytes after the recorded size are not looked at. Raises Malformed,
    LimitExceeded, and Unsupported for a version or a method that is not known."""
    head = header(element.data)
    end = len(element.data) if head.size is None else head.size
    if not head.length <= end <= len(element.data):
        raise Malformed(f"the compressed bundle says {end} bytes, and {len(element.data)} are there")
    expand = inflate if head.method == 0 else expand_zstd
    raw = expand(element.data[head.length : end], head.expanded, budget, "compressed bundle")
    if not offload_bundle.claims(raw):
        raise Malformed("the compressed bundle does not expand to an offload bundle")
    inner = offload_bundle.read(element._replace(content=raw), budget)
    facts = {**inner.facts, "compression": _METHODS[head.method], "bundle_version": head.version}
    return inner._replace(notes=_hash_notes(raw, head) + inner.notes, facts=facts, format=offload_bundle.NAME)


def _hash_notes(raw: bytes, head: BundleHeader) -> tuple[str, ...]:
    if int.from_bytes(hashed([raw], "md5")[:8], "little") == head.hash:
        return ()
    return ("the compressed bundle's hash does not match what it expands to",)


def header(data: bytes) -> BundleHeader:
    """Decode the header: u32 magic, u16 version, u16 method, then by version the sizes and the u64 hash."""
    if len(data) < 8:
        raise Malformed(f"the compressed bundle ends inside its header, at byte {len(data)}")
    version, method = struct.unpack_from("<HH", data, 4)
    layout = {1: "<IQ", 2: "<IIQ", 3: "<QQQ"}.get(version)
    if layout is None:
        raise Unsupported(f"compressed bundles of version {version} are not read (1 to 3 are)")
    if method not in _METHODS:
        raise Unsupported(f"compression method {method} of a bundle is not known (0 is zlib, 1 is zstd)")
    length = 8 + struct.calcsize(layout)
    if len(data) < length:
        raise Malformed(f"the compressed bundle ends inside its header, at byte {len(data)}")
    fields = struct.unpack_from(layout, data, 8)
    size = fields[0] if version > 1 else None
    return BundleHeader(version, method, length, size, fields[-2], fields[-1])
