"""The compiled reader: what reads debug data byte by byte. Each module is Python in Cython's pure mode, compiled by
``setup.py``, and all are in one library; docs/design.md says how it is rebuilt and how a function is debugged
uncompiled."""

import os
import sys
from _frozen_importlib import ModuleSpec  # what importlib.machinery has, whose package is slow to load
from _frozen_importlib_external import ExtensionFileLoader

_LIBRARY = os.path.join(os.path.dirname(__file__), "compiled.abi3.so")  # noqa: PTH118, PTH120 - pathlib is slow to load


class _CompiledModules:
    """Finds the modules of this package in its library."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG004 - importlib passes them
        """None for what is not of this package."""
        if not name.startswith("symd.core."):
            return None
        return ModuleSpec(name, ExtensionFileLoader(name, _LIBRARY), origin=_LIBRARY)


if os.path.exists(_LIBRARY):  # noqa: PTH110 - pathlib is slow to import
    sys.meta_path.insert(0, _CompiledModules)
else:
    try:
        import cython  # noqa: F401 - asked whether it is there
    except ImportError:
        _HERE = os.path.dirname(os.path.dirname(__file__))  # noqa: PTH120 - pathlib is slow to load
        raise ImportError(
            f"the sources of symd in {_HERE} are not compiled; for the symd that is installed start Python in another "
            "folder, or compile these with: pip install -e ."
        ) from None

CO_OPTIMIZED, CO_NEWLOCALS, CO_VARARGS, CO_VARKEYWORDS = 0x1, 0x2, 0x4, 0x8
CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR = 0x20, 0x80, 0x200
"""The flags of code objects that Cython's code looks up when a module is loaded, under the names of ``inspect``, which
has hundreds of things besides ("Code Objects Bit Flags" there); they are the same in all versions of Python."""
