"""How modules and code objects are named: a module by the SHA-256 of its bytes, a code object by its path in the module.

The verbs of ``api`` take plain text for both, so that nobody who calls them need wrap a name. A digest is checked once, at the
door of the room that uses it, and is a ``Digest`` from there on: the store's files and rows are named by nothing else."""

from __future__ import annotations

import re
from typing import NewType, TypeGuard

from symd.errors import BadQuery

Digest = NewType("Digest", str)
"""64 lower-case hexadecimal digits."""

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MODULES = "modules/"


def is_digest(text: str) -> TypeGuard[Digest]:
    """Whether a text is a SHA-256 as symd writes it."""
    return _SHA256.fullmatch(text) is not None


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
