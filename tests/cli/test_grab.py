"""symd grab, with a made-up driver; real ones are grabbed from in tests/live."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

import pytest

from symd.capture.drivers import Confinement
from symd.cli.grab import sniff
from symd.config import Limits
from symd.errors import BuildFailed, DriverMissing, UnknownFormat
from symd.model.grabs import Grabbed, GrabRequest
from tests.cli.conftest import ROOT, Run

LOG = "1:1: error: no\nsource line\n   ^\n"


class Asked(list[GrabRequest]):
    """Requests that reached the driver, and the folders that the last one came with."""

    folders: Mapping[str, str] = {}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Requests that reached the driver; one whose flags hold "fail" is not built."""
    requests = Asked()

    def grab(request: GrabRequest, limits: Limits, drivers: Mapping[str, str], confinement: Confinement) -> Grabbed:
        assert confinement is Confinement.NONE, "the user's own files"
        requests.append(request)
        requests.folders = drivers
        if "fail" in request.build_flags:
            raise BuildFailed("clBuildProgram failed", build_log=LOG, where=request.label)
        if "missing" in request.build_flags:
            raise DriverMissing("libze_loader.so.1 is not installed", hint="apt-get install libze1")
        debug = b"" if "empty" in request.build_flags else b"debug"
        kernels = () if "bare" in request.build_flags else ("vadd", "vsub")
        return Grabbed(debug, b"native", kernels, "a warning\n", "Driver 1", "Device A")

    monkeypatch.setattr("symd.cli.grab.grab", grab)
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
        "--driver=newer",
        "--timeout=7",
    ]
    assert run("grab", source, *options).code == 0
    data = source.read_bytes()
    assert driver == [GrabRequest("opencl", "source", data, "-g -O0", 2, "dg2", "newer", 7.0, str(source), str(source))]


@pytest.mark.parametrize(
    ("options", "name", "folders"),
    [
        ([], "", {"newer": "/opt/newer"}),
        (["--driver=newer"], "newer", {"newer": "/opt/newer"}),
        (["--driver-root=/opt/d"], "/opt/d", {"/opt/d": "/opt/d"}),
    ],
)
def test_drivers_are_known_by_name_or_are_a_folder_of_the_user_s(
    run: Run, driver: Asked, source: Path, monkeypatch: pytest.MonkeyPatch, options, name: str, folders
):
    monkeypatch.setenv("SYMD_DRIVERS", "newer=/opt/newer")
    assert run("grab", source, *options).code == 0
    assert driver[0].driver == name
    assert driver.folders == folders


def test_a_name_that_is_not_configured_is_an_error_that_lists_those_that_are(
    run: Run, source: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SYMD_DRIVERS", "newer=/opt/newer:other=/opt/other")
    outcome = run("grab", source, "--driver=new")
    assert (outcome.code, outcome.out) == (2, "")
    assert "there is no driver 'new' (one of newer, other;" in outcome.err


@pytest.mark.parametrize("value", ["newer", "=/opt", "newer=", " newer=/opt"])
def test_a_setting_that_names_no_folder_is_wrong(run: Run, source: Path, monkeypatch: pytest.MonkeyPatch, value: str):
    monkeypatch.setenv("SYMD_DRIVERS", value)
    outcome = run("grab", source)
    assert (outcome.code, "SYMD_DRIVERS" in outcome.err, outcome.err.count("\n")) == (2, True, 1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--driver-root=/opt/d", "--server=unix:/nowhere"], "--driver NAME"),
        (["--driver-root=/opt/d", "--driver=newer"], "cannot be used together"),
    ],
)
def test_a_folder_is_neither_for_a_daemon_nor_beside_a_name(run: Run, source: Path, options: list[str], said: str):
    """No daemon loads libraries from where a client says."""
    outcome = run("grab", source, *options)
    assert (outcome.code, outcome.out) == (2, "")
    assert said in outcome.err


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


@pytest.mark.parametrize("data", [b"\xff\xfe", b"text with\0zero"])
def test_other_bytes_are_no_source(data: bytes):
    with pytest.raises(UnknownFormat, match="--kind"):
        sniff(data, "input")


def test_an_empty_file_is_called_empty(run: Run, tmp_path: Path):
    (tmp_path / "empty.spv").touch()
    outcome = run("grab", tmp_path / "empty.spv")
    assert (outcome.code, "the file is empty" in outcome.err) == (2, True)


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


def test_an_old_output_stays_when_the_new_one_cannot_be_written(
    run: Run, driver: list[GrabRequest], source: Path, monkeypatch
):
    output = source.with_name("out.dbg")
    output.write_bytes(b"old")

    def refuse(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", refuse)
    outcome = run("grab", source, "-o", output)
    assert (outcome.code, "no space left on device" in outcome.err, output.read_bytes()) == (3, True, b"old")
    assert sorted(path.name for path in source.parent.iterdir()) == ["out.dbg", "vadd.cl"]


DOUBLE = ROOT / "samples" / "spirv" / "bin" / "arguments.O2.ocl-100.spv"
"""A kernel with a double argument: the text forbids that, drivers take it where the device has 64-bit floats."""
NEWER = ROOT / "samples" / "kernels" / "bin" / "raycast" / "opt.spv"
"""SPIR-V 1.4, which llvm-spirv chose."""


def test_spirv_is_checked_first_and_the_driver_is_asked_all_the_same(
    run: Run, driver: list[GrabRequest], tmp_path: Path
):
    assert run("grab", NEWER).err == ""
    path = tmp_path / "newer.spv"
    path.write_bytes(NEWER.read_bytes()[:4] + b"\0\5\1\0" + NEWER.read_bytes()[8:])
    outcome = run("grab", path)
    assert (outcome.code, len(driver)) == (0, 2)
    assert outcome.err == (
        f"symd: warning: {path}: 0x0: error: the module is SPIR-V 1.5, the device takes up to 1.4 (spirv-version)\n"
    )


def test_the_check_can_be_left_out(run: Run, driver: list[GrabRequest]):
    outcome = run("grab", NEWER, "--no-check")
    assert (outcome.code, outcome.err, len(driver)) == (0, "", 1)


def test_what_drivers_take_is_not_warned_of(run: Run, driver: list[GrabRequest]):
    assert "double" not in run("grab", DOUBLE, "--simulate", "skl").err


@pytest.mark.parametrize(("product", "warned"), [("dg2", True), ("tgllp", True), ("skl", False), ("pvc", False)])
def test_the_device_that_is_simulated_is_the_one_that_is_checked_for(
    run: Run, driver: list[GrabRequest], product: str, warned: bool
):
    """dg2 and tgllp have no 64-bit floats: their compiler ends with "Double type is not supported on this platform"."""
    assert ("Float64" in run("grab", DOUBLE, "--simulate", product).err) == warned


def test_a_module_with_many_faults_does_not_fill_the_screen(run: Run, driver: list[GrabRequest], monkeypatch):
    path = ROOT / "samples" / "spirv" / "bin" / "waves.gVS.spv"
    every = run("grab", path).err.splitlines()
    monkeypatch.setattr("symd.cli.grab.PRINTED_WARNINGS", 3)
    outcome = run("grab", path)
    assert outcome.code == 0
    more = f"symd: warning: {path}: {len(every) - 3} more (symd check shows them)"
    assert outcome.err.splitlines() == [*every[:3], more]
    assert len(every) > 4


def test_damaged_spirv_is_warned_of_and_goes_to_the_driver(run: Run, driver: list[GrabRequest], tmp_path: Path):
    (tmp_path / "x.spv").write_bytes(NEWER.read_bytes()[:999])
    outcome = run("grab", tmp_path / "x.spv", "--json")
    assert (outcome.code, len(driver), len(outcome.json)) == (0, 1, 1)
    assert "(header)" in outcome.err


def test_a_source_file_has_its_name_in_debug_data(run: Run, driver: list[GrabRequest], source: Path, monkeypatch):
    monkeypatch.chdir(source.parent)
    assert run("grab", source.name).code == 0
    assert (driver[0].source_name, driver[0].build_flags) == (str(source), "-g")


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ([], "-g"),
        (["--build-flags=-cl-opt-disable"], "-g -cl-opt-disable"),
        (["--build-flags=-cl-fast-relaxed-math -g"], "-cl-fast-relaxed-math -g"),
        (["--build-flags=-gline-tables-only"], "-gline-tables-only"),
        (["--build-flags=-DX=-g"], "-g -DX=-g"),
        (["--no-debug"], ""),
        (["--no-debug", "--build-flags=-O0"], "-O0"),
    ],
)
def test_debug_data_is_asked_for_unless_told_otherwise(
    run: Run, driver: list[GrabRequest], source: Path, options: list[str], flags: str
):
    assert run("grab", source, *options).code == 0
    assert driver[0].build_flags == flags


def test_a_program_without_kernels_is_not_told_to_build_with_debug_data(
    run: Run, driver: list[GrabRequest], source: Path, tmp_path: Path
):
    outcome = run("grab", source, "--build-flags=empty bare", "-o", tmp_path / "out.dbg")
    assert (outcome.code, "it has no kernels" in outcome.err, " -g" in outcome.err) == (1, True, False)


@pytest.mark.live
def test_debug_data_of_a_source_file_names_the_file(run: Run, tmp_path: Path):
    """With the real OpenCL driver; blanks and characters beyond ASCII in the path included."""
    path = tmp_path / "größe und mehr" / "vadd.cl"
    path.parent.mkdir()
    path.write_bytes((ROOT / "samples" / "kernels" / "vadd.cl").read_bytes())
    assert run("grab", path, "--simulate", "dg2", "-o", tmp_path / "out.dbg").code == 0
    rows = run("lines", "--json", tmp_path / "out.dbg").json
    assert {row["file"] for row in rows} == {str(path)}


@pytest.mark.live
def test_the_real_driver_chokes_on_what_was_warned_of(run: Run):
    outcome = run("grab", DOUBLE, "--simulate", "dg2")
    lines = outcome.err.splitlines()
    assert outcome.code == 2
    assert any("warning" in line and "Float64" in line for line in lines)
    assert "error: Double type is not supported on this platform." in lines


@pytest.mark.parametrize(
    ("name", "carried"),
    [('a"b $x.cl', "a_b $x.cl"), ("back\\slash.cl", "back_slash.cl"), ("tab\t.cl", "tab_.cl"), ("\udce9.cl", "_.cl")],
)
def test_a_name_that_the_compiler_cannot_be_told_is_said(
    run: Run, driver: list[GrabRequest], source: Path, name: str, carried: str
):
    odd = source.with_name(name)
    odd.write_text(source.read_text())
    outcome = run("grab", odd)
    assert driver[0].source_name == str(source.with_name(carried))
    assert f"cannot be told this name: the debug data says {source.with_name(carried)}" in outcome.err
    for options in (["--no-debug"], ["--build-flags=-g -s mine.cl"]):
        assert "cannot be told" not in run("grab", odd, *options).err
    assert "cannot be told" not in run("grab", source).err


@pytest.mark.live
@pytest.mark.parametrize("by_daemon", [False, True], ids=["here", "daemon"])
@pytest.mark.parametrize("main", ["k.cl", "-", "-s other.cl"])
def test_names_of_line_directives_count_from_the_working_folder(
    request: pytest.FixtureRequest,
    symd: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    by_daemon: bool,
    main: str,
):
    """As ocloc, the same compiler without symd, has them: there is one file of each name."""
    where = ["--server", request.getfixturevalue("server")] if by_daemon else []
    text = (
        "kernel void k(global int *o) {\n  int g = get_global_id(0);\n"
        '#line 30 "gen/part.h"\n  o[g] += 3;\n#line 6 "k.cl"\n  o[g + 1] = g * 7;\n}\n'
    )
    (tmp_path / "k.cl").write_text(text)
    monkeypatch.chdir(tmp_path)
    given = "-" if main == "-" else "k.cl"
    flags = [f"--build-flags=-g {main}"] if main.startswith("-s") else []
    grabbed = symd("grab", "--simulate", "tgllp", given, "-o", "out.dbg", *where, *flags, stdin=text.encode())
    assert grabbed.code == 0, grabbed.err
    rows = symd("lines", "--json", tmp_path / "out.dbg").json
    name = {"-": "standard input", "-s other.cl": "other.cl"}.get(main, main)
    assert {row["file"] for row in rows} == {str(tmp_path / each) for each in ("gen/part.h", "k.cl", name)}
