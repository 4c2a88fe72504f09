"""The ways into a program that symd starts: which reach it, the environment that takes them there, and the libraries
that are loaded into it.

docs/capture-protocol.md says what each reaches. Variables that the user has set keep what they say; what is ours stands
behind it.

Libraries are built from ``native/`` on first use and kept in the user's cache, or found prebuilt beside the sources as
``native/NAME.so``. A built one is kept below a digest of everything that it is made of, so that another version of symd
has its own. A cache that another user could change is not used: what is there is run in this user's programs.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import secrets
import shutil
import stat
import struct
import tempfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from symd.capture.run_folder import RunFolder, let_in
from symd.config import native_cache
from symd.errors import FailedPrecondition, InvalidInput, StoreUnavailable, ToolMissing
from symd.model.captures import CaptureWay
from symd.system.messages import os_error_text
from symd.system.private_files import FILE_MODE, ensure_writable, folder_hint, make_folder, write_bytes
from symd.system.process.process import ProcessLimits
from symd.system.process.run import run_tool, tool_error
from symd.system.symlinks import changeable

_NATIVE: Final = Path(__file__).with_name("native")
_COMPILERS: Final = ("cc", "gcc", "clang")
_FLAGS: Final = (
    "-std=c11",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-pthread",
    "-Wl,-z,nodelete,-z,relro,-z,now",
)
_HINT: Final = "install one: apt-get install gcc libc6-dev"
_FULL: Final = tuple(os.strerror(each) for each in (errno.ENOSPC, errno.EDQUOT))
"""What compilers print where there is no room for what they write; ``run_tool`` has them speak the language of the C
locale, as Python does."""
COMPILE_SECONDS: Final = 60.0
"""Time that a compiler gets for one of the libraries that are loaded into captured programs."""
_MEMORY: Final = 2 << 30
"""Address space of that compiler's process."""
_ANSWER_BYTES: Final = 1 << 20

OPENCL_LAYER: Final = "opencl_layer"
LEVEL_ZERO_PRELOAD: Final = "level_zero_preload"
CUDA_PRELOAD: Final = "cuda_preload"
HIP_PRELOAD: Final = "hip_preload"
_LEVEL_ZERO_WRAPPER: Final = "level_zero_wrapper"


def library(name: str, instead: Path | None = None) -> Path:
    """The library ``OPENCL_LAYER``, ``LEVEL_ZERO_PRELOAD``, ``CUDA_PRELOAD`` or ``HIP_PRELOAD``, built below
    ``instead`` where the user's cache cannot be written, or others may change it.

    Raises ToolMissing where it is to be built and there is no compiler, ToolFailed where that refuses, StoreUnavailable
    where there is no room for it, FailedPrecondition where others may change the cache and there is no ``instead``.
    """
    prebuilt = _NATIVE / f"{name}.so"
    return prebuilt if prebuilt.exists() else _built(name, (), (), instead)


def wrapper_driver(driver: str, instead: Path | None = None) -> Path:
    """The wrapper of the Level Zero driver ``driver``, a library's name or its absolute path. ``instead``, and what it
    raises, as for ``library``."""
    needed = ("-Wl,--no-as-needed", "needed.so", "-Wl,--allow-shlib-undefined")
    return _built(_LEVEL_ZERO_WRAPPER, (f'-DDRIVER="{driver}"',), (driver, *needed), instead)


def _built(name: str, defines: Sequence[str], wrapped: Sequence[str], instead: Path | None) -> Path:
    made_of = [platform.machine(), *_FLAGS, *defines, *wrapped]
    digest = hashlib.sha256("\0".join(made_of).encode())
    for source in sorted((*_NATIVE.glob("*.c"), *_NATIVE.glob("*.h"))):
        digest.update(source.read_bytes())
    below = Path(digest.hexdigest()[:16], f"{name}.so")
    try:
        target = native_cache().absolute() / below
    except FailedPrecondition:
        if instead is None:
            raise
        target = instead / below
    else:
        stranger = _changeable(target.parent)
        if stranger is None and _usable(target):
            return target
        if instead is not None and (stranger is not None or not ensure_writable(target.parent)):
            target = instead / below
        elif stranger is not None:
            hint = "set XDG_CACHE_HOME to a folder that only you can change"
            raise FailedPrecondition("other users may change the libraries kept there", where=str(stranger), hint=hint)
    _build(target, name, defines, wrapped)
    return target


def _changeable(folder: Path) -> Path | None:
    """What lets other users change what is in ``folder``, or will be once it is made; None where nothing does."""
    try:
        return changeable(next(each for each in (folder, *folder.parents) if each.exists()))
    except OSError:
        return None  # it cannot be used either, and that is told with its reason


def _usable(target: Path) -> bool:
    """Whether it is there, and nobody else could have put it there or can change it, in a folder that nobody else can
    change: then it is the same file when it is opened by its path."""
    try:
        found = target.lstat()
    except OSError:
        return False
    mine = found.st_uid in {os.geteuid(), 0}
    return stat.S_ISREG(found.st_mode) and mine and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _build(target: Path, name: str, defines: Sequence[str], wrapped: Sequence[str]) -> None:
    compiler = _compiler()
    partial = target.with_name(f".{name}-{secrets.token_hex(8)}.so")
    try:
        make_folder(target.parent, parents=True, exist_ok=True)
        more: list[str] = [f"-I{_NATIVE}", *defines]
        if wrapped:
            driver, *rest = wrapped
            stub = partial.with_name(f"{partial.name}.needed.so")
            _compile([compiler, *_FLAGS, f"-Wl,-soname,{driver}", "-x", "c", os.devnull, "-o", str(stub)])
            more += [str(stub) if word == "needed.so" else word for word in rest]
        _compile([compiler, *_FLAGS, str(_NATIVE / f"{name}.c"), *more, "-o", str(partial)])
        partial.chmod(FILE_MODE)
        partial.rename(target)
    except OSError as error:
        raise StoreUnavailable(
            f"the library {name} cannot be kept: {os_error_text(error)}",
            where=str(target.parent),
            hint=folder_hint("XDG_CACHE_HOME", error),
        ) from error
    finally:
        for left in (partial, partial.with_name(f"{partial.name}.needed.so")):
            with contextlib.suppress(OSError):
                left.unlink()


def _compiler() -> str:
    """$CC, or the first of the usual names."""
    chosen = os.environ.get("CC", "").split()
    found = next(filter(None, map(shutil.which, (*chosen[:1], *_COMPILERS))), None)
    if found is None:
        raise ToolMissing("no C compiler is here, which builds the libraries that symd loads into programs", hint=_HINT)
    return found


def _compile(command: Sequence[str]) -> None:
    ended = run_tool(command, ProcessLimits(COMPILE_SECONDS, _MEMORY, _ANSWER_BYTES), hint=_HINT)
    if ended.ending.status != 0 or ended.ending.signal:
        if full := next((reason for reason in _FULL if reason in ended.printed), ""):
            raise StoreUnavailable(
                f"the libraries that symd loads into programs cannot be built: {full.lower()}",
                where=str(Path(command[-1]).parent),
                hint=f"free some space there and in {tempfile.gettempdir()}, or set XDG_CACHE_HOME and TMPDIR to folders with room",
            )
        raise tool_error(Path(command[0]).name, ended, _HINT)


WAYS: Final = (CaptureWay.OPENCL_LAYER, CaptureWay.PRELOAD, CaptureWay.WRAPPER_DRIVER, CaptureWay.LISTENER)
"""The ways into a program that are taken where the user names none."""
WITHOUT_COMPILER: Final = (CaptureWay.FOLDER, CaptureWay.LISTENER)
"""The ways into a program that need no library of C, and therefore no compiler."""
_HEAD_BYTES: Final = 1 << 16
_INTEL_DRIVER: Final = "libze_intel_gpu.so.1"
_OTHER_DRIVERS: Final = ("libze_intel_gpu_legacy1.so.1", "libze_intel_npu.so.1", "libze_intel_vpu.so.1")
"""Level Zero drivers that the loader finds by itself, and does not where it is told which."""
_LIBRARY_FOLDERS: Final = ("/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib")
_RUNTIMES: Final = (
    (CUDA_PRELOAD, ("/dev/nvidiactl", "/dev/dxg"), "libcuda.so"),
    (HIP_PRELOAD, ("/dev/kfd",), "libamdhip64.so"),
)
"""What is preloaded for a runtime, by devices and libraries that say that it may be used."""
_INJECTED: Final = Path(__file__).with_name("injected")
_PT_INTERP: Final = 3
_MODES: Final = stat.S_ISUID | stat.S_ISGID


@dataclass(frozen=True, slots=True)
class ProgramFile:
    """What of a program's file decides which ways reach it."""

    privileged: bool = False
    """Whether the program runs with more rights than its caller, as a setuid program does: no library is preloaded
    into it."""
    preloadable: bool = True
    """A 64-bit program of glibc's, or a script: another would print that it cannot preload the library."""


def program_file(command: str, environment: Mapping[str, str]) -> ProgramFile:
    """About the program that ``command`` starts; the usual where it cannot be read."""
    found = shutil.which(command, path=environment.get("PATH", os.defpath))
    try:
        path = Path(found or command)
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
        privileged = bool(path.stat().st_mode & _MODES)
    except OSError:
        return ProgramFile()
    return ProgramFile(privileged or _has_capabilities(path), _preloadable(head))


def _has_capabilities(path: Path) -> bool:
    """capabilities(7): a file may give some to whoever runs it."""
    try:
        return "security.capability" in os.listxattr(path)
    except OSError:
        return False


def _preloadable(head: bytes) -> bool:
    if not head.startswith(b"\x7fELF"):
        return True
    if head[4:5] != b"\x02":
        return False
    return b"musl" not in _interpreter(head)


def _interpreter(head: bytes) -> bytes:
    """The dynamic loader's path in the beginning of a 64-bit program; b"" where it names none there."""
    try:
        at, size, count = (*struct.unpack_from("<Q", head, 32), *struct.unpack_from("<HH", head, 54))
        for index in range(count):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", head, at + index * size)
            if kind == _PT_INTERP:
                return head[offset : offset + length]
    except struct.error:
        pass
    return b""


def chosen_ways(wanted: Collection[CaptureWay], program: ProgramFile) -> tuple[CaptureWay, ...]:
    """The ways among ``wanted`` that reach the program; among ``WAYS`` where none is named. The preloaded library
    and the wrapper driver see the same modules, so that the wrapper driver is chosen only where the library does not
    reach."""
    ways = [way for way in (*WAYS, CaptureWay.FOLDER) if way in (wanted or WAYS)]
    reached = program.preloadable and not program.privileged
    if CaptureWay.PRELOAD in ways and (not program.preloadable or (CaptureWay.WRAPPER_DRIVER in ways and not reached)):
        ways.remove(CaptureWay.PRELOAD)
    if {CaptureWay.PRELOAD, CaptureWay.WRAPPER_DRIVER} <= set(ways):
        ways.remove(CaptureWay.WRAPPER_DRIVER)
    return tuple(ways)


def environment_for(
    ways: Collection[CaptureWay], base: Mapping[str, str], folder: RunFolder, sources: Path | None
) -> dict[str, str]:
    """``base`` with what takes the ways into a program, and what tells their libraries where to hand over. ``sources``
    is the folder for source texts where lines are asked for. Raises what building the libraries raises, and
    InvalidInput for a folder whose name the loaders would misread."""
    result = dict(base)
    result |= {"SYMD_CAPTURE": str(folder.inner), "SYMD_CAPTURE_KEY": folder.key}
    if sources is not None:
        result["SYMD_CAPTURE_SOURCES"] = str(sources)
    # What the older generation of Intel's drivers finds in its caches has no debug data. A folder that is not there
    # switches them off.
    result |= {"cl_cache_dir": str(folder.inner / "no-cache"), "l0_cache_dir": str(folder.inner / "no-cache")}
    if CaptureWay.OPENCL_LAYER in ways:
        _append(result, "OPENCL_LAYERS", _placed(library(OPENCL_LAYER, folder.native), folder), ":")
    if CaptureWay.PRELOAD in ways:
        for name in (LEVEL_ZERO_PRELOAD, *_runtime_preloads(base)):
            _append(result, "LD_PRELOAD", _placed(library(name, folder.native), folder), ":")
    if CaptureWay.FOLDER in ways:
        result |= dump_environment(folder.dumps)
    if CaptureWay.LISTENER in ways:
        result["PYTHONPATH"] = os.pathsep.join(filter(None, (_placed_injected(folder), base.get("PYTHONPATH"))))
    if CaptureWay.WRAPPER_DRIVER in ways:
        _wrap_drivers(result, folder)
    return result


def dump_environment(folder: Path) -> dict[str, str]:
    """What makes Intel's compiler and driver write below ``folder``, which is made. The older generation leaves an ELF
    image of each kernel, the newer one whole modules too."""
    cache = folder / "cache"
    for each in (folder, cache):
        make_folder(each, exist_ok=True)
        let_in(each, 0o1777)
    return {"IGC_ElfDumpEnable": "1", "IGC_DumpToCustomDir": str(folder), "NEO_CACHE_DIR": str(cache)}


def _runtime_preloads(environment: Mapping[str, str]) -> Iterator[str]:
    """The libraries for CUDA and HIP where these may be used: they are in front of dlsym, which other programs are
    spared."""
    folders = [folder for folder in environment.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for preload, devices, runtime in _RUNTIMES:
        if any(Path(device).exists() for device in devices) or _is_installed(
            f"{runtime}*", (*folders, *_LIBRARY_FOLDERS)
        ):
            yield preload


def _placed_injected(folder: RunFolder) -> str:
    """The folder for the program's Python path, copied where its user may be another by then, as libraries are."""
    if os.geteuid() != 0:
        return str(_INJECTED)
    copied = folder.inner / "python"
    for each in (copied, copied / "__pycache__"):  # which a program would make as its umask says
        make_folder(each, exist_ok=True)
        let_in(each, 0o711)
    for file in _INJECTED.glob("*.py"):
        _copy(file, copied / file.name)
    return str(copied)


def _append(environment: dict[str, str], name: str, value: str, between: str) -> None:
    """Append a value to a variable that the user may have set; that of another run, with the same name, is replaced."""
    others = [each for each in environment.get(name, "").split(between) if Path(each).name != Path(value).name]
    environment[name] = between.join(filter(None, (*others, value)))


def _placed(built: Path, folder: RunFolder) -> str:
    """The library's path, for a list that spaces and colons separate."""
    path = _reachable(built, folder, built.name)
    if set(path) & set(" :"):
        raise InvalidInput(
            "the path of a library to preload can have no space and no colon",
            where=path,
            hint="set XDG_CACHE_HOME",
        )
    return path


def _reachable(built: Path, folder: RunFolder, name: str) -> str:
    """The library's path. Where symd is root the program may become a user who cannot read root's cache, and would say
    that it cannot: then it is copied into the run's folder under the ``name``, unless nothing is run from there."""
    no_programs = os.statvfs(folder.inner).f_flag & os.ST_NOEXEC
    return str(built) if os.geteuid() != 0 or no_programs else _copy(built, folder.inner / name)


def _copy(file: Path, copied: Path) -> str:
    """Copy a file for the program, whichever user it becomes."""
    write_bytes(copied, file.read_bytes())
    let_in(copied, 0o644)
    return str(copied)


def _wrap_drivers(environment: dict[str, str], folder: RunFolder) -> None:
    """The loader takes exactly the drivers that it is told, so that those which it would find are named too."""
    told = [name for name in environment.get("ZE_ENABLE_ALT_DRIVERS", "").split(",") if name]
    drivers = told or [_INTEL_DRIVER, *filter(_is_installed, _OTHER_DRIVERS)]
    wrapped = [
        _reachable(built := wrapper_driver(name, folder.native), folder, f"{built.parent.name}.so")
        if Path(name).name.startswith("libze_intel_gpu.")
        else name
        for name in drivers
    ]
    environment["ZE_ENABLE_ALT_DRIVERS"] = ",".join(wrapped)
    if len(wrapped) > 1 or environment.get("ZE_ENABLE_LOADER_INTERCEPT") == "1":
        environment["ZE_ENABLE_LOADER_DRIVER_DDI_PATH"] = "0"  # otherwise newer loaders pass the wrapper by


def _is_installed(pattern: str, folders: Collection[str] = _LIBRARY_FOLDERS) -> bool:
    return any(True for folder in folders for _ in Path(folder).glob(pattern))
