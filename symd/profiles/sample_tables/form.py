"""What becomes of samples. Knows nothing of Apache Arrow, which is slow to import."""

from __future__ import annotations

from enum import StrEnum


class Form(StrEnum):
    """What becomes of samples."""

    SAMPLES = "samples"
    """Every row again, with its reason and its frames."""
    LOCATIONS = "locations"
    """Every row again, with the number of its location; what the numbers stand for is a table of its own."""
    HOT_LINES = "hot-lines"
    """Source lines with the sums of their samples."""
