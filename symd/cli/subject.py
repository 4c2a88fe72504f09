"""The module that a verb speaks about: a file opened in this process, or one that a daemon has or is given."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from symd.config import Limits
from symd.containers import uri
from symd.containers.amdgpu_joined import joined
from symd.containers.budget import Budget
from symd.containers.uri import CodeObjectUri
from symd.disasm import disassemble
from symd.engine import Engine, Symbolizer
from symd.errors import InvalidInput, LimitExceeded, ObjectNotFound, SymdError
from symd.model import ModuleSummary
from symd.store import Store

_NAME = re.compile(r"modules/([0-9a-f]{64})")


@dataclass(frozen=True, slots=True)
class Subject:
    """A module that is in ``symbolizer`` under ``digest``; ``name`` is what the user called it."""

    symbolizer: Symbolizer
    digest: str
    name: str

    def summary(self) -> ModuleSummary:
        return self.symbolizer.module(self.digest)


@contextmanager
def opened(file: str, server: str | None, limits: Limits, debug: str | None = None) -> Iterator[Subject]:
    """``file`` is a path, a code object URI, "-" for standard input, or with a server ``modules/<sha256>``. ``debug`` is
    where its debug data stands when that is apart (``symd slim``): the module is then both of them joined."""
    with _symbolizer(server, limits) as symbolizer:
        digest = _digest(symbolizer, file, server, limits)
        if debug is not None:
            digest = _with_debug(symbolizer, digest, file, debug, limits)
        yield Subject(symbolizer, digest, file)


def symbolizing(server: str | None, limits: Limits) -> AbstractContextManager[Symbolizer]:
    """The daemon at ``server``, or an engine of this process."""
    return _symbolizer(server, limits)


def added(symbolizer: Symbolizer, file: str, server: str | None, limits: Limits) -> str:
    """The digest of one more module, which is in the symbolizer then; ``file`` as for ``opened``."""
    return _digest(symbolizer, file, server, limits)


def _symbolizer(server: str | None, limits: Limits) -> AbstractContextManager[Symbolizer]:
    if server is None:
        return Engine(Store.temporary(limits), limits, disassemble=disassemble)
    from symd.client import Client  # noqa: PLC0415 - gRPC is slow to import and not needed without a server

    return Client(server)


def _digest(symbolizer: Symbolizer, file: str, server: str | None, limits: Limits) -> str:
    named = _NAME.fullmatch(file)
    if named and server:
        return named[1]
    if named and not Path(file).exists():
        raise InvalidInput("a module's name means something to a daemon only", where=file, hint="give --server ADDRESS")
    return _added(symbolizer, read_input(file, limits), "stdin" if file == "-" else file, server)


def _added(symbolizer: Symbolizer, data: bytes, label: str, server: str | None) -> str:
    digest = hashlib.sha256(data).hexdigest()
    if server and not symbolizer.missing([digest]):
        return digest
    try:
        return symbolizer.add(data, label).sha256
    except SymdError as error:
        raise error.at("standard input" if label == "stdin" else label) from None


def _with_debug(symbolizer: Symbolizer, digest: str, file: str, debug: str, limits: Limits) -> str:
    """The name of the module that the code object and its debug file make together; the symbolizer is given it."""
    apart = read_input(debug, limits)
    try:
        whole = joined(symbolizer.object_data(digest, ""), apart, Budget(limits))
    except ObjectNotFound:
        hint = "symd extract FILE DIR writes them as files of their own"
        raise InvalidInput(
            "debug data is joined to one code object, and this holds several", where=file, hint=hint
        ) from None
    except SymdError as error:
        raise error.at(debug) from None
    return symbolizer.add(whole, f"{file} with {debug}").sha256


def read_input(file: str, limits: Limits) -> bytes:
    """The bytes of a file, of the part that a code object URI names, or of standard input for "-". Raises
    ``InvalidInput``, ``LimitExceeded``, and ``Unsupported`` for a URI into a process."""
    if file == "-":
        return _bounded(sys.stdin.buffer, "standard input", limits)
    place = uri.parse(file) if uri.is_uri(file) else CodeObjectUri(file)
    try:
        with Path(place.path).open("rb") as stream:
            return _bounded(stream, file, limits) if place.size is None else _cut(stream, place, file, limits)
    except (OSError, ValueError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"cannot read the file: {(reason or 'unknown reason').lower()}", where=file) from error


def _cut(stream: BinaryIO, place: CodeObjectUri, name: str, limits: Limits) -> bytes:
    """The bytes that a URI's range names; the rest of the file, which may be large, is not read."""
    offset, size = place.offset or 0, place.size or 0
    end = stream.seek(0, os.SEEK_END)
    if offset + size > end:
        raise InvalidInput(f"the URI's range ends at byte {offset + size}, past the file's {end} bytes", where=name)
    if size > limits.module_size:
        raise _too_large(name, limits)
    stream.seek(offset)
    return stream.read(size)


def _bounded(stream: BinaryIO, name: str, limits: Limits) -> bytes:
    data = stream.read(limits.module_size + 1)
    if len(data) > limits.module_size:
        raise _too_large(name, limits)
    return data


def _too_large(name: str, limits: Limits) -> LimitExceeded:
    return LimitExceeded(
        f"it is larger than {limits.module_size} bytes",
        where=name,
        hint="raise it with --limit module_size=BYTES",
        metadata={"limit": "module_size"},
    )
