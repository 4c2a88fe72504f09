"""The reference of a host program to the kernel packs that its code objects were moved to.

Section ``.rocm_kpack_ref`` is a msgpack map: ``kernel_name``, under which packs list the program, and ``kpack_search_paths``,
relative to the program's folder, in which ``@GFXARCH@`` stands for the processor. Each wrapper of ``.hipFatBinSegment`` (24
bytes: magic, version, address of that section, u32 number) then begins with ``HIPK``; ``.hip_fatbin`` stays, mostly zeros.

Source: ROCm's rocm-systems, shared/kpack: python/rocm_kpack/elf/kpack_transform.py, runtime/src/loader.cpp."""

from __future__ import annotations

from typing import NamedTuple

from symd.errors import Malformed
from symd.formats.containers.amd.bounded_msgpack import unpacked
from symd.formats.elf import Elf

SECTION = ".rocm_kpack_ref"
WRAPPERS = ".hipFatBinSegment"
HIPK_MAGIC = b"HIPK"
PROCESSOR = "@GFXARCH@"
_WRAPPER_SIZE = 24


class KpackReference(NamedTuple):
    """What a host program says of the kernel packs that it needs. ``units`` is how many code objects the program has
    for each processor: ``program#0`` and so on."""

    program: str
    search_paths: tuple[str, ...]
    units: int


def reference(image: Elf) -> KpackReference | None:
    """None where the program has its code objects itself. Raises Malformed."""
    section = image.by_name.get(SECTION)
    if section is None:
        return None
    table = unpacked(section.data, SECTION)
    if not isinstance(table, dict):
        raise Malformed(f"{SECTION} is no map")
    program, paths = table.get("kernel_name"), table.get("kpack_search_paths")
    if not isinstance(program, str) or not isinstance(paths, list) or not all(isinstance(path, str) for path in paths):
        raise Malformed(f"{SECTION} does not say where the program's kernel packs are")
    return KpackReference(program, tuple(paths), _units(image))


def _units(image: Elf) -> int:
    wrappers = image.by_name.get(WRAPPERS)
    if wrappers is None:
        return 0
    return sum(wrappers.data[at : at + 4] == HIPK_MAGIC for at in range(0, len(wrappers.data), _WRAPPER_SIZE))
