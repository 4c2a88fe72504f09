"""A module that arrives in pieces: hashed as it is written, in the store only once it is whole and as announced."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Self

from symd.config import Limits
from symd.errors import HashMismatch
from symd.model.identities import Digest, checked_digest
from symd.store.budgets import check_label, check_size
from symd.store.files import IncomingFile, disk


class Arrival:
    """A module that is being added. ``is_new``: it was not in the store before; ``is_stored``: it is there now.
    ``path`` is where the bytes of a new one stand that was put there at once. Whoever adds the module sets ``format``,
    with which it is admitted at the end."""

    def __init__(self, *, is_new: bool) -> None:
        self.is_new = is_new
        self.is_stored = not is_new
        self.path: Path | None = None
        self.format = ""

    def commit(self, upload: Upload, digest: str, label: str) -> None:
        """Take the bytes of the module into the store. Raises as ``Upload.commit``."""
        upload.commit(digest, label)
        self.is_stored = True


Accept = Callable[[IncomingFile, Digest, int, str, str], None]
"""Takes a whole, synced file with its digest, size, label and format into the store."""


class Upload:
    """One upload; a context manager that aborts what was not committed. Not for use by several threads at once."""

    def __init__(self, file: IncomingFile, limits: Limits, accept: Accept) -> None:
        self._file = file
        self._limits = limits
        self._accept = accept
        self._hash = hashlib.sha256()
        self.size = 0
        """Bytes written so far."""

    @property
    def digest(self) -> Digest:
        """SHA-256 of what was written so far."""
        return Digest(self._hash.hexdigest())

    def opened(self) -> int:
        """A descriptor to read what was written, also after ``commit`` and ``abort``. The caller closes it."""
        with disk(self._file.path):
            return os.open(self._file.path, os.O_RDONLY | os.O_CLOEXEC)

    @property
    def path(self) -> str:
        """The path of the file that takes the bytes, until ``commit``."""
        return str(self._file.path)

    def write(self, chunk: bytes | bytearray | memoryview) -> None:
        """Append. Raises ``LimitExceeded`` before the module would pass ``Limits.module_size``."""
        size = self.size + memoryview(chunk).nbytes
        check_size(size, self._limits)
        self._file.write(chunk)
        self._hash.update(chunk)
        self.size = size

    def check_digest(self, expected_digest: str) -> None:
        """Raises ``HashMismatch`` where what was written so far has another digest."""
        if self.digest != checked_digest(expected_digest):
            raise _mismatch(self.digest, expected_digest)

    def commit(self, expected_digest: str = "", label: str = "", format: str = "") -> Digest:  # noqa: A002 - the word of ModuleRecord
        """Take the module into the store and return its digest. Where that is not ``expected_digest`` (when one is
        given) raises ``HashMismatch``; ``LimitExceeded`` for a label that is too long or where the store has no room;
        after any error the store is as it was before the upload."""
        digest = self.digest
        try:
            check_label(label)
            if expected_digest:
                self.check_digest(expected_digest)
            with disk(self._file.path):
                self._file.sync()
            self._accept(self._file, digest, self.size, label, format)
        finally:
            self._file.discard()
        return digest

    def abort(self) -> None:
        """Forget what was written. Harmless after ``commit`` and when repeated."""
        with disk(self._file.path):
            self._file.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.abort()


def _mismatch(digest: str, expected: str) -> HashMismatch:
    return HashMismatch(
        f"the bytes have SHA-256 {digest}, announced was {expected}",
        hint="send the module again",
        metadata={"actual": digest, "expected": expected},
    )
