"""Abbreviation tables (DWARF 5, 7.5.3), and the regular expressions that pass the DIEs of a unit: what a DIE is made of follows from its
abbreviation, so that one expression passes them all, or stops at each that somebody wants."""

from __future__ import annotations

import re

from symd.model.plain_answers import NotPlain
from symd.plain.numbers import (
    BLOCK,
    BLOCK1,
    LAYOUTS,
    LEB,
    DW_FORM_implicit_const,
    DW_TAG_inlined_subroutine,
    DW_TAG_subprogram,
    sleb,
    uleb,
    value,
)

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

Attribute = tuple[int, int, int]
"""(name, form, the value of an implicit_const)."""
Values = dict[int, tuple[int, "int | bytes"]]
"""By name the form and the value of each attribute of a DIE."""
LEB_EXPRESSION = rb"[\x80-\xff]*+[\x00-\x7f]"
_MOST_ABBREVIATIONS = 512
"""Abbreviations, and attributes of one."""
_LONGEST_BLOCK = 63
"""Bytes of a block or an expression that are passed."""
_SCOPES = (DW_TAG_subprogram, DW_TAG_inlined_subroutine)


class Abbreviation:
    """What DIEs of one declaration have in common."""

    __slots__ = ("attributes", "code", "has_children", "tag")

    def __init__(self, code: bytes, tag: int, has_children: bool, attributes: tuple[Attribute, ...]) -> None:
        self.code, self.tag, self.has_children, self.attributes = code, tag, has_children, attributes

    @property
    def is_scope(self) -> bool:
        """Whether it is a function or an inlined call."""
        return self.tag in _SCOPES

    def expression(self, captured: frozenset[int] = frozenset()) -> bytes:
        """What matches a DIE's values, with a group for each attribute of a name in ``captured``."""
        found, fixed = [], 0
        for name, form, _ in self.attributes:
            layout = LAYOUTS[form]
            if layout >= 0 and name not in captured:
                fixed += layout
                continue
            found.append(_bytes(fixed))
            fixed = 0
            found.append(b"(%b)" % _value_expression(layout) if name in captured else _value_expression(layout))
        return b"".join((*found, _bytes(fixed)))


def _bytes(count: int) -> bytes:
    return b".{%d}" % count if count else b""


def _value_expression(layout: int) -> bytes:
    if layout >= 0:
        return _bytes(layout)
    if layout == LEB:
        return LEB_EXPRESSION
    if layout in (BLOCK1, BLOCK):
        return b"(?:" + b"|".join(b"\\x%02x%b" % (size, _bytes(size)) for size in range(_LONGEST_BLOCK + 1)) + b")"
    return rb"[^\x00]*+\x00"


def read_table(section: bytes, at: int) -> dict[int, Abbreviation]:
    """The abbreviations at an offset of ``.debug_abbrev``, by code; of several with one code the first counts."""
    found: dict[int, Abbreviation] = {}
    for code, abbreviation in _declarations(section, at):
        found.setdefault(code, abbreviation)
        if len(found) > _MOST_ABBREVIATIONS:
            raise NotPlain
    return found


def read_one(section: bytes, at: int, wanted: int) -> Abbreviation:
    """The first abbreviation of one code in the table at an offset of ``.debug_abbrev``."""
    for code, abbreviation in _declarations(section, at):
        if code == wanted:
            return abbreviation
    raise NotPlain


def _declarations(section: bytes, at: int) -> Iterator[tuple[int, Abbreviation]]:
    """The codes and abbreviations of a table, each read when its turn comes."""
    while True:
        start = at
        code, at = uleb(section, at)
        if not code:
            return
        written = section[start:at]
        tag, at = uleb(section, at)
        has_children = section[at] != 0
        attributes, at = _attributes(section, at + 1)
        yield code, Abbreviation(written, tag, has_children, attributes)


def _attributes(section: bytes, at: int) -> tuple[tuple[Attribute, ...], int]:
    found: list[Attribute] = []
    while len(found) < _MOST_ABBREVIATIONS:
        name, at = uleb(section, at)
        form, at = uleb(section, at)
        constant = 0
        if form == DW_FORM_implicit_const:
            constant, at = sleb(section, at)
        if not (name or form):
            return tuple(found), at
        found.append((name, form, constant))
    raise NotPlain


def read_values(data: bytes, at: int, abbreviation: Abbreviation) -> tuple[Values, int]:
    """The attributes of a DIE whose values begin at ``at``, and the place after it. Of several of one name the first counts."""
    found: Values = {}
    for name, form, constant in abbreviation.attributes:
        this, at = value(data, at, form, constant)
        found.setdefault(name, (form, this))
    return found, at


ScopeGroups = tuple[Abbreviation, int, dict[int, tuple[int, int, int]]]
"""A scope's abbreviation, the number of its empty group, and by name the form, constant and group of its attributes."""


def any_of(abbreviations: Iterable[Abbreviation]) -> bytes:
    """What matches a DIE of one of these."""
    by_values: dict[bytes, list[bytes]] = {}
    for each in abbreviations:
        by_values.setdefault(each.expression(), []).append(re.escape(each.code))
    found = [b"(?:%b)%b" % (b"|".join(codes), values) for values, codes in by_values.items()]
    return b"(?:%b)" % b"|".join(found) if found else b"(?!)"


class Tree:
    """The expression that goes through the DIEs of a unit. It stops at null entries (group NULLS), at what has children and is no scope (group
    PARENT), at each of ``scopes``, which has an empty group and one for each captured attribute (``layouts``), and at what is not known (group
    ``unknown``)."""

    NULLS, PARENT = 1, 2

    def __init__(self, table: Mapping[int, Abbreviation], captured: frozenset[int]) -> None:
        known = [each for each in table.values() if all(form in LAYOUTS for _, form, _ in each.attributes)]
        others = [each for each in known if not each.is_scope]
        scopes = [each for each in known if each.is_scope]
        self.layouts: dict[int, ScopeGroups] = {}
        """By the last group of each scope."""
        group = self.PARENT
        for each in scopes:
            first = group = group + 1
            places: dict[int, tuple[int, int, int]] = {}
            for name, form, constant in each.attributes:
                if name in captured:
                    group += 1
                    places.setdefault(name, (form, constant, group))
            self.layouts[group] = each, first, places
        self.unknown = group + 1
        leaves = any_of(each for each in others if not each.has_children)
        parents = any_of(each for each in others if each.has_children)
        found = [b"()%b%b" % (re.escape(each.code), each.expression(captured)) for each in scopes]
        stops = b"|".join((rb"(\x00++)", b"()" + parents, *found, b"(.|\\Z)"))
        self.expression = re.compile(b"%b*+(?:%b)" % (leaves, stops), re.DOTALL)
