"""Where debug data contradicts itself, and what can be answered all the same.

Three things are said of code: line rows, scopes, and where functions are declared. In sound debug data they fit: each
row holds in the scope in which it begins and nowhere else, has a line that the scope's function can have
(``debuginfo.folded_sequences``), and nothing of one function lies inside another. Where they do not fit,

* a row is believed only in the scope in which it begins;
* a row that begins with a line which the scope's function cannot have is that function's whose lines they are, where
  the function around has exactly one copy of that: INFERRED; where it has none the row is believed;
* the range of a function in which code of another lies is believed only where a row of its own begins, up to the next
  row and not across that other code;
* where a linker folded functions of several declarations into the code of one, nobody knows whose it is; where only the
  line tables of several lead to the code of one, and none is known to be its own, its scopes hold and no line;
* so it is with a row outside of the text that the code object itself carries of its source;
* inlined calls that NVIDIA's line tables carry are those that are meant (``core.inlined_calls``): INFERRED where that
  is not what is written, CONTRADICTORY where nobody knows;
* code of a function symbol of which the debug data says nothing, neither a scope nor a row that begins there, has no
  line, although a row of the function in front is stretched over it: NO_LINE;
* an inlined call that is said to be the function around it has no name (``functions``), and its line holds:
  CONTRADICTORY; so is, without a line, a row outside of such calls that has a line of one which the function around
  cannot have;
* of all else only the scopes are answered that no reading doubts, without a line: CONTRADICTORY.

Words of this module:

* *piece*: text between two neighboring boundaries of any kind, with the line row that holds it;
* *area*: pieces without a boundary of a scope, kernel or symbol between them;
* *reading*: how one piece is answered where that is otherwise than its row and scope say (``_Readings``);
* *root*: the function around a scope: the outermost of its scopes;
* *speaker*: of functions that have the same range, because a linker folded them, the one with the lowest number. It
  stands for all of them where ranges are compared;
* *sole*: the only speaker whose own ranges hold an area;
* *stray*: an area that a block or a variable of a function claims although the function's own ranges do not;
* *alien*: an area in which functions contradict each other: several hold it, or one does and a scope of another, or a
  stray, is there;
* *torn*: an area in a range that has an alien area. Nothing that such a range alone says is believed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from symd.core import sweep
from symd.index.cover import view
from symd.index.format import Column
from symd.index.functions import lost_copies, roots_of
from symd.index.module_tables import FunctionLineTable, ModuleTables, ScopeTable
from symd.model.answers import Reason
from symd.model.columns import I64, Groups, among, combined, grouped
from symd.model.debug_info import NO_FUNCTION, NO_PARENT

_MAX_COPIES = 8
"""Copies of a function, or declarations before a line, that are looked at: of more none is the only one."""
_KEPT_CHAINS = 256
"""Groups of copies of which the calls around all of them are kept, as many numbers as calls are nested."""
_NOBODY = -1


class ModuleText(NamedTuple):
    """Text cut into pieces, and the areas that these belong to. ``row`` and ``area`` have an entry for each piece, the
    other columns one for each area."""

    row: NDArray[np.int32]  # the line row that holds the piece; -1: none
    area: NDArray[np.int32]
    scope: I64  # the innermost scope; -1: none
    symbol: I64  # the function symbol; -1: none
    in_kernel: NDArray[np.bool_]  # whether a kernel is around it
    machine_code: NDArray[np.bool_]  # False for SPIR-V, where a line and a scope are said independently of each other
    position: Column  # the text position where the area begins


class Contradictions(NamedTuple):
    """Pieces that are answered otherwise than rows and scopes say, in order. Where ``reason`` is INFERRED the row's
    position holds, else none does; where it is NO_LINE the function symbol holds."""

    piece: I64
    scope: I64  # -1: nobody's
    reason: Column
    torn: NDArray[np.bool_]  # whether functions contradict each other there, not only rows and scopes
    unnamed: NDArray[np.bool_]  # whether all holds but the name of a call around
    suspected: bool = False  # whether something looked wrong at all, if only for want of the rest of the debug data

    def __len__(self) -> int:
        return len(self.piece)


_NONE = np.zeros(0, np.bool_)
NOTHING = Contradictions(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.uint8), _NONE, _NONE)


class _Readings(NamedTuple):
    """Readings of pieces, no two of one piece."""

    piece: I64
    scope: I64  # the innermost scope that is answered, or _NOBODY
    reason: I64
    torn: NDArray[np.bool_]  # as in ``Contradictions``

    @classmethod
    def alike(cls, piece: I64, scope: I64, reason: Reason, *, torn: bool = False) -> _Readings:
        """Readings that have the reason in common."""
        return cls(piece, scope, np.full(len(piece), int(reason)), np.full(len(piece), torn))

    def overruled(self, by: _Readings) -> _Readings:
        """These, but for the pieces of which ``by`` has readings, and those."""
        if not len(by.piece):
            return self
        kept = ~among(self.piece, by.piece)
        return _Readings(
            piece=np.concatenate([self.piece[kept], by.piece]),
            scope=np.concatenate([self.scope[kept], by.scope]),
            reason=np.concatenate([self.reason[kept], by.reason]),
            torn=np.concatenate([self.torn[kept], by.torn]),
        )


_NO_PIECES = np.zeros(0, np.int64)
_NO_READINGS = _Readings(_NO_PIECES, _NO_PIECES, _NO_PIECES, _NONE)


def contradictions(module: ModuleTables, text: ModuleText) -> Contradictions:
    """All of a module's."""
    if not len(module.rows.line) or not len(text.row):
        return NOTHING
    reread, doubted = _reread_pieces(module, text), _doubted_pieces(module, text)
    is_suspected = len(reread.piece) > 0 or len(doubted.piece) > 0

    # The weakest first: of several readings of a piece the last wins. What a compiler is known to write wrong, or a
    # table says itself, goes before what is concluded from rows and scopes that do not fit. Code that was folded, or of
    # which nothing is said, has no reading that could be right. That a call has no name changes nothing else.
    rules = [_unnamed_pieces(module, text), reread, doubted]
    if len(module.scopes.parent):
        roots = roots_of(module.scopes.parent)
        claims = _claims(module, text, roots)
        suspects = _suspects(module, text, claims)
        folded = _folded_pieces(module.rows.line, text, claims)
        is_suspected |= len(suspects) > 0 or len(folded.piece) > 0
        rules.insert(1, _readings_of_suspects(module, text, roots, claims, suspects))
        rules += folded, _undescribed_pieces(module, text), _pieces_of_unnamed_calls(module, text, roots)

    found = _NO_READINGS
    for each in rules:
        found = found.overruled(by=each)
    if not is_suspected and not len(found.piece):
        return NOTHING

    order = np.argsort(found.piece)
    scope, reason = found.scope[order], found.reason[order]
    unnamed = np.append(module.scopes.differing(), np.False_)[scope] & (reason == Reason.INFERRED)
    reason[unnamed] = Reason.CONTRADICTORY
    return Contradictions(
        found.piece[order], scope, reason.astype(np.uint8), found.torn[order], unnamed, suspected=True
    )


def _readings_of_suspects(
    module: ModuleTables, text: ModuleText, roots: I64, claims: _Claims, suspects: I64
) -> _Readings:
    """The readings of the pieces of suspect rows."""
    if not len(suspects):
        return _NO_READINGS
    pieces = _SuspectPieces(module, text, roots, claims, suspects)
    found = pieces.readings()
    return found.overruled(by=_doubtful_readings(module, text, roots, pieces)) if len(pieces.doubtful) else found


def _folded_pieces(line: Column, text: ModuleText, claims: _Claims) -> _Readings:
    """The readings of the pieces of code that a linker folded; ``line`` has the line of each row."""
    piece = _pieces_with_lines(line, text, claims.folded)
    return _Readings.alike(piece, np.full(len(piece), _NOBODY), Reason.CONTRADICTORY, torn=True)


def _doubted_pieces(module: ModuleTables, text: ModuleText) -> _Readings:
    """The readings of the pieces of which line tables say several things, or what no source has: the scopes hold,
    and no line."""
    piece = _pieces_with_lines(module.rows.line, text, _areas_within(text, module.doubted))
    return _Readings.alike(piece, text.scope[text.area[piece]], Reason.CONTRADICTORY)


def _reread_pieces(module: ModuleTables, text: ModuleText) -> _Readings:
    """The readings of the pieces whose inlined calls are answered otherwise than their rows say (NVIDIA's line
    tables)."""
    span = module.written.over(text.position)[text.area]
    piece = np.flatnonzero((span >= 0) & (text.row >= 0))
    reason = module.written.reason[span[piece]].astype(np.int64)
    return _Readings(piece, text.scope[text.area[piece]], reason, np.zeros(len(piece), np.bool_))


def _unnamed_pieces(module: ModuleTables, text: ModuleText) -> _Readings:
    """The readings of the pieces in calls without a name and in what was inlined there: their rows and scopes are
    those that are written."""
    piece = _pieces_with_lines(module.rows.line, text, np.append(module.scopes.differing(), np.False_)[text.scope])
    return _Readings.alike(piece, text.scope[text.area[piece]], Reason.INFERRED)


def _pieces_of_unnamed_calls(module: ModuleTables, text: ModuleText, roots: I64) -> _Readings:
    """The readings of the pieces of a function's own code that have a line of a call without a name in it, and one
    that the function cannot have: it is before the function or in another file. A compiler lost a piece of the
    call; the function holds, and no line."""
    unnamed = np.append(module.scopes.differing(), np.False_)[text.scope]
    if not unnamed.any():
        return _NO_READINGS
    rows, functions = module.rows, module.functions
    piece = np.flatnonzero((text.scope >= 0)[text.area] & (text.row >= 0))
    row, scope = text.row[piece], text.scope[text.area[piece]]
    root, inside = roots[scope], unnamed[text.area[piece]]
    place = grouped(root, rows.file[row], rows.line[row]).number
    function = module.scopes.function[root]
    found = (scope == root) & (rows.line[row] > 0) & (function != NO_FUNCTION) & among(place, place[inside])
    known = np.flatnonzero(found)
    own, at = function[known], row[known]
    found[known] = (functions.file[own] != rows.file[at]) | (rows.line[at] < functions.first[own])
    return _Readings.alike(piece[found], scope[found], Reason.CONTRADICTORY)


def _undescribed_pieces(module: ModuleTables, text: ModuleText) -> _Readings:
    """The readings of the pieces of function symbols of which the debug data says nothing, where rows of functions
    in front are stretched over them."""
    bare = (text.symbol >= 0) & (text.scope < 0) & text.machine_code
    if not bare.any():
        return _NO_READINGS
    begins = np.flatnonzero((np.diff(text.row, prepend=-1) != 0) & (text.row >= 0))
    home = text.area[begins]
    described = np.append(module.symbols.name == 0, np.False_)
    described[text.symbol[home]] = True
    described[text.symbol[text.scope >= 0]] = True
    piece = np.flatnonzero((bare & ~described[text.symbol])[text.area] & (text.row >= 0))
    piece = piece[text.scope[home[np.searchsorted(begins, piece, side="right") - 1]] >= 0]
    return _Readings.alike(piece, np.full(len(piece), _NOBODY), Reason.NO_LINE)


def _pieces_with_lines(line: Column, text: ModuleText, areas: NDArray[np.bool_]) -> I64:
    """The pieces in these ``areas`` whose rows have a line."""
    if not areas.any():
        return np.zeros(0, np.int64)
    piece = np.flatnonzero(areas[text.area] & (text.row >= 0))
    return piece[line[text.row[piece]] > 0]


class _Claims(NamedTuple):
    """Which functions say that areas are theirs; an entry for each area."""

    sole: I64  # the number of the speaker, or _NOBODY
    torn: NDArray[np.bool_]
    stray: NDArray[np.bool_]
    folded: NDArray[np.bool_]  # in a range that functions of several declarations have


def _claims(module: ModuleTables, text: ModuleText, roots: I64) -> _Claims:
    count = len(text.position)
    functions = _FunctionRanges.of(module, text)
    held = _summed(functions.begin, functions.stop, np.ones(len(functions.begin), np.int64), count)
    sole = np.where(held == 1, _summed(functions.begin, functions.stop, functions.first, count), _NOBODY)
    stray = _areas_within(text, module.strays)
    of_scope = np.append(functions.speaker[roots], _NOBODY)[text.scope]
    alien = (held > 1) | ((held == 1) & ((of_scope != sole) | stray))
    torn = functions.areas_of(functions.have(alien), count)
    return _Claims(sole, torn, stray, folded=functions.areas_of(functions.several, count))


class _FunctionRanges(NamedTuple):
    """The ranges of functions, as stretches [begin, stop) of areas, each once however many functions have it."""

    begin: I64
    stop: I64
    first: I64  # the speaker
    several: NDArray[np.bool_]  # whether its functions are declared at several places
    speaker: I64  # for each scope, not for each range; that of a scope which is no function is the scope itself

    @classmethod
    def of(cls, module: ModuleTables, text: ModuleText) -> _FunctionRanges:
        ranges, parent = module.ranges, module.scopes.parent
        own = np.flatnonzero((parent[ranges.scope] == NO_PARENT) & (ranges.start < ranges.stop))
        scope, same = ranges.scope[own], grouped(ranges.start[own], ranges.stop[own])
        first = np.full(len(same.first), len(parent))
        np.minimum.at(first, same.number, scope)
        speaker = np.arange(len(parent))
        speaker[scope] = first[same.number]
        sample = own[same.sample]
        begin, stop = (np.searchsorted(text.position, each[sample]) for each in (ranges.start, ranges.stop))
        return cls(begin, stop, first, _has_several_declarations(module, scope, same), speaker)

    def have(self, areas: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the ranges have one of these areas."""
        before = np.append(0, np.cumsum(areas))
        found: NDArray[np.bool_] = before[self.stop] > before[self.begin]
        return found

    def areas_of(self, which: NDArray[np.bool_], count: int) -> NDArray[np.bool_]:
        """Which of ``count`` areas lie in these of the ranges."""
        return _within(self.begin[which], self.stop[which], count)


def _has_several_declarations(module: ModuleTables, scope: Column, same: Groups) -> NDArray[np.bool_]:
    """For each group of ``same`` whether its functions (``scope``) are declared at several places, as far as that is
    known. Instances of a template, and a function that several units have, are declared at one."""
    functions, function = module.functions, module.scopes.function[scope]
    known = function != NO_FUNCTION
    if len(same.first) == len(scope) or not known.any():
        return np.zeros(len(same.first), np.bool_)
    place = combined(functions.file, functions.first)
    least, most = np.full(len(same.first), np.iinfo(np.int64).max), np.full(len(same.first), -1)
    np.minimum.at(least, same.number[known], place[function[known]])
    np.maximum.at(most, same.number[known], place[function[known]])
    return most > least


def _areas_within(text: ModuleText, spans: Sequence[Column]) -> NDArray[np.bool_]:
    """Which areas lie in one of these spans, text positions (start, stop)."""
    begin, stop = (np.searchsorted(text.position, each) for each in spans)
    return _within(begin, stop, len(text.position))


def _within(begin: I64, stop: I64, count: int) -> NDArray[np.bool_]:
    """Which of ``count`` areas lie in one of these stretches."""
    found: NDArray[np.bool_] = np.zeros(count, np.bool_)
    if len(begin):
        found |= _summed(begin, stop, np.ones(len(begin), np.int64), count) > 0
    return found


def _summed(begin: I64, stop: I64, value: I64, count: int) -> I64:
    """For each of ``count`` areas the sum of the values of the stretches [begin, stop) of areas that hold it."""
    steps = np.zeros(count + 1, np.int64)
    np.add.at(steps, begin, value)
    np.subtract.at(steps, stop, value)
    return np.cumsum(steps[:-1])


def _suspects(module: ModuleTables, text: ModuleText, claims: _Claims) -> I64:
    """[first, stop) of the pieces of each row in which something may not fit."""
    lines = _LinesOfAreas.of(module, text)
    of_areas = (
        view(text.scope, np.int32),
        view(text.in_kernel, np.uint8),
        view(text.machine_code, np.uint8),
        view(claims.torn, np.uint8),
        *(view(column, np.uint32) for column in lines),
    )
    rows = view(module.rows.line, np.uint32), view(module.rows.file, np.uint32)
    found = sweep.suspect_rows(view(text.row, np.int32), view(text.area, np.int32), *rows, of_areas)
    return np.frombuffer(found, np.int64).reshape(-1, 2)


class _LinesOfAreas(NamedTuple):
    """The lines [first, end) of ``file`` that the function of each area's scope can have; ``end`` is 0 where nothing is
    known."""

    first: Column
    end: Column
    file: Column

    @classmethod
    def of(cls, module: ModuleTables, text: ModuleText) -> _LinesOfAreas:
        functions = module.functions
        if not len(functions.first):
            nothing = np.zeros(len(text.scope), np.uint8)
            return cls(nothing, nothing, nothing)
        function = np.append(module.scopes.function, np.uint32(NO_FUNCTION))[text.scope]
        known = function != NO_FUNCTION
        function[~known] = 0
        return cls(functions.first[function], np.where(known, functions.end[function], 0), functions.file[function])


class _SuspectPieces:
    """The pieces of suspect rows, one row after the other, and what can be said of all of them at once. ``doubtful``
    are the rows that have to be looked at by themselves: they begin with lines which the functions of their scopes do
    not say they can have."""

    def __init__(self, module: ModuleTables, text: ModuleText, roots: I64, claims: _Claims, suspects: I64) -> None:
        self.first = first = suspects[:, 0]
        size = suspects[:, 1] - first
        begin = np.cumsum(size) - size
        self.row = np.repeat(np.arange(len(first)), size)
        self.piece = np.arange(len(self.row)) + (first - begin)[self.row]
        area = text.area.take(self.piece)
        self.written = text.scope.take(area)
        self.scope = np.where(self.written >= 0, self.written, claims.sole.take(area))
        is_inlined = (self.scope >= 0) & (module.scopes.inlined[self.scope] != 0)
        self._inlined = np.where(is_inlined, self.scope, _NOBODY)
        self.said = (self.scope >= 0) | text.in_kernel.take(area)
        self.home = self.scope[begin]
        self.torn = np.logical_or.reduceat(claims.torn.take(area), begin)
        root = np.where(self.scope >= 0, roots[self.scope], _NOBODY)
        foreign = (root != root[begin][self.row]) | (~is_inlined & claims.stray.take(area))
        self._clashing = self.torn & np.logical_or.reduceat(foreign, begin)
        self.doubtful = np.flatnonzero(_lines_of_others(module, text.row[first], self.home) & ~self._clashing)

    def of_doubtful_rows(self) -> tuple[I64, I64]:
        """(the number of a row among ``doubtful``, the place of one of its pieces among all)."""
        number = np.full(len(self.first), _NOBODY)
        number[self.doubtful] = np.arange(len(self.doubtful))
        which = number[self.row]
        at = np.flatnonzero(which != _NOBODY)
        return which[at], at

    def readings(self) -> _Readings:
        """The readings of the pieces of all other rows."""
        row, scope = self.row, self.scope
        sound = ~self._clashing
        sound[self.doubtful] = False
        clashing, torn, at_home = self._clashing[row], self.torn[row], scope == self.home[row]
        inferred = sound[row] & at_home & (scope != self.written)
        unsure = clashing | (sound[row] & ~at_home & self.said)
        which = np.flatnonzero(inferred | unsure)
        answered = np.where(unsure & torn, self._inlined, scope)
        reason = np.where(unsure, Reason.CONTRADICTORY, Reason.INFERRED)
        return _Readings(self.piece[which], answered[which], reason[which], torn[which])


def _lines_of_others(module: ModuleTables, row: Column, scope: I64) -> NDArray[np.bool_]:
    """For each of these rows whether it has a line that the function of its ``scope`` (-1: none) does not say it can
    have."""
    functions = module.functions
    function = np.append(module.scopes.function, np.uint32(NO_FUNCTION))[scope]
    found: NDArray[np.bool_] = function != NO_FUNCTION
    known = np.flatnonzero(found)
    function, file, line = function[known], module.rows.file[row[known]], module.rows.line[row[known]]
    end = functions.end[function]
    found[known] = functions.file[function] != file
    found[known] |= (end > 0) & ((line < functions.first[function]) | (line >= end))
    return found


def _doubtful_readings(module: ModuleTables, text: ModuleText, roots: I64, pieces: _SuspectPieces) -> _Readings:
    """The readings of the pieces of doubtful rows, of which there must be one."""
    meant = _Owners.of(module, text, roots, pieces)
    which, at = pieces.of_doubtful_rows()
    home, torn, scope = meant.home[which], pieces.torn[pieces.row[at]], pieces.scope[at]
    at_home = (scope == home) & meant.are_known[which]
    believed = np.where(meant.are_known, meant.only, meant.home)[which]
    is_believed = (believed != _NOBODY) & ((scope == believed) | at_home)
    inferred = is_believed & (believed != pieces.written[at])
    unsure = ~is_believed & pieces.said[at]
    shared = np.flatnonzero(unsure & at_home)
    scope[shared] = meant.around(module, which[shared])
    answered = np.where(inferred, believed, np.where(torn, _inlined_calls(module, scope), scope))
    told = np.flatnonzero(inferred | unsure)
    reason = np.where(inferred, Reason.INFERRED, Reason.CONTRADICTORY)
    return _Readings(pieces.piece[at[told]], answered[told], reason[told], torn[told])


def _inlined_calls(module: ModuleTables, scope: I64) -> I64:
    """Inlined calls say of themselves where they are; functions cannot be believed, and are nobody here."""
    is_inlined = np.append(module.scopes.inlined, np.uint8(0))[scope] != 0
    return np.where(is_inlined, scope, _NOBODY)


class _Owners(NamedTuple):
    """The functions whose lines the doubtful rows have. ``home`` is the scope in which each row begins, ``are_known``
    whether it has owners: none are known where the function of that scope may have the line after all. ``only`` is the
    only copy of one of them in the function around ``home``, or _NOBODY. ``which`` are rows, ``declaration`` an owner
    of each."""

    home: I64
    are_known: NDArray[np.bool_]
    only: I64
    which: I64
    declaration: I64
    roots: I64
    copies: _Copies

    @classmethod
    def of(cls, module: ModuleTables, text: ModuleText, roots: I64, pieces: _SuspectPieces) -> _Owners:
        """A row of a root may have lost a piece of a copy of a function: there is one, and rows have the line, or would
        have it if the copy said where its code is."""
        rows, functions = module.rows, module.functions
        home, row = pieces.home[pieces.doubtful], text.row[pieces.first[pieces.doubtful]]
        function, line = module.scopes.function[home], rows.line[row]
        declarations = _Declarations(functions)
        copies = _Copies(module, roots, declarations)
        which, declaration = declarations.having(functions.unit[function], rows.file[row], line)
        root = roots[home][which]
        may_be_own = np.zeros(len(home), np.bool_)
        may_be_own[which[declaration == declarations.number[function[which]]]] = True
        lines = rows.line[text.row[pieces.first]]
        is_likely = _are_among((declaration, line[which]), _seen_lines(module, text, declarations, lines))
        if not is_likely.all():
            is_likely |= _are_among((root, declaration), _lost(module, roots, declarations))
        first, count = copies.places(root, declaration)
        meant = np.flatnonzero(is_likely & (count > 0) & ~may_be_own[which])
        which, declaration, first, count = which[meant], declaration[meant], first[meant], count[meant]
        total = np.zeros(len(home), np.int64)
        np.add.at(total, which, count)
        only = np.full(len(home), _NOBODY)
        alone = total[which] == 1
        only[which[alone]] = copies.scope[first[alone]]
        return cls(home, total > 0, only, which, declaration, roots, copies)

    def around(self, module: ModuleTables, rows: I64) -> list[int]:
        """The innermost scope that is around the home of each of these rows and around every copy of its owners."""
        common = _CommonScopes(module.scopes, self.roots, self.copies)
        begin, stop = (np.searchsorted(self.which, rows, side) for side in ("left", "right"))
        each = zip(self.home[rows].tolist(), begin.tolist(), stop.tolist(), strict=True)
        return [common.of(home, self.declaration[first:last].tolist()) for home, first, last in each]


def _are_among(some: tuple[Column, Column], others: tuple[Column, Column]) -> NDArray[np.bool_]:
    """Whether each of these pairs is one of the others."""
    key = combined(*(np.append(*each) for each in zip(some, others, strict=True)))
    return among(key[: len(some[0])], key[len(some[0]) :])


def _lost(module: ModuleTables, roots: I64, declarations: _Declarations) -> tuple[Column, Column]:
    """(function around, declaration) of each copy of which nothing says where its code is."""
    lost = np.flatnonzero(lost_copies(module, roots) & (module.scopes.function != NO_FUNCTION))
    return roots[lost], declarations.number[module.scopes.function[lost]]


def _seen_lines(
    module: ModuleTables, text: ModuleText, declarations: _Declarations, lines: Column
) -> tuple[Column, Column]:
    """(declaration, line) of the rows with one of these ``lines`` that begin in scopes of functions which can have
    them. What ``#line`` or the initializer of a member moves into a function has a line that nothing else has."""
    begins = np.flatnonzero(np.append(True, text.row[1:] != text.row[:-1]) & (text.row >= 0))
    begins = begins[among(module.rows.line[text.row[begins]], lines)]
    function = np.append(module.scopes.function, np.uint32(NO_FUNCTION))[text.scope[text.area[begins]]]
    row = text.row[begins[function != NO_FUNCTION]]
    function = function[function != NO_FUNCTION]
    functions, line = module.functions, module.rows.line[row]
    fits = (functions.first[function] <= line) & (line < functions.end[function])
    fits &= functions.file[function] == module.rows.file[row]
    return declarations.number[function[fits]], line[fits]


class _CommonScopes:
    """The scopes that are around others and around every copy of some declarations."""

    def __init__(self, scopes: ScopeTable, roots: I64, copies: _Copies) -> None:
        self._parent, self._roots, self._copies = scopes.parent, roots, copies
        self._known: dict[tuple[int, ...], int] = {}
        self._around_copies: dict[tuple[int, ...], set[int]] = {}

    def of(self, home: int, owners: list[int]) -> int:
        """The innermost of them."""
        known = self._known.get((home, *owners))
        if known is None:
            known = self._known[home, *owners] = self._around_all(home, owners)
        return known

    def _around_all(self, home: int, owners: list[int]) -> int:
        root = self._roots.item(home)
        copies = self._copies.of(root, owners)
        if len(copies) > _MAX_COPIES:
            return root
        shared = self._around_copies.get(tuple(copies))
        if shared is None:
            if len(self._around_copies) >= _KEPT_CHAINS:
                self._around_copies.clear()
            shared = self._around_copies[tuple(copies)] = set.intersection(*(set(self._chain(each)) for each in copies))
        path = []
        while home not in shared and (home, *owners) not in self._known:
            path.append((home, *owners))
            home = int(self._parent[home])
        found = home if home in shared else self._known[home, *owners]
        self._known.update(dict.fromkeys(path, found))
        return found

    def _chain(self, scope: int) -> list[int]:
        """The scope and those around it, innermost first."""
        found = [scope]
        while (around := int(self._parent[found[-1]])) != NO_PARENT:
            found.append(around)
        return found


class _Declarations:
    """The places where functions are declared, in the order of unit, file and line. All instances of a template are
    declared at one place: ``number`` has that of each function, of which there must be one."""

    def __init__(self, functions: FunctionLineTable) -> None:
        places = grouped(functions.unit, functions.file, functions.first)
        self.number = places.number
        self._places = [column[places.sample] for column in (functions.unit, functions.file, functions.first)]
        self._end = np.maximum.reduceat(functions.end[places.order], places.first)

    def having(self, unit: Column, file: Column, line: Column) -> tuple[I64, I64]:
        """(the number of an entry, a place in its unit whose functions can have its line), entry by entry."""
        count, asked = len(self._end), (unit, file, line)
        columns = [np.append(*each) for each in zip(self._places, asked, strict=True)]
        place, in_file = combined(*columns), combined(*columns[:2])
        stop = np.searchsorted(place[:count], place[count:], side="right")
        begin = np.maximum(np.searchsorted(in_file[:count], in_file[count:]), stop - _MAX_COPIES)
        size = stop - begin
        which = np.repeat(np.arange(len(size)), size)
        found = np.arange(len(which)) + (begin - (np.cumsum(size) - size))[which]
        fits = line[which] < self._end[found]
        return which[fits], found[fits]


class _Copies:
    """The scopes of the functions of each declaration in each tree: ``scope`` has them together."""

    def __init__(self, module: ModuleTables, roots: I64, declarations: _Declarations) -> None:
        scopes = module.scopes
        known = np.flatnonzero(scopes.function != NO_FUNCTION)
        key = roots[known] << 32 | declarations.number[scopes.function[known]]
        order = np.argsort(key, kind="stable")
        self.scope, self._key = known[order], key[order]

    def places(self, root: I64, declaration: I64) -> tuple[I64, I64]:
        """Where the copies of each declaration in the tree of each root begin in ``scope``, and how many there are."""
        key = root << 32 | declaration
        first = np.searchsorted(self._key, key)
        return first, np.searchsorted(self._key, key, side="right") - first

    def of(self, root: int, declarations: list[int]) -> list[int]:
        """The copies in the tree of ``root``, no more than one beyond _MAX_COPIES."""
        found: list[int] = []
        places = self.places(np.full(len(declarations), root), np.array(declarations, np.int64))
        for first, count in zip(*(each.tolist() for each in places), strict=True):
            found += self.scope[first : first + min(count, _MAX_COPIES + 1 - len(found))].tolist()
        return found
