"""The stack machine of location expressions: a cursor, a stack of terms, and the pieces so far.

Its terms are symbolic, because registers are not read here: a value is a number, the bits of a register, or an
operation on such. Numbers wrap at the size of an address.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from symd.debuginfo.dwarf.forms import Cursor, Widths
from symd.errors import Malformed, Unsupported
from symd.model.code import Vendor


@dataclass(frozen=True, slots=True)
class Constant:
    """A constant, as an unsigned number of ``size`` bytes' worth of bits. ``linked``: it is an address that a linker
    gave."""

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
    """What is in memory at ``address``: ``size`` bytes (None: as wide as an address), in address space
    ``space``."""

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
    """Memory at ``address`` of address space ``space``, as a place: not what is there."""

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


MAX_STEPS = 2000
"""Operations of one evaluation; a loop runs into it."""
MAX_ENTRIES = 256
"""Entries of the stack, and pieces of a variable."""
MAX_NESTED = 8
"""Expressions inside expressions."""
WHERE = "location expression"
_TOO_FEW = "an operation finds too few operands"
_UNIT_BITS = 32
"""Bits of a scalar register of AMD's, and of a vector register in each lane."""


@dataclass(slots=True)
class StepBudget:
    """Operations that all expressions of one question may take together."""

    steps: int = 1_000_000


@dataclass(frozen=True, slots=True)
class ExpressionContext:
    """What an expression may refer to besides its own bytes.

    ``address`` gives entries of ``.debug_addr``; ``frame_base`` and ``called`` give the expressions of the function's
    frame base and of the DIE at an offset of ``.debug_info``; ``name_of`` that DIE's name; ``text_at`` names a linear
    address of code. ``unit`` is where the unit begins. ``without_private``: the kernel has no private memory.
    """

    vendor: Vendor
    widths: Widths
    unit: int = 0
    address: Callable[[int], int | None] = lambda _: None
    frame_base: Callable[[], bytes | None] = lambda: None
    called: Callable[[int], bytes | None] = lambda _: None
    name_of: Callable[[int], str] = lambda _: ""
    text_at: Callable[[int], str | None] = lambda _: None
    step_budget: StepBudget = field(default_factory=StepBudget)
    without_private: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a variable: where it is (None: nowhere), and which bits of that place (None: all of them)."""

    place: Term | None
    size: int | None = None
    offset: int | None = None


@dataclass(slots=True)
class Machine:
    """Evaluates one expression for one SIMD lane. ``uses_lane`` tells whether the lane was asked for."""

    context: ExpressionContext
    operations: Mapping[int, Execute]
    cursor: Cursor
    lane: int = 0
    depth: int = 0
    stack: list[Term] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    uses_lane: bool = False
    steps: int = 0

    def run(self) -> None:
        """Evaluate to the end. Raises Unsupported for what it cannot know, Malformed for what makes no sense."""
        cursor, operations, budget = self.cursor, self.operations, self.context.step_budget
        while cursor.at < cursor.end:
            self.steps += 1
            budget.steps -= 1
            if self.steps > MAX_STEPS or budget.steps < 0:
                raise Malformed("the expression does not come to an end", where=WHERE)
            code = cursor.data[cursor.at]
            cursor.at += 1
            operation = operations.get(code)
            if operation is None:
                raise Unsupported(f"unknown operation {code:#04x}", where=WHERE)
            operation(self)

    def inner(self, expression: bytes) -> Machine:
        """Another expression evaluated on a stack of its own."""
        if self.depth >= MAX_NESTED:
            raise Malformed("expressions refer to each other without end", where=WHERE)
        cursor = Cursor(expression, WHERE, 0, len(expression))
        inner = Machine(self.context, self.operations, cursor, self.lane, self.depth + 1, steps=self.steps)
        inner.run()
        self.steps, self.uses_lane = inner.steps, self.uses_lane or inner.uses_lane
        return inner

    def run_here(self, expression: bytes) -> None:
        """Another expression evaluated in the middle of this one."""
        if self.depth >= MAX_NESTED:
            raise Malformed("expressions call each other without end", where=WHERE)
        outer, self.cursor = self.cursor, Cursor(expression, WHERE, 0, len(expression))
        self.depth += 1
        self.run()
        self.depth -= 1
        self.cursor = outer

    @property
    def size(self) -> int:
        """Bytes of a value: those of an address."""
        return self.context.widths.address

    def push(self, term: Term) -> None:
        if len(self.stack) >= MAX_ENTRIES:
            raise Malformed("the stack overflows", where=WHERE)
        self.stack.append(term)

    def push_number(self, value: int) -> None:
        self.push(wrapped(value, self.size))

    def peek(self, index: int = 0) -> Term:
        """The entry ``index`` below the top."""
        if index >= len(self.stack):
            raise Malformed(_TOO_FEW, where=WHERE)
        return self.stack[-1 - index]

    def pop(self) -> Term:
        """The top entry as an operand. A place of global memory counts as its address; another one is no number."""
        top = self.pop_place()
        if isinstance(top, Constant):
            return top
        if isinstance(top, MemoryLocation) and not top.space:
            return top.address
        if isinstance(top, HeterogeneousLocation):
            raise Unsupported("computes with a place", where=WHERE)
        return top

    def pop_place(self) -> Term:
        """The top entry, which may be a place."""
        if not self.stack:
            raise Malformed(_TOO_FEW, where=WHERE)
        return bare(self.stack.pop())

    def pop_number(self) -> int:
        """The top entry, which has to be a number here and now."""
        top = self.pop()
        if not isinstance(top, Constant):
            raise Unsupported("depends on a register's content", where=WHERE)
        return top.value

    def load(self, address: Term, size: int | None, space: int | None = None) -> Term:
        """What is at an address; of a register it is the content."""
        if isinstance(address, Register) and space is None:
            return Bits(address.number, 0, 8 * (size or self.size))
        if isinstance(address, RegisterPart):
            return Bits(address.number, address.start, 8 * (size or self.size))
        if isinstance(address, MemoryLocation):
            return Deref(address.address, size or self.size, address.space or None)
        if isinstance(address, Nowhere):
            raise Unsupported("what is nowhere has no content", where=WHERE)
        return Deref(address, size, space)

    def take_piece(self, size: int, offset: int | None = None) -> None:
        """Close a piece of ``size`` bits: what the stack's top says, or nothing when there is none."""
        if len(self.pieces) >= MAX_ENTRIES:
            raise Malformed("too many pieces", where=WHERE)
        place = self.place(self.stack.pop()) if self.stack else None
        self.stack.clear()
        self.pieces.append(Piece(place, size, offset))

    def place(self, term: Term) -> Term | None:
        """A stack entry as the place of a variable. ``Deref`` stands for memory at its address. LLVM writes memory of
        an address space as a load from it; and bits wider than an address are none, they are the value. Space 1 of
        AMD's code is private memory, in which nothing has a fixed address, and since LLVM 22 any memory."""
        if isinstance(term, (Register, Implicit, StackValue)):
            return term
        if isinstance(term, HeterogeneousLocation):
            return _place_of(term)
        if isinstance(term, Bits) and term.size > 8 * self.size:
            return StackValue(term)
        if isinstance(term, Deref) and term.space is not None and term.size is None:
            linked = isinstance(term.address, Constant) and term.address.linked
            return Deref(term.address) if linked and term.space == 1 and self.context.vendor is Vendor.AMD else term
        return Deref(term)

    def rest(self) -> list[Piece]:
        """What the stack says when the expression ends: its top. Intel's compiler leaves one entry for each element of
        a vector, first one lowest."""
        if self.context.vendor is Vendor.INTEL and not self.pieces:
            return [Piece(self.place(term)) for term in self.stack]
        return [Piece(self.place(self.stack[-1]))] if self.stack else []


def _place_of(term: HeterogeneousLocation) -> Term | None:
    if isinstance(term, MemoryLocation):
        return Deref(term.address, None, term.space or None)
    if isinstance(term, RegisterPart):
        return StackValue(Bits(term.number, term.start, _UNIT_BITS - term.start % _UNIT_BITS))
    return None


Execute = Callable[[Machine], None]
