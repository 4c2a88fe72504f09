"""The questions that a module's bytes answer, one class each. ``Question[T]`` is answered by a ``T``, a value that
``values`` can write."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Generic, TypeVar

from symd.debuginfo.variables import Visible
from symd.errors import LimitExceeded, StoreUnavailable
from symd.index.format import VERSION
from symd.index.summary import pack
from symd.model.addresses import Query
from symd.model.code import NO_FACTS, CodeObject, Kernel, Section
from symd.model.line_tables import LineTable
from symd.model.listings import ListingPart
from symd.model.sources import SourceText
from symd.query.listing import chosen
from symd.query.ptx_lines import ptx_tables
from symd.query.source_text import from_module
from symd.query.variables import visible_in
from symd.reading.opened_module import OpenedModule

T_co = TypeVar("T_co", covariant=True)
_LISTED_FACTS = ("simd_width", "entry_offset")
"""What disassembling wants to know of a kernel."""


class Question(abc.ABC, Generic[T_co]):
    """Something to be asked of a module's bytes."""

    @abc.abstractmethod
    def answer(self, module: OpenedModule) -> T_co:
        """The answer. Raises what unpacking raises, and what the question's own class says."""


@dataclass(frozen=True, slots=True)
class MakeIndex(Question[int]):
    """Write the module's index into the file ``into``, which is there and empty; the answer is its size in bytes.
    ``version`` is that of the format which the asker expects."""

    into: str
    version: int = VERSION

    def answer(self, module: OpenedModule) -> int:
        return _written(self.into, module.index(), module.limits.index_size)


@dataclass(frozen=True, slots=True)
class Outline(Question["bytes | None"]):
    """The module's summary, packed (``index.summary``), before anything is decoded; None for a module of so few code
    objects that its index is made as soon."""

    def answer(self, module: OpenedModule) -> bytes | None:
        return None if module.partial is None else pack(module.partial.summary)


@dataclass(frozen=True, slots=True)
class IndexFor(Question["bytes | None"]):
    """An index file that answers ``queries``, and no more than it must; None where only the whole one does."""

    queries: tuple[Query, ...]

    def answer(self, module: OpenedModule) -> bytes | None:
        return module.partial.file(self.queries) if module.partial is not None else None


@dataclass(frozen=True, slots=True)
class VariablesAt(Question["Visible | str"]):
    """The variables in scope ``offset`` bytes from the start of section ``section`` of the code object at ``path``; text
    where the debug data cannot be trusted: why. Raises ``ObjectNotFound``."""

    path: str
    section: int
    offset: int

    def answer(self, module: OpenedModule) -> Visible | str:
        return visible_in(module.objects, self.path, self.section, self.offset)


@dataclass(frozen=True, slots=True)
class ListedCode(Question[tuple[CodeObject, ...]]):
    """The code objects of ``part``, with what disassembling needs of them and nothing else. Raises ``ObjectNotFound``,
    ``KernelNotFound``."""

    part: ListingPart

    def answer(self, module: OpenedModule) -> tuple[CodeObject, ...]:
        return tuple(_code_alone(code, self.part.kernel) for code in chosen(module.objects, self.part))


@dataclass(frozen=True, slots=True)
class CarriedSources(Question[tuple[SourceText, ...]]):
    """What the module, or its code object at ``path``, carries of each file. Raises ``ObjectNotFound``."""

    files: tuple[str, ...]
    path: str | None = None

    def answer(self, module: OpenedModule) -> tuple[SourceText, ...]:
        return tuple(from_module(module.objects, self.files, self.path))


@dataclass(frozen=True, slots=True)
class ObjectBytes(Question[bytes]):
    """The bytes of the code object at ``path``. Raises ``ObjectNotFound``."""

    path: str

    def answer(self, module: OpenedModule) -> bytes:
        return module.object(self.path).data


@dataclass(frozen=True, slots=True)
class WriteObject(Question[int]):
    """Write the bytes of the code object at ``path`` into the file ``into``, which is there and empty; the answer is their
    number. Raises ``ObjectNotFound``."""

    path: str
    into: str

    def answer(self, module: OpenedModule) -> int:
        return _written(self.into, module.object(self.path).data, module.limits.index_size)


@dataclass(frozen=True, slots=True)
class PtxLines(Question[tuple[LineTable, ...]]):
    """The lines of PTX of every code object that has them, or of the one at ``path``. Raises ``ObjectNotFound``."""

    path: str | None = None

    def answer(self, module: OpenedModule) -> tuple[LineTable, ...]:
        return tuple(ptx_tables(module.objects, self.path))


def _written(into: str, data: bytes, largest: int) -> int:
    if len(data) > largest:
        metadata = {"limit": "index_size", "value": str(largest)}
        raise LimitExceeded(f"it takes {len(data)} bytes", hint="raise the limit index_size", metadata=metadata)
    try:
        with Path(into).open("r+b") as file:
            file.truncate()  # an attempt that was ended may have begun to write
            return file.write(data)
    except OSError as error:
        raise StoreUnavailable(f"the disk refused: {error.strerror}", where=into, metadata={"file": into}) from error


def _code_alone(code: CodeObject, kernel: str | None) -> CodeObject:
    """A code object with its text, functions and kernels; of the texts that hold ``kernel`` alone where that is given."""
    held = {each.section_index for each in code.kernels if each.name == kernel}
    texts = (each for each in code.sections if each.executable and (kernel is None or each.index in held))
    return replace(
        code,
        data=b"",
        sections=tuple(_text(section) for section in texts),
        kernels=tuple(_kernel(each) for each in code.kernels),
        facts=NO_FACTS,
        warnings=(),
        parsed=None,
    )


def _text(section: Section) -> Section:
    return replace(section, content=section.data)


def _kernel(kernel: Kernel) -> Kernel:
    return kernel._replace(facts={name: kernel.facts[name] for name in _LISTED_FACTS if name in kernel.facts})


QUESTIONS: Sequence[type[Question[object]]] = (
    MakeIndex,
    Outline,
    IndexFor,
    VariablesAt,
    ListedCode,
    CarriedSources,
    ObjectBytes,
    WriteObject,
    PtxLines,
)
"""Every question that there is."""
