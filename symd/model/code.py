"""What a code object is: sections, functions, kernels, and what its format's reader says of it, so that nobody further
down asks for a format by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from mmap import MADV_DONTNEED, PAGESIZE, mmap
from types import MappingProxyType

from symd.model.identities import ObjectPath
from symd.model.light_typing import Any, NamedTuple

NO_FACTS: Mapping[str, Any] = MappingProxyType({})


class Vendor(StrEnum):
    """The vendor of the device that code is for: it decides the meaning of DWARF's register numbers and who can
    disassemble."""

    INTEL = "intel"
    AMD = "amd"
    NVIDIA = "nvidia"
    NONE = "none"
    """Anybody's: SPIR-V."""


class CodeKind(StrEnum):
    """What the code is."""

    MACHINE = "machine"
    SPIRV = "spirv"


SEPARATE_SUFFIX = ".dbg.spv"
"""Slang's ``-separate-debug-info`` leaves the SPIR-V with debug data in a file of the build identifier's name and
this."""


class DebugScheme(StrEnum):
    """Which debug data a code object carries. The values are in answers (``info --json``)."""

    NONE = "none"
    DWARF_2 = "dwarf-2"
    DWARF_3 = "dwarf-3"
    DWARF_4 = "dwarf-4"
    DWARF_5 = "dwarf-5"
    LINE_ONLY = "line-only"
    """DWARF line tables without .debug_info."""
    SPIRV = "spirv"
    """OpLine, or a set of debug instructions."""

    @property
    def has_units(self) -> bool:
        """Whether there are DWARF units (.debug_info)."""
        return self.value.startswith("dwarf")


class RelocationScheme(StrEnum):
    """How the addresses in the debug sections become final."""

    NONE = "none"
    """The addresses are final already: the object is linked."""
    IGC = "igc"
    IGC_DUMP = "igc-dump"
    """IGC's dumped ELF of one kernel (EM_X86_64), which borrows R_X86_64_64, R_X86_64_32 and R_X86_64_32S."""
    ZEBIN = "zebin"
    AMDGPU = "amdgpu"
    CUDA = "cuda"


_MANY_BYTES = 256 << 10
"""Bytes of a section in a mapped file from which on its pages are given back; smaller ones share their pages with other
sections, which are looked at next."""


class ImageBytes:
    """The bytes of an image, perhaps of a mapped file, out of which its sections are cut when somebody looks: most
    questions need few of them."""

    __slots__ = ("_image",)

    def __init__(self, image: bytes) -> None:
        self._image = image

    def cut(self, begin: int, end: int) -> bytes:
        """A copy of a part. Many pages of a mapped file are given back, as the copy takes their place."""
        mapped: object = self._image
        found = self._image[begin:end]
        if len(found) >= _MANY_BYTES and isinstance(mapped, mmap):
            start = begin // PAGESIZE * PAGESIZE
            mapped.madvise(MADV_DONTNEED, start, end - start)
        return found


class Section:
    """One ELF section, which nobody changes; ``content`` is what is in the file (empty for NOBITS), already
    decompressed, or the image that has it, as it is stored, from ``begin`` to ``end``."""

    _fields = (
        "index", "name", "type", "flags", "address", "size", "content", "link", "info", "entry_size", "begin", "end"
    )  # fmt: skip
    __slots__ = ("__weakref__", "_data", "executable", *_fields)

    def __init__(
        self,
        index: int,
        name: str,
        type: int,  # noqa: A002 - as ELF calls it
        flags: int,
        address: int,
        size: int,
        content: bytes | ImageBytes,
        link: int = 0,
        info: int = 0,
        entry_size: int = 0,
        begin: int = 0,
        end: int = 0,
    ) -> None:
        """A frozen dataclass takes ten times as long: a library of kernels has hundreds of thousands of sections. The
        module that makes dataclasses takes as long to import as one answer."""
        self.index, self.name, self.type, self.flags = index, name, type, flags
        self.address, self.size, self.content = address, size, content
        self.link, self.info, self.entry_size, self.begin, self.end = link, info, entry_size, begin, end
        self.executable = flags & 0x4 != 0  # SHF_EXECINSTR
        self._data: bytes | None = None

    def changed(self, **changes: Any) -> Section:
        """A copy of the section with other values of some fields."""
        return Section(**{name: getattr(self, name) for name in self._fields} | changes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Section) and all(getattr(self, each) == getattr(other, each) for each in self._fields)

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Section({self.index}, {self.name!r}, {self.address:#x}, {self.size:#x})"

    @property
    def data(self) -> bytes:
        """The content itself."""
        found = self._data
        if found is None:
            content = self.content
            found = self._data = content if isinstance(content, bytes) else content.cut(self.begin, self.end)
        return found

    def head(self, size: int) -> bytes:
        """The first ``size`` bytes of the section, or as many as it has, without reading the rest."""
        content = self.content
        if self._data is not None or isinstance(content, bytes):
            return self.data[:size]
        return content.cut(self.begin, min(self.end, self.begin + size))

    def forget(self) -> None:
        """Keep no bytes that can be read again when somebody looks again."""
        self._data = None


class Function(NamedTuple):
    """A named code range, from a symbol. ``offset``: bytes from the first byte of section ``section_index``; ``size``:
    bytes of text; one of none is named at its place and has no code."""

    name: str
    section_index: int
    offset: int
    size: int


def is_symbol_of(symbol: str, name: str) -> bool:
    """Whether a function has this name, or a symbol that LLVM and NVIDIA's assembler make of it:
    ``$kernel$module_$_name`` of ``module.name``."""
    if len(symbol) < len(name):
        return False
    allowed = name.replace(".", "_$_").replace("@", "_$_")
    return symbol in (name, allowed) or symbol.endswith(f"${allowed}")


class Kernel(NamedTuple):
    """An entry point the host can launch. ``offset``: bytes from the first byte of section ``section_index``; ``size``:
    bytes of text; one of none has no code. ``facts`` is what the format says of it, JSON-ready, with names such as
    ``simd_width``, ``registers``, ``shared_memory``, ``arguments``."""

    name: str
    section_index: int
    offset: int
    size: int
    facts: Mapping[str, Any] = NO_FACTS


class CodeObject(NamedTuple):
    """One ELF image (or SPIR-V module) for one target.

    ``path`` is its nesting path inside the module ("" when the module is one); ``format`` the name of its format in
    answers; ``relocation`` says what ``debuginfo.relocation`` does with its debug sections; ``linked`` says that
    section addresses are final and do not overlap; ``address_bits`` is the class of the ELF image, 32 or 64.
    ``kernel_named_by_debug_data``: it holds one kernel, whose only name is that of the function at the start of its
    text. ``bias`` is what was added to its addresses when it was loaded, where it comes from a core dump: address
    queries are about device addresses there. ``stored`` is the size of the file that it was opened from, which may be
    smaller than ``data``; 0: it is a file of its own.
    """

    path: ObjectPath
    format: str
    target: str | None
    data: bytes
    sections: tuple[Section, ...] = ()
    kernels: Sequence[Kernel] = ()
    functions: Sequence[Function] = ()
    vendor: Vendor = Vendor.NONE
    kind: CodeKind = CodeKind.MACHINE
    relocation: RelocationScheme = RelocationScheme.NONE
    linked: bool = True
    address_bits: int = 64
    debug: DebugScheme = DebugScheme.NONE
    kernel_named_by_debug_data: bool = False
    bias: int = 0
    stored: int = 0
    facts: Mapping[str, Any] = {}  # nobody changes it
    warnings: Sequence[str] = ()
    parsed: object = None
    """What its reader made of ``data`` and others can use again (SPIR-V's ``SpirvModule``); None where there is
    nothing."""

    def __repr__(self) -> str:
        return f"CodeObject({self.path!r}, {self.format!r}, {self.target!r}, {len(self.data)} bytes)"

    @property
    def is_compiler_input(self) -> bool:
        """SPIR-V inside a container: where there is machine code beside it, that was made from it."""
        return self.kind is CodeKind.SPIRV and self.path != ""

    def has_kernel(self, name: str) -> bool:
        return any(kernel.name == name for kernel in self.kernels)

    def section_name(self, number: int) -> str | None:
        """The name of the section with that number."""
        found = self.sections[number] if 0 <= number < len(self.sections) else None
        if found is None or found.index != number:
            found = next((section for section in self.sections if section.index == number), None)
        return found.name if found else None

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)
