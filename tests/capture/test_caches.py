"""Where compilers' caches are, by the environment that the compilers read themselves."""

from __future__ import annotations

from pathlib import Path

import pytest

from symd.capture.folder import compiler_caches
from symd.model.captures import CaptureApi


def folders(**environment: str) -> dict[str, str]:
    return {cache.name: str(cache.folder) for cache in compiler_caches(environment)}


def test_without_any_choice_they_are_below_the_home_folder() -> None:
    assert folders(HOME="/home/me") == {
        "Intel's OpenCL driver": "/home/me/.cache/neo_compiler_cache",
        "Intel's Level Zero driver": "/home/me/.cache/neo_compiler_cache",
        "SYCL": "/home/me/.cache/libsycl_cache",
        "Triton": "/home/me/.triton/cache",
        "Triton's dumps": "/home/me/.triton/dump",
        "CUDA": "/home/me/.nv/ComputeCache",
        "HIP": "/home/me/.cache/comgr",
    }


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("Intel's OpenCL driver", "NEO_CACHE_DIR"),
        ("Intel's Level Zero driver", "NEO_CACHE_DIR"),
        ("Intel's OpenCL driver", "cl_cache_dir"),
        ("Intel's Level Zero driver", "l0_cache_dir"),
        ("SYCL", "SYCL_CACHE_DIR"),
        ("Triton", "TRITON_CACHE_DIR"),
        ("Triton's dumps", "TRITON_DUMP_DIR"),
        ("CUDA", "CUDA_CACHE_PATH"),
        ("HIP", "AMD_COMGR_CACHE_DIR"),
    ],
)
def test_a_variable_says_another_folder(name: str, variable: str) -> None:
    assert folders(HOME="/home/me", **{variable: "/chosen"})[name] == "/chosen"
    assert folders(HOME="/home/me", **{variable: ""})[name].startswith("/home/me/")


def test_folders_for_all_caches_and_of_triton_move_together() -> None:
    found = folders(HOME="/home/me", XDG_CACHE_HOME="/fast", TRITON_HOME="/work")
    assert found["HIP"] == "/fast/comgr"
    assert found["Triton"] == "/work/.triton/cache"
    assert {cache.api for cache in compiler_caches({})} == {None, *CaptureApi}
    assert all(cache.folder.is_absolute() for cache in compiler_caches({}))


def test_what_is_relative_is_so_to_the_working_directory_of_the_process() -> None:
    chosen = {"HOME": "home", "TRITON_CACHE_DIR": "cache", "XDG_CACHE_HOME": "fast", "CUDA_CACHE_PATH": "/absolute"}
    found = {cache.name: str(cache.folder) for cache in compiler_caches(chosen, Path("/work"))}
    assert found["Triton"] == "/work/cache"
    assert found["HIP"] == "/work/fast/comgr"
    assert found["Triton's dumps"] == "/work/home/.triton/dump"
    assert found["CUDA"] == "/absolute"
