"""Device images of programs that GCC compiled for GPUs (OpenMP ``target``, OpenACC): arrays among the program's own
data, found through the tables that its constructors hand to libgomp.

For AMD's GPUs the table is {u64 size, pointer to the code object}, one a program. For NVIDIA's it is an array of
{pointer to a PTX text that ends with a NUL, u64 size with the NUL}. Such a program has the sections
``.gnu.offload_funcs`` and ``.gnu.offload_vars``, with the addresses of the host's versions. An object that is not
linked yet has ``.gnu.offload_lto_*`` sections instead of images: GCC's intermediate language.

Source: gcc/config/gcn/mkoffload.cc (struct gcn_image), gcc/config/nvptx/mkoffload.cc (struct ptx_obj), GCC 12."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.llvm.sycl_images import loaded_words
from symd.formats.containers.recognized import is_ptx
from symd.formats.elf import Elf
from symd.formats.elf.constants import EM_AMDGPU, MAGIC, SHF_ALLOC, SHF_COMPRESSED, SHT_PROGBITS
from symd.model.code import Section

TABLES = (".gnu.offload_funcs", ".gnu.offload_vars")
INTERMEDIATE = ".gnu.offload_lto_"
_FIRST_WORDS = [int.from_bytes(each, "little") for each in (MAGIC, b"// B", b".ver")]
"""An ELF image; "// BEGIN PREAMBLE" and ".version", with which GCC's PTX begins."""
_WORD_BYTES = 4
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
        number = np.flatnonzero(offset < max(len(content) - _WORD_BYTES, 0))
        starts = offset[number].astype(np.int64)
        first = content[starts[:, None] + np.arange(_WORD_BYTES)].view("<u4").reshape(-1)
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
