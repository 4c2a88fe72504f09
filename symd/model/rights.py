"""What a client of the daemon may do."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from symd.errors import InvalidInput


class Right(enum.Enum):
    """What a client may do. No right holds another: whoever is to upload and to ask needs both ``READ`` and
    ``WRITE``."""

    READ = "read"
    """Ask: addresses, names, listings, the catalogue, the bytes of code objects."""
    WRITE = "write"
    """Add modules, labels, aliases and contexts, and take aliases and contexts away."""
    GRAB = "grab"
    """Let the daemon build with a driver of its machine."""
    ADMIN = "admin"
    """Take away what others may need: modules."""


Rights = frozenset[Right]

NO_RIGHTS: Final[Rights] = frozenset()
ALL_RIGHTS: Final[Rights] = frozenset(Right)


def parse_rights(text: str, where: str = "") -> Rights:
    """The rights of "read,write". Raises InvalidInput for anything else, and for none."""
    known = {right.value: right for right in Right}
    words = text.split(",")
    unknown = [word for word in words if word not in known]
    if unknown:
        raise InvalidInput(f"there is no right {unknown[0]!r}", where=where, hint=f"some of {','.join(known)}")
    return frozenset(known[word] for word in words)


def rights_text(rights: Iterable[Right]) -> str:
    """What ``parse_rights`` reads, in the order of ``Right``."""
    have = set(rights)
    return ",".join(right.value for right in Right if right in have)
