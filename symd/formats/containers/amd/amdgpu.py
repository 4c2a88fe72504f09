"""AMDGPU code objects, version 2 to 6, linked or relocatable, whole or pruned: target, kernels with what their descriptor
and their metadata say, functions from symbols.

Source: LLVM's AMDGPU usage guide, "ELF Code Object"."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from operator import itemgetter

from symd.errors import Malformed
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.amd import kernel_descriptor, symbols, target_id
from symd.formats.containers.amd.metadata import Notes
from symd.formats.containers.amd.symbols import Descriptor, Placed, Symbols, symbol_table
from symd.formats.containers.debug_scheme import debug_scheme
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.lazy import LazyMapping, LazySequence
from symd.formats.elf import Elf
from symd.formats.elf.constants import (
    ELFCLASS64,
    ELFDATA2LSB,
    ELFOSABI_AMDGPU_HSA,
    ELFOSABI_AMDGPU_MESA3D,
    ELFOSABI_AMDGPU_PAL,
    EM_AMDGPU,
    ET_CORE,
    ET_REL,
    STT_AMDGPU_HSA_KERNEL,
)
from symd.model.code import CodeObject, Kernel, RelocationScheme, Vendor
from symd.model.summaries import NO_SECTIONS

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from typing import Any

NAME = "amdgpu"
_NOTHING_SAID: dict[str, Any] = {}
_OSABI = {ELFOSABI_AMDGPU_HSA: "amdhsa", ELFOSABI_AMDGPU_PAL: "amdpal", ELFOSABI_AMDGPU_MESA3D: "mesa3d"}


def claims(data: bytes) -> bool:
    """An ELF image of machine EM_AMDGPU that is no core dump."""
    kind = elf.kind(data)
    return kind is not None and kind.machine == EM_AMDGPU and kind.type != ET_CORE


def read(element: Element, budget: Budget) -> Contents:
    """One code object. Where the section table is missing or lost, sections are made from the symbols, with a warning.
    Notes and descriptors are read when somebody looks at facts or warnings. Raises Malformed where no section table and
    no segment leads anywhere."""
    image, warnings = _image(element.data, budget)
    version = image.header.abi_version + 2
    notes = Notes(image)
    symbols = cache(partial(Symbols, image))
    kernels = LazySequence(lambda: _kernels(symbols(), notes))
    functions = LazySequence(lambda: symbols().functions())
    if element.outline:
        symbol_table(image)
    elif not symbols().code:
        warnings.append("holds no symbol of any code: neither kernels nor functions can be named")
    is_relocatable = image.header.type == ET_REL
    code = CodeObject(
        path=element.path,
        bias=element.bias,
        stored=element.stored,
        format=NAME,
        target=_target(image, version, notes) or element.target,
        data=element.data,
        sections=image.sections,
        kernels=kernels if element.outline else kernels.plain(),
        functions=functions if element.outline else functions.plain(),
        vendor=Vendor.AMD,
        relocation=RelocationScheme.AMDGPU if is_relocatable else RelocationScheme.NONE,
        linked=not is_relocatable,
        debug=debug_scheme(image.sections),
        facts=LazyMapping(partial(_facts, image, version, notes)),
        warnings=LazySequence(lambda: (*warnings, *notes.metadata.warnings)),
    )
    return Contents(code_object=code)


def _image(data: bytes, budget: Budget) -> tuple[Elf, list[str]]:
    try:
        image = elf.parse(data, budget)
    except Malformed as error:
        if data[4:6] != bytes((ELFCLASS64, ELFDATA2LSB)):
            raise
        image = elf.parse(data, budget, section_table=False)
        lost = f"{NO_SECTIONS} ({error})"
    else:
        lost = "there is no section table"
        if image.sections:
            return image, []
    restored = symbols.with_sections(image)
    if not any(section.executable and section.data for section in restored.sections):
        raise Malformed(f"{lost}, and no program header leads to code")
    return restored, [f"{lost}: sections are made from the program headers, and debug data cannot be found"]


def _target(image: Elf, version: int, notes: Notes) -> str | None:
    found = target_id.target_of_flags(image.header.flags, version)
    if found is None and notes.metadata.isa:
        found = target_id.target_of_isa(*notes.metadata.isa)
    if found is None and notes.metadata.target:
        found = target_id.target_of_name(notes.metadata.target)
    return found


def _facts(image: Elf, version: int, notes: Notes) -> dict[str, Any]:
    said, link = notes.metadata.version, elf.debug_link(image.sections)
    facts = {
        "code_object_version": version if image.header.osabi == ELFOSABI_AMDGPU_HSA else None,
        "os": _OSABI.get(image.header.osabi),
        "e_flags": image.header.flags,
        "generic_version": target_id.generic_version(image.header.flags, version),
        "metadata_version": ".".join(map(str, said)) if said else None,
        "build_id": image.build_id(),
        "debug_link": link.name.decode("utf-8", "replace") if link else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _kernels(symbols: Symbols, notes: Notes) -> tuple[Kernel, ...]:
    """Kernels in the order of their place: those with a descriptor, those of version 2, those that the metadata names."""
    result = [
        _at(placed, LazyMapping(partial(_old_facts, placed, symbols, notes)))
        for placed in symbols.code
        if placed.kind == STT_AMDGPU_HSA_KERNEL
    ]
    described = _DescribedFacts(symbols, notes)
    for name, descriptor in symbols.descriptors.items():
        facts = LazyMapping(partial(described.of, name, descriptor))
        placed = symbols.by_name.get(name)
        kernel = _at(placed, facts) if placed else _described(name, descriptor, symbols, facts)
        if kernel:
            result.append(kernel)
    others = symbols.by_name.keys() - {kernel.name for kernel in result}
    if others and notes.may_name(others):
        named = notes.metadata.kernels
        result += [_at(symbols.by_name[name], facts) for name, facts in named.items() if name in others]
    return tuple(sorted(result, key=itemgetter(1, 2, 0)))  # by section, offset and name


def _at(placed: Placed, facts: Mapping[str, Any]) -> Kernel:
    return Kernel(placed.name, placed.section, placed.offset, placed.size, facts)


def _old_facts(placed: Placed, symbols: Symbols, notes: Notes) -> dict[str, Any]:
    """Version 2: the symbol points at amd_kernel_code_t in front of the code, and the kernel's text begins there. Of several
    symbols with one name, one has what the metadata says."""
    data = symbols.bytes_at(placed.section, placed.offset, kernel_descriptor.CODE_SIZE)
    said = notes.metadata.kernels.get(placed.name, {}) if symbols.by_name[placed.name] is placed else {}
    return kernel_descriptor.kernel_code(data) | said


class _DescribedFacts:
    """Later versions: what descriptor and metadata say, which is one dictionary for all kernels of which they say the same."""

    def __init__(self, symbols: Symbols, notes: Notes) -> None:
        self._symbols, self._notes = symbols, notes
        self._known: dict[tuple[bytes, int], dict[str, Any]] = {}

    def of(self, name: str, descriptor: Descriptor) -> dict[str, Any]:
        resources = kernel_descriptor.resources(self._symbols.bytes_of(descriptor, kernel_descriptor.DESCRIPTOR_SIZE))
        said = self._notes.metadata.kernels.get(name, _NOTHING_SAID)
        found = self._known.get((resources, id(said)))
        if found is None:
            found = self._known[resources, id(said)] = kernel_descriptor.kernel_descriptor(resources) | said
        return found


def _described(name: str, descriptor: Descriptor, symbols: Symbols, facts: Mapping[str, Any]) -> Kernel | None:
    """A kernel without a function of its name, where its descriptor says that it begins."""
    entry = kernel_descriptor.entry(symbols.bytes_of(descriptor, kernel_descriptor.DESCRIPTOR_SIZE))
    if entry is None or symbols.relocatable:
        return None
    address = descriptor.value + entry
    section = symbols.at(address)
    if section is None or not section.executable:
        return None
    offset = address - section.address
    return Kernel(name, section.index, offset, symbols.extent(section, offset), facts)
