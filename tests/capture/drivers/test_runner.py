"""Whatever a child does, its parent gets the answer or one error that says what happened; the children here are fakes.
Its build log may have any length."""

from __future__ import annotations

import json
import struct
import sys
import textwrap
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from symd import errors
from symd.capture.drivers import grab, runner
from symd.capture.drivers.apis import MAX_LOG, bounded
from symd.config import Limits
from symd.model.cancellation import cancelled_by
from symd.model.grabs import Grabbed, GrabRequest

LIMITS = Limits(module_size=1 << 20)
SOURCE = b"kernel void k(global int *a) { a[0] = 1; }"

PROLOGUE = """\
import json, os, signal, struct, sys, time
answer = int(sys.argv[1])
def frame(kind, payload):
    os.write(answer, kind + struct.pack("<Q", len(payload)) + payload)
def value(**fields):
    frame(b"J", json.dumps(fields).encode())
def failure(**fields):
    frame(b"E", json.dumps(fields).encode())
"""
GOOD = """
frame(b"B", b"debug"); frame(b"B", b"native")
value(kernels=["k"], build_log="", driver="D", device="G")
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Make a fake child of a few lines of Python take the real one's place."""

    def become(body: str) -> None:
        script = tmp_path / "child.py"
        script.write_text(PROLOGUE + textwrap.dedent(body))
        monkeypatch.setattr(runner, "child_command", lambda _: [sys.executable, "-I", "-S", str(script)])

    return become


def request(**changes: object) -> GrabRequest:
    fields = {"api": "opencl", "kind": "source", "data": SOURCE, "label": "k.cl", "timeout": 20.0, **changes}
    return GrabRequest(**fields)  # type: ignore[arg-type]


def test_an_answer_arrives_whole(child) -> None:
    child(GOOD)
    got = grab(request(), LIMITS)
    assert (got.debug_data, got.native, got.kernels, got.driver, got.device) == (b"debug", b"native", ("k",), "D", "G")


def test_what_a_driver_prints_does_not_reach_the_answer(child) -> None:
    child("os.write(1, b'J' * 4_000_000); os.write(2, b'noise' * 100_000)" + GOOD)
    assert grab(request(), LIMITS).debug_data == b"debug"


def test_an_answer_larger_than_a_pipe_arrives_whole(child) -> None:
    child("""
    def frame(kind, payload):
        data = kind + struct.pack("<Q", len(payload)) + payload
        while data:
            data = data[os.write(answer, data):]
    frame(b"B", bytes(range(256)) * 4096); frame(b"B", b"native")
    value(kernels=[], build_log="", driver="D", device="G")
    """)
    assert grab(request(), LIMITS).debug_data == bytes(range(256)) * 4096


def test_the_child_finds_its_request_and_input_in_a_folder_of_its_own(child) -> None:
    child("""
    frame(b"B", open("input.bin", "rb").read()); frame(b"B", open("request.json", "rb").read())
    value(kernels=[], build_log=os.getcwd(), driver=os.environ["PWD"], device=os.environ["TMPDIR"])
    """)
    got = grab(request(build_flags="-g", device=3, simulate="dg2"), LIMITS)
    told = json.loads(got.native)
    assert got.debug_data == SOURCE
    assert (told["verb"], told["api"], told["kind"], told["build_flags"]) == ("grab", "opencl", "source", "-g")
    assert (told["device"], told["simulate"]) == (3, "dg2")
    assert got.build_log == got.device != str(Path.cwd())
    assert not Path(got.build_log).exists(), "the folder is gone afterwards"


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("os.abort()", "SIGABRT"),
        ("os.kill(os.getpid(), signal.SIGSEGV); time.sleep(9)", "SIGSEGV"),
        ("os.kill(os.getpid(), signal.SIGILL); time.sleep(9)", "SIGILL"),
    ],
)
def test_a_signal_names_itself_the_driver_the_call_and_what_to_install(child, how: str, name: str) -> None:
    child(f"""
    frame(b"C", b"clGetPlatformIDs"); frame(b"C", b"clBuildProgram")
    os.write(2, b"first words\\nAbort was called at 157 line\\n")
    {how}
    """)
    with pytest.raises(errors.DriverCrashed) as caught:
        grab(request(simulate="pvc"), LIMITS)
    text = str(caught.value)
    for part in ("k.cl", "OpenCL", "pvc", "clBuildProgram", name, "Abort was called at 157 line"):
        assert part in text
    assert "apt-get install intel-opencl-icd ocl-icd-libopencl1" in caught.value.hint
    assert caught.value.metadata["signal"] == name
    assert caught.value.metadata["call"] == "clBuildProgram"
    assert "first words" in caught.value.metadata["output"]


def test_a_level_zero_crash_says_which_packages_bring_it(child) -> None:
    child('frame(b"C", b"zeInit"); os.abort()')
    with pytest.raises(errors.DriverCrashed, match=r"Level Zero driver died of SIGABRT in zeInit") as caught:
        grab(request(api="level-zero", kind="native"), LIMITS)
    assert "apt-get install intel-opencl-icd libze1" in caught.value.hint


def test_a_build_that_fails_without_a_word_may_have_lacked_memory(child) -> None:
    child("failure(reason='BUILD_FAILED', message='no', build_log='')")
    with pytest.raises(errors.BuildFailed, match=r"gave no reason.*driver_memory"):
        grab(request(), LIMITS)


def test_a_hang_is_ended_with_everything_it_started(child, tmp_path: Path, time_is_up_with) -> None:
    pid, hangs = tmp_path / "pid", tmp_path / "hangs"
    time_is_up_with(hangs)
    child(f"""
    frame(b"C", b"clGetDeviceIDs")
    if os.fork() == 0:
        open({str(pid)!r}, "w").write(str(os.getpid()))
        open({str(hangs)!r}, "w")
        signal.pause()
    signal.pause()
    """)
    with pytest.raises(errors.DriverTimeout, match=r"0\.5 seconds and was ended in clGetDeviceIDs") as caught:
        grab(request(timeout=0.5), LIMITS)
    assert "give it more time" in caught.value.hint
    assert not _runs(int(pid.read_text()))


class Left(Exception):
    """Nobody waits any more."""


def grab_while(check: Callable[[], None]) -> Grabbed:
    with cancelled_by(check):
        return grab(request(), LIMITS)


def test_a_build_that_nobody_waits_for_is_ended(child, tmp_path: Path) -> None:
    pid, leave = tmp_path / "pid", []
    child(
        f"open({str(pid)!r}, 'w').write(str(os.getpid())); os.rename({str(pid)!r}, {str(pid) + '.there'!r}); signal.pause()"
    )

    def check() -> None:
        if leave:
            raise Left

    with ThreadPoolExecutor(1) as threads:
        grabbing = threads.submit(grab_while, check)
        there = Path(f"{pid}.there")
        while not there.exists() and not grabbing.done():
            time.sleep(0.01)
        leave.append(True)
        with pytest.raises(Left):
            grabbing.result(timeout=15)
    assert not _runs(int(there.read_text()))


def test_one_that_nobody_waited_for_already_is_not_begun(child, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    child(f"open({str(mark)!r}, 'w')")

    def check() -> None:
        raise Left

    with pytest.raises(Left):
        grab_while(check)
    assert not mark.exists()


def test_bounds_on_disk_and_threads_name_themselves(child, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "DRIVER_FILES", 100)
    child("frame(b'C', b'clBuildProgram')\nwhile True: open(str(time.monotonic_ns()), 'w')")
    with pytest.raises(errors.LimitExceeded, match=r"more than 100 files and folders$") as caught:
        grab(request(), LIMITS)
    assert caught.value.metadata == {"limit": "driver_files", "value": "100"}


def _runs(pid: int) -> bool:
    """Whether a process is alive; one that nobody has reaped yet is not."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return False
        if state in "ZX":
            return False
        time.sleep(0.02)
    return True


def test_the_service_s_own_limit_bounds_the_time_that_was_asked_for(child) -> None:
    child("signal.pause()")
    with pytest.raises(errors.DriverTimeout, match=r"0\.25 seconds"):
        grab(request(timeout=50.0), Limits(driver_seconds=0.25))


def test_a_longer_time_than_the_limit_is_refused_by_name_and_not_cut_in_silence(child) -> None:
    child(GOOD)
    with pytest.raises(errors.LimitExceeded, match="240 seconds is more than driver_seconds, 120") as caught:
        grab(request(timeout=240.0), Limits())
    assert caught.value.metadata["limit"] == "driver_seconds"
    assert grab(request(timeout=240.0), Limits(driver_seconds=240.0)).debug_data == b"debug"


def test_a_hang_after_the_answer_loses_nothing(child, tmp_path: Path, time_is_up_with) -> None:
    time_is_up_with(tmp_path / "hangs")
    child(GOOD + f"open({str(tmp_path / 'hangs')!r}, 'w'); signal.pause()")
    assert grab(request(timeout=0.5), LIMITS).debug_data == b"debug"


def test_a_crash_after_the_answer_loses_nothing(child) -> None:
    child(GOOD + "os.abort()")
    assert grab(request(), LIMITS).native == b"native"


@pytest.mark.parametrize(
    "sent", [b"\x7fELF" + bytes(60), b"E" + struct.pack("<Q", 2) + b"{}", b"J" + struct.pack("<Q", 3) + b"{[]"]
)
def test_bytes_that_are_no_answer_are_a_driver_s_failure(child, sent: bytes) -> None:
    child(f"os.write(answer, {sent!r})")
    with pytest.raises(errors.DriverFailed, match="answered with bytes that make no sense"):
        grab(request(), LIMITS)


def test_an_answer_that_was_cut_off_is_no_answer(child) -> None:
    child('os.write(answer, b"J" + struct.pack("<Q", 100) + b"{")')
    with pytest.raises(errors.DriverFailed, match="ended its process with status 0 and no answer"):
        grab(request(), LIMITS)


def test_an_exit_inside_a_call_names_status_and_call(child) -> None:
    child('frame(b"C", b"clBuildProgram"); os._exit(1)')
    with pytest.raises(errors.DriverFailed, match="status 1 and no answer in clBuildProgram") as caught:
        grab(request(), LIMITS)
    assert type(caught.value) is errors.DriverFailed
    assert "check the module" in caught.value.hint


def test_an_answer_without_end_is_cut_at_the_module_limit(child) -> None:
    child("""
    os.write(answer, b"B" + struct.pack("<Q", 1 << 40))
    while True:
        os.write(answer, bytes(65536))
    """)
    with pytest.raises(errors.LimitExceeded, match="module_size"):
        grab(request(timeout=30.0), LIMITS)


def test_an_error_of_the_child_arrives_as_the_same_error(child) -> None:
    child("""
    failure(reason="BUILD_FAILED", message="clBuildProgram failed", where="", hint="", metadata={"call": "x"},
            build_log="line 1\\n" * 5000)
    """)
    with pytest.raises(errors.BuildFailed, match=r"k\.cl: clBuildProgram failed") as caught:
        grab(request(), LIMITS)
    assert caught.value.build_log == "line 1\n" * 5000
    assert caught.value.metadata == {"call": "x"}


@pytest.mark.parametrize("reason", ["DRIVER_MISSING", "DRIVER_FAILED", "INVALID_INPUT", "LIMIT_EXCEEDED"])
def test_each_reason_finds_its_class(child, reason: str) -> None:
    child(f'failure(reason="{reason}", message="m", where="", hint="h", metadata={{}})')
    with pytest.raises(errors.SymdError) as caught:
        grab(request(), LIMITS)
    assert type(caught.value) is errors.by_reason(reason)
    assert caught.value.hint == "h"


def test_an_interpreter_that_cannot_start_is_an_error_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "child_command", lambda _: ["/nowhere/python"])
    with pytest.raises(errors.DriverFailed, match=r"cannot be started.*nowhere"):
        grab(request(), LIMITS)


@pytest.mark.parametrize(
    ("changes", "kind", "said"),
    [
        ({"api": "vulkan"}, errors.InvalidInput, "vulkan"),
        ({"api": "level-zero"}, errors.InvalidInput, "Level Zero does not build from 'source'"),
        ({"kind": "llvm"}, errors.InvalidInput, "'llvm'"),
        ({"data": b""}, errors.InvalidInput, "empty"),
        ({"kind": "spirv"}, errors.InvalidInput, "not SPIR-V"),
        ({"data": bytes((1 << 20) + 1)}, errors.LimitExceeded, "module_size"),
        ({"build_flags": "-g\0-O0"}, errors.InvalidInput, "build flags"),
        ({"build_flags": "-g \udc80"}, errors.InvalidInput, "build flags"),
        ({"driver": "newer"}, errors.DriverNotConfigured, "there is no driver 'newer' (none is configured"),
        ({"device": -1}, errors.InvalidInput, "device -1"),
        ({"timeout": 0.0}, errors.InvalidInput, "timeout"),
        ({"timeout": float("nan")}, errors.InvalidInput, "timeout"),
        ({"simulate": "gfx90a"}, errors.InvalidInput, "gfx90a"),
        ({"simulate": "dg2 X=1"}, errors.InvalidInput, "dg2 X=1"),
    ],
)
def test_a_request_that_makes_no_sense_starts_no_child(child, changes, kind, said: str) -> None:
    child("os.abort()")
    with pytest.raises(kind) as caught:
        grab(request(**changes), LIMITS)
    assert type(caught.value) is kind
    assert said in str(caught.value)
    assert caught.value.where == "k.cl"


def test_a_name_stands_for_the_folder_that_the_operator_gave_it(child, tmp_path: Path) -> None:
    child("frame(b'B', os.environ['ZE_ENABLE_ALT_DRIVERS'].encode());" + GOOD.replace('frame(b"B", b"debug"); ', ""))
    drivers = {"newer": str(tmp_path), "older": "/nowhere"}
    assert grab(request(driver="newer"), LIMITS, drivers).debug_data.startswith(bytes(tmp_path))
    with pytest.raises(errors.DriverNotConfigured, match=r"k\.cl: there is no driver '/tmp'.*newer, older"):
        grab(request(driver="/tmp"), LIMITS, drivers)


def test_an_unnamed_module_is_called_by_its_digest(child) -> None:
    child("os.abort()")
    with pytest.raises(errors.DriverCrashed) as caught:
        grab(request(label="", data=b"abc"), LIMITS)
    assert caught.value.where == "module ba7816bf8f01"  # SHA-256 of "abc", FIPS 180-2 appendix B.1


def test_a_log_is_kept_as_it_is_up_to_the_bound() -> None:
    assert bounded("") == ""
    assert bounded("x" * MAX_LOG) == "x" * MAX_LOG


def test_a_longer_log_keeps_its_beginning_and_its_end_and_says_what_is_missing() -> None:
    log = "first error\n" + "y" * (50 * MAX_LOG) + "\nlast error"
    kept = bounded(log)
    assert len(kept) < MAX_LOG + 100
    assert kept.startswith("first error\n")
    assert kept.endswith("\nlast error")
    assert f"{len(log) - MAX_LOG} characters" in kept
