"""How a module is named: by the SHA-256 of its bytes, in 64 lower-case hexadecimal digits."""

from __future__ import annotations

import re

_SHA256 = re.compile(r"[0-9a-f]{64}")
_MODULES = "modules/"


def is_digest(text: str) -> bool:
    """Whether a text is a SHA-256 as symd writes it."""
    return _SHA256.fullmatch(text) is not None


def named_digest(name: str) -> str | None:
    """The digest in ``modules/SHA256``, the name of a module that a daemon has; None for any other text."""
    digest = name.removeprefix(_MODULES)
    return digest if digest != name and is_digest(digest) else None
