# cython: language_level=3, boundscheck=True, wraparound=False
"""DIE trees (DWARF 5, 2.3 and 7.5.2) -> functions, inlined calls and whatever else is asked for, with their names,
ranges and offsets, unit after unit."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection

import cython

from symd.core.byte_reader import IN_INFO, IN_LINE_STRINGS, IN_STRINGS, SECTION_BITS

if cython.compiled:
    from cython.cimports.symd.core import abbreviations
else:
    from symd.core import abbreviations
if cython.compiled:
    from cython.cimports.symd.core import range_lists
else:
    from symd.core import range_lists
if cython.compiled:
    from cython.cimports.symd.core.byte_reader import ByteReader
else:
    from symd.core.byte_reader import ByteReader


_U32 = cython.declare(cython.ulonglong, 0xFFFFFFFF)
_U64 = cython.declare(cython.ulonglong, 0xFFFFFFFFFFFFFFFF)

# Bits of ``flags``.
_STATES_CODE = cython.declare(cython.uint, 1)
_HAS_LIST = cython.declare(cython.uint, 2)
_IS_DECLARATION = cython.declare(cython.uint, 4)
_IS_EXTERNAL = cython.declare(cython.uint, 8)
_HAS_CHILDREN = cython.declare(cython.uint, 16)
_LOCATION_LIST = cython.declare(cython.uint, 32)
_OTHER_LOCATION = cython.declare(cython.uint, 64)
_HAS_LOW = cython.declare(cython.uint, 128)
STATES_CODE, HAS_LIST, IS_DECLARATION, IS_EXTERNAL = _STATES_CODE, _HAS_LIST, _IS_DECLARATION, _IS_EXTERNAL
HAS_CHILDREN, LOCATION_LIST, OTHER_LOCATION, HAS_LOW = _HAS_CHILDREN, _LOCATION_LIST, _OTHER_LOCATION, _HAS_LOW
"""Bits of the flags of a row: it states DW_AT_low_pc and DW_AT_high_pc or a list of ranges; that list is read;
DW_AT_declaration; DW_AT_external; it has children; where it is stands in a list, whose offset ``location`` has; it is
said otherwise, and in no block; DW_AT_low_pc."""
NO_REFERENCE = 0xFFFFFFFFFFFFFFFF
NO_FILE = 0xFFFFFFFF

# The sections in which names stand, in the uppermost bits of their keys.
_SECTION_BITS = cython.declare(cython.int, SECTION_BITS)
_KEY_OFFSET = cython.declare(cython.ulonglong, (1 << SECTION_BITS) - 1)
_IN_INFO = cython.declare(cython.ulonglong, IN_INFO)
_IN_STRINGS = cython.declare(cython.ulonglong, IN_STRINGS)
_IN_LINE_STRINGS = cython.declare(cython.ulonglong, IN_LINE_STRINGS)

_TAGS = cython.declare(cython.uint, 128)
_MIN_GROWTH = cython.declare(cython.Py_ssize_t, 64)


_WIDE_NAMES = ("offset", "end", "name", "linkage_name", "origin", "specification", "location")
_NARROW_NAMES = (
    "unit", "parent", "depth", "tag", "flags", "call_file", "call_line", "call_column", "decl_file", "decl_line",
)  # fmt: skip
# Columns of ``wide`` and ``narrow`` in this order, and how many each has.
OFFSET, END, NAME, LINKAGE_NAME, ORIGIN, SPECIFICATION, LOCATION, WIDE = range(8)
UNIT, PARENT, DEPTH, TAG, FLAGS, CALL_FILE, CALL_LINE, CALL_COLUMN, DECL_FILE, DECL_LINE, NARROW = range(11)


@cython.cclass
class ValueReader(ByteReader):
    """Reads the values of DIEs of one unit after the other."""

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def pass_value(self, table: abbreviations.AbbreviationTable, layout: cython.int) -> cython.int:
        """Pass a value of any layout."""
        if layout == abbreviations.INDIRECT:
            layout = table.layout(self.form(table))
        if layout >= 0:
            self.skip(layout)
        elif layout in (abbreviations.LEB, abbreviations.SLEB):
            self.uleb()
        elif layout == abbreviations.STRING:
            self.pass_text()
        elif layout == abbreviations.BLOCK:
            self.skip(self.uleb())
        elif layout == abbreviations.BLOCK1:
            self.skip(self.uint(1))
        elif layout == abbreviations.BLOCK2:
            self.skip(self.uint(2))
        elif layout == abbreviations.BLOCK4:
            self.skip(self.uint(4))
        elif layout != abbreviations.CONSTANT:
            raise self.fail("an attribute of an unknown form")
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def form(self, table: abbreviations.AbbreviationTable) -> cython.ulonglong:
        """A form that stands in place of a value (DW_FORM_indirect), which may name another one."""
        form: cython.ulonglong = self.uleb()
        while table.layout(form) == abbreviations.INDIRECT:
            form = self.uleb()
        if form == abbreviations.ADDRX_OFFSET or table.layout(form) == abbreviations.CONSTANT:
            raise self.fail(f"DW_FORM_indirect names form {form:#x}, whose values stand elsewhere, too")
        return form

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def value(
        self, table: abbreviations.AbbreviationTable, layout: cython.int, constant: cython.ulonglong
    ) -> cython.ulonglong:
        """A value as it stands; of a string, a block or 16 bytes its offset, and the cursor passes it."""
        start: cython.ulonglong = self.at
        if layout > 0 and layout <= 8:
            return self.uint(layout)
        if layout == abbreviations.LEB:
            return self.uleb()
        if layout == abbreviations.SLEB:
            return self.sleb()
        if layout == abbreviations.CONSTANT:
            return constant
        if layout == 0:
            return 1
        self.pass_value(table, layout)
        return start


@cython.cclass
class DieRows(ValueReader):
    """DIEs of the units that are read one after the other, in the order of ``.debug_info``: ``count`` rows of two
    tables, each an array in which one row follows the other.

    ``wide``, of WIDE u64 a row: OFFSET in ``.debug_info``, and END, the offset behind its subtree (OFFSET where it has
    no children); NAME and LINKAGE_NAME say where the strings stand (keys of ``symd.core.byte_reader``); ORIGIN and
    SPECIFICATION are offsets in ``.debug_info``, or NO_REFERENCE; LOCATION is the offset of a list. ``narrow``, of
    NARROW u32 a row: UNIT; PARENT, the number of the nearest row around it plus one, or 0; DEPTH, which is 0 of a
    unit's own DIE; TAG, at most the largest u32; FLAGS; CALL_FILE and DECL_FILE are registers of the unit's line table,
    or NO_FILE; CALL_LINE, CALL_COLUMN and DECL_LINE are modulo 2**32, 0 where nothing is said. ``ranges`` has the code
    of each row.

    Objects may follow each other: OFFSET, END, ORIGIN and SPECIFICATION are in the sections of a row's own object, UNIT
    and PARENT are numbers among all. ``missing_offsets`` and ``missing_lists`` count indexes that lead out of
    ``.debug_str_offsets`` and ``.debug_rnglists`` of the object that was opened last. Threads may not share one."""

    def __init__(self) -> None:
        self._capacity = 0
        self._open = array("q", bytes(8 * _MIN_GROWTH))
        self.wide, self.narrow = array("Q"), array("I")
        self._release_views()

    def begin(
        self,
        ranges: range_lists.RangeRows,
        tags: Collection[int],
        with_children: bool,
        check_rows: Callable[[int], object] | None = None,
    ) -> None:
        """Forget all rows. Further ones are the DIEs of ``tags`` (each below 128), and all DIEs that have children
        where ``with_children``; ``ranges`` gets their code. ``check_rows`` is told how many rows there will be at least
        whenever the tables grow, and may raise."""
        self.section, self.ranges = ".debug_info", ranges
        wanted = 0
        for tag in tags:
            wanted |= 1 << tag
        self._low_tags, self._high_tags = wanted & _U64, wanted >> 64
        self._with_children, self._check_rows = with_children, check_rows
        self.count = 0

    def open(self, info: bytes, string_offsets: bytes, lists: bytes) -> None:
        """Go on with the units of another object, whose sections these are; the rows so far stay."""
        self.data = info
        self._string_offsets = self._lists = _NO_SECTION
        if string_offsets:
            self._string_offsets = string_offsets
        if lists:
            self._lists = lists
        self.missing_offsets = self.missing_lists = 0

    def column(self, name: str) -> array[int]:
        """The entries of one column, copied: it is called as above, in small letters."""
        found: array[int]
        if name in _WIDE_NAMES:
            found = self.wide[_WIDE_NAMES.index(name) : self.count * int(WIDE) : int(WIDE)]
        else:
            found = self.narrow[_NARROW_NAMES.index(name) : self.count * int(NARROW) : int(NARROW)]
        return found

    def read(
        self, unit: range_lists.UnitParameters, table: abbreviations.AbbreviationTable, only_first: bool = False
    ) -> None:
        """Add the rows of a unit's tree, or of its first DIE alone; ``table`` are its abbreviations. Raises Malformed,
        and what ``check_rows`` raises, without having added a row."""
        count: cython.Py_ssize_t = self.count
        offsets: cython.Py_ssize_t = self.missing_offsets
        lists: cython.Py_ssize_t = self.missing_lists
        rows: cython.Py_ssize_t = self.ranges.count
        damaged: cython.Py_ssize_t = self.ranges.damaged
        missing: cython.Py_ssize_t = self.ranges.missing
        self.at, self.end = unit.dies, min(unit.end, len(self.data))
        try:
            self._walk(unit, table, only_first)
        except BaseException:
            self.count, self.missing_offsets, self.missing_lists = count, offsets, lists
            self.ranges.restore(rows, damaged, missing)
            raise

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _walk(
        self, unit: range_lists.UnitParameters, table: abbreviations.AbbreviationTable, only_first: cython.bint
    ) -> cython.int:
        limit: cython.Py_ssize_t = self.end
        start: cython.Py_ssize_t
        depth: cython.Py_ssize_t = 0
        parent_row: cython.longlong = 0  # the number of the nearest row around, plus one
        child_parent: cython.longlong  # the same of the DIE's children
        opened: cython.longlong
        number: cython.int
        code: cython.ulonglong
        tag: cython.uint
        has_children: cython.bint
        while self.at < limit:
            start = self.at
            code = self.uleb()
            if code == 0:
                depth -= 1
                if depth >= 0:
                    opened = self._open[depth]
                    if opened & 1:  # the DIE that ends here is the row ``parent_row - 1``
                        self.wide_view[WIDE * (parent_row - 1) + END] = self.at
                    parent_row = opened >> 1
            else:
                number = table.find(code)
                if number < 0:
                    self.at = start
                    raise self.fail(f"abbreviation {code} is not declared")
                tag = table.tags[number]
                has_children = table.have_children[number]
                child_parent = parent_row
                if self._is_wanted(tag) or (self._with_children and has_children) or only_first:
                    self._add(unit, table, number, start, parent_row, depth)
                    child_parent = self.count
                else:
                    self._pass(table, number)
                if has_children:
                    if depth == cython.cast(cython.Py_ssize_t, len(self._open)):
                        self._open_more()
                    # The lowest bit says that the DIE has a row of its own, whose END is not known yet.
                    self._open[depth] = parent_row << 1 | (child_parent != parent_row)
                    parent_row = child_parent
                    depth += 1
            if depth <= 0 or only_first:
                break
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _is_wanted(self, tag: cython.uint) -> cython.bint:
        if tag >= _TAGS:
            return False
        return (self._low_tags >> tag if tag < 64 else self._high_tags >> (tag - 64)) & 1

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _open_more(self) -> cython.int:
        if self._check_rows is not None:  # each DIE that is open takes memory, too
            self._check_rows(self.count + len(self._open))
        longer = array("q", self._open)
        longer.frombytes(bytes(8 * len(longer)))
        self._open = longer
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _pass(self, table: abbreviations.AbbreviationTable, number: cython.int) -> cython.int:
        """Pass the values of a DIE."""
        step: cython.Py_ssize_t
        layout: cython.int
        for step in range(table.first_skip[number], table.first_skip[number + 1]):
            layout = table.skip_steps[step]
            if layout > 0:
                self.skip(layout)
            else:
                self.pass_value(table, layout)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _add(
        self,
        unit: range_lists.UnitParameters,
        table: abbreviations.AbbreviationTable,
        number: cython.int,
        start: cython.Py_ssize_t,
        parent_row: cython.longlong,
        depth: cython.Py_ssize_t,
    ) -> cython.int:
        """One more row: the DIE at ``start``, at whose values the cursor is."""
        row: cython.Py_ssize_t = self.count
        if row == self._capacity:
            self._grow()
        wide: cython.Py_ssize_t = WIDE * row
        narrow: cython.Py_ssize_t = NARROW * row
        name: cython.ulonglong = 0
        linkage_name: cython.ulonglong = 0
        low: cython.ulonglong = 0
        high: cython.ulonglong = 0
        list_offset: cython.ulonglong = 0
        location: cython.ulonglong = 0
        has_low: cython.bint = False
        has_high: cython.bint = False
        is_size: cython.bint = False
        has_list: cython.bint = False
        flags: cython.uint = _HAS_CHILDREN if table.have_children[number] else 0
        value: cython.ulonglong
        form: cython.ulonglong
        step: cython.Py_ssize_t
        packed: cython.uint
        attribute: cython.int
        kind: cython.int
        layout: cython.int

        # What a DIE may leave unsaid.
        self.wide_view[wide + ORIGIN] = self.wide_view[wide + SPECIFICATION] = _U64
        self.narrow_view[narrow + CALL_FILE] = self.narrow_view[narrow + DECL_FILE] = cython.cast(cython.uint, _U32)
        self.narrow_view[narrow + CALL_LINE] = self.narrow_view[narrow + CALL_COLUMN] = self.narrow_view[
            narrow + DECL_LINE
        ] = 0

        # Attributes stand in any order, so that what several say together, such as the code, waits for the last.
        for step in range(table.first_read[number], table.first_read[number + 1]):
            packed = table.read_steps[step]
            attribute = packed & abbreviations.ATTRIBUTE_MASK
            layout = cython.cast(cython.int, packed >> abbreviations.LAYOUT_SHIFT) - abbreviations.LAYOUT_BIAS
            if attribute == abbreviations.SKIPPED:
                if layout > 0:
                    self.skip(layout)
                else:
                    self.pass_value(table, layout)
                continue
            kind = packed >> abbreviations.KIND_SHIFT & abbreviations.KIND_MASK
            if layout == abbreviations.INDIRECT:
                form = self.form(table)
                kind, layout = table.kind(form), table.layout(form)
            value = self.value(table, layout, table.constants[step])

            if attribute == abbreviations.NAME:
                name = self._string(unit, kind, value)
            elif attribute in (abbreviations.LINKAGE_NAME, abbreviations.MIPS_LINKAGE_NAME):
                if linkage_name == 0:
                    linkage_name = self._string(unit, kind, value)
            elif attribute == abbreviations.ORIGIN:
                self.wide_view[wide + ORIGIN] = self._reference(unit, kind, value)
            elif attribute == abbreviations.SPECIFICATION:
                self.wide_view[wide + SPECIFICATION] = self._reference(unit, kind, value)
            elif attribute == abbreviations.LOW_PC:
                low = self._address(unit, kind, value)
                has_low = self.ranges.last_found
            elif attribute == abbreviations.LOW_PC_OFFSET:
                if not range_lists.is_dead(low, unit.address_size):
                    low = (low + value) & _U64
            elif attribute == abbreviations.HIGH_PC:
                if kind in (abbreviations.CONSTANT_KIND, abbreviations.DATA_KIND):
                    high, has_high, is_size = value, True, True
                else:
                    high = self._address(unit, kind, value)
                    has_high = self.ranges.last_found
            elif attribute == abbreviations.RANGES:
                if kind in (abbreviations.SEC_OFFSET_KIND, abbreviations.DATA_KIND):
                    list_offset, has_list = (value + unit.ranges_base) & _U64, True
                elif kind == abbreviations.RNGLISTX_KIND:
                    # In front of the offsets the table says how many there are.
                    has_list = value < self.ranges.entry(self._lists, (unit.rnglists_base - 4) & _U64, 0, 4)
                    if has_list:
                        value = self.ranges.entry(self._lists, unit.rnglists_base, value, unit.offset_size)
                        has_list = self.ranges.last_found
                    list_offset = (value + unit.rnglists_base) & _U64
                    self.missing_lists += not has_list
            elif attribute == abbreviations.DECLARATION:
                if value:
                    flags |= _IS_DECLARATION
            elif attribute == abbreviations.EXTERNAL:
                if value:
                    flags |= _IS_EXTERNAL
            elif attribute == abbreviations.LOCATION:
                if kind == abbreviations.SEC_OFFSET_KIND:
                    flags |= _LOCATION_LIST
                    location = value
                elif kind != abbreviations.BLOCK_KIND:
                    flags |= _OTHER_LOCATION
            elif kind in (abbreviations.CONSTANT_KIND, abbreviations.DATA_KIND):
                if attribute == abbreviations.CALL_FILE:
                    self.narrow_view[narrow + CALL_FILE] = cython.cast(cython.uint, min(_U32, value))
                elif attribute == abbreviations.CALL_LINE:
                    self.narrow_view[narrow + CALL_LINE] = cython.cast(cython.uint, value & _U32)
                elif attribute == abbreviations.CALL_COLUMN:
                    self.narrow_view[narrow + CALL_COLUMN] = cython.cast(cython.uint, value & _U32)
                elif attribute == abbreviations.DECL_FILE:
                    self.narrow_view[narrow + DECL_FILE] = cython.cast(cython.uint, min(_U32, value))
                elif attribute == abbreviations.DECL_LINE:
                    self.narrow_view[narrow + DECL_LINE] = cython.cast(cython.uint, value & _U32)

        # The code that the DIE states.
        if has_low:
            flags |= _HAS_LOW
        if has_low and has_high:  # these go before a list
            flags |= _STATES_CODE
            self.ranges.add(cython.cast(cython.uint, row), low, (high + low) & _U64 if is_size else high)
        elif has_list:
            flags |= _STATES_CODE | _HAS_LIST
            self.ranges.read(cython.cast(cython.uint, row), list_offset, unit)

        # The rest of the row.
        self.wide_view[wide + OFFSET] = start
        self.wide_view[wide + END] = self.end if table.have_children[number] else start
        self.wide_view[wide + NAME], self.wide_view[wide + LINKAGE_NAME] = name, linkage_name
        self.wide_view[wide + LOCATION] = location
        self.narrow_view[narrow + UNIT], self.narrow_view[narrow + PARENT] = (
            unit.number,
            cython.cast(cython.uint, parent_row),
        )
        self.narrow_view[narrow + DEPTH], self.narrow_view[narrow + TAG] = depth, table.tags[number]
        self.narrow_view[narrow + FLAGS] = flags
        self.count = row + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _address(self, unit: range_lists.UnitParameters, kind: cython.int, value: cython.ulonglong) -> cython.ulonglong:
        """What a value of class address says; ``ranges.last_found`` tells whether it is an address that is there."""
        if kind == abbreviations.ADDRX_KIND:
            return self.ranges.address(value, unit)
        self.ranges.last_found = kind == abbreviations.ADDR_KIND
        return value

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _string(self, unit: range_lists.UnitParameters, kind: cython.int, value: cython.ulonglong) -> cython.ulonglong:
        """The key of a string."""
        section: cython.ulonglong = _IN_STRINGS
        if kind == abbreviations.STRING_KIND:
            return value | _IN_INFO << _SECTION_BITS
        if kind == abbreviations.STRX_KIND:
            value = self.ranges.entry(self._string_offsets, unit.str_offsets_base, value, unit.offset_size)
            if not self.ranges.last_found:
                self.missing_offsets += 1
                return 0
        elif kind == abbreviations.LINE_STRP_KIND:
            section = _IN_LINE_STRINGS
        elif kind != abbreviations.STRP_KIND:
            return 0
        return min(_KEY_OFFSET, value) | section << _SECTION_BITS

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _reference(
        self, unit: range_lists.UnitParameters, kind: cython.int, value: cython.ulonglong
    ) -> cython.ulonglong:
        """The offset of the DIE that is referred to."""
        if kind == abbreviations.REF_KIND:
            return (value + unit.offset) & _U64
        return value if kind == abbreviations.REF_ADDR_KIND else _U64

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def take_scratch(self) -> cython.int:
        """Make scratch space for whoever works on the rows: for each 2 numbers in ``signed_scratch``, 4 in
        ``narrow_scratch`` and 2 in ``wide_scratch``, which may hold anything."""
        self.signed_scratch = memoryview(array("i", bytes(8 * self.count)))
        self.narrow_scratch = memoryview(array("I", bytes(16 * self.count)))
        self.wide_scratch = memoryview(array("Q", bytes(16 * self.count)))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _grow(self) -> cython.int:
        """Make the tables half as long again."""
        if self._check_rows is not None:
            self._check_rows(self.count + 1)
        more: cython.Py_ssize_t = self.count // 2 + _MIN_GROWTH
        self._release_views()
        try:
            self.wide.frombytes(bytes(8 * WIDE * more))
            self.narrow.frombytes(bytes(4 * NARROW * more))
            self._capacity += more
        finally:  # an array that did not grow ends at ``_capacity``, and one that did behind it
            self._acquire_views()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _acquire_views(self) -> cython.int:
        """Look into the arrays."""
        self.wide_view, self.narrow_view = self.wide, self.narrow
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _release_views(self) -> cython.int:
        """An array that somebody looks into cannot grow."""
        self.wide_view, self.narrow_view = _NO_WIDE, _NO_NARROW
        return 0


_NO_SECTION = cython.declare(cython.const[cython.uchar][::1], b"")
_NO_WIDE = cython.declare(cython.ulonglong[::1], array("Q"))
_NO_NARROW = cython.declare(cython.uint[::1], array("I"))
