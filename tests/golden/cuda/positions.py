"""nvdisasm's positions of instructions, out of the golden files, in a form to compare with."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from symd.model.code import CodeObject, Section
from tests.golden.cuda import make

Chain = list[tuple[str, int]]
INSTRUCTION = 16


@dataclass
class Printed:
    """A section as nvdisasm prints it: where the printed position changes, offset -> chain (empty: none yet)."""

    name: str
    changes: dict[int, Chain] = field(default_factory=dict)


def printed(golden: str, sample: str) -> list[Printed]:
    """The sections of ``lines.txt`` or ``ptx_lines.txt`` in nvdisasm's order."""
    files: dict[str, str] = {}
    result: list[Printed] = []
    for line in make.read(golden)[sample]:
        if line.startswith("f "):
            _, number, path = line.split(" ", 2)
            files[number] = path
        elif line.startswith("= "):
            result.append(Printed(line[2:]))
        else:
            offset, frames = line.split(" ")
            chain = [] if frames == "-" else [_frame(frame, files) for frame in frames.split("<")]
            result[-1].changes[int(offset, 16)] = chain
    return result


def _frame(frame: str, files: dict[str, str]) -> tuple[str, int]:
    number, line = frame.split(":")
    return files[number], int(line)


def matched(code: CodeObject, sections: list[Printed]) -> Iterator[tuple[Section, Printed]]:
    """Each text section with what nvdisasm prints of it. A name that repeats gets __1, __2 in nvdisasm's output."""
    seen: dict[str, int] = {}
    by_name = {section.name: section for section in sections}
    assert len(by_name) == len(sections)
    texts = [section for section in code.sections if section.executable]
    assert len(texts) == len(sections)
    for section in texts:
        number = seen.get(section.name, 0)
        seen[section.name] = number + 1
        yield section, by_name[section.name + (f"__{number}" if number else "")]


def instructions(section: Section, shown: Printed) -> Iterator[tuple[int, Chain, bool]]:
    """(offset, chain, whether nvdisasm printed it just here) of every instruction. Where nothing was printed the
    innermost position is that of the instruction before; outer ones may have changed silently."""
    chain: Chain = []
    for offset in range(0, section.size, INSTRUCTION):
        new = offset in shown.changes
        chain = shown.changes.get(offset, chain)
        yield offset, chain, new


def is_debug(sample: str) -> bool:
    """Compiled with -G: nvdisasm prints only innermost positions."""
    return bool(re.search(r"\.debug", sample))
