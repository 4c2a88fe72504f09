"""A structured location as the sentence that says the same: written from the fields alone, to be compared with the prose."""

from __future__ import annotations

import struct

from symd.model.variables import LocationPiece, LocationRegister, PieceKind, VariableLocation

FLOATS = {2: "e", 4: "f", 8: "d"}


def sentence(locations: tuple[VariableLocation, ...], encoding: str = "", size: int | None = None) -> str | None:
    """The prose for the locations of one variable; ``encoding`` and ``size`` in bytes are those of its type, for constants.
    None where it is nowhere."""
    if not locations:
        return None
    said: list[str] = []
    for location in locations:
        text = of_location(location, encoding, size)
        if location.lanes is None:
            said.append(text)
        else:
            first, end = location.lanes
            named = f"lane {first}" if end == first + 1 else f"lanes {first}-{end - 1}"
            said.append(f"{named}: {text}")
    starts = [location.lanes is None or location.lanes[0] == 0 for location in locations]
    parts = [said[0]]
    parts += [("; also " if starts[number] else "; ") + said[number] for number in range(1, len(said))]
    return "".join(parts)


def of_location(location: VariableLocation, encoding: str, size: int | None) -> str:
    first = location.lanes[0] if location.lanes else 0
    texts = [of_piece(piece, first, encoding, size) for piece in location.pieces]
    endings = [text.partition(" per lane")[2] for text in texts if " per lane" in text]
    text = ", ".join(text.partition(" per lane")[0] for text in texts)
    moving = [one.register for one in location.pieces if one.register is not None and moves(one.register)]
    if any(register.lane_registers for register in moving) or ", a register each" in endings:
        return text + " per lane, a register each"
    apart = {register.lane_bits for register in moving if register.lane_bits != register.bits}
    apart |= {int(text.split()[1]) for text in endings if "bits apart" in text}
    if apart:
        return f"{text} per lane, {'/'.join(map(str, sorted(apart)))} bits apart"
    return text + (" per lane" if moving or endings else "")


def moves(register: LocationRegister) -> bool:
    """Whether that is worth a word: each of AMD's vector registers (by its number) has 32 bits for each lane."""
    if 1536 <= register.number <= 3327 and register.lane_bits == 32:
        return False
    return bool(register.lane_bits or register.lane_registers)


def of_piece(piece: LocationPiece, first: int, encoding: str, size: int | None) -> str:
    assert piece.per_lane or not piece.lane_stride
    of = "" if piece.bit_size is None else f"{extent(piece.skipped_bits, piece.bit_size)} of "
    if piece.kind is PieceKind.OPTIMIZED_OUT:
        return of.replace(" of ", " ") + "optimized out"
    if piece.kind is PieceKind.REGISTER:
        assert piece.register is not None
        return of_register(piece.register)
    if piece.kind is PieceKind.MEMORY:
        return of + of_memory(piece, first)
    if piece.kind is PieceKind.IMPLICIT:
        assert piece.data is not None
        return f"{of}constant {of_bytes(piece.data, encoding, size)}"
    if piece.kind is PieceKind.CONSTANT:
        assert piece.value is not None
        lanes = of_stride(piece.lane_stride)
        value = of_number(piece.value - first * piece.lane_stride) if lanes else of_value(piece.value, encoding, size)
        return f"{of}constant {value}{lanes}"
    assert piece.text is not None
    return of + piece.text


def extent(start: int, size: int) -> str:
    if start or size % 8:
        return f"bits {start}:{start + size}"
    return "1 byte" if size == 8 else f"{size // 8} bytes"


def of_register(register: LocationRegister) -> str:
    machine = register.machine_registers
    name = register.name
    if machine is not None:
        name = f"{':'.join(machine)} ({name})" if machine else f"{name} (not in a register here)"
    if register.bits is None:
        return name
    return f"{name}[{register.first_bit}:{register.first_bit + register.bits}]"


def of_memory(piece: LocationPiece, first: int) -> str:
    assert piece.offset is not None
    assert (piece.address_space is None) == (piece.address_space_name is None)
    space = f"{piece.address_space_name} " if piece.address_space_name else ""
    start = piece.offset - first * piece.lane_stride
    lanes = of_stride(piece.lane_stride)
    if piece.register is None and piece.text is None:
        return f"{space}memory at {hex(start)}{lanes}"
    base = piece.text if piece.register is None else of_register(piece.register)
    sign = f" {'-' if start < 0 else '+'} {of_number(abs(start))}" if start else ""
    return f"{space}memory at {base}{sign}{lanes}"


def of_stride(stride: int) -> str:
    return f" {'-' if stride < 0 else '+'} {abs(stride)}*lane" if stride else ""


def of_number(value: int) -> str:
    return str(value) if abs(value) < 1 << 16 else hex(value)


def of_value(value: int, encoding: str, size: int | None) -> str:
    bits = 8 * (size if size in (1, 2, 4, 8) else 8)
    if encoding == "float" and size in FLOATS:
        return of_bytes(value.to_bytes(8, "little", signed=True)[:size], encoding, size)
    if encoding == "address":
        return hex(value % (1 << bits))
    if encoding == "boolean":
        return "true" if value else "false"
    return str(value if encoding in ("", "signed", "signed_char") else value % (1 << 64))


def of_bytes(data: bytes, encoding: str, size: int | None) -> str:
    if not data:
        return "of no bytes"
    if encoding == "bytes" or len(data) > 16:
        return f"bytes {data[:64].hex(' ')}" + ("..." if len(data) > 64 else "")
    if encoding == "float" and len(data) == size and size in FLOATS:
        return shortest(struct.unpack("<" + FLOATS[size], data)[0], size)
    if encoding in ("", "signed", "signed_char"):
        return str(int.from_bytes(data, "little", signed=True))
    return of_value(int.from_bytes(data, "little"), encoding, None)


def shortest(value: float, size: int) -> str:
    """The shortest decimal number that is this float, as ``repr`` gives it for doubles."""
    for digits in range(1, 18):
        text = f"{value:.{digits}g}"
        if struct.pack("<" + FLOATS[size], float(text)) == struct.pack("<" + FLOATS[size], value):
            break
    return text
