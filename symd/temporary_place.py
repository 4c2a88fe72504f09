"""Where temporary files go: the folder that $TMPDIR names, or one that the system has for them."""

from __future__ import annotations

import tempfile
from pathlib import Path

from symd.errors import StoreUnavailable


def temporary_place() -> Path:
    """Raises StoreUnavailable where none can be written, as in a container whose file system is read-only."""
    try:
        return Path(tempfile.gettempdir())
    except OSError as error:
        raise StoreUnavailable(
            "no folder for temporary files can be written",
            hint="set TMPDIR to a folder that you may write in, such as /dev/shm",
        ) from error
