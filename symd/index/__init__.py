"""One module's rows and scopes as immutable sorted columns: the file (``format``), how it is made (``builder``) and how
it answers (``lookup``). Importing the package imports none of them: ``symd.core.index_lookup``, which answers one
address, does without NumPy.
"""

from __future__ import annotations

from symd import found

VERSION = 27
"""The version of index files that is written and read; docs/index-format.md says what each one changed."""

MAX_COLUMN_BYTES = 1 << 33
"""Bytes of a compressed column when it is opened: what states more is not believed."""

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from symd.index.builder import build as build
    from symd.index.lookup import Index as Index
else:
    _HOMES = {"Index": "symd.index.lookup", "build": "symd.index.builder"}

    def __getattr__(name: str) -> object:
        return found(__name__, _HOMES, name)


__all__ = ("VERSION", "Index", "build")
