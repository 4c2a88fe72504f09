"""symd contexts, symbolize --context and watch without a line, of a daemon that was told what programs loaded."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from symd.capture.daemon_sink import DaemonSink
from symd.capture.process import start_time
from symd.config import Limits
from symd.engine.engine import Engine
from symd.model.captures import (
    CaptureApi,
    CapturedProcess,
    CaptureWay,
    ModuleForm,
    ModuleLoaded,
    ModuleUnloaded,
    ProcessEnded,
)
from symd.server.config import Config
from symd.server.listening import listening
from symd.server.server import build_daemon
from symd.store import Store
from tests.cli.conftest import SYMD, Outcome, Run

SAMPLES = Path(__file__).parents[2] / "samples/kernels/bin"
VADD = (SAMPLES / "vadd/skl-O0.dbg").read_bytes()
RAYCAST = (SAMPLES / "raycast/dg2-opt.dbg").read_bytes()
HEAP = 0xFFFF8000_FFBF0000
SECOND = 1_000_000_000


@dataclass
class Served:
    address: str
    engine: Engine
    sink: DaemonSink

    def load(
        self,
        number: int,
        data: bytes,
        kernel: str,
        time: int,
        handle: int = 1,
        process: CapturedProcess | None = None,
    ) -> None:
        self.sink.take(
            ModuleLoaded(
                process=process or who(number), api=CaptureApi.LEVEL_ZERO, way=CaptureWay.PRELOAD, handle=handle, time=time,
                form=ModuleForm.DEBUG_DATA, data=data, device="gpu 0", kernels=(kernel,), addresses={kernel: HEAP},
            )
        )  # fmt: skip


def who(process: int) -> CapturedProcess:
    return CapturedProcess("host", process, process, ("app", "--fast"))


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    config = Config(store=tmp_path / "store", address=f"unix:{tmp_path}/s", grace=1.0)
    with Engine(Store(config.store, Limits(), durable=False)) as engine:
        daemon = build_daemon(engine, config)
        with listening(daemon.server, config.address) as address:
            daemon.server.start()
            yield Served(address, engine, DaemonSink(engine))
            daemon.stop(1)


@pytest.fixture
def programs(served: Served) -> Served:
    """One that has ended, in whose memory two modules were one after the other, and one that runs."""
    served.load(11, VADD, "vadd", 1 * SECOND)
    served.sink.take(ModuleUnloaded(who(11), CaptureApi.LEVEL_ZERO, 1, 2 * SECOND))
    served.load(11, RAYCAST, "raycast", 3 * SECOND, handle=2)
    served.sink.take(ProcessEnded(who(11), 4 * SECOND))
    served.load(12, VADD, "vadd", 5 * SECOND)
    return served


def context(served: Served, process: int) -> str:
    (found,) = (each.id for each in served.engine.contexts.all() if each.context.process == process)
    return found


def symbolized(run: Run, served: Served, *arguments: object) -> Outcome:
    return run("symbolize", "--server", served.address, "--context", *arguments)


def test_contexts_are_listed_with_what_they_loaded(run: Run, programs: Served) -> None:
    ended, running = run("contexts", "--server", programs.address, "--json").json
    assert (ended["process"], ended["host"], ended["device"]) == (11, "host", "gpu 0")
    assert ended["name"] == f"contexts/{context(programs, 11)}"
    assert ended["attributes"]["command"] == "app --fast"
    life = ("modules", "loads", "living", "began", "ended")
    assert [ended[key] for key in life] == [2, 2, 0, 1 * SECOND, 4 * SECOND]
    assert [running[key] for key in life] == [1, 1, 1, 5 * SECOND, None]
    lines = run("contexts", "--server", programs.address).out.splitlines()
    named = [f"process {process} of host on gpu 0 (contexts/{context(programs, process)}): " for process in (11, 12)]
    assert lines == [
        f"{named[0]}2 modules, 0 loaded, from 1.000000000 s to 4.000000000 s  app --fast",
        f"{named[1]}1 module, 1 loaded, from 5.000000000 s  app --fast",
    ]


def test_none_is_an_answer_and_none_of_that_process_a_no(run: Run, served: Served) -> None:
    assert run("contexts", "--server", served.address).code == 0
    assert run("contexts", "--server", served.address, "--process", "4242").code == 1


def test_a_context_is_chosen_by_the_beginning_of_its_id(run: Run, programs: Served) -> None:
    name = context(programs, 11)
    for chosen in (name, name[:8], f"contexts/{name}"):
        loads = run("contexts", "--server", programs.address, "--json", chosen).json
        assert [(each["time"], each["unload_time"]) for each in loads] == [
            (1 * SECOND, 2 * SECOND),
            (3 * SECOND, 4 * SECOND),
        ]
    (segment,) = loads[0]["segments"]
    assert (segment["address"], segment["kernel"], segment["kernel_offset"]) == (HEAP, "vadd", 0)
    text = run("contexts", "--server", programs.address, name[:8]).out.splitlines()
    assert len(text) == 3
    assert text[1].endswith(f"as level-zero:0x1 from 1.000000000 s to 2.000000000 s at {HEAP:#x}")
    for chosen, code in (("", 1), ("zz", 1), ("f" * 32, 1)):
        assert run("contexts", "--server", programs.address, chosen).code == code


def test_a_beginning_of_several_is_refused(run: Run, served: Served) -> None:
    for number in range(20):
        served.load(number, VADD, "vadd", SECOND)
    names = [each.id for each in served.engine.contexts.all()]
    first = next(name[0] for name in names if sum(each.startswith(name[0]) for each in names) > 1)
    outcome = run("contexts", "--server", served.address, first)
    assert outcome.code == 2
    assert "contexts begin with" in outcome.err


def test_only_one_process_is_listed_where_one_is_asked_for(run: Run, programs: Served) -> None:
    assert [
        each["process"] for each in run("contexts", "--server", programs.address, "--json", "--process", 12).json
    ] == [12]
    assert run("contexts", "--server", programs.address, "--process", 13).code == 1


def test_a_device_address_of_an_ended_program_is_answered(run: Run, programs: Served) -> None:
    """Just before its last module went where no time is given; at any other time what was there then."""
    name, where = context(programs, 11), hex(HEAP + 0x368)
    asked = [f"{where}@{second * SECOND}" for second in (0, 1, 2, 3, 4)]
    answers = symbolized(run, programs, name, "--json", where, *asked).json
    assert [each["kernel"] or each["reason"] for each in answers] == [
        "raycast", "UNLOADED", "vadd", "UNLOADED", "raycast", "UNLOADED",
    ]  # fmt: skip
    assert answers[0]["time"] == 4 * SECOND - 1
    assert [frame["function"] for frame in answers[0]["frames"]] == ["length_squared", "raycast"]
    assert answers[0]["device_address"] == HEAP + 0x368
    assert answers[2]["module"] == f"modules/{programs.engine.store.records()[0].sha256}"
    at_time = symbolized(run, programs, name[:6], "--time", SECOND, "--json", where).json
    assert [(each["kernel"], each["time"]) for each in at_time] == [("vadd", SECOND)]


def test_a_device_address_of_a_running_program_is_answered_as_of_now(run: Run, programs: Served) -> None:
    (answer,) = symbolized(run, programs, context(programs, 12), "--json", HEAP).json
    assert (answer["kernel"], answer["time"]) == ("vadd", None)
    outcome = symbolized(run, programs, context(programs, 12), hex(HEAP), hex(HEAP & (1 << 48) - 1), "0x10")
    assert outcome.code == 0
    first, module, *_, last = outcome.out.splitlines()
    assert first.startswith(f"{HEAP:#x}: vadd at ")
    assert module == f"  in modules/{answer['module'].removeprefix('modules/')}"
    assert last == "0x10: no answer [OUTSIDE_TEXT]"


def test_device_addresses_from_standard_input_are_answered_line_by_line(symd: Run, programs: Served) -> None:
    name, where = context(programs, 11), hex(HEAP + 0x368)
    lines = f"{where}\nvadd+0x10\n{where}@{SECOND}\n".encode()
    outcome = symd("symbolize", "--server", programs.address, "--context", name, "--json", "-", stdin=lines)
    assert [each.get("kernel") or each["error"][:11] for each in outcome.json] == ["raycast", "'vadd+0x10'", "vadd"]
    assert outcome.code == 2


@pytest.mark.parametrize(
    "arguments", [["--object", "", "0x10"], ["--as-written", "0x10"], ["0x1@x"], [str(1 << 64)], ["0x10@" + "9" * 19]]
)
def test_what_is_no_device_address_is_refused(run: Run, programs: Served, arguments: list[str]) -> None:
    outcome = symbolized(run, programs, context(programs, 11), *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert run("symbolize", "--time", 3, __file__, "0x10").code == 2


def test_a_watch_without_a_line_tells_what_happens_and_goes_on_after_a_token(run: Run, served: Served) -> None:
    command = [*SYMD, "watch", "--server", served.address, "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout
        first = json.loads(waiting.stdout.readline())
        served.load(11, VADD, "vadd", SECOND)
        served.sink.take(ProcessEnded(who(11), 2 * SECOND))
        served.engine.remove(served.engine.store.records()[0].sha256)
        events = [first, *(json.loads(waiting.stdout.readline()) for _ in range(4))]
        waiting.terminate()
    assert [each["event"] for each in events] == ["watching", "added", "loaded", "unloaded", "removed"]
    assert events[2]["context"]["process"] == 11
    assert [segment["address"] for segment in events[2]["segments"]] == [HEAP]
    assert (events[3]["unload_time"], events[3]["load"]) == (2 * SECOND, events[2]["load"])
    command += ["--resume-token", events[2]["resume_token"]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout
        again = [json.loads(waiting.stdout.readline()) for _ in range(3)]
        waiting.terminate()
    assert again == [{"event": "watching", "resume_token": events[2]["resume_token"]}, *events[3:]]
    name = context(served, 11)
    with subprocess.Popen([*command, "--context", name[:9]], stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout
        assert [json.loads(waiting.stdout.readline())["event"] for _ in range(2)] == ["watching", "unloaded"]
        waiting.terminate()
    assert run("watch", "--server", served.address, "--resume-token", "x").code == 2
    outcome = run("watch", "--server", served.address, "--resume-token", "0" * 16 + "-1")
    assert outcome.code == 1
    assert "another store" in outcome.err


def test_a_process_that_has_ended_is_gone(served: Served) -> None:
    """One with the number of this process that began at another time, such as before its number was used again."""
    own = os.getpid()
    for began in (start_time(own), 1):
        process = CapturedProcess(os.uname().nodename, own, began, ("app",))
        served.load(own, VADD, "vadd", SECOND, process=process)
    told = {}
    for record in served.engine.contexts.all():
        command = [*SYMD, "watch", "--server", served.address, "--context", record.id]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            assert watching.stderr is not None
            watching.stdout.readline()
            watching.terminate()
            told[record.context.attributes["start_time"]] = watching.stderr.read()
    assert told["1"].startswith(f"symd: process {own} is gone: it loads nothing more")
    assert told[str(start_time(own))] == ""


def test_a_process_is_no_context_and_is_told_with_its_own(run: Run, programs: Served) -> None:
    outcome = run("watch", "--server", programs.address, "--context", "11")
    meant = context(programs, 11)[:8]
    assert (outcome.code, f"for process 11 write --context {meant})" in outcome.err) == (1, True), outcome.err
    assert run("contexts", "--server", programs.address, meant).code == 0


def test_watches_of_lines_go_on_after_a_token_too(run: Run, served: Served) -> None:
    lost = run("watch", "--server", served.address, "--resume-token", "0123456789abcdef-7", "vadd.cl:8")
    assert (lost.code, "another store" in lost.err) == (1, True)
    assert run("watch", "--server", served.address, "--api", "directx").code == 2


def test_a_watch_that_is_cut_off_says_which_token_to_go_on_with(served: Served) -> None:
    config = Config(store=served.engine.store.root, address=f"{served.address}2", grace=1.0)
    daemon = build_daemon(served.engine, config)
    with listening(daemon.server, config.address) as address:
        daemon.server.start()
        command = [*SYMD, "watch", "--server", address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as waiting:
            assert waiting.stdout
            assert waiting.stderr
            served.load(11, VADD, "vadd", SECOND)
            lines = [waiting.stdout.readline() for _ in range(2)]
            daemon.stop(1)
            assert f"go on with --resume-token {served.engine.store.module_log.end()}" in waiting.stderr.read()
            assert waiting.wait(30) == 3
    assert [line.split()[0] for line in lines] == ["added", "loaded"]
    assert f"by process 11 of host on gpu 0 (contexts/{context(served, 11)}) as level-zero:0x1 at 1.0" in lines[1]


def test_a_breakpoint_that_waits_says_where_a_process_loaded_it(served: Served) -> None:
    """In text, of a module that is new; as JSON, of one that another process loads again."""
    text = heard(served, 11, 2)
    assert text[0].startswith(f"modules/{served.engine.store.records()[0].sha256}: vadd.cl:8: ")
    assert f" in process 11 of host on gpu 0 (contexts/{context(served, 11)}): vadd.cl:8: " in text[1]
    (found,) = map(json.loads, heard(served, 12, 1, "--json"))
    assert found["loaded"]["context"]["process"] == 12
    assert found["device_addresses"] == [HEAP + found["section_offset"]]
    assert f" on the device at {HEAP + found['section_offset']:#x}: " in text[1]


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + 120
    while not holds() and time.monotonic() < until:
        time.sleep(0.01)


def heard(served: Served, process: int, count: int, *options: str) -> list[str]:
    """The lines that a watch writes when a process loads a module."""
    command = [*SYMD, "watch", "--server", served.address, "--only-new", "vadd.cl:8", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        assert waiting.stdout
        wait_until(lambda: bool(list(served.engine.store.module_log._subscriptions)))
        served.load(process, VADD, "vadd", SECOND)
        lines = [waiting.stdout.readline() for _ in range(count)]
        waiting.terminate()
    wait_until(lambda: not list(served.engine.store.module_log._subscriptions))
    return lines


def test_places_are_asked_by_what_a_context_has_loaded(run: Run, programs: Served, tmp_path: Path) -> None:
    """The module begins at the address that its load says: device addresses are that and offsets."""
    file = tmp_path / "vadd.dbg"
    file.write_bytes(VADD)
    words = ("--json", "--server", programs.address, "--context", context(programs, 12))
    places = run("locate", "--json", file, "vadd.cl:8", "kernel:vadd").json
    told = run("locate", *words, "vadd.cl:8", "kernel:vadd").json
    assert {each.pop("module") for each in told} == {f"modules/{programs.engine.add(VADD).sha256}"}
    assert told == [{**each, "device_addresses": [HEAP + each["section_offset"]]} for each in places]
    assert f"on the device at {HEAP + places[0]['section_offset']:#x}" in run("locate", *words[1:], "vadd.cl:8").out


def test_what_a_context_does_not_have_is_said(run: Run, programs: Served) -> None:
    words = ("--server", programs.address, "--context", context(programs, 12))
    nothing = run("variables", "--json", *words, "0x10")
    assert (nothing.code, nothing.json[0]["reason"]) == (1, "OUTSIDE_TEXT")
    assert run("locate", "--json", *words, "none.cl:8").json[0]["reason"] == "NO_SUCH_FILE"
    with_file = run("locate", *words, "--object", "vadd", "vadd.cl:8")
    assert (with_file.code, "cannot be used with --context" in with_file.err) == (2, True)
    ended = run("locate", "--server", programs.address, "--context", context(programs, 11), "vadd.cl:8")
    assert (ended.code, "nothing is loaded in contexts/" in ended.err) == (1, True)
