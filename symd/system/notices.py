"""What a command or a library has to say beside its answers: one line on standard error."""

from __future__ import annotations

import sys

from symd.model.frame_text import printable


def complain(text: str) -> None:
    """Write one line on standard error, whatever is in the text."""
    line = " ".join(text.split())
    sys.stderr.write(printable(f"symd: {line}") + "\n")
