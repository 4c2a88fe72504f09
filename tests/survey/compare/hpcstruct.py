"""HPCToolkit's hpcstruct files: the innermost line of every instruction of a cubin, counted by place in the file."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.survey.case import Case, Compared, SurveyError, answered
from tests.survey.compare.elf_symbols import Section, listed
from tests.survey.compare.nvidia_tools import is_of_the_assembler

_STEP = 16
"""Bytes from one instruction to the next; before sm_70, where they have 8, to the next but one."""
WHAT = "HPCToolkit's hpcstruct: innermost line of an instruction"
_RANGE = re.compile(r"\[0x([0-9a-f]+)-0x([0-9a-f]+)\)")


def lines(case: Case) -> Compared:
    """What the file of that name says, where there is one."""
    golden = case.path.parents[1] / "struct" / f"{case.path.name}.hpcstruct"
    if not golden.exists():
        return Compared(WHAT, 0)
    expected = stated(golden)
    ((_, elf),) = listed([case.path])
    places = {offset: _place(offset, elf.sections) for offset in expected}
    stdin = "".join(f"(#{section})+{offset:#x}\n" for section, offset in places.values()).encode()
    done = answered(["symbolize", "--json", "--as-written", case.path, "-"], case.folder, stdin)
    own, differences = 0, []
    for (at, line), text in zip(expected.items(), done.output.splitlines(), strict=True):
        answer = json.loads(text)
        mine = answer["frames"][0]["line"] if answer["frames"] else 0
        if mine != line and is_of_the_assembler(answer):  # hpcstruct goes on with the row before
            own += 1
        elif mine != line:
            differences.append(f"{case.path.name} {places[at]}: symd {answer['reason']} {mine}, hpcstruct {line}")
    return Compared(WHAT, len(expected) - own, differences)


def stated(golden: Path) -> dict[int, int]:
    """Line by place in the file, at the first byte of every range of a statement."""
    found: dict[int, int] = {}
    for statement in ET.parse(golden).iter("S"):  # noqa: S314 - of the user's own checkout
        for first, _ in _RANGE.findall(statement.get("v", "")):
            found[int(first, 16)] = int(statement.get("l", "0"))
    return found


def _place(at: int, sections: Mapping[int, Section]) -> tuple[int, int]:
    """Number of the text section that has this byte of the file, and the offset in it."""
    for number, section in sections.items():
        if section.name.startswith(".text") and section.offset <= at < section.offset + section.size:
            return number, at - section.offset
    raise SurveyError(f"no section has byte {at:#x}")
