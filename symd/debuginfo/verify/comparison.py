"""Two readings of the same thing, put side by side: what is equal, and what is not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple, TypeVar

from symd.debuginfo.verify.records import Line, Scope, Variable
from symd.model.debug_info import RowFlag

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


def same_line(ours: Line, theirs: Line) -> bool:
    """A path is compared by its end, which is the table's own entry."""
    return ours._replace(file=None) == theirs._replace(file=None) and _same_file(ours.file, theirs.file)


def same_scope(ours: Scope, theirs: Scope) -> bool:
    return ours._replace(call_file=None) == theirs._replace(call_file=None) and _same_file(
        ours.call_file, theirs.call_file
    )


def same_variable(ours: Variable, theirs: Variable) -> bool:
    return ours == theirs


def _same_file(ours: str | None, theirs: str | None) -> bool:
    return bool(ours) == bool(theirs) and (ours or "").endswith(theirs or "")


def text(record: object) -> str | None:
    """A record in one line."""
    if isinstance(record, Line):
        flags = "|".join(flag.name or "" for flag in RowFlag if record.flags & flag)
        return f"{record.address:#x} {record.file or '?'}:{record.line}:{record.column} {flags}".rstrip()
    if isinstance(record, Scope):
        kind = "inlined call of " if record.inlined else ""
        called = f" called at {record.call_file or '?'}:{record.call_line}:{record.call_column}" if kind else ""
        linkage = f" ({record.linkage_name})" if record.linkage_name else ""
        inside = "" if record.parent is None else f" in scope {record.parent}"
        return f"{kind}{record.name}{linkage}{called}{inside} {_ranges(record.ranges)}"
    if isinstance(record, Variable):
        where = ", ".join(
            ("" if entry.start is None or entry.end is None else f"[{entry.start:#x}, {entry.end:#x}) ")
            + (entry.expression.hex(" ") or "nothing")
            for entry in record.locations
        )
        made_from = " -> ".join(record.type) or "void"
        return f"{record.tag} {record.name}: {made_from}, in {record.scope:#x}, at {where or 'no place'}"
    return None


def _ranges(ranges: Sequence[tuple[int, int]]) -> str:
    return " ".join(f"[{start:#x}, {end:#x})" for start, end in ranges) or "without ranges"
