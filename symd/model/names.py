"""Kernels, functions and source files by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

from symd.model.identities import ObjectPath


class NameKind(IntEnum):
    """What a name is of, in the order of answers. The numbers travel on the wire."""

    KERNEL = 1
    FUNCTION = 2
    FILE = 3


class Match(IntEnum):
    """How a pattern is meant. The numbers travel on the wire."""

    EXACT = 1
    """The whole name, with or without namespaces and template arguments; a file's last components."""
    PREFIX = 2
    """The beginning of the name, the linkage name or the part after the last "::" or "/"."""
    GLOB = 3
    """``*``, ``?`` and ``[...]`` over the whole of any of these."""


@dataclass(frozen=True, slots=True)
class NameQuery:
    """What to look for: ``kinds`` empty means all."""

    pattern: str
    match: Match = Match.EXACT
    kinds: frozenset[NameKind] = frozenset()


def parse_name_query(text: str) -> NameQuery:
    """A whole name, or a pattern where there is ``*``, ``?`` or ``[`` in it."""
    return NameQuery(text, Match.GLOB if set("*?[") & set(text) else Match.EXACT)


@dataclass(frozen=True, slots=True)
class NamedItem:
    """A kernel, a function or a source file. ``size`` is in bytes of text. A function that only stands inlined in
    others, like a file, has no section, offset and address; ``inlined_copies`` counts the inlined copies of the
    function in its code object. ``facts`` is what the format says of a kernel. ``declared_file`` and ``declared_line``
    are where a function is declared, None and 0 where that is not known."""

    kind: NameKind
    name: str
    path: ObjectPath
    linkage_name: str | None = None
    section: str | None = None
    section_index: int | None = None
    section_offset: int | None = None
    address: int | None = None
    size: int = 0
    inlined_copies: int = 0
    facts: Mapping[str, Any] = field(default_factory=dict)
    declared_file: str | None = None
    declared_line: int = 0
