"""SPIR-V debug data to rows and scopes. An address is the byte offset of an instruction; a row begins at the first
instruction that a line statement governs, never at the statement itself, and ends where the block ends.

Source: SPIR-V 1.6, 3.52.2 (OpLine, OpNoLine); NonSemantic.Shader.DebugInfo.100, DebugLine and DebugNoLine."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from symd.debuginfo.spirv.debug import DebugData, InstructionOffsets, StringNumbers
from symd.debuginfo.spirv.scopes import ScopeBuilder, Segments
from symd.formats.spirv.functions import SpirvModule
from symd.formats.spirv.grammar import BLOCK_ENDS, Op
from symd.formats.spirv.module import code_numbers, own_and_described, parsed_module
from symd.formats.spirv.words import Words
from symd.model.code import SEPARATE_SUFFIX, CodeObject, DebugScheme
from symd.model.columns import I64, U64
from symd.model.debug_info import DebugInfo, LineRows, RowFlag, Scopes, TextSpans

__all__ = ("read",)

_END, _LINE, _DEBUG, _SCOPE = range(4)
"""Kinds of event: the block ends after it, OpLine or OpNoLine, DebugLine or DebugNoLine, DebugScope or DebugNoScope."""


def read(code: CodeObject) -> DebugInfo:
    """Rows and scopes of a SPIR-V module, section 0. Raises Malformed where the module does not split into
    instructions; whatever is wrong with debug operands only leaves out what they would have said."""
    if code.debug is DebugScheme.NONE and "build_id" in code.facts:
        return _debug_data_elsewhere(code)
    own, described = own_and_described(code)
    info = _read(described)
    return info if described is own else _moved(info, described.words, own.words)


def _debug_data_elsewhere(code: CodeObject) -> DebugInfo:
    """What a module says that has an identifier instead of debug data."""
    bodies = [body for body in parsed_module(code).functions.values() if not body.declared]
    start, end = (np.array([getattr(body, name) for body in bodies], np.uint64) for name in ("offset", "end"))
    note = f"debug data is in {code.facts['build_id']}{SEPARATE_SUFFIX}, which is not here"
    nowhere = TextSpans(np.zeros(len(bodies), np.uint32), start, end)
    return DebugInfo(LineRows.empty(), Scopes.empty(), warnings=(note,), elsewhere=nowhere)


def _moved(info: DebugInfo, there: Words, here: Words) -> DebugInfo:
    """What was decoded of one module for another with the same code, instruction by instruction."""
    known, own = there.offsets[code_numbers(there)], code_numbers(here)
    offsets = np.append(here.offsets[own], here.offsets[own[-1:] + 1])

    def moved(column: U64) -> U64:
        place: U64 = offsets[np.minimum(np.searchsorted(known, column), len(offsets) - 1)]
        return place

    rows, scopes = info.rows, info.scopes
    at = moved(rows.offset)
    last = np.flatnonzero(np.append(at[1:] != at[:-1], True)[: len(at)])
    start, end = moved(scopes.range_offset), moved(scopes.range_end)
    held = np.flatnonzero(start < end)
    return replace(
        info,
        rows=LineRows(
            section=rows.section[last],
            offset=at[last],
            file=rows.file[last],
            line=rows.line[last],
            column=rows.column[last],
            flags=rows.flags[last],
        ),
        scopes=replace(
            scopes,
            range_scope=scopes.range_scope[held],
            range_section=scopes.range_section[held],
            range_offset=start[held],
            range_end=end[held],
        ),
    )


def _read(module: SpirvModule) -> DebugInfo:
    words = module.words
    data = DebugData(words)
    files, names = StringNumbers(), StringNumbers()
    places = InstructionOffsets(words)
    events = _events(words, data, files, places)
    builder = ScopeBuilder(data, files, names, places)
    scopes = builder.build(module.functions)
    entries = np.array([body.first for body in module.functions.values()], np.int64)
    stated = ((function, _place(files(file), line)) for function, file, line in data.stated_places())
    rows = _rows(events, places, _Code(builder.segments(), entries, stated))
    declared = builder.functions()
    return DebugInfo(rows, scopes, tuple(files.strings), tuple(names.strings), tuple(builder.warnings), declared)


@dataclass(frozen=True, slots=True)
class _Events:
    """Equally long columns, by instruction number. ``location`` holds file number, line and column of a statement that
    begins one; ``begins`` tells which do."""

    number: I64
    kind: I64
    begins: NDArray[np.bool_]
    location: I64


def _events(words: Words, data: DebugData, files: StringNumbers, places: InstructionOffsets) -> _Events:
    """What happens, in the order of the module; the module's end ends its last block."""
    blocks = np.append(words.where(*BLOCK_ENDS), len(words) - 1).astype(np.int64)
    lines = np.array(words.where(Op.Line, Op.NoLine), np.int64)
    scopes = np.array([item.number for item in places.scopes], np.int64)
    without_place = ((blocks, _END), (scopes, _SCOPE))
    parts = [
        (lines, _LINE, (words.opcode[lines] == Op.Line) & (words.count[lines] >= 4), _op_lines(words, files, lines)),
        (places.lines, _DEBUG, places.beginning, _debug_lines(words, data, files, places.lines)),
        *(
            (numbers, kind, np.zeros(len(numbers), np.bool_), np.zeros((len(numbers), 3), np.int64))
            for numbers, kind in without_place
        ),
    ]
    number = np.concatenate([part[0] for part in parts])
    order = np.argsort(number, kind="stable")
    return _Events(
        number[order],
        np.concatenate([np.full(len(part[0]), part[1], np.int64) for part in parts])[order],
        np.concatenate([part[2] for part in parts])[order],
        np.concatenate([part[3] for part in parts])[order],
    )


def _op_lines(words: Words, files: StringNumbers, numbers: I64) -> I64:
    """Operands: file (an OpString), line, column."""
    first, last = words.start[numbers] + 1, len(words.words) - 1
    ids, line, column = (words.words[np.minimum(first + at, last)].astype(np.int64) for at in range(3))
    return np.column_stack((_through(ids, lambda one: files(words.strings.get(one, ""))), line, column))


def _debug_lines(words: Words, data: DebugData, files: StringNumbers, numbers: I64) -> I64:
    """Operands after the four words of OpExtInst: source, line start and end, column start and end."""
    first, last = words.start[numbers] + 5, len(words.words) - 1
    ids, line, column = (words.words[np.minimum(first + at, last)].astype(np.int64) for at in (0, 1, 3))
    constant = lambda one: words.constants.get(one, 0)  # noqa: E731 - the name is the documentation
    file = _through(ids, lambda one: files(data.file_of(one)))
    return np.column_stack((file, _through(line, constant), _through(column, constant)))


@overload
def _place(file: int, line: int) -> int: ...
@overload
def _place(file: I64, line: I64) -> I64: ...
def _place(file: int | I64, line: int | I64) -> int | I64:
    return file << 32 | line


def _through(ids: I64, look_up: Callable[[int], int]) -> I64:
    """Each id replaced by what it stands for; every distinct one is looked up once."""
    distinct, back = np.unique(ids, return_inverse=True)
    return np.array([look_up(one) for one in distinct.tolist()], np.int64)[back]


class _Code(NamedTuple):
    """What tells whose a line is that stands where no scope does: the ``segments``, the number of the first instruction of
    each function, and (DebugFunction, place) of what the debug data says apart from code."""

    segments: Segments
    entries: I64
    stated: Iterable[tuple[int, int]]

    def foreign(self, start: I64, place: I64) -> NDArray[np.bool_]:
        """Which of the places that hold from these instructions on stand where no scope does, and are another function's: the
        debug data states them of that one, and nowhere of the function around."""
        at = np.searchsorted(self.segments.first, start, side="right") - 1
        named, own = self.segments.named[at], self.segments.own[at]
        entry = np.isin(start, self.entries)
        doubtful: NDArray[np.bool_] = (named == 0) & (own > 0) & (place > 0) & ~entry
        if not doubtful.any():
            return doubtful
        function = np.where(named > 0, named, np.where(entry, own, 0))
        saying = np.flatnonzero((function > 0) & np.isin(place, place[doubtful]))
        said = {*zip(function[saying].tolist(), place[saying].tolist(), strict=True), *self.stated}
        places = {each for function_id, each in said if function_id}
        for number in np.flatnonzero(doubtful).tolist():
            one = int(place[number])
            doubtful[number] = one in places and (int(own[number]), one) not in said
        return doubtful


def _rows(events: _Events, places: InstructionOffsets, code: _Code) -> LineRows:
    """A DebugLine outranks an OpLine as long as it lasts, and a DebugNoLine ends both; of several statements in a row the last
    one counts; where nothing is in force any more, or what is another function's, the sequence ends."""
    at = np.arange(len(events.number))
    block = np.maximum.accumulate(np.where(events.kind == _END, at, -1))
    line, debug = (np.maximum.accumulate(np.where(events.kind == kind, at, -1)) for kind in (_LINE, _DEBUG))
    outranked = (debug > block) & events.begins[debug]
    ended = np.maximum.accumulate(np.where((events.kind == _END) | ((events.kind == _DEBUG) & ~events.begins), at, -1))
    force = np.where(outranked, debug, np.where((line > ended) & events.begins[line], line, -1))
    start = np.where(events.kind == _END, events.number + 1, places.governed[events.number])
    keep = ~(outranked & (events.kind == _LINE))
    start, force, kind = start[keep], force[keep], events.kind[keep]
    last = np.append(start[1:] != start[:-1], True)
    start, force, kind = start[last], force[last], kind[last]
    file, line, _ = events.location[force].T
    force = np.where(code.foreign(start, np.where((force >= 0) & (line > 0), _place(file, line), 0)), -1, force)
    new = (kind != _SCOPE) | (force != np.append(-1, force[:-1]))
    start, force = start[new], force[new]
    known = force >= 0
    useful = known | np.append(False, known[:-1])
    start, force, known = start[useful], force[useful], known[useful]
    location = np.where(known[:, None], events.location[force], 0).astype(np.uint32)
    stated = np.where(location[:, 1] > 0, RowFlag.IS_STMT, 0)
    return LineRows(
        section=np.zeros(len(start), np.uint32),
        offset=places.offset[start],
        file=location[:, 0].copy(),
        line=location[:, 1].copy(),
        column=location[:, 2].copy(),
        flags=np.where(known, stated, RowFlag.END_SEQUENCE).astype(np.uint8),
    )
