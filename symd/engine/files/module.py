"""The module that a verb asks: of an engine in this process, or of a daemon (``added_module``). Also the kernels that a
name means: by symbol, or as written in the source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

from symd.api import Symbolizer
from symd.config import Limits
from symd.debuginfo import separate_files
from symd.debuginfo.separate_files import joined
from symd.engine.engine import Engine
from symd.engine.files import hints_name
from symd.engine.files.added_module import OpenModule, add_module, daemon
from symd.engine.files.input import read_input
from symd.engine.files.listing_sources import allowed_folders, texts_of, texts_on_disk, with_python_names
from symd.engine.reading.questions import InProcessReader
from symd.errors import InvalidInput, KernelNotFound, ObjectNotFound, SymdError
from symd.formats.budget import Budget
from symd.formats.containers import spirv, with_dwo
from symd.formats.spirv.module import check_same_code
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Answer, Reason
from symd.model.names import Match, NameKind, NameQuery
from symd.model.sources import PathRule
from symd.model.texts import in_utf8
from symd.query.disasm import disassemble
from symd.store import Store


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


@contextmanager
def open_module(
    file: str, server: str | None, limits: Limits, debug: str | None = None, only: str | None = None
) -> Iterator[OpenModule]:
    """Open a module while the context lasts. ``file`` is a path, a code object URI, "-" for standard input, or with a
    server ``modules/<sha256>``. ``debug`` names debug data apart from the file: a file of ``symd slim``, a ``.dwo``
    file, a ``.dwp`` package, a SPIR-V module with the same code, or a folder of these; the module is then all of them
    joined. ``only`` is the path of the code object that all questions will be about: of a file that is read here
    nothing else is decoded."""
    with hints_name(file), open_symbolizer(server, limits, only if debug is None else None) as symbolizer:
        yield OpenModule(symbolizer, add_with_debug(symbolizer, file, server, limits, debug), file)


Sources = tuple[Sequence[Path], Sequence[PathRule]]
"""Folders and rules by which source files are found, as for ``allowed_folders``."""


def with_source_names(module: OpenModule, sources: Sources, limits: Limits) -> OpenModule:
    """The module, whose answers have the names of Python functions that these sources tell."""
    return replace(module, symbolizer=with_python_names(module.symbolizer, allowed_folders(*sources), limits))


def source_files_of(file: str, limits: Limits) -> list[str]:
    """The names of the source files that the debug data of a module names."""
    with open_module(file, None, limits) as module:
        wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.FILE}))
        return [each.name for each in module.symbolizer.names(module.digest, wanted)]


def source_texts_of_file(file: str, files: Sequence[str], sources: Sources, limits: Limits) -> dict[str, str | None]:
    """The text of each source file that a module carries, or from a folder of ``sources``; None where there is none."""
    allowed = allowed_folders(*sources)
    if not Path(file).is_file():  # what came through a pipe comes once
        return texts_on_disk(files, allowed, limits)
    with open_module(file, None, limits) as module:
        return texts_of(module.symbolizer, module.digest, files, allowed, limits)


def add_with_debug(symbolizer: Symbolizer, file: str, server: str | None, limits: Limits, debug: str | None) -> str:
    """Add a module to the symbolizer; returns its SHA-256. ``file`` and ``debug`` as for ``open_module``."""
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
    return daemon(server)


def _with_dwo(code: bytes, apart: bytes, budget: Budget) -> bytes:
    separate_files.check_same_build(code, apart, budget)
    return with_dwo.joined(code, {"": [apart]})


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
            whole = (
                _with_dwo(code, apart, budget)
                if separate_files.has_units(apart, budget)
                else joined(code, apart, budget)
            )
    except ObjectNotFound:
        hint = "symd extract FILE DIR writes them as files of their own"
        raise InvalidInput(
            "debug data is joined to one code object, and this holds several", where=file, hint=hint
        ) from None
    except SymdError as error:
        raise error.prefix_where(debug) from None
    return symbolizer.add(whole, in_utf8(f"{file} with {debug}")).sha256
