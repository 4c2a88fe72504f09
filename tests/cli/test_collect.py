"""``symd collect`` and ``symd attach``: what they print, where modules go, and how they end."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from symd import Client
from symd.capture.folder_sink import FolderSink, events_of
from symd.cli import collect
from symd.errors import Busy, DeadlineExceeded, ServerUnavailable, SymdError
from symd.model.addresses import DeviceAddress
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureWay,
    ModuleForm,
    ModuleFound,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)
from tests.capture.test_attach import CODE_OBJECTS, LOADING, running, runtime
from tests.cli.conftest import ROOT, SYMD, Run

DEADLINE = 60.0


def old(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    os.utime(path, (time.time() - 3600,) * 2)


def test_what_is_there_goes_into_a_folder(run: Run, tmp_path: Path, sample: Path) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    old(cache / "a", sample.read_bytes())
    old(cache / "b", sample.read_bytes())
    old(cache / "notes.json", b"{}")
    outcome = run("collect", "--once", "--json", "--out", tmp_path / "out", cache)
    digest = hashlib.sha256(sample.read_bytes()).hexdigest()
    assert outcome.code == 0
    assert outcome.json == [
        {
            "source": str(cache / "a"),
            "module": f"modules/{digest}",
            "format": "igc-debug",
            "bytes": len(sample.read_bytes()),
            "kernels": ["vadd"],
        }
    ]
    assert outcome.err == "symd: 1 module; 1 with the bytes of another file; 1 of other kinds\n"
    assert (tmp_path / "out" / "modules" / digest).read_bytes() == sample.read_bytes()
    ((event, _),) = events_of(tmp_path / "out")
    assert isinstance(event, ModuleFound)
    assert (event.source, event.way, event.kernels) == (str(cache / "a"), CaptureWay.FOLDER, ("vadd",))


def test_what_no_daemon_took_is_not_said_to_be_taken(run: Run, tmp_path: Path, sample: Path) -> None:
    old(tmp_path / "a", sample.read_bytes())
    outcome = run("collect", "--once", "--server", f"unix:{tmp_path}/none", tmp_path)
    assert (outcome.code, outcome.out) == (3, "")
    said = outcome.err.splitlines()
    assert said[0] == "symd: 1 module found, none taken"
    assert "no daemon is running" in said[1]


@pytest.mark.parametrize(
    "name",
    [
        "kernels/bin/vadd/driver-ocl-igc2-tgllp-opt.debug-zebin",
        "amdgpu/bin/v3-zstd.ccob",
        "kernels/bin/vadd/dg2-opt.zebin",
    ],
)
def test_a_module_is_of_the_format_that_other_verbs_call_it(name: str, run: Run, tmp_path: Path) -> None:
    old(tmp_path / "a", (ROOT / "samples" / name).read_bytes())
    (said,) = run("collect", "--once", "--json", "--out", tmp_path / "out", tmp_path).json
    (told,) = run("info", "--json", tmp_path / "a").json
    assert said["format"] == told["format"]


def test_what_is_left_out_is_said(run: Run, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/etc/passwd")
    outcome = run("collect", "--once", "--out", tmp_path / "out", tmp_path)
    assert outcome.code == 0
    assert f"left out: {tmp_path}/link: is a link" in outcome.out
    assert outcome.err == "symd: 0 modules; 1 left out\n"


def test_a_folder_that_is_not_there_is_refused_at_once(run: Run, tmp_path: Path) -> None:
    outcome = run("collect", "--once", "--out", tmp_path / "out", tmp_path / "nowhere")
    assert outcome.code == 2
    assert "there is no such folder" in outcome.err


def test_nothing_to_look_at_is_a_misuse(run: Run) -> None:
    assert run("collect").code == 2
    outcome = run("collect", "--server", "unix:/x", "--out", "y", ".")
    assert (outcome.code, "cannot be used together" in outcome.err) == (2, True)


def test_a_folder_that_is_named_counts_more_than_the_environments_daemon(
    run: Run, tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SYMD_SERVER", "unix:/nowhere")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache/one").write_bytes(sample.read_bytes())
    outcome = run("collect", "--once", "--out", tmp_path / "out", tmp_path / "cache")
    assert outcome.code == 0
    assert list((tmp_path / "out/modules").iterdir())


def test_a_daemon_gets_what_arrives(server: str, tmp_path: Path, sample: Path) -> None:
    cache = tmp_path / "cache"
    command = [*SYMD, "collect", "--server", server, str(cache)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as collecting:
        assert collecting.stderr is not None
        assert collecting.stdout is not None
        assert collecting.stderr.readline() == f"symd: {cache} is not there; waiting for it\n"
        cache.mkdir()
        (cache / "a.dbg").write_bytes(sample.read_bytes())
        line = collecting.stdout.readline()
        collecting.send_signal(signal.SIGINT)
        try:
            assert collecting.wait(DEADLINE) == 130
        finally:
            collecting.kill()
    digest = hashlib.sha256(sample.read_bytes()).hexdigest()
    assert line == f"modules/{digest}  igc-debug, {len(sample.read_bytes()):,} bytes, kernels vadd  {cache}/a.dbg\n"
    with Client(server) as client:
        assert client.record(digest).label == "vadd"


class Failing:
    """A destination that fails with these errors first."""

    def __init__(self) -> None:
        self.errors: list[SymdError] = []

    def take(self, event: object) -> None:
        if self.errors:
            raise self.errors.pop()


class Together:
    """A destination that says nothing of a module until it is told of another; ``threading`` raises where none comes."""

    def __init__(self) -> None:
        self._others = threading.Barrier(2, timeout=60)

    def take(self, _: object) -> None:
        self._others.wait()


def test_a_daemon_is_told_of_several_modules_at_a_time_and_they_are_reported_in_order(
    run: Run, tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        old(tmp_path / f"{number}.dbg", sample.read_bytes() + bytes([number]))
    monkeypatch.setattr(collect, "open_destination", lambda *_: Together())
    outcome = run("collect", "--once", str(tmp_path))
    assert outcome.code == 0
    assert [Path(line.split()[-1]).name for line in outcome.out.splitlines()] == [f"{n}.dbg" for n in range(4)]


@pytest.mark.parametrize(
    ("errors", "kept"),
    [
        ([Busy("full"), DeadlineExceeded("slow"), ServerUnavailable("gone")], True),
        ([Busy("full")] * 9, True),
        ([DeadlineExceeded("slow")] * 5, False),
    ],
)
def test_what_passes_costs_a_watch_no_module(
    run: Run, tmp_path: Path, sample: Path, monkeypatch: pytest.MonkeyPatch, errors: list[SymdError], kept: bool
) -> None:
    old(tmp_path / "a.dbg", sample.read_bytes())
    sink = Failing()
    sink.errors = list(errors)
    monkeypatch.setattr(collect, "open_destination", lambda *_: sink)
    monkeypatch.setattr(collect.time, "sleep", lambda _: None)
    monkeypatch.setattr(collect.FolderWatch, "arriving", lambda *_: _interrupted())
    outcome = run("collect", str(tmp_path))
    assert outcome.code == 130
    assert outcome.out.startswith("modules/" if kept else "left out: ")
    assert not sink.errors


def _interrupted() -> None:
    raise KeyboardInterrupt


def test_a_running_process_is_attached_to(run: Run, tmp_path: Path, sample: Path) -> None:
    program = "import mmap, sys; data = open(sys.argv[1], 'rb').read(); area = mmap.mmap(-1, 1 << 20); area[64 : 64 + len(data)] = data"
    program += "; print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(sample)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        outcome = run("attach", "--json", "--out", tmp_path / "out", child.pid)
        child.kill()
    digest = hashlib.sha256(sample.read_bytes()).hexdigest()
    assert outcome.code == 0
    assert digest in {line.get("module", "").removeprefix("modules/") for line in outcome.json}
    assert "symd: memory: " in outcome.err


def test_a_process_without_modules_is_a_no(run: Run, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    with subprocess.Popen(["sleep", "600"], env=environment) as child:
        outcome = run("attach", "--out", tmp_path / "out", child.pid)
        child.kill()
    assert outcome.code == 1
    assert outcome.out == ""


def test_a_folder_of_captures_becomes_contexts_however_often_it_is_told(
    server: str, symd: Run, tmp_path: Path, sample: Path
) -> None:
    program = CapturedProcess("elsewhere", 7, 70, ("prog", "--now"), "boot")
    with FolderSink(tmp_path / "captures") as folder:
        for handle in (1, 2):
            load = ModuleLoaded(
                program, CaptureApi.LEVEL_ZERO, CaptureWay.PRELOAD, handle, handle * 10, ModuleForm.DEBUG_DATA,
                sample.read_bytes(), "gpu", ("vadd",), {"vadd": DeviceAddress(0x1000 * handle)},
            )  # fmt: skip
            folder.take(load)
        folder.take(ModuleUnloaded(program, CaptureApi.LEVEL_ZERO, 1, 15))
        folder.take(ProcessEnded(program, 40))
    for _ in range(2):
        outcome = symd("collect", "--once", "--server", server, tmp_path / "captures")
        assert outcome.code == 0, outcome.err
        assert outcome.out.count("modules/") == 1
        assert "recorded what 1 program loaded, and when" in outcome.err
        assert "symd: 0 further modules; " in outcome.err
        with Client(server) as client:
            (context,) = client.contexts.all()
            assert (context.context.host, context.context.process) == ("elsewhere", 7)
            loads = [load for _, load in client.contexts.loads(context.id)]
            assert [(load.time, load.unload_time) for load in loads] == [(10, 15), (20, 40)]
            answers = client.contexts.symbolize(context.id, np.array([0x2000], np.uint64), 30)
            assert answers[0].answer.kernel == "vadd"


def test_what_is_damaged_in_a_folder_of_captures_is_said(server: str, symd: Run, tmp_path: Path, sample: Path) -> None:
    program = CapturedProcess("elsewhere", 8, 70)
    with FolderSink(tmp_path / "captures") as folder:
        folder.take(ModuleUnloaded(program, CaptureApi.LEVEL_ZERO, 1, 15))
    with (tmp_path / "captures" / "captures.jsonl").open("a") as events:
        events.write('{"event": "module-loaded", "process": 1}\n')
    old(tmp_path / "captures" / "modules" / "beside", sample.read_bytes())
    outcome = symd("collect", "--once", "--server", server, tmp_path / "captures")
    assert outcome.code == 0, outcome.err
    assert f"left out: {tmp_path}/captures/captures.jsonl: " in outcome.out
    assert outcome.out.count("modules/") >= 1


def test_device_addresses_of_a_process_that_ran_already_resolve(server: str, symd: Run, tmp_path: Path) -> None:
    """ROCm's list of loaded code objects becomes a context of the daemon."""
    base = 0x7F0000400000
    library, (first, second) = runtime(tmp_path, 10), CODE_OBJECTS[:2]
    with running(LOADING, library, first, second, home=tmp_path) as process:
        outcome = symd("attach", "--server", server, process.pid)
    assert outcome.code == 0, outcome.err
    digest = hashlib.sha256(first.read_bytes()).hexdigest()
    with Client(server) as client:
        (context,) = [each for each in client.contexts.all() if each.context.process == process.pid]
        table = next(iter(client.lines(digest)))
        address = table.text_sections[int(table.text_section[0])].address + int(table.offset[0])
        answers = client.contexts.symbolize(context.id, np.array([base + address], np.uint64))
        assert answers.modules == [digest]
        assert answers[0].answer.frames[0].line == int(table.line[0])
