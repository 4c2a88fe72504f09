"""The flags of code objects that Cython's code looks up when a module is loaded, under the names of ``inspect``, which
has hundreds of things besides.

Source: the documentation of Python's ``inspect``, "Code Objects Bit Flags"; they are the same in all versions."""

CO_OPTIMIZED = 0x1
CO_NEWLOCALS = 0x2
CO_VARARGS = 0x4
CO_VARKEYWORDS = 0x8
CO_GENERATOR = 0x20
CO_COROUTINE = 0x80
CO_ASYNC_GENERATOR = 0x200
