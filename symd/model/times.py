"""Times of the clocks by which device addresses mean something."""

from __future__ import annotations

LATEST_TIME = (1 << 63) - 2
"""The last time there is, in nanoseconds of any clock: after everything that was told."""
