# cython: language_level=3, boundscheck=True, wraparound=False
"""Abbreviation tables (DWARF 5, 7.5.3), as the steps in which DIEs of each declaration are passed, or read.

The size of a value follows from its form (7.5.6; GNU's and LLVM's extensions) and the widths of the unit."""

from __future__ import annotations

from array import array

import cython

if cython.compiled:
    from cython.cimports.symd.core.byte_reader import ByteReader
else:
    from symd.core.byte_reader import ByteReader

# Layouts of values: a size from 0, or how it is found.
LEB, STRING, BLOCK1, BLOCK2, BLOCK4, BLOCK, INDIRECT, UNKNOWN, SLEB, CONSTANT = range(-1, -11, -1)
_ADDRESS, _OFFSET, _REF_ADDR = range(-11, -14, -1)

# What a value of a form is, as far as a reader must know it.
(
    OTHER_KIND, CONSTANT_KIND, DATA_KIND, ADDR_KIND, ADDRX_KIND, STRING_KIND, STRP_KIND, LINE_STRP_KIND, STRX_KIND, REF_KIND,
    REF_ADDR_KIND, SEC_OFFSET_KIND, RNGLISTX_KIND, BLOCK_KIND,
) = range(14)  # fmt: skip
"""``DATA_KIND`` are data4 and data8, which are constants, and offsets in DWARF 2 and 3."""

# The attributes that are read, by our numbers; 0 is passed over.
(
    SKIPPED, NAME, LINKAGE_NAME, ORIGIN, SPECIFICATION, LOW_PC, LOW_PC_OFFSET, HIGH_PC, RANGES, CALL_FILE, CALL_LINE, CALL_COLUMN,
    DECL_FILE, DECL_LINE, DECLARATION, EXTERNAL, LOCATION, MIPS_LINKAGE_NAME, COMP_DIR, STMT_LIST, STR_OFFSETS_BASE, ADDR_BASE,
    RNGLISTS_BASE, DWO_NAME, GNU_DWO_NAME, GNU_DWO_ID, GNU_RANGES_BASE, GNU_ADDR_BASE,
) = range(28)  # fmt: skip

_FORMS = (
    (UNKNOWN, OTHER_KIND),
    (_ADDRESS, ADDR_KIND),  # DW_FORM_addr, 0x01
    (UNKNOWN, OTHER_KIND),
    (BLOCK2, BLOCK_KIND),
    (BLOCK4, BLOCK_KIND),
    (2, CONSTANT_KIND),
    (4, DATA_KIND),
    (8, DATA_KIND),
    (STRING, STRING_KIND),  # DW_FORM_string, 0x08
    (BLOCK, BLOCK_KIND),
    (BLOCK1, BLOCK_KIND),
    (1, CONSTANT_KIND),
    (1, OTHER_KIND),  # DW_FORM_flag
    (SLEB, CONSTANT_KIND),
    (_OFFSET, STRP_KIND),
    (LEB, CONSTANT_KIND),
    (_REF_ADDR, REF_ADDR_KIND),  # DW_FORM_ref_addr, 0x10
    (1, REF_KIND),
    (2, REF_KIND),
    (4, REF_KIND),
    (8, REF_KIND),
    (LEB, REF_KIND),
    (INDIRECT, OTHER_KIND),
    (_OFFSET, SEC_OFFSET_KIND),
    (BLOCK, BLOCK_KIND),  # DW_FORM_exprloc, 0x18
    (0, OTHER_KIND),
    (LEB, STRX_KIND),
    (LEB, ADDRX_KIND),
    (4, OTHER_KIND),
    (_OFFSET, OTHER_KIND),
    (16, OTHER_KIND),
    (_OFFSET, LINE_STRP_KIND),
    (8, OTHER_KIND),  # DW_FORM_ref_sig8, 0x20
    (CONSTANT, CONSTANT_KIND),
    (LEB, OTHER_KIND),
    (LEB, RNGLISTX_KIND),
    (8, OTHER_KIND),
    (1, STRX_KIND),
    (2, STRX_KIND),
    (3, STRX_KIND),
    (4, STRX_KIND),  # DW_FORM_strx4, 0x28
    (1, ADDRX_KIND),
    (2, ADDRX_KIND),
    (3, ADDRX_KIND),
    (4, ADDRX_KIND),
)
_MORE_FORMS = {
    0x1F01: (LEB, ADDRX_KIND),  # DW_FORM_GNU_addr_index
    0x1F02: (LEB, STRX_KIND),
    0x1F20: (_OFFSET, OTHER_KIND),
    0x1F21: (_OFFSET, OTHER_KIND),
    0x2001: (LEB, ADDRX_KIND),  # DW_FORM_LLVM_addrx_offset, behind which four bytes from that address stand
}
_NAMES = {
    0x02: LOCATION, 0x03: NAME, 0x11: LOW_PC, 0x12: HIGH_PC, 0x31: ORIGIN, 0x3A: DECL_FILE, 0x3B: DECL_LINE, 0x3C: DECLARATION,
    0x3F: EXTERNAL, 0x47: SPECIFICATION, 0x55: RANGES, 0x57: CALL_COLUMN, 0x58: CALL_FILE, 0x59: CALL_LINE, 0x6E: LINKAGE_NAME,
    0x10: STMT_LIST, 0x1B: COMP_DIR, 0x72: STR_OFFSETS_BASE, 0x73: ADDR_BASE, 0x74: RNGLISTS_BASE, 0x76: DWO_NAME,
    0x2007: MIPS_LINKAGE_NAME, 0x2130: GNU_DWO_NAME, 0x2131: GNU_DWO_ID, 0x2132: GNU_RANGES_BASE, 0x2133: GNU_ADDR_BASE,
}  # fmt: skip
"""DW_AT_ (7.5.4)."""


def _table(numbers: tuple[int, ...]) -> array[int]:
    return array("b", numbers)


_LAYOUTS = cython.declare(cython.schar[::1], _table(tuple(layout for layout, _ in _FORMS)))
_KINDS = cython.declare(cython.schar[::1], _table(tuple(kind for _, kind in _FORMS)))
_ATTRIBUTES = cython.declare(cython.schar[::1], _table(tuple(_NAMES.get(name, SKIPPED) for name in range(0x77))))
_FIRST_OTHER = cython.declare(cython.ulonglong, 0x2007)
"""Names from this one on are looked up one by one."""
ADDRX_OFFSET = 0x2001
"""DW_FORM_LLVM_addrx_offset."""
_MAX_ATTRIBUTES = cython.declare(cython.int, 256)
"""Attributes may take no byte of a DIE, so that their number needs a bound of its own; compilers use some thirty."""
_FIRST_CAPACITY = cython.declare(cython.Py_ssize_t, 8)
_SMALL_CODES = cython.declare(cython.int, 128)
"""Codes below this one are looked up in an array."""

# A step of reading a DIE is one u32: the attribute in the lowest 8 bits, the kind in the next 8, the layout in the
# upper 16. Layouts may be negative, so that a bias is added to them.
ATTRIBUTE_MASK = 0xFF
KIND_SHIFT = 8
KIND_MASK = 0xFF
LAYOUT_SHIFT = 16
LAYOUT_BIAS = 32


def layouts(address: int, offset: int, ref_addr: int) -> dict[int, int]:
    """How values of each form are laid out, {form: layout}, for a reader of one value at a time: a size, or the kind
    of what says it (``symd.debuginfo.dwarf.forms.ValueLayout``). ``address``, ``offset`` and ``ref_addr`` are sizes
    in bytes."""
    known = {_ADDRESS: address, _OFFSET: offset, _REF_ADDR: ref_addr, CONSTANT: 0, SLEB: LEB}
    forms = {**dict(enumerate(_FORMS)), **_MORE_FORMS}
    return {form: known.get(layout, layout) for form, (layout, _) in forms.items()}


@cython.cclass
class AbbreviationTable(ByteReader):
    """The abbreviations of one table in units of these widths: bytes of an address, of an offset, and of
    DW_FORM_ref_addr.

    ``count`` declarations; of several with one code the first counts. ``at`` is the offset behind what was read,
    ``tags`` and ``have_children`` are theirs. The values of declaration n are passed by the steps
    ``skip_steps[first_skip[n]:first_skip[n + 1]]``, layouts with neighboring sizes added up, and read by
    ``read_steps[first_read[n]:first_read[n + 1]]``, each an attribute, a kind and a layout in one word, as
    ``ATTRIBUTE_MASK`` and the constants beside it say; ``constants`` are the values of DW_FORM_implicit_const.
    ``tag_offsets`` says where each declaration's tag stands in the section."""

    def __init__(self, data: bytes, section: str, at: int, end: int, address: int, offset: int, ref_addr: int) -> None:
        self.data, self.section = data, section
        self.at, self.end = at, min(end, len(data))
        self.address, self.offset, self.ref_addr = address, offset, ref_addr
        self.count = self._skip_count = self._read_count = 0
        self._numbers: dict[int, int] = {}
        near = array("i", bytes(4 * _SMALL_CODES))
        self._small_codes = near
        self._columns = [array(kind) for kind in "IBIIqhIQ"]
        self._acquire_views()
        self._grow(_FIRST_CAPACITY, 4 * _FIRST_CAPACITY)

    def read(self, most: int = 0) -> None:
        """Read it, up to its end or that of the section, or ``most`` declarations where this is not 0; to be called
        once. Raises Malformed."""
        code: cython.ulonglong
        near: cython.ulonglong = _SMALL_CODES
        name: cython.ulonglong
        form: cython.ulonglong
        seen: cython.uint
        attributes: cython.int
        while self.at < self.end:
            code = self.uleb()
            if code == 0:
                break
            if self.count + 2 > cython.cast(cython.Py_ssize_t, len(self.tags)):
                self._grow(len(self.tags), 0)
            self.tag_offsets[self.count] = self.at
            self.tags[self.count] = min(0xFFFFFFFF, self.uleb())
            self.have_children[self.count] = self.uint(1) != 0
            self.first_skip[self.count] = self._skip_count
            self.first_read[self.count] = self._read_count
            seen = 0
            attributes = 0
            while True:
                if attributes > _MAX_ATTRIBUTES:
                    raise self.fail(f"an abbreviation with more than {_MAX_ATTRIBUTES} attributes")
                name = self.uleb()
                form = self.uleb()
                if name == 0 and form == 0:
                    break
                seen = self._add_attribute(name, form, seen)
                attributes += 2 if form == ADDRX_OFFSET else 1
            if self.find(code) >= 0:
                self._skip_count, self._read_count = self.first_skip[self.count], self.first_read[self.count]
                continue
            self.count += 1
            if code < near:
                self._small_codes[code] = self.count
            else:
                self._numbers[code] = self.count
            if self.count == most:
                break
        self.first_skip[self.count] = self._skip_count
        self.first_read[self.count] = self._read_count

    def tag_offset(self, code: int) -> int:
        """Where the tag of the declaration of a code stands in the section; -1 where nobody declares it."""
        number: cython.int = self.find(code)
        return self.tag_offsets[number] if number >= 0 else -1

    def all_tag_offsets(self) -> list[int]:
        """Where the tag of each declaration stands in the section."""
        return [self.tag_offsets[number] for number in range(self.count)]

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def find(self, code: cython.ulonglong) -> cython.int:
        """The number of the declaration of a code, or -1."""
        if code < cython.cast(cython.ulonglong, _SMALL_CODES):
            return self._small_codes[code] - 1
        found: cython.int = self._numbers.get(code, 0)
        return found - 1

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def layout(self, form: cython.ulonglong) -> cython.int:
        """The layout of values of a form."""
        found: cython.int
        if form < cython.cast(cython.ulonglong, len(_LAYOUTS)):
            found = _LAYOUTS[form]
        else:
            found = _MORE_FORMS.get(form, (UNKNOWN, OTHER_KIND))[0]
        if found == _ADDRESS:
            return self.address
        if found == _OFFSET:
            return self.offset
        return self.ref_addr if found == _REF_ADDR else found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def kind(self, form: cython.ulonglong) -> cython.int:
        """The kind of values of a form."""
        found: cython.int
        if form < cython.cast(cython.ulonglong, len(_KINDS)):
            found = _KINDS[form]
        else:
            found = _MORE_FORMS.get(form, (UNKNOWN, OTHER_KIND))[1]
        return found

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _add_attribute(self, name: cython.ulonglong, form: cython.ulonglong, seen: cython.uint) -> cython.int:
        """Add the steps of an attribute. ``seen`` are those before it, a bit each; what is returned has
        this one's, too."""
        attribute: cython.int = SKIPPED
        constant: cython.ulonglong = 0
        layout: cython.int = self.layout(form)
        if layout == CONSTANT:
            constant = self.sleb()
        if name < cython.cast(cython.ulonglong, len(_ATTRIBUTES)):
            attribute = _ATTRIBUTES[name]
        elif name >= _FIRST_OTHER:
            attribute = _NAMES.get(name, SKIPPED)
        if seen >> attribute & 1:  # of several of one name the first counts
            attribute = SKIPPED
        self._add_skip(0 if layout == CONSTANT else LEB if layout == SLEB else layout)
        self._add_read(attribute, self.kind(form), layout, constant)
        if form == ADDRX_OFFSET:
            self._add_skip(4)
            self._add_read(LOW_PC_OFFSET if attribute == LOW_PC else SKIPPED, OTHER_KIND, 4, 0)
        return seen | (1 << attribute if attribute else 0)

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _add_skip(self, layout: cython.int) -> cython.int:
        """Add a step to those that pass the values of a DIE."""
        last: cython.Py_ssize_t = self._skip_count - 1
        if layout == 0:
            return 0
        if (
            layout > 0
            and last >= cython.cast(cython.Py_ssize_t, self.first_skip[self.count])
            and self.skip_steps[last] > 0
        ):
            self.skip_steps[last] += layout
            return 0
        if self._skip_count == cython.cast(cython.Py_ssize_t, len(self.skip_steps)):
            self._grow(0, self._skip_count)
        self.skip_steps[self._skip_count] = layout
        self._skip_count += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _add_read(
        self, attribute: cython.int, kind: cython.int, layout: cython.int, constant: cython.ulonglong
    ) -> cython.int:
        """Add a step to those that read the values of a DIE."""
        step: cython.uint
        is_passed: cython.bint
        last: cython.Py_ssize_t = self._read_count - 1
        if attribute == SKIPPED:
            layout = 0 if layout == CONSTANT else LEB if layout == SLEB else layout
            if layout == 0:
                return 0
            if layout > 0 and last >= cython.cast(cython.Py_ssize_t, self.first_read[self.count]):
                step = self.read_steps[last]
                is_passed = step & ((1 << LAYOUT_SHIFT) - 1) == 0  # SKIPPED and OTHER_KIND are 0
                if is_passed and step >> LAYOUT_SHIFT > cython.cast(cython.uint, LAYOUT_BIAS):
                    self.read_steps[last] = step + (layout << LAYOUT_SHIFT)
                    return 0
            kind = OTHER_KIND
        if self._read_count == cython.cast(cython.Py_ssize_t, len(self.read_steps)):
            self._grow(0, self._read_count)
        self.read_steps[self._read_count] = attribute | kind << KIND_SHIFT | (layout + LAYOUT_BIAS) << LAYOUT_SHIFT
        self.constants[self._read_count] = constant
        self._read_count += 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _grow(self, declarations: cython.Py_ssize_t, attributes: cython.Py_ssize_t) -> cython.int:
        """Make the arrays longer by so many."""
        columns: list[array[int]] = self._columns
        self._release_views()
        for number, column in enumerate(columns):
            more = declarations if number < 5 else attributes
            column.frombytes(bytes(column.itemsize * more))
        self._acquire_views()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _acquire_views(self) -> cython.int:
        columns: list[array[int]] = self._columns
        self.tags, self.have_children, self.first_skip, self.first_read, self.tag_offsets = columns[:5]
        self.skip_steps, self.read_steps, self.constants = columns[5:]
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=True)
    def _release_views(self) -> cython.int:
        """An array that somebody looks into cannot grow."""
        self.tags = self.first_skip = self.first_read = self.read_steps = _NO_NARROW
        self.have_children, self.tag_offsets, self.skip_steps, self.constants = (
            _NO_BYTES,
            _NO_SIGNED,
            _NO_SHORT,
            _NO_WIDE,
        )
        return 0


_NO_NARROW = cython.declare(cython.uint[::1], array("I"))
_NO_BYTES = cython.declare(cython.uchar[::1], array("B"))
_NO_WIDE = cython.declare(cython.ulonglong[::1], array("Q"))
_NO_SIGNED = cython.declare(cython.longlong[::1], array("q"))
_NO_SHORT = cython.declare(cython.short[::1], array("h"))
