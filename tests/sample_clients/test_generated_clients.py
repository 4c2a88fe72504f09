"""Clients in C++, Go and TypeScript, made of nothing but the protos, ask a running daemon and print what llvm-symbolizer says."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from symd import Client
from tests import tools
from tests.sample_clients.test_clients import server as server  # noqa: PLC0414 - a fixture, shared

ROOT = Path(__file__).parents[2]
CLIENTS = ROOT / "samples" / "clients"
SAMPLE = ROOT / "samples" / "amdgpu" / "bin" / "v4-gfx900.co"
NEEDED = {
    "cpp": ("g++", "protoc", "grpc_cpp_plugin"),
    "go": ("go", "protoc", "protoc-gen-go", "protoc-gen-go-grpc"),
    "typescript": ("node", "npm", "protoc"),
}
PROGRAM = {"cpp": ["cpp/symbolize"], "go": ["go/symbolize"], "typescript": ["node", "typescript/symbolize.js"]}


@pytest.fixture(scope="module")
def inlined() -> tuple[int, list[str]]:
    """An address with inlined frames, and these as llvm-symbolizer has them: "function file:line", innermost first."""
    text = tools.output(tools.require("llvm-dwarfdump"), "--debug-info", SAMPLE)
    call = text.index("DW_TAG_inlined_subroutine")
    address = int(text[text.index("DW_AT_low_pc", call) :].split("(", 1)[1].split(")")[0], 16)
    asked = ["--inlines", "--functions=short", "--no-demangle", f"--obj={SAMPLE}", hex(address)]
    lines = tools.output(tools.require("llvm-symbolizer"), *asked).split()
    frames = [f"{function} {place.rsplit(':', 1)[0]}" for function, place in zip(lines[::2], lines[1::2], strict=True)]
    assert len(frames) > 1
    return address, frames


@pytest.fixture(scope="module")
def digest(server: str) -> Iterator[str]:
    with Client(server) as client:
        yield client.add(SAMPLE.read_bytes()).sha256


@pytest.mark.parametrize("language", sorted(NEEDED))
def test_a_generated_client_symbolizes_one_address(
    language: str, server: str, digest: str, inlined: tuple[int, list[str]], tmp_path: Path
) -> None:
    for tool in NEEDED[language]:
        tools.require(tool)
    assert digest == sha256(SAMPLE.read_bytes()).hexdigest()
    address, frames = inlined
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    build = [CLIENTS / language / "build", tmp_path / language]
    built = subprocess.run(build, capture_output=True, text=True, env=environment, timeout=900, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    printed = tools.output(*PROGRAM[language][:-1], tmp_path / PROGRAM[language][-1], server, digest, hex(address))
    assert printed.splitlines() == frames
    missing = [*PROGRAM[language][:-1], tmp_path / PROGRAM[language][-1], server, "0" * 64, hex(address)]
    failed = subprocess.run(missing, capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 1
    assert "UNKNOWN_MODULE: " in failed.stderr
    if language == "typescript":
        return
    nowhere = tools.output(*PROGRAM[language][:-1], tmp_path / PROGRAM[language][-1], server, digest, "0x1")
    assert nowhere == "REASON_OUTSIDE_TEXT\n"
    misused = subprocess.run([tmp_path / PROGRAM[language][-1]], capture_output=True, text=True, check=False)
    assert "usage: symbolize SERVER SHA256 ADDRESS" in misused.stderr
