"""The code objects of a module, one by one, for verbs that work on them: of a file too large for memory mapped and
described one after the other (``opened_file`` says which files those are), of a daemon's module fetched from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

from symd.cli.options import server_option_that
from symd.config import Limits
from symd.debuginfo import reading
from symd.engine.files.gc_control import gc_frozen
from symd.engine.files.input import module_beginning, module_digest
from symd.engine.files.module import open_module
from symd.engine.files.opened_file import mapped_file
from symd.errors import ObjectNotFound, SymdError
from symd.formats import containers
from symd.formats.budget import DebugBudget
from symd.formats.containers import ContainerUnpacker
from symd.formats.containers.code_reloader import read_now
from symd.formats.containers.file_part import forget, sha256_of
from symd.index.module import judged_summary
from symd.index.module_tables import DecodedObject
from symd.model.code import CodeObject, Vendor
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary, code_summary
from symd.system.process.resources import tune_malloc_for_command

if TYPE_CHECKING:
    from concurrent.futures import Future


_HASHING = 2
"""Threads that hash: the file, and its code objects."""
_LATER = Digest("")
"""Stands for the digest of a code object that is still being hashed, or not asked for."""


def large_file_summary(file: str, limits: Limits, *, object_digests: bool) -> ModuleSummary:
    """The module in ``file`` described, its code objects with their digests or without. Raises what opening it raises.
    Debug data is looked at where Intel's compiler wrote it, whose contradictions are noted; that of large libraries of
    others takes minutes."""
    with mapped_file(file) as mapped, gc_frozen():
        data = cast("bytes", mapped)
        opening, budget = ContainerUnpacker(data, limits), DebugBudget(limits, len(data))
        tune_malloc_for_command()
        with ThreadPoolExecutor(_HASHING) as pool:
            digest = pool.submit(sha256_of, data)
            try:
                objects = tuple(_summaries(opening, budget, pool if object_digests else None))
            except SymdError as error:
                raise error.prefix_where(file) from None
            return ModuleSummary(
                Digest(digest.result()),
                len(data),
                opening.format,
                objects,
                tuple(opening.notes),
                tuple(opening.containers),
            )


def _summaries(
    opening: ContainerUnpacker, budget: DebugBudget, pool: ThreadPoolExecutor | None
) -> Iterator[ObjectSummary]:
    """Every code object described. The digest of each is made while the next one is opened: no more than two are in
    memory, without digests one."""
    pending: tuple[ObjectSummary, Future[str]] | None = None
    for code in opening:
        described = read_now(_described(code, budget))
        if pool is None:
            yield described
        else:
            digest = pool.submit(sha256_of, code.data)
            if pending:
                yield _with_digest(*pending)
            pending = described, digest
            del digest
        del code
        forget(opening.data)
    if pending:
        yield _with_digest(*pending)


def _with_digest(summary: ObjectSummary, digest: Future[str]) -> ObjectSummary:
    return summary._replace(sha256=Digest(digest.result()))


def _described(code: CodeObject, budget: DebugBudget) -> ObjectSummary:
    if code.vendor is not Vendor.INTEL:
        return code_summary(code, _LATER)

    return judged_summary(DecodedObject(*reading.read_or_refused(code, budget)), _LATER)


def large_file_objects(file: str, limits: Limits) -> Iterator[tuple[ObjectSummary, bytes]]:
    """Every code object in ``file`` with its bytes, one at a time in memory. Raises what opening it raises."""
    with mapped_file(file) as mapped, gc_frozen():
        data = cast("bytes", mapped)
        try:
            for code in ContainerUnpacker(data, limits):
                yield code_summary(code, Digest(sha256_of(code.data))), code.data
                forget(data)
        except SymdError as error:
            raise error.prefix_where(file) from None


fetching_server_option = server_option_that(
    "Take modules/SHA256, or the beginning of it, from the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT."
    ' Everything else is read here. "default" is the daemon that runs here, "none" means no daemon.'
)


def is_of_daemon(file: str, server: str | None) -> bool:
    """Whether ``file`` is a name of a module that the daemon at ``server`` has, not of a file."""
    return server is not None and bool(module_digest(file) or module_beginning(file))


def daemon_object(file: str, server: str | None, limits: Limits) -> bytes:
    """The bytes of a module that is one code object. Raises ``ObjectNotFound`` where it holds several,
    ``ModuleNotFound``."""
    with open_module(file, server, limits) as module:
        try:
            return module.symbolizer.object_data(module.digest, "")
        except ObjectNotFound:
            hint = f"symd extract {file} DIR writes them as files of their own"
            raise ObjectNotFound(
                "the module is not itself a code object: it contains some", where=file, hint=hint
            ) from None


def daemon_objects(file: str, server: str | None, limits: Limits) -> Iterator[CodeObject]:
    """Every code object of a module, each at its nesting path, read here. Raises ``ModuleNotFound``."""
    with open_module(file, server, limits) as module:
        for each in module.summary().objects:
            data = module.symbolizer.object_data(module.digest, each.path)
            (code,) = containers.ContainerUnpacker(data, limits, "")
            yield code._replace(path=each.path)
