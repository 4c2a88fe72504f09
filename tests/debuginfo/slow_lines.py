"""A line-table reader one can check by eye: DWARF 2, section 6.2, instruction by instruction, with NVIDIA's extended
opcode 0x90 (inlined call). The second opinion in tests of relocation and of the bulk decoder."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Row:
    """``context`` is the row number, from 1, of the call site in the same sequence; 0 where nothing is inlined."""

    address: int = 0
    file: int = 1
    line: int = 1
    context: int = 0
    name: str = ""
    end: bool = False


@dataclass
class Sequence:
    files: list[str]
    rows: list[Row] = field(default_factory=list)

    def at(self, address: int) -> int | None:
        """The number, from 1, of the row that an address has: the last of those at the greatest address below."""
        found = None
        for number, row in enumerate(self.rows, 1):
            if row.address <= address:
                found = number
        return None if found is None or self.rows[found - 1].end else found

    def chain(self, number: int) -> list[tuple[str, int]]:
        """(file, line) of a row and of the calls around it, innermost first."""
        result = []
        while number:
            row = self.rows[number - 1]
            result.append((self.files[row.file - 1] if self.files else "", row.line))
            number = row.context
        return result


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at

    def number(self, size: int) -> int:
        self.at += size
        return int.from_bytes(self.data[self.at - size : self.at], "little")

    def uleb(self) -> int:
        value = shift = 0
        while True:
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def sleb(self) -> int:
        start = self.at
        value = self.uleb()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> bits - 1 else value

    def text(self) -> str:
        end = self.data.index(0, self.at)
        value = self.data[self.at : end].decode()
        self.at = end + 1
        return value


def decode(data: bytes, strings: bytes = b"") -> list[Sequence]:
    """The sequences of every unit of a .debug_line section, in order."""
    result: list[Sequence] = []
    at = 0
    while at < len(data):
        reader = _Reader(data, at)
        at = reader.number(4) + reader.at
        result += _unit(reader, at, strings)
    return result


def _unit(reader: _Reader, end: int, strings: bytes) -> list[Sequence]:
    assert reader.number(2) == 2
    program = reader.number(4) + reader.at
    length, _, line_base, line_range, opcode_base = (reader.number(1) for _ in range(5))
    assert (length, line_base, line_range, opcode_base) == (1, 256 - 5, 14, 10)
    reader.at += opcode_base - 1
    folders = [""]
    while folder := reader.text():
        folders.append(folder)
    files = []
    while name := reader.text():
        folder = folders[reader.uleb()]
        files.append(f"{folder}/{name}" if folder else name)
        reader.uleb()
        reader.uleb()
    base = reader.number(4) if reader.at + 4 == program else 0
    assert reader.at == program
    result = []
    while reader.at < end:
        result.append(Sequence(files, _rows(reader, base, strings)))
    return result


def _rows(reader: _Reader, base: int, strings: bytes) -> list[Row]:
    rows: list[Row] = []
    state = Row()
    while True:
        opcode = reader.number(1)
        if opcode >= 10:
            state = replace(
                state, address=state.address + (opcode - 10) // 14, line=state.line + (opcode - 10) % 14 - 5
            )
            rows.append(state)
        elif opcode == 0:
            size = reader.uleb()
            stop = reader.at + size
            kind = reader.number(1)
            if kind == 1:
                return [*rows, replace(state, end=True)]
            if kind == 2:
                state = replace(state, address=reader.number(size - 1))
            elif kind == 0x90:
                context, name = reader.uleb(), reader.uleb()
                name_text = _Reader(strings, base + name).text() if context else ""
                state = replace(state, context=context, name=name_text)
            else:
                raise AssertionError(f"extended opcode {kind:#x}")
            assert reader.at == stop
        elif opcode == 1:
            rows.append(state)
        elif opcode == 2:
            state = replace(state, address=state.address + reader.uleb())
        elif opcode == 3:
            state = replace(state, line=state.line + reader.sleb())
        elif opcode == 4:
            state = replace(state, file=reader.uleb())
        elif opcode == 5:
            assert reader.uleb() == 0
        elif opcode == 8:
            state = replace(state, address=state.address + (255 - 10) // 14)
        else:
            assert opcode in (6, 7), opcode
