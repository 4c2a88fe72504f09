"""Which bytes of a code object are instructions: what its symbols cover, without padding and headers between."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from symd.errors import KernelNotFound
from symd.model.code import CodeObject, Section

MOST = 10_000
"""Runs in one section; where symbols make more of them, the section is taken from the first to the last."""


@dataclass(frozen=True, slots=True)
class Span:
    """A run of instructions: ``data`` begins ``offset`` bytes from the start of section ``section``."""

    section: int
    offset: int
    data: bytes = field(repr=False)

    @property
    def end(self) -> int:
        return self.offset + len(self.data)


def spans(code: CodeObject, kernel: str | None = None) -> list[Span]:
    """The runs of a code object in the order of its sections, or only those of one kernel (with what its range holds of
    other functions). A text section that no symbol reaches into is one run. Raises KernelNotFound."""
    if kernel is not None and not any(each.name == kernel for each in code.kernels):
        raise KernelNotFound(f"there is no kernel {kernel!r}", where=code.path, hint="symd info FILE lists them")
    found = []
    for section in code.sections:
        if section.executable and section.data:
            ranges = _ranges(code, section, kernel)
            found += [Span(section.index, start, section.data[start:end]) for start, end in ranges]
    return found


def _ranges(code: CodeObject, section: Section, kernel: str | None) -> list[tuple[int, int]]:
    entries = [k for k in code.kernels if k.section_index == section.index and kernel in (None, k.name)]
    covered = [(k.offset, k.offset + k.size) for k in entries]
    if kernel is None:
        here = (f for f in code.functions if f.section_index == section.index)
        covered += [(f.offset, f.offset + f.size) for f in here]
    if not covered and kernel is None:
        covered = [(0, len(section.data))]
    runs = _merged((start, min(end, len(section.data))) for start, end in covered)
    heads = {k.offset: k.offset + k.facts["entry_offset"] for k in entries if k.facts.get("entry_offset")}
    return [piece for run in runs for piece in _without(run, heads)]


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sorted, disjoint, and none of them empty."""
    runs: list[tuple[int, int]] = []
    for start, end in sorted(ranges):
        if runs and start <= runs[-1][1]:
            runs[-1] = runs[-1][0], max(runs[-1][1], end)
        elif start < end:
            runs.append((start, end))
    return runs if len(runs) <= MOST else [(runs[0][0], runs[-1][1])]


def _without(run: tuple[int, int], heads: dict[int, int]) -> Iterable[tuple[int, int]]:
    """A run without the descriptors that older AMD kernels have in front of their code."""
    at, end = run
    for start, code in sorted(heads.items()):
        if at <= start < end and start < code:
            yield from [(at, start)] if at < start else []
            at = min(code, end)
    yield from [(at, end)] if at < end else []
