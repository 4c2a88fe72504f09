"""Names of an object storage: what may be one, and what a name promises of the bytes."""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from io import BufferedReader
from typing import Final

from symd.errors import DataLoss, InvalidInput
from symd.index.format import VERSION, decode
from symd.model.identities import Digest, is_digest

_NAME: Final = re.compile(r"[a-z0-9-][a-z0-9.-]*(/[a-z0-9-][a-z0-9.-]*)*")
_MODULES: Final = "modules/"
_INDEXES: Final = f"index/{VERSION}/"


def checked_name(name: str) -> str:
    """``name`` itself where it may be one; anything else raises ``InvalidInput``. No part of a name begins with a dot, so that none
    leads out of a folder."""
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{name[:80]!r} is no name of an object", hint="lower-case letters, digits, dots, dashes, slashes"
        )
    return name


def promised_digest(name: str) -> Digest | None:
    """The SHA-256 of the bytes that have this name, where it says so: it is a module's."""
    last = name.rpartition("/")[2]
    return last if name.startswith(_MODULES) and is_digest(last) else None


def is_of_module(name: str, digest: Digest) -> bool:
    """Whether a name is that of a module's bytes, or of an index of it."""
    folder, _, last = name.rpartition("/")
    return bool(_NAME.fullmatch(name)) and (
        (last == digest and folder == f"modules/{digest[:2]}")
        or (last == f"{digest}.idx" and bool(re.fullmatch(rf"index/[0-9]+/{digest[:2]}", folder)))
    )


def keeps_promise(name: str, file: BufferedReader) -> bool:
    """Whether a file's bytes are what its name promises: a module's have that digest, and an index of the format that this symd writes is
    whole by its own checksum. Other names promise nothing."""
    digest = promised_digest(name)
    if digest is not None:
        return hashlib.file_digest(file, "sha256").hexdigest() == digest
    if not name.startswith(_INDEXES):
        return True
    size = os.fstat(file.fileno()).st_size
    try:
        decode(memoryview(mmap.mmap(file.fileno(), size, prot=mmap.PROT_READ)) if size else b"")
    except DataLoss:
        return False
    return True
