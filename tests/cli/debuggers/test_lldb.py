"""LLDB's list of modules in a context of a daemon. Debian's LLDB knows no GPU's machine code; IGC's dumped image of one kernel has the
machine number of x86-64, so that it lists that as a module and lets it be loaded at an address."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from symd import Client
from tests.cli.debuggers.programs import BASE, PATIENCE, ROOT, SAMPLES, compiled, symd_script, untraceable
from tests.tools import require

KERNEL = SAMPLES / "kernels" / "bin" / "vadd" / "igc2-dg2-opt-zebin.vadd.elf"
OFFSET = 0x110


@pytest.fixture(scope="module")
def lldb():
    path = require("lldb")
    done = _run([path, "--no-lldbinit", "-b", "-o", "script print(6 * 7)"])
    if "42" not in done.stdout:
        pytest.fail("this lldb has no Python")
    return path


def _run(command: list[str], folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """With the system's folders in PATH alone: LLDB looks there for its Python."""
    kept = {
        name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
    }
    variables = {**kept, "PATH": "/usr/bin:/bin", "TERM": "dumb"}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=variables, cwd=folder
    )


@pytest.fixture
def daemon(tmp_path: Path):
    address = f"unix:{tmp_path}/s.sock"
    command = [sys.executable, "-m", "symd", "serve", "--address", address, "--store", str(tmp_path / "store")]
    with (
        (tmp_path / "log").open("w") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, cwd=ROOT) as started,
    ):
        assert started.stdout.readline() == f"symd serves at {address}\n"
        yield address
        started.send_signal(signal.SIGTERM)
        started.wait(PATIENCE)


@pytest.fixture
def session(lldb: str, tmp_path: Path, daemon: str):
    """Run commands in LLDB, with a program stopped and a kernel's image loaded; what they print after a mark."""
    program = compiled(tmp_path)
    listed = subprocess.run(
        [sys.executable, "-m", "symd", "lldb-script"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=PATIENCE,
        check=True,
    ).stdout.strip()

    def run(*commands: str) -> str:
        words = [
            "settings set target.disable-aslr false",  # which takes a right that containers do not give
            f"target create {program}",
            "breakpoint set --name report_fault",
            f"process launch -- {KERNEL} {OFFSET:#x}",
            f"target modules add {KERNEL}",
            f"target modules load --file {KERNEL.name} .text.vadd {BASE:#x}",
            f"command script import {listed}",
            f"symd settings program {symd_script(tmp_path)}",
            f"symd settings server {daemon}",
            "up",
            "script print('-' + '--')",
            *commands,
        ]
        command = [lldb, "--no-lldbinit", "-b", *(word for each in words for word in ("-o", each))]
        done = _run(command, tmp_path)
        if any(each in done.stderr for each in ("ptrace", "failed to launch", "Cannot launch", "attach failed")):
            untraceable(done.stderr)
        assert "---\n" in done.stdout, done.stdout + done.stderr
        return done.stdout.partition("---\n")[2] + done.stderr

    return run


def test_the_list_of_modules_becomes_a_context_that_answers_device_addresses(session, daemon: str) -> None:
    said = session(f"symd context {KERNEL.name}", "symd frames fault fault+0xa0 0x10")
    [name] = re.findall(r"context ([0-9a-f]{32}): 1 module\b", said)
    command = [sys.executable, "-m", "symd", "symbolize", str(KERNEL), f"vadd+{OFFSET:#x}", f"vadd+{OFFSET + 0xA0:#x}"]
    expected = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=PATIENCE, check=True).stdout
    places = re.findall(r"(\w+) at ([^\s:]+:\d+)", expected)
    assert len(places) >= 2
    assert re.findall(r"#\d+  (\w+) at (\S+:\d+)", said) == places
    assert "0x10: OUTSIDE_TEXT (no module of the context has code there: symd context tells" in said
    with Client(daemon) as client:
        record = client.contexts.get(name)
        [(_, load)] = client.contexts.loads(name)
        assert record.context.process > 0
        assert record.context.attributes["start_time"].isdigit()
        assert [(segment.address, segment.size > 0) for segment in load.segments] == [(BASE, True)]


def test_what_moved_is_told_as_gone_and_what_is_told_twice_is_told_once(session, daemon: str) -> None:
    said = session(
        f"symd context {KERNEL.name}",
        "symd context",
        f"target modules load --file {KERNEL.name} .text.vadd {BASE + 0x1000:#x}",
        "symd context",
    )
    names = re.findall(r"context ([0-9a-f]{32}): (\d) modules?\b", said)
    assert [count for _, count in names] == ["1", "1", "1"]
    with Client(daemon) as client:
        loads = [load for _, load in client.contexts.loads(names[0][0])]
        assert [load.segments[0].address for load in loads] == [BASE, BASE + 0x1000]
        assert loads[0].unload_time is not None
        assert loads[0].unload_time <= loads[1].time


def test_what_cannot_be_is_said_in_one_line(session) -> None:
    """A command that fails ends the batch, so that each is the last of one."""
    assert "error: no context: symd context makes one" in session("symd frames fault")
    said = session(f"symd context {KERNEL.name}", "symd frames no_such_name")
    assert "error: no_such_name: " in said
    assert "Traceback" not in said
    said = session("symd settings program /no/symd", "symd context")
    assert "/no/symd cannot be run: no such file or directory; say where symd is: symd settings program PATH" in said


def test_what_is_not_told_is_said_with_what_to_type(session) -> None:
    assert "to tell another one: symd context MODULE" in session("symd context")
    said = session("symd context nowhere.co")
    assert "LLDB lists no module nowhere.co; to add it: target modules add nowhere.co, then target modules load" in said
    said = session("target modules add /bin/true", "symd context true")
    assert "no section of true is loaded; to say where one is: target modules load --file true SECTION ADDRESS" in said
