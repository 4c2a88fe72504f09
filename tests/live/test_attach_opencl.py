"""``symd attach`` on a process that has built a program with a real driver: its debug data lies in the driver's memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from symd.capture.attach import Attachment
from symd.capture.process import RunningProcess
from symd.config import Limits
from symd.engine.engine import Engine
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Reason
from symd.model.captures import ModuleFound
from symd.store import Store
from tests.live.capturing import PROGRAMS, Host
from tests.live.conftest import NEWER_ROOT, Target, demand

HOSTS = [
    pytest.param(Target("dg2", None), id="dg2", marks=pytest.mark.live),
    pytest.param(Target("dg2", NEWER_ROOT), id="newer-dg2", marks=pytest.mark.live_new),
]


@pytest.mark.parametrize("target", HOSTS)
def test_the_debug_data_of_a_program_that_was_built_is_found(target: Target, tmp_path: Path) -> None:
    if target.root is None and target is HOSTS[1].values[0]:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set; `make live-new` sets the newer drivers up")
    demand(target, "opencl")
    host = Host(target, "opencl", tmp_path)
    command = host.command(sys.executable, str(PROGRAMS / "opencl_waiting.py"))
    environment = host.variables | {"HOME": str(tmp_path)}
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=tmp_path
    ) as child:
        assert child.stdout is not None
        status, number = child.stdout.readline().split()
        assert status == "0"
        with RunningProcess(int(number)) as process:
            events = list(Attachment(process, Limits()).events())
        child.kill()
    lines = set()
    with Engine(Store.temporary(Limits()), Limits()) as engine:
        for event in events:
            if "twice" in event.kernels:
                digest = engine.add(event.data, "attached").sha256
                asked = [ByKernel("twice", KernelOffset(offset)) for offset in range(0, 1024, 8)]
                answers = engine.symbolize(digest, asked)
                lines |= {(f.function, f.line) for a in answers if a.reason is Reason.EXACT for f in a.frames}
    assert ("twice", 1) in lines


@pytest.mark.parametrize("target", HOSTS)
def test_what_the_compiler_dumps_has_lines(target: Target, tmp_path: Path) -> None:
    if target.root is None and target is HOSTS[1].values[0]:
        pytest.skip("SYMD_LIVE_NEW_ROOT is not set; `make live-new` sets the newer drivers up")
    demand(target, "opencl")
    host = Host(target, "opencl", tmp_path)
    program = [str(PROGRAMS / "opencl_waiting.py")]
    captured = host.captured(sys.executable, *program, options=("--way", "folder"), HOME=str(tmp_path))
    assert captured.status == 0, captured.errors
    assert "from compilers' dumps" in captured.summary
    lines = set()
    with Engine(Store.temporary(Limits()), Limits()) as engine:
        for event in captured.events:
            assert isinstance(event, ModuleFound)
            digest = engine.add(event.data, "dumped").sha256
            answers = engine.symbolize(
                digest, [ByKernel("twice", KernelOffset(offset)) for offset in range(0, 1024, 8)]
            )
            lines |= {(f.function, f.line) for a in answers if a.reason is Reason.EXACT for f in a.frames}
    assert ("twice", 1) in lines
