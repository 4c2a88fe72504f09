"""Checks that a value is of one class, and the words for it in the error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

from symd.errors import BadQuery

T = TypeVar("T")


def kind_of(value: object) -> str:
    """What an error calls a value that is not what it should be."""
    if isinstance(value, str):
        return f"the text {value[:80]!r}"
    return _with_article(type(value).__name__)


def of_kind(value: T, kind: type[T] | tuple[type[T], ...], hint: str) -> T:
    """``value`` itself. Raises BadQuery where it is of another class; ``hint`` says what to pass."""
    if not isinstance(value, kind):
        first = kind[0] if isinstance(kind, tuple) else kind
        raise BadQuery(f"{kind_of(value)} is not {_with_article(first.__name__)}", hint=hint)
    return value


def several(values: Iterable[T], what: str, hint: str) -> Sequence[T]:
    """``values`` as a sequence. Raises BadQuery for one text, which is a sequence of its characters and not meant as
    one, and for what is none; ``what`` they are and ``hint`` say what to pass."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise BadQuery(f"{kind_of(values)} is not a sequence of {what}", hint=hint)
    return values if isinstance(values, (list, tuple)) else list(values)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"
