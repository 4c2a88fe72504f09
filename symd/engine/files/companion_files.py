"""What lies apart from its file, found as debuggers and loaders find it and read as one with it:

* the debug file of an AMD code object, which .gnu_debuglink or the build ID names, or which ``symd slim`` left beside
  it;
* ``.dwo`` files and ``.dwp`` packages of split DWARF;
* SPIR-V modules with debug data, by the identifier that they share with the module without;
* the code objects that a host program of ROCm keeps in kernel packs beside it (``.kpack``), which are put into one
  pack.

Sources: GDB's manual, "Separate Debug Files"; DWARF 5, 3.1.2 (DW_AT_dwo_name, DW_AT_comp_dir). LLVM also looks for a
package named after the object. ROCm's rocm-systems, shared/kpack/runtime/src/loader.cpp; the loader looks for one
processor, this for all."""

from __future__ import annotations

import glob
import os
import zlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from symd.config import Limits
from symd.debuginfo import separate_files
from symd.engine.files.input import AllowedFiles, comes_to_an_end, is_below, read_input, say_left_out
from symd.errors import HashMismatch, InvalidInput, NoDebugData, SymdError, Unsupported
from symd.formats import containers, elf
from symd.formats.budget import Budget
from symd.formats.containers import host_elf, with_dwo
from symd.formats.containers.amd import amdgpu, kpack
from symd.formats.containers.amd.kpack import KpackReference
from symd.model.code import SEPARATE_SUFFIX, CodeKind, DebugScheme, Vendor
from symd.system.messages import complain

if TYPE_CHECKING:
    from pathlib import Path

    from symd.debuginfo.dwarf.units import Unit
    from symd.model.code import CodeObject


_FOLDER = ".debug"
_OF_SYSTEM = "/usr/lib/debug"
"""Where distributions put debug files: below a folder's own path, and by build ID."""
SLIM_SUFFIX = ".debug"


def with_debug_file(data: bytes, file: str, limits: Limits, allowed: AllowedFiles | None = None) -> bytes:
    """The code object ``data``, the content of ``file``, joined with its debug file where that lies in the same folder,
    or in ``.debug`` there under the link's name, or where distributions put it; ``data`` itself where it needs none or
    none of its build is there. Those that cannot be used, and one that is missing, are told on stderr then, for nobody
    named them. With ``allowed`` no other file is opened."""
    unusable: list[SymdError] = []
    found = _with_its_file(data, file, limits, allowed, unusable)
    if found is not None:
        return found[1]
    for each in unusable:
        complain(f"answered without a debug file: {each}")
    return data


def debug_file_of(data: bytes, file: str, limits: Limits) -> str | None:
    """The path of the debug file that ``with_debug_file`` joins with ``data``, the content of ``file``; None where it
    joins none."""
    found = _with_its_file(data, file, limits, None, [])
    return None if found is None else found[0]


def _with_its_file(
    data: bytes, file: str, limits: Limits, allowed: AllowedFiles | None, unusable: list[SymdError]
) -> tuple[str, bytes] | None:
    """The path of the debug file of ``data``, and the two as one image; None where there is none. ``unusable`` takes
    what is wrong with those that cannot be used, and with a link to one that is missing."""
    image = _image(data, file, limits)
    if image is None:
        return None
    candidates = _there(image, file, allowed)
    for path, checksum in candidates:
        try:
            joined = _joined(data, path, checksum, limits, allowed)
        except SymdError as error:
            unusable.append(error)
            continue
        if joined is not None:
            return path, joined
    if not any(checksum is not None for _, checksum in candidates):
        unusable += _missing(image, file)
    return None


def _missing(image: elf.Elf, file: str) -> list[SymdError]:
    """What the object's link names, if it has one, and where that was looked for."""
    link = elf.debug_link(image.sections)
    if not link:
        return []
    name = os.fsdecode(link.name)
    places = [os.path.dirname(path) or "." for path, checksum in _candidates(image, file) if checksum is not None]  # noqa: PTH120 - pathlib is slow to load
    return [NoDebugData(f"{name}, to which it links, is in none of {', '.join(dict.fromkeys(places))}", where=file)]


def debug_files(data: bytes, file: str, limits: Limits) -> list[tuple[str, int | None]]:
    """Files that may be the debug file of ``data``: paths, and the CRC-32 of the content where the object says it."""
    image = _image(data, file, limits)
    return [] if image is None else _there(image, file, None)


def _there(image: elf.Elf, file: str, allowed: AllowedFiles | None) -> list[tuple[str, int | None]]:
    return [(path, checksum) for path, checksum in _candidates(image, file) if comes_to_an_end(path, allowed)]


def _image(data: bytes, file: str, limits: Limits) -> elf.Elf | None:
    """The image of a code object that may have a debug file; None for others."""
    if file == "-" or not amdgpu.claims(data):
        return None
    try:
        image = elf.parse(data, Budget(limits, len(data)))
    except SymdError:
        return None  # its next reader reports what is wrong with it
    return None if any(section.name.startswith((".debug_", ".zdebug_")) for section in image.sections) else image


def _candidates(image: elf.Elf, file: str) -> Iterator[tuple[str, int | None]]:
    folder, own = os.path.split(file)
    link, build_id = elf.debug_link(image.sections), image.build_id()
    join = os.path.join  # pathlib is slow to load
    if link is not None:
        base = os.fsdecode(link.name)
        if base != own:
            yield join(folder, base), link.checksum
        yield join(folder, _FOLDER, base), link.checksum
        yield join(f"{_OF_SYSTEM}{os.path.abspath(folder)}", base), link.checksum  # noqa: PTH100
    yield f"{file}{SLIM_SUFFIX}", None
    if build_id is not None:
        yield join(_OF_SYSTEM, ".build-id", build_id[:2], f"{build_id[2:]}.debug"), None


def _joined(data: bytes, path: str, checksum: int | None, limits: Limits, allowed: AllowedFiles | None) -> bytes | None:
    """The two as one image; None where the file is another build's, or something else, or cannot be joined to such an
    object: its name alone says nothing. Of a file to which the object links that is raised."""
    debug = read_input(path, limits, allowed=allowed)
    found = zlib.crc32(debug)
    if checksum not in (None, found):
        message = f"it is of another build: its CRC-32 is {found:#010x}, where the object links to {checksum:#010x}"
        raise HashMismatch(message, where=path)
    if not amdgpu.claims(debug):
        return None
    try:
        return separate_files.joined(data, debug, Budget(limits, len(data) + len(debug)))
    except (HashMismatch, NoDebugData, Unsupported):
        return None
    except SymdError as error:
        raise error.prefix_where(path) from None


PACKAGE, SUFFIX = ".dwp", ".dwo"
_APART = (PACKAGE, SUFFIX, SEPARATE_SUFFIX)


def with_dwo_files(
    data: bytes,
    file: str,
    limits: Limits,
    folder: Path | None = None,
    *,
    beside: bool = False,
    allowed: AllowedFiles | None = None,
) -> bytes:
    """The code object ``data``, the content of ``file``, with what was split off: from the package ``file``.dwp, or
    from each file that the object names, in the object's folder, where it was compiled, or (first) in ``folder``.

    Code objects inside a program, a bundle or another container get theirs too, where ``folder`` is given or such a
    file is beside it: whether they need any is not known before all are opened.

    ``beside``: what lies neither in ``folder`` nor in the object's, nor below them, is left out, and said on standard
    error. With ``allowed`` no other file is opened.

    ``data`` itself where nothing was split off or nothing of it is there; what is missing is said with the answers.
    Raises NoDebugData where ``folder`` is given and has nothing of it.
    """
    if file == "-":
        return data
    search = _Search(file, folder, limits, beside=beside, allowed=allowed)
    if folder is None and not amdgpu.claims(data) and not any(has_split_files(each) for each in search.folders):
        return data
    found = search.joined(data)
    if folder is not None:
        search.check_found_in(folder)
    return found


def dwo_files_of(data: bytes, file: str, limits: Limits) -> list[str]:
    """The paths of the files that ``with_dwo_files`` looks into for what was split off ``data``, the content of
    ``file``: the package alone, or those that the object names and that are there."""
    search = _Search(file, None, limits, beside=False, allowed=None)
    return [str(path) for path in search.paths_for(data)]


def has_split_files(folder: Path) -> bool:
    """Whether files of this kind are in it."""
    return any(next(folder.glob(f"*{suffix}"), None) is not None for suffix in _APART)


class _Search:
    """What is looked for, and what was found."""

    def __init__(
        self, file: str, folder: Path | None, limits: Limits, *, beside: bool, allowed: AllowedFiles | None
    ) -> None:
        self._file, self._folder, self._limits, self._beside = file, folder, limits, beside
        self._allowed = allowed
        self._named: list[str] = []
        self._paths: set[Path] = set()
        self._contents: dict[Path, bytes] = {}

    @cached_property
    def folders(self) -> list[Path]:
        """Where files are looked for, whatever the object says."""
        folders = (each for each in (self._folder, Path(self._file).parent) if each is not None)
        return [each for each in folders if self._allowed is None or self._allowed.holds(each)]

    def joined(self, data: bytes) -> bytes:
        """The file with those of the code objects in it."""
        if amdgpu.claims(data):
            files = self._of_its_build(data, tell=True)
            return with_dwo.joined(data, {"": files}) if files else data
        try:
            codes = containers.unpack(data, self._limits).objects
        except SymdError:
            return data  # its next reader reports what is wrong with it
        found = {str(code.path): files for code in codes if (files := self._files_of(code))}
        return with_dwo.joined(data, found) if found else data

    def _files_of(self, code: CodeObject) -> list[bytes]:
        if code.vendor is Vendor.AMD:
            return self._of_its_build(code.data)
        build_id = code.facts.get("build_id")
        is_apart = code.kind is CodeKind.SPIRV and code.debug is DebugScheme.NONE and build_id is not None
        return self._of_spirv(code, f"{build_id}{SEPARATE_SUFFIX}") if is_apart else []

    def _of_spirv(self, code: CodeObject, name: str) -> list[bytes]:
        """The module that has the debug data of this one; one of other code is told of and left alone."""
        self._named.append(name)
        for path in (each / name for each in self.folders if comes_to_an_end(each / name)):
            try:
                content = self._content(path)
                with_dwo.with_files(code, [content], self._budget(code.data, content))
            except SymdError as error:
                complain(f"answered without a debug file: {error.prefix_where(str(path))}")
                continue
            self._paths.add(path)
            return [content]
        return []

    def _of_its_build(self, code: bytes, *, tell: bool = False) -> list[bytes]:
        """The files of one code object; those of another build are left out, and told of where ``tell``: of several
        objects a package may be another's."""
        found = []
        for path in self.paths_for(code):
            try:
                separate_files.check_same_build(code, self._content(path), self._budget(code, self._content(path)))
                found.append(self._content(path))
            except HashMismatch as error:
                if tell:
                    complain(f"answered without a debug file: {error.prefix_where(str(path))}")
            except SymdError as error:
                raise error.prefix_where(str(path)) from None
        return found

    def _budget(self, *files: bytes) -> Budget:
        return Budget(self._limits, sum(map(len, files)))

    def paths_for(self, code: bytes) -> list[Path]:
        """The files that are there of what was split off a code object."""
        try:
            units = separate_files.skeletons(code, self._budget(code))
        except SymdError:
            return []  # its next reader reports what is wrong with it
        if not units:
            return []
        self._named += [unit.dwo_name.decode("utf-8", "replace") for unit in units[:4]]
        paths = list(dict.fromkeys(_found(units, self._file, self.folders, self._allowed)))
        if self._beside:
            apart = [str(path) for path in paths if not is_below(path, self.folders)]
            say_left_out(self._file, apart, "--debug FOLDER takes those in FOLDER")
            paths = [path for path in paths if is_below(path, self.folders)]
        self._paths.update(paths)
        return paths

    def _content(self, path: Path) -> bytes:
        if path not in self._contents:
            self._contents[path] = read_input(str(path), self._limits, allowed=self._allowed)
        return self._contents[path]

    def check_found_in(self, folder: Path) -> None:
        """Raises NoDebugData where nothing was found there."""
        if any(path.is_relative_to(folder) for path in self._paths):
            return
        names = ", ".join(dict.fromkeys(self._named))
        raise NoDebugData(
            f"it has none of {names}" if names else f"{self._file} had no debug data split off", where=str(folder)
        )


def _found(units: tuple[Unit, ...], file: str, folders: list[Path], allowed: AllowedFiles | None) -> Iterator[Path]:
    """The package alone, or the file of each unit that is there."""
    packages = [each / f"{Path(file).name}{PACKAGE}" for each in folders]
    package = next((each for each in packages if (allowed is None or allowed.holds(each)) and each.is_file()), None)
    if package is not None:
        yield package
        return
    for unit in units:
        named = Path(unit.dwo_name.decode("utf-8", "surrogateescape"))
        compiled = Path(unit.comp_dir.decode("utf-8", "surrogateescape")) / named
        candidates = [path for each in folders for path in (each / named, each / named.name)] + [compiled]
        there = [path for path in candidates if comes_to_an_end(path, allowed)]
        yield from sorted(there, key=lambda path: not is_below(path, folders))[:1]


INSTEAD = "ROCM_KPACK_PATH"
"""The variable with the packs to read instead of those that the program names, separated by ``:``."""
BEFORE = "ROCM_KPACK_PATH_PREFIX"
"""The variable with packs that are read before those."""
_PACK_FOLDER = ".kpack"


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
    return is_below(folder / path, [folder]) or (
        len(up) == 2 and up[0] == _PACK_FOLDER and not Path(path).is_absolute()
    )


def _listed(paths: str | None, allowed: AllowedFiles | None) -> list[str]:
    return [path for path in (paths or "").split(":") if path and (allowed is None or allowed.holds(path))]
