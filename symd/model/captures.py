"""What is seen of a running program's modules: builds, loads, unloads, failed builds, and modules that lie where
somebody left them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from symd.model.addresses import DeviceAddress


class CaptureApi(Enum):
    """The interface through which a program builds and loads modules."""

    LEVEL_ZERO = "level-zero"
    OPENCL = "opencl"
    CUDA = "cuda"
    HIP = "hip"
    TRITON = "triton"


class CaptureWay(Enum):
    """How symd saw it."""

    PRELOAD = "preload"
    WRAPPER_DRIVER = "wrapper-driver"
    OPENCL_LAYER = "opencl-layer"
    LISTENER = "listener"
    FOLDER = "folder"
    ATTACH = "attach"


class ModuleForm(Enum):
    """What the bytes of a captured module are."""

    DEBUG_DATA = "debug-data"
    """What the driver gives as debug data (zetModuleGetDebugInfo, CL_PROGRAM_DEBUG_INFO_INTEL)."""
    NATIVE_BINARY = "native-binary"
    """The module's own binary, which may carry debug data."""
    INPUT = "input"
    """What the program gave to the driver (SPIR-V, a code object, a fat binary)."""


@dataclass(frozen=True, slots=True)
class CapturedProcess:
    """A process, told apart from a later one with the same number by ``start_time``: field 22 of /proc/PID/stat
    (proc(5)), clock ticks since boot, and by ``boot``: /proc/sys/kernel/random/boot_id, for times and numbers begin
    anew then. ``command`` is its command line, words apart."""

    host: str
    process: int
    start_time: int
    command: tuple[str, ...] = ()
    boot: str = ""


@dataclass(frozen=True, slots=True)
class ModuleLoaded:
    """A module was built or loaded. ``handle`` is the driver's, unique in the process until the unload; ``time`` is
    nanoseconds of CLOCK_BOOTTIME. ``addresses`` are the device addresses of its kernels by name, where the driver says
    them; ``load_base`` is that of the whole module. ``build_log`` is what the driver said."""

    process: CapturedProcess
    api: CaptureApi
    way: CaptureWay
    handle: int
    time: int
    form: ModuleForm
    data: bytes = field(repr=False)
    device: str = ""
    kernels: tuple[str, ...] = ()
    addresses: Mapping[str, DeviceAddress] = field(default_factory=dict)
    load_base: int | None = None
    build_log: str = ""


@dataclass(frozen=True, slots=True)
class ModuleFound:
    """A module was seen where nobody says that it is loaded: compiled just now, in a compiler's cache or a folder of
    dumps, in a process's files or memory. ``source`` is where: a path, a code object URI, a name that the compiler has
    for it. ``process`` and ``api`` are None where nobody knows."""

    way: CaptureWay
    time: int
    form: ModuleForm
    data: bytes = field(repr=False)
    source: str
    api: CaptureApi | None = None
    process: CapturedProcess | None = None
    device: str = ""
    kernels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModuleUnloaded:
    """The module with ``handle`` went at ``time``."""

    process: CapturedProcess
    api: CaptureApi
    handle: int
    time: int


@dataclass(frozen=True, slots=True)
class FailedBuild:
    """The driver refused to build; ``code`` is its result, ``build_log`` its words."""

    process: CapturedProcess
    api: CaptureApi
    way: CaptureWay
    time: int
    code: int
    build_log: str = ""
    device: str = ""


@dataclass(frozen=True, slots=True)
class ProcessEnded:
    """The process ended or became another program (execve): what it had loaded is gone."""

    process: CapturedProcess
    time: int


CaptureEvent = ModuleLoaded | ModuleFound | ModuleUnloaded | FailedBuild | ProcessEnded
