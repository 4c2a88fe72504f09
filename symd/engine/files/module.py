"""The module that a verb reads: a file opened in this process, or one that a daemon has or is given.

A daemon's module as the user names it: by its SHA-256, or by as much of it as no other has.

The kernels that a name means: the name of its symbol, or as it was written, as ``symbolize`` takes both.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from symd.api import Symbolizer
from symd.config import Limits
from symd.debuginfo import dwo
from symd.debuginfo.slim import joined
from symd.engine.engine import Engine
from symd.engine.files.debug_files import with_debug_file, with_dwo_files
from symd.engine.files.file_notices import hints_name, working
from symd.engine.files.input import (
    check_no_bare_digest,
    check_no_module_name,
    module_beginning,
    module_digest,
    read_input,
)
from symd.engine.files.kernel_packs import with_kernel_packs
from symd.engine.reading.questions import InProcessReader
from symd.errors import (
    BadQuery,
    InvalidInput,
    KernelNotFound,
    ModuleNotFound,
    ObjectNotFound,
    StoreUnavailable,
    SymdError,
)
from symd.formats.budget import Budget
from symd.formats.containers import spirv, with_dwo
from symd.formats.containers.file_part import sha256_of
from symd.formats.spirv.module import check_same_code
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Answer, Reason
from symd.model.frame_text import printable
from symd.model.identities import is_digest
from symd.model.summaries import ModuleSummary
from symd.model.texts import file_label
from symd.query.disasm import disassemble
from symd.store import Store

if TYPE_CHECKING:
    from symd.engine.files.input import AllowedFiles


_NAME = "modules/"
_SHOWN = 4
"""The most modules that are named where the beginning of a digest could mean several."""
SHORT = 16
"""Digits of a digest that are shown where a person reads it."""


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


def kernel_names(symbolizer: Symbolizer, digest: str, name: str, path: str | None = None) -> frozenset[str]:
    """The names of the kernels' symbols; several where several code objects have kernels of that name. Raises
    KernelNotFound, which names kernels that are called like it."""
    answer = symbolizer.symbolize_one(digest, ByKernel(name, KernelOffset(0)), path)
    if answer.reason is Reason.UNKNOWN_KERNEL:
        in_spirv = symbolizer.module(digest).spirv_hint(name) if path is None else ""
        hint = in_spirv or did_you_mean(answer)
        raise KernelNotFound(f"there is no kernel {name!r}", hint=hint)
    return frozenset(filter(None, (answer.kernel, *(each.kernel for each in answer.candidates))))


def did_you_mean(answer: Answer) -> str:
    """What could be meant by the name of an answer with the reason UNKNOWN_KERNEL; "" where nothing is called like
    it."""
    like = " or ".join(each.function for each in answer.candidates if each.function)
    return f"did you mean {like}?" if like else ""


@dataclass(frozen=True, slots=True)
class OpenModule:
    """A module that is in ``symbolizer`` under ``digest``; ``name`` is what the user called it."""

    symbolizer: Symbolizer
    digest: str
    name: str

    def summary(self) -> ModuleSummary:
        return self.symbolizer.module(self.digest)


@contextmanager
def open_module(
    file: str, server: str | None, limits: Limits, debug: str | None = None, only: str | None = None
) -> Iterator[OpenModule]:
    """``file`` is a path, a code object URI, "-" for standard input, or with a server ``modules/<sha256>``. ``debug``
    is where its debug data stands when that is apart: a file of ``symd slim``, a ``.dwo`` file, a ``.dwp`` package, a
    SPIR-V module with the same code, or a folder of these. The module is then all of them joined. ``only`` is the path
    of the code object that all questions will be about: of a file that is read here nothing else is decoded."""
    with hints_name(file), open_symbolizer(server, limits, only if debug is None else None) as symbolizer:
        yield OpenModule(symbolizer, add_with_debug(symbolizer, file, server, limits, debug), file)


def add_with_debug(symbolizer: Symbolizer, file: str, server: str | None, limits: Limits, debug: str | None) -> str:
    """The SHA-256 of one more module, which the symbolizer has then; ``file`` and ``debug`` as for ``open_module``."""
    folder = Path(debug) if debug is not None and Path(debug).is_dir() else None
    digest = add_module(symbolizer, file, server, limits, folder, has_debug=debug is not None)
    if debug is None or folder is not None:
        return digest
    return joined_with(symbolizer, digest, file, debug, limits)


def open_symbolizer(server: str | None, limits: Limits, only: str | None = None) -> AbstractContextManager[Symbolizer]:
    """The daemon at ``server``, or an engine of this process over an empty temporary store; ``only`` as for
    ``open_module``."""
    if server is None:
        reader = InProcessReader(limits, only)
        return Engine(Store.temporary(limits), limits, disassemble=disassemble, reader=reader)
    from symd.client import Client  # noqa: PLC0415 - 52 ms: gRPC is slow to import and not needed without a server

    return Client(server)


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
    """The SHA-256 of one more module, which the symbolizer has then; ``file`` as for ``open_module``. ``folder`` is
    where ``.dwo`` files are looked for, besides beside it. ``has_debug``: whoever asks has named its debug data, and no
    debug file is looked for. With ``allowed`` no other file is opened, neither ``file`` nor what it names."""
    if server and (named := module_digest(file)):
        return named
    beginning = module_beginning(file)
    if beginning and server:
        return chosen_module(symbolizer, beginning)
    if server:
        check_no_bare_digest(file)
    else:
        check_no_module_name(file)
    apart = server is not None  # what is read here goes there
    with working(f"reading {printable(file)}"):
        data = read_input(file, limits, allowed=allowed)
        data = with_kernel_packs(data, file, limits, beside=apart, allowed=allowed)
        data = data if has_debug else with_debug_file(data, file, limits, allowed)
        data = with_dwo_files(data, file, limits, folder, beside=apart, allowed=allowed)
        return add_bytes(symbolizer, data, "stdin" if file == "-" else file, server)


def add_bytes(symbolizer: Symbolizer, data: bytes, label: str, server: str | None) -> str:
    """The SHA-256 of a module, which the symbolizer has then; errors call it ``label``."""
    if server and _may_be_asked(symbolizer, digest := sha256_of(data)):
        return digest
    try:
        return symbolizer.add(data, file_label(label)).sha256
    except ObjectNotFound:
        raise  # about what is asked, and not about the bytes
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


def _with_dwo(code: bytes, apart: bytes, budget: Budget) -> bytes:
    dwo.check_same_build(code, apart, budget)
    return dwo.with_dwo(code, [apart], budget)


def _with_debug_module(code: bytes, apart: bytes) -> bytes:
    check_same_code(code, apart)
    return with_dwo.joined(code, {"": [apart]})


def joined_with(symbolizer: Symbolizer, digest: str, file: str, debug: str, limits: Limits) -> str:
    """The SHA-256 of the module that a code object and its debug file make together; the symbolizer has it then."""
    apart = read_input(debug, limits)
    try:
        code = symbolizer.object_data(digest, "")
        budget = Budget(limits, len(code) + len(apart))
        if spirv.claims(code):
            whole = _with_debug_module(code, apart)
        else:
            whole = _with_dwo(code, apart, budget) if dwo.has_units(apart, budget) else joined(code, apart, budget)
    except ObjectNotFound:
        hint = "symd extract FILE DIR writes them as files of their own"
        raise InvalidInput(
            "debug data is joined to one code object, and this holds several", where=file, hint=hint
        ) from None
    except SymdError as error:
        raise error.prefix_where(debug) from None
    return symbolizer.add(whole, file_label(f"{file} with {debug}")).sha256
