"""Host programs, objects and shared libraries: the sections in which they carry device code are handed on.

Source: Clang's HIP support documentation (``.hip_fatbin``), LLVM's offloading documentation (``.llvm.offloading``), the
sections that CUDA's and Clang's bundling tools write, and ``amd.kpack``. So are ELF images among the data
(``images_in_data``) and, where there is no such section, fat binaries and SPIR-V modules
(``nvidia.fatbin``, ``images_in_data``)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, cast

from symd.errors import SymdError, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers import compressed_bundle, images_in_data, offload_bundle
from symd.formats.containers.amd import amdgpu_core, kpack
from symd.formats.containers.amd.kpack import KpackReference
from symd.formats.containers.file_part import FilePart, forget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.host_elf import (
    ALL_TARGETS,
    BUNDLED,
    HIP_BUNDLES,
    MACHINES,
    RELOCATABLE,
    WHOLE,
    carries_device_code,
    is_bundled,
    is_device_section,
)
from symd.formats.containers.images_in_data import elements_in
from symd.formats.containers.nvidia import fatbin
from symd.formats.elf.constants import ET_CORE, ET_REL, SHF_ALLOC, SHF_COMPRESSED, SHT_PROGBITS
from symd.model.code import Section
from symd.model.texts import counted


def read(element: Element, budget: Budget) -> Contents:
    """An element for every device section, named after it; ``.hip_fatbin`` gives one for each of its bundles, sections
    of SYCL programs one for each of their images, and the data of a program that GCC compiled one for each code object
    in it. Data of other programs gives one for each ELF image, and with none of these sections one for the fat binaries
    of each section, and one for each SPIR-V module.

    An object without device code inside an archive has no elements; alone it raises Unsupported. Raises Malformed where
    the image contradicts itself.
    """
    kind = elf.kind(element.data)
    if kind is not None and kind.type == ET_CORE:
        return amdgpu_core.read(element, budget)  # which says what it lacks
    image = elf.parse(element.data, budget)
    notes: list[str] = []
    facts: dict[str, Any] = {"machine": MACHINES[image.header.machine]}
    build_id = image.build_id()
    if build_id is not None:
        facts["build_id"] = build_id
    packs = kpack.reference(image)
    kept = (section for section in image.sections if not (packs and section.name in HIP_BUNDLES))
    sections = sorted(
        kept, key=lambda section: section.name == RELOCATABLE
    )  # what is linked is what runs, and is offered first
    elements = [found for section in sections for found in _elements(image, section, notes, budget)]
    if packs:
        notes.append(_moved(packs))
        facts["kernel_packs"] = packs._asdict()
    if images_in_data.is_offloading(image):
        elements += _of_gcc(image, notes, facts, budget)
    else:
        named = packs is not None or carries_device_code(section.name for section in image.sections)
        elements += _among_data(image, notes, budget, images_alone=named)
    if not elements and not notes and not element.name:
        raise Unsupported(f"the {facts['machine']} ELF image carries no device code that symd reads", hint=_hint(image))
    return Contents(tuple(elements), notes=tuple(notes), facts=facts)


def _hint(image: elf.Elf) -> str:
    if not image.sections:
        return "its section table was cut off, and device code is found by section"
    if image.header.type == ET_REL:
        return "an object file has device code if it was compiled as HIP, CUDA or SYCL, or with offloading"
    return "what a program builds or loads while it runs is captured while it does"


def _moved(packs: KpackReference) -> str:
    paths = ", ".join(packs.search_paths)
    return f"{packs.units} code objects for each processor are in kernel packs, as {packs.program!r}: {paths}"


def _of_gcc(image: elf.Elf, notes: list[str], facts: dict[str, Any], budget: Budget) -> list[Element]:
    """The code objects of a program that GCC compiled for GPUs; its PTX becomes facts and a note."""
    images = images_in_data.offload_images(image, budget)
    if images.ptx:
        facts["ptx"] = [text._asdict() for text in images.ptx]
        targets = ", ".join(sorted({text.target for text in images.ptx}))
        notes.append(f"left out: {counted(len(images.ptx), 'PTX text')} of GCC ({targets}), without machine code")
    elif not images.code and images_in_data.is_intermediate(image):
        notes.append("left out: GCC's intermediate language for GPUs (.gnu.offload_lto_*): linking makes code of it")
    return [Element("amdgcn", content) for content in images.code]


def _among_data(image: elf.Elf, notes: list[str], budget: Budget, *, images_alone: bool) -> list[Element]:
    """What is among the data of a program: one element for the fat binaries of a section, and in the order of the file
    one for each ELF image and SPIR-V module. All are named after their sections."""
    elements: list[Element] = []
    for section in image.sections:
        if section.type != SHT_PROGBITS or not section.flags & SHF_ALLOC or section.executable:
            continue
        if is_device_section(section.name):
            continue
        elements += elements_in(_part(image, section), section.name, notes, budget, images_alone=images_alone)
        forget(image.data)
    return elements


def _elements(image: elf.Elf, section: Section, notes: list[str], budget: Budget) -> Iterator[Element]:
    if section.name in HIP_BUNDLES:
        yield from _bundles(section.name, _part(image, section), notes, budget)
    elif section.name in WHOLE and not (part := _part(image, section)).blank():
        # Hundreds of megabytes of fat binaries are read one code object after the other.
        content = cast("bytes", part) if part[: len(fatbin.MAGIC)] == fatbin.MAGIC else lambda: section.data
        yield Element(section.name, content)
    elif is_bundled(section.name):
        if section.name != ALL_TARGETS and section.data[:4] in offload_bundle.BITCODE:
            notes.append(f"left out: {section.name} is LLVM bitcode, not a code object")
        elif section.data.strip(b"\0"):
            images = images_in_data.device_images(image, section, budget)
            notes += images.notes
            yield from (Element(section.name.removeprefix(BUNDLED), data) for data in images.data)


def _part(image: elf.Elf, section: Section) -> FilePart:
    """The section's content, as long as it is read from the file where it stands."""
    begin, end = section.begin, section.end
    stored = not section.flags & SHF_COMPRESSED and section.size == end - begin
    return FilePart(image.data, begin, end) if stored else FilePart(section.data, 0, len(section.data))


_WINDOW, _WIDEST = 1 << 12, 1 << 25
"""Bytes that are searched at a time for the beginning of a bundle: the next one is mostly near."""


def _bundles(name: str, data: FilePart, notes: list[str], budget: Budget) -> Iterator[Element]:
    """Every bundle of the section. Each translation unit adds one, padded to its alignment; the next is looked for
    after the end of the one before, so that code which happens to hold a magic number is not taken for a bundle."""
    at, found = 0, 0
    beginnings = _Beginnings(data)
    while (start := beginnings.after(at)) < len(data):
        size = _extent(data, start, beginnings, budget)
        if not size:
            budget.count_elements(name)
            notes.append(f"left out: the bundle at byte {start} of {name} is damaged")
            at = start + 4
            continue
        found += 1
        content = partial(data.__getitem__, slice(start, start + size))
        yield Element(name if found == 1 else f"{name}#{found}", content)
        at = start + size
    if not found and not data.blank():
        notes.append(f"{name} holds no offload bundle that could be read")


class _Beginnings:
    """Where bundles begin. Both magic numbers are looked for in one window after the other: the search for a kind that
    does not occur would go through all that is left of the section, gigabytes of code."""

    def __init__(self, data: FilePart) -> None:
        self._data = data

    def after(self, at: int) -> int:
        """The first at ``at`` or later; the section's size where there is none."""
        size = _WINDOW
        while at < len(self._data):
            end = min(at + size, len(self._data))
            found = self._raw(at, self._packed(at, end))
            if found < end:
                return found
            at, size = end, min(2 * size, _WIDEST)
        return len(self._data)

    def _raw(self, at: int, end: int) -> int:
        """Where it begins in the window, which a magic number may stick out of; ``end`` where none does."""
        return self._found(offload_bundle.MAGIC, at, end)

    def _packed(self, at: int, end: int) -> int:
        found = self._found(compressed_bundle.MAGIC, at, end)
        while found < end and not _plausible(self._data, found):
            found = self._found(compressed_bundle.MAGIC, found + 1, end)
        return found

    def _found(self, magic: bytes, at: int, end: int) -> int:
        found = self._data.find(magic, at, end + len(magic) - 1)
        return end if found < 0 else found


def _plausible(data: FilePart, start: int) -> bool:
    try:
        compressed_bundle.header(data[start : start + 32])
    except SymdError:
        return False
    return True


def _extent(data: FilePart, start: int, beginnings: _Beginnings, budget: Budget) -> int:
    """Bytes that the bundle at ``start`` takes: 0 when it is damaged. Version 1 of the compressed kind does not say,
    and reaches to the next bundle or the end."""
    if data[start : start + 4] != compressed_bundle.MAGIC:
        return offload_bundle.extent(data, start, budget)
    head = compressed_bundle.header(data[start : start + 32])
    if head.size is None:
        return beginnings.after(start + head.length) - start
    return head.size if head.length <= head.size <= len(data) - start else 0
