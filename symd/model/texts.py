"""Text that callers hand over: any that can be encoded."""

from __future__ import annotations

from symd.errors import BadQuery


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can say it: other bytes of an argument or a file's name are surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def in_utf8(text: str) -> str:
    """The text, with other bytes of a file's name escaped."""
    return text.encode(errors="backslashreplace").decode()


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
