"""Where a variable is, in words and as a record (``model.variables``), made from the same terms and lane rules.

A place that differs from lane to lane is written once, by the rule that its numbers follow: the bits of lane 0 and "per
lane", or an offset that is a multiple of ``lane``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from symd.debuginfo.variables import lanes
from symd.debuginfo.variables.lanes import (
    LaneLocation,
    LaneTemplate,
    Leaf,
    OperandNames,
    Rule,
    own_bytes,
    piece_leaf,
    register_leaf,
    rule_of,
    run_text,
    runs,
)
from symd.debuginfo.variables.machine import Constant, Deref, Implicit, Piece, Sum, Term, bare
from symd.model.variables import LocationPiece, LocationRegister, PieceKind, VariableLocation


class Description(NamedTuple):
    """Where a variable is, twice: as a sentence, and as the structure of ``symd.model.variables``."""

    text: str
    locations: tuple[VariableLocation, ...]


def describe(lane_locations: Sequence[LaneLocation], names: OperandNames) -> Description | None:
    """What the locations of all lanes say, one for all or one for each; None where the variable is nowhere."""
    if not any(lane_location.pieces or lane_location.error for lane_location in lane_locations):
        return None
    templates = [lanes.of_lane(lane_location, names) for lane_location in lane_locations]
    stretches = runs(templates)
    texts = [run_text(templates[start:end], start, names) for start, end in stretches]
    whole = len(stretches) == 1
    locations = tuple(
        location(lane_locations[start:end], None if whole else (start, end), names) for start, end in stretches
    )
    if whole:
        return Description(texts[0], locations)
    said = (f"{_lanes(*lanes)}: {text}" for lanes, text in zip(stretches, texts, strict=True))
    return Description("; ".join(said), locations)


def _lanes(start: int, end: int) -> str:
    return f"lane {start}" if end == start + 1 else f"lanes {start}-{end - 1}"


MAX_BYTES = 256
"""Bytes of one value that are given; the rest of a longer one is left out."""


def location(run: Sequence[LaneLocation], lanes: tuple[int, int] | None, names: OperandNames) -> VariableLocation:
    """The location of a run of lanes, which is ``lanes`` of them all; None: all lanes."""
    pieces = list(_placed(run, lanes[0] if lanes else 0, names))
    if run[0].error:
        pieces.append(in_words(run[0].error))
    return VariableLocation(tuple(pieces or [LocationPiece(PieceKind.OPTIMIZED_OUT)]), lanes)


def in_words(text: str) -> LocationPiece:
    """What can only be said in words."""
    return LocationPiece(PieceKind.EXPRESSION, text=text)


def constant(data: bytes, names: OperandNames) -> LocationPiece:
    """A value that is known, given as bytes, lowest first: a number where the variable's type is one."""
    value = names.reading.number(data)
    if value is None:
        return LocationPiece(PieceKind.IMPLICIT, data=names.reading.cut(data)[:MAX_BYTES])
    return LocationPiece(PieceKind.CONSTANT, value=value)


def _placed(run: Sequence[LaneLocation], first: int, names: OperandNames) -> Iterator[LocationPiece]:
    """The pieces with their places in the variable. ``first`` is the number of the run's first lane."""
    several = len(run[0].pieces) > 1 or bool(run[0].error)
    offset: int | None = 0
    for column in zip(*(lane_location.pieces for lane_location in run), strict=True):
        piece = _piece(column, first, names)
        size = column[0].size
        if size is None and several and piece.register is not None and piece.kind is PieceKind.REGISTER:
            size = piece.register.bits  # an element of a vector, which is as wide as the register's bits
        whole = size is None and not several
        yield replace(piece, bit_offset=None if whole else offset, bit_size=size)
        offset = None if size is None or offset is None else offset + size


def _piece(column: Sequence[Piece], first: int, names: OperandNames) -> LocationPiece:
    """One piece, as each lane of a run has it."""
    one, skipped = column[0], column[0].offset or 0
    leaves = [leaf for piece in column if (leaf := piece_leaf(piece)) is not None]
    if one.place is None:
        return LocationPiece(PieceKind.OPTIMIZED_OUT, skipped_bits=skipped)
    if leaves:
        register = _register(leaves, names)
        return LocationPiece(PieceKind.REGISTER, register=register, per_lane=_moves(register))
    if isinstance(one.place, Deref):
        loads = [piece.place for piece in column if isinstance(piece.place, Deref)]
        return replace(_memory(loads, first, names), skipped_bits=skipped)
    return _value([bare(piece.place) for piece in column if piece.place is not None], one, first, names)


def _memory(loads: Sequence[Deref], first: int, names: OperandNames) -> LocationPiece:
    space = names.memory if loads[0].space is None else loads[0].space
    name = None if space is None else names.space(space)
    place = LocationPiece(PieceKind.MEMORY, address_space=space, address_space_name=name)
    addresses = [load.address for load in loads]
    numbers = [term for term in addresses if isinstance(term, Constant)]
    if numbers:
        stride = _rule([Leaf("address", (number.value,)) for number in numbers]).step
        return replace(place, offset=numbers[0].value, per_lane=stride != 0, lane_stride=stride)
    bases = [term.base if isinstance(term, Sum) else term for term in addresses]
    offsets = [term.offset.signed if isinstance(term, Sum) else 0 for term in addresses]
    stride = _rule([Leaf("offset", (offset,)) for offset in offsets]).step
    leaves = [leaf for base in bases if (leaf := register_leaf(base)) is not None]
    if leaves:
        register = _register(leaves, names)
        return replace(
            place,
            register=register,
            base_divisor=names.divisor(loads[0]),
            offset=offsets[0],
            per_lane=stride != 0 or _moves(register),
            lane_stride=stride,
        )
    of = lanes.of_base if isinstance(addresses[0], Sum) else lanes.of_term
    text, differs = _text([of(base, names) for base in bases], first, names)
    return replace(place, text=text, offset=offsets[0], per_lane=stride != 0 or differs, lane_stride=stride)


def _value(terms: Sequence[Term], piece: Piece, first: int, names: OperandNames) -> LocationPiece:
    """A value that is nowhere: known, or computed from what is somewhere."""
    skipped = piece.offset or 0
    term = terms[0]
    if isinstance(term, Implicit):
        data = names.reading.cut(own_bytes(term.data, piece))[:MAX_BYTES]
        return LocationPiece(PieceKind.IMPLICIT, skipped_bits=skipped, data=data)
    numbers = [one for one in terms if isinstance(one, Constant)]
    if isinstance(term, Constant):
        stride = _rule([Leaf("constant", (number.value, number.size)) for number in numbers]).step
        if stride:
            return LocationPiece(
                PieceKind.CONSTANT, skipped_bits=skipped, value=term.signed, per_lane=True, lane_stride=stride
            )
        data = own_bytes(term.value.to_bytes(term.size, "little"), piece)
        return replace(constant(data, names), skipped_bits=skipped)
    leaves = [leaf for one in terms if (leaf := register_leaf(_content(one))) is not None]
    if len(leaves) == len(terms):
        register = _register(leaves, names)
        if piece.size is not None:
            register = replace(register, first_bit=register.first_bit + skipped, bits=piece.size)
        return LocationPiece(PieceKind.REGISTER, register=register, per_lane=_moves(register))
    text, differs = _text([lanes.of_term(one, names) for one in terms], first, names)
    return LocationPiece(PieceKind.EXPRESSION, skipped_bits=skipped, text=text, per_lane=differs)


def _content(term: Term) -> Term:
    """A value without the zero that is added to it."""
    return term.base if isinstance(term, Sum) and not term.offset.value else term


def _register(leaves: Sequence[Leaf], names: OperandNames) -> LocationRegister:
    leaf, rule = leaves[0], _rule(leaves)
    name = names.register(leaf.values[0])
    if leaf.kind == "register":
        return LocationRegister(
            leaf.values[0], name.name, machine_registers=name.machine_registers, lane_registers=rule.step
        )
    number, start, size = leaf.values
    each = int(rule.registers)
    return LocationRegister(number, name.name, start, size, name.machine_registers, rule.step, each)


def _moves(register: LocationRegister) -> bool:
    return register.lane_bits != 0 or register.lane_registers != 0


def _text(templates: Sequence[LaneTemplate], first: int, names: OperandNames) -> tuple[str, bool]:
    """A term in words, and whether it differs from lane to lane."""
    differs = any(one.leaves != templates[0].leaves for one in templates)
    return run_text(templates, first, names), differs


def _rule(column: Sequence[Leaf]) -> Rule:
    return rule_of(column) or Rule(0)
