"""What two readers of the same debug data are compared by, and what is reported of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple


class VerifiedLine(NamedTuple):
    """A row of a line table. ``file`` is a path, or its end as the table has it; None where the table has no such file.
    ``flags`` are bits of ``RowFlag``; a row that ends a sequence never has IS_STMT, which pyelftools clears there."""

    address: int
    file: str | None
    line: int
    column: int
    flags: int


class VerifiedScope(NamedTuple):
    """A function or an inlined call. ``parent`` is a number in the list of all scopes; None for a function.
    ``call_file`` is a path or its end; None where nothing names a file. ``ranges`` are linear addresses ``[start,
    end)``."""

    parent: int | None
    name: str
    linkage_name: str
    inlined: bool
    call_file: str | None
    call_line: int
    call_column: int
    ranges: tuple[tuple[int, int], ...]


class LocationEntry(NamedTuple):
    """An expression that holds at addresses ``[start, end)``; both None: everywhere, or everywhere else."""

    start: int | None
    end: int | None
    expression: bytes


class VerifiedVariable(NamedTuple):
    """A variable or parameter: ``offset`` is where its DIE begins and ``scope`` where the DIE around it does. ``type``
    is the chain of the types it is made from, such as ("const_type", "pointer_type", "float"): each a tag without
    "DW_TAG_", the last its name, if it has one."""

    offset: int
    tag: str
    name: str
    scope: int
    type: tuple[str, ...]
    locations: tuple[LocationEntry, ...]


Kind = Literal["object", "row", "scope", "variable"]


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that symd (``ours``) and pyelftools (``theirs``) read differently in the code object at ``path``; None
    where a reader has nothing there. ``where`` is a section and an offset in it, and a number of rows or scopes after.
    """

    path: str
    kind: Kind
    where: str
    ours: str | None
    theirs: str | None


@dataclass(frozen=True, slots=True)
class Deviation:
    """Something that pyelftools is known to do otherwise, by name, with the reason why it does not count; ``count`` is
    how often it was met in the code object at ``path``."""

    path: str
    name: str
    reason: str
    count: int


@dataclass(frozen=True, slots=True)
class NotCompared:
    """A code object, or a part of one, of which there was nothing to compare, and why."""

    path: str
    reason: str


@dataclass(slots=True)
class VerifyReport:
    """What a comparison of symd's reading with pyelftools' found. ``rows``, ``scopes`` and ``variables`` count what
    was compared."""

    rows: int = 0
    scopes: int = 0
    variables: int = 0
    differences: list[Difference] = field(default_factory=list)
    deviations: list[Deviation] = field(default_factory=list)
    not_compared: list[NotCompared] = field(default_factory=list)

    def add(self, other: VerifyReport) -> None:
        """Take over what another report says, too."""
        self.rows += other.rows
        self.scopes += other.scopes
        self.variables += other.variables
        self.differences += other.differences
        self.deviations += other.deviations
        self.not_compared += other.not_compared
