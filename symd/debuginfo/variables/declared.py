"""All variables and parameters of an object, visible anywhere or not, with what the debug data states of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from symd.debuginfo.dwarf.constants import At, Tag
from symd.debuginfo.variables.dies import Die, DieReader
from symd.debuginfo.variables.location_lists import ListEntry, ListReader

VARIABLES = frozenset({Tag.DW_TAG_variable, Tag.DW_TAG_formal_parameter})
MOST_TYPE_STEPS = 16
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
    """The variable's type, the type that this is made from, and so on, up to MOST_TYPE_STEPS."""
    chain: list[Die] = []
    at = dies.type_of(variable)
    while at is not None and len(chain) < MOST_TYPE_STEPS:
        chain.append(at)
        at = dies.reference(at, At.DW_AT_type)
    return chain
