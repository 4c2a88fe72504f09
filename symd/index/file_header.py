"""The version of index files, and what they may hold at most: see ``format``."""

from __future__ import annotations

VERSION = 26
"""The version of index files that is written and read; docs/index-format.md says what each one changed."""

LARGEST = 1 << 33
"""Bytes of a compressed column when it is opened: what states more is not believed."""
