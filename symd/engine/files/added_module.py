"""A module that a daemon or an engine has: named by as much of its SHA-256 as no other has, or added now. Nothing here
needs the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from symd.config import Limits
from symd.engine.files import hints_name, working
from symd.engine.files.companion_files import with_debug_file, with_dwo_files, with_kernel_packs
from symd.engine.files.input import (
    AllowedFiles,
    check_no_module_name,
    module_beginning,
    module_digest,
    read_input,
)
from symd.errors import BadQuery, ModuleNotFound, ObjectNotFound, StoreUnavailable, SymdError
from symd.formats.containers.file_part import sha256_of
from symd.model.frame_text import printable
from symd.model.identities import is_digest
from symd.model.summaries import ModuleSummary
from symd.model.texts import in_utf8

if TYPE_CHECKING:
    from symd.api import Symbolizer

_NAME = "modules/"
_SHOWN = 4
"""The most modules that are named where the beginning of a digest could mean several."""
SHORT = 16
"""Digits of a digest that are shown where a person reads it."""


@dataclass(frozen=True, slots=True)
class OpenModule:
    """A module that is in ``symbolizer`` under ``digest``; ``name`` is what the user called it."""

    symbolizer: Symbolizer
    digest: str
    name: str

    def summary(self) -> ModuleSummary:
        return self.symbolizer.module(self.digest)


@contextmanager
def open_daemon_module(file: str, server: str, limits: Limits) -> Iterator[OpenModule]:
    """A module of the daemon at ``server`` while the context lasts; ``file`` as for ``add_module``."""
    with hints_name(file), daemon(server) as symbolizer:
        yield OpenModule(symbolizer, add_module(symbolizer, file, server, limits), file)


def daemon(server: str | None) -> AbstractContextManager[Symbolizer]:
    """The daemon at ``server`` (None: the one that runs here), which is connected to when it is asked."""
    from symd.client import Client  # noqa: PLC0415 - 52 ms: gRPC is slow to import and not needed without a server

    return Client(server)


def chosen_module(symbolizer: Symbolizer, text: str) -> str:
    """The digest of the module that ``text`` names: ``modules/SHA256`` or a SHA-256, either whole or the beginning that
    it alone has. A whole one is not looked for. Raises ``ModuleNotFound`` and ``BadQuery``."""
    beginning = text.removeprefix(_NAME)
    if is_digest(beginning):
        return beginning
    if not beginning or beginning.strip("0123456789abcdef"):
        raise BadQuery(
            f"{text[:80]!r} does not name a module",
            hint="write its SHA-256, or the beginning of it; symd modules lists them",
        )
    found = [record.sha256 for record in symbolizer.modules() if record.sha256.startswith(beginning)]
    if len(found) > 1:
        names = ", ".join(found[:_SHOWN])
        raise BadQuery(f"{len(found)} modules begin with {beginning!r}", hint=f"give more of {names}")
    if not found:
        raise ModuleNotFound(f"no module begins with {beginning!r}", hint="symd modules lists them")
    return found[0]


def add_module(
    symbolizer: Symbolizer,
    file: str,
    server: str | None,
    limits: Limits,
    folder: Path | None = None,
    *,
    has_debug: bool = False,
    allowed: AllowedFiles | None = None,
) -> str:
    """Add a module to the symbolizer; returns its SHA-256. ``file`` as for ``open_module``. ``.dwo`` files are looked
    for beside it and in ``folder``. ``has_debug``: the user has named its debug data, so no debug file is looked for.
    With ``allowed`` no other file is opened, neither ``file`` nor what it names."""
    if server and (named := module_digest(file)):
        return named
    beginning = module_beginning(file)
    if beginning and server:
        return chosen_module(symbolizer, beginning)
    if not server:
        check_no_module_name(file)
    with working(f"reading {printable(file)}"):
        data = read_module(file, limits, folder, apart=server is not None, has_debug=has_debug, allowed=allowed)
        return add_bytes(symbolizer, data, "stdin" if file == "-" else file, server)


def read_module(
    file: str,
    limits: Limits,
    folder: Path | None = None,
    *,
    apart: bool,
    has_debug: bool = False,
    allowed: AllowedFiles | None = None,
) -> bytes:
    """The bytes of a module with what other files have of it, as ``add_module`` adds it. ``apart``: they go to another
    process, which cannot look beside the file."""
    data = read_input(file, limits, allowed=allowed)
    data = with_kernel_packs(data, file, limits, beside=apart, allowed=allowed)
    data = data if has_debug else with_debug_file(data, file, limits, allowed)
    return with_dwo_files(data, file, limits, folder, beside=apart, allowed=allowed)


def add_bytes(symbolizer: Symbolizer, data: bytes, label: str, server: str | None) -> str:
    """Add a module to the symbolizer, if a daemon does not have it yet; returns its SHA-256. Errors name it by
    ``label``."""
    if server and _may_be_asked(symbolizer, digest := sha256_of(data)):
        return digest
    try:
        return symbolizer.add(data, in_utf8(label)).sha256
    except ObjectNotFound:
        raise  # it concerns the question, not the bytes
    except SymdError as error:
        raise error.prefix_where("standard input" if label == "stdin" else label) from None


def _may_be_asked(symbolizer: Symbolizer, digest: str) -> bool:
    """Whether the daemon has a module, or knows it and cannot say for now whether its bytes are there: it may answer
    all the same."""
    try:
        return not symbolizer.missing([digest])
    except StoreUnavailable as unavailable:
        try:
            symbolizer.record(digest)
        except SymdError:
            raise unavailable from None
        return True
