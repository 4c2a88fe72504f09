"""``symd run`` with programs of CUDA, HIP and Triton: the stand-ins of the vendors' runtimes, the real way from the program to the folder."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.capture.test_python_program import PROGRAM, REAL, triton
from tests.capture.test_runtime_preloads import (
    BUNDLE,
    CODE_OBJECT,
    CUBIN,
    CUDA,
    EACH,
    FATBIN,
    PROGRAMS,
    Runtime,
    built,
    compiled,
)

__all__ = ("built", "triton")
ROOT = Path(__file__).parents[2]


def run(out: Path, *program: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "symd", "run", "--out", out, "--", *program]
    clean = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "XDG_CACHE_HOME": str(out.parent / "cache"),
        **environment,
    }
    return subprocess.run([*map(str, command)], capture_output=True, text=True, env=clean, check=False)


def events(out: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in (out / "captures.jsonl").read_text().splitlines()]


@EACH
def test_modules_of_a_program_that_looks_functions_up(built: Path, tmp_path: Path, runtime: Runtime) -> None:
    file = CUBIN if runtime is CUDA else CODE_OBJECT
    out = tmp_path / "out"
    done = run(out, built / f"{runtime.name}-opening", "twice", file, LD_LIBRARY_PATH=str(built))
    assert done.returncode == 7
    assert done.stdout.startswith("load 0 unload 0 data 0 unload 0 ex 0")
    assert (
        done.stderr
        == f"symd: 6 modules of 7 builds, through the preloaded library; 1 failed build, logs kept; in {out}\n"
    )
    told = events(out)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert {event["sha256"] for event in told if event["event"] == "module-loaded"} == {digest}
    assert {event["api"] for event in told if "api" in event} == {"cuda" if runtime is CUDA else "hip"}
    assert (out / "modules" / digest).read_bytes() == file.read_bytes()
    assert [event["event"] for event in told].count("module-unloaded") == 3
    assert told[-1]["event"] == "process-ended"


@EACH
def test_code_that_a_program_brings_along(built: Path, tmp_path: Path, runtime: Runtime) -> None:
    file = FATBIN if runtime is CUDA else BUNDLE
    program, out = tmp_path / "program", tmp_path / "out"
    compiled(
        "-o", program, PROGRAMS / "registering.c", runtime.define, f'-DFILE_NAME="{file}"',
        "-Wl,--no-as-needed", built / runtime.file, f"-Wl,-rpath,{built}",
    )  # fmt: skip
    done = run(out, program, LD_LIBRARY_PATH=str(built))
    assert (done.stdout, done.returncode) == ("done\n", 0)
    assert "1 file part with device code that the program brought along" in done.stderr
    (found,) = [event for event in events(out) if event["event"] == "module-found"]
    assert file.read_bytes().startswith((out / "modules" / str(found["sha256"])).read_bytes())


def test_what_a_made_up_triton_compiles(triton: Path, tmp_path: Path) -> None:
    binary = tmp_path / "k.cubin"
    binary.write_bytes(CUBIN.read_bytes())
    program = f"import os, triton; triton.compile({str(binary)!r}); print(os.environ['PYTHONPATH'].split(':')[1:])"
    out = tmp_path / "out"
    paths = [str(triton), str(ROOT)]
    done = run(out, sys.executable, "-c", program, PYTHONPATH=":".join(paths))
    assert done.stdout == f"{paths}\n"
    assert done.stderr == f"symd: 1 module of 1 build, through Triton's listener; in {out}\n"
    (found, ended) = events(out)
    assert (found["event"], found["api"], found["way"], found["kernels"]) == (
        "module-found",
        "triton",
        "listener",
        ["k"],
    )
    assert ended["event"] == "process-ended"


def test_a_run_inside_a_run_hears_once(triton: Path, tmp_path: Path) -> None:
    binary = tmp_path / "k.cubin"
    binary.write_bytes(CUBIN.read_bytes())
    inner = [sys.executable, "-m", "symd", "run", "--out", str(tmp_path / "inner"), "--"]
    program = [sys.executable, "-c", f"import triton; triton.compile({str(binary)!r})"]
    done = run(tmp_path / "outer", *inner, *program, PYTHONPATH=f"{triton}:{ROOT}")
    assert done.returncode == 0, done.stderr
    assert [event["event"] for event in events(tmp_path / "inner")] == ["module-found", "process-ended"]


@pytest.mark.skipif(not REAL, reason="SYMD_TRITON_PYTHON names no Python with Triton")
def test_what_the_real_triton_compiles_symbolizes(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(out, REAL, PROGRAM, HOME=str(tmp_path))
    assert done.stdout.splitlines()[0].startswith("add cuda")
    assert "2 modules of 2 builds, through Triton's listener" in done.stderr
    for event in events(out):
        if event["event"] == "module-found":
            module = out / "modules" / str(event["sha256"])
            command = [sys.executable, "-m", "symd", "symbolize", "--json", str(module), "add+0x100"]
            answer = json.loads(subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout)
            assert Path(answer["frames"][0]["file"]).name == PROGRAM.name
