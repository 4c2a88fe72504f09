"""Device images of SYCL programs: Clang's wrapper lays all images of one kind one after another into one section of the
host program, each at a multiple of 16 bytes, and lists them in ``.tgtimg``.

``.tgtimg`` has 16 bytes an image: u64 address, u64 size. In position-independent programs the address is 0 in the file,
and an R_X86_64_RELATIVE or R_AARCH64_RELATIVE relocation of ``.rela.dyn`` has it as its addend (``loaded_words``). An
image may be a zstd frame, compressed ones beside others in one section; its size is then the expanded size, and its
frame ends before the next image.

Sections of one kind are named ``__CLANG_OFFLOAD_BUNDLE__`` and the kind; that of all kinds is ``OFFLOAD_DEVICE_CODE``,
which begins at a multiple of 8 where nothing in it is aligned to 16.

Sources: llvm/lib/Frontend/Offloading/SYCLOffloadWrapper.cpp and clang-offload-wrapper of DPC++; layouts seen in the
wheels of dpctl, dpnp, oneMKL and vllm-xpu-kernels; System V ABI, chapter 4, "Relocation", and the processor
supplements.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import zstandard

from symd.errors import Malformed, SymdError
from symd.formats.budget import Budget
from symd.formats.containers import spirv
from symd.formats.elf import Elf
from symd.formats.elf.constants import EM_AARCH64, EM_X86_64, R_AARCH64_RELATIVE, R_X86_64_RELATIVE
from symd.formats.elf.constants import MAGIC as ELF_MAGIC
from symd.formats.elf.contents import expand_zstd
from symd.model.code import Section
from symd.model.columns import U64

TARGET_IMAGES = ".tgtimg"
ALIGNMENT = 16
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
AR_MAGIC = b"!<arch>\n"
_ENTRY_BYTES = 16
_FIRST_WORDS = np.array(
    [int.from_bytes(each[:4], "little") for each in (*spirv.MAGICS, ZSTD_MAGIC, AR_MAGIC, ELF_MAGIC)], np.uint32
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
    starts: list[int] = (np.flatnonzero(np.isin(first_words, _FIRST_WORDS)) * ALIGNMENT).tolist()
    if not starts or starts[0]:
        starts.insert(0, 0)  # whatever is there is somebody's to name
    return [_Extent(start, _without_padding(data, start, end), None) for start, end in pairwise([*starts, len(data)])]


def _without_padding(data: bytes, start: int, end: int) -> int:
    """The end of an image of whole words."""
    last = start + len(data[start:end].rstrip(b"\0"))
    return min(last + -(last - start) % 4, end)


DYNAMIC_RELOCATIONS = ".rela.dyn"
WORD_BYTES = 8
_RELATIVE: Mapping[int, int] = {EM_X86_64: R_X86_64_RELATIVE, EM_AARCH64: R_AARCH64_RELATIVE}
_RELA = np.dtype([("offset", "<u8"), ("info", "<u8"), ("addend", "<i8")])


def loaded_words(program: Elf, section: Section) -> U64:
    """The words of the section, from its first byte on. Relocations that are not relative change nothing."""
    data = section.data
    found = np.frombuffer(data[: len(data) // WORD_BYTES * WORD_BYTES], "<u8").astype(np.uint64)
    relocations = program.by_name.get(DYNAMIC_RELOCATIONS)
    relative = _RELATIVE.get(program.header.machine)
    if relocations is None or relative is None:
        return found
    rows = np.frombuffer(relocations.data[: len(relocations.data) // _RELA.itemsize * _RELA.itemsize], _RELA)
    place = rows["offset"] - np.uint64(section.address)
    meant = (place < len(found) * WORD_BYTES) & (place % WORD_BYTES == 0) & (rows["info"] == relative)
    found[place[meant] // WORD_BYTES] = rows["addend"][meant].astype(np.uint64)
    return found
