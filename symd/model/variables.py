"""What a debugger is told about a variable: its name, its type as text and as structure, and where it lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from symd.model.answers import Answer

Kind = Literal["parameter", "local", "global"]


@dataclass(frozen=True, slots=True)
class Member:
    """A field: ``offset`` in bytes from the start of what holds it; ``bit_size`` with ``bit_offset`` (from the same start)
    for a bit field. A base class is a member without a name."""

    name: str
    type: int | None
    offset: int | None
    bit_offset: int | None = None
    bit_size: int | None = None


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """One type; other types are meant by their number in ``Visible.types`` (None: void, or not known).

    ``kind`` is base, pointer, reference, rvalue_reference, member_pointer, array, vector, structure, class, union,
    enumeration, typedef, const, volatile, restrict, atomic, function, unspecified, or the number of a tag. ``size`` in
    bytes. ``encoding`` is that of a base type (DWARF's name: float, signed, unsigned, boolean, ...). ``target`` is what
    it points to, names, qualifies, holds elements of, or returns. ``counts`` are element counts, outermost dimension
    first (None: not known). ``address_space`` is what a pointer points into, by name where the vendor gives it one.
    """

    text: str
    kind: str
    size: int | None = None
    encoding: str | None = None
    target: int | None = None
    counts: tuple[int | None, ...] = ()
    members: tuple[Member, ...] = ()
    parameters: tuple[int | None, ...] = ()
    enumerators: tuple[tuple[str, int], ...] = ()
    address_space: str | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter that is visible at the address asked about.

    ``type`` is its C spelling as llvm-dwarfdump prints it and ``type_number`` its number in ``Visible.types``.
    ``function`` is the function whose scope it belongs to (None: a global), ``inlined`` whether that was inlined here.
    ``location`` says where it lives at this address; None where it is ``optimized_out``. ``live`` are the section-offset
    ranges ``(first, behind)`` in which it has a location.
    """

    name: str
    type: str
    kind: Kind
    function: str | None
    inlined: bool
    optimized_out: bool
    location: str | None
    live: tuple[tuple[int, int], ...] = ()
    type_number: int | None = None


@dataclass(frozen=True, slots=True)
class Visible:
    """Variables in scope, innermost scope first; ``simd_width`` is the number of lanes that share the code, where the
    debug data says it; ``notes`` name what was left out."""

    variables: tuple[Variable, ...] = ()
    types: tuple[TypeInfo, ...] = ()
    simd_width: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InScope:
    """``at`` is the place as ``symbolize`` answers it, with its reason, its frames, and the candidates of an ambiguous
    query; ``visible`` is what is in scope there, nothing where the query names no place."""

    at: Answer
    visible: Visible = field(default_factory=Visible)
