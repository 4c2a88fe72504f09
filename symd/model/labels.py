"""Labels of modules: any text that can be encoded. Names of files are bytes, and may be none."""

from __future__ import annotations

from symd.errors import BadQuery


def file_label(name: str) -> str:
    """The label of a file's name: bytes of it that are no UTF-8 are escaped, as where it is printed."""
    return name.encode("utf-8", "backslashreplace").decode()


def checked_label(label: str) -> str:
    """Raises BadQuery for what is no text, or has surrogates, which no encoding has."""
    if not isinstance(label, str):
        raise BadQuery(f"a label is text, not {type(label).__name__}", hint="leave it out where there is none")
    try:
        label.encode()
    except UnicodeEncodeError as error:
        wrong = label[error.start]
        raise BadQuery(f"{wrong!r} in a label is no character", hint="pass text that UTF-8 can say") from None
    return label
