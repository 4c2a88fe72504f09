"""What a process keeps that meets bytes of strangers: the files that it is told of, the system calls that computing takes
(``seccomp``), and nothing else."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from typing import Final

from symd.system.process import landlock, seccomp
from symd.system.process.landlock import READ, USE_DEVICE, Access

_OF_PYTHON: Final = ("site-packages", "dist-packages", "lib-dynload")
"""How folders of modules are called."""
LIBRARIES: Final = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
"""Where shared libraries are."""


def available() -> bool:
    """Whether this kernel can confine a process so."""
    return landlock.version() > 0 and seccomp.available()


def confine(allowed: Iterable[tuple[str, Access]], *, threads: bool = False, program: bool = False) -> None:
    """Confine this process to files of ``allowed`` and what is below them. It keeps the descriptors that it has, starts
    ``threads`` where it may, and may become another ``program`` where that is said: one of those files that may be executed.

    Raises OSError where the kernel cannot.
    """
    landlock.restrict(allowed)
    seccomp.restrict(threads=threads, program=program)


def interpreter() -> Iterator[tuple[str, Access]]:
    """What a Python process reads after its start: modules that are imported late, their libraries, how much memory it has."""
    from pathlib import Path  # noqa: PLC0415 - a process that only confines others starts sooner without it

    package = Path(__file__).resolve().parents[2]
    modules = [path for path in sys.path if Path(path).name in _OF_PYTHON]
    library = Path(os.__file__).parent.parent  # with the libraries that came with it, beside its modules
    for path in (str(library), str(package), *modules, *_linked(modules), *LIBRARIES, "/proc/self"):
        yield path, READ
    for path in ("/dev/null", "/dev/urandom"):
        yield path, USE_DEVICE


def _linked(folders: Iterable[str]) -> Iterator[str]:
    """Where the packages lie that are links in ``folders``: Landlock asks about the file, not about the way to it."""
    for folder in folders:
        try:
            with os.scandir(folder) as entries:
                yield from (os.path.realpath(each.path) for each in entries if each.is_symlink())
        except OSError:  # not there, or not ours to see: nothing is imported from it
            continue
