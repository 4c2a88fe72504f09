# What another module of the core sees of ``abbreviations.py``, which says what each is.

from symd.core.byte_reader cimport ByteReader

cdef int LEB, STRING, BLOCK1, BLOCK2, BLOCK4, BLOCK, INDIRECT, UNKNOWN, SLEB, CONSTANT
cdef int _ADDRESS, _OFFSET, _REF_ADDR
cdef int OTHER_KIND, CONSTANT_KIND, DATA_KIND, ADDR_KIND, ADDRX_KIND, STRING_KIND, STRP_KIND, LINE_STRP_KIND, STRX_KIND
cdef int REF_KIND, REF_ADDR_KIND, SEC_OFFSET_KIND, RNGLISTX_KIND, BLOCK_KIND
cdef int SKIPPED, NAME, LINKAGE_NAME, ORIGIN, SPECIFICATION, LOW_PC, LOW_PC_OFFSET, HIGH_PC, RANGES, CALL_FILE, CALL_LINE
cdef int CALL_COLUMN, DECL_FILE, DECL_LINE, DECLARATION, EXTERNAL, LOCATION, MIPS_LINKAGE_NAME
cdef int COMP_DIR, STMT_LIST, STR_OFFSETS_BASE, ADDR_BASE, RNGLISTS_BASE, DWO_NAME, GNU_DWO_NAME, GNU_DWO_ID, GNU_RANGES_BASE
cdef int GNU_ADDR_BASE
cdef unsigned long long ADDRX_OFFSET
cdef int ATTRIBUTE_MASK, KIND_SHIFT, KIND_MASK, LAYOUT_SHIFT, LAYOUT_BIAS

cdef class AbbreviationTable(ByteReader):
    cdef readonly Py_ssize_t count
    cdef int address
    cdef int offset
    cdef int ref_addr
    cdef object _columns
    cdef unsigned int[::1] tags
    cdef unsigned char[::1] have_children
    cdef unsigned int[::1] first_skip
    cdef unsigned int[::1] first_read
    cdef long long[::1] tag_offsets
    cdef short[::1] skip_steps
    cdef unsigned int[::1] read_steps
    cdef unsigned long long[::1] constants
    cdef Py_ssize_t _skip_count
    cdef Py_ssize_t _read_count
    cdef dict _numbers
    cdef int[::1] _small_codes

    cdef int find(self, unsigned long long code) except? -1
    cdef int layout(self, unsigned long long form) except? -1
    cdef int kind(self, unsigned long long form) except? -1
    cdef int _add_attribute(self, unsigned long long name, unsigned long long form, unsigned int seen) except? -1
    cdef int _add_skip(self, int layout) except? -1
    cdef int _add_read(self, int attribute, int kind, int layout, unsigned long long constant) except? -1
    cdef int _grow(self, Py_ssize_t declarations, Py_ssize_t attributes) except? -1
    cdef int _acquire_views(self) except? -1
    cdef int _release_views(self) except? -1
