"""Resolves the inlined calls that NVIDIA's line tables carry: which row is a call site, and what the functions are called.

An extended instruction (0x90) sets two registers of the rows that follow: the *context*, which numbers the row of the call site in its sequence from 1, and a *name*. ptxas (seen from 11.8 to
13.5) makes three mistakes in what it writes, none of which contradicts the format, so that nvdisasm and eu-readelf repeat them:

* From sm_90 on it writes some rows twice and counts them once, so that every later number means another row. Two rules tell the row that is meant: rows which repeat address, file and line of
  the row before do not count; and the call site is the row just before the first one that uses a number. Where they differ, nobody knows where the call stands.
* Of two functions that are inlined at one call site it writes only the first one's name. Where the lines of the second stand elsewhere under its name, that is the name here.
* Below sm_90 it leaves rows out (``core.line_program.LineRows``).

nvlink writes the base of all names as 0 where it links for sm_90, so that names of all tables but the first are those of others: each table's strings lie behind those of the table before.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symd.core.line_header import LineHeader
from symd.core.line_program import NAMED
from symd.core.strings import IN_STRINGS, SECTION_BITS, Names, StringReader
from symd.debuginfo.dwarf.columns import LineColumns, Positions
from symd.model.columns import I64, U32, U64
from symd.model.debug_info import Doubt, RowCalls, RowFlag

Mask = NDArray[np.bool_]


def resolved(
    lines: LineColumns, context: U64, name: U64, strings: StringReader, headers: Sequence[LineHeader]
) -> tuple[RowCalls, tuple[str, ...]]:
    """The calls of ``lines`` and the names that they index. ``context`` and ``name`` are the registers of each row; the flags of the rows lose ``NAMED``."""
    is_named = (lines.flags & np.uint8(NAMED)) != 0
    lines.flags[...] &= np.uint8(0xFF & ~NAMED)
    sequence = lines.sequence.astype(np.int64)
    is_written = (lines.flags & np.uint8(RowFlag.IMPLIED)) == 0
    written_site = _numbered(context, sequence, lines.first, is_written)
    counted = _numbered(context, sequence, lines.first, is_written & ~_repeats(lines, sequence, is_written))
    first_use = _before_first_use(context, sequence)
    agreed = _same_place(lines, context, counted, first_use)
    site = np.where(agreed, counted, 0).astype(np.uint32)
    doubt = np.where((context > 0) & ~agreed, np.uint8(Doubt.CALLER), np.uint8(0))
    names = Names()
    written_base = np.array([header.names_base for header in headers], np.int64)
    written_name = _interned(names, strings, lines.table_of_row, name, written_site, written_base)
    base = _bases(strings, lines.table_of_row, name, context, written_base)
    own_name = written_name if base is written_base else _interned(names, strings, lines.table_of_row, name, site, base)
    own_name = np.where(site != 0, own_name, 0).astype(np.uint32)
    inlined = np.flatnonzero(site)
    place = np.unique(
        lines.file[inlined].astype(np.uint64) << np.uint64(32) | lines.line[inlined], return_inverse=True
    )[1]
    call = np.unique(sequence[inlined].astype(np.uint64) << np.uint64(32) | context[inlined], return_inverse=True)[1]
    own_name[inlined] = _told_apart(own_name[inlined], is_named[inlined], place, call, names.all())
    doubt |= np.where((own_name != written_name) & (site != 0), np.uint8(Doubt.NAME), np.uint8(0))
    # Of an implied row: what is written for the row before, in the same sequence.
    before = np.maximum.accumulate(np.where(is_written, np.arange(len(lines)), 0))
    is_said = before >= lines.first[sequence]
    written_site, written_name = (np.where(is_said, each[before], 0) for each in (written_site, written_name))
    return RowCalls(site, own_name, written_site.astype(np.uint32), written_name.astype(np.uint32), doubt), names.all()


def _numbered(context: U64, sequence: I64, first: Positions, counts: Mask) -> U32:
    """The row, plus one, that each context names where only some rows of a sequence are counted; 0 where that is none of those before."""
    numbers = np.flatnonzero(counts)
    before: I64 = np.cumsum(counts) - counts
    wanted = before[first][sequence] + np.minimum(context, np.uint64(len(context))).astype(np.int64)
    found = (context > 0) & (wanted <= before)
    site = np.zeros(len(context), np.uint32)
    site[found] = numbers[wanted[found] - 1] + 1
    return site


def _repeats(lines: LineColumns, sequence: I64, is_written: Mask) -> Mask:
    """Rows that the table writes twice: with the address, file and line of the written row before."""
    found = np.zeros(len(lines), np.bool_)
    row = np.flatnonzero(is_written)
    same = sequence[row[1:]] == sequence[row[:-1]]
    for column in (lines.address, lines.file, lines.line):
        same &= column[row[1:]] == column[row[:-1]]
    found[row[1:][same]] = True
    return found


def _before_first_use(context: U64, sequence: I64) -> U32:
    """The row, plus one, before the first one of the sequence that has the same context; 0 where that is of another sequence."""
    site = np.zeros(len(context), np.uint32)
    inlined = np.flatnonzero(context)
    key = sequence[inlined].astype(np.uint64) << np.uint64(32) | np.minimum(context[inlined], np.uint64(0xFFFFFFFF))
    _, first, number = np.unique(key, return_index=True, return_inverse=True)
    use = inlined[first]
    has_row_before = (use > 0) & (sequence[use - 1] == sequence[use])
    site[inlined] = np.where(has_row_before, use, 0)[number.reshape(-1)]
    return site


def _same_place(lines: LineColumns, context: U64, one: U32, other: U32) -> Mask:
    """Whether both rules lead to one place: one row, or rows of one position and one context."""
    known = (one > 0) & (other > 0)
    here, there = np.maximum(one, 1) - 1, np.maximum(other, 1) - 1
    same = (lines.file[here] == lines.file[there]) & (lines.line[here] == lines.line[there])
    agreed: Mask = known & ((one == other) | (same & (context[here] == context[there])))
    return agreed


def _interned(names: Names, strings: StringReader, table: U32, name: U64, site: U32, base: I64) -> U32:
    """The number of each row's name; 0 where nothing is inlined, and where the base of the table's names is not known (-1)."""
    base_of_row = base[table]
    place = np.minimum(np.maximum(base_of_row, 0).astype(np.uint64) + name, np.uint64((1 << SECTION_BITS) - 1))
    is_named = (site != 0) & (base_of_row >= 0)
    keys = np.where(is_named, place | np.uint64(IN_STRINGS << SECTION_BITS), np.uint64(0))
    return np.frombuffer(names.intern(strings, keys.data)[0], np.uint32)


def _bases(strings: StringReader, table: U32, name: U64, context: U64, written: I64) -> I64:
    """Where the names of each table count from, -1 where nobody knows. Where several tables have names and all bases are 0, that of each is the end of the
    strings of the one before. A base is wrong where a name would begin inside a string."""
    inlined = np.flatnonzero(context)
    keys = np.unique(
        table[inlined].astype(np.uint64) << np.uint64(32) | np.minimum(name[inlined], np.uint64(0xFFFFFFFF))
    )
    offsets: dict[int, list[int]] = defaultdict(list)
    for key in keys.tolist():
        offsets[key >> 32].append(key & 0xFFFFFFFF)
    is_lost = len(offsets) > 1 and not written[list(offsets)].any()
    found, end = written.copy(), 0
    for number, own in offsets.items():
        base = end if is_lost else int(written[number])
        if end < 0 or not all(_begins(strings, base + offset) for offset in own):
            found[number], end = -1, -1 if is_lost else 0
            continue
        found[number] = base
        if is_lost:
            end = max(base + offset + len(strings.at(IN_STRINGS, base + offset) or b"") + 1 for offset in own)
    return written if (found == written).all() else found


def _begins(strings: StringReader, offset: int) -> bool:
    """Whether a string begins there, and not the rest of one. What lies behind the last string has no name in any case."""
    return offset == 0 or strings.at(IN_STRINGS, offset - 1) in (b"", None)


def _told_apart(name: U32, is_named: Mask, place: I64, call: I64, names: Sequence[str]) -> U32:
    """The names of inlined rows, where some are those of another function; 0 where nobody knows which. ``place`` numbers files and lines,
    ``call`` sequences and contexts.

    The assembler writes a name only where the context changes, so that a row which it is not written for may be another function's that is inlined at the same place. The names
    that are written for rows of the same place, of the same call if there are any, decide. Instances of one template share their lines. Now and then it writes the name of the row before again:
    where several functions are written for one place, that of most calls is believed, and a row with another one has no name.
    """
    families = _Families(names)
    named = np.flatnonzero(is_named)
    written = _distinct(place[named], call[named], name[named])
    stale = _stale(written, families)
    at_call: dict[tuple[int, int], _Written] = defaultdict(families.none)
    anywhere: dict[int, _Written] = defaultdict(families.none)
    of_call: dict[int, _Written] = defaultdict(families.none)
    for one_place, one_call, one_name in written:
        family = families.of(one_name)
        every = at_call[one_place, one_call], anywhere[one_place], of_call[one_call]  # empty where no name is believed
        if (one_place, family) not in stale:
            for known in every:
                known[family].add(one_name)
    found = name.copy()
    unnamed = np.flatnonzero(~is_named)
    columns = np.stack([place[unnamed], call[unnamed], name[unnamed].astype(np.int64)], axis=1)
    distinct, number = np.unique(columns, axis=0, return_inverse=True)
    told = [
        _told(
            one_name,
            families.of(one_name),
            at_call.get((one_place, one_call)) or anywhere.get(one_place),
            of_call[one_call],
        )
        for one_place, one_call, one_name in distinct.tolist()
    ]
    if told:
        found[unnamed] = np.array(told, np.uint32)[number.reshape(-1)]
    if stale:
        kept = [
            (one_place, families.of(one)) not in stale
            for one_place, one in zip(place[named].tolist(), name[named].tolist(), strict=True)
        ]
        found[named[~np.array(kept, np.bool_)]] = 0
    return found


def _stale(written: list[list[int]], families: _Families) -> set[tuple[int, str]]:
    """The places and families that are not believed: another family has as many calls there, and neither is a lambda of the other."""
    calls: dict[int, Counter[str]] = defaultdict(Counter)
    for (place, family), many in Counter((place, families.of(name)) for place, _, name in written).items():
        calls[place][family] = many
    found: set[tuple[int, str]] = set()
    for place, known in calls.items():
        most, many = known.most_common(1)[0]
        found |= {(place, family) for family in known if family != most and not _is_local(family, most)}
        if any(family != most and others == many and not _is_local(family, most) for family, others in known.items()):
            found.add((place, most))
    return found


def _is_local(one: str, other: str) -> bool:
    """Whether one of two families is of a lambda or a local class of the other."""
    return one.startswith(f"_ZZ{other[2:]}") or other.startswith(f"_ZZ{one[2:]}")


def _distinct(*columns: NDArray[np.integer[Any]]) -> list[list[int]]:
    found: list[list[int]] = np.unique(
        np.stack([column.astype(np.int64) for column in columns], axis=1), axis=0
    ).tolist()
    return found


def _told(name: int, family: str, here: _Written | None, of_call: _Written) -> int:
    """One of ``_told_apart``: ``here`` are the names that are written for the place, ``of_call`` those that are written for the call."""
    if here is None or not name:
        return name
    if family not in here:
        only = next(iter(here.values()), set())
        return next(iter(only)) if len(here) == 1 == len(only) else 0
    return name if len(here) == 1 and of_call.get(family, set()) <= {name} else 0


_Written = dict[str, set[int]]
"""Names by their families."""


class _Families:
    """Functions by their mangled names (Itanium C++ ABI, 5.1): the instances of one template are a family."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names
        self._known: dict[int, str] = {}

    @staticmethod
    def none() -> _Written:
        return defaultdict(set)

    def of(self, name: int) -> str:
        """What all instances of the function's template are called; its own name where it is none, or cannot be read."""
        if name not in self._known:
            self._known[name] = _STRUCTOR.sub(r"\1E", without_template_arguments(self._names[name]))
        return self._known[name]


_STRUCTOR = re.compile(r"([CD])[0-5]E$")
"""Constructors and destructors come in kinds (of the object itself, of a base) that share their lines."""
_LONGEST_NUMBER = 9
"""Digits: no name is as long as such a number."""
_ARGUMENTS, _NESTED = ("I", "J", "X"), ("N", "L_Z", "F", "Z", "Ul", "Dt", "DT")
"""What begins a list of arguments, and what inside one has an end too."""
_TOKEN = re.compile(
    r"(\d+)|[CD][0-5](?=[EBI])|Ul|L_Z|L|A\d*_|Dv\d+_|D[a-zT]|S[tabsiod]|S[0-9A-Z]*_|T[0-9]*_|.", re.DOTALL
)
_QUALIFIERS = ("K", "V", "P", "R", "O", "St")
"""What stands in front of a type that it belongs to."""


def _behind_type(name: str, at: int) -> int:
    """Where the type ends that stands in a mangled name from ``at`` on."""
    depth = 0
    while (token := _TOKEN.match(name, at)) is not None:
        at = token.end() + int((token[1] or "0")[:_LONGEST_NUMBER])
        depth += (token[0] in _ARGUMENTS or token[0] in _NESTED) - (token[0] == "E")
        is_whole = token[0] not in _QUALIFIERS and token[0][0] != "A" and token[0][:2] != "Dv"
        if depth <= 0 and is_whole and name[at : at + 1] != "I":
            return at
    return len(name)


def without_template_arguments(name: str) -> str:
    """A mangled name up to the types of its parameters, without its template arguments: ``_ZN1a1fILi3EEEvf`` becomes ``_ZN1a1fE``. Another name stays as it is."""
    if not name.startswith("_Z"):
        return name
    kept, at, arguments = ["_Z"], 2, 0
    around: list[str] = []
    while at < len(name):
        token = _TOKEN.match(name, at)
        if token is None:
            return name
        at = token.end()
        if length := (token[1] or "")[:_LONGEST_NUMBER]:
            at += int(length)
        text = name[token.start() : at]
        if text == "L":
            at = name.find("E", _behind_type(name, at)) + 1 or len(name)  # the literal's value
        elif arguments or text in _ARGUMENTS:
            arguments += (text in _NESTED or text in _ARGUMENTS) - (text == "E")
            if not arguments and not around:
                break
        else:
            kept.append(text)
            is_whole = bool(token[1]) or (text == "E" and around.pop() == "N" if around else False)
            around += [text] if text in ("N", "Z", "Ul") else []
            if not around and is_whole and name[at : at + 1] != "I":
                break
    return "".join(kept)
