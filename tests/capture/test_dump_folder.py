"""``symd run`` where no library can be built or loaded: compilers and drivers write what they build into the run's folder."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path

import pytest

from symd.capture import CaptureCounts, OneAtATime
from symd.capture import folder as watched
from symd.capture.folder import DumpFolder, FolderWatch
from symd.capture.ways import dump_environment
from symd.cli.run import summary
from symd.config import Limits
from symd.errors import DeadlineExceeded, StoreUnavailable
from symd.model.captures import CaptureEvent, CaptureWay, ModuleFound

ROOT = Path(__file__).parents[2]
ZEBIN = ROOT / "samples" / "kernels" / "bin" / "filters" / "igc2-dg2-opt.zebin"
WRITING = """
    sleep 0.3
    cp "$0" "$IGC_DumpToCustomDir/whole"
    mkdir -p "$NEO_CACHE_DIR/a/b" && cp "$1" "$NEO_CACHE_DIR/a/b/x.cl_cache.tmp" && mv "$NEO_CACHE_DIR/a/b/x.cl_cache.tmp" "$NEO_CACHE_DIR/a/b/x.cl_cache"
    exit 5
"""


def run(out: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    other = out.with_name("other")
    other.write_bytes(ZEBIN.read_bytes() + b"\0")
    program = ["/bin/sh", "-c", WRITING, str(ZEBIN), str(other)]
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "XDG_CACHE_HOME": str(out.with_name("cache"))}
    command = [sys.executable, "-m", "symd", "run", *options, "--out", str(out), "--", *program]
    return subprocess.run(command, capture_output=True, text=True, env=clean | environment, check=False)


def test_what_is_dumped_is_kept(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = run(out, "--way", "folder")
    assert (done.returncode, done.stdout) == (5, "")
    assert "2 modules from compilers' dumps" in done.stderr
    told = [json.loads(line) for line in (out / "captures.jsonl").read_text().splitlines()]
    assert {(each["event"], each["way"]) for each in told} == {("module-found", "folder")}
    wanted = {hashlib.sha256(data).hexdigest() for data in (ZEBIN.read_bytes(), ZEBIN.read_bytes() + b"\0")}
    assert {each["sha256"] for each in told} == wanted
    assert {path.name for path in (out / "modules").iterdir()} == wanted


def test_without_a_compiler_dumps_are_what_there_is(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("cp", "mkdir", "mv", "sleep"):
        (tools / name).symlink_to(str(shutil.which(name)))
    done = run(tmp_path / "out", PATH=str(tools))
    assert done.returncode == 5
    first, last = done.stderr.splitlines()
    assert first.startswith("symd: no C compiler is here")
    assert "modules are taken from what compilers dump, without load addresses (install one:" in first
    assert "2 modules from compilers' dumps" in last


def test_a_way_that_was_named_still_needs_its_compiler(tmp_path: Path) -> None:
    done = run(tmp_path / "out", "--way", "preload", PATH="/nowhere")
    assert done.returncode == 3
    assert "no C compiler is here" in done.stderr


class Refusing:
    def __init__(self) -> None:
        self.told: list[CaptureEvent] = []

    def take(self, event: CaptureEvent) -> None:
        self.told.append(event)
        if len(self.told) == 2:
            raise StoreUnavailable("no space left on device")


def test_what_the_sink_refuses_and_what_is_damaged_is_remembered(tmp_path: Path) -> None:
    environment = dump_environment(tmp_path / "dumps")
    sink = Refusing()
    dumps = DumpFolder(tmp_path / "dumps", OneAtATime(sink), Limits())
    dumps.start()
    for number in range(3):
        (Path(environment["NEO_CACHE_DIR"]) / str(number)).write_bytes(ZEBIN.read_bytes() + bytes(number))
    (Path(environment["IGC_DumpToCustomDir"]) / "damaged").write_bytes(ZEBIN.read_bytes()[:3000])
    dumps.finish()
    assert (dumps.modules, len(dumps.left_out)) == (2, 2)
    assert all(isinstance(event, ModuleFound) and event.way is CaptureWay.FOLDER for event in sink.told)


def test_a_process_left_behind_that_writes_without_end_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "_ENDING_SECONDS", 0.5)
    monkeypatch.setattr(
        watched, "FolderWatch", partial(FolderWatch, settle=600.0)
    )  # the writer may stand still for a while
    folder = tmp_path / "dumps"
    dump_environment(folder)
    enough = threading.Event()

    def write() -> None:
        with (folder / "growing").open("ab", buffering=0) as growing:
            while not enough.wait(0.01):
                growing.write(b"x")
                (folder / "again").write_bytes(b"other")

    writing = threading.Thread(target=write)
    dumps = DumpFolder(folder, OneAtATime(Refusing()), Limits())
    (folder / "growing").write_bytes(b"x")
    writing.start()
    dumps.start()
    finishing = threading.Thread(target=dumps.finish, daemon=True)
    finishing.start()
    finishing.join(60)
    finished = not finishing.is_alive()
    enough.set()
    writing.join()
    assert finished
    assert [type(error) for error in dumps.left_out] == [DeadlineExceeded]


def test_the_summary_tells_of_dumps_that_were_left_out() -> None:
    counts = CaptureCounts(dumped=2, dumps_left_out=[StoreUnavailable("no space left on device")])
    assert not counts.went_well
    assert summary(counts) == [
        "2 modules from compilers' dumps",
        "1 dumped file left out, the first because: no space left on device",
    ]
    assert summary(CaptureCounts()) == ["no module was built or loaded where symd could see it"]
