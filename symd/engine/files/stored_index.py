"""The index that a store has of a file, found without an engine."""

from __future__ import annotations

from pathlib import Path

from symd.config import default_store
from symd.errors import DataLoss, InvalidInput
from symd.formats.containers.file_part import sha256_of
from symd.index.file_header import VERSION
from symd.index.lookup import Index
from symd.model.frame_text import printable
from symd.store.files import disk, mapped
from symd.store.folder import StorePaths, check_private
from symd.system.messages import complain


def stored_index(store: str, data: bytes) -> Index | None:
    """The index of a module's bytes in a store's folder, "default" for that of the daemon that runs here; None where it
    has none that is sound. Raises ``FailedPrecondition`` where others may write in the folder, and StoreUnavailable."""
    folder = default_store() if store == "default" else Path(store)
    digest = sha256_of(data)
    with disk(folder):
        check_private(folder)
        try:
            file = mapped(StorePaths(folder).index(digest, VERSION))
        except FileNotFoundError:
            _say_no_store(StorePaths(folder))
            return None
    try:
        return Index.checked(file, digest)
    except DataLoss:
        return None  # the daemon makes it anew


def _say_no_store(paths: StorePaths) -> None:
    """Where a folder is no store it may be another that was meant."""
    try:
        paths.check_store()
    except InvalidInput as error:
        complain(f"{printable(str(paths.root))}: {error.message}, so the file itself is read")
