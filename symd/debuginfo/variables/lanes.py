"""A location expression evaluated for every SIMD lane that shares the code, and a place that differs from lane to lane,
as text written once.

Compilers write few expressions for many addresses, so results are kept. Only what follows from the expression alone is
kept: an expression that reads the function's frame base, an entry of .debug_addr or another DIE is evaluated again. The
operations of a kept result are counted each time it is used, so that no answer depends on those before it.

One lane's place is a template: numbers that may differ from lane to lane (a register, an offset) are leaves, all else
is text. Lanes are cut into runs, in which each leaf stays or grows by a fixed step from lane to lane; a run is written
as its template with the rules of its leaves.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from symd.debuginfo.dwarf.forms import Cursor, Widths
from symd.debuginfo.dwarf.variable_constants import Op
from symd.debuginfo.variables.machine import (
    WHERE,
    Bits,
    Constant,
    Deref,
    ExpressionContext,
    Implicit,
    Machine,
    Operation,
    Piece,
    Register,
    StackValue,
    Sum,
    Term,
    TermSymbol,
    bare,
)
from symd.debuginfo.variables.operations import AMD_OPERATIONS, INTEL_OPERATIONS, OPERATIONS
from symd.debuginfo.variables.registers import FRAME_POINTERS, PRIVATE_SPACES, RegisterName
from symd.debuginfo.variables.types import Reading
from symd.errors import Malformed, Unsupported
from symd.model.code import Vendor

MAX_LANES = 64
"""Lanes that an expression is evaluated for."""


UNKNOWN_LANES = 32
"""Lanes where the debug data does not say how many there are."""


_CONSTANT_SIZES: Mapping[int, int] = {
    **{Op.DW_OP_lit0 + number: 1 for number in range(32)},
    **{Op.DW_OP_const1u + at: 1 + (1 << at // 2) for at in range(8)},
}
"""Bytes of the operations that push a number, without those that push one in LEB128."""


_BY_VENDOR = {Vendor.INTEL: INTEL_OPERATIONS, Vendor.AMD: AMD_OPERATIONS}


class LaneLocation(NamedTuple):
    """Where a variable is for one lane: its pieces, lowest bits first, and why they are not all there ("" when they
    are). No pieces and no reason: it is nowhere."""

    pieces: tuple[Piece, ...]
    error: str = ""


def evaluate(expression: bytes, context: ExpressionContext, lanes: int | None) -> list[LaneLocation]:
    """The location for each lane, or one alone where it is the same for all, as the expression does not ask for the
    lane. ``lanes`` None: not known, taken for 32."""
    first, uses_lane = _one(expression, context, 0)
    if not uses_lane:
        return [first]
    count = min(lanes or UNKNOWN_LANES, MAX_LANES)
    return [first, *(_one(expression, context, lane)[0] for lane in range(1, count))]


def is_one_constant(expression: bytes) -> bool:
    """Whether the expression does nothing but push one number."""
    code = expression[0] if expression else 0
    if code in (Op.DW_OP_constu, Op.DW_OP_consts):
        return len(expression) > 1 and [byte >> 7 for byte in expression[1:]] == [*[1] * (len(expression) - 2), 0]
    return len(expression) == _CONSTANT_SIZES.get(code)


def _one(expression: bytes, context: ExpressionContext, lane: int) -> tuple[LaneLocation, bool]:
    operations = _BY_VENDOR.get(context.vendor, OPERATIONS)
    machine = Machine(context, operations, Cursor(expression, WHERE, 0, len(expression)), lane)
    why = ""
    try:
        machine.run()
        rest = machine.rest()
    except Unsupported as unknown:
        rest, why = [], unknown.message
    except Malformed as error:
        rest, why = [], f"unreadable: {error.message}"
    return LaneLocation((*machine.pieces, *rest), why), machine.uses_lane


MAX_KEPT = 1 << 16
"""Operations whose results are kept, which bound their size, and bytes of expressions; what comes after is evaluated
each time."""

_Key = tuple[Widths, bytes, int | None, bool]


class _Kept(NamedTuple):
    locations: Sequence[LaneLocation]
    steps: int


@dataclass(slots=True)
class Evaluations:
    """What the location expressions of one code object evaluated to. Not for several threads at once."""

    _kept: dict[_Key, _Kept] = field(default_factory=dict)
    _left: int = MAX_KEPT

    def evaluate(self, expression: bytes, context: ExpressionContext, lanes: int | None) -> Sequence[LaneLocation]:
        """The location for each lane, as ``expression.evaluate`` gives it, kept where it does not depend on the
        address."""
        key, budget = (context.widths, expression, lanes, context.without_private), context.step_budget
        kept = self._kept.get(key)
        if kept is not None and kept.steps <= budget.steps:
            budget.steps -= kept.steps
            return kept.locations
        watched, before = _Watched(context), budget.steps
        locations = evaluate(expression, watched.context, lanes)
        if not watched.asked and budget.steps >= 0:
            self._keep(key, _Kept(locations, before - budget.steps))
        return locations

    def _keep(self, key: _Key, said: _Kept) -> None:
        size = said.steps + len(key[1])
        if size <= self._left:
            self._left -= size
            self._kept[key] = said


class _Watched:
    """A context that tells whether it was ``asked`` for anything that the expression itself does not say."""

    def __init__(self, context: ExpressionContext) -> None:
        self.asked = False
        self._asks = context
        self.context = replace(
            context, address=self._address, frame_base=self._frame_base, called=self._called, name_of=self._name_of
        )

    def _address(self, index: int) -> int | None:
        self.asked = True
        return self._asks.address(index)

    def _frame_base(self) -> bytes | None:
        self.asked = True
        return self._asks.frame_base()

    def _called(self, offset: int) -> bytes | None:
        self.asked = True
        return self._asks.called(offset)

    def _name_of(self, offset: int) -> str:
        self.asked = True
        return self._asks.name_of(offset)


class Rule(NamedTuple):
    """How a leaf goes on from lane to lane: by ``step``, which counts bits, registers or what its number counts; 0
    where it stays. ``registers`` says that each lane has a register of its own."""

    step: int
    registers: bool = False


def runs(templates: Sequence[LaneTemplate]) -> list[tuple[int, int]]:
    """The lanes as consecutive runs ``[start, end)``: each, from the first on, as long as one rule for every leaf
    lasts."""
    found = []
    start = 0
    while start < len(templates):
        end = start + _longest(templates[start:])
        found.append((start, end))
        start = end
    return found


def rule_of(column: Sequence[Leaf]) -> Rule | None:
    """The rule of one leaf over the lanes of a run; None when it follows none."""
    values = [leaf.values for leaf in column]
    if all(value == values[0] for value in values):
        return Rule(0)
    if column[0].kind == "bits":
        return _bits_rule(values)
    step = values[1][0] - values[0][0]
    regular = all(b[0] - a[0] == step for a, b in itertools.pairwise(values))
    return Rule(step, column[0].kind == "register") if regular and step else None


def _longest(templates: Sequence[LaneTemplate]) -> int:
    """How many from the first on follow one rule. The start of a regular run is regular, so doubling and halving find
    it."""
    good, bad = 1, 2
    while bad <= len(templates) and _regular(templates[:bad]):
        good, bad = bad, 2 * bad
    bad = min(bad, len(templates) + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _regular(templates[:middle]):
            good = middle
        else:
            bad = middle
    return good


def _regular(run: Sequence[LaneTemplate]) -> bool:
    if any(one.parts != run[0].parts or _kinds(one) != _kinds(run[0]) for one in run):
        return False
    return all(rule_of(column) is not None for column in zip(*(one.leaves for one in run), strict=True))


def _kinds(lane_template: LaneTemplate) -> list[str]:
    return [leaf.kind for leaf in lane_template.leaves]


def _bits_rule(values: Sequence[tuple[int, ...]]) -> Rule | None:
    """Bits go on by a fixed step in one register and then from the start of the next, or a register each lane."""
    register, start, size = values[0]
    step = values[1][1] - start if values[1][0] == register else 0
    if step < 0:
        return None
    for (r, s, _), (next_r, next_s, next_size) in itertools.pairwise(values):
        on = next_r == r and next_s - s == step
        over = next_r == r + 1 and (next_s < step if step else next_s == start)
        if next_size != size or not (over or (on and step)):
            return None
    return Rule(step, registers=not step)


MAX_LEVELS = 40
"""Operands inside operands that are written; what is deeper is "..."."""
MAX_NODES = 400
"""Terms that one text is made of; the others are "..."."""


@dataclass(frozen=True, slots=True)
class OperandNames:
    """How the vendor calls registers and address spaces, and how a constant of the variable's type is read.

    ``memory`` is the space of memory that no operation names the space of, where the variable has one of its own. An
    AMD frame pointer is divided by ``frame_divisor`` (``registers.frame_divisor``) where a lane's memory counts from
    it.
    """

    register: Callable[[int], RegisterName]
    space: Callable[[int], str]
    reading: Reading
    memory: int | None = None
    frame_divisor: int = 1

    def divisor(self, load: Deref) -> int:
        """What the register that an address counts from is divided by."""
        base = load.address.base if isinstance(load.address, Sum) else load.address
        is_frame = isinstance(base, Register) and base.number in FRAME_POINTERS and load.space in PRIVATE_SPACES
        return self.frame_divisor if is_frame else 1


class Leaf(NamedTuple):
    """A part of a text that may differ between lanes: a bit range (register, start, size), a register (number), or a
    number written as such, as an address, as an offset, or by the variable's type (number, size)."""

    kind: Literal["bits", "register", "number", "address", "offset", "constant"]
    values: tuple[int, ...]


class LaneTemplate(NamedTuple):
    """A text cut at its leaves: one more part than leaves."""

    parts: tuple[str, ...]
    leaves: tuple[Leaf, ...]


def of_lane(lane_location: LaneLocation, names: OperandNames) -> LaneTemplate:
    """All pieces of a variable, and what is the matter with them."""
    writer = _Writer(names)
    writer.lane_location(lane_location)
    return writer.lane_template()


def of_term(term: Term, names: OperandNames) -> LaneTemplate:
    """One value or address."""
    writer = _Writer(names)
    writer.term(term, 0)
    return writer.lane_template()


def of_base(term: Term, names: OperandNames) -> LaneTemplate:
    """What an address is counted from, in parentheses where what follows it would bind closer."""
    writer = _Writer(names)
    writer.base(term, 0)
    return writer.lane_template()


def register_leaf(term: Term) -> Leaf | None:
    """The register, or the bits of one, that an operand is; None for every other operand."""
    if isinstance(term, Register):
        return Leaf("register", (term.number,))
    if isinstance(term, Bits):
        return Leaf("bits", (term.register, term.start, term.size))
    return None


def piece_leaf(piece: Piece) -> Leaf | None:
    """The register that a piece lies in, or the bits of one that it has; None for every other place, and for some bytes
    of a value that a register holds."""
    if isinstance(piece.place, Register) and piece.size is not None:
        return Leaf("bits", (piece.place.number, piece.offset or 0, piece.size))
    if isinstance(piece.place, Register):
        return register_leaf(piece.place)
    term = None if piece.place is None else bare(piece.place)
    if isinstance(term, Bits):
        return Leaf("bits", (term.register, term.start + (piece.offset or 0), piece.size or term.size))
    return None


def own_bytes(data: bytes, piece: Piece) -> bytes:
    """The bytes of a known value, lowest first, that a piece of the variable has; all of them where the piece is
    cut out by bits."""
    is_cut = piece.size is not None and not piece.offset and not piece.size % 8
    return data[: (piece.size or 0) // 8] if is_cut else data


class _Writer:
    """Collects text and leaves."""

    def __init__(self, names: OperandNames) -> None:
        self.names = names
        self.parts: list[str] = [""]
        self.leaves: list[Leaf] = []
        self.nodes = 0

    def lane_template(self) -> LaneTemplate:
        return LaneTemplate(tuple(self.parts), tuple(self.leaves))

    def put(self, text: str) -> None:
        self.parts[-1] += text

    def leaf(self, leaf: Leaf) -> None:
        self.leaves.append(leaf)
        self.parts.append("")

    def lane_location(self, lane_location: LaneLocation) -> None:
        for number, piece in enumerate(lane_location.pieces):
            self.put(", " if number else "")
            self.piece(piece)
        if lane_location.error:
            self.put(f", {lane_location.error}" if lane_location.pieces else lane_location.error)
        elif not lane_location.pieces:
            self.put("optimized out")

    def piece(self, piece: Piece) -> None:
        leaf = piece_leaf(piece)
        if piece.place is None:
            self.put("optimized out" if piece.size is None else f"{_extent(piece)} optimized out")
        elif leaf is not None:
            self.leaf(leaf)
        elif isinstance(piece.place, Deref):
            self.memory(piece.place, piece)
        else:
            self.value(bare(piece.place), piece)

    def memory(self, place: Deref, piece: Piece) -> None:
        if piece.size is not None:
            self.put(f"{_extent(piece)} of ")
        space = self.names.memory if place.space is None else place.space
        self.put("memory at " if space is None else f"{self.names.space(space)} memory at ")
        if isinstance(place.address, Constant):
            self.leaf(Leaf("address", (place.address.value,)))
        else:
            self.term(place.address, 0)
            divisor = self.names.divisor(place)
            if divisor != 1:
                at = len(self.leaves) - isinstance(place.address, Sum)
                self.parts[at] = f"/{divisor}{self.parts[at]}"

    def value(self, term: Term, piece: Piece) -> None:
        if piece.size is not None:
            self.put(f"{_extent(piece)} of ")
        if isinstance(term, Implicit):
            self.put(f"constant {self.names.reading.text(own_bytes(term.data, piece))}")
        elif isinstance(term, Constant):
            self.put("constant ")
            data = own_bytes(term.value.to_bytes(term.size, "little"), piece)
            self.leaf(Leaf("constant", (int.from_bytes(data, "little"), len(data))))
        else:
            self.term(term, 0)

    def term(self, term: Term, depth: int) -> None:
        """An operand; one inside another is in parentheses where it has several parts."""
        self.nodes += 1
        leaf = register_leaf(term)
        if depth > MAX_LEVELS or self.nodes > MAX_NODES:
            self.put("...")
        elif leaf is not None:
            self.leaf(leaf)
        elif isinstance(term, Constant):
            self.leaf(Leaf("number", (term.signed,)))
        elif isinstance(term, TermSymbol):
            self.put(term.text)
        elif isinstance(term, Sum):
            self.base(term.base, depth)
            self.leaf(Leaf("offset", (term.offset.signed,)))
        elif isinstance(term, Deref):
            self.load(term, depth)
        elif isinstance(term, Operation):
            self.operation(term, depth)
        elif isinstance(term, Implicit):
            self.put(term.data[:16].hex(" "))
        elif isinstance(term, StackValue):
            self.term(term.term, depth)

    def base(self, term: Term, depth: int) -> None:
        self.term(term, depth if isinstance(term, Operation) and term.sign == "+" else depth + 1)

    def load(self, term: Deref, depth: int) -> None:
        space = "" if term.space is None else f"{self.names.space(term.space)} "
        self.put(f"*({space}")
        self.term(term.address, depth + 1)
        self.put(")" if term.size is None else f"):{term.size}")

    def operation(self, term: Operation, depth: int) -> None:
        if len(term.operands) == 1:
            self.put(term.sign if term.sign in "-~" else f"{term.sign} ")
            self.term(term.operands[0], depth + 1)
            return
        self.put("(" if depth else "")
        self.term(term.operands[0], depth + 1)
        self.put(f" {term.sign} ")
        self.term(term.operands[1], depth + 1)
        self.put(")" if depth else "")


def _extent(piece: Piece) -> str:
    size, offset = piece.size or 0, piece.offset or 0
    if offset or size % 8:
        return f"bits {offset}:{offset + size}"
    return "1 byte" if size == 8 else f"{size // 8} bytes"


def run_text(run: Sequence[LaneTemplate], first: int, names: OperandNames) -> str:
    """The text for the lanes of one run, of which ``first`` is the number of the first."""
    columns = list(zip(*(one.leaves for one in run), strict=True))
    rules = [rule_of(column) or Rule(0) for column in columns]
    text = run[0].parts[0]
    for column, rule, part in zip(columns, rules, run[0].parts[1:], strict=True):
        text += _leaf_text(column[0], rule, first, names) + part
    return text + _per_lane([(column[0], rule) for column, rule in zip(columns, rules, strict=True)])


def _leaf_text(leaf: Leaf, rule: Rule, first: int, names: OperandNames) -> str:
    if leaf.kind == "bits":
        register, start, size = leaf.values
        return f"{names.register(register).text}[{start}:{start + size}]"
    if leaf.kind == "register":
        return names.register(leaf.values[0]).text
    base = leaf.values[0] - rule.step * first
    lanes = "" if not rule.step else f" {'-' if rule.step < 0 else '+'} {abs(rule.step)}*lane"
    if leaf.kind == "constant" and not rule.step:
        return names.reading.text(base.to_bytes(leaf.values[1], "little"))
    if leaf.kind == "offset":
        return (f" {'-' if base < 0 else '+'} {_number(abs(base))}" if base else "") + lanes
    return (hex(base) if leaf.kind == "address" else _number(base)) + lanes


def _number(value: int) -> str:
    return str(value) if abs(value) < 1 << 16 else hex(value)


def _per_lane(leaves: Sequence[tuple[Leaf, Rule]]) -> str:
    """What the text ends with when registers differ from lane to lane."""
    moving = [
        (leaf, rule) for leaf, rule in leaves if (rule.step and leaf.kind in ("bits", "register")) or rule.registers
    ]
    if not moving:
        return ""
    if any(rule.registers for _, rule in moving):
        return " per lane, a register each"
    apart = {rule.step for leaf, rule in moving if rule.step != leaf.values[2]}
    return " per lane" + (f", {'/'.join(map(str, sorted(apart)))} bits apart" if apart else "")
