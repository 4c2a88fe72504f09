"""A file together with the ``.dwo`` files and ``.dwp`` packages of code objects inside it, and the modules with debug
data of SPIR-V modules, as one module: what symd sends to whoever reads it, where compilers left debug data beside a
program, a bundle, an archive or a SPIR-V module. The code objects have the paths that they have without it.

    8 bytes   magic
    u32       number of code objects that have files
    each      u32 bytes of its path, u32 number of files, then the path, and each file with its size (u64) in front
    then      the file itself, to the end
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence

from symd.errors import Malformed
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers import spirv
from symd.formats.containers.format import Contents, Element
from symd.formats.elf.constants import SHT_NULL
from symd.model.code import CodeKind, CodeObject, Section

NAME = "with-dwo"
MAGIC = b"symd+dwo"
_COUNT, _ENTRY, _SIZE = struct.Struct("<I"), struct.Struct("<II"), struct.Struct("<Q")
_SUFFIX, _INDEX, _FIRST = ".dwo", ".debug_cu_index", ".debug_info.dwo"


def claims(data: bytes) -> bool:
    """The magic bytes."""
    return data[: len(MAGIC)] == MAGIC


def joined(data: bytes, files: Mapping[str, Sequence[bytes]]) -> bytes:
    """``data`` with the files of its code objects, by their paths."""
    parts = [MAGIC, _COUNT.pack(len(files))]
    for path, contents in files.items():
        name = path.encode("utf-8", "surrogateescape")
        parts += [_ENTRY.pack(len(name), len(contents)), name]
        parts += [part for content in contents for part in (_SIZE.pack(len(content)), content)]
    return b"".join([*parts, data])


def read(element: Element, budget: Budget) -> Contents:
    """The file as the one element, and the files by path. Raises Malformed, LimitExceeded."""
    data, at = element.data, len(MAGIC)

    def take(size: int) -> bytes:
        nonlocal at
        if size > len(data) - at:
            raise Malformed(f"{size} bytes are needed and {len(data) - at} are left", where=f"{NAME}+{at:#x}")
        at += size
        return data[at - size : at]

    files: dict[str, tuple[bytes, ...]] = {}
    for _ in range(_COUNT.unpack(take(_COUNT.size))[0]):
        length, count = _ENTRY.unpack(take(_ENTRY.size))
        budget.count_elements(NAME, 1 + count)
        path = take(length).decode("utf-8", "surrogateescape")
        files[path] = tuple(take(_SIZE.unpack(take(_SIZE.size))[0]) for _ in range(count))

    def joining(code: CodeObject, path: str, budget: Budget) -> CodeObject:
        return with_files(code, files[path], budget) if path in files else code

    return Contents((Element("", data[at:]),), joining=joining)


def with_files(code: CodeObject, files: Sequence[bytes], budget: Budget) -> CodeObject:
    """The code object with the sections of these files behind its own; of a SPIR-V module, with the first file. Raises
    Malformed, LimitExceeded; of SPIR-V also HashMismatch, NoDebugData."""
    if code.kind is CodeKind.SPIRV and files:
        return spirv.with_debug(code, files[0])
    sections = [*code.sections]
    for file in files:
        sections += [each.changed(index=len(sections) + at) for at, each in enumerate(_split(file, budget))]
    return code._replace(sections=tuple(sections))


def _split(file: bytes, budget: Budget) -> Iterator[Section]:
    """The sections of split debug data of a file, that of units first."""
    found = [each for each in elf.parse(file, budget).sections if each.name.endswith(_SUFFIX) or each.name == _INDEX]
    kept = (each for each in found if each.type != SHT_NULL)
    yield from sorted(kept, key=lambda each: each.name != _FIRST)
