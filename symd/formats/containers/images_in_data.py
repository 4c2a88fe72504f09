"""Device images in sections of a host program that hold several: those that Clang's wrapper of SYCL programs lists in a
table, and those among the data, at any byte.

Clang's wrapper lays all images of one kind one after another into one section, each at a multiple of 16 bytes, and
lists them in ``.tgtimg``, which has 16 bytes an image: u64 address, u64 size. In position-independent programs the
address is 0 in the file, and an R_X86_64_RELATIVE or R_AARCH64_RELATIVE relocation of ``.rela.dyn`` has it as its
addend (``loaded_words``). An image may be a zstd frame, compressed ones beside others in one section; its size is then
the expanded size, and its frame ends before the next image. Sections of one kind are named ``__CLANG_OFFLOAD_BUNDLE__``
and the kind; that of all kinds is ``OFFLOAD_DEVICE_CODE``, which begins at a multiple of 8 where nothing in it is
aligned to 16.

Among the data are ELF images for GPUs and SPIR-V modules, in no section of their own and in no table (code objects and
cubins that a compiler (Mojo, TVM) or a C array put there, shaders of Vulkan programs), and the images of programs that
GCC compiled for GPUs (OpenMP ``target``, OpenACC), found through the tables that their constructors hand to libgomp.

An ELF image begins with the magic number and an ELF header of a GPU's machine, and reaches as far as its own tables do.

A SPIR-V module begins with its header (magic number, version, generator, a bound that is not 0, schema 0) and an
OpCapability, and states no length. It ends after its last OpFunctionEnd and the instructions of non-semantic sets that
may follow it. The next header ends it at the latest, so that every byte is walked once.

GCC's table for AMD's GPUs is {u64 size, pointer to the code object}, one a program. For NVIDIA's it is an array of
{pointer to a PTX text that ends with a NUL, u64 size with the NUL}. Such a program has the sections
``.gnu.offload_funcs`` and ``.gnu.offload_vars``, with the addresses of the host's versions. An object that is not
linked yet has ``.gnu.offload_lto_*`` sections instead of images: GCC's intermediate language.

Sources: SPIR-V 1.6, 2.3 "Physical Layout of a SPIR-V Module and Instruction" and 2.4 "Logical Layout of a Module";
gcc/config/gcn/mkoffload.cc (struct gcn_image) and gcc/config/nvptx/mkoffload.cc (struct ptx_obj) of GCC 12;
llvm/lib/Frontend/Offloading/SYCLOffloadWrapper.cpp and clang-offload-wrapper of DPC++; layouts seen in the wheels of
dpctl, dpnp, oneMKL and vllm-xpu-kernels; System V ABI, chapter 4, "Relocation", and the processor supplements."""

from __future__ import annotations

import re
import struct
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np
import zstandard

from symd.errors import Malformed, SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers import archive, spirv
from symd.formats.containers.file_part import FilePart
from symd.formats.containers.format import Element
from symd.formats.containers.nvidia import fatbin
from symd.formats.containers.recognized import is_ptx
from symd.formats.elf import Elf
from symd.formats.elf.constants import (
    ELFDATA2LSB,
    EM_AARCH64,
    EM_AMDGPU,
    EM_CUDA,
    EM_INTELGT,
    EM_X86_64,
    ET_CORE,
    EV_CURRENT,
    MAGIC,
    R_AARCH64_RELATIVE,
    R_X86_64_RELATIVE,
    SHF_ALLOC,
    SHF_COMPRESSED,
    SHT_PROGBITS,
)
from symd.formats.elf.contents import expand_zstd
from symd.formats.spirv import HEADER_WORDS, Opcode
from symd.model.code import Section
from symd.model.columns import U64
from symd.model.texts import counted

_MACHINES: Final = (EM_AMDGPU, EM_CUDA, EM_INTELGT)
_ELF_HEADER_BYTES: Final = 64
_TABLE_BYTES_A_STEP: Final = 8
"""Bytes of tables that are a step of work; they are read for every header that may begin an image."""


def elements_in(part: FilePart, name: str, notes: list[str], budget: Budget, *, images_alone: bool) -> list[Element]:
    """The elements of the section ``name``: the ELF images in it; unless ``images_alone``, one for all its fat binaries
    first, and the SPIR-V modules. What is inside another is left to that."""
    images = images_in(part, name, budget)
    elements: list[Element] = []
    if not images_alone:
        fatbins = fatbin.fat_binaries_in(part, name, budget)
        if fatbins.extents:
            elements.append(Element(name, partial(_joined, part, fatbins.extents)))
            if fatbins.without_code:
                count = counted(fatbins.without_code, "fat binary", "fat binaries")
                notes.append(f"left out: {count} in {name} without machine code")
        found = modules_in(part, name, budget)
        if found.extents and found.headers_alone:
            notes.append(f"left out: SPIR-V headers in {name} that begin no whole module: {found.headers_alone}")
        images = _outside(images, fatbins.extents)
        images = sorted([*images, *_outside(found.extents, images)], key=lambda extent: extent.start)
    return [*elements, *(Element(name, partial(part.__getitem__, extent)) for extent in images)]


def images_in(data: FilePart, name: str, budget: Budget) -> list[slice]:
    """Where whole images are in a section's content, in order, none inside another. Each header of a GPU's counts as an
    element, and what is read of its tables as work; a magic number alone is a step. Raises LimitExceeded."""
    found, at = [], 0
    while (at := data.find(elf.MAGIC, at)) >= 0:
        budget.spend(1, name)
        size = _image_size(data, at, name, budget) if _begins_image(data[at : at + _ELF_HEADER_BYTES]) else None
        if size is not None:
            found.append(slice(at, at + size))
        at += size or len(elf.MAGIC)
    return found


def _begins_image(head: bytes) -> bool:
    kind = elf.kind(head)
    if kind is None or kind.machine not in _MACHINES or kind.type == ET_CORE:
        return False
    return head[5:7] == bytes((ELFDATA2LSB, EV_CURRENT))


def _image_size(data: FilePart, start: int, name: str, budget: Budget) -> int | None:
    """Bytes of the image that begins at ``start``; None where there is none, or not all of it."""
    budget.count_elements(name)

    def read(at: int, size: int) -> bytes:
        budget.spend(min(size, len(data)) // _TABLE_BYTES_A_STEP, name)
        return data[start + at : start + at + size]

    try:
        size = elf.image_size(read)
    except SymdError:
        return None
    return size if size is not None and start + size <= len(data) else None


MAX_MODULE_BYTES: Final = 64 << 20
"""Bytes of a module that are looked at; a longer one is not found."""
_HEADER = re.compile(rb"\x03\x02\x23\x07\x00[\x00-\x06]\x01\x00.{4}(?!\x00{4}).{4}\x00{4}\x11\x00\x02\x00", re.DOTALL)
"""Versions 1.0 to 1.6, in the byte order of all hosts whose images are read."""
_HEADER_BYTES = 24
_READ_CHUNK = 32 << 20
"""Bytes that are searched at a time."""
_WORD = 4
_HEAD = struct.Struct("<HH")
"""An instruction's opcode and the number of its words."""
_FUNCTION, _FUNCTION_END = int(Opcode.Function), int(Opcode.FunctionEnd)
_EXT_INST_IMPORT, _EXT_INST = int(Opcode.ExtInstImport), int(Opcode.ExtInst)
_EXT_INST_BYTES = 5 * _WORD
"""Bytes that every OpExtInst has: type, result, set, and the number of the instruction in it."""
_LINES = frozenset((int(Opcode.Line), int(Opcode.NoLine)))
_NON_SEMANTIC = b"NonSemantic."


class FoundModules(NamedTuple):
    """Where modules are, in order, and how many headers begin none."""

    extents: tuple[slice, ...]
    headers_alone: int


def modules_in(data: FilePart, name: str, budget: Budget) -> FoundModules:
    """The modules in a section's content; every header counts as an element. Raises LimitExceeded."""
    starts = []
    for start in _headers(data):
        budget.count_elements(name)
        starts.append(start)
    found = []
    for start, following in pairwise([*starts, len(data)]):
        size = _size(data[start : min(following, start + MAX_MODULE_BYTES)])
        if size:
            found.append(slice(start, start + size))
    return FoundModules(tuple(found), len(starts) - len(found))


def _headers(data: FilePart) -> Iterator[int]:
    for at in range(0, len(data), _READ_CHUNK):
        piece = data[at : at + _READ_CHUNK + _HEADER_BYTES - 1]
        yield from (at + found.start() for found in _HEADER.finditer(piece))


def _size(data: bytes) -> int:
    """Bytes of the module that ``data`` begins with; 0 where no function of it ends."""
    inside, end = False, 0
    sets: set[int] = set()
    for at, opcode, after in _instructions(data):
        if inside:
            if opcode == _FUNCTION_END:
                inside, end = False, after
        elif opcode == _FUNCTION:
            inside = True
        elif not end:
            if opcode == _EXT_INST_IMPORT and data[at + 8 : after].startswith(_NON_SEMANTIC):
                sets.add(_word(data, at + 4))
        elif opcode == _EXT_INST and after - at >= _EXT_INST_BYTES and _word(data, at + 12) in sets:
            end = after
        elif opcode not in _LINES:
            break
    return end


def _instructions(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(byte, opcode, byte behind it) of each instruction that is whole."""
    at, size = HEADER_WORDS * _WORD, len(data)
    head = _HEAD.unpack_from
    while at + _WORD <= size:
        opcode, count = head(data, at)
        after = at + count * _WORD
        if not count or after > size:
            return
        yield at, opcode, after
        at = after


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + _WORD], "little")


def _outside(extents: Iterable[slice], others: Sequence[slice]) -> list[slice]:
    """The extents that do not begin inside of one of the others, which are in order."""
    starts = [other.start for other in others]
    before = ((extent, bisect_right(starts, extent.start)) for extent in extents)
    return [extent for extent, number in before if not number or others[number - 1].stop <= extent.start]


def _joined(data: FilePart, extents: Sequence[slice]) -> bytes:
    return b"".join(data[each] for each in extents)


TABLES = (".gnu.offload_funcs", ".gnu.offload_vars")
INTERMEDIATE = ".gnu.offload_lto_"
_FIRST_WORDS = [int.from_bytes(each, "little") for each in (MAGIC, b"// B", b".ver")]
"""An ELF image; "// BEGIN PREAMBLE" and ".version", with which GCC's PTX begins."""
_LOOKED_AT = 1024
"""Bytes in which an image shows what it is."""
_TARGET = re.compile(rb"^[ \t]*\.target[ \t]+(sm_[0-9]+[a-z]?)", re.MULTILINE)
_ENTRY_POINT = re.compile(rb"^[ \t]*(?:\.visible[ \t]+)?\.entry[ \t]+([\w$.%]+)", re.MULTILINE)


class PtxImage(NamedTuple):
    """One text: its target, as "sm_30", its size in bytes without the NUL, and the names of its entry points."""

    target: str
    size: int
    kernels: tuple[str, ...]


class OffloadImages(NamedTuple):
    """The code objects and PTX texts of a program, in the order of their tables."""

    code: tuple[bytes, ...] = ()
    ptx: tuple[PtxImage, ...] = ()


def is_offloading(program: Elf) -> bool:
    """Whether GCC compiled the program or object, or some of it, for GPUs."""
    return is_intermediate(program) or any(section.name in TABLES for section in program.sections)


def is_intermediate(program: Elf) -> bool:
    """Whether device code is in an intermediate language until somebody links the object."""
    return any(section.name.startswith(INTERMEDIATE) for section in program.sections)


def offload_images(program: Elf, budget: Budget) -> OffloadImages:
    """The images among the program's data. Raises LimitExceeded."""
    data = [section for section in program.sections if _is_data(section)]
    code, ptx = [], []
    for section in data:
        free = 0  # images do not overlap
        for start, before, after in _candidates(program, data, section):
            if start < free:
                continue
            budget.count_elements(section.name)
            image = _code_object(section, start, before)
            text = _ptx_text(section, start, after) if image is None else None
            if image is not None:
                code.append(image)
                free = start + before
            elif text is not None:
                ptx.append(text)
                free = start + after
    return OffloadImages(tuple(code), tuple(ptx))


def _is_data(section: Section) -> bool:
    """Whether a program's data is in it: loaded, written in the file as it is, and no code."""
    kept = section.type == SHT_PROGBITS and section.flags & SHF_ALLOC and not section.flags & SHF_COMPRESSED
    return bool(kept) and not section.executable and section.address > 0


def _candidates(program: Elf, tables: list[Section], section: Section) -> list[tuple[int, int, int]]:
    """(start, word before, word after) of every word in ``tables`` that points to where an image may begin in
    ``section``, at byte ``start``; in the order of these, each start with its neighbors once."""
    content = np.frombuffer(section.data, np.uint8)
    found: set[tuple[int, int, int]] = set()
    for table in tables:
        words = loaded_words(program, table)
        offset = words - np.uint64(section.address)
        number = np.flatnonzero(offset < max(len(content) - _WORD, 0))
        starts = offset[number].astype(np.int64)
        first = content[starts[:, None] + np.arange(_WORD)].view("<u4").reshape(-1)
        chosen = np.isin(first, np.array(_FIRST_WORDS, np.uint32))
        around = np.pad(words, 1)
        before, after = around[number[chosen]], around[number[chosen] + 2]
        found |= {*zip(starts[chosen].tolist(), before.tolist(), after.tolist(), strict=True)}
    return sorted(found)


def _code_object(section: Section, start: int, size: int) -> bytes | None:
    """The AMDGPU code object of ``size`` bytes at ``start``; None where there is none."""
    kind = elf.kind(section.data[start : start + _LOOKED_AT])
    if kind is None or kind.machine != EM_AMDGPU or not 0 < size <= len(section.data) - start:
        return None
    return section.data[start : start + size]


def _ptx_text(section: Section, start: int, size: int) -> PtxImage | None:
    """The PTX text of ``size`` bytes at ``start``, the NUL at its end included; None where there is none."""
    end = start + size - 1
    if not (1 < size <= len(section.data) - start and section.data[end] == 0):
        return None
    if not is_ptx(section.data[start : min(start + _LOOKED_AT, end)]):
        return None
    text = section.data[start:end]
    target = _TARGET.search(text)
    kernels = tuple(name.decode("ascii", "replace") for name in _ENTRY_POINT.findall(text))
    return PtxImage(target[1].decode() if target else "", size - 1, kernels)


TARGET_IMAGES = ".tgtimg"
ALIGNMENT = 16
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_ENTRY_BYTES = 16
_IMAGE_WORDS = np.array(
    [int.from_bytes(each[:4], "little") for each in (*spirv.MAGICS, ZSTD_MAGIC, archive.MAGIC, MAGIC)], np.uint32
)


class DeviceImages(NamedTuple):
    """The images of one section, in its order, and what had to be left out."""

    data: tuple[bytes, ...]
    notes: tuple[str, ...]


class _Extent(NamedTuple):
    """Where an image begins in its section, what is stored of it at most, and its size (None where nobody says it)."""

    start: int
    end: int
    size: int | None


def device_images(program: Elf, section: Section, budget: Budget) -> DeviceImages:
    """The images in ``section`` of the host program. Raises LimitExceeded."""
    data, images, notes = section.data, [], []
    extents = _listed(program, section) or _by_beginnings(data)
    budget.count_elements(section.name, len(extents))
    for number, extent in enumerate(extents, 1):
        stored = data[extent.start : extent.end]
        if stored[:4] != ZSTD_MAGIC:
            images.append(stored if extent.size is None else stored[: extent.size])
            continue
        where = f"image {number} of {section.name}"
        try:
            size = _zstd_size(stored, where) if extent.size is None else extent.size
            images.append(expand_zstd(stored, size, budget, where))
        except SymdError as error:
            if error.status != "INVALID_ARGUMENT":
                raise
            notes.append(f"left out: {error}")
    return DeviceImages(tuple(images), tuple(notes))


def _zstd_size(data: bytes, where: str) -> int:
    """The bytes to which a zstd frame expands, as it says itself. Raises Malformed."""
    try:
        size: int = zstandard.get_frame_parameters(data).content_size
    except zstandard.ZstdError as error:
        raise Malformed(f"zstd data is damaged: {error}", where=where) from error
    if size == zstandard.CONTENTSIZE_UNKNOWN:
        raise Malformed("zstd data does not say to how many bytes it expands", where=where)
    return size


def _listed(program: Elf, section: Section) -> list[_Extent]:
    """The extents that ``.tgtimg`` lists of this section, by their addresses; none where there is no such table."""
    table = program.by_name.get(TARGET_IMAGES)
    if table is None or not section.address:
        return []
    entries = np.frombuffer(table.data[: len(table.data) // _ENTRY_BYTES * _ENTRY_BYTES], "<u8").reshape(-1, 2)
    address = loaded_words(program, table)[: 2 * len(entries) : 2]
    inside = (address >= section.address) & (address < section.address + len(section.data))
    starts = (address[inside] - np.uint64(section.address)).tolist()
    sizes = dict(zip(starts, entries[inside, 1].tolist(), strict=True))
    ordered = [*sorted(sizes), len(section.data)]
    return [_Extent(start, end, sizes[start]) for start, end in pairwise(ordered)]


def _by_beginnings(data: bytes) -> list[_Extent]:
    """Where nobody lists them: an image begins wherever the first bytes of one are at a multiple of 16, and what lies
    between its last byte that is not 0 and the next image is padding."""
    first_words = np.frombuffer(data[: len(data) // ALIGNMENT * ALIGNMENT], "<u4").reshape(-1, ALIGNMENT // 4)[:, 0]
    starts: list[int] = (np.flatnonzero(np.isin(first_words, _IMAGE_WORDS)) * ALIGNMENT).tolist()
    if not starts or starts[0]:
        starts.insert(0, 0)  # whatever is there is somebody's to name
    return [_Extent(start, _without_padding(data, start, end), None) for start, end in pairwise([*starts, len(data)])]


def _without_padding(data: bytes, start: int, end: int) -> int:
    """The end of an image of whole words."""
    last = start + len(data[start:end].rstrip(b"\0"))
    return min(last + -(last - start) % 4, end)


DYNAMIC_RELOCATIONS = ".rela.dyn"
LOADED_BYTES = 8
_RELATIVE: Mapping[int, int] = {EM_X86_64: R_X86_64_RELATIVE, EM_AARCH64: R_AARCH64_RELATIVE}
_RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])


def loaded_words(program: Elf, section: Section) -> U64:
    """The words of the section, from its first byte on. Relocations that are not relative change nothing."""
    data = section.data
    found = np.frombuffer(data[: len(data) // LOADED_BYTES * LOADED_BYTES], "<u8").astype(np.uint64)
    relocations = program.by_name.get(DYNAMIC_RELOCATIONS)
    relative = _RELATIVE.get(program.header.machine)
    if relocations is None or relative is None:
        return found
    rows = np.frombuffer(relocations.data[: len(relocations.data) // _RELA.itemsize * _RELA.itemsize], _RELA)
    place = rows["offset"] - np.uint64(section.address)
    meant = (place < len(found) * LOADED_BYTES) & (place % LOADED_BYTES == 0) & (rows["info"] == relative)
    found[place[meant] // LOADED_BYTES] = rows["addend"][meant].astype(np.uint64)
    return found
