"""AMDGPU code objects, version 2 to 6, linked or relocatable, whole or pruned: the target ID (from e_flags, or from the
ISA note of a version 2 object), kernels with the facts of their descriptors and metadata, functions from symbols.

Source: LLVM's AMDGPU usage guide, "ELF Code Object" (e_flags) and "Target ID".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from operator import itemgetter

from symd.errors import Malformed
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.amd import metadata, symbols
from symd.formats.containers.amd.metadata import Notes
from symd.formats.containers.amd.symbols import Descriptor, Placed, Symbols, symbol_table
from symd.formats.containers.format import Contents, Element
from symd.formats.elf import Elf
from symd.formats.elf.constants import (
    EF_AMDGPU_FEATURE_SRAMECC_V3,
    EF_AMDGPU_FEATURE_SRAMECC_V4,
    EF_AMDGPU_FEATURE_XNACK_V3,
    EF_AMDGPU_FEATURE_XNACK_V4,
    EF_AMDGPU_GENERIC_VERSION_OFFSET,
    EF_AMDGPU_MACH,
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
from symd.formats.elf.contents import debug_scheme
from symd.formats.lazy import LazyMapping, LazySequence
from symd.model.code import CodeObject, Function, Kernel, RelocationScheme, Vendor
from symd.model.light_typing import Any
from symd.model.summaries import NO_SECTIONS

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
    kernels: Sequence[Kernel]
    functions: Sequence[Function]
    if element.outline:
        symbol_table(image)
        read_symbols = cache(partial(Symbols, image))
        kernels = LazySequence(lambda: _kernels(read_symbols(), notes))
        functions = LazySequence(lambda: read_symbols().functions())
    else:
        read = Symbols(image)
        if not read.code:
            warnings.append("holds no symbol of any code: neither kernels nor functions can be named")
        kernels, functions = _kernels(read, notes), LazySequence(read.functions)
    is_relocatable = image.header.type == ET_REL
    code = CodeObject(
        path=element.path,
        bias=element.bias,
        stored=element.stored,
        format=NAME,
        target=_target(image, version, notes) or element.target,
        data=element.data,
        sections=image.sections,
        kernels=kernels,
        functions=functions,
        vendor=Vendor.AMD,
        relocation=RelocationScheme.AMDGPU if is_relocatable else RelocationScheme.NONE,
        linked=not is_relocatable,
        debug=debug_scheme(image.sections),
        facts=LazyMapping(partial(_facts, image, version, notes)),
        warnings=LazySequence(lambda: (*warnings, *notes.metadata.warnings)),
    )
    return Contents(code_object=code)


def _image(data: bytes, budget: Budget) -> tuple[Elf, list[str]]:
    """(the image, with sections made from the program headers if it has no section table; warnings)."""
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
    found = target_of_flags(image.header.flags, version)
    if found is None and notes.metadata.isa:
        found = target_of_isa(*notes.metadata.isa)
    if found is None and notes.metadata.target:
        found = target_of_name(notes.metadata.target)
    return found


def _facts(image: Elf, version: int, notes: Notes) -> dict[str, Any]:
    said, link = notes.metadata.version, elf.debug_link(image.sections)
    facts = {
        "code_object_version": version if image.header.osabi == ELFOSABI_AMDGPU_HSA else None,
        "os": _OSABI.get(image.header.osabi),
        "e_flags": image.header.flags,
        "generic_version": generic_version(image.header.flags, version),
        "metadata_version": ".".join(map(str, said)) if said else None,
        "build_id": notes.metadata.build_id or None,
        "debug_link": link.name.decode("utf-8", "replace") if link else None,
    }
    return {name: value for name, value in facts.items() if value is not None}


def _kernels(symbols: Symbols, notes: Notes) -> tuple[Kernel, ...]:
    """The kernels by section and offset: symbols of version 2's kernel type, descriptors, and other functions that the
    metadata names as kernels."""
    result = [
        _kernel_at(placed, LazyMapping(partial(_old_facts, placed, symbols, notes)))
        for placed in symbols.code
        if placed.kind == STT_AMDGPU_HSA_KERNEL
    ]
    described, by_name = _DescribedFacts(symbols, notes).of, symbols.by_name
    for name, descriptor in symbols.descriptors.items():
        facts = LazyMapping(partial(described, name, descriptor))
        placed = by_name.get(name)
        if placed:
            _, section, offset, size, _, _, _ = placed
            result.append(_KERNEL((name, section, offset, size, facts)))
        elif kernel := _described(name, descriptor, symbols, facts):
            result.append(kernel)
    others = symbols.by_name.keys() - {kernel.name for kernel in result}
    if others and notes.may_name(others):
        named = notes.metadata.kernels
        result += [_kernel_at(symbols.by_name[name], facts) for name, facts in named.items() if name in others]
    return tuple(sorted(result, key=itemgetter(1, 2, 0)))  # by section, offset and name


_KERNEL: Callable[[tuple[Any, ...]], Kernel] = partial(tuple.__new__, Kernel)
"""Makes a kernel of its fields, in half of the time."""


def _kernel_at(placed: Placed, facts: Mapping[str, Any]) -> Kernel:
    return Kernel(placed.name, placed.section, placed.offset, placed.size, facts)


def _old_facts(placed: Placed, symbols: Symbols, notes: Notes) -> dict[str, Any]:
    """Facts of a kernel of version 2, whose symbol points at the amd_kernel_code_t in front of its code. Of several
    symbols with one name, one gets what the metadata says."""
    data = symbols.bytes_at(placed.section, placed.offset, metadata.CODE_SIZE)
    said = notes.metadata.kernels.get(placed.name, {}) if symbols.by_name[placed.name] is placed else {}
    return metadata.kernel_code(data) | said


class _DescribedFacts:
    """Facts of kernels of later versions, from descriptor and metadata: one dictionary for all kernels with equal
    facts."""

    def __init__(self, symbols: Symbols, notes: Notes) -> None:
        self._symbols, self._notes = symbols, notes
        self._known: dict[tuple[bytes, int], dict[str, Any]] = {}

    @cached_property
    def _said(self) -> dict[str, dict[str, Any]]:
        return self._notes.metadata.kernels

    def of(self, name: str, descriptor: Descriptor) -> dict[str, Any]:
        data, at = self._symbols.bytes_from(descriptor, metadata.DESCRIPTOR_SIZE)
        resources = metadata.resources(data, at)
        said = self._said.get(name, _NOTHING_SAID)
        key = resources, id(said)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = metadata.kernel_descriptor(resources) | said
        return found


def _described(name: str, descriptor: Descriptor, symbols: Symbols, facts: Mapping[str, Any]) -> Kernel | None:
    """A kernel without a function symbol of its name, at the entry that its descriptor states; None if that is no
    code."""
    entry = metadata.entry(symbols.bytes_of(descriptor, metadata.DESCRIPTOR_SIZE))
    if entry is None or symbols.relocatable:
        return None
    address = descriptor.value + entry
    section = symbols.at(address)
    if section is None or not section.executable:
        return None
    offset = address - section.address
    return Kernel(name, section.index, offset, symbols.extent(section, offset), facts)


_MACHINES = {
    "600": 0x20, "601": 0x21, "602": 0x3A, "700": 0x22, "701": 0x23, "702": 0x24, "703": 0x25, "704": 0x26,
    "705": 0x3B, "801": 0x28, "802": 0x29, "803": 0x2A, "805": 0x3C, "810": 0x2B, "900": 0x2C, "902": 0x2D,
    "904": 0x2E, "906": 0x2F, "908": 0x30, "909": 0x31, "90a": 0x3F, "90c": 0x32, "940": 0x40, "941": 0x4B,
    "942": 0x4C, "950": 0x4F, "1010": 0x33, "1011": 0x34, "1012": 0x35, "1013": 0x42, "1030": 0x36, "1031": 0x37,
    "1032": 0x38, "1033": 0x39, "1034": 0x3E, "1035": 0x3D, "1036": 0x45, "1100": 0x41, "1101": 0x46, "1102": 0x47,
    "1103": 0x44, "1150": 0x43, "1151": 0x4A, "1152": 0x55, "1153": 0x58, "1200": 0x48, "1201": 0x4E, "1250": 0x49,
    "1251": 0x5A, "9-generic": 0x51, "10-1-generic": 0x52, "10-3-generic": 0x53, "11-generic": 0x54,
    "12-generic": 0x59, "9-4-generic": 0x5F,
}  # fmt: skip
MACHINES: dict[int, str] = {number: f"gfx{name}" for name, number in _MACHINES.items()}
"""EF_AMDGPU_MACH (the low byte of e_flags) to processor name."""

_SETTINGS = ("", "", "-", "+")
_XNACK_STEPPINGS = {"gfx901": "gfx900", "gfx903": "gfx902", "gfx905": "gfx904", "gfx907": "gfx906"}


def target_of_flags(flags: int, version: int) -> str | None:
    """The target ID that e_flags say for code object ``version`` (2 to 6): ``gfx90a:sramecc+:xnack-``.

    Versions 2 and 3 have one bit a feature, which cannot tell "off" from "not supported": only what is on is named.
    None when the processor number is 0 or not known.
    """
    name = MACHINES.get(flags & EF_AMDGPU_MACH)
    if name is None:
        return None
    if version < 4:
        sramecc, xnack = (
            "+" if flags & EF_AMDGPU_FEATURE_SRAMECC_V3 else "",
            "+" if flags & EF_AMDGPU_FEATURE_XNACK_V3 else "",
        )
    else:
        sramecc, xnack = _setting(flags, EF_AMDGPU_FEATURE_SRAMECC_V4), _setting(flags, EF_AMDGPU_FEATURE_XNACK_V4)
    return name + (f":sramecc{sramecc}" if sramecc else "") + (f":xnack{xnack}" if xnack else "")


def _setting(flags: int, mask: int) -> str:
    """The two bits of ``mask``: the feature is not supported, may be either, is off, is on."""
    return _SETTINGS[(flags & mask) // (mask & -mask)]


def generic_version(flags: int, version: int) -> int | None:
    """Bits 24 to 31 of a version 6 object: the version of a generic processor's definition. None when it has none."""
    return (flags >> EF_AMDGPU_GENERIC_VERSION_OFFSET) or None if version >= 6 else None


def target_of_isa(major: int, minor: int, stepping: int) -> str:
    """The target ID of a version 2 ISA note. gfx901, 903, 905 and 907 were the names of gfx900 ... with XNACK on."""
    name = f"gfx{major}{minor:x}{stepping:x}"
    named = _XNACK_STEPPINGS.get(name)
    return f"{named}:xnack+" if named else name


_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz")
_PROCESSOR_LETTERS = _LETTERS | frozenset("0123456789-")


def target_of_name(name: str) -> str | None:
    """The target ID at the end of ``amdgcn-amd-amdhsa--gfx90a:xnack+`` or of a bundle entry's ID; None without one."""
    at = name.find("gfx")
    while at >= 0:
        if _is_target(name[at:]):
            return name[at:]
        at = name.find("gfx", at + 1)
    return None


def _is_target(text: str) -> bool:
    """Whether all of it is a processor ("gfx" and more) and the features that are on or off. Regular expressions are
    slow to import."""
    processor, *features = text.split(":")
    return (
        len(processor) > 3
        and _PROCESSOR_LETTERS.issuperset(processor)
        and all(len(each) > 1 and each[-1] in "+-" and _LETTERS.issuperset(each[:-1]) for each in features)
    )
