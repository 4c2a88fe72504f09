"""The code objects that a host program of ROCm keeps in kernel packs beside it (``.kpack``), found as ROCm's loader
finds them, and put into one pack.

Source: ROCm's rocm-systems, shared/kpack/runtime/src/loader.cpp. The loader looks for one processor, this for all."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from symd.config import Limits
from symd.engine.files.input import AllowedFiles, comes_to_an_end, is_below, read_input, say_left_out
from symd.errors import InvalidInput, SymdError
from symd.formats import elf
from symd.formats.budget import Budget
from symd.formats.containers import host_elf
from symd.formats.containers.amd import kpack
from symd.formats.containers.amd.kpack import KpackReference

INSTEAD = "ROCM_KPACK_PATH"
"""The variable with the packs to read instead of those that the program names, separated by ``:``."""
BEFORE = "ROCM_KPACK_PATH_PREFIX"
"""The variable with packs that are read before those."""
_FOLDER = ".kpack"


def with_kernel_packs(
    data: bytes,
    file: str,
    limits: Limits,
    environment: Mapping[str, str] = os.environ,
    *,
    beside: bool = False,
    allowed: AllowedFiles | None = None,
) -> bytes:
    """One pack with the code objects of the host program ``file``, whose bytes are ``data``; ``data`` itself if it has
    no kernel packs.

    ``beside``: only packs in the program's folder, below it, and in folders ``.kpack`` beside it or above are read, as
    ROCm is laid out; others are named on standard error, unless the environment names them. With ``allowed`` no other
    file is opened.

    If several packs have the same code object the first one counts. Raises InvalidInput if no pack has the program.
    """
    if not (host_elf.claims(data) and data.find(kpack.SECTION.encode()) >= 0):
        return data
    try:
        packs = kpack.reference(elf.parse(data, Budget(limits, len(data))))
    except SymdError as error:
        raise error.prefix_where(file) from None
    if packs is None:
        return data
    found: dict[tuple[str, str], kpack.Entry] = {}
    for path in _paths(packs, file, environment, allowed, beside=beside):
        for entry in _entries(path, packs.program, limits, allowed):
            found.setdefault((entry.program, entry.processor), entry)
    if not found:
        tried = ", ".join(packs.search_paths)
        raise InvalidInput(
            f"its device code is in kernel packs, and none that is there has {packs.program!r}: {tried}",
            where=file,
            hint=f"put the .kpack files where it says, or name them in {INSTEAD}",
        )
    return kpack.packed(found.values())


def _entries(path: str, program: str, limits: Limits, allowed: AllowedFiles | None) -> tuple[kpack.Entry, ...]:
    """The code objects of a program in the pack at ``path``. Raises SymdError that names the path."""
    try:
        data = read_input(path, limits, allowed=allowed)
        return kpack.opened(data, Budget(limits, len(data)), program).entries
    except SymdError as error:
        raise error if error.where.startswith(path) else error.prefix_where(path) from None


def _paths(
    packs: KpackReference, file: str, environment: Mapping[str, str], allowed: AllowedFiles | None, *, beside: bool
) -> Iterator[str]:
    """The paths of the packs that exist, in the order in which they are read."""
    instead = _listed(environment.get(INSTEAD), allowed)
    if instead:
        yield from filter(os.path.isfile, instead)
        return
    yield from filter(os.path.isfile, _listed(environment.get(BEFORE), allowed))
    folder = Path(file).parent
    found = [(path, each) for path in packs.search_paths for each in _matching(folder, path, allowed)]
    taken = [each for path, each in found if not beside or _is_beside(path, folder)]
    apart = [each for _, each in found if each not in taken]
    say_left_out(file, apart, f"{INSTEAD} and {BEFORE} name packs that are")
    yield from taken


def _matching(folder: Path, path: str, allowed: AllowedFiles | None) -> list[str]:
    """The files of a search path relative to ``folder``, for whatever processor."""
    whole = str(folder / path)
    if allowed is not None and not allowed.holds(os.path.dirname(whole.partition(kpack.PROCESSOR)[0])):  # noqa: PTH120 - of a text
        return []
    pattern = glob.escape(whole).replace(kpack.PROCESSOR, "*")
    found = glob.glob(pattern)  # noqa: PTH207 - Path.glob refuses an absolute one
    return sorted(each for each in found if comes_to_an_end(each, allowed))


def _is_beside(path: str, folder: Path) -> bool:
    """Whether a program in ``folder`` names a pack that belongs to it: ROCm has them in ``../.kpack/`` or further
    up."""
    up = [part for part in Path(path).parts if part != "."]
    while up[:1] == [".."]:
        up.pop(0)
    return is_below(folder / path, [folder]) or (len(up) == 2 and up[0] == _FOLDER and not Path(path).is_absolute())


def _listed(paths: str | None, allowed: AllowedFiles | None) -> list[str]:
    return [path for path in (paths or "").split(":") if path and (allowed is None or allowed.holds(path))]
