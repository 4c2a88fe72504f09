"""SPIR-V debug data to rows and scopes. An address is the byte offset of an instruction; a row begins at the first
instruction that a line statement governs, never at the statement itself, and ends where the block ends.

Source: SPIR-V 1.6, 3.52.2 (OpLine, OpNoLine); NonSemantic.Shader.DebugInfo.100, DebugLine and DebugNoLine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from symd.containers.spirv_functions import bodies
from symd.containers.spirv_words import BLOCK_ENDS, Debug, Op, Words, parse
from symd.debuginfo.spirv_debug import DebugData, Interner, Places
from symd.debuginfo.spirv_scopes import ScopeBuilder
from symd.model import CodeObject, DebugInfo, LineRows, RowFlag

__all__ = ("read",)

Location = tuple[int, int, int]
"""File number (in ``DebugInfo.files``), line, column."""


def read(code: CodeObject) -> DebugInfo:
    """Rows and scopes of a SPIR-V module, section 0. Raises Malformed where the module does not split into instructions;
    whatever is wrong with debug operands only leaves out what they would have said."""
    words = parse(code.data)
    data = DebugData(words)
    files, names = Interner(), Interner()
    places = Places(words)
    rows = _RowBuilder(words, data, files, places).build()
    builder = ScopeBuilder(data, files, names, places)
    scopes = builder.build(bodies(words))
    return DebugInfo(rows, scopes, tuple(files.strings), tuple(names.strings), tuple(builder.warnings))


@dataclass(frozen=True, slots=True)
class _Event:
    """What happens at an instruction: ``kind`` is "line" or "debug" (a statement, ``location`` None when it ends one) or
    "end" (the block ends behind it)."""

    number: int
    kind: str
    location: Location | None = None


class _RowBuilder:
    def __init__(self, words: Words, data: DebugData, files: Interner, places: Places) -> None:
        self.words, self.data, self.files, self.places = words, data, files, places
        self.rows: list[tuple[int, Location | None]] = []
        self.line: Location | None = None
        self.debug: Location | None = None
        self.open = False

    def build(self) -> LineRows:
        for event in self._events():
            self._take(event)
        if self.open:
            self._emit(len(self.words), None)
        return self._columns()

    def _events(self) -> list[_Event]:
        events = [_Event(number, "end") for number in self.words.where(*BLOCK_ENDS)]
        events += [_Event(number, "line") for number in self.words.where(Op.NO_LINE)]
        events += [_Event(number, "line", self._op_line(ops)) for number, ops in self.words.each(Op.LINE)]
        for item in self.places.lines:
            location = self._debug_line(item.operands) if item.opcode == Debug.LINE else None
            events.append(_Event(item.number, "debug", location))
        return sorted(events, key=lambda event: event.number)

    def _op_line(self, ops: list[int]) -> Location | None:
        return (self.files(self.words.strings.get(ops[0], "")), ops[1], ops[2]) if len(ops) > 2 else None

    def _debug_line(self, ops: tuple[int, ...]) -> Location | None:
        if len(ops) < 2:
            return None
        return (
            self.files(self.data.file_of(ops[0])),
            self.words.value(ops, 1, by_id=True),
            self.words.value(ops, 3, by_id=True),
        )

    def _take(self, event: _Event) -> None:
        if event.kind == "end":
            self.line = self.debug = None
            if self.open:
                self._emit(event.number + 1, None)
            return
        at = int(self.places.governed[event.number])
        if event.kind == "debug":
            self.debug = event.location
        else:
            self.line = event.location
            if self.debug is not None:
                return  # a DebugLine outranks an OpLine as long as it lasts
        self._emit(at, self.debug or self.line)

    def _emit(self, number: int, location: Location | None) -> None:
        """Begin ``location`` (None: nothing) at an instruction; a later statement of the same run replaces it."""
        if self.rows and self.rows[-1][0] == number and not (location and self.rows[-1][1] is None):
            self.rows.pop()
            self.open = bool(self.rows) and self.rows[-1][1] is not None
        if location is not None or self.open:
            self.rows.append((number, location))
        self.open = location is not None

    def _columns(self) -> LineRows:
        last = len(self.words)
        rows = [row for row in self.rows if row[0] < last or row[1] is None]
        if not rows:
            return LineRows.empty()
        numbers = np.array([number for number, _ in rows], np.int64)
        table = np.array([(*(location or (0, 0, 0)), _flags(location)) for _, location in rows], np.uint32)
        return LineRows(
            section=np.zeros(len(rows), np.uint32),
            offset=self.places.offset[numbers],
            file=table[:, 0].copy(),
            line=table[:, 1].copy(),
            column=table[:, 2].copy(),
            flags=table[:, 3].astype(np.uint8),
        )


def _flags(location: Location | None) -> int:
    if location is None:
        return RowFlag.END_SEQUENCE
    return RowFlag.IS_STMT if location[1] else 0
