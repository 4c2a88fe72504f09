"""Why the operating system refused, as messages have it."""

from __future__ import annotations


def system_reason(error: Exception) -> str:
    """The system's words as they stand inside a sentence, "no such file or directory"; an abbreviation at their beginning stays."""
    words = (error.strerror if isinstance(error, OSError) else None) or str(error)
    return words if words[1:2].isupper() else words[:1].lower() + words[1:]
