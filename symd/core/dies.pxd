# What another module of the core sees of ``dies.py``, which says what each is.

from symd.core.byte_reader cimport ByteReader
from symd.core cimport abbreviations
from symd.core cimport range_lists

cdef int OFFSET, END, NAME, LINKAGE_NAME, ORIGIN, SPECIFICATION, LOCATION, WIDE
cdef int UNIT, PARENT, DEPTH, TAG, FLAGS, CALL_FILE, CALL_LINE, CALL_COLUMN, DECL_FILE, DECL_LINE, NARROW

cdef class ValueReader(ByteReader):
    cdef int pass_value(self, abbreviations.AbbreviationTable table, int layout) except? -1
    cdef unsigned long long form(self, abbreviations.AbbreviationTable table) except? -1
    cdef unsigned long long value(self, abbreviations.AbbreviationTable table, int layout, unsigned long long constant) except? -1

cdef class DieRows(ValueReader):
    cdef readonly range_lists.RangeRows ranges
    cdef readonly object wide
    cdef readonly object narrow
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t missing_offsets
    cdef readonly Py_ssize_t missing_lists
    cdef object _check_rows
    cdef unsigned long long _low_tags
    cdef unsigned long long _high_tags
    cdef bint _with_children
    cdef const unsigned char[::1] _string_offsets
    cdef const unsigned char[::1] _lists
    cdef Py_ssize_t _capacity
    cdef long long[::1] _open
    cdef unsigned long long[::1] wide_view
    cdef unsigned int[::1] narrow_view
    cdef int[::1] signed_scratch
    cdef unsigned int[::1] narrow_scratch
    cdef unsigned long long[::1] wide_scratch

    cdef int take_scratch(self) except? -1
    cdef int _walk(self, range_lists.UnitParameters unit, abbreviations.AbbreviationTable table, bint only_first) except? -1
    cdef bint _is_wanted(self, unsigned int tag) except? -1
    cdef int _open_more(self) except? -1
    cdef int _pass(self, abbreviations.AbbreviationTable table, int number) except? -1
    cdef int _add(self, range_lists.UnitParameters unit, abbreviations.AbbreviationTable table, int number, Py_ssize_t start,
                  long long parent_row, Py_ssize_t depth) except? -1
    cdef unsigned long long _address(self, range_lists.UnitParameters unit, int kind, unsigned long long value) except? -1
    cdef unsigned long long _string(self, range_lists.UnitParameters unit, int kind, unsigned long long value) except? -1
    cdef unsigned long long _reference(self, range_lists.UnitParameters unit, int kind, unsigned long long value) except? -1
    cdef int _grow(self) except? -1
    cdef int _acquire_views(self) except? -1
    cdef int _release_views(self) except? -1
