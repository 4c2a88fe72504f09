"""The libraries that are loaded into programs: built from ``native/`` on first use and kept in the user's cache, or
found prebuilt.

A prebuilt one lies beside the sources, ``native/NAME.so``. A built one is kept below a digest of everything that it is
made of, so that another version of symd has its own. A cache that another user could change is not used: what is there
is run in this user's programs."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import platform
import secrets
import shutil
import stat
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from symd.config import native_cache
from symd.errors import FailedPrecondition, StoreUnavailable, ToolMissing
from symd.system.messages import os_error_text
from symd.system.private_files import FILE_MODE, ensure_writable, folder_hint, make_folder
from symd.system.process.process import ProcessLimits
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
    from symd.system.process.run import run_tool, tool_error  # noqa: PLC0415 - 9 of the 110 ms that a program waits for symd run: libraries are built once

    ended = run_tool(command, ProcessLimits(COMPILE_SECONDS, _MEMORY, _ANSWER_BYTES), hint=_HINT)
    if ended.ending.status != 0 or ended.ending.signal:
        if full := next((reason for reason in _FULL if reason in ended.printed), ""):
            raise StoreUnavailable(
                f"the libraries that symd loads into programs cannot be built: {full.lower()}",
                where=str(Path(command[-1]).parent),
                hint=f"free some space there and in {tempfile.gettempdir()}, or set XDG_CACHE_HOME and TMPDIR to folders with room",
            )
        raise tool_error(Path(command[0]).name, ended, _HINT)
