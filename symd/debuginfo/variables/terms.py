"""What a location expression computes, kept symbolic: registers are not read here, so a value is a number, the bits of
a register, or an operation on such. Numbers wrap at the size of an address."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant, as an unsigned number of ``size`` bytes' worth of bits. ``linked``: it is an address that a linker gave."""

    value: int
    size: int = 8
    linked: bool = field(default=False, compare=False)

    @property
    def signed(self) -> int:
        bits = 8 * self.size
        return self.value - (1 << bits) if self.value >> (bits - 1) else self.value


@dataclass(frozen=True, slots=True)
class Register:
    """A register as a place; as an operand its content is meant."""

    number: int


@dataclass(frozen=True, slots=True)
class Bits:
    """Bits ``[start, start + size)`` of a register, counted from the lowest."""

    register: int
    start: int
    size: int


@dataclass(frozen=True, slots=True)
class TermSymbol:
    """Something that has a name and no value here: the canonical frame address, the object's own address."""

    text: str


@dataclass(frozen=True, slots=True)
class Sum:
    """The sum of a term and a constant, ``base + offset``."""

    base: Term
    offset: Constant


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation on one or two operands: ``sign`` is how it is written."""

    sign: str
    operands: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Deref:
    """What stands in memory at ``address``: ``size`` bytes (None: as wide as an address), in address space ``space``."""

    address: Term
    size: int | None = None
    space: int | None = None


@dataclass(frozen=True, slots=True)
class Implicit:
    """A value written out: its bytes, lowest first."""

    data: bytes


@dataclass(frozen=True, slots=True)
class StackValue:
    """A term that is the variable's value, not its address (DW_OP_stack_value; DWARF 5, 2.6.1.1.3)."""

    term: Term


@dataclass(frozen=True, slots=True)
class MemoryLocation:
    """Memory at ``address`` of address space ``space``, as a place: not what stands there."""

    address: Term
    space: int


@dataclass(frozen=True, slots=True)
class RegisterPart:
    """A register from bit ``start`` on, as a place."""

    number: int
    start: int


@dataclass(frozen=True, slots=True)
class Nowhere:
    """The place of what is not there."""


HeterogeneousLocation: TypeAlias = MemoryLocation | RegisterPart | Nowhere
"""Places that are no numbers, as operands (``MemoryLocation`` in space 0 is one)."""
Term: TypeAlias = (
    Constant | Register | Bits | TermSymbol | Sum | Operation | Deref | Implicit | StackValue | HeterogeneousLocation
)


def bare(term: Term) -> Term:
    """The term as an operand: marked as the value or not, it counts the same."""
    return term.term if isinstance(term, StackValue) else term


def wrapped(value: int, size: int) -> Constant:
    return Constant(value & ((1 << 8 * size) - 1), size)


def add(left: Term, right: Term, size: int) -> Term:
    """``left + right``, constants gathered at the end."""
    if isinstance(left, Constant):
        left, right = right, left
    if not isinstance(right, Constant):
        if isinstance(left, Sum):
            return add(add(left.base, right, size), left.offset, size)
        if isinstance(right, Sum):
            return add(add(left, right.base, size), right.offset, size)
        return Operation("+", (left, right))
    if isinstance(left, Constant):
        return wrapped(left.value + right.value, size)
    if isinstance(left, Sum):
        return Sum(left.base, wrapped(left.offset.value + right.value, size))
    return Sum(left, right)


def binary(sign: str, left: Term, right: Term, size: int) -> Term:
    """``left sign right``: computed when both are numbers and it has a result, else kept."""
    if sign == "+":
        return add(left, right, size)
    if sign == "-" and isinstance(right, Constant):
        return add(left, wrapped(-right.value, size), size)
    if isinstance(right, Constant) and isinstance(left, Constant):
        result = _compute(sign, left, right, size)
        if result is not None:
            return wrapped(result, size)
    if sign == "&" and isinstance(left, Bits) and isinstance(right, Constant) and _has_lowest(right.value, left.size):
        return left
    return Operation(sign, (left, right))


def _has_lowest(value: int, bits: int) -> bool:
    """Whether so many of the lowest bits are set. Debug data may state any number of them."""
    return bits <= value.bit_length() and ~value & (1 << bits) - 1 == 0


def _compute(sign: str, left: Constant, right: Constant, size: int) -> int | None:
    a, b = left.value, right.value
    if sign in ("/", "mod") and not b:
        return None
    if sign == "/":
        quotient = abs(left.signed) // abs(right.signed)
        return quotient if (left.signed < 0) == (right.signed < 0) else -quotient
    if sign in _COMPARISONS:
        return int(_COMPARISONS[sign](left.signed, right.signed))
    if sign in _SHIFTS:
        return _SHIFTS[sign](left.signed if sign == ">>>" else a, min(b, 8 * size))
    return _COMPUTED[sign](a, b)


_Compute: TypeAlias = Callable[[int, int], int]
_COMPARISONS: Mapping[str, _Compute] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_SHIFTS: Mapping[str, _Compute] = {"<<": operator.lshift, ">>": operator.rshift, ">>>": operator.rshift}
_COMPUTED: Mapping[str, _Compute] = {
    "-": operator.sub,
    "*": operator.mul,
    "mod": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
}


def unary(sign: str, operand: Term, size: int) -> Term:
    """``-``, ``~`` or ``abs`` of an operand."""
    if isinstance(operand, Constant):
        results = {"-": -operand.value, "~": ~operand.value, "abs": abs(operand.signed)}
        return wrapped(results[sign], size)
    return Operation(sign, (operand,))
