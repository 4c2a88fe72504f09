"""What a debugger is told about a variable: its name, its type as text and as structure, and where it lives."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal

from symd.model.addresses import DeviceAddress
from symd.model.answers import Answer
from symd.model.contexts import DeviceCandidate
from symd.model.identities import Digest

Kind = Literal["parameter", "local", "global"]


DISCRIMINANT = "$discr$"
"""The name of a field without one that tells which variant of its type is there, as LLDB calls it."""


@dataclass(frozen=True, slots=True)
class Member:
    """A field: ``offset`` in bytes from the start of what holds it; ``bit_size`` with ``bit_offset`` (from the same
    start) for a bit field. A base class is a member without a name. ``discriminant`` is what the field that tells
    variants apart has where this one is there (None: it is always there, or where no other variant is)."""

    name: str
    type: int | None
    offset: int | None
    bit_offset: int | None = None
    bit_size: int | None = None
    discriminant: int | None = None


@dataclass(frozen=True, slots=True)
class TypeInfo:
    """One type; other types are meant by their number in ``Visible.types`` (None: void, or not known).

    ``kind`` is base, pointer, reference, rvalue_reference, member_pointer, array, vector, structure, class, union,
    enumeration, typedef, const, volatile, restrict, atomic, function, unspecified, string, or the number of a tag.
    ``size`` in bytes. ``encoding`` is that of a base type (DWARF's name: float, signed, unsigned, boolean, ...).
    ``target`` is what it points to, names, qualifies, holds elements of, or returns. ``counts`` are element counts,
    outermost dimension first (None: not known). ``address_space`` is what a pointer points into, by name where the
    vendor gives it one.
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


class PieceKind(Enum):
    """Where a piece of a variable is."""

    REGISTER = "register"
    MEMORY = "memory"
    CONSTANT = "constant"
    IMPLICIT = "implicit"
    OPTIMIZED_OUT = "optimized_out"
    EXPRESSION = "expression"


@dataclass(frozen=True, slots=True)
class LocationRegister:
    """Bits of a register: all of them where ``bits`` is None, else ``[first_bit, first_bit + bits)`` from the lowest.

    ``number`` is the vendor's DWARF number and ``name`` what people call it; ``reg<number>`` where there is no name.
    ``machine_registers`` is for NVIDIA's debug builds, which number PTX registers: the machine's registers that hold it
    at the address, lowest part first; empty where none does, None where the debug data does not say.

    In a location of several SIMD lanes these are the first lane's bits. Each further lane's begin ``lane_bits`` after
    the lane's before, in the next register from its lowest bit on where this one is full; or they are the same bits of
    the register whose number is higher by ``lane_registers``. ``bytes`` is the width of a vector register (None: it is
    none, or that is not known). Of AMD's vector registers, which have 32 bits for each lane, all bits (``bits`` None)
    are all of the lane's.
    """

    number: int
    name: str
    first_bit: int = 0
    bits: int | None = None
    machine_registers: tuple[str, ...] | None = None
    lane_bits: int = 0
    lane_registers: int = 0
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LocationPiece:
    """One piece of a variable. Which fields are set depends on ``kind``:

    * REGISTER: ``register``.
    * MEMORY: ``register`` is the base and ``offset`` the bytes from its content, divided by ``base_divisor``,
      -2^63 <= offset < 2^63. Without a base
      ``text`` is one that is no register, such as "CFA" (the canonical frame address); without both ``offset`` is the
      address, 0 <= offset < 2^64. ``address_space`` is the vendor's number of the memory's space and
      ``address_space_name`` its name; None for the default one.
    * CONSTANT: ``value`` as the variable's type reads it, -2^63 <= value < 2^63; an unsigned number above is given as
      its two's complement, a float as its bits.
    * IMPLICIT: ``data`` is the value, lowest byte first.
    * OPTIMIZED_OUT: nothing.
    * EXPRESSION: ``text`` is what computes the value, in words; or why the debug data's expression cannot be followed.

    ``bit_offset`` and ``bit_size`` are the piece's place within the variable; None where it is the whole variable, or
    one of several whose sizes are not stated. ``skipped_bits`` is how many bits of the memory or the value come before
    the piece's (a register says so itself).

    ``per_lane`` says that SIMD lanes have different places. ``offset`` and ``value`` are then the first lane's and grow
    by ``lane_stride`` from lane to lane; ``register`` has rules of its own; in ``text`` they are written out, with
    ``lane`` for the number of the lane.
    """

    kind: PieceKind
    bit_offset: int | None = None
    bit_size: int | None = None
    skipped_bits: int = 0
    register: LocationRegister | None = None
    offset: int | None = None
    address_space: int | None = None
    address_space_name: str | None = None
    value: int | None = None
    data: bytes | None = None
    text: str | None = None
    per_lane: bool = False
    lane_stride: int = 0
    base_divisor: int = 1


@dataclass(frozen=True, slots=True)
class LocationDoubt:
    """Why what the debug data says of a place cannot be right. ``reason`` is a word for programs, such as
    VALUE_NOT_ADDRESS; ``text`` is a sentence."""

    reason: str
    text: str


@dataclass(frozen=True, slots=True)
class VariableLocation:
    """The pieces of a variable, lowest bits first. ``lanes`` are the SIMD lanes ``(first, end)`` that they are right
    for, the last excluded; None: for all. ``doubt`` says why they are wrong, where that is certain; they stand as the
    debug data has them."""

    pieces: tuple[LocationPiece, ...]
    lanes: tuple[int, int] | None = None
    doubt: LocationDoubt | None = None


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable or parameter that is visible at the address asked about.

    ``type`` is its C spelling as llvm-dwarfdump prints it and ``type_number`` its number in ``Visible.types``.
    ``function`` is the function whose scope it belongs to (None: a global), ``inlined`` whether that was inlined here,
    and ``linkage_name`` its mangled name, where it has one. ``frame`` is the number of that function's frame in the
    answer, 0 innermost; None for a global, and where no frame is certain to be it, which a note says. ``block_depth``
    says in how many lexical blocks of the function it is declared, and ``block`` are the section-offset ranges of the
    innermost of these; 0 and none: in the function itself. ``declared_file`` and ``declared_line`` are where its
    declaration stands (None and 0: not known).
    ``location`` says where it lives at this address in words; None where it is ``optimized_out``: it has no place here,
    and one elsewhere if ``live`` has ranges. ``locations`` say the same as structure: one as a rule; several where it
    lives in several places at once, or where SIMD lanes follow different rules; none where it has no place here.
    ``live`` are the section-offset ranges ``(start, end)`` in which it has a location, the end excluded.
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
    locations: tuple[VariableLocation, ...] = ()
    frame: int | None = None
    linkage_name: str | None = None
    block_depth: int = 0
    block: tuple[tuple[int, int], ...] = ()
    declared_file: str | None = None
    declared_line: int = 0


@dataclass(frozen=True, slots=True)
class FunctionScope:
    """A function or inlined call around a place, as the debug data has it, whether a frame is told for it or not.
    ``call_line`` and ``call_column`` are where an inlined one is called; 0: not known."""

    name: str | None
    linkage_name: str | None
    inlined: bool
    call_line: int = 0
    call_column: int = 0


@dataclass(frozen=True, slots=True)
class Visible:
    """Variables in scope, innermost scope first; ``simd_width`` is the number of lanes that share the code, where the
    debug data says it, or AMD's kernel; ``notes`` name what was left out. ``functions`` are those around the place,
    innermost first, as the debug data has them: what is read of a code object has them, and ``Variable.frame`` counts
    them there; an answer has frames instead, and none of these."""

    variables: tuple[Variable, ...] = ()
    types: tuple[TypeInfo, ...] = ()
    simd_width: int | None = None
    notes: tuple[str, ...] = ()
    functions: tuple[FunctionScope, ...] = ()


@dataclass(frozen=True, slots=True)
class InScope:
    """The variables in scope at one place. ``at`` is the place as ``symbolize`` answers it, with its reason, its
    frames, and the candidates of an ambiguous query; ``visible`` is what is in scope there, nothing where the query
    names no place. ``device_address`` is the whole one where a device address was asked, and ``module`` the one that
    holds it; where several loads could, ``device_candidates`` has them."""

    at: Answer
    visible: Visible = field(default_factory=Visible)
    module: Digest | None = None
    device_address: DeviceAddress | None = None
    device_candidates: tuple[DeviceCandidate, ...] = ()
