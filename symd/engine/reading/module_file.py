"""Which module a question is about, and where its bytes stand."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ModuleFile:
    """A module's bytes as they are handed to whoever reads them. ``digest`` is the SHA-256 that the bytes must have,
    ``path`` the absolute path of the file that holds them.

    ``data`` are the bytes where they are in memory already, just hashed; whoever reads in another process has none,
    but a ``descriptor`` of the file, which it may not open. ``is_hashed`` says that the asker has written the file
    just now, and hashed what it wrote."""

    digest: str
    path: str
    data: bytes | None = field(default=None, repr=False, compare=False)
    descriptor: int | None = field(default=None, compare=False)
    is_hashed: bool = field(default=False, compare=False)
