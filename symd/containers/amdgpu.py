"""AMDGPU code objects, version 2 to 6, linked or relocatable, whole or pruned: target, kernels with what their descriptor
and their metadata say, functions from symbols.

Source: LLVM's AMDGPU usage guide, "ELF Code Object"."""

from __future__ import annotations

from typing import Any

from symd.containers import amdgpu_descriptor, amdgpu_segments, amdgpu_target, dwarf_version, elf
from symd.containers.amdgpu_metadata import Metadata, metadata
from symd.containers.amdgpu_symbols import STT_HSA_KERNEL, Placed, Symbols
from symd.containers.budget import Budget
from symd.containers.elf import Elf, Symbol
from symd.containers.format import Contents, Part
from symd.errors import Malformed
from symd.model import CodeObject, Kernel

NAME = "amdgpu"
EM_AMDGPU = 224
_OSABI = {64: "amdhsa", 65: "amdpal", 66: "mesa3d"}


def claims(data: bytes) -> bool:
    """An ELF image of e_machine 224."""
    return data[:4] == elf.MAGIC and data[18:20] == EM_AMDGPU.to_bytes(2, "little")


def read(part: Part, budget: Budget) -> Contents:
    """One code object. Where the section table is missing or lost, sections are made from the segments, with a warning.
    Raises Malformed where neither leads anywhere."""
    image, warnings = _image(part.data, budget)
    version = image.abi_version + 2
    notes = metadata(image)
    symbols = Symbols(image)
    kernels = _kernels(symbols, notes)
    if not symbols.code:
        warnings.append("holds no symbol of any code: neither kernels nor functions can be named")
    code = CodeObject(
        path="",
        format=NAME,
        target=_target(image, version, notes) or part.target,
        data=part.data,
        sections=image.sections,
        kernels=tuple(kernels),
        functions=tuple(symbols.functions()),
        relocation="amdgpu" if symbols.relocatable else "none",
        linked=not symbols.relocatable,
        debug=dwarf_version.kind(image.sections),
        facts=_facts(image, version, notes),
        warnings=(*warnings, *image.warnings, *notes.warnings),
    )
    return Contents(object=code)


def _image(data: bytes, budget: Budget) -> tuple[Elf, list[str]]:
    try:
        image = elf.parse(data, budget)
    except Malformed as error:
        image = elf.parse(_without_section_table(data, error), budget)
        lost = f"the section table cannot be used ({error})"
    else:
        lost = "there is no section table"
        if image.sections:
            return image, []
    restored = amdgpu_segments.with_sections(image)
    if not any(section.executable and section.data for section in restored.sections):
        raise Malformed(f"{lost}, and no program header leads to code")
    return restored, [f"{lost}: sections are made from the program headers, and debug data cannot be found"]


def _without_section_table(data: bytes, error: Malformed) -> bytes:
    """The same image saying that it has no section table. Raises ``error`` where even its header is too short."""
    if len(data) < 64 or data[4:6] != b"\x02\x01":
        raise error
    return data[:40] + bytes(8) + data[48:58] + data[58:60] + bytes(4) + data[64:]


def _target(image: Elf, version: int, notes: Metadata) -> str | None:
    found = amdgpu_target.target_of_flags(image.flags, version)
    if found is None and notes.isa:
        found = amdgpu_target.target_of_isa(*notes.isa)
    if found is None and notes.target:
        found = amdgpu_target.target_of_name(notes.target)
    return found


def _facts(image: Elf, version: int, notes: Metadata) -> dict[str, Any]:
    facts = {
        "code_object_version": version if image.osabi == 64 else None,
        "os": _OSABI.get(image.osabi),
        "e_flags": image.flags,
        "generic_version": amdgpu_target.generic_version(image.flags, version),
        "metadata_version": ".".join(map(str, notes.version)) if notes.version else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _kernels(symbols: Symbols, notes: Metadata) -> list[Kernel]:
    """Kernels in the order of their place: those with a descriptor, those of version 2, those that the metadata names."""
    result = [_old_kernel(placed, notes) for placed in symbols.code if placed.kind == STT_HSA_KERNEL]
    for name, symbol in symbols.descriptors.items():
        kernel = _kernel(name, symbol, symbols, notes)
        if kernel:
            result.append(kernel)
    known = {kernel.name for kernel in result}
    for name, facts in notes.kernels.items():
        if name not in known and name in symbols.by_name:
            placed = symbols.by_name[name]
            result.append(Kernel(name, placed.section.index, placed.offset, placed.size, facts))
    return sorted(result, key=lambda kernel: (kernel.section_index, kernel.offset, kernel.name))


def _old_kernel(placed: Placed, notes: Metadata) -> Kernel:
    """Version 2: the symbol points at amd_kernel_code_t in front of the code, and the kernel's text begins there."""
    head = placed.section.data[placed.offset : placed.offset + amdgpu_descriptor.CODE_SIZE]
    descriptor = amdgpu_descriptor.kernel_code(head)
    facts: dict[str, Any] = {}
    if descriptor:
        facts |= descriptor.facts
        facts["entry_offset"] = descriptor.entry
    facts |= notes.kernels.get(placed.name, {})
    return Kernel(placed.name, placed.section.index, placed.offset, placed.size, facts)


def _kernel(name: str, symbol: Symbol, symbols: Symbols, notes: Metadata) -> Kernel | None:
    """A kernel with a descriptor: at the function of its name, or where the descriptor says that it begins."""
    descriptor = amdgpu_descriptor.kernel_descriptor(symbols.bytes_of(symbol, amdgpu_descriptor.DESCRIPTOR_SIZE))
    facts = dict(descriptor.facts if descriptor else {}) | notes.kernels.get(name, {})
    placed = symbols.by_name.get(name)
    if placed:
        return Kernel(name, placed.section.index, placed.offset, placed.size, facts)
    if descriptor is None or symbols.relocatable:
        return None
    address = symbol.value + descriptor.entry
    section = symbols.at(address)
    if section is None or not section.executable:
        return None
    offset = address - section.address
    others = [one for one in symbols.code if one.section.index == section.index]
    same = [one.size for one in others if one.offset == offset]
    size = (
        same[0] if same else min((one.offset for one in others if one.offset > offset), default=section.size) - offset
    )
    return Kernel(name, section.index, offset, size, facts)
