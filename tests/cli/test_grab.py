"""symd grab, with a made-up driver; real ones are grabbed from in tests/live."""

import hashlib
from pathlib import Path

import pytest

from symd.cli.grab import sniff
from symd.config import Limits
from symd.errors import BuildFailed, DriverMissing, UnknownFormat
from symd.model import Grabbed, GrabRequest
from tests.cli.conftest import Run

LOG = "1:1: error: no\nsource line\n   ^\n"


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> list[GrabRequest]:
    """Requests that reached the driver; one whose flags hold "fail" is not built."""
    requests: list[GrabRequest] = []

    def grab(request: GrabRequest, limits: Limits) -> Grabbed:
        requests.append(request)
        if "fail" in request.build_flags:
            raise BuildFailed("clBuildProgram failed", build_log=LOG, where=request.label)
        if "missing" in request.build_flags:
            raise DriverMissing("libze_loader.so.1 is not installed", hint="apt-get install libze1")
        debug = b"" if "empty" in request.build_flags else b"debug"
        return Grabbed(debug, b"native", ("vadd", "vsub"), "a warning\n", "Driver 1", "Device A")

    monkeypatch.setattr("symd.drivers.grab", grab)
    return requests


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "vadd.cl"
    path.write_text("kernel void vadd(global int* a) {}\n")
    return path


def test_options_reach_the_driver(run: Run, driver: list[GrabRequest], source: Path):
    options = [
        "--api=opencl",
        "--device=2",
        "--build-flags=-O0",
        "--simulate=dg2",
        "--driver-root=/opt/d",
        "--timeout=7",
    ]
    assert run("grab", source, *options).code == 0
    data = source.read_bytes()
    assert driver == [GrabRequest("opencl", "source", data, "-O0", 2, "dg2", "/opt/d", 7.0, str(source))]


@pytest.mark.parametrize(
    ("data", "kind", "api"),
    [
        (b"kernel void f() {}", "source", "opencl"),
        (b"\x03\x02\x23\x07\x00\x00\x01\x00", "spirv", "level-zero"),
        (b"\x07\x23\x02\x03\x00\x01\x00\x00", "spirv", "level-zero"),
        (b"\x7fELF\x02\x01", "native", "level-zero"),
    ],
)
def test_the_first_bytes_choose_kind_and_interface(
    run: Run, driver: list[GrabRequest], tmp_path: Path, data, kind, api
):
    path = tmp_path / "input"
    path.write_bytes(data)
    assert run("grab", path).code == 0
    assert (driver[0].kind, driver[0].api) == (kind, api)


def test_kind_and_api_may_be_said(run: Run, driver: list[GrabRequest], source: Path):
    assert run("grab", source, "--kind", "native", "--api", "opencl").code == 0
    assert (driver[0].kind, driver[0].api) == ("native", "opencl")


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"text with\0zero"])
def test_other_bytes_are_no_source(data: bytes):
    with pytest.raises(UnknownFormat, match="--kind"):
        sniff(data, "input")


def test_the_debug_data_is_written_and_described(run: Run, driver: list[GrabRequest], source: Path, tmp_path: Path):
    output = tmp_path / "out.dbg"
    outcome = run("grab", source, "--json", "-o", output)
    assert output.read_bytes() == b"debug"
    assert outcome.err == ""
    [described] = outcome.json
    assert described == {
        "api": "opencl",
        "driver": "Driver 1",
        "device": "Device A",
        "kernels": ["vadd", "vsub"],
        "debug_data_size": 5,
        "native_size": 6,
        "sha256": hashlib.sha256(b"debug").hexdigest(),
        "module": None,
        "output": str(output),
        "build_log": "a warning\n",
    }


def test_the_log_of_a_good_build_is_shown_when_asked(run: Run, driver: list[GrabRequest], source: Path):
    outcome = run("grab", source, "--log")
    assert outcome.err == "a warning\n"
    assert "vadd, vsub" in outcome.out


def test_a_failed_build_is_one_line_and_then_the_whole_log(run: Run, driver: list[GrabRequest], source: Path):
    outcome = run("grab", source, "--build-flags=fail")
    assert outcome.code == 2
    assert outcome.err == f"symd: {source}: clBuildProgram failed\n{LOG}"


def test_a_missing_driver_is_exit_code_3(run: Run, driver: list[GrabRequest], source: Path):
    outcome = run("grab", source, "--build-flags=missing")
    assert outcome.code == 3
    assert "apt-get install libze1" in outcome.err


def test_without_debug_data_no_file_is_written(run: Run, driver: list[GrabRequest], source: Path, tmp_path: Path):
    output = tmp_path / "out.dbg"
    outcome = run("grab", source, "--build-flags=empty", "-o", output)
    assert (outcome.code, output.exists()) == (1, False)


def test_an_output_that_cannot_be_written_is_one_line(run: Run, driver: list[GrabRequest], source: Path):
    outcome = run("grab", source, "-o", source / "below")
    assert (outcome.code, outcome.err.count("\n")) == (3, 1)
