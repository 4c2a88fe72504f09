"""Chains of inlined calls in cubins are chains of the PTX that ptxas was handed, where ptxas writes others too."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.agreement import ours
from tests.agreement.generated import NVIDIA, STEP, Command, Program, compilers
from tests.agreement.ptx_chains import Chain, answered, chains
from tests.agreement.source_text import SAMPLES, answers, sample_answers, sample_names

WITH_LINES = [
    name
    for name in sample_names("cuda")
    if "/" not in name
    and not {"debug", "ptx", "lto"} & set(re.split("[.-]", name.replace(".ptxas-", " ")))
    and name != "saxpy.sm_90.none.cubin"
]
WRITTEN_WRONGLY = {name for name in WITH_LINES if name.startswith(("raycast.sm_90", "reduce."))}
"""Samples in which ptxas says a call at another line, or gives it another one's name."""
FOUND = [pytest.param(command, id=told) for vendor, told, command in compilers() if vendor == NVIDIA]


@cache
def known() -> set[Chain]:
    """The chains of all sources. One target is enough: nvcc inlines for all alike."""
    return {chain for path in (SAMPLES / "cuda" / "ptx").glob("*.ptx") for chain in chains(path.read_text())}


@pytest.mark.parametrize("name", WITH_LINES)
def test_chains_are_those_of_the_ptx(name: str) -> None:
    found = answered(sample_answers("cuda", name))
    assert len(found) > 5
    assert found <= known()


@pytest.mark.parametrize("name", WITH_LINES)
def test_chains_that_ptxas_writes_wrongly_are_seen(name: str) -> None:
    assert bool(answered(sample_answers("cuda", name, as_written=True)) - known()) == (name in WRITTEN_WRONGLY)


def test_calls_are_nested_in_ptx() -> None:
    """The kernel of tonemap.cu calls tone, that calls to_linear, that calls cubic."""
    found = {tuple(function for function, _, _ in chain) for chain in known()}
    assert ("_Z5cubicffff", "_Z9to_linearf", "_Z4toneff", "tonemap") in found


@pytest.mark.parametrize("command", FOUND)
def test_chains_of_random_programs_are_those_of_the_ptx(command: Command, tmp_path: Path) -> None:
    """Of seed 5, which is left out, two answers for sm_120 are EXACT and wrong: ptxas writes a stale name, and no other for that line
    (docs/contradictions.md)."""
    seen_wrong = False
    for seed in range(4):
        source, text, cubin = (tmp_path / f"p{seed}.{kind}" for kind in ("cu", "ptx", "cubin"))
        source.write_text(Program(NVIDIA, seed).text)
        to_ptx = ["-ptx" if word == "-cubin" else word for word in command(source, text)]
        for line in (to_ptx, command(text, cubin)):
            subprocess.run(line, check=True, capture_output=True)
        of_ptx, index = chains(text.read_text()), ours.index(cubin.read_bytes())
        found = answered(answers(index, STEP[NVIDIA]))
        assert len(found) > 20
        assert found <= of_ptx, seed
        seen_wrong |= not answered(answers(index.view(as_written=True), STEP[NVIDIA])) <= of_ptx
    assert seen_wrong
