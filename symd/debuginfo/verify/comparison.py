"""Two readings of the same debug data compared: the records that they are compared by, symd's own reading in these
records, and a report of what differs. Each known deviation of pyelftools 0.33 from DWARF has a name, is worked around
where it is met, and counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal, NamedTuple, TypeAlias, TypeVar

from symd.debuginfo.dwarf import At, Tag
from symd.debuginfo.dwarf.columns import LineColumns, ScopeColumns
from symd.debuginfo.variables import Die, DieReader
from symd.debuginfo.variables.location_lists import ListEntry, ListEntryBudget, ListReader
from symd.model.debug_info import NO_PARENT, RowFlag


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


VARIABLES = frozenset({Tag.DW_TAG_variable, Tag.DW_TAG_formal_parameter})
MAX_TYPE_STEPS = 16
"""Types that are followed from a variable's."""


class Declared(NamedTuple):
    """A variable's DIE, and the one around it. ``expression`` holds everywhere, or ``entries`` do where their ranges
    say; None and none where no location is stated."""

    die: Die
    around: Die
    expression: bytes | None
    entries: tuple[ListEntry, ...]


def declared(dies: DieReader, lists: ListReader) -> Iterator[Declared]:
    """Every variable of every unit, in the order of the trees. Raises Malformed where a tree cannot be followed, and
    what ``ListReader`` raises."""
    for unit in dies.units.units:
        top = dies.top(unit)
        levels = [] if top is None else [(top, dies.children(top))]
        while levels:
            around, children = levels[-1]
            die = next(children, None)
            if die is None:
                levels.pop()
                continue
            if die.tag in VARIABLES:
                yield _declared(dies, lists, die, around)
            levels.append((die, dies.children(die)))


def _declared(dies: DieReader, lists: ListReader, die: Die, around: Die) -> Declared:
    found = dies.find(die, At.DW_AT_location)
    if found is None:
        return Declared(die, around, None, ())
    owner, value = found
    if value.is_block:
        return Declared(die, around, value.data, ())
    return Declared(die, around, None, tuple(lists.entries(owner.unit, value) or ()))


def type_chain(dies: DieReader, variable: Die) -> list[Die]:
    """The variable's type, the type that this is made from, and so on, up to MAX_TYPE_STEPS."""
    chain: list[Die] = []
    at = dies.type_of(variable)
    while at is not None and len(chain) < MAX_TYPE_STEPS:
        chain.append(at)
        at = dies.reference(at, At.DW_AT_type)
    return chain


class KnownDeviation(NamedTuple):
    """An error of pyelftools that is known, by which its reading differs. ``name`` is for people and scripts;
    ``reason`` says what pyelftools does and what is right."""

    name: str
    reason: str


PROGRAM_START = KnownDeviation(
    "program-start",
    "the file is fine, pyelftools is not: it begins a line program where the file list ends instead of where header_length says (DWARF 5, 6.2.4)",
)
BLOCK_LOCATION = KnownDeviation(
    "block-location",
    "from DWARF 4 on, pyelftools takes no location from a block form, by which Intel's compiler writes expressions",
)

Met: TypeAlias = Counter[KnownDeviation]
"""How often each was met."""


Record = TypeVar("Record")


class Mismatch(NamedTuple):
    """Number ``number`` of both lists differs; None where a list has nothing there."""

    number: int
    ours: object
    theirs: object


def mismatches(
    ours: Sequence[Record], theirs: Sequence[Record], same: Callable[[Record, Record], bool]
) -> Iterator[Mismatch]:
    """What differs between two lists. What is equal at their beginnings and at their ends is set aside; between, number
    is compared with number, so that one missing record is one mismatch and not one for each that follows."""
    pairs = zip(ours, theirs, strict=False)
    first = next((number for number, pair in enumerate(pairs) if not same(*pair)), min(len(ours), len(theirs)))
    last = 0
    while last < min(len(ours), len(theirs)) - first and same(ours[-1 - last], theirs[-1 - last]):
        last += 1
    between = zip_longest(ours[first : len(ours) - last], theirs[first : len(theirs) - last])
    for number, (mine, other) in enumerate(between, first):
        if mine is None or other is None or not same(mine, other):
            yield Mismatch(number, mine, other)


def same_line(ours: VerifiedLine, theirs: VerifiedLine) -> bool:
    """A path is compared by its end, which is the table's own entry."""
    return ours._replace(file=None) == theirs._replace(file=None) and _same_file(ours.file, theirs.file)


def same_scope(ours: VerifiedScope, theirs: VerifiedScope) -> bool:
    return ours._replace(call_file=None) == theirs._replace(call_file=None) and _same_file(
        ours.call_file, theirs.call_file
    )


def same_variable(ours: VerifiedVariable, theirs: VerifiedVariable) -> bool:
    return ours == theirs


def _same_file(ours: str | None, theirs: str | None) -> bool:
    return bool(ours) == bool(theirs) and (ours or "").endswith(theirs or "")


def text(record: object) -> str | None:
    """A record in one line."""
    if isinstance(record, VerifiedLine):
        flags = "|".join(flag.name or "" for flag in RowFlag if record.flags & flag)
        return f"{record.address:#x} {record.file or '?'}:{record.line}:{record.column} {flags}".rstrip()
    if isinstance(record, VerifiedScope):
        kind = "inlined call of " if record.inlined else ""
        called = f" called at {record.call_file or '?'}:{record.call_line}:{record.call_column}" if kind else ""
        linkage = f" ({record.linkage_name})" if record.linkage_name else ""
        inside = "" if record.parent is None else f" in scope {record.parent}"
        ranges = " ".join(f"[{start:#x}, {end:#x})" for start, end in record.ranges)
        return f"{kind}{record.name}{linkage}{called}{inside} {ranges or 'without ranges'}"
    if isinstance(record, VerifiedVariable):
        where = ", ".join(
            ("" if entry.start is None or entry.end is None else f"[{entry.start:#x}, {entry.end:#x}) ")
            + (entry.expression.hex(" ") or "nothing")
            for entry in record.locations
        )
        made_from = " -> ".join(record.type) or "void"
        return f"{record.tag} {record.name}: {made_from}, in {record.scope:#x}, at {where or 'no place'}"
    return None


MAX_ENTRIES = 1 << 26
"""Entries of all location lists of an object."""
_NOT_IS_STMT = 0xFF & ~int(RowFlag.IS_STMT)
_END_SEQUENCE, _IMPLIED = int(RowFlag.END_SEQUENCE), int(RowFlag.IMPLIED)
_TAGS = {tag: name.removeprefix("DW_TAG_") for name, tag in vars(Tag).items() if name.startswith("DW_TAG_")}


def line_tables(lines: LineColumns) -> dict[int, list[VerifiedLine]]:
    """The rows that are in every table that has any, by the table's offset in ``.debug_line``."""
    found: dict[int, list[VerifiedLine]] = {}
    columns = (lines.table_of_row, lines.address, lines.file, lines.line, lines.column, lines.flags)
    for table, address, file, line, column, flags in zip(*(one.tolist() for one in columns), strict=True):
        if flags & _IMPLIED:
            continue
        kept = flags & _NOT_IS_STMT if flags & _END_SEQUENCE else flags
        row = VerifiedLine(address, lines.files[file] or None, line, column, kept)
        found.setdefault(lines.tables[table], []).append(row)
    return found


def scopes(lines: LineColumns, columns: ScopeColumns) -> list[VerifiedScope]:
    """Every scope with its ranges."""
    ranges: list[list[tuple[int, int]]] = [[] for _ in range(len(columns))]
    held = (columns.range_scope, columns.range_start, columns.range_end)
    for number, start, end in zip(*(one.tolist() for one in held), strict=True):
        ranges[number].append((start, end))
    return [
        VerifiedScope(
            None if columns.parent[number] == NO_PARENT else int(columns.parent[number]),
            columns.names[columns.name[number]],
            columns.names[columns.linkage_name[number]],
            bool(columns.inlined[number]),
            lines.files[columns.call_file[number]] or None,
            int(columns.call_line[number]),
            int(columns.call_column[number]),
            tuple(ranges[number]),
        )
        for number in range(len(columns))
    ]


def variables(dies: DieReader) -> Iterator[VerifiedVariable]:
    """Every variable and parameter of every unit. Raises Malformed and LimitExceeded where a tree or a list cannot be
    followed."""
    for one in declared(dies, ListReader(dies, ListEntryBudget(MAX_ENTRIES))):
        yield VerifiedVariable(
            one.die.at,
            _tag(one.die),
            dies.name(one.die),
            one.around.at,
            tuple(_type(dies, each) for each in type_chain(dies, one.die)),
            tuple(_locations(one)),
        )


def _tag(die: Die) -> str:
    return _TAGS.get(die.tag) or hex(die.tag)


def _type(dies: DieReader, die: Die) -> str:
    name = dies.own_name(die)
    return f"{_tag(die)} {name}" if name else _tag(die)


def _locations(one: Declared) -> Iterator[LocationEntry]:
    if one.expression is not None:
        yield LocationEntry(None, None, one.expression)
    for entry in one.entries:
        start, end = (None, None) if entry.default else (entry.start, entry.end)
        yield LocationEntry(start, end, entry.expression)
