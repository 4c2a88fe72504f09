"""``symd symbolize --store FOLDER FILE ADDRESS...`` where a store has the index of FILE: a digest, and a few numbers of the index."""

from __future__ import annotations

import mmap
import os
import stat

from symd.index.file_header import VERSION
from symd.index.plain_index import NotPlain, answer_at
from symd.model.frame_text import frame_text, printable

TYPE_CHECKING = False  # as ``typing`` has it, which takes a while to import
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from symd.index.plain_index import PlainAnswer

_CHUNK = 1 << 20
_MODULE_BYTES = 2048 << 20
"""As ``Limits.module_size``."""
_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ELSEWHERE = 14
"""``Reason.DEBUG_DATA_ELSEWHERE``: files beside FILE may have what its index has not."""
_EXACT = 1
_DECIMAL, _HEXADECIMAL = frozenset("0123456789"), frozenset("0123456789abcdefABCDEF")


def stored_answers(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """What is written for a command line, without its verb. None where it says more than a store, a file and addresses, where the store has
    no index of the file, or an answer is not plain: then the command line answers."""
    plain = _plain_arguments(arguments)
    if plain is None or environment.get("SYMD_SERVER") not in (None, "", "none"):
        return None
    store, file, queries = plain
    folder = store if store != "default" else default_store(environment)
    try:
        if not is_private(folder):
            return None
        digest = _digest(file)
        name = digest.hex()
        with open(f"{folder}/index/{VERSION}/{name[:2]}/{name}.idx", "rb") as index:  # noqa: PTH123 - pathlib is slow to import
            mapped = memoryview(mmap.mmap(index.fileno(), 0, access=mmap.ACCESS_READ))
        return "".join(_text(query, answer_at(mapped, digest, address)) for query, address in queries)
    except (OSError, NotPlain, ValueError):  # the last: of a file without bytes, or a name that no file can have
        return None


def default_store(environment: Mapping[str, str]) -> str:
    """``config.default_store``, which is told as a path."""
    cache = environment.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")  # noqa: PTH111 - pathlib is slow to import
    return environment.get("SYMD_STORE") or f"{cache}/symd/store"


def is_private(folder: str) -> bool:
    """Whether nobody else may change what is in ``folder``, or put another in its place: ``store.ownership.check_private``."""
    status = os.stat(folder)  # noqa: PTH116 - pathlib is slow to import
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
        return False
    above = os.path.realpath(folder)
    while above != "/":
        above = os.path.dirname(above)  # noqa: PTH120 - likewise
        mode = os.stat(above).st_mode  # noqa: PTH116 - likewise
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return False
    return True


def _plain_arguments(arguments: Sequence[str]) -> tuple[str, str, list[tuple[str, int]]] | None:
    """(store, file, queries with their addresses)."""
    at = arguments.index("--store")
    words = [*arguments[:at], *arguments[at + 2 :]]
    if len(words) < 2 or len(arguments) < at + 2 or any(word.startswith("-") for word in words):
        return None
    file, *texts = words
    if file.startswith(("modules/", "file:", "memory:")) or file.endswith(".gz"):
        return None
    addresses = [_address(text) for text in texts]
    queries = [(text, address) for text, address in zip(texts, addresses, strict=True) if address is not None]
    return (arguments[at + 1], file, queries) if len(queries) == len(texts) else None


def _address(text: str) -> int | None:
    if text[:2] in ("0x", "0X"):
        return int(text, 16) if 2 < len(text) <= 18 and _HEXADECIMAL.issuperset(text[2:]) else None
    return int(text) if 0 < len(text) < 19 and _DECIMAL.issuperset(text) else None


def _digest(file: str) -> bytes:
    """SHA-256 of a file of which the system knows how large it is. Raises NotPlain for any other, and OSError."""
    from _hashlib import openssl_sha256  # noqa: PLC0415 - hashlib imports all algorithms there are

    with open(file, "rb", buffering=0) as stream:  # noqa: PTH123 - pathlib is slow to import
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= _MODULE_BYTES:
            raise NotPlain
        hashed, chunk = openssl_sha256(usedforsecurity=False), memoryview(bytearray(min(_CHUNK, status.st_size)))
        while size := stream.readinto(chunk):
            hashed.update(chunk[:size])
    return hashed.digest()


def _text(query: str, answer: PlainAnswer) -> str:
    reason, frames = answer
    if reason == _ELSEWHERE:
        raise NotPlain
    shown = ""
    if reason != _EXACT:
        from symd.model.reasons import Reason  # noqa: PLC0415 - most answers are exact

        shown = f" [{Reason(reason).name}]"
    first, *callers = (frame_text(*frame) for frame in frames)
    lines = [f"{query}: {first}{shown}", *(f"  (inlined by) {caller}" for caller in callers)]
    return "".join(f"{printable(line)}\n" for line in lines)
