# What another module of the core sees of ``range_lists.py``, which says what each is.

from symd.core.byte_reader cimport ByteReader

cdef bint is_dead(unsigned long long address, int width) except? -1

cdef class UnitParameters:
    cdef readonly Py_ssize_t number
    cdef readonly Py_ssize_t offset
    cdef readonly Py_ssize_t dies
    cdef readonly Py_ssize_t end
    cdef readonly int version
    cdef readonly int address_size
    cdef readonly int offset_size
    cdef readonly unsigned long long low_pc
    cdef readonly unsigned long long str_offsets_base
    cdef readonly unsigned long long addr_base
    cdef readonly unsigned long long rnglists_base
    cdef readonly unsigned long long ranges_base

cdef class RangeRows(ByteReader):
    cdef readonly object which
    cdef readonly object start
    cdef readonly object stop
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t entries
    cdef readonly Py_ssize_t damaged
    cdef readonly Py_ssize_t missing
    cdef const unsigned char[::1] _ranges
    cdef const unsigned char[::1] _lists
    cdef const unsigned char[::1] _addresses
    cdef Py_ssize_t _ranges_left
    cdef Py_ssize_t _lists_left
    cdef object _check_rows
    cdef unsigned int[::1] _which
    cdef unsigned long long[::1] _start
    cdef unsigned long long[::1] _stop

    cdef int add(self, unsigned int which, unsigned long long start, unsigned long long stop) except? -1
    cdef int read(self, unsigned int which, unsigned long long offset, UnitParameters unit) except? -1
    cdef int restore(self, Py_ssize_t count, Py_ssize_t damaged, Py_ssize_t missing) except? -1
    cdef unsigned long long address(self, unsigned long long index, UnitParameters unit) except? -1
    cdef int read_locations(self, unsigned int which, unsigned long long offset, UnitParameters unit) except? -1
    cdef int _check_left(self) except? -1
    cdef bint _read_ranges(self, unsigned int which, UnitParameters unit, bint with_expressions) except? -1
    cdef bint _read_rnglists(self, unsigned int which, UnitParameters unit) except? -1
    cdef bint _fit(self, int size, int numbers) except? -1
    cdef int _grow(self) except? -1
