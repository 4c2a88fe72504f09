"""Which bytes of a code object are instructions: what its symbols cover, without padding and headers between."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from symd.errors import KernelNotFound
from symd.model.code import CodeObject, Function, Kernel, Section

_Symbol = TypeVar("_Symbol", Kernel, Function)

MAX_RANGES_PER_SECTION: Final = 10_000
"""Where symbols make more of them, the section is taken from the first to the last."""


@dataclass(frozen=True, slots=True)
class InstructionBytes:
    """Bytes of a code object that are instructions: ``data`` begins ``offset`` bytes from the start of the section whose
    number is ``section``. Offsets and branch targets in disassembled text count from the start of the section, too."""

    code: CodeObject = field(repr=False, compare=False)
    section: int
    offset: int
    data: bytes = field(repr=False)

    @property
    def end(self) -> int:
        return self.offset + len(self.data)

    @property
    def target(self) -> str | None:
        return self.code.target


def code_ranges(code: CodeObject, kernel: str | None = None) -> list[InstructionBytes]:
    """The ranges of a code object in the order of its sections, or only those of one kernel (with what its range holds of
    other functions). A text section that no symbol reaches into is one range. Raises KernelNotFound."""
    if kernel is not None and not any(each.name == kernel for each in code.kernels):
        raise KernelNotFound(f"there is no kernel {kernel!r}", where=code.path, hint="symd info FILE lists them")
    entries = _by_section(each for each in code.kernels if kernel in (None, each.name))
    functions = _by_section(code.functions if kernel is None else ())
    found = []
    for section in code.sections:
        if section.executable and section.data:
            here = entries.get(section.index, []), functions.get(section.index, [])
            ranges = _ranges(section, *here, whole=kernel is None)
            found += [InstructionBytes(code, section.index, start, section.data[start:end]) for start, end in ranges]
    return found


def _by_section(symbols: Iterable[_Symbol]) -> dict[int, list[_Symbol]]:
    found: dict[int, list[_Symbol]] = {}
    for each in symbols:
        found.setdefault(each.section_index, []).append(each)
    return found


def _ranges(
    section: Section, entries: Sequence[Kernel], functions: Sequence[Function], *, whole: bool
) -> list[tuple[int, int]]:
    """``whole``: a section without entries and functions is a range too."""
    covered = [(each.offset, each.offset + each.size) for each in entries]
    covered += [(each.offset, each.offset + each.size) for each in functions]
    if not covered and whole:
        covered = [(0, len(section.data))]
    merged = _merged((start, min(end, len(section.data))) for start, end in covered)
    descriptors = {k.offset: k.offset + k.facts["entry_offset"] for k in entries if k.facts.get("entry_offset")}
    return [piece for each in merged for piece in _without(each, descriptors)]


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, disjoint, and none of them empty."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(merged[-1][1], end)
        elif start < end:
            merged.append((start, end))
    return merged if len(merged) <= MAX_RANGES_PER_SECTION else [(merged[0][0], merged[-1][1])]


def _without(whole: tuple[int, int], descriptors: dict[int, int]) -> Iterable[tuple[int, int]]:
    """A range without the descriptors that older AMD kernels have in front of their code: from the kernel's symbol (the key)
    to its entry (the value)."""
    begin, end = whole
    for descriptor, entry in sorted(descriptors.items()):
        if begin <= descriptor < end and descriptor < entry:
            yield from [(begin, descriptor)] if begin < descriptor else []
            begin = min(entry, end)
    yield from [(begin, end)] if begin < end else []
