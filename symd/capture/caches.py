"""Where compilers and drivers keep what they built, by what they themselves read in the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from symd.model.captures import CaptureApi


@dataclass(frozen=True, slots=True)
class CompilerCache:
    """A folder that a compiler or driver fills. ``api`` is None where several share it."""

    name: str
    folder: Path
    api: CaptureApi | None


def compiler_caches(environment: Mapping[str, str], directory: Path = Path()) -> Iterator[CompilerCache]:
    """The caches of a process with this environment and working directory, whether they are there or not. Sources: FAQ.md of Intel's compute runtime (NEO_CACHE_DIR,
    cl_cache_dir and l0_cache_dir of older ones), ``triton.knobs``, the CUDA C++ programming guide (CUDA_CACHE_PATH), the README of amd_comgr
    (AMD_COMGR_CACHE_DIR), DPC++'s EnvironmentVariables.md (SYCL_CACHE_DIR)."""
    home = directory / environment.get("HOME", "/")
    cache = directory / (environment.get("XDG_CACHE_HOME") or home / ".cache")

    def chosen(names: tuple[str, ...], otherwise: Path) -> Path:
        return next((directory / environment[name] for name in names if environment.get(name)), otherwise)

    neo = cache / "neo_compiler_cache"
    triton = directory / (environment.get("TRITON_HOME") or home) / ".triton"
    yield CompilerCache("Intel's OpenCL driver", chosen(("NEO_CACHE_DIR", "cl_cache_dir"), neo), CaptureApi.OPENCL)
    yield CompilerCache(
        "Intel's Level Zero driver", chosen(("NEO_CACHE_DIR", "l0_cache_dir"), neo), CaptureApi.LEVEL_ZERO
    )
    yield CompilerCache("SYCL", chosen(("SYCL_CACHE_DIR",), cache / "libsycl_cache"), None)
    yield CompilerCache("Triton", chosen(("TRITON_CACHE_DIR",), triton / "cache"), CaptureApi.TRITON)
    yield CompilerCache("Triton's dumps", chosen(("TRITON_DUMP_DIR",), triton / "dump"), CaptureApi.TRITON)
    yield CompilerCache("CUDA", chosen(("CUDA_CACHE_PATH",), home / ".nv" / "ComputeCache"), CaptureApi.CUDA)
    yield CompilerCache("HIP", chosen(("AMD_COMGR_CACHE_DIR",), cache / "comgr"), CaptureApi.HIP)
