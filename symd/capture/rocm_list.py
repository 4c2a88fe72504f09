"""The list of loaded code objects that ROCm's runtime keeps for debuggers, in a running process.

Source: ROCdbgapi's documentation (code object URIs) and the runtime's exported ``_amdgpu_r_debug``, which is glibc's r_debug."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from typing import Final

from symd.capture.file_part import read_part
from symd.capture.process import MemoryMapping, RunningProcess
from symd.config import Limits
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers import uri
from symd.formats.containers.amd.core_state import LoadedObject, listed_names
from symd.formats.elf.constants import PT_LOAD

_LIBRARY: Final = "libhsa-runtime64.so"
_SYMBOL: Final = "_amdgpu_r_debug"
_VERSIONS: Final = range(8, 12)
"""Versions of the list that mean what is read here."""
_MEMORY: Final = "memory://"
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def loaded_objects(
    process: RunningProcess, mappings: Sequence[MemoryMapping], limits: Limits, notes: list[str], end: float
) -> Iterator[LoadedObject]:
    """The code objects with what is added to their addresses, and their bytes where they can be had. ``notes`` gets a sentence
    where the runtime is there and its list is not, and where its code objects are not all read by ``end`` (time.monotonic())."""
    mapping = next((each for each in mappings if _LIBRARY in each.file), None)
    if mapping is None:
        return
    budget = Budget(limits, limits.module_size)
    try:
        address = _list_address(process, mapping, limits, budget)
        version = process.number(address, 4) if address else None
        if address is None or version is None or version not in _VERSIONS:
            found = "is not where it was expected" if version is None else f"has version {version}"
            notes.append(f"ROCm's list of code objects {found}; none is taken from it")
            return
        names = list(listed_names(process, address, budget))
    except (OSError, SymdError) as error:
        notes.append(f"ROCm's list of code objects could not be read: {error}")
        return
    notes.append(f"ROCm's runtime lists {len(names)} loaded code objects")
    for number, (name, bias) in enumerate(names):
        if time.monotonic() > end:
            rest = len(names) - number
            notes.append(f"{rest} of them were not read (the time was over)")
            return
        yield LoadedObject(name, bias, _content(process, name, limits))


def _list_address(process: RunningProcess, mapping: MemoryMapping, limits: Limits, budget: Budget) -> int | None:
    """Where the runtime's symbol stands in the process."""
    library = read_part(uri.CodeObjectUri(mapping.file), limits, lambda _: process.open_file(mapping))
    image = elf.parse(library, budget)
    table = image.by_name.get(".dynsym")
    symbols = image.symbols(table) if table else []
    value = next((symbol.value for symbol in symbols if symbol.name == _SYMBOL), None)
    loads = (each for each in image.segments if each.type == PT_LOAD)
    first = next((each for each in loads if each.offset // _PAGE * _PAGE == mapping.offset), None)
    if value is None or first is None:
        return None
    return mapping.start - (first.address - first.offset + mapping.offset) + value


def _content(process: RunningProcess, name: str, limits: Limits) -> bytes | None:
    """The bytes that a code object URI names, as the process sees them."""
    try:
        if name.startswith(_MEMORY):
            address, size = uri.memory_range(name)
            data = process.read(address, size) if size <= limits.folder_bytes else b""
            return data if len(data) == size else None
        return read_part(uri.parse(name), limits, process.open_path)
    except (OSError, SymdError):
        return None
