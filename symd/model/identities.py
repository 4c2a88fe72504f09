"""How modules and code objects are named: a module by the SHA-256 of its bytes, a code object by its path in the
module.

What symd gives out are a ``Digest`` and an ``ObjectPath``. The verbs of ``api`` take plain text for both, so that
nobody who has one from elsewhere need wrap it: a digest is checked once, behind the verb, and is a ``Digest`` from
there on; a path names a code object or nothing, which whoever looks for it finds out."""

from __future__ import annotations

from symd.errors import BadQuery
from symd.model.light_typing import NewType, TypeGuard

Digest = NewType("Digest", str)
"""A module's name: the SHA-256 of its bytes in 64 lower-case hexadecimal digits."""
ObjectPath = NewType("ObjectPath", str)
"""A code object's name in its module: what the containers around it call their elements, joined by "/"; "" where the
module is the code object."""

_DIGITS = frozenset("0123456789abcdef")
_MODULES = "modules/"


def is_digest(text: str) -> TypeGuard[Digest]:
    """Whether a text is a SHA-256 as symd writes it."""
    return len(text) == 64 and _DIGITS.issuperset(text)


def checked_digest(text: str) -> Digest:
    """``text`` itself where it is a digest; anything else raises ``BadQuery``."""
    if not is_digest(text):
        raise BadQuery(
            f"{text[:80]!r} is not the SHA-256 of a module",
            hint="give 64 lower-case hexadecimal digits",
            metadata={"digest": text[:80]},
        )
    return text


def named_digest(name: str) -> Digest | None:
    """The digest in ``modules/SHA256``, the name of a module that a daemon has; None for any other text."""
    digest = name.removeprefix(_MODULES)
    return digest if digest != name and is_digest(digest) else None
