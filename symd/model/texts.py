"""Counted nouns, and checks of what callers pass in with the words for it in the error: that a value is of one class,
and that text, such as a label, can be encoded, which names of files, being bytes, need not be.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from symd.errors import BadQuery
from symd.model.light_typing import TypeVar


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
    """The text, with other bytes of a file's name escaped, as where it is printed."""
    return text.encode(errors="backslashreplace").decode()


def utf8_size(text: str | None) -> int:
    """Bytes of a text in a message, where three stand for a surrogate; 0 of None."""
    if text is None:
        return 0
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def checked_text(text: str, what: str, hint: str) -> str:
    """Raises BadQuery for what is no text, or has surrogates, which no encoding has; ``what`` it is and ``hint`` say
    what to pass."""
    if not isinstance(text, str):
        raise BadQuery(f"{what} is text, not {type(text).__name__}", hint=hint)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise BadQuery(
            f"{text[error.start]!r} in {what} is not a character", hint="pass text that UTF-8 can say"
        ) from None
    return text


def checked_label(label: str) -> str:
    """Raises BadQuery for what no encoding has."""
    return checked_text(label, "a label", "leave it out where there is none")


T = TypeVar("T")


def kind_of(value: object) -> str:
    """What an error calls a value that is not what it should be."""
    if isinstance(value, str):
        return f"the text {value[:80]!r}"
    return _with_article(type(value).__name__)


def of_kind(value: T, kind: type[T] | tuple[type[T], ...], hint: str, what: str = "") -> T:
    """``value`` itself. Raises BadQuery where it is of another class; ``hint`` says what to pass, ``what`` it should
    have been ("": the class)."""
    if not isinstance(value, kind):
        first = kind[0] if isinstance(kind, tuple) else kind
        raise BadQuery(f"{kind_of(value)} is not {what or _with_article(first.__name__)}", hint=hint)
    return value


def several(values: Iterable[T], what: str, hint: str) -> Sequence[T]:
    """``values`` as a sequence. Raises BadQuery for one text, which is a sequence of its characters and not meant as
    one, and for what is none; ``what`` they are and ``hint`` say what to pass."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise BadQuery(f"{kind_of(values)} is not a sequence of {what}", hint=hint)
    return values if isinstance(values, (list, tuple)) else list(values)


def _with_article(name: str) -> str:
    return f"{'an' if name[0] in 'AEIOaeio' or name.startswith('nd') else 'a'} {name}"
