"""The module that a verb speaks about: a file opened in this process, or one that a daemon has or is given."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from symd.config import Limits
from symd.engine import Engine, Symbolizer
from symd.errors import InvalidInput, LimitExceeded, SymdError
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
def opened(file: str, server: str | None, limits: Limits) -> Iterator[Subject]:
    """``file`` is a path, "-" for standard input, or with a server ``modules/<sha256>``."""
    with _symbolizer(server, limits) as symbolizer:
        yield Subject(symbolizer, _digest(symbolizer, file, server, limits), file)


def _symbolizer(server: str | None, limits: Limits) -> AbstractContextManager[Symbolizer]:
    if server is None:
        return Engine(Store.temporary(limits), limits)
    from symd.client import Client  # noqa: PLC0415 - gRPC is slow to import and not needed without a server

    return Client(server)


def _digest(symbolizer: Symbolizer, file: str, server: str | None, limits: Limits) -> str:
    named = _NAME.fullmatch(file)
    if named and server:
        return named[1]
    if named and not Path(file).exists():
        raise InvalidInput("a module's name means something to a daemon only", where=file, hint="give --server ADDRESS")
    data = read_input(file, limits)
    digest = hashlib.sha256(data).hexdigest()
    if server and not symbolizer.missing([digest]):
        return digest
    try:
        return symbolizer.add(data, "stdin" if file == "-" else file).sha256
    except SymdError as error:
        raise error.at("standard input" if file == "-" else file) from None


def read_input(file: str, limits: Limits) -> bytes:
    """The bytes of a file, or of standard input for "-". Raises ``InvalidInput`` and ``LimitExceeded``."""
    if file == "-":
        return _bounded(sys.stdin.buffer, "standard input", limits)
    try:
        with Path(file).open("rb") as stream:
            return _bounded(stream, file, limits)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise InvalidInput(f"cannot read the file: {(reason or 'unknown reason').lower()}", where=file) from error


def _bounded(stream: BinaryIO, name: str, limits: Limits) -> bytes:
    data = stream.read(limits.module_size + 1)
    if len(data) > limits.module_size:
        raise LimitExceeded(
            f"it is larger than {limits.module_size} bytes",
            where=name,
            hint="raise it with --limit module_size=BYTES",
            metadata={"limit": "module_size"},
        )
    return data
