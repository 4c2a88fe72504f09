"""Places as text. A place that differs from lane to lane is written once, by the rule that its numbers follow: the bits of
lane 0 and "per lane", or an offset that is a multiple of ``lane``."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from symd.debuginfo.variables.expression import Outcome
from symd.debuginfo.variables.machine import Piece
from symd.debuginfo.variables.terms import Apply, Bits, Implicit, Load, Number, Register, Sum, Symbol, Term, Valued

_DEEPEST, _MOST_NODES = 40, 400


@dataclass(frozen=True, slots=True)
class Words:
    """How the vendor writes registers and address spaces, and how a constant of the variable's type is written.

    ``memory`` is the word for memory that no operation names the space of, such as "shared".
    """

    register: Callable[[int], str]
    space: Callable[[int], str]
    constant: Callable[[bytes], str]
    memory: str = ""


class Leaf(NamedTuple):
    """A part of a text that may differ between lanes: a bit range (register, start, size), a register (number), or a
    number written as such, as an address, as an offset, or by the variable's type (number, size)."""

    kind: Literal["bits", "register", "number", "address", "offset", "constant"]
    values: tuple[int, ...]


class Sketch(NamedTuple):
    """A text cut at its leaves: one more part than leaves."""

    parts: tuple[str, ...]
    leaves: tuple[Leaf, ...]


def describe(outcomes: Sequence[Outcome], words: Words) -> str | None:
    """The text for the outcomes of all lanes; None where the variable is nowhere."""
    if not any(outcome.pieces or outcome.trouble for outcome in outcomes):
        return None
    sketches = [_sketch(outcome, words) for outcome in outcomes]
    runs = _runs(sketches)
    texts = [_run_text(sketches[first:behind], first, words) for first, behind in runs]
    if len(texts) == 1:
        return texts[0]
    return "; ".join(f"{_lanes(*run)}: {text}" for run, text in zip(runs, texts, strict=True))


def _lanes(first: int, behind: int) -> str:
    return f"lane {first}" if behind == first + 1 else f"lanes {first}-{behind - 1}"


class _Writer:
    """Collects text and leaves."""

    def __init__(self, words: Words) -> None:
        self.words = words
        self.parts: list[str] = [""]
        self.leaves: list[Leaf] = []
        self.nodes = 0

    def put(self, text: str) -> None:
        self.parts[-1] += text

    def leaf(self, leaf: Leaf) -> None:
        self.leaves.append(leaf)
        self.parts.append("")

    def outcome(self, outcome: Outcome) -> None:
        for number, piece in enumerate(outcome.pieces):
            self.put(", " if number else "")
            self.piece(piece)
        if outcome.trouble:
            self.put(f", {outcome.trouble}" if outcome.pieces else outcome.trouble)
        elif not outcome.pieces:
            self.put("optimized out")

    def piece(self, piece: Piece) -> None:
        place = piece.place
        if place is None:
            self.put("optimized out" if piece.size is None else f"{_extent(piece)} optimized out")
        elif isinstance(place, Register):
            self.in_register(place, piece)
        elif isinstance(place, Load):
            self.memory(place, piece)
        else:
            self.value(place.term if isinstance(place, Valued) else place, piece)

    def in_register(self, place: Register, piece: Piece) -> None:
        if piece.size is None:
            self.leaf(Leaf("register", (place.number,)))
        else:
            self.leaf(Leaf("bits", (place.number, piece.offset or 0, piece.size)))

    def memory(self, place: Load, piece: Piece) -> None:
        if piece.size is not None:
            self.put(f"{_extent(piece)} of ")
        space = self.words.memory if place.space is None else self.words.space(place.space)
        self.put(f"{space} memory at " if space else "memory at ")
        self.address(place.address)

    def address(self, term: Term) -> None:
        if isinstance(term, Number):
            self.leaf(Leaf("address", (term.value,)))
        else:
            self.term(term, 0)

    def value(self, term: Term, piece: Piece) -> None:
        if isinstance(term, Bits):
            start = term.start + (piece.offset or 0)
            self.leaf(Leaf("bits", (term.register, start, piece.size or term.size)))
            return
        if piece.size is not None:
            self.put(f"{_extent(piece)} of ")
        if isinstance(term, Implicit):
            self.put(f"constant {self.words.constant(term.data)}")
        elif isinstance(term, Number):
            self.put("constant ")
            self.leaf(Leaf("constant", (term.value, term.size)))
        else:
            self.term(term, 0)

    def term(self, term: Term, depth: int) -> None:
        """An operand; one inside another stands in parentheses where it has several parts."""
        self.nodes += 1
        if depth > _DEEPEST or self.nodes > _MOST_NODES:
            self.put("...")
        elif isinstance(term, Number):
            self.leaf(Leaf("number", (term.signed,)))
        elif isinstance(term, Register):
            self.leaf(Leaf("register", (term.number,)))
        elif isinstance(term, Bits):
            self.leaf(Leaf("bits", (term.register, term.start, term.size)))
        elif isinstance(term, Symbol):
            self.put(term.text)
        elif isinstance(term, Sum):
            self.term(term.base, depth if isinstance(term.base, Apply) and term.base.sign == "+" else depth + 1)
            self.leaf(Leaf("offset", (term.offset.signed,)))
        elif isinstance(term, Load):
            self.load(term, depth)
        elif isinstance(term, Apply):
            self.apply(term, depth)
        elif isinstance(term, Implicit):
            self.put(term.data[:16].hex(" "))
        else:
            self.term(term.term, depth)

    def load(self, term: Load, depth: int) -> None:
        space = "" if term.space is None else f"{self.words.space(term.space)} "
        self.put(f"*({space}")
        self.term(term.address, depth + 1)
        self.put(")" if term.size is None else f"):{term.size}")

    def apply(self, term: Apply, depth: int) -> None:
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


def _sketch(outcome: Outcome, words: Words) -> Sketch:
    writer = _Writer(words)
    writer.outcome(outcome)
    return Sketch(tuple(writer.parts), tuple(writer.leaves))


def _runs(sketches: Sequence[Sketch]) -> list[tuple[int, int]]:
    """The lanes cut into as few stretches ``[first, behind)`` as their rules allow, from the first on."""
    runs = []
    first = 0
    while first < len(sketches):
        behind = first + _longest(sketches[first:])
        runs.append((first, behind))
        first = behind
    return runs


def _longest(sketches: Sequence[Sketch]) -> int:
    """How many from the first on follow one rule. The start of a regular run is regular, so doubling and halving find it."""
    good, bad = 1, 2
    while bad <= len(sketches) and _regular(sketches[:bad]):
        good, bad = bad, 2 * bad
    bad = min(bad, len(sketches) + 1)
    while bad - good > 1:
        middle = (good + bad) // 2
        if _regular(sketches[:middle]):
            good = middle
        else:
            bad = middle
    return good


def _regular(run: Sequence[Sketch]) -> bool:
    if any(one.parts != run[0].parts or _kinds(one) != _kinds(run[0]) for one in run):
        return False
    return all(_rule(column) is not None for column in zip(*(one.leaves for one in run), strict=True))


def _kinds(sketch: Sketch) -> list[str]:
    return [leaf.kind for leaf in sketch.leaves]


class _Rule(NamedTuple):
    """How a leaf goes on from lane to lane: by ``step`` (bits, registers or a number), 0 where it stays."""

    step: int
    registers: bool = False


def _rule(column: Sequence[Leaf]) -> _Rule | None:
    """The rule of one leaf over the lanes of a run; None when it follows none."""
    values = [leaf.values for leaf in column]
    if all(value == values[0] for value in values):
        return _Rule(0)
    if column[0].kind == "bits":
        return _bits_rule(values)
    step = values[1][0] - values[0][0]
    regular = all(b[0] - a[0] == step for a, b in itertools.pairwise(values))
    return _Rule(step, column[0].kind == "register") if regular and step else None


def _bits_rule(values: Sequence[tuple[int, ...]]) -> _Rule | None:
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
    return _Rule(step, registers=not step)


def _run_text(run: Sequence[Sketch], first: int, words: Words) -> str:
    columns = list(zip(*(one.leaves for one in run), strict=True))
    rules = [_rule(column) or _Rule(0) for column in columns]
    text = run[0].parts[0]
    for column, rule, part in zip(columns, rules, run[0].parts[1:], strict=True):
        text += _leaf_text(column[0], rule, first, words) + part
    return text + _per_lane([(column[0], rule) for column, rule in zip(columns, rules, strict=True)])


def _leaf_text(leaf: Leaf, rule: _Rule, first: int, words: Words) -> str:
    if leaf.kind == "bits":
        register, start, size = leaf.values
        return f"{words.register(register)}[{start}:{start + size}]"
    if leaf.kind == "register":
        return words.register(leaf.values[0])
    base = leaf.values[0] - rule.step * first
    lanes = "" if not rule.step else f" {'-' if rule.step < 0 else '+'} {abs(rule.step)}*lane"
    if leaf.kind == "constant" and not rule.step:
        return words.constant(base.to_bytes(leaf.values[1], "little"))
    if leaf.kind == "offset":
        return (f" {'-' if base < 0 else '+'} {_number(abs(base))}" if base else "") + lanes
    return (hex(base) if leaf.kind == "address" else _number(base)) + lanes


def _number(value: int) -> str:
    return str(value) if abs(value) < 1 << 16 else hex(value)


def _per_lane(leaves: Sequence[tuple[Leaf, _Rule]]) -> str:
    """What is said once, behind the text, when registers differ from lane to lane."""
    moving = [
        (leaf, rule) for leaf, rule in leaves if (rule.step and leaf.kind in ("bits", "register")) or rule.registers
    ]
    if not moving:
        return ""
    if any(rule.registers for _, rule in moving):
        return " per lane, a register each"
    apart = {rule.step for leaf, rule in moving if rule.step != leaf.values[2]}
    return " per lane" + (f", {'/'.join(map(str, sorted(apart)))} bits apart" if apart else "")
