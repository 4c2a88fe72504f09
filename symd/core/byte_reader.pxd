# What another module of the core sees of ``byte_reader.py``, which says what each is.

cdef class ByteReader:
    cdef str section
    cdef const unsigned char[::1] data
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t end

    cdef unsigned long long uint(self, Py_ssize_t size) except? -1
    cdef unsigned long long uleb(self) except? -1
    cdef unsigned long long sleb(self) except? -1
    cdef int skip(self, unsigned long long count) except? -1
    cdef bytes text(self)
    cdef object fail(self, str what)
