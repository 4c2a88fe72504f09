"""Names of an object storage: what may be one, and what a name promises of the bytes."""

from __future__ import annotations

import re
from typing import Final

from symd.errors import InvalidInput
from symd.model.identities import Digest, is_digest

_NAME: Final = re.compile(r"[a-z0-9-][a-z0-9.-]*(/[a-z0-9-][a-z0-9.-]*)*")
_MODULES: Final = "modules/"


def checked_name(name: str) -> str:
    """``name`` itself where it may be one; anything else raises ``InvalidInput``. No part of a name begins with a dot, so that none
    leads out of a folder."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} is no name of an object", hint="lower-case letters, digits, dots, dashes, slashes"
        )
    return name


def promised_digest(name: str) -> Digest | None:
    """The SHA-256 of the bytes that have this name, where it says so: it is a module's. An index has a checksum of its own."""
    last = name.rpartition("/")[2]
    return last if name.startswith(_MODULES) and is_digest(last) else None
