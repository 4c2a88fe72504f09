"""Counted nouns, and checks of text that callers pass in, such as labels: it must be encodable, which names of files,
being bytes, need not be.
"""

from __future__ import annotations

from symd.errors import BadQuery


def plural(count: int, thing: str, things: str = "") -> str:
    """The noun for so many: ``thing`` for one, else ``things``, which without a word is ``thing`` with an s."""
    return thing if count == 1 else things or f"{thing}s"


def counted(count: int, thing: str, things: str = "") -> str:
    """A count with its noun: "1 module", "2,197 modules"."""
    return f"{count:,} {plural(count, thing, things)}"


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
    """Raises BadQuery for what is no text, or has surrogates, which no encoding has; ``what`` it is and ``hint`` say
    what to pass."""
    if not isinstance(text, str):
        raise BadQuery(f"{what} is text, not {type(text).__name__}", hint=hint)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadQuery(
            f"{text[error.start]!r} in {what} is no character", hint="pass text that UTF-8 can say"
        ) from None
    return text


def file_label(name: str) -> str:
    """The label of a file's name: bytes of it that are no UTF-8 are escaped, as where it is printed."""
    return name.encode("utf-8", "backslashreplace").decode()


def checked_label(label: str) -> str:
    """Raises BadQuery for what no encoding has."""
    return checked_text(label, "a label", "leave it out where there is none")
