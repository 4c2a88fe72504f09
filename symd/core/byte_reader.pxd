# What another module of the core sees of ``byte_reader.py``, which says what each is.

cdef class ByteReader:
    cdef str section
    cdef const unsigned char[::1] data
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t end
    cdef readonly int offset_size

    cdef unsigned long long uint(self, Py_ssize_t size) except? -1
    cdef unsigned long long uleb(self) except? -1
    cdef unsigned long long sleb(self) except? -1
    cdef int skip(self, unsigned long long count) except? -1
    cdef int pass_text(self) except? -1
    cdef bytes text(self)
    cdef unsigned long long initial_length(self) except? -1
    cdef object fail(self, str what)
