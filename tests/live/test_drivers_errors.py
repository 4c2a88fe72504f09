"""What real drivers refuse becomes one clear error."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from symd import errors
from symd.capture.drivers import NEWER_PRODUCTS, PRODUCTS, grab
from symd.config import Limits
from symd.model.grabs import GrabRequest
from tests.live.conftest import DRIVERS, Target, demand, reports

KERNEL = "kernel void alone(global int *a) { a[get_global_id(0)] *= 7; }\n"
DOUBLES = "kernel void doubled(global double *a) { a[get_global_id(0)] *= 2.0; }\n"
UNRESOLVED = "float absent(float x);\nkernel void lonely(global float *a) { a[0] = absent(a[1]); }\n"

Writer = Callable[[str, str], Path]


def test_a_source_with_an_error_shows_the_compiler_s_own_text(target: Target) -> None:
    demand(target, "opencl")
    with pytest.raises(errors.BuildFailed, match="CL_BUILD_PROGRAM_FAILURE") as caught:
        target.grab("opencl", "source", b"kernel void k(global int *a) { a[0] = nope; }", label="bad.cl")
    assert "use of undeclared identifier 'nope'" in caught.value.build_log
    assert caught.value.where == "bad.cl"


def test_spirv_that_the_compiler_refuses_shows_the_build_log(
    target: Target, api: str, tmp_path: Path, write: Writer
) -> None:
    if target.product not in ("tgllp", "dg2"):
        pytest.skip(f"{target.product} has double precision")
    spirv = target.compile(write("doubles.cl", DOUBLES), tmp_path, product="pvc").spirv
    with pytest.raises(errors.BuildFailed, match=r"ZE_RESULT_ERROR_MODULE_BUILD_FAILURE|CL_BUILD_PROGRAM") as caught:
        target.grab(api, "spirv", spirv)
    assert "Double type is not supported on this platform" in caught.value.build_log


def test_an_unresolved_function_is_in_the_build_log(target: Target, api: str, tmp_path: Path, write: Writer) -> None:
    """Level Zero builds such a module and would link it later; OpenCL refuses it."""
    path, out = write("unresolved.cl", UNRESOLVED), tmp_path / "out"
    out.mkdir()
    spirv = target.compile(path, out).spirv
    if api == "level-zero":
        assert "absent" in target.grab(api, "spirv", spirv).build_log
        return
    with pytest.raises(errors.BuildFailed) as caught:
        target.grab(api, "spirv", spirv)
    assert "unresolved external symbol absent" in caught.value.build_log


def test_spirv_that_is_cut_off_never_takes_the_caller_down(
    target: Target, api: str, tmp_path: Path, write: Writer
) -> None:
    """Some of these end the driver's process, some build to nothing, some are refused with a code."""
    spirv = target.compile(write("one.cl", KERNEL), tmp_path).spirv
    for length in range(20, len(spirv), len(spirv) // 6 // 4 * 4):
        with suppress(errors.InvalidInput, errors.DriverFailed):
            assert not target.grab(api, "spirv", spirv[:length]).kernels or length > len(spirv) // 2


def test_a_native_binary_that_is_none_is_refused(target: Target, api: str) -> None:
    refused = r"INVALID_NATIVE_BINARY|MODULE_BUILD_FAILURE|CL_INVALID_BINARY"
    with pytest.raises(errors.InvalidInput, match=refused):
        target.grab(api, "native", b"\x7fELF" + bytes(400))


def test_flags_that_opencl_does_not_know_are_named(target: Target) -> None:
    demand(target, "opencl")
    with pytest.raises(errors.BuildFailed) as caught:
        target.grab("opencl", "source", KERNEL.encode(), "-no-such-flag")
    assert "-no-such-flag" in caught.value.build_log


def test_a_device_that_is_not_there_is_refused_with_those_that_are(target: Target, api: str) -> None:
    kind, data = ("source", KERNEL.encode()) if api == "opencl" else ("native", b"x")
    with pytest.raises(errors.InvalidInput, match="no device 5") as caught:
        target.grab(api, kind, data, device=5)
    assert "0 Intel" in caught.value.hint


def test_a_product_that_nobody_simulates_is_refused(target: Target, api: str) -> None:
    request = GrabRequest(api, "native", b"x", simulate="gfx1100", driver=target.driver)
    with pytest.raises(errors.InvalidInput, match="gfx1100"):
        grab(request, Limits(), DRIVERS)


def test_a_product_of_the_other_generation_is_refused(target: Target, api: str) -> None:
    other = "bmg" if target.root is None else "skl"
    with pytest.raises(errors.InvalidInput, match=other):
        grab(GrabRequest(api, "native", b"x", simulate=other, driver=target.driver), Limits(), DRIVERS)


def test_a_driver_that_gets_too_little_time_is_ended(target: Target, api: str) -> None:
    with pytest.raises(errors.DriverTimeout, match=r"0\.001 seconds and was ended in"):
        target.grab(api, "native", b"x", timeout=0.001)


def test_a_driver_that_gets_too_little_memory_is_an_error_and_not_a_hang(target: Target, api: str) -> None:
    request = GrabRequest(api, "native", b"x", simulate=target.product, driver=target.driver)
    with pytest.raises((errors.DriverFailed, errors.DriverMissing, errors.LimitExceeded)):
        grab(request, Limits(driver_memory=24 << 20), DRIVERS)


def test_the_survey_finds_every_product(target: Target, api: str) -> None:
    found = {report.simulate: report for report in reports(target.root) if report.api == api}
    products = PRODUCTS if target.root is None else NEWER_PRODUCTS
    assert set(found) == {None, *products}
    for product in products:
        assert found[product].problem == ""
        assert "Intel" in found[product].devices[0]
        assert any(char.isdigit() for char in found[product].driver)
