"""Fat binaries among the data of a host program: cuFFT keeps its own as arrays, in no section of their own. How long one is, its header
says, and those of its entries have to agree."""

from __future__ import annotations

from typing import NamedTuple

from symd.errors import SymdError
from symd.formats.budget import Budget
from symd.formats.containers.file_part import FilePart
from symd.formats.containers.nvidia import fatbin


class FoundFatbins(NamedTuple):
    """Where those are that hold machine code, in order, and how many hold none."""

    extents: tuple[slice, ...]
    without_code: int


def fat_binaries_in(data: FilePart, name: str, budget: Budget) -> FoundFatbins:
    """The fat binaries in a section's content; every magic number counts as an element, and every entry, however often it is looked
    at. What does not read as one from end to end is data of another kind. Raises LimitExceeded."""
    found, without_code, at = [], 0, 0
    while (at := data.find(fatbin.MAGIC, at)) >= 0:
        budget.count_elements(name)
        kinds, end = _kinds(data, at, name, budget)
        if fatbin.ELF in kinds:
            found.append(slice(at, end))
        else:
            without_code += len(kinds) > 0
        at = end
    return FoundFatbins(tuple(found), without_code)


def _kinds(data: FilePart, at: int, name: str, budget: Budget) -> tuple[set[int], int]:
    """The kinds of the entries of the container at this byte, and where it ends; none where there is no container."""
    nothing: tuple[set[int], int] = set(), at + len(fatbin.MAGIC)
    try:
        start, end = fatbin.container(data, at)
    except SymdError:
        return nothing
    if end > len(data):
        return nothing
    failures: list[SymdError] = []
    kinds = set()
    for entry in fatbin.container_entries(data, start, end, failures):
        budget.count_elements(name)
        kinds.add(entry.kind)
    return nothing if failures or not kinds else (kinds, end)
