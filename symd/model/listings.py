"""Machine code as text, beside the frames that each instruction comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from symd.model.answers import Answers
from symd.model.columns import U32, U64
from symd.model.identities import ObjectPath
from symd.model.texts import counted

if TYPE_CHECKING:
    from symd.model.data_frames import ArrowTable, DataFrame


@dataclass(frozen=True, slots=True)
class Instructions:
    """Machine code as text: equally long columns, in the order of the code, each instruction once.

    ``section`` holds ELF section indexes, ``offset`` bytes from that section's start, ``size`` bytes. ``disassembler``
    names what wrote the text.
    """

    section: U32
    offset: U64
    size: U32
    text: Sequence[str]
    disassembler: str

    def __len__(self) -> int:
        return len(self.offset)


@dataclass(frozen=True, slots=True)
class ListingPart:
    """What of a module to list: the code object at ``path`` (None: all but the SPIR-V that machine code was made from),
    and in it ``kernel`` (None: everything). ``target`` is the device of code objects that do not say theirs."""

    path: ObjectPath | None = None
    kernel: str | None = None
    target: str | None = None


WHOLE_MODULE = ListingPart()
"""Everything."""


@dataclass(frozen=True, slots=True, repr=False)
class Listing:
    """The instructions of one code object: equally long columns.

    ``answers[i]`` says where instruction i is and its frames, innermost first; ``size`` is in bytes; ``text`` is the
    disassembler's. Where there are none, ``problem`` says why.
    """

    path: ObjectPath
    target: str | None
    disassembler: str
    answers: Answers
    size: U32
    text: Sequence[str] = field(repr=False)
    problem: str = ""

    def __len__(self) -> int:
        return len(self.size)

    def to_pandas(self) -> DataFrame:
        """A table with an instruction a row (``symd.model.data_frames``). Raises ToolMissing where pandas is not installed."""
        from symd.model import data_frames  # noqa: PLC0415 - few make tables

        return data_frames.to_pandas(data_frames.of_listing(self))

    def to_arrow(self) -> ArrowTable:
        """The listing as a table of Apache Arrow with an instruction a row (``symd.model.data_frames``). Raises
        ToolMissing where pyarrow is not installed."""
        from symd.model import data_frames  # noqa: PLC0415 - few make tables

        return data_frames.to_arrow(data_frames.of_listing(self))

    def __repr__(self) -> str:
        what = f"{counted(len(self), 'instruction')} by {self.disassembler}" if not self.problem else self.problem
        return f"<Listing {self.path!r} for {self.target}: {what}>"

    def _repr_html_(self) -> str:
        from symd.model.html import ROWS, table  # noqa: PLC0415 - notebooks alone need it

        shown = zip(self.answers[: ROWS + 1], self.text, strict=False)
        rows = ((each.kernel, each.place, text, each.frames[0] if each.frames else None) for each, text in shown)
        caption = self.problem or f"{self.path or 'listing'} for {self.target}, by {self.disassembler}"
        return table(caption, ("kernel", "place", "instruction", "line"), rows, len(self))
