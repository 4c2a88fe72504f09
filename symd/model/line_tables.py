"""Whole line tables, which are shown rather than searched, and machine code as text, beside the frames that each
instruction comes from."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntFlag, StrEnum
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from symd.model.addresses import ByDevice, Query, SectionRange
from symd.model.answers import Answers, TextSection
from symd.model.columns import U8, U32, U64
from symd.model.data_frames import line_table_columns, listing_columns
from symd.model.identities import Digest, ObjectPath
from symd.model.texts import counted

if TYPE_CHECKING:
    from symd.model.data_frames import ArrowTable, DataFrame


class LineLevel(StrEnum):
    """Which lines a line table speaks of: those of the source, or those of the PTX that it was compiled through."""

    SOURCE = "source"
    PTX = "ptx"


class RowsInParts(Protocol):
    """A line table of which some rows can be had at a time."""

    @property
    def path(self) -> ObjectPath: ...
    @property
    def target(self) -> str | None: ...
    @property
    def text_sections(self) -> Sequence[TextSection]: ...
    @property
    def strings(self) -> Sequence[str]: ...
    def __len__(self) -> int: ...
    def part(self, start: int, end: int) -> LineTable: ...


@dataclass(frozen=True, slots=True, repr=False)
class LineTable:
    """The decoded line table of one code object, in table order: equally long columns.

    ``text_section`` counts from zero, as every row lies in a section: row i is in ``text_sections[text_section[i]]``,
    at address ``text_sections[text_section[i]].address + offset[i]`` (in ``Answers`` the column of the same name counts
    from one). ``kernel``, ``function`` and ``file`` index ``strings`` (entry 0: absent); ``flags`` are RowFlag bits.
    ``text``, which only the PTX level has, indexes ``strings`` too: the line itself.
    """

    path: ObjectPath
    target: str | None
    text_section: U32
    offset: U64
    kernel: U32
    function: U32
    file: U32
    line: U32
    column: U32
    flags: U8
    text_sections: Sequence[TextSection]
    strings: Sequence[str]
    text: U32 | None = None

    def __len__(self) -> int:
        return len(self.offset)

    def __reduce__(self) -> tuple[type[LineTable], tuple[object, ...]]:
        """Pickle it with the strings as a plain list: they may be views of a file or of a message."""
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return LineTable, tuple((values | {"strings": [*self.strings]}).values())

    def of_kernels(self, names: Collection[str]) -> LineTable:
        """The rows in the text of kernels of these names (their symbols'), in the same order."""
        numbers = [number for number, each in enumerate(self.strings) if number and each in names]
        return self._of_rows(np.flatnonzero(np.isin(self.kernel, numbers)))

    def part(self, start: int, end: int) -> LineTable:
        """Rows ``start`` to ``end``, or to the last."""
        return self._of_rows(slice(start, end))

    def at(self, rows: NDArray[np.intp]) -> LineTable:
        """The rows of these numbers, with no more sections and strings than they need."""
        few = self._of_rows(rows)
        sections, section = np.unique(few.text_section, return_inverse=True)
        named = ("kernel", "function", "file", *(("text",) if few.text is not None else ()))
        columns = [getattr(few, name) for name in named]
        used, number = np.unique(np.concatenate([np.zeros(1, np.uint32), *columns]), return_inverse=True)
        renumbered = np.split(number[1:].astype(np.uint32), len(columns))
        return replace(
            few,
            **dict(zip(named, renumbered, strict=True)),
            text_section=section.astype(np.uint32),
            text_sections=[self.text_sections[each] for each in sections.tolist()],
            strings=[self.strings[each] for each in used.tolist()],
        )

    def _of_rows(self, rows: slice | NDArray[np.intp]) -> LineTable:
        columns = ("text_section", "offset", "kernel", "function", "file", "line", "column", "flags")
        text = None if self.text is None else self.text[rows]
        return replace(self, **{column: getattr(self, column)[rows] for column in columns}, text=text)

    def to_pandas(self) -> DataFrame:
        """A table with a row a row (``symd.model.data_frames``). Raises ToolMissing where pandas is not installed."""
        return line_table_columns(self).to_pandas()

    def to_arrow(self) -> ArrowTable:
        """The line table as a table of Apache Arrow, row by row (``symd.model.data_frames``). Raises ToolMissing
        where pyarrow is not installed."""
        return line_table_columns(self).to_arrow()

    def __repr__(self) -> str:
        files = len(set(self.file.tolist()) - {0})
        return f"<LineTable {self.path!r} for {self.target}: {counted(len(self), 'row')}, {counted(files, 'file')}>"


class Flow(IntFlag):
    """How an instruction leads elsewhere: it branches (with a condition or without), calls, or returns or ends the
    thread."""

    BRANCH = 1
    CALL = 2
    END = 4


@dataclass(frozen=True, slots=True)
class Instructions:
    """Machine code as text: equally long columns, in the order of the code, each instruction once.

    ``section`` holds ELF section indexes, ``offset`` bytes from that section's start, ``size`` bytes. ``disassembler``
    names what wrote the text. ``code`` has the bytes of each, ``flow`` its ``Flow`` bits, ``targets`` where it branches
    or calls to, in bytes from the section's start; what is empty is not known.
    """

    section: U32
    offset: U64
    size: U32
    text: Sequence[str]
    disassembler: str
    code: Sequence[bytes] = field(default=(), repr=False)
    flow: Sequence[int] = field(default=(), repr=False)
    targets: Sequence[tuple[int, ...]] = field(default=(), repr=False)

    def __len__(self) -> int:
        return len(self.offset)

    def at(self, rows: NDArray[np.intp]) -> Instructions:
        """The instructions of these numbers."""
        numbers = rows.tolist()
        names = [name for name in ("text", "code", "flow", "targets") if getattr(self, name)]
        lists: dict[str, Any] = {name: [getattr(self, name)[number] for number in numbers] for name in names}
        return replace(self, section=self.section[rows], offset=self.offset[rows], size=self.size[rows], **lists)


MOST_AROUND: Final = 1_000_000
"""The most instructions, or rows, that may be asked for in front of one, and behind it."""


@dataclass(frozen=True, slots=True)
class Around:
    """The instruction, or the row of a line table, that covers the place ``query``, with at most ``before`` in front of
    it and ``after`` behind it. Instructions can also be asked for by device address: what was loaded there says which
    module is meant."""

    query: Query | ByDevice
    before: int = 0
    after: int = 0


CodePart = str | Around | SectionRange
"""Which code is meant: that of the function of this name (a kernel, or another one with code of its own), what is
around a place, or a range."""


class CodeSpan(NamedTuple):
    """Bytes ``start`` to ``end`` of the section whose number is ``section``, in the code object at ``path``."""

    path: ObjectPath
    section: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class ListingPart:
    """What of a module to list: the code object at ``path`` (None: all but the SPIR-V that machine code was made from),
    and in it what is ``within`` a function, around a place, or in a range (None: everything). ``target`` is the device
    of code objects that do not say theirs."""

    path: ObjectPath | None = None
    within: CodePart | None = None
    target: str | None = None


WHOLE_MODULE = ListingPart()
"""Everything."""


@dataclass(frozen=True, slots=True, repr=False)
class Listing:
    """The instructions of one code object: equally long columns.

    ``answers[i]`` says where instruction i is and its frames, innermost first; ``size`` is in bytes; ``text`` is the
    disassembler's, with targets as queries. ``code`` has the bytes of each, ``flow`` its ``Flow`` bits, ``targets``
    where it branches or calls to, in bytes from the start of its section; what is empty is not known. Where there are
    no instructions, ``problem`` says why. What was asked for by device address has the ``module`` that is there, and
    ``section_device_address``, the device address of the first byte of the section, modulo 2^64.
    """

    path: ObjectPath
    target: str | None
    disassembler: str
    answers: Answers
    size: U32
    text: Sequence[str] = field(repr=False)
    problem: str = ""
    code: Sequence[bytes] = field(default=(), repr=False)
    flow: Sequence[int] = field(default=(), repr=False)
    targets: Sequence[tuple[int, ...]] = field(default=(), repr=False)
    module: Digest | None = None
    section_device_address: int | None = None

    def __len__(self) -> int:
        return len(self.size)

    def device_address(self, number: int) -> int | None:
        """The device address of an instruction, by its number; None where none was asked for."""
        start = self.section_device_address
        return None if start is None else (start + int(self.answers.offset[number])) % (1 << 64)

    def to_pandas(self) -> DataFrame:
        """A table with an instruction a row (``symd.model.data_frames``). Raises ToolMissing where pandas is not
        installed."""
        return listing_columns(self).to_pandas()

    def to_arrow(self) -> ArrowTable:
        """The listing as a table of Apache Arrow with an instruction a row (``symd.model.data_frames``). Raises
        ToolMissing where pyarrow is not installed."""
        return listing_columns(self).to_arrow()

    def __repr__(self) -> str:
        what = f"{counted(len(self), 'instruction')} by {self.disassembler}" if not self.problem else self.problem
        return f"<Listing {self.path!r} for {self.target}: {what}>"
