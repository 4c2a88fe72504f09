"""The value types every room shares: what a code object is, what a line row, a scope and a frame are, and why an
address may have no exact answer. Nothing here knows a file format, a file or a socket.

Those that one question of one file does not need are made when they are first asked for: a dataclass takes half a
millisecond, and a command is a process a question."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from functools import cached_property
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, NewType, overload

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from symd.model.contexts import Alias as Alias
    from symd.model.contexts import Context as Context
    from symd.model.contexts import ContextRecord as ContextRecord
    from symd.model.contexts import Load as Load
    from symd.model.contexts import Segment as Segment
    from symd.model.contexts import Unload as Unload
    from symd.model.grabs import Grabbed as Grabbed
    from symd.model.grabs import GrabRequest as GrabRequest
    from symd.model.tables import Instructions as Instructions
    from symd.model.tables import LineLevel as LineLevel
    from symd.model.tables import LineTable as LineTable

ObjectAddress = NewType("ObjectAddress", int)
"""An address inside one code object, as its ELF says it (sh_addr + offset)."""
KernelOffset = NewType("KernelOffset", int)
"""Bytes from the first byte of a kernel's own text."""
SectionOffset = NewType("SectionOffset", int)
"""Bytes from the start of a section."""
DeviceAddress = NewType("DeviceAddress", int)
"""Where the device fetched the instruction: load base + object address."""
U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
U64 = NDArray[np.uint64]
NO_FACTS: Mapping[str, Any] = MappingProxyType({})


class Reason(IntEnum):
    """Why an address has the answer it has. The numbers travel on the wire and in index files: never reuse one."""

    EXACT = 1
    APPROXIMATE = 2
    """The row says line 0: the nearest earlier line of the same function is given."""
    NO_LINE = 3
    """A function covers the address, no line row does."""
    GAP = 4
    """Inside text, and neither a row nor a function covers it."""
    OUTSIDE_TEXT = 5
    NO_DEBUG_INFO = 6
    AMBIGUOUS = 7
    UNKNOWN_KERNEL = 8
    UNKNOWN_MODULE = 9
    UNLOADED = 10
    MALFORMED = 11


@dataclass(frozen=True)
class Section:
    """One ELF section; ``content`` is what stands in the file (empty for NOBITS), already decompressed, or reads it when
    somebody looks: most questions need few of an object's sections."""

    index: int
    name: str
    type: int
    flags: int
    address: int
    size: int
    content: bytes | Callable[[], bytes] = field(repr=False)
    link: int = 0
    info: int = 0
    entry_size: int = 0

    @cached_property
    def data(self) -> bytes:
        """The content itself."""
        return self.content if isinstance(self.content, bytes) else self.content()

    @property
    def executable(self) -> bool:
        return bool(self.flags & 0x4)  # SHF_EXECINSTR


class Function(NamedTuple):
    """A named code range, from a symbol: ``offset`` counts from the start of section ``section_index``."""

    name: str
    section_index: int
    offset: int
    size: int


class Kernel(NamedTuple):
    """An entry point the host can launch. ``facts`` is what the format says of it, JSON-ready, with names such as
    ``simd_width``, ``registers``, ``shared_memory``, ``arguments``."""

    name: str
    section_index: int
    offset: int
    size: int
    facts: Mapping[str, Any] = NO_FACTS


@dataclass(frozen=True, slots=True)
class CodeObject:
    """One ELF image (or SPIR-V module) for one target.

    ``path`` is its nesting path inside the module ("" when the module is one); ``relocation`` names the scheme its
    debug sections need (a key of ``debuginfo.relocation.SCHEMES``); ``linked`` says that section addresses are final
    and do not overlap; ``debug`` is "dwarf-4", "dwarf-5", "line-only", "spirv" or "none".
    """

    path: str
    format: str
    target: str | None
    data: bytes = field(repr=False)
    sections: tuple[Section, ...] = field(default=(), repr=False)
    kernels: tuple[Kernel, ...] = field(default=(), repr=False)
    functions: tuple[Function, ...] = field(default=(), repr=False)
    relocation: str = "none"
    linked: bool = True
    debug: str = "none"
    facts: Mapping[str, Any] = field(default_factory=dict, repr=False)
    warnings: Sequence[str] = ()

    def section(self, name: str) -> Section | None:
        """The first section of that name."""
        return next((section for section in self.sections if section.name == name), None)


class RowFlag(IntFlag):
    """Bits of ``LineRows.flags`` (DWARF 5, 6.2.2)."""

    IS_STMT = 1
    BASIC_BLOCK = 2
    END_SEQUENCE = 4
    PROLOGUE_END = 8
    EPILOGUE_BEGIN = 16


@dataclass(frozen=True, slots=True)
class LineRows:
    """A decoded line table of one code object, in table order: equally long columns.

    ``section`` holds ELF section indexes and ``offset`` bytes from that section's start (a SPIR-V module has one
    section, number 0, the module itself). ``file`` indexes ``DebugInfo.files``; its entry 0 is "no file".
    ``context`` and ``name`` exist only where the line table carries inlining itself (NVIDIA's extension): ``context``
    is the row number (in these columns, plus one; 0 = not inlined) of the call site, ``name`` an index into
    ``DebugInfo.names``.
    """

    section: U32
    offset: U64
    file: U32
    line: U32
    column: U32
    flags: U8
    context: U32 | None = None
    name: U32 | None = None

    def __len__(self) -> int:
        return len(self.offset)

    @classmethod
    def empty(cls) -> LineRows:
        u32 = np.zeros(0, np.uint32)
        return cls(u32, np.zeros(0, np.uint64), u32, u32, u32, np.zeros(0, np.uint8))


NO_PARENT = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Scopes:
    """Functions and inlined calls of one code object: two tables of equally long columns.

    A scope row: ``parent`` (scope number, or NO_PARENT for a function), ``name`` and ``linkage_name`` (indexes into
    ``DebugInfo.names``, entry 0 is "no name"), ``inlined`` (0 or 1), and where the call that was inlined stands:
    ``call_file`` (index into ``DebugInfo.files``), ``call_line``, ``call_column``. Parents come before children.
    A range row: ``[range_offset, range_end)`` in section ``range_section`` belongs to ``range_scope``.
    """

    parent: U32
    name: U32
    linkage_name: U32
    inlined: U8
    call_file: U32
    call_line: U32
    call_column: U32
    range_scope: U32
    range_section: U32
    range_offset: U64
    range_end: U64

    def __len__(self) -> int:
        return len(self.parent)

    @classmethod
    def empty(cls) -> Scopes:
        u32, u64 = np.zeros(0, np.uint32), np.zeros(0, np.uint64)
        return cls(u32, u32, u32, np.zeros(0, np.uint8), u32, u32, u32, u32, u32, u64, u64)


@dataclass(frozen=True, slots=True)
class DebugInfo:
    """Everything decoded from one code object's debug data. ``files`` and ``names`` begin with ""."""

    rows: LineRows
    scopes: Scopes
    files: Sequence[str] = ("",)
    names: Sequence[str] = ("",)
    warnings: tuple[str, ...] = ()


class Frame(NamedTuple):
    """One level of a location; ``line`` 0 and ``file`` None mean that nothing is known of the position."""

    function: str | None
    linkage_name: str | None
    file: str | None
    line: int
    column: int
    inlined: bool


@dataclass(frozen=True, slots=True)
class ByAddress:
    """Ask by object address."""

    address: ObjectAddress


@dataclass(frozen=True, slots=True)
class ByKernel:
    """Ask by kernel name and kernel offset."""

    kernel: str
    offset: KernelOffset


@dataclass(frozen=True, slots=True)
class BySection:
    """Ask by section (its name, or its number in the section table) and section offset."""

    section: str | int
    offset: SectionOffset


Query = ByAddress | ByKernel | BySection


class Candidate(NamedTuple):
    """One of several places that an ambiguous query could mean."""

    object: str
    section: str | None
    section_index: int
    section_offset: SectionOffset
    kernel: str | None


class Answer(NamedTuple):
    """The answer to one query; ``frames`` are innermost first. Where the query names no place in any text,
    ``object``, ``section`` and the rest are None."""

    reason: Reason
    object: str | None = None
    kernel: str | None = None
    section: str | None = None
    section_index: int | None = None
    section_offset: SectionOffset | None = None
    address: ObjectAddress | None = None
    frames: tuple[Frame, ...] = ()
    candidates: tuple[Candidate, ...] = ()


class Place(NamedTuple):
    """A section of a code object, as answers name it."""

    object: str
    section: str | None
    section_index: int
    address: int


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Locations:
    """Distinct locations as equally long columns; entry 0 is "nothing known".

    A location is an innermost frame with a ``parent`` location (0 = outermost). ``kernel``, ``function``,
    ``linkage_name`` and ``file`` index ``strings``, whose entry 0 is "absent". ``reason`` holds Reason numbers and
    matters only where an answer points; ``inlined`` says that the frame was inlined into its parent. ``shared`` says
    that further answers will point into this very table.
    """

    reason: U8
    kernel: U32
    function: U32
    linkage_name: U32
    file: U32
    line: U32
    column: U32
    inlined: U8
    parent: U32
    strings: Sequence[str]
    shared: bool = field(default=False, kw_only=True)

    def __len__(self) -> int:
        return len(self.reason)

    def frames(self, number: int) -> tuple[Frame, ...]:
        """The frames of one location, innermost first."""
        frames = []
        at = number
        while at:
            frames.append(self._frame(at))
            at = int(self.parent[at])
        return tuple(frames)

    def _frame(self, at: int) -> Frame:
        return Frame(
            self.strings[self.function[at]] or None,
            self.strings[self.linkage_name[at]] or None,
            self.strings[self.file[at]] or None,
            int(self.line[at]),
            int(self.column[at]),
            bool(self.inlined[at]),
        )


@dataclass(frozen=True, slots=True)
class Answers(Sequence[Answer]):
    """Answers to a batch as columns, one entry a query, in the order asked; indexing makes one ``Answer``.

    ``location`` indexes ``locations``. ``place`` indexes ``places`` plus one (0: the query names no place) and
    ``offset`` counts from that section's start. ``candidates`` maps the number of an ambiguous query to its places.
    """

    location: U32
    place: U32
    offset: U64
    locations: Locations
    places: Sequence[Place]
    candidates: Mapping[int, tuple[Candidate, ...]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.location)

    @overload
    def __getitem__(self, at: int) -> Answer: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Answer]: ...
    def __getitem__(self, at: int | slice) -> Answer | Sequence[Answer]:
        if isinstance(at, slice):
            return [self[number] for number in range(*at.indices(len(self)))]
        number = int(self.location[at])
        reason = Reason(int(self.locations.reason[number]))
        kernel = self.locations.strings[self.locations.kernel[number]] or None
        frames = self.locations.frames(number) if _has_frames(self.locations, number) else ()
        candidates = self.candidates.get(at % len(self), ())
        if not self.place[at]:
            return Answer(reason, kernel=kernel, frames=frames, candidates=candidates)
        place = self.places[int(self.place[at]) - 1]
        offset = SectionOffset(int(self.offset[at]))
        address = ObjectAddress(place.address + offset)
        return Answer(
            reason, place.object, kernel, place.section, place.section_index, offset, address, frames, candidates
        )


def _has_frames(locations: Locations, number: int) -> bool:
    """A location without function and file stands for a reason alone."""
    return bool(locations.function[number] or locations.file[number])


class KernelSummary(NamedTuple):
    name: str
    section: str | None
    section_index: int
    offset: int
    size: int
    facts: Mapping[str, Any] = NO_FACTS


class ObjectSummary(NamedTuple):
    """A code object described, without its bytes. ``notes`` are warnings a reader should see."""

    object: str
    format: str
    target: str | None
    size: int
    sha256: str
    debug: str
    kernels: tuple[KernelSummary, ...] = ()
    facts: Mapping[str, Any] = NO_FACTS
    notes: Sequence[str] = ()


class ContainerSummary(NamedTuple):
    """A container that was opened on the way to the code objects: its nesting ``path`` ("" for the module itself), its
    ``size`` in bytes, and what it says of itself, such as the ``entries`` of a fat binary, those without code included."""

    path: str
    format: str
    size: int
    facts: Mapping[str, Any] = NO_FACTS


class ModuleSummary(NamedTuple):
    """A module described. ``sha256`` is its name; ``format`` is the outermost container's."""

    sha256: str
    size: int
    format: str
    objects: tuple[ObjectSummary, ...] = ()
    notes: tuple[str, ...] = ()
    containers: tuple[ContainerSummary, ...] = ()


class ModuleRecord(NamedTuple):
    """A line of the module catalogue. ``label`` is what the one who brought it called it; ``added`` is seconds since
    the epoch; ``failure`` is the remembered reason why it cannot be read ("" when it can, or was not tried)."""

    sha256: str
    size: int
    format: str
    label: str
    added: float
    failure: str = ""


_LATER = {
    "tables": ("LineLevel", "LineTable", "Instructions"),
    "grabs": ("GrabRequest", "Grabbed"),
    "contexts": ("Context", "ContextRecord", "Segment", "Load", "Unload", "Alias"),
}
"""Value types in modules of their own."""


def __getattr__(name: str) -> Any:
    for home, names in _LATER.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"symd.model.{home}"), name)
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
