"""One module's rows and scopes as immutable sorted columns: the file (``format``), how it is made (``builder``) and how
it answers (``lookup``). Importing the package imports none of them: ``symd.core.index_lookup``, which answers one
address, does without NumPy.
"""

from __future__ import annotations

from symd import found

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.index.builder import build as build
    from symd.index.file_header import VERSION as VERSION
    from symd.index.lookup import Index as Index
else:
    _HOMES = {"VERSION": "symd.index.file_header", "Index": "symd.index.lookup", "build": "symd.index.builder"}

    def __getattr__(name: str) -> object:
        return found(__name__, _HOMES, name)


__all__ = ("VERSION", "Index", "build")
