"""Locations as llvm-dwarfdump prints their expressions, read back from its text: the forms that need no evaluation."""

from __future__ import annotations

import re

import pytest

from symd.model.variables import LocationPiece, PieceKind, VariableLocation

AMD_REGISTERS = {"SGPR": "s", "VGPR": "v", "AGPR": "a"}
_REGISTER = re.compile(r"DW_OP_reg(?:x |(?=\d))(?:0x([0-9a-f]+)|(\d+)|([A-Z]+)(\d+))(?: .*)?")
_CONSTANT = re.compile(r"DW_OP_(?:lit|const\w+ )\+?(-?(?:0x)?[0-9a-f]+)")
_ADDRESS = re.compile(r"DW_OP_addr(?:x)? 0x([0-9a-f]+)")
_FRAME = re.compile(r"DW_OP_fbreg ([+-]\d+)")
_BASED = re.compile(r"DW_OP_breg(x )?([A-Z0-9a-fx]+) ?([+-]\d+)")
_KNOWN = re.compile(r"DW_OP_(?:reg|breg|fbreg |addr|lit|const|piece |swap$|xderef$|stack_value$|nop$|plus_uconst 0x0$)")
_PIECE = re.compile(r"DW_OP_piece 0x([0-9a-f]+)")


def can_be_read(text: str) -> bool:
    """Whether all operations of an expression are among the simple ones; Intel's, for example, are printed as bytes."""
    return all(_KNOWN.match(operation) for operation in text.split(", "))


def assert_same(location: VariableLocation, text: str, frame_base: str) -> None:
    """The structure says what the text says; ``frame_base`` is the text of the function's DW_AT_frame_base."""
    groups: list[tuple[list[str], int | None]] = [([], None)]
    for operation in text.split(", ") if text else []:
        size = _PIECE.fullmatch(operation)
        if size:
            groups[-1] = (groups[-1][0], 8 * int(size[1], 16))
            groups.append(([], None))
        else:
            groups[-1][0].append(operation)
    if len(groups) > 1 and not groups[-1][0]:
        groups.pop()
    assert location.lanes is None
    assert len(location.pieces) == len(groups), (location, text)
    offset = 0
    for piece, (operations, bits) in zip(location.pieces, groups, strict=True):
        is_vector = piece.register is not None and piece.register.name[0] in "va"
        assert piece.per_lane == is_vector
        assert not is_vector or (piece.register.lane_bits, piece.register.bytes) in ((32, 256), (32, 128), (32, None))
        assert piece.bit_size == bits
        assert piece.bit_offset == (None if bits is None else offset)
        offset += bits or 0
        assert_same_piece(piece, operations, bits, frame_base)


def assert_same_piece(piece: LocationPiece, operations: list[str], bits: int | None, frame_base: str) -> None:
    first, *rest = [one for one in operations if one not in ("DW_OP_nop", "DW_OP_plus_uconst 0x0")] or [""]
    if not operations:
        assert piece.kind is PieceKind.OPTIMIZED_OUT
    elif _REGISTER.fullmatch(first) and not rest:
        assert piece.kind is PieceKind.REGISTER
        assert piece.register is not None
        assert (piece.register.first_bit, piece.register.bits) == (0, bits)
        assert_same_register(piece.register.number, piece.register.name, first)
    elif _CONSTANT.fullmatch(first) and rest == ["DW_OP_stack_value"]:
        assert piece.kind is PieceKind.CONSTANT
        assert piece.value is not None
        assert piece.value % 256 == int(first_group(_CONSTANT, first), 0) % 256  # every type has so many bits
    elif rest[-1:] == ["DW_OP_stack_value"]:  # the value is computed: what it says is compared with the prose elsewhere
        assert piece.kind is PieceKind.EXPRESSION
        assert piece.text
    else:
        assert_same_memory(piece, first, rest, frame_base)


def assert_same_memory(piece: LocationPiece, first: str, rest: list[str], frame_base: str) -> None:
    """An address alone; or as Clang writes an address space, its number, DW_OP_swap and DW_OP_xderef after it."""
    space = None
    if len(rest) == 3 and rest[1:] == ["DW_OP_swap", "DW_OP_xderef"]:
        space = int(first_group(_CONSTANT, rest[0]), 0)
    elif rest:
        pytest.fail(", ".join([first, *rest]))
    assert piece.kind is PieceKind.MEMORY
    assert space is None or piece.address_space == space
    frame, based, address = (pattern.fullmatch(first) for pattern in (_FRAME, _BASED, _ADDRESS))
    if _CONSTANT.fullmatch(first):
        assert (piece.register, piece.text, piece.offset) == (None, None, int(first_group(_CONSTANT, first), 0))
    elif address:
        assert piece.register is None
        assert first.startswith("DW_OP_addrx") or piece.text is not None or piece.offset == int(address[1], 16)
    elif frame and frame_base == "DW_OP_call_frame_cfa":
        assert (piece.register, piece.text, piece.offset) == (None, "CFA", int(frame[1]))
    elif frame or based:
        assert piece.register is not None
        base = frame_base if frame else f"DW_OP_reg{based[1] or ''}{based[2]}" if based else ""
        assert_same_register(piece.register.number, piece.register.name, base)
        assert piece.offset == int(frame[1] if frame else based[3] if based else "")
    else:
        pytest.fail(first)


def first_group(pattern: re.Pattern[str], text: str) -> str:
    found = pattern.fullmatch(text)
    if not found:
        pytest.fail(text)
    return found[1]


def assert_same_register(number: int, name: str, text: str) -> None:
    """LLVM knows AMD's registers by name and other vendors' by number."""
    found = _REGISTER.fullmatch(text)
    if not found:
        pytest.fail(text)
    hexadecimal, decimal, letters, index = found.groups()
    if letters:
        assert name == f"{AMD_REGISTERS[letters]}{index}"
    else:
        assert number == (int(hexadecimal, 16) if hexadecimal else int(decimal))


_MARK = re.compile(r", DW_OP_lit[15], DW_OP_swap, DW_OP_xderef\b")
_REGISTER_CONTENT = re.compile(r"DW_OP_bregx (\w+) ?\+0(?=$|, DW_OP_piece)")
_NUMBER = re.compile(r"^(DW_OP_(?:const\w+ \S+|lit\d+))$")


def without_marks(text: str) -> str:
    """An expression without clang's marks of private memory, where there is none: what they stand behind is the value."""
    bare = _MARK.sub("", text)
    if bare == text:
        return text
    return _NUMBER.sub(r"\1, DW_OP_stack_value", _REGISTER_CONTENT.sub(r"DW_OP_regx \1", bare))
