"""Which object storage a URL names: ``s3://BUCKET/PREFIX`` or ``file:///FOLDER``."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit

from symd.config import Limits
from symd.errors import FailedPrecondition, InvalidInput, extra_hint
from symd.store.shared.folder_storage import FolderStorage
from symd.store.shared.object_storage import ObjectStorage


def open_storage(url: str, limits: Limits, *, make: bool) -> ObjectStorage:
    """The storage at ``url``, after it was seen to answer; a folder is made where there is none if ``make``. Raises ``InvalidInput`` for a URL that names none,
    ``FailedPrecondition`` where what it takes is not installed, ``StoreUnavailable`` where it cannot be used."""
    parts = urlsplit(url)
    if parts.username or parts.password or parts.query or parts.fragment:
        raise _no_storage(url, parts)
    if parts.scheme == "s3" and parts.hostname:
        if find_spec("obstore") is None:
            raise FailedPrecondition(
                "s3:// takes obstore, which is not installed", where=url, hint=extra_hint("shared")
            )
        from symd.store.shared.s3_storage import S3Storage  # noqa: PLC0415 - obstore is an extra, and takes 40 ms

        storage = S3Storage(parts.netloc, unquote(parts.path).strip("/"), limits)
        storage.check()
        return storage
    if parts.scheme == "file" and not parts.netloc and parts.path.startswith("/"):
        return FolderStorage(Path(unquote(parts.path)), make=make)
    raise _no_storage(url, parts)


def _no_storage(url: str, parts: SplitResult) -> InvalidInput:
    shown = url if parts.password is None else f"{parts.scheme}://…"  # no secret comes into a log
    return InvalidInput(
        f"{shown[:200]!r} names no object storage",
        hint="write s3://BUCKET/PREFIX, with credentials and the endpoint in AWS_* variables, or file:///FOLDER",
    )
