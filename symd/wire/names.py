"""Resource names: a module is "modules/{sha256}"."""

from __future__ import annotations

import re

from symd.errors import BadQuery

MODULE = re.compile(r"modules/([0-9a-f]{64})\Z")
DIGEST = re.compile(r"[0-9a-f]{64}\Z")


def module_name(digest: str) -> str:
    return f"modules/{digest}"


def module_digest(name: str) -> str:
    """The digest in a module's name. Raises ``BadQuery``."""
    match = MODULE.match(name)
    if match is None:
        raise BadQuery(
            f"{name[:100]!r} is not a module's name",
            hint='a module is named "modules/" and its SHA-256 in 64 lower-case hexadecimal digits',
        )
    return match[1]


def checked_digest(digest: str) -> str:
    """``digest`` itself. Raises ``BadQuery`` when it is not a lower-case hexadecimal SHA-256."""
    if not DIGEST.match(digest):
        raise BadQuery(f"{digest[:100]!r} is not a SHA-256", hint="write it as 64 lower-case hexadecimal digits")
    return digest
