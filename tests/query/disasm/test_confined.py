"""A disassembler that the code which it reads has taken over: what it tries at, and what its user is told."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from symd.config import Limits
from symd.errors import SymdError, ToolFailed
from symd.model.code import Vendor
from symd.query.disasm import disassemble, disassembler, llvm
from symd.system.process import confinement
from tests.daemon.processes import children
from tests.query.disasm.objects import made

CODES = {
    "llvm-objdump": made(bytes(64), vendor=Vendor.AMD, target="gfx900"),
    "nvdisasm": made(bytes(48), vendor=Vendor.NVIDIA, target="sm_90"),
}
TRIES = {
    "a secret": "print(open(SECRET).read())",
    "its parent's environment": "print(open(f'/proc/{os.getppid()}/environ').read())",
    "the names in a folder": "print(os.listdir(os.path.dirname(SECRET)))",
    "a file elsewhere": "open(SECRET + '2', 'w')",
    "TCP": "socket.socket()",
    "a Unix socket": "socket.socket(socket.AF_UNIX)",
    "a process": "print(os.fork())",
    "a program in a process": "subprocess.run(['/bin/true'])",
    "another program": "os.execv('/bin/cat', ['cat', SECRET])",
    "a thread": "threading.Thread(target=print).start()",
    "a signal": "os.kill(os.getppid(), 0)",
    "more memory": "resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))",
    "a mode": "os.chmod(SECRET, 0o777)",
    "a tracer": "ctypes.CDLL(None, use_errno=True).ptrace(16, os.getppid(), 0, 0) and sys.exit(os.strerror(ctypes.get_errno()))",
}
pytestmark = pytest.mark.skipif(not confinement.available(), reason="this kernel has no Landlock")


@pytest.fixture(params=CODES)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stand_in(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    """A script in the place of a disassembler."""
    (folder / "tools").mkdir()
    (folder / "kept").mkdir()
    (folder / "kept" / "secret").write_text("the secret")
    monkeypatch.setenv("SYMD_TOOLS", str(folder / "tools"))
    monkeypatch.setenv("SYMD_TOKEN", "the token")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(llvm, "ROCM", ())
    script = folder / "tools" / name
    python = os.path.realpath(sys.executable)
    secret = f"SECRET = {str(folder / 'kept' / 'secret')!r}"
    script.write_text(
        f"#!{python} -I\nimport ctypes, os, resource, socket, subprocess, sys, threading\n{secret}\n{body}\n"
    )
    script.chmod(stat.S_IRWXU)


def outcome(name: str) -> SymdError:
    (result,) = disassemble([CODES[name]], limits=Limits(disassembly_seconds=30))
    assert isinstance(result, SymdError)
    return result


@pytest.mark.parametrize("tried", TRIES)
def test_what_it_tries_is_refused_and_told(
    tried: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(name, tmp_path, monkeypatch, TRIES[tried])
    error = outcome(name)
    assert isinstance(error, ToolFailed)
    assert any(
        words in str(error) for words in ("Permission", "not permitted", "start new thread", "not allowed to raise")
    )
    assert "secret" not in str(error).replace(str(tmp_path), "").replace("kept/secret", "")
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["secret"]


def test_it_reads_its_input_and_sees_nothing_of_the_environment(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "sys.exit(f'{len(open(sys.argv[-1], \"rb\").read()) > 40} {sorted(os.environ)} {os.listdir()}')"
    stand_in(name, tmp_path, monkeypatch, body)
    assert "True ['HOME', 'LC_ALL', 'PATH', 'TMPDIR'] ['input']" in str(outcome(name))


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "open('grown', 'wb').write(bytes(1 << 30))",
        "[open(str(n), 'w') for n in range(100)]; input(); import time; time.sleep(60)",
    ],
)
def test_it_takes_no_more_than_its_limits(
    body: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(name, tmp_path, monkeypatch, body)
    monkeypatch.setattr(disassembler, "DISASSEMBLY_SIZE", 1 << 20)
    (result,) = disassemble([CODES[name]], limits=Limits(disassembly_seconds=3))
    assert isinstance(result, SymdError)
    assert result.reason in ("DEADLINE_EXCEEDED", "LIMIT_EXCEEDED", "TOOL_FAILED")


def test_nothing_of_it_is_left(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(name, tmp_path, monkeypatch, "sys.exit('done')")
    before = children(os.getpid())
    assert "done" in str(outcome(name))
    assert children(os.getpid()) <= before
