"""The questions that a module's bytes answer, one class each, and who answers them. ``WorkerRequest[T]`` is answered by
a ``T``, a value that ``served`` can write."""

from __future__ import annotations

import abc
import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Generic, Protocol, TypeVar

from symd.config import Limits
from symd.cores import call_frame_section, identity_of, shared
from symd.debuginfo.variables.registers import frame_addresses
from symd.engine.reading import ModuleFile, OpenedModule, OpenedModules
from symd.errors import Malformed, NotFound, StoreUnavailable
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.elf.constants import SHT_NOBITS, SHT_NULL
from symd.index import VERSION
from symd.index.builder import check_size
from symd.index.summary import pack
from symd.model.addresses import Query
from symd.model.code import NO_FACTS, CodeObject, Kernel, Section
from symd.model.identities import ObjectPath
from symd.model.line_tables import CodeSpan, LineTable
from symd.model.sources import SourceText
from symd.model.variables import Visible
from symd.query.line_tables import chosen, ptx_tables
from symd.query.source_files import from_module
from symd.system.messages import refusal

if TYPE_CHECKING:
    from symd.cores import CodeIdentity, SharedFrames
    from symd.cores.read import OpenedDump


T_co = TypeVar("T_co", covariant=True)
_LISTED_FACTS = ("simd_width", "entry_offset")
"""What disassembling wants to know of a kernel."""


class WorkerRequest(abc.ABC, Generic[T_co]):
    """Something to be asked of a module's bytes."""

    @abc.abstractmethod
    def answer(self, module: OpenedModule) -> T_co:
        """The answer. Raises what unpacking raises, and what the question's own class says."""


@dataclass(frozen=True, slots=True)
class MakeIndex(WorkerRequest[int]):
    """Write the module's index into the file ``into``, which is there and empty; the answer is its size in bytes.
    ``version`` is that of the format which the asker expects, ``descriptor`` the file's where it may not be opened."""

    into: str
    version: int = VERSION
    descriptor: int | None = None

    def answer(self, module: OpenedModule) -> int:
        with _file(self) as file:
            return module.write_index(file)


@dataclass(frozen=True, slots=True)
class Outline(WorkerRequest["bytes | None"]):
    """The module's summary, packed (``index.summary``), before anything is decoded; None for a module of so few code
    objects that its index is made as soon."""

    def answer(self, module: OpenedModule) -> bytes | None:
        return None if module.partial is None else pack(module.partial.summary)


@dataclass(frozen=True, slots=True)
class IndexFor(WorkerRequest["bytes | None"]):
    """An index file that answers ``queries``, and no more than it must; None where only the whole one does."""

    queries: tuple[Query, ...]

    def answer(self, module: OpenedModule) -> bytes | None:
        return module.partial.file(self.queries) if module.partial is not None else None


@dataclass(frozen=True, slots=True)
class VariablesAt(WorkerRequest["tuple[Visible | str, ...]"]):
    """The variables in scope at each of several places, (section, offset from its start), of the code object at
    ``path``; text where the debug data cannot be trusted: why. Raises ``ObjectNotFound``."""

    path: str
    places: tuple[tuple[int, int], ...]

    def answer(self, module: OpenedModule) -> tuple[Visible | str, ...]:
        return module.visible(self.path, self.places)


@dataclass(frozen=True, slots=True)
class ListedCode(WorkerRequest[tuple[CodeObject, ...]]):
    """The code object at ``path``, or those that ``spans`` reach into, or all but SPIR-V that machine code was made
    from, with what disassembling needs of them and nothing else. ``target`` is the device of those that do not say
    theirs. Raises ``ObjectNotFound``."""

    path: ObjectPath | None = None
    spans: tuple[CodeSpan, ...] | None = None
    target: str | None = None

    def answer(self, module: OpenedModule) -> tuple[CodeObject, ...]:
        codes = chosen(module.objects_at(self.path), self.path, self.spans, self.target)
        return tuple(_code_alone(code, self.spans) for code in codes)


@dataclass(frozen=True, slots=True)
class EmbeddedSources(WorkerRequest[tuple[SourceText, ...]]):
    """What the module, or its code object at ``path``, carries of each file. Raises ``ObjectNotFound``."""

    files: tuple[str, ...]
    path: str | None = None

    def answer(self, module: OpenedModule) -> tuple[SourceText, ...]:
        return tuple(from_module(module.objects_at(self.path), self.files, self.path))


@dataclass(frozen=True, slots=True)
class ObjectBytes(WorkerRequest[bytes]):
    """The bytes of the code object at ``path``. Raises ``ObjectNotFound``."""

    path: str

    def answer(self, module: OpenedModule) -> bytes:
        return module.object(self.path).data[:]  # of a mapped file the bytes


@dataclass(frozen=True, slots=True)
class WriteObject(WorkerRequest[int]):
    """Write the bytes of the code object at ``path`` into the file ``into``, which is there and empty; the answer is
    their number. ``descriptor`` is the file's where it may not be opened. Raises ``ObjectNotFound``."""

    path: str
    into: str
    descriptor: int | None = None

    def answer(self, module: OpenedModule) -> int:
        data = module.object(self.path).data
        check_size(len(data), module.limits.index_size)
        with _file(self) as file:
            return file.write(data)


@dataclass(frozen=True, slots=True)
class SectionBytes(WorkerRequest[bytes]):
    """The bytes of the first section called ``name``, as they are in the file of the code object at ``path``, or
    (None) of the module itself. Raises ``ObjectNotFound``, and ``NotFound`` where there is no such section with bytes
    in the file."""

    path: str | None
    name: str

    def answer(self, module: OpenedModule) -> bytes:
        data = module.data if self.path is None else module.object(self.path).data
        try:
            header = elf.parse_header(data)
            headers = elf.section_headers(data, header)
            names = elf.section_names(data, header, headers)
        except Malformed:
            headers, names = [], []
        for found, name in zip(headers, names, strict=True):
            if name == self.name and found.type not in (SHT_NULL, SHT_NOBITS):
                check_size(found.size, module.limits.index_size)
                return bytes(data[found.offset : found.offset + found.size])
        raise NotFound(f"there is no section {self.name[:200]!r}", where=self.path or module.digest)


@dataclass(frozen=True, slots=True)
class PtxLinesRequest(WorkerRequest[tuple[LineTable, ...]]):
    """The lines of PTX of every code object that has them, or of the one at ``path``. Raises ``ObjectNotFound``."""

    path: str | None = None

    def answer(self, module: OpenedModule) -> tuple[LineTable, ...]:
        return tuple(ptx_tables(module.objects_at(self.path), self.path))


def _dump(module: OpenedModule) -> OpenedDump:
    from symd.cores.read import OpenedDump  # noqa: PLC0415 - 13 to 26 ms: few modules are core dumps

    return OpenedDump(module.data, Budget(module.limits, len(module.data)))


@dataclass(frozen=True, slots=True)
class StoppedWaves(WorkerRequest["SharedFrames"]):
    """What the module says, which is a GPU core dump: every stopped warp or wave. ``frames`` is call frame information
    that other modules have of the code: the number of the image, and the content. Raises InvalidInput for other
    modules."""

    frames: tuple[tuple[int, bytes], ...] = ()

    def answer(self, module: OpenedModule) -> SharedFrames:
        return shared(_dump(module).stopped(dict(self.frames)))


@dataclass(frozen=True, slots=True)
class DumpedMemory(WorkerRequest["tuple[bytes | None, ...]"]):
    """What the module, which is a GPU core dump, has of the device's memory at these addresses and sizes; None where it
    does not have all of that. Raises InvalidInput for other modules."""

    ranges: tuple[tuple[int, int], ...]

    def answer(self, module: OpenedModule) -> tuple[bytes | None, ...]:
        return _dump(module).memory(self.ranges)


@dataclass(frozen=True, slots=True)
class DumpedBytes(WorkerRequest["tuple[bytes | None, ...]"]):
    """What is in the module, which is a GPU core dump, at these positions, in so many bytes; None where it does not
    have all of that."""

    ranges: tuple[tuple[int, int], ...]

    def answer(self, module: OpenedModule) -> tuple[bytes | None, ...]:
        return _dump(module).contents(self.ranges)


@dataclass(frozen=True, slots=True)
class FrameAddresses(WorkerRequest["tuple[tuple[int, int] | None, ...]"]):
    """How the frame's address is computed at several places, (section, offset), of the code object at ``path``: by the
    machine register of a number, and what is added to its content; None where call frame information does not say that.
    Raises ``ObjectNotFound``."""

    path: str
    places: tuple[tuple[int, int], ...]

    def answer(self, module: OpenedModule) -> tuple[tuple[int, int] | None, ...]:
        return frame_addresses(module.object(self.path), self.places)


@dataclass(frozen=True, slots=True)
class CallFrameData(WorkerRequest[bytes]):
    """The call frame information of the code object at ``path``, which is AMD's; nothing where it has none. Raises
    ``ObjectNotFound``."""

    path: str

    def answer(self, module: OpenedModule) -> bytes:
        return call_frame_section(module.object(self.path))


@dataclass(frozen=True, slots=True)
class CodeIdentities(WorkerRequest["tuple[tuple[str, CodeIdentity], ...]"]):
    """What the code of each code object is known by, with its path."""

    def answer(self, module: OpenedModule) -> tuple[tuple[str, CodeIdentity], ...]:
        known = ((code.path, identity_of(code)) for code in module.objects)
        return tuple((path, identity) for path, identity in known if identity is not None)


@contextmanager
def _file(question: MakeIndex | WriteObject) -> Iterator[BinaryIO]:
    """The file to write into, empty. Raises StoreUnavailable where the disk refuses something."""
    into, descriptor = question.into, question.descriptor
    try:
        with open(into if descriptor is None else descriptor, "r+b", closefd=descriptor is None) as file:
            file.seek(0)
            file.truncate()  # an attempt that was ended may have begun to write
            yield file
    except OSError as error:
        if isinstance(error.filename, str) and error.filename != into:
            raise  # of another file: a module that is imported late
        metadata = {"file": into, "errno": errno.errorcode.get(error.errno or 0, "")}
        raise StoreUnavailable(refusal(error), where=into, metadata=metadata) from error


def _code_alone(code: CodeObject, spans: Sequence[CodeSpan] | None) -> CodeObject:
    """A code object with its text, functions and kernels; of the texts that ``spans`` reach into alone where there are
    any."""
    held = {each.section for each in spans or () if each.path == code.path}
    texts = (each for each in code.sections if each.executable and (spans is None or each.index in held))
    return code._replace(
        data=b"",
        sections=tuple(_text(section) for section in texts),
        kernels=tuple(_kernel(each) for each in code.kernels),
        facts=NO_FACTS,
        warnings=(),
        parsed=None,
    )


def _text(section: Section) -> Section:
    return section.changed(content=section.data)


def _kernel(kernel: Kernel) -> Kernel:
    return kernel._replace(facts={name: kernel.facts[name] for name in _LISTED_FACTS if name in kernel.facts})


QUESTIONS: Sequence[type[WorkerRequest[object]]] = (
    MakeIndex,
    Outline,
    IndexFor,
    VariablesAt,
    ListedCode,
    EmbeddedSources,
    ObjectBytes,
    WriteObject,
    PtxLinesRequest,
    SectionBytes,
    StoppedWaves,
    DumpedMemory,
    DumpedBytes,
    FrameAddresses,
    CallFrameData,
    CodeIdentities,
)
"""Every question that there is."""


T = TypeVar("T")


class Reader(Protocol):
    """Whom the engine asks. Safe to use from several threads."""

    @property
    def elsewhere(self) -> bool:
        """Whether other processes do the work, so that an index can be made while this one answers."""
        ...

    def ask(self, module: ModuleFile, question: WorkerRequest[T]) -> T:
        """The answer. Raises what the question raises; ``DataLoss`` where the stored bytes are not those of the digest;
        ``ModuleNotFound`` where they are gone."""
        ...


class InProcessReader:
    """Reads in this process: for a command that ends soon, and for whoever uses the library on files that he trusts.
    ``only``: the path of the code object that a command is about, of whatever module; nothing else is read."""

    elsewhere = False

    def __init__(self, limits: Limits, only: str | None = None) -> None:
        self._limits = limits
        self._opened = OpenedModules(only=only)

    def ask(self, module: ModuleFile, question: WorkerRequest[T]) -> T:
        opened = self._opened.open(module, self._limits)
        return question.answer(opened)
