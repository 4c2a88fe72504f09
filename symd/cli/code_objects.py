"""The code objects of a file that is read here, and its description, as a daemon tells of a module, but without an
engine; and those of a daemon's module, for verbs that work on files. Large files (``opened_file`` says which those are)
are mapped and opened one code object after the other."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, cast

from symd.cli.options import server_option_that
from symd.config import Limits
from symd.debuginfo import reading
from symd.engine.files import gc_frozen, hints_name, working
from symd.engine.files.added_module import open_daemon_module
from symd.engine.files.input import called, check_no_module_name, module_beginning, module_digest
from symd.engine.files.opened_file import is_large, is_long, mapped_file, whole_file
from symd.errors import ObjectNotFound, SymdError
from symd.formats.budget import DebugBudget
from symd.formats.containers import ContainerUnpacker
from symd.formats.containers.code_reloader import read_now
from symd.formats.containers.file_part import forget, sha256_of
from symd.index.lookup import Index
from symd.index.module import build_index, judged_summary
from symd.index.module_tables import DecodedObject
from symd.model.code import CodeObject, Vendor
from symd.model.frame_text import printable
from symd.model.identities import Digest
from symd.model.summaries import ModuleSummary, ObjectSummary, SectionAddresses, code_summary, section_addresses
from symd.system.process.resources import tune_malloc_for_command

if TYPE_CHECKING:
    from concurrent.futures import Future


_HASHING = 2
"""Threads that hash: the file, and its code objects."""
_LATER = Digest("")
"""Stands for the digest of a code object that is still being hashed, or not asked for."""


def file_summary(file: str, limits: Limits, *, object_digests: bool) -> tuple[ModuleSummary, SectionAddresses]:
    """The module in ``file`` described as its index has it, and the addresses of its kernels' sections. The code
    objects of a large module have their digests or not, and debug data is looked at where Intel's compiler wrote it,
    whose contradictions are noted: that of large libraries of others takes minutes. Raises what opening it raises."""
    with _opened(file, limits) as data:
        if is_long(data, limits):
            return _large_summary(data, limits, object_digests=object_digests)
        index = Index(build_index(data, limits))
        return index.summary, _addresses_in(index)


def file_objects(file: str, limits: Limits) -> Iterator[tuple[ObjectSummary, bytes]]:
    """Every code object in ``file`` with its bytes, one at a time in memory. Raises what opening it raises."""
    with _opened(file, limits) as data:
        for code in ContainerUnpacker(data, limits):
            yield code_summary(code, Digest(sha256_of(code.data))), code.data
            forget(data)


@contextmanager
def _opened(file: str, limits: Limits) -> Iterator[bytes]:
    """The bytes of ``file``, mapped where they are many."""
    check_no_module_name(file)
    with hints_name(file), working(f"reading {printable(file)}"), gc_frozen():
        if is_large(file, limits):
            with mapped_file(file) as mapped:
                data = cast("bytes", mapped)
        else:
            data = whole_file(file, limits)
        try:
            yield data
        except SymdError as error:
            raise error.prefix_where(called(file)) from None


def _addresses_in(index: Index) -> SectionAddresses:
    found: dict[str, dict[int, int]] = {}
    columns = index.columns
    rows = zip(
        columns.section_object.tolist(), columns.section_number.tolist(), columns.section_address.tolist(), strict=True
    )
    for number, section, address in rows:
        if address:
            found.setdefault(index.objects[number], {})[section] = address
    return found


def _large_summary(data: bytes, limits: Limits, *, object_digests: bool) -> tuple[ModuleSummary, SectionAddresses]:
    opening, budget = ContainerUnpacker(data, limits), DebugBudget(limits, len(data))
    tune_malloc_for_command()
    with ThreadPoolExecutor(_HASHING) as pool:
        digest = pool.submit(sha256_of, data)
        addresses: dict[str, dict[int, int]] = {}
        objects = tuple(_summaries(opening, budget, pool if object_digests else None, addresses))
        notes, opened = tuple(opening.notes), tuple(opening.containers)
        return ModuleSummary(Digest(digest.result()), len(data), opening.format, objects, notes, opened), addresses


def _summaries(
    opening: ContainerUnpacker,
    budget: DebugBudget,
    pool: ThreadPoolExecutor | None,
    addresses: dict[str, dict[int, int]],
) -> Iterator[ObjectSummary]:
    """Every code object described; ``addresses`` takes those of its sections. The digest of each is made while the next
    one is opened: no more than two are in memory, without digests one."""
    pending: tuple[ObjectSummary, Future[str]] | None = None
    for code in opening:
        described = read_now(_described(code, budget))
        if found := section_addresses(code):
            addresses[code.path] = found
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


fetching_server_option = server_option_that(
    "Take modules/SHA256, or the beginning of it, from the daemon at unix:PATH, HOST:PORT or tls:HOST:PORT."
    ' Everything else is read here. "default" is the daemon that runs here, "none" means no daemon.'
)


def daemon_of(file: str, server: str | None) -> str | None:
    """``server`` where ``file`` is the name of a module that the daemon there has; None where it is that of a file."""
    return server if module_digest(file) or module_beginning(file) else None


def daemon_object(file: str, server: str, limits: Limits) -> bytes:
    """The bytes of a module that is one code object. Raises ``ObjectNotFound`` where it holds several,
    ``ModuleNotFound``."""
    with open_daemon_module(file, server, limits) as module:
        try:
            return module.symbolizer.object_data(module.digest, "")
        except ObjectNotFound:
            hint = f"symd extract {file} DIR writes them as files of their own"
            raise ObjectNotFound(
                "the module is not itself a code object: it contains some", where=file, hint=hint
            ) from None


def daemon_objects(file: str, server: str, limits: Limits) -> Iterator[CodeObject]:
    """Every code object of a module, each at its nesting path, read here. Raises ``ModuleNotFound``."""
    with open_daemon_module(file, server, limits) as module:
        for each in module.summary().objects:
            data = module.symbolizer.object_data(module.digest, each.path)
            (code,) = ContainerUnpacker(data, limits, "")
            yield code._replace(path=each.path)
