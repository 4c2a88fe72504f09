"""Code objects of a large module without their bytes: described, and opened again where somebody decodes them; and the
bytes to which its compressed ones expand, as their headers state."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from symd.config import Limits
from symd.errors import SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers import ContainerUnpacker, archive, compressed_bundle, host_elf
from symd.formats.containers.file_part import part_of
from symd.formats.containers.format import Element
from symd.formats.containers.nvidia import fatbin
from symd.formats.lazy import LazyMapping, PackedMapping
from symd.model.code import NO_FACTS, CodeKind, CodeObject, DebugScheme, Kernel
from symd.model.summaries import ObjectSummary, make_kernel_summary


def without_bytes(code: CodeObject) -> CodeObject:
    """What an index says of a code object, its text sections among them, and nothing that keeps its bytes."""
    return code._replace(
        data=b"",
        sections=tuple(section.changed(content=b"") for section in code.sections if section.executable),
        kernels=tuple(Kernel(name, section, offset, size) for name, section, offset, size, _ in code.kernels),
        functions=tuple(code.functions),
        facts=NO_FACTS,
        warnings=(),
        parsed=None,
    )


def read_now(summary: ObjectSummary) -> ObjectSummary:
    """A description of a code object with all facts and notes read, so that nothing in it keeps the object's bytes."""
    kernels = tuple(
        [
            make_kernel_summary((*place, facts.value() if type(facts) is LazyMapping else settled(facts)))
            for *place, facts in summary.kernels  # most facts are lazy
        ]
    )
    return summary._replace(kernels=kernels, facts=settled(summary.facts), notes=tuple(summary.notes))


def settled(facts: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts of a kernel or code object, read, so that they keep nothing else in memory."""
    if isinstance(facts, PackedMapping):
        facts.packed()
        return facts
    return facts.value() if isinstance(facts, LazyMapping) else facts


class CodeReloader:
    """Gives up what code objects of the module ``data`` hold in memory, and reads it again. The module's own bytes
    stay, as does SPIR-V, whose debug data is in the code."""

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._data, self._limits = data, limits
        self._without: dict[str, CodeObject] = {}

    def without_bytes(self, code: CodeObject) -> CodeObject:
        """What an index says of a code object before it is decoded; of the first one of a path, if several are called
        alike."""
        if code.data is self._data or code.kind is not CodeKind.MACHINE or code.path in self._without:
            return code
        found = self._without[code.path] = without_bytes(code)
        return found

    def complete(self, code: CodeObject) -> CodeObject:
        """The code object with all that decoding it needs."""
        if not self._lacks(code):
            return code
        return next(each for each in ContainerUnpacker(self._data, self._limits, code.path) if each.path == code.path)

    def each_complete(self, codes: Iterable[CodeObject]) -> Iterator[CodeObject]:
        """The code objects with all that decoding them needs, one at a time. ``codes`` are in the order of the
        module, which is gone through once."""
        opening = iter(ContainerUnpacker(self._data, self._limits))
        for code in codes:
            if self._lacks(code):
                yield next(each for each in opening if each.path == code.path)
            else:
                yield code

    def _lacks(self, code: CodeObject) -> bool:
        """Whether there is debug data that was given up."""
        return code.debug is not DebugScheme.NONE and self._without.get(code.path) is code


_MAX_DEPTH = 4
"""Containers in each other: a fat binary lies in an object in an archive."""


def expanded_size(data: bytes, limits: Limits) -> int:
    """The bytes to which the compressed code objects of a program or an archive expand; nothing is expanded, and what
    cannot be read counts nothing."""
    return _size(data, Budget(limits, len(data)), _MAX_DEPTH)


def _size(data: bytes, budget: Budget, depth: int) -> int:
    with suppress(SymdError):
        if fatbin.claims(data):
            return fatbin.expanded_size(part_of(data), budget)
        if compressed_bundle.claims(data):
            return compressed_bundle.header(data[:32]).expanded
        return sum(_size(each.data, budget, depth - 1) for each in _elements(data, budget)) if depth else 0
    return 0


def _elements(data: bytes, budget: Budget) -> Sequence[Element]:
    if archive.claims(data):
        return archive.read(Element("archive", data), budget).elements
    if host_elf.claims(data) and host_elf.carries_device_code(each.name for each in elf.parse(data, budget).sections):
        return host_elf.read(Element("program", data), budget).elements
    return ()
