"""Labels of modules: any text that can be encoded. Names of files are bytes, and may be none."""

from __future__ import annotations

from symd.model.texts import checked_text


def file_label(name: str) -> str:
    """The label of a file's name: bytes of it that are no UTF-8 are escaped, as where it is printed."""
    return name.encode("utf-8", "backslashreplace").decode()


def checked_label(label: str) -> str:
    """Raises BadQuery for what no encoding has."""
    return checked_text(label, "a label", "leave it out where there is none")
