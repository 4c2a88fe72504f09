# What another module of the core sees of ``sorting.py``, which says what each is.

cdef Py_ssize_t upper_bound(const unsigned long long[::1] numbers, unsigned long long wanted) except? -1

cdef bint order(unsigned long long[::1] some, unsigned long long[::1] other) except? -1
