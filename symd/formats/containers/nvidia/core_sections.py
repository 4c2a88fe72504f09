"""The tables of a CUDA core dump as columns, and the cubins of the modules that were loaded when it was written.

Tables are sections whose rows refer to rows of other sections: ``sh_link`` names the section of the parent and
``sh_info`` the row in it. Drivers have made rows longer over time; fields that an older one did not write read as 0. A
full dump of a large device has a million sections, so nothing here loops over sections in Python that NumPy can do at
once.

Source: NVIDIA's ``cudacoredump.h``, published with cuda-gdb.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.errors import Malformed, Unsupported
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers.format import Contents, Element
from symd.formats.containers.nvidia.cubin import is_relocated
from symd.formats.containers.nvidia.cuda_core import NAME
from symd.formats.elf.constants import SHN_XINDEX, SHT_NOBITS, SHT_NULL, SHT_STRTAB
from symd.model.columns import I64, U64
from symd.model.texts import counted

_HEADER = {
    "name": (0, "<u4"),
    "type": (4, "<u4"),
    "address": (16, "<u8"),
    "offset": (24, "<u8"),
    "size": (32, "<u8"),
    "link": (40, "<u4"),
    "info": (44, "<u4"),
    "entry_size": (56, "<u8"),
}
"""Fields of an Elf64_Shdr, and where they stand."""
_HEADER_SIZE = 64
_MAX_ROW_BYTES = 2**20
"""Bytes; no driver's rows are a thousandth of this."""
_OVERLAP = 8
"""Times the size of the file that all sections together may have."""
_USER = 0x80000000
NO_ROW = -1
"""Stands in columns of row numbers where there is no row."""


@dataclass(frozen=True, slots=True)
class Layout:
    """One kind of table: its section type, the bytes that a row had from the beginning, and where its fields stand.
    ``single``: it has one row, and drivers give no size of rows (580.159)."""

    name: str
    kind: int
    least: int
    fields: Mapping[str, tuple[int, str]]
    single: bool = False


def _fields(*named: tuple[str, str]) -> dict[str, tuple[int, str]]:
    """Consecutive fields: name and NumPy format; a name of "" is padding."""
    found, at = {}, 0
    for name, form in named:
        if name:
            found[name] = (at, f"<{form}")
        at += int(form[1:])
    return found


DEVICES = Layout(
    "device",
    _USER + 9,
    72,
    _fields(
        *((name, "u8") for name in ("name", "type", "sm")),
        *((name, "u4") for name in ("id", "bus", "pci_device", "sms", "warps", "lanes", "registers", "predicates")),
        *((name, "u4") for name in ("major", "minor", "instruction", "status", "uniform_registers")),
    ),
)
CONTEXTS = Layout(
    "context",
    _USER + 10,
    40,
    _fields(("id", "u8"), ("shared", "u8"), ("local", "u8"), ("global", "u8"), ("device", "u4"), ("thread", "u4")),
)
SMS = Layout(
    "SM", _USER + 11, 8, _fields(("id", "u4"), ("", "u4"), ("exception", "u4"), ("valid", "u4"), ("error_pc", "u8"))
)
GRIDS = Layout(
    "grid",
    _USER + 12,
    104,
    _fields(
        *((name, "u8") for name in ("id", "context", "function", "entry", "module", "parent", "parameters")),
        *((name, "u4") for name in ("kind", "origin", "status", "registers", "grid_x", "grid_y", "grid_z")),
        *((name, "u4") for name in ("block_x", "block_y", "block_z")),
    ),
)
CTAS = Layout("block", _USER + 13, 24, _fields(("grid", "u8"), ("x", "u4"), ("y", "u4"), ("z", "u4")))
WARPS = Layout(
    "warp",
    _USER + 14,
    32,
    _fields(("error_pc", "u8"), ("id", "u4"), ("existing", "u4"), ("active", "u4"), ("broken", "u4"), ("valid", "u4")),
)
LANES = Layout(
    "lane",
    _USER + 15,
    48,
    _fields(
        *(("pc", "u8"), ("function_offset", "u8"), ("lane", "u4"), ("x", "u4"), ("y", "u4"), ("z", "u4")),
        *(("exception", "u4"), ("depth", "u4"), ("syscall_depth", "u4")),
    ),
)
MODULES = Layout("module", _USER + 16, 8, _fields(("handle", "u8")))
CALLS = Layout(
    "backtrace", _USER + 8, 24, _fields(("function_offset", "u8"), ("return_address", "u8"), ("level", "u4"))
)
METADATA = Layout(
    "metadata",
    _USER + 22,
    24,
    _fields(
        ("generator", "u8"),
        *((name, "u4") for name in ("driver", "driver_minor", "cuda", "cuda_minor", "flags", "time")),
    ),
    single=True,
)
GLOBAL_MEMORY = (_USER + 1, _USER + 2)
"""Managed and global memory, at its device address."""
LOCAL_MEMORY = _USER + 3
"""The local memory of a lane, from the address in its local window on."""
SHARED_MEMORY = _USER + 4
"""The shared memory of a block."""
PARAMETERS = _USER + 18
"""The parameters of a launch."""
REGISTERS = _USER + 5
PREDICATES = _USER + 17
UNIFORM_REGISTERS = _USER + 19
IMAGE = _USER + 6
"""A cubin as it was loaded from."""
RELOCATED_IMAGE = _USER + 7
"""A cubin with device addresses in its symbols and debug data."""


@dataclass(frozen=True, slots=True)
class TableRows:
    """All rows of one kind of table: ``section`` and ``number`` (in it) of each, ``parent_section`` and ``parent_row``
    as the section says, and the fields by name."""

    section: I64
    number: I64
    parent_section: I64
    parent_row: I64
    fields: Mapping[str, U64]
    _first: I64
    _count: I64

    def __len__(self) -> int:
        return len(self.section)

    def __getitem__(self, name: str) -> U64:
        return self.fields[name]

    def find(self, section: I64, number: I64) -> I64:
        """The rows with these numbers in these sections, ``NO_ROW`` where there is none."""
        inside = (section >= 0) & (section < len(self._first))
        at = np.where(inside, section, 0)
        held = inside & (number >= 0) & (number < self._count[at])
        return np.where(held, self._first[at] + number, NO_ROW)

    def parents_in(self, parents: TableRows) -> I64:
        """The row of ``parents`` that each row belongs to."""
        return parents.find(self.parent_section, self.parent_row)


class CoreSections:
    """The section table of a dump. What leaves the file, as in one that was cut off, is left out and named in
    ``notes``. Raises Malformed and LimitExceeded."""

    def __init__(self, data: bytes, budget: Budget) -> None:
        self.data = data
        self.notes: list[str] = []
        self._budget = budget
        self._headers = _headers(data, elf.parse_header(data))
        size = np.uint64(len(data))
        there = (self._headers["offset"] <= size) & (self._headers["size"] <= size - self._headers["offset"])
        there &= ~np.isin(self._headers["type"], (SHT_NULL, SHT_NOBITS))
        lost = int((~there & (self._headers["type"] >= _USER)).sum())
        if lost:
            self.notes.append(f"left out: {counted(lost, 'section')} past the file's {counted(len(data), 'byte')}")
        self._there = there
        if float(self._headers["size"][there].astype(np.float64).sum()) > _OVERLAP * len(data):
            raise Malformed("sections overlap so much that they hold eight times the file")

    def of_kind(self, kind: int) -> I64:
        """The numbers of the sections of a type, in order."""
        return np.flatnonzero(self._there & (self._headers["type"] == kind))

    def placed(self, kind: int) -> Iterator[tuple[int, int]]:
        """The number and the address of each section of a type."""
        numbers = self.of_kind(kind)
        return zip(numbers.tolist(), self._headers["address"][numbers].tolist(), strict=True)

    def extent(self, section: int) -> tuple[int, int, int]:
        """The address of a section, its size, and where it is in the file."""
        header = self._headers[section]
        return int(header["address"]), int(header["size"]), int(header["offset"])

    def content(self, section: int) -> bytes:
        """The bytes of a section."""
        start = int(self._headers["offset"][section])
        return self.data[start : start + int(self._headers["size"][section])]

    def parents(self, sections: I64) -> tuple[I64, I64]:
        """For each of these sections the number of its parent, and the row in that."""
        return self._headers["link"][sections].astype(np.int64), self._headers["info"][sections].astype(np.int64)

    def string(self, offset: int) -> str:
        """A string of the dump's own table."""
        return elf.string_at(self._strings, offset)

    @cached_property
    def _strings(self) -> bytes:
        """The section called ``.strtab``."""
        number = elf.parse_header(self.data).shstrndx
        if number == SHN_XINDEX and len(self._headers):
            number = int(self._headers["link"][0])
        tables = self.of_kind(SHT_STRTAB).tolist()
        names = self.content(number) if number in tables else b""
        named = (each for each in tables if elf.string_at(names, int(self._headers["name"][each])) == ".strtab")
        found = next(named, None)
        return b"" if found is None else self.content(found)

    def rows(self, layout: Layout) -> TableRows:
        """Every row of a kind of table. Raises LimitExceeded."""
        sections = self.of_kind(layout.kind)
        sizes = self._headers["entry_size"][sections].astype(np.int64)
        if layout.single:
            sizes = np.where(sizes == 0, self._headers["size"][sections].astype(np.int64), sizes)
        sound = (sizes >= layout.least) & (sizes <= _MAX_ROW_BYTES)
        damaged = len(sound) - int(sound.sum())
        if damaged:
            allowed = f"fewer than {layout.least} bytes or more than {_MAX_ROW_BYTES}"
            self.notes.append(f"left out: {counted(damaged, f'{layout.name} table')} with rows of {allowed}")
        sections, sizes = sections[sound], sizes[sound]
        order = np.argsort(sizes, kind="stable")
        sections, sizes = sections[order], sizes[order]
        counts = self._headers["size"][sections].astype(np.int64) // np.maximum(sizes, 1)
        self._budget.count("core_rows", int(counts.sum()))
        first, count = np.zeros((2, max(len(self._headers), 1)), np.int64)
        first[sections], count[sections] = np.cumsum(counts) - counts, counts
        owner = np.repeat(sections, counts)
        link, info = self.parents(owner)
        fields = self._read(layout, sections, sizes, counts)
        return TableRows(owner, np.arange(len(owner)) - first[owner], link, info, fields, first, count)

    def _read(self, layout: Layout, sections: I64, sizes: I64, counts: I64) -> Mapping[str, U64]:
        """The fields of sections that are sorted by the size of their rows."""
        parts: list[NDArray[np.void]] = []
        for size in np.unique(sizes).tolist():
            mine = sizes == size
            held = zip(sections[mine].tolist(), (counts[mine] * size).tolist(), strict=True)
            joined = b"".join(self.content(section)[:length] for section, length in held)
            parts.append(np.frombuffer(joined, _row_type(layout.fields, size)))
        return {name: _joined(parts, name) for name in layout.fields}


def _row_type(fields: Mapping[str, tuple[int, str]], size: int) -> np.dtype[np.void]:
    """A row of ``size`` bytes; fields that it is too short for are not in it."""
    there = {name: place for name, place in fields.items() if place[0] + int(place[1][2:]) <= size}
    formats = [np.dtype(form) for _, form in there.values()]
    offsets = [offset for offset, _ in there.values()]
    return np.dtype({"names": [*there], "formats": formats, "offsets": offsets, "itemsize": size})


def _joined(parts: Sequence[NDArray[np.void]], name: str) -> U64:
    columns = [
        part[name].astype(np.uint64) if name in (part.dtype.names or ()) else np.zeros(len(part), np.uint64)
        for part in parts
    ]
    return np.concatenate(columns) if columns else np.zeros(0, np.uint64)


def _headers(data: bytes, header: elf.Header) -> NDArray[np.void]:
    offset, stride, count = header.shoff, header.shentsize, header.shnum
    if not offset:
        raise Malformed("there is no section table: the dump was not written to its end")
    if header.bits != 64 or stride < _HEADER_SIZE:
        raise Malformed(f"section headers of {stride} bytes are not those of a 64-bit image")
    row = _row_type(_HEADER, stride)
    if count == 0 and offset + stride <= len(data):
        count = int(np.frombuffer(data, row, 1, offset)["size"][0])
    if offset + count * stride > len(data):
        raise Malformed(
            f"the section table ({count} entries at byte {offset}) ends past the file's {len(data)} bytes",
            hint="the dump was not written to its end",
        )
    return np.frombuffer(data, row, count, offset)


class LoadedModule(NamedTuple):
    """A module of a dump: ``name`` is unique in it; ``device`` is the row of its device; ``image`` and ``relocated``
    are the numbers of the sections with its cubin, as loaded from and as relocated. The element of the dump is the
    relocated one where it has device addresses."""

    name: str
    handle: int
    device: int
    image: int | None
    relocated: int | None


def loaded_modules(sections: CoreSections) -> list[LoadedModule]:
    """Every module that the dump lists, and every cubin that no list names, in the order of the file."""
    rows, contexts = sections.rows(MODULES), sections.rows(CONTEXTS)
    context = rows.parents_in(contexts)
    images, relocated = (_by_module(sections, rows, kind) for kind in (IMAGE, RELOCATED_IMAGE))
    found = []
    for number, (handle, owner) in enumerate(zip(rows["handle"].tolist(), context.tolist(), strict=True)):
        device = int(contexts["device"][owner]) if owner != NO_ROW else 0
        name = f"device{device}.module{number}"
        found.append(LoadedModule(name, handle, device, images.pop(number, None), relocated.pop(number, None)))
    orphans = sorted({*images, *relocated})
    found += [LoadedModule(f"module{each}", 0, 0, images.get(each), relocated.get(each)) for each in orphans]
    return found


def _by_module(sections: CoreSections, modules: TableRows, kind: int) -> dict[int, int]:
    """Sections with cubins by the row of their module; those of no module by numbers after the last."""
    numbers = sections.of_kind(kind)
    rows = modules.find(*sections.parents(numbers))
    orphan = rows == NO_ROW
    keys = np.where(orphan, len(modules) - 1 + np.cumsum(orphan), rows).tolist()
    return dict(zip(reversed(keys), reversed(numbers.tolist()), strict=True))


def element_of(sections: CoreSections, module: LoadedModule, budget: Budget) -> Element | None:
    """The module's cubin, where the dump has it: as relocated, so that device addresses are known in it, unless none of
    its functions had been loaded. Which of the two it is, is looked at when the element is opened."""
    if module.relocated is None:
        return None if module.image is None else Element(module.name, partial(sections.content, module.image))
    return Element(module.name, partial(_loaded_or_unrelocated, sections, module.relocated, module.image, budget))


def _loaded_or_unrelocated(sections: CoreSections, relocated: int, image: int | None, budget: Budget) -> bytes:
    cubin = sections.content(relocated)
    return cubin if image is None or _has_addresses(cubin, budget) else sections.content(image)


def _has_addresses(cubin: bytes, budget: Budget) -> bool:
    try:
        image = elf.parse(cubin, budget)
        table = image.by_name.get(".symtab")
        return table is not None and is_relocated(image, image.symbols(table))
    except (Malformed, Unsupported):
        return False


def read(element: Element, budget: Budget) -> Contents:
    """An element for every loaded module whose cubin is in the dump. Raises Malformed, LimitExceeded."""
    sections = CoreSections(element.data, budget)
    modules = loaded_modules(sections)
    budget.count_elements(NAME, len(modules))
    found = [(each, element_of(sections, each, budget)) for each in modules]
    notes = [f"{each.name}: the dump does not have its code" for each, cubin in found if cubin is None]
    return Contents(tuple(cubin for _, cubin in found if cubin is not None), notes=(*sections.notes, *notes))
