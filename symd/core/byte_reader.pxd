# What another module of the core sees of ``byte_reader.py``, which says what each is.

cdef class ByteReader:
    cdef str section
    cdef const unsigned char[::1] data
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t end
    cdef readonly int offset_size
    cdef bint last_found

    cdef unsigned long long uint(self, Py_ssize_t size) except? -1
    cdef unsigned long long uleb(self) except? -1
    cdef unsigned long long sleb(self) except? -1
    cdef int skip(self, unsigned long long count) except? -1
    cdef int pass_text(self) except? -1
    cdef bytes text(self)
    cdef unsigned long long initial_length(self) except? -1
    cdef unsigned long long entry(self, const unsigned char[::1] data, unsigned long long base, unsigned long long index,
                                  int width) except? -1
    cdef object fail(self, str what)

cdef class StringReader:
    cdef tuple _sections
    cdef int _section  # the one that is open: what is read is in one of them, as a rule
    cdef object _data
    cdef const unsigned char[::1] _view
    cdef long long _end
    cdef long long[::1] _ends  # those of all, -1 of one that nobody asked for
    cdef long long _allowance

    cdef bytes find(self, int section, long long offset)
    cdef int _open(self, int section) except? -1

cdef class Names:
    cdef dict _numbers

    cdef Py_ssize_t number(self, StringReader strings, const unsigned long long[::1] keys, Py_ssize_t first, Py_ssize_t step,
                           unsigned int[::1] numbers, unsigned long long[::1] scratch) except? -1
