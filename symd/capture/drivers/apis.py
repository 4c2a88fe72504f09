"""The two driver interfaces: what they are called, which library opens them, which inputs they take, what to install."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final


@dataclass(frozen=True, slots=True)
class Api:
    """An interface of drivers that symd can grab from. ``name`` is the word in requests, ``title`` the one in
    sentences; ``kinds`` are the inputs it builds from."""

    name: str
    title: str
    soname: str
    kinds: tuple[str, ...]
    install: str


LEVEL_ZERO_API: Final = Api(
    "level-zero", "Level Zero", "libze_loader.so.1", ("spirv", "native"), "apt-get install intel-opencl-icd libze1"
)
OPENCL_API: Final = Api(
    "opencl",
    "OpenCL",
    "libOpenCL.so.1",
    ("source", "spirv", "native"),
    "apt-get install intel-opencl-icd ocl-icd-libopencl1",
)
APIS: Final[Mapping[str, Api]] = MappingProxyType({api.name: api for api in (LEVEL_ZERO_API, OPENCL_API)})
