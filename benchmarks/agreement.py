"""Before anything is timed: the peers say at a sample of addresses what symd says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from elftools.elf.elffile import ELFFile

from benchmarks import peers
from symd.model.answers import Answers

MOST = 0.95
"""symbolic merges neighbouring ranges and may have other frames than LLVM and symd somewhere; at so many it must agree."""


def check(path: Path, addresses: np.ndarray, answers: Answers) -> list[str]:
    """What was compared, in words. Raises AssertionError at the first difference."""
    asked = addresses.tolist()
    ours = [
        [(f.function or "??", (f.file or "??").rsplit("/", 1)[-1], f.line) for f in answer.frames] for answer in answers
    ]
    exact = [answer.reason.name == "EXACT" for answer in answers]
    told = [f"llvm-symbolizer: all frames of {_frames(peers.llvm(path, asked), ours, exact)} addresses"]
    if peers.symbolic_python():
        theirs = peers.symbolic(path, asked)
        owned = [at for at, our in enumerate(ours) if exact[at] and our[0][0] != "??"]
        same = sum(theirs[at] == ours[at] for at in owned)
        assert same >= MOST * len(owned), f"symbolic agrees at {same} of {len(owned)} addresses"
        told.append(f"symbolic: all frames of {same} of {len(owned)} addresses")
    places = _innermost(peers.addr2line(path, asked), ours, exact)
    told.append(f"addr2line: file and line of {places} addresses")
    told.append(f"pyelftools: {_rows(path, asked, ours, exact)} addresses")
    return told


def _frames(theirs: list[peers.Frames], ours: list[peers.Frames], exact: list[bool]) -> int:
    for their, our, known in zip(theirs, ours, exact, strict=True):
        assert their == our or not known, (their, our)
    return sum(exact)


def _innermost(theirs: list[peers.Frames], ours: list[peers.Frames], exact: list[bool]) -> int:
    for their, our, known in zip(theirs, ours, exact, strict=True):
        assert not known or their[0][1:] == our[0][1:], (their, our)
    return sum(exact)


def _rows(path: Path, addresses: list[int], ours: list[peers.Frames], exact: list[bool]) -> int:
    """The line of the row around each address, by pyelftools' own reading of the line table."""
    with path.open("rb") as file:
        dwarf = ELFFile(file).get_dwarf_info()
        states = []
        for unit in dwarf.iter_CUs():
            entries = dwarf.line_program_for_CU(unit).get_entries()
            states += [entry.state for entry in entries if entry.state is not None]
    start = np.array([state.address for state in states], np.uint64)
    line = [0 if state.end_sequence else state.line for state in states]
    order = np.argsort(start, kind="stable")
    found = order[np.searchsorted(start[order], np.array(addresses, np.uint64), side="right") - 1]
    for number, our, known in zip(found.tolist(), ours, exact, strict=True):
        assert not known or line[number] == our[0][2], (line[number], our)
    return sum(exact)
