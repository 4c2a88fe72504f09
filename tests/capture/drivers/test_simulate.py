"""The environment of a simulated device, and the launch of drivers that live in a folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symd.capture.drivers import NEWER_PRODUCTS, PRODUCTS, simulate
from symd.capture.drivers.apis import LEVEL_ZERO_API, OPENCL_API
from symd.errors import DriverMissing, InvalidInput


def test_hardware_gets_no_simulation_keys() -> None:
    environment = simulate.environment({"HOME": "/h"}, None, None)
    assert environment["HOME"] == "/h"
    assert not {"NEOReadDebugKeys", "ProductFamilyOverride", "SetCommandStreamReceiver"} & set(environment)


def test_a_product_gets_the_keys_that_both_generations_need() -> None:
    environment = simulate.environment({}, "pvc", None)
    wanted = {
        "NEOReadDebugKeys": "1",
        "SetCommandStreamReceiver": "1",
        "ProductFamilyOverride": "pvc",
        "HardwareInfoOverride": "8x8x8",
        "AUBDumpCaptureFileName": "/dev/null",
        "UseAubStream": "0",
        "UseBindlessMode": "0",
        "NEO_CACHE_PERSISTENT": "0",
    }
    assert wanted.items() <= environment.items()


def test_caches_that_lose_debug_data_are_not_passed_on() -> None:
    caches = {"cl_cache_dir": "/c", "l0_cache_dir": "/l", "NEO_CACHE_DIR": "/n", "ZET_ENABLE_METRICS": "1"}
    assert not set(caches) & set(simulate.environment(caches, None, None))


def test_a_driver_folder_names_its_own_drivers_and_loader(tmp_path: Path) -> None:
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (tmp_path / "usr/lib64").mkdir()
    for name in ("libze_loader.so.1", "../../lib64/ld-linux-x86-64.so.2"):
        (libraries / name).touch()
    base = {"LD_PRELOAD": "/x.so", "LD_LIBRARY_PATH": "/y"}
    environment = simulate.environment(base, "bmg", str(tmp_path))
    assert environment["ZE_ENABLE_ALT_DRIVERS"] == f"{libraries}/libze_intel_gpu.so.1"
    assert environment["OCL_ICD_VENDORS"] == f"{libraries}/intel-opencl/libigdrcl.so"
    assert not {"LD_PRELOAD", "LD_LIBRARY_PATH"} & set(environment), "they are for the system's C library"
    loader, option, path = simulate.launcher(LEVEL_ZERO_API, str(tmp_path))
    assert loader == f"{tmp_path}/usr/lib64/ld-linux-x86-64.so.2"
    assert option == "--library-path"
    assert path.split(":")[0] == str(libraries)
    with pytest.raises(DriverMissing, match=r"no usr/lib/x86_64-linux-gnu/libOpenCL\.so\.1"):
        simulate.launcher(OPENCL_API, str(tmp_path))


def test_the_system_s_drivers_need_no_launcher() -> None:
    assert simulate.launcher(LEVEL_ZERO_API, None) == []


@pytest.mark.parametrize(
    ("driver", "products"),
    [
        ("Level Zero driver 1.3.24595", PRODUCTS),
        ("Intel(R) OpenCL HD Graphics 22.43.24595", PRODUCTS),
        ("Level Zero driver 1.3.39122", NEWER_PRODUCTS),
        ("Intel(R) OpenCL Graphics 26.27.039122", NEWER_PRODUCTS),
    ],
)
def test_a_driver_s_version_tells_what_it_simulates(driver: str, products: tuple[str, ...]) -> None:
    assert simulate.products_of(driver) == products


def test_a_product_of_the_other_generation_is_refused_before_a_wrong_device_answers() -> None:
    with pytest.raises(InvalidInput, match="'bmg'") as caught:
        simulate.check_driver("bmg", "Level Zero driver 1.3.24595")
    assert "skl, tgllp, dg2, pvc" in caught.value.hint
    simulate.check_driver("bmg", "Level Zero driver 1.3.39122")


def test_a_product_that_none_simulates_is_told_which_driver_simulates_which() -> None:
    with pytest.raises(InvalidInput, match="'foo'") as caught:
        simulate.check_product("foo", None)
    every, older, newer = caught.value.hint.split("; ")
    assert every == "every driver simulates tgllp, dg2, pvc"
    assert re.search(r"less than 31000, as [\d.]+, also skl$", older)
    assert newer == "a newer one also bmg, ptl, lnl, mtl, dg1, adl-s"


def test_a_folder_with_the_newer_compiler_refuses_an_old_product(tmp_path: Path) -> None:
    simulate.check_product("skl", str(tmp_path))
    libraries = tmp_path / "usr/lib/x86_64-linux-gnu"
    libraries.mkdir(parents=True)
    (libraries / "libigc.so.2").touch()
    with pytest.raises(InvalidInput, match="'skl'"):
        simulate.check_product("skl", str(tmp_path))
