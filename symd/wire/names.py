"""Resource names: a module is "modules/{sha256}", a context "contexts/{id}"."""

from __future__ import annotations

import re
from functools import lru_cache

from symd.errors import BadQuery
from symd.model.digests import is_digest, named_digest

CONTEXT = re.compile(r"contexts/([0-9a-f]{32})\Z")

RECENT = 1 << 12
"""Names that are known to be right: most questions are about modules that were asked about before."""


def module_name(digest: str) -> str:
    return f"modules/{digest}"


@lru_cache(RECENT)
def checked_module_name(digest: str) -> str:
    """``modules/SHA256``. Raises ``BadQuery`` when ``digest`` is not a lower-case hexadecimal SHA-256."""
    return module_name(checked_digest(digest))


@lru_cache(RECENT)
def module_digest(name: str) -> str:
    """The digest in a module's name. Raises ``BadQuery``."""
    digest = named_digest(name)
    if digest is None:
        raise BadQuery(
            f"{name[:100]!r} is not a module's name",
            hint='a module is named "modules/" and its SHA-256 in 64 lower-case hexadecimal digits',
        )
    return digest


def context_name(context: str) -> str:
    return f"contexts/{context}"


def context_id(name: str) -> str:
    """The id in a context's name. Raises ``BadQuery``."""
    match = CONTEXT.match(name)
    if match is None:
        raise BadQuery(
            f"{name[:100]!r} is not a context's name",
            hint='a context is named "contexts/" and 32 lower-case hexadecimal digits, as CreateContext says',
        )
    return match[1]


def checked_digest(digest: str) -> str:
    """``digest`` itself. Raises ``BadQuery`` when it is not a lower-case hexadecimal SHA-256."""
    if not is_digest(digest):
        raise BadQuery(f"{digest[:100]!r} is not a SHA-256", hint="write it as 64 lower-case hexadecimal digits")
    return digest
