"""``symd symbolize --store FOLDER FILE ADDRESS...`` where a store has the index of FILE: answered from the digest of
FILE and a few numbers of the index, in 40 ms of processor time, a fifth of what the command line takes for the same.
"""

from __future__ import annotations

import mmap
import os
import stat
from _hashlib import openssl_sha256  # hashlib imports all algorithms that there are, which takes 2 ms more
from collections.abc import Mapping, Sequence

from symd.cli.start import MODULE_BYTES, Asked, answer_text, direct_questions, names_server
from symd.core.index_lookup import IndexLookup
from symd.index import VERSION
from symd.model.frame_text import AnswerTuple, NeedsIndex, log_needs_index
from symd.model.reasons import Reason

_CHUNK = 1 << 20
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def stored_answers(arguments: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """What is written for a command line, without its verb. None where it says more than a store, a file and addresses,
    where the store has no index of the file, or an answer needs more: then the command line answers."""
    plain = _direct_arguments(arguments)
    if plain is None or names_server(environment):
        return None
    store, (file, queries) = plain
    folder = store if store != "default" else default_store(environment)
    try:
        if not is_private(folder):
            return None
        digest = _digest(file)
        name = digest.hex()
        with open(f"{folder}/index/{VERSION}/{name[:2]}/{name}.idx", "rb") as index:  # noqa: PTH123 - pathlib is slow to import
            mapped = memoryview(mmap.mmap(index.fileno(), 0, access=mmap.ACCESS_READ))
        lookup = IndexLookup(mapped, VERSION, digest=digest)
        answers = [(query, _named_at(lookup, address)) for query, _, address in queries]
        return "".join(answer_text(query, answer, Reason(answer[0]).name) for query, answer in answers)
    except (
        OSError,
        NeedsIndex,
        ValueError,
    ) as reason:  # the last: of a damaged index, or of a name that no file can have
        log_needs_index(file, reason)
        return None


def _named_at(lookup: IndexLookup, address: int) -> AnswerTuple:
    """The answer at an object address. Raises NeedsIndex unless exactly one text section holds it and it has frames, or
    where a frame has no name: a source may have it."""
    answer = lookup.answer(address)
    if answer is None:
        raise NeedsIndex("more than a look at one text section is needed")
    reason, _, _, _, _, _, _, frames, *_ = answer
    if not frames or not all(function or linkage_name for function, linkage_name, *_ in frames):
        raise NeedsIndex("a frame has no name, or there is none")
    return reason, tuple([frame[:5] for frame in frames])


def default_store(environment: Mapping[str, str]) -> str:
    """The path of the store that is used where none is named, the same as ``config.default_store``."""
    cache = environment.get("XDG_CACHE_HOME", "").strip() or os.path.expanduser("~/.cache")  # noqa: PTH111 - pathlib is slow to import
    return environment.get("SYMD_STORE") or f"{cache}/symd/store"


def is_private(folder: str) -> bool:
    """Whether nobody else may change what is in ``folder``, or put another in its place, as
    ``store.folder.check_private`` has it, and no symbolic link leads there."""
    status = os.stat(folder)  # noqa: PTH116 - pathlib is slow to import
    if status.st_uid != os.geteuid() or status.st_mode & _OTHERS:
        return False
    above = os.path.realpath(folder)
    if above != os.path.abspath(folder):  # noqa: PTH100 - pathlib is slow to import
        return False  # whose the symbolic links are is looked at by the command line
    while above != "/":
        above = os.path.dirname(above)  # noqa: PTH120 - pathlib is slow to import
        mode = os.stat(above).st_mode  # noqa: PTH116 - pathlib is slow to import
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            return False
    return True


def _direct_arguments(arguments: Sequence[str]) -> tuple[str, Asked] | None:
    """(store, what is asked)."""
    at = arguments.index("--store")
    asked = direct_questions([*arguments[:at], *arguments[at + 2 :]])
    if asked is None or len(arguments) <= at + 1 or any(kernel for _, kernel, _ in asked[1]):
        return None
    return arguments[at + 1], asked


def _digest(file: str) -> bytes:
    """SHA-256 of a file of which the system knows how large it is. Raises NeedsIndex for any other, and OSError."""
    with open(file, "rb", buffering=0) as stream:  # noqa: PTH123 - pathlib is slow to import
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode) or not 0 < status.st_size <= MODULE_BYTES:
            raise NeedsIndex("no regular file, or one that is empty or too large")
        hashed, chunk = openssl_sha256(usedforsecurity=False), memoryview(bytearray(min(_CHUNK, status.st_size)))
        while size := stream.readinto(chunk):
            hashed.update(chunk[:size])
    return hashed.digest()
