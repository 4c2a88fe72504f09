"""Text that callers hand over: any that can be encoded."""

from __future__ import annotations

from symd.errors import BadQuery


def checked_text(text: str, what: str, hint: str) -> str:
    """Raises BadQuery for what is no text, or has surrogates, which no encoding has; ``what`` it is and ``hint`` say what to pass."""
    if not isinstance(text, str):
        raise BadQuery(f"{what} is text, not {type(text).__name__}", hint=hint)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadQuery(
            f"{text[error.start]!r} in {what} is no character", hint="pass text that UTF-8 can say"
        ) from None
    return text
