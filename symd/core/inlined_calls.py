# cython: language_level=3, boundscheck=True, wraparound=False
"""The inlined calls that NVIDIA's line tables carry: which row is a call site, and what the functions are called.

An extended instruction (0x90) sets two registers of the rows that follow: the *context*, which numbers the row of the
call site in its sequence from 1, and a *name*. ptxas (seen from 11.8 to 13.5) makes three mistakes in what it writes,
none of which contradicts the format, so that nvdisasm and eu-readelf repeat them:

* From sm_90 on it writes some rows twice and counts them once, so that every later number means another row. Two rules
  tell the row that is meant: rows which repeat address, file and line of the row before do not count; and the call site
  is the row just before the first one that uses a number. Where they differ, nobody knows where the call stands.
* Of two functions that are inlined at one call site it writes only the first one's name. Where the lines of the second
  stand elsewhere under its name, that is the name here.
* Below sm_90 it leaves rows out (``line_program.LineProgramRows._run``).

nvlink writes the base of all names as 0 where it links for sm_90, so that names of all tables but the first are those
of others: each table's strings lie behind those of the table before.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import cython

from symd.core.byte_reader import IN_STRINGS, SECTION_BITS, Names, StringReader
from symd.core.line_program import NAMED
from symd.core.name_families import NameFamilies
from symd.core.sorting import ranked
from symd.model.light_typing import Any

Families = dict[int, set[int]]
"""Names by their families."""

_U32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)
_IMPLIED = cython.declare(cython.uchar, 32)
"""``symd.model.debug_info.RowFlag.IMPLIED``."""
_NAMED = cython.declare(cython.uchar, NAMED)
_NAME, _CALLER = 1, 2
"""Bits of ``symd.model.debug_info.Doubt``."""
_OTHER_NAME = cython.declare(cython.uchar, _NAME)
_NO_CALLER = cython.declare(cython.uchar, _CALLER)
_LAST_PLACE = cython.declare(cython.ulonglong, (1 << SECTION_BITS) - 1)
_STRINGS_KEY = cython.declare(cython.ulonglong, IN_STRINGS << SECTION_BITS)


class InlinedCalls:
    """The calls of line rows, as ``symd.model.debug_info.RowCalls`` has them: ``site``, ``name``, ``written_site`` and
    ``written_name`` (u32) and ``doubt`` (u8), and the ``names`` that they index."""

    __slots__ = ("doubt", "name", "names", "site", "written_name", "written_site")

    def __init__(self, count: int) -> None:
        self.site, self.written_site = array("I", bytes(4 * count)), array("I", bytes(4 * count))
        self.name, self.written_name = self.site, self.site
        self.doubt = array("B", bytes(count))
        self.names: tuple[str, ...] = ("",)


def resolved(rows: Any, names_bases: Sequence[int], strings: StringReader) -> InlinedCalls:
    """The calls of ``rows`` (``line_program.ObjectRows``, with numbers of files), whose flags lose ``NAMED``.
    ``names_bases`` has for each program where its names count from."""
    found = InlinedCalls(len(rows.address))
    is_named = _find_sites(rows, found)
    names = Names()
    bases = _names_bases(rows, names_bases, strings)
    found.written_name, _ = names.intern(strings, _name_keys(rows, found.written_site, names_bases))
    if bases == [*names_bases]:
        found.name = array("I", found.written_name)
    else:
        found.name, _ = names.intern(strings, _name_keys(rows, found.site, bases))
    found.names = names.all()
    _correct_names(rows, found, is_named)
    _mark_doubts(rows, found)
    return found


@cython.cfunc
def _find_sites(rows: Any, found: InlinedCalls) -> bytearray:
    """Tell the call site of each row, as written and as is meant, and doubt those of which nobody knows; of each row
    whether the inlined call was set for it."""
    address = cython.declare(cython.const[cython.ulonglong][::1])
    file = cython.declare(cython.const[cython.uint][::1])
    line = cython.declare(cython.const[cython.uint][::1])
    flags = cython.declare(cython.uchar[::1])
    context = cython.declare(cython.const[cython.ulonglong][::1])
    ends = cython.declare(cython.const[cython.longlong][::1])
    site = cython.declare(cython.uint[::1])
    written_site = cython.declare(cython.uint[::1])
    doubt = cython.declare(cython.uchar[::1])
    is_named = cython.declare(cython.uchar[::1])
    address, file, line, flags, context, ends = rows.address, rows.file, rows.line, rows.flags, rows.context, rows.ends
    site, written_site, doubt = found.site, found.written_site, found.doubt
    named = bytearray(len(address))
    is_named = named
    sequence: cython.Py_ssize_t
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    longest: cython.Py_ssize_t = 0
    for sequence in range(len(ends)):
        longest, first = max(longest, ends[sequence] - first), ends[sequence]
    written_rows = cython.declare(cython.uint[::1])
    distinct_rows = cython.declare(cython.uint[::1])
    first_use_of = cython.declare(cython.uint[::1])
    nothing = bytes(4 * (longest + 1))
    written_rows, distinct_rows, first_use_of = array("I", nothing), array("I", nothing), array("I", nothing)
    written_count: cython.Py_ssize_t
    distinct_count: cython.Py_ssize_t
    size: cython.Py_ssize_t
    before: cython.Py_ssize_t  # the last written row of the sequence, or -1
    site_number: cython.ulonglong
    by_counting: cython.Py_ssize_t
    by_first_use: cython.Py_ssize_t
    first = 0
    for sequence in range(len(ends)):
        size = ends[sequence] - first
        for row in range(size + 1):
            first_use_of[row] = 0
        written_count = distinct_count = 0
        before = -1
        for row in range(first, ends[sequence]):
            is_named[row] = flags[row] & _NAMED != 0
            flags[row] &= ~_NAMED & 0xFF
            site_number = context[row]
            if site_number:
                doubt[row] = _NO_CALLER
                if site_number <= cython.cast(cython.ulonglong, size) and not first_use_of[site_number]:
                    first_use_of[site_number] = cython.cast(cython.uint, row - first + 1)
                if site_number <= cython.cast(cython.ulonglong, written_count):
                    written_site[row] = written_rows[site_number - 1] + 1
                if site_number <= cython.cast(cython.ulonglong, distinct_count) and first_use_of[site_number] > 1:
                    by_counting, by_first_use = distinct_rows[site_number - 1], first + first_use_of[site_number] - 2
                    if by_counting == by_first_use or (
                        file[by_counting] == file[by_first_use]
                        and line[by_counting] == line[by_first_use]
                        and context[by_counting] == context[by_first_use]
                    ):
                        site[row] = cython.cast(cython.uint, by_counting + 1)
                        doubt[row] = 0
            if not flags[row] & _IMPLIED:
                written_rows[written_count] = cython.cast(cython.uint, row)
                written_count += 1
                if (
                    before < 0
                    or address[row] != address[before]
                    or file[row] != file[before]
                    or line[row] != line[before]
                ):
                    distinct_rows[distinct_count] = cython.cast(cython.uint, row)
                    distinct_count += 1
                before = row
        first = ends[sequence]
    return named


@cython.cfunc
def _name_keys(rows: Any, sites: array[int], names_bases: Sequence[int]) -> array[int]:
    """Where the name of each row stands, as ``byte_reader.Names`` has it; 0 where nothing is inlined, and where the
    base of the table's names is not known (-1)."""
    ends = cython.declare(cython.const[cython.longlong][::1])
    name = cython.declare(cython.const[cython.ulonglong][::1])
    site = cython.declare(cython.const[cython.uint][::1])
    key = cython.declare(cython.ulonglong[::1])
    ends, name, site = rows.ends, rows.name, sites
    keys = array("Q", bytes(8 * len(site)))
    key = keys
    sequence: cython.Py_ssize_t
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    base: cython.longlong
    for sequence in range(len(ends)):
        base = names_bases[rows.program[sequence]]
        for row in range(first, ends[sequence] if base >= 0 else first):
            if site[row]:
                key[row] = min(base + name[row] & _U64, _LAST_PLACE) | _STRINGS_KEY
        first = ends[sequence]
    return keys


def _names_bases(rows: Any, written: Sequence[int], strings: StringReader) -> list[int]:
    """Where the names of each program count from, -1 where nobody knows. Where several programs have names and all
    bases are 0, that of each is the end of the strings of the one before. A base is wrong where a name would begin
    inside a string."""
    offsets: dict[int, list[int]] = {}
    for key in _distinct_names(rows):
        offsets.setdefault(key >> 32, []).append(key & 0xFFFFFFFF)
    is_lost = len(offsets) > 1 and not any(written[number] for number in offsets)
    found, end = [*written], 0
    for number, own in offsets.items():
        base = end if is_lost else written[number]
        if end < 0 or not all(_begins(strings, base + offset) for offset in own):
            found[number], end = -1, -1 if is_lost else 0
            continue
        found[number] = base
        if is_lost:
            end = max(base + offset + len(strings.at(IN_STRINGS, base + offset) or b"") + 1 for offset in own)
    return found


@cython.cfunc
def _distinct_names(rows: Any) -> array[int]:
    """The programs and names of rows that were inlined, each once, in order."""
    ends = cython.declare(cython.const[cython.longlong][::1])
    context = cython.declare(cython.const[cython.ulonglong][::1])
    name = cython.declare(cython.const[cython.ulonglong][::1])
    key = cython.declare(cython.ulonglong[::1])
    ends, context, name = rows.ends, rows.context, rows.name
    keys = array("Q", bytes(8 * len(name)))
    key = keys
    sequence: cython.Py_ssize_t
    row: cython.Py_ssize_t
    kept: cython.Py_ssize_t = 0
    first: cython.Py_ssize_t = 0
    one: cython.ulonglong
    program: cython.ulonglong
    for sequence in range(len(ends)):
        program = rows.program[sequence]
        for row in range(first, ends[sequence]):
            if context[row]:
                one = program << 32 | min(name[row], _U32)
                if not kept or key[kept - 1] != one:
                    key[kept] = one
                    kept += 1
        first = ends[sequence]
    return ranked(keys[:kept])[1]


def _begins(strings: StringReader, offset: int) -> bool:
    """Whether a string begins there, and not the rest of one. What lies behind the last string has no name in any
    case."""
    return offset == 0 or strings.at(IN_STRINGS, offset - 1) in (b"", None)


@cython.cfunc
@cython.exceptval(-1, check=True)
def _correct_names(rows: Any, found: InlinedCalls, named: bytearray) -> cython.int:
    """Correct the names of inlined rows, where some are those of another function; 0 where nobody knows which.

    The assembler writes a name only where the context changes, so that a row which it is not written for may be another
    function's that is inlined at the same place. The names that are written for rows of the same place, of the same
    call if there are any, decide. Instances of one template share their lines. Now and then it writes the name of the
    inlined row before again. So where several functions are written for one place, as for those that a macro makes,
    those are believed that some row there has and the inlined row before has not; where there are none, that of most
    calls. A row with another one has no name.
    """
    site = cython.declare(cython.const[cython.uint][::1])
    is_named = cython.declare(cython.const[cython.uchar][::1])
    name = cython.declare(cython.uint[::1])
    site, is_named, name = found.site, named, found.name
    places, calls = _places_and_calls(rows, found)
    place = cython.declare(cython.const[cython.uint][::1])
    call = cython.declare(cython.const[cython.uint][::1])
    pair = cython.declare(cython.const[cython.uint][::1])
    key = cython.declare(cython.ulonglong[::1])
    place, call = places, calls
    count: cython.Py_ssize_t = len(place)
    keys = array("Q", bytes(8 * count))
    key = keys
    at: cython.Py_ssize_t
    for at in range(count):
        key[at] = cython.cast(cython.ulonglong, place[at]) << 32 | call[at]
    numbers, pairs = ranked(keys)
    pair = numbers
    row: cython.Py_ssize_t
    at = 0
    for row in range(len(site)):
        if site[row]:
            key[at] = cython.cast(cython.ulonglong, pair[at]) << 32 | name[row]
            at += 1
        else:
            name[row] = 0
    numbers, distinct = ranked(keys)
    is_written, is_certain = bytearray(len(distinct)), bytearray(len(distinct))
    number = cython.declare(cython.const[cython.uint][::1])
    written = cython.declare(cython.uchar[::1])
    certain = cython.declare(cython.uchar[::1])
    is_new = cython.declare(cython.const[cython.uchar][::1])
    number, written, certain, is_new = numbers, is_written, is_certain, _new_names(rows, named)
    at = 0
    for row in range(len(site)):
        if site[row]:
            written[number[at]] |= is_named[row]
            certain[number[at]] |= is_new[row]
            at += 1
    corrected = cython.declare(cython.const[cython.uint][::1])
    kept = cython.declare(cython.const[cython.uchar][::1])
    corrected, kept = _meant_names(pairs, distinct, is_written, is_certain, found.names)
    at = 0
    for row in range(len(site)):
        if site[row]:
            if not is_named[row]:
                name[row] = corrected[number[at]]
            elif not kept[number[at]]:
                name[row] = 0
            at += 1
    return 0


@cython.cfunc
def _places_and_calls(rows: Any, found: InlinedCalls) -> tuple[array[int], array[int]]:
    """For each inlined row the number of its file and line, and that of its sequence and context."""
    ends = cython.declare(cython.const[cython.longlong][::1])
    file = cython.declare(cython.const[cython.uint][::1])
    line = cython.declare(cython.const[cython.uint][::1])
    context = cython.declare(cython.const[cython.ulonglong][::1])
    site = cython.declare(cython.const[cython.uint][::1])
    ends, file, line, context, site = rows.ends, rows.file, rows.line, rows.context, found.site
    place = cython.declare(cython.ulonglong[::1])
    call = cython.declare(cython.ulonglong[::1])
    places, calls = array("Q", bytes(8 * len(site))), array("Q", bytes(8 * len(site)))
    place, call = places, calls
    sequence: cython.Py_ssize_t
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    kept: cython.Py_ssize_t = 0
    for sequence in range(len(ends)):
        for row in range(first, ends[sequence]):
            if site[row]:
                place[kept] = cython.cast(cython.ulonglong, file[row]) << 32 | line[row]
                call[kept] = cython.cast(cython.ulonglong, sequence) << 32 | context[row]
                kept += 1
        first = ends[sequence]
    return ranked(places[:kept])[0], ranked(calls[:kept])[0]


@cython.cfunc
def _new_names(rows: Any, named: bytearray) -> bytearray:
    """Whether each row has a name that is written for it and is not that of the inlined row before."""
    ends = cython.declare(cython.const[cython.longlong][::1])
    context = cython.declare(cython.const[cython.ulonglong][::1])
    name = cython.declare(cython.const[cython.ulonglong][::1])
    is_named = cython.declare(cython.const[cython.uchar][::1])
    is_new = cython.declare(cython.uchar[::1])
    found = bytearray(len(named))
    ends, context, name, is_named, is_new = rows.ends, rows.context, rows.name, named, found
    sequence: cython.Py_ssize_t
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    before: cython.Py_ssize_t  # the last inlined row of the sequence, or -1
    for sequence in range(len(ends)):
        before = -1
        for row in range(first, ends[sequence]):
            if context[row]:
                is_new[row] = is_named[row] and (before < 0 or name[row] != name[before])
                before = row
        first = ends[sequence]
    return found


def _meant_names(
    pairs: Sequence[int], distinct: Sequence[int], is_written: bytearray, is_certain: bytearray, names: tuple[str, ...]
) -> tuple[array[int], bytearray]:
    """For each of ``distinct``, a number in ``pairs`` (place and call) and a name, the name of rows that it is not
    written for, and whether it is kept where it is. ``is_certain`` says of which a row has it that is not the name of
    the row before."""
    families = NameFamilies(names)
    triples = [(pairs[key >> 32] >> 32, key >> 32, key & 0xFFFFFFFF) for key in distinct]
    written = [
        (place, pair, families.of(name), name)
        for (place, pair, name), is_there in zip(triples, is_written, strict=True)
        if is_there
    ]
    certain = {
        (place, families.of(name)) for (place, _, name), is_sure in zip(triples, is_certain, strict=True) if is_sure
    }
    stale = _stale_families(written, certain, families)
    at_call: dict[int, Families] = {}
    anywhere: dict[int, Families] = {}
    of_call: dict[int, Families] = {}
    for place, pair, family, name in written:
        every = at_call.setdefault(pair, {}), anywhere.setdefault(place, {}), of_call.setdefault(pairs[pair] & _U32, {})
        if (place, family) not in stale:
            for known in every:
                known.setdefault(family, set()).add(name)
    corrected, is_kept = array("I"), bytearray()
    for place, pair, name in triples:
        here = at_call.get(pair) or anywhere.get(place)
        if here is None or not name:
            corrected.append(name)
        else:
            corrected.append(_meant_name(name, families.of(name), here, of_call.get(pairs[pair] & _U32, {})))
        is_kept.append(not stale or (place, families.of(name)) not in stale)
    return corrected, is_kept


def _stale_families(
    written: Sequence[tuple[int, int, int, int]], certain: set[tuple[int, int]], families: NameFamilies
) -> set[tuple[int, int]]:
    """The places and families that are not believed: others are ``certain`` there, or, where none is, another one has
    as many calls, and neither is a lambda of the other."""
    calls: dict[int, dict[int, int]] = {}
    for place, _, family, _ in written:
        known = calls.setdefault(place, {})
        known[family] = known.get(family, 0) + 1
    found: set[tuple[int, int]] = set()
    for place, known in calls.items():
        if len(known) == 1:
            continue
        sure = [family for family in known if (place, family) in certain]
        if sure:
            found |= {
                (place, family)
                for family in known
                if family not in sure and not any(families.is_local(family, one) for one in sure)
            }
            continue
        most = max(known, key=known.__getitem__)
        found |= {(place, family) for family in known if family != most and not families.is_local(family, most)}
        if any(
            family != most and many == known[most] and not families.is_local(family, most)
            for family, many in known.items()
        ):
            found.add((place, most))
    return found


def _meant_name(name: int, family: int, here: Families, of_call: Families) -> int:
    """The name of rows that ``name`` is not written for: ``here`` are the names that are written for the place,
    ``of_call`` those that are written for the call."""
    if family not in here:
        only = next(iter(here.values()), set())
        return next(iter(only)) if len(here) == 1 == len(only) else 0
    return name if len(here) == 1 and of_call.get(family, set()) <= {name} else 0


@cython.cfunc
@cython.exceptval(-1, check=True)
def _mark_doubts(rows: Any, found: InlinedCalls) -> cython.int:
    """Doubt the names that are not as written; of an implied row that is what is written for the row before, in the
    same sequence."""
    flags = cython.declare(cython.const[cython.uchar][::1])
    ends = cython.declare(cython.const[cython.longlong][::1])
    site = cython.declare(cython.const[cython.uint][::1])
    name = cython.declare(cython.const[cython.uint][::1])
    written_site = cython.declare(cython.uint[::1])
    written_name = cython.declare(cython.uint[::1])
    doubt = cython.declare(cython.uchar[::1])
    flags, ends, site, name, doubt = rows.flags, rows.ends, found.site, found.name, found.doubt
    written_site, written_name = found.written_site, found.written_name
    sequence: cython.Py_ssize_t
    row: cython.Py_ssize_t
    first: cython.Py_ssize_t = 0
    before: cython.Py_ssize_t
    for sequence in range(len(ends)):
        before = -1
        for row in range(first, ends[sequence]):
            if site[row] and name[row] != written_name[row]:
                doubt[row] |= _OTHER_NAME
            if not flags[row] & _IMPLIED:
                before = row
            else:
                written_site[row] = written_site[before] if before >= 0 else 0
                written_name[row] = written_name[before] if before >= 0 else 0
        first = ends[sequence]
    return 0
