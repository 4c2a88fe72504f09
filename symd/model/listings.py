"""Machine code as text, beside the frames that each instruction comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from symd.model.answers import Answers
from symd.model.columns import U32, U64
from symd.model.identities import ObjectPath


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


@dataclass(frozen=True, slots=True)
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
