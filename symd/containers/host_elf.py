"""Host programs, objects and shared libraries: the sections in which they carry device code are handed on.

Source: Clang's HIP support documentation (``.hip_fatbin``), LLVM's offloading documentation (``.llvm.offloading``), the
sections that CUDA's and Clang's bundling tools write."""

from __future__ import annotations

from collections.abc import Iterator

from symd import elf
from symd.budget import Budget
from symd.containers.format import Contents, Element
from symd.containers.intel import igc_elf
from symd.containers.llvm import compressed_bundle, offload_bundle, sycl_images
from symd.elf.constants import (
    EM_386,
    EM_AARCH64,
    EM_ARM,
    EM_LOONGARCH,
    EM_PPC64,
    EM_RISCV,
    EM_S390,
    EM_X86_64,
)
from symd.errors import SymdError, Unsupported
from symd.model.code import Section

NAME = "host-elf"
MACHINES = {
    EM_386: "i386",
    EM_PPC64: "ppc64",
    EM_S390: "s390x",
    EM_ARM: "arm",
    EM_X86_64: "x86-64",
    EM_AARCH64: "aarch64",
    EM_RISCV: "riscv",
    EM_LOONGARCH: "loongarch",
}
_WHOLE = {".llvm.offloading", ".nv_fatbin", "__nv_relfatbin"}
_BUNDLED = "__CLANG_OFFLOAD_BUNDLE__"


def claims(data: bytes) -> bool:
    """An ELF image for a processor that hosts GPUs, unless it is one of Intel's dumps in that disguise."""
    kind = elf.kind(data)
    return kind is not None and kind.machine in MACHINES and not igc_elf.claims(data)


def read(element: Element, budget: Budget) -> Contents:
    """An element for every device section, named after it; ``.hip_fatbin`` gives one for each of its bundles, sections of SYCL
    programs one for each of their images.

    An object without device code inside an archive has no elements; alone it raises Unsupported. Raises Malformed where the
    image contradicts itself.
    """
    image = elf.parse(element.data, budget)
    notes: list[str] = []
    elements = [found for section in image.sections for found in _elements(image, section, notes, budget)]
    machine = MACHINES[image.header.machine]
    if not elements and not notes and not element.name:
        hint = "" if image.sections else "its section table was cut off, and device code is found by section"
        raise Unsupported(f"the {machine} ELF image carries no device code that symd reads", hint=hint)
    return Contents(tuple(elements), notes=tuple(notes), facts={"machine": machine})


def _elements(image: elf.Elf, section: Section, notes: list[str], budget: Budget) -> Iterator[Element]:
    if section.name in (".hip_fatbin", ".hipFatBin"):
        yield from _bundles(section, notes, budget)
    elif section.name in _WHOLE and section.data.strip(b"\0"):
        yield Element(section.name, section.data)
    elif section.name.startswith(_BUNDLED) and not section.name.startswith(f"{_BUNDLED}host-"):
        if section.data[:4] in offload_bundle.BITCODE:
            notes.append(f"left out: {section.name} is LLVM bitcode, not a code object")
        elif section.data.strip(b"\0"):
            images = sycl_images.device_images(image, section, budget)
            notes += images.notes
            yield from (Element(section.name.removeprefix(_BUNDLED), data) for data in images.data)


def _bundles(section: Section, notes: list[str], budget: Budget) -> Iterator[Element]:
    """Every bundle of the section. Each translation unit adds one, padded to its alignment; the next is looked for after
    the end of the one before, so that code which happens to hold a magic number is not taken for a bundle."""
    data, at, found = section.data, 0, 0
    beginnings = _Beginnings(data)
    while (start := beginnings.after(at)) < len(data):
        size = _extent(data, start, beginnings)
        if not size:
            budget.count_elements(section.name)
            notes.append(f"left out: the bundle at byte {start} of {section.name} is damaged")
            at = start + 4
            continue
        found += 1
        yield Element(section.name if found == 1 else f"{section.name}#{found}", data[start : start + size])
        at = start + size
    if not found and data.strip(b"\0"):
        notes.append(f"{section.name} holds no offload bundle that could be read")


class _Beginnings:
    """Where bundles begin. The place of each magic number is kept until it is passed: of a kind that does not come again the
    rest of the section would be gone through for every bundle."""

    def __init__(self, data: bytes) -> None:
        self._data, self._raw, self._packed = data, -1, -1

    def after(self, at: int) -> int:
        """The first at ``at`` or later; the section's size where there is none."""
        if self._raw < at:
            self._raw = self._found(offload_bundle.MAGIC, at)
        if self._packed < at:
            self._packed = self._found(compressed_bundle.MAGIC, at)
            while self._packed < len(self._data) and not _plausible(self._data, self._packed):
                self._packed = self._found(compressed_bundle.MAGIC, self._packed + 1)
        return min(self._raw, self._packed)

    def _found(self, magic: bytes, at: int) -> int:
        found = self._data.find(magic, at)
        return len(self._data) if found < 0 else found


def _plausible(data: bytes, start: int) -> bool:
    try:
        compressed_bundle.header(data[start : start + 32])
    except SymdError:
        return False
    return True


def _extent(data: bytes, start: int, beginnings: _Beginnings) -> int:
    """Bytes that the bundle at ``start`` takes: 0 when it is damaged. Version 1 of the compressed kind does not say, and
    reaches to the next bundle or the end."""
    if data[start : start + 4] != compressed_bundle.MAGIC:
        return offload_bundle.extent(data, start)
    head = compressed_bundle.header(data[start : start + 32])
    if head.size is None:
        return beginnings.after(start + head.length) - start
    return head.size if head.length <= head.size <= len(data) - start else 0
