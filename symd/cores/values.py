"""What variables held, where registers and memory of the dump say it: the machine registers of a CUDA debug build,
AMD's registers, private, local and global memory, and constants."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from symd.cores import Range, WaveRegisters
from symd.cores.amd_waves import Space, global_ranges
from symd.model.cores import CoreValue
from symd.model.variables import LocationPiece, LocationRegister, PieceKind, TypeInfo, Variable, Visible

GetMemory = Callable[[Sequence[Range]], bytes | None]
"""The content of ranges of global memory, together; None where that is not known."""
_SPACES: Mapping[str, Space] = {
    "generic": "generic", "global": "global", "local": "local", "private": "private", "private wave": "private wave",
}  # fmt: skip
_FRAME = "CFA"
_FRAME_POINTERS = frozenset({"s32", "s33", "s34"})
"""Stack, frame and base pointer of LLVM's AMDGPU code."""
_REGISTER = re.compile(r"(U?R|U?P|[sv])([0-9]{1,3})", re.ASCII)
_QUALIFIERS = frozenset({"const", "volatile", "typedef", "restrict", "atomic"})
_POINTERS = frozenset({"pointer", "reference", "rvalue_reference"})
_FLOATS = {2: "<e", 4: "<f", 8: "<d"}
_DEPTH = 16
"""Names of names of a type that are followed."""
MAX_BYTES = 64
"""The largest variable that is shown."""
_WORD_BITS = 32


def values_of(
    visible: Visible,
    registers: WaveRegisters,
    memory: GetMemory = lambda _: None,
    bias: int | None = None,
    positions: GetMemory = lambda _: None,
    frame: tuple[int, int] | None = None,
) -> tuple[CoreValue, ...]:
    """The variables that have a value in every lane of the wave. ``bias`` is what was added to the addresses of the
    code object's own variables (None: not known); ``positions`` reads the dump's file; ``frame`` is the number of the
    register that CUDA's frame address counts from, and what is added to it."""
    wave = _Wave(registers, memory, bias, positions, frame)
    return tuple(found for each in visible.variables for found in _value(each, visible, wave))


@dataclass(frozen=True, slots=True)
class _Wave:
    """What a wave's variables are read from."""

    registers: WaveRegisters
    memory: GetMemory
    bias: int | None
    positions: GetMemory
    frame: tuple[int, int] | None


def _value(variable: Variable, visible: Visible, wave: _Wave) -> Iterator[CoreValue]:
    if len(variable.locations) != 1 or variable.locations[0].doubt is not None or variable.type_number is None:
        return
    kind = _bare(visible, variable.type_number)
    if kind is None or kind.size is None or not 0 < kind.size <= MAX_BYTES:
        return
    size, pieces = kind.size, variable.locations[0].pieces
    if variable.kind == "global" and pieces[0].kind is not PieceKind.MEMORY:
        return
    contents = [_content(pieces, size, wave, position) for position in range(len(wave.registers.lanes))]
    values = [_text(kind, content) for content in contents if content is not None]
    if len(values) < len(contents) or not values:
        return
    lanes = wave.registers.lanes
    if len(set(values)) == 1:
        values, lanes = values[:1], lanes[:1]
    yield CoreValue(
        variable.name,
        variable.type,
        variable.function,
        variable.inlined,
        variable.location or "",
        tuple(lanes),
        tuple(values),
    )


def _bare(visible: Visible, number: int) -> TypeInfo | None:
    """A type without typedefs and qualifiers."""
    for _ in range(_DEPTH):
        info = visible.types[number] if 0 <= number < len(visible.types) else None
        if info is None or info.kind not in _QUALIFIERS or info.target is None:
            return info
        number = info.target
    return None


def _content(pieces: tuple[LocationPiece, ...], size: int, wave: _Wave, position: int) -> bytes | None:
    """The bytes of a variable in the lane at ``position`` among the wave's."""
    found, filled = 0, 0
    for piece in pieces:
        missing = 8 * size - filled
        if not missing:
            break
        bits = missing if piece.bit_size is None else min(piece.bit_size, missing)
        value = _piece(piece, bits, wave, position)
        if value is None or (piece.per_lane and not _is_read_by_lane(piece)):
            return None
        found |= (value & (1 << bits) - 1) << filled
        filled += bits
    if filled < 8 * size:
        return None
    return (found & (1 << 8 * size) - 1).to_bytes(size, "little")


def _is_read_by_lane(piece: LocationPiece) -> bool:
    """Whether the content of its register was taken from the lane: AMD's vector registers have 32 bits for each."""
    return piece.kind is PieceKind.REGISTER and piece.register is not None and piece.register.lane_bits == _WORD_BITS


def _piece(piece: LocationPiece, bits: int, wave: _Wave, position: int) -> int | None:
    if piece.kind is PieceKind.MEMORY:
        return _in_memory(piece, bits, wave, position)
    if piece.kind is PieceKind.REGISTER and piece.register is not None:
        value = _register(piece.register, bits, wave.registers, position)
        return None if value is None else value >> piece.skipped_bits
    if piece.kind is PieceKind.CONSTANT:
        return piece.value
    if piece.kind is PieceKind.IMPLICIT and piece.data is not None:
        return int.from_bytes(piece.data, "little") >> piece.skipped_bits
    return None


def counts_from_frame(visible: Visible) -> bool:
    """Whether any variable lies at an offset of the frame's address."""
    every = (piece for each in visible.variables for location in each.locations for piece in location.pieces)
    return any(piece.kind is PieceKind.MEMORY and piece.text == _FRAME for piece in every)


def _in_memory(piece: LocationPiece, bits: int, wave: _Wave, position: int) -> int | None:
    """What memory has, as a lane sees it."""
    size = (piece.skipped_bits + bits + 7) // 8
    read = _amd if wave.registers.memory is not None else _nvidia
    content = read(piece, size, wave, position)
    return None if content is None else int.from_bytes(content, "little") >> piece.skipped_bits


def _amd(piece: LocationPiece, size: int, wave: _Wave, position: int) -> bytes | None:
    where, space = wave.registers.memory, _space(piece)
    address = _address(piece, space, wave, position)
    if where is None or space is None or address is None:
        return None
    ranges = global_ranges(where, space, wave.registers.lanes[position], address, size)
    return wave.memory(ranges) if ranges is not None else None


def _nvidia(piece: LocationPiece, size: int, wave: _Wave, position: int) -> bytes | None:
    """Local memory counts from the frame; shared and global memory have variables at addresses of their own."""
    space, lane = piece.address_space_name, wave.registers.lanes[position]
    if piece.offset is None or piece.register is not None:
        return None
    if piece.text == _FRAME and space == "local" and wave.frame is not None:
        base = _word(f"R{wave.frame[0]}", wave.registers, position)
        return None if base is None else _windowed(wave, (space, lane), base + wave.frame[1] + piece.offset, size)
    if piece.text is not None:
        return None
    if space in ("shared", "param"):
        return _windowed(wave, (space, None), piece.offset, size)
    in_global = space in (None, "global") and wave.bias is not None and piece.offset
    return wave.memory([(piece.offset, size)]) if in_global else None


def _windowed(wave: _Wave, of: tuple[str, int | None], address: int, size: int) -> bytes | None:
    """What a window of the warp's memory has: of a space, and a lane where lanes have their own."""
    for window in wave.registers.windows:
        inside = address - window.start
        if (window.space, window.lane) == of and inside >= 0 and inside + size <= window.size:
            return wave.positions([(window.position + inside, size)])
    return None


def _space(piece: LocationPiece) -> Space | None:
    """Which memory a piece is in. Some compilers leave out that a frame is in private memory."""
    if piece.address_space_name is not None:
        return _SPACES.get(piece.address_space_name)
    return "private" if piece.register is not None and piece.register.name in _FRAME_POINTERS else "generic"


def _address(piece: LocationPiece, space: Space | None, wave: _Wave, position: int) -> int | None:
    """The address of a piece in its space: in the frame, or the code object's own. Other registers are not believed:
    where a vector register has the value itself, LLVM until 22 writes that it has its address."""
    where, base = wave.registers.memory, piece.register
    if where is None or piece.offset is None or piece.text is not None:
        return None
    if base is None:
        moved = 0 if space == "local" else wave.bias
        return piece.offset + moved if space in ("local", "generic") and moved is not None else None
    content = _register(base, 32, wave.registers, position) if base.name in _FRAME_POINTERS else None
    if content is None or space != "private":
        return None
    return content // (where.width if where.scaled_frames else 1) + piece.offset


def _register(register: LocationRegister, bits: int, registers: WaveRegisters, position: int) -> int | None:
    """The content of a register from its first bit on."""
    names = register.machine_registers if register.machine_registers is not None else (register.name,)
    words = [_word(name, registers, position) for name in names]
    if not words or any(word is None for word in words):
        return None
    value = sum((word or 0) << 32 * number for number, word in enumerate(words))
    return value >> register.first_bit if register.first_bit + bits <= 32 * len(words) else None


def _word(name: str, registers: WaveRegisters, position: int) -> int | None:
    """One machine register's 32 bits."""
    match = _REGISTER.fullmatch(name)
    if match is None:
        return None
    held: dict[str, Callable[[], bytes]] = {
        "R": lambda: registers.vector[position],
        "v": lambda: registers.vector[position],
        "P": lambda: registers.predicates[position] if registers.predicates else b"",
        "UR": lambda: registers.scalar,
        "s": lambda: registers.scalar,
    }
    words = held[match[1]]() if match[1] in held else b""
    at = 4 * int(match[2])
    return int.from_bytes(words[at : at + 4], "little") if at + 4 <= len(words) else None


def _text(kind: TypeInfo, content: bytes) -> str:
    """A value as its type reads it; the bytes, lowest first, of a type that is none of a number."""
    number = int.from_bytes(content, "little")
    if kind.kind in _POINTERS:
        return f"{number:#x}"
    if kind.kind == "enumeration":
        either = (number, int.from_bytes(content, "little", signed=True))  # debug data writes 0xffffffff, or -1
        return next((name for name, value in kind.enumerators if value in either), str(number))
    if kind.kind != "base":
        return f"bytes {content.hex(' ')}"
    if kind.encoding == "float" and len(content) in _FLOATS:
        value = struct.unpack(_FLOATS[len(content)], content)[0]
        return f"{value:.9g}" if len(content) <= 4 else repr(value)
    if kind.encoding == "boolean":
        return {0: "false", 1: "true"}.get(number, str(number))
    if kind.encoding in ("signed", "signed_char"):
        number = int.from_bytes(content, "little", signed=True)
    return str(number)
