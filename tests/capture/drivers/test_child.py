"""The real child with loader libraries that misbehave: C sources of a few lines, compiled here."""

from __future__ import annotations

import subprocess
import sys
from ctypes import c_int
from enum import IntEnum
from pathlib import Path

import pytest

from symd import errors
from symd.capture.drivers import Confinement, grab, runner, survey
from symd.capture.drivers.apis import APIS, Api, DriverRequest, Loader
from symd.config import Limits
from symd.model.grabs import GrabRequest
from tests.capture.drivers.conftest import SPIRV


@pytest.mark.parametrize(("api", "soname"), [("level-zero", "libze_loader.so.1"), ("opencl", "libOpenCL.so.1")])
def test_a_loader_that_does_not_load_says_what_to_install(folder: Path, api: str, soname: str) -> None:
    with pytest.raises(errors.DriverMissing, match=rf"m\.spv: {soname} cannot be loaded") as caught:
        grab(GrabRequest(api, "spirv", SPIRV, driver="made", label="m.spv"), Limits(), {"made": str(folder)})
    assert "apt-get install intel-opencl-icd" in caught.value.hint


def test_an_abort_inside_the_first_call_names_that_call(level_zero) -> None:
    with pytest.raises(errors.DriverCrashed, match=r"Level Zero driver died of SIGABRT in zeInit.*no aub stream"):
        level_zero('int zeInit(int f) { fprintf(stderr, "no aub stream\\n"); abort(); }')


def test_a_segmentation_fault_names_the_call_that_it_happened_in(level_zero) -> None:
    with pytest.raises(errors.DriverCrashed, match="SIGSEGV in zeDriverGet"):
        level_zero("int zeInit(int f) { return 0; } int zeDriverGet() { return *(volatile int *)0; }")


def test_a_hang_names_the_call_that_did_not_return(level_zero, tmp_path: Path, time_is_up_with) -> None:
    time_is_up_with(tmp_path / "hangs")
    hangs = f'fclose(fopen("{tmp_path / "hangs"}", "w")); for (;;) pause();'
    with pytest.raises(errors.DriverTimeout, match="in zeDriverGet"):
        level_zero(
            f"int zeInit(int f) {{ return 0; }} int zeDriverGet() {{ {hangs} }}",
            timeout=0.5,
            confinement=Confinement.NONE,
        )


def test_nothing_is_called_after_a_failed_init(level_zero) -> None:
    with pytest.raises(errors.DriverMissing, match=r"zeInit failed: ZE_RESULT_ERROR_UNINITIALIZED \(0x78000001\)"):
        level_zero("int zeInit(int f) { return 0x78000001; } int zeDriverGet() { abort(); }")


def test_another_failure_has_its_name(level_zero) -> None:
    with pytest.raises(errors.DriverFailed, match=r"zeInit failed: ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE") as caught:
        level_zero("int zeInit(int f) { return 0x70020000; }")
    assert type(caught.value) is errors.DriverFailed


def test_a_code_that_has_no_name_is_shown_by_number(level_zero) -> None:
    with pytest.raises(errors.DriverFailed, match="0x7abcdef0"):
        level_zero("int zeInit(int f) { return 0x7abcdef0; }")


def test_a_loader_without_a_driver_is_no_answer(level_zero) -> None:
    with pytest.raises(errors.DriverMissing, match="no Level Zero driver has a device"):
        level_zero("int zeInit(int f) { return 0; } int zeDriverGet(int *n, void *p) { *n = 0; return 0; }")


def test_a_loader_without_a_function_is_called_too_old(level_zero) -> None:
    with pytest.raises(errors.DriverMissing, match="too old: it has no zeDriverGet"):
        level_zero("int zeInit(int f) { return 0; }")


def test_a_driver_that_leaves_says_with_which_status(level_zero) -> None:
    with pytest.raises(errors.DriverFailed, match="status 7 and no answer in zeInit"):
        level_zero("int zeInit(int f) { exit(7); }")


def test_memory_beyond_the_limit_is_refused_to_the_driver(level_zero) -> None:
    """malloc fails inside the driver, which then aborts as a C++ driver does on std::bad_alloc."""
    source = "int zeInit(int f) { if (!malloc(1ul << 30)) abort(); return 0x70020000; }"
    with pytest.raises(errors.DriverCrashed, match="SIGABRT in zeInit") as caught:
        level_zero(source, limits=Limits(driver_memory=512 << 20))
    assert "driver_memory" in caught.value.hint
    with pytest.raises(errors.DriverFailed, match="DEPENDENCY_UNAVAILABLE"):
        level_zero(source)


def test_memory_beyond_the_limit_on_our_side_names_the_limit(level_zero) -> None:
    source = "int zeInit(int f) { return 0; } int zeDriverGet(int *n, void *p) { *n = 1 << 28; return 0; }"
    with pytest.raises(errors.LimitExceeded, match=r"m\.spv: .*536870912 bytes") as caught:
        level_zero(source, limits=Limits(driver_memory=512 << 20))
    assert "driver_memory" in str(caught.value)


def test_the_child_loads_neither_numpy_nor_grpc_nor_site_packages() -> None:
    request = DriverRequest("grab", APIS["opencl"], None, None, 5.0)
    *command, script, package = runner.child_command(request)
    probe = script.replace("main(int(sys.argv[2]))", "print([name for name in sys.modules if name[0] != '_'])")
    done = subprocess.run([*command, probe, package], check=True, capture_output=True, text=True)
    loaded = done.stdout
    assert "symd.capture.drivers.child" in loaded
    for name in ("numpy", "grpc", "symd.model", "symd.config", "'site'"):
        assert name not in loaded
    assert command[0] == sys.executable


def test_a_survey_of_nothing_says_what_to_install(folder: Path) -> None:
    reports = survey(str(folder))
    assert [(report.api, report.simulate) for report in reports] == [
        ("level-zero", None),
        ("level-zero", "dg2"),
        ("opencl", None),
        ("opencl", "dg2"),
    ]
    for report in reports:
        assert "cannot be loaded" in report.problem
        assert "apt-get install" in report.hint
        assert report.devices == ()


FIVE = IntEnum("FIVE", {"FIVE": 5})
LIBC = Api("test", "Test", "libc.so.6", (), "apt-get install libc6")


def test_a_call_is_announced_before_it_is_made() -> None:
    calls: list[str] = []
    loader = Loader(LIBC, FIVE, calls.append)
    assert loader.call("abs", c_int(-5)) == 5
    assert calls == ["dlopen libc.so.6", "abs"]
    with pytest.raises(errors.DriverFailed, match=r"abs failed: FIVE \(0x00000005\)"):
        loader.check("abs", c_int(-5))


def test_a_library_that_is_not_there_is_named() -> None:
    missing = Api("test", "Test", "libsymd-nothing.so.9", (), "apt-get install nothing")
    with pytest.raises(errors.DriverMissing, match=r"libsymd-nothing\.so\.9") as caught:
        Loader(missing, FIVE, lambda call: None)
    assert caught.value.hint == "apt-get install nothing"
