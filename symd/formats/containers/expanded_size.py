"""The bytes to which the compressed code objects of a program or an archive expand, as their headers state; nothing is
expanded.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from symd.config import Limits
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers import archive, host_elf
from symd.formats.containers.file_part import part_of
from symd.formats.containers.format import Element
from symd.formats.containers.llvm import compressed_bundle
from symd.formats.containers.nvidia import fatbin

_DEEPEST = 4
"""Containers in each other: a fat binary lies in an object in an archive."""


def expanded_size(data: bytes, limits: Limits) -> int:
    """The sum; what cannot be read counts nothing."""
    return _size(data, Budget(limits, len(data)), _DEEPEST)


def _size(data: bytes, budget: Budget, depth: int) -> int:
    with suppress(SymdError):
        if fatbin.claims(data):
            return fatbin.expanded_size(part_of(data), budget)
        if compressed_bundle.claims(data):
            return compressed_bundle.header(data[:32]).expanded
        return sum(_size(each.data, budget, depth - 1) for each in _elements(data, budget)) if depth else 0
    return 0


def _elements(data: bytes, budget: Budget) -> Sequence[Element]:
    if archive.claims(data):
        return archive.read(Element("archive", data), budget).elements
    if host_elf.claims(data) and host_elf.carries_device_code(each.name for each in elf.parse(data, budget).sections):
        return host_elf.read(Element("program", data), budget).elements
    return ()
