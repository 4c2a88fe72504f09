"""The row of a line program (DWARF 5, 6.2.5) that holds an address."""

from __future__ import annotations

from bisect import bisect_right

from symd.core.line_program import LineRows, ProgramParameters
from symd.model.plain_answers import NotPlain

OPERANDS = bytes((0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1))
"""standard_opcode_lengths, as all compilers write it."""
_LARGEST_STEP = 16
_MOST_SEQUENCES = 1 << 14
_MOST_ROWS = 1 << 22


class Row:
    """A row that holds from ``start`` to ``stop``: file register, line (0: none) and column."""

    __slots__ = ("column", "file", "line", "start", "stop")

    def __init__(self, start: int, stop: int, file: int, line: int, column: int) -> None:
        self.start, self.stop, self.file, self.line, self.column = start, stop, file, line, column


class LineProgram:
    """The rows of ``program``; the others are of its header: minimum_instruction_length, line_base, line_range and opcode_base (10 to 13).
    Raises NotPlain where it defines files or has inlined calls, where its last sequence does not end, or where addresses go down."""

    def __init__(self, program: bytes, step: int, line_base: int, line_range: int, opcode_base: int) -> None:
        if step > _LARGEST_STEP:
            raise NotPlain
        operands = OPERANDS[: opcode_base - 1]
        self._rows = rows = LineRows(program, ".debug_line", _check_rows)
        parameters = ProgramParameters(opcode_base, line_base, line_range, step, 1, True, operands)
        try:
            is_whole, files = rows.run(0, 0, len(program), parameters)
        except Exception as error:
            raise NotPlain from error
        rows.trim()
        if not is_whole or files or len(rows.context) or len(rows.ends) > _MOST_SEQUENCES:
            raise NotPlain

    def rows_to(self, since: int, address: int) -> list[Row]:
        """The rows from ``since`` on, or from where there are any, up to the one that holds ``address``. Raises NotPlain unless there is that,
        and no other sequence has a part in what they hold."""
        addresses = self._rows.address
        found: tuple[int, int] | None = None
        others = []
        begin = 0
        for end in self._rows.ends:
            start, stop = addresses[begin], addresses[end - 1]
            if start <= address < stop:
                if found is not None:
                    raise NotPlain
                found = begin, end
            else:
                others.append((start, stop))
            begin = end
        if found is None:
            raise NotPlain
        rows = self._part(*found, since, address)
        first, last = min(since, rows[0].start), rows[-1].stop
        if any(start < last and first < stop for start, stop in others):
            raise NotPlain
        return rows

    def _part(self, begin: int, end: int, since: int, address: int) -> list[Row]:
        """Of a sequence's rows those that hold something from ``since`` to ``address``."""
        columns = self._rows
        place = columns.address[begin:end].tolist()
        if place != sorted(place):
            raise NotPlain
        last = bisect_right(place, address)
        first = max(bisect_right(place, since) - 1, 0)
        return [
            Row(
                place[at], place[at + 1], columns.file[begin + at], columns.line[begin + at], columns.column[begin + at]
            )
            for at in range(first, last)
            if place[at] < place[at + 1]
        ]


def _check_rows(count: int) -> None:
    """A table of more rows is read whole (``dwarf``), with the limits that hold there."""
    if count > _MOST_ROWS:
        raise NotPlain
