"""The ``.dwo`` files and ``.dwp`` packages of a code object whose debug data its compiler split off: found as debuggers find
them, and read with the object as one. So are SPIR-V modules with debug data, which are named after the identifier that they share
with the module without.

Source: DWARF 5, 3.1.2 (DW_AT_dwo_name, DW_AT_comp_dir); LLVM looks for a package named after the object as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING

from symd.config import Limits
from symd.engine.files.input import comes_to_an_end, read_input
from symd.engine.files.left_out import AllowedFiles, is_below, say_left_out
from symd.errors import HashMismatch, NoDebugData, SymdError
from symd.formats.budget import Budget
from symd.formats.containers.amd import amdgpu
from symd.model.code import SEPARATE_SUFFIX, CodeKind, DebugScheme, Vendor
from symd.system.notices import complain

if TYPE_CHECKING:
    from pathlib import Path

    from symd.debuginfo.dwarf import Unit
    from symd.model.code import CodeObject

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
    """The code object ``data``, the content of ``file``, with what was split off: from the package ``file``.dwp, or from each file
    that the object names, in the object's folder, where it was compiled, or (first) in ``folder``.

    Code objects inside a program, a bundle or another container get theirs too, where ``folder`` is given or such a file stands beside
    it: whether they need any is not known before all are opened.

    ``beside``: what lies neither in ``folder`` nor in the object's, nor below them, is left out, and said on standard error. With ``allowed`` no
    other file is opened.

    ``data`` itself where nothing was split off or nothing of it is there; what is missing is said with the answers. Raises
    NoDebugData where ``folder`` is given and has nothing of it.
    """
    if file == "-":
        return data
    search = _Search(file, folder, limits, beside=beside, allowed=allowed)
    if amdgpu.claims(data):
        found = search.joined(data)
    elif folder is not None or any(has_split_files(each) for each in search.folders):
        found = search.joined_inside(data)
    else:
        return data
    if folder is not None:
        search.check_found_in(folder)
    return found


def has_split_files(folder: Path) -> bool:
    """Whether files of this kind stand in it."""
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
        from pathlib import Path  # noqa: PLC0415 - slow to load, and most objects have no such files

        folders = (each for each in (self._folder, Path(self._file).parent) if each is not None)
        return [each for each in folders if self._allowed is None or self._allowed.holds(each)]

    def joined(self, data: bytes) -> bytes:
        """One code object with the sections of its files behind its own."""
        paths = self._paths_for(data)
        contents = [self._content(path) for path in paths]
        from symd.debuginfo.split import dwo  # noqa: PLC0415 - only AMD's objects have such files

        try:
            return dwo.with_dwo(data, contents, self._budget(data, *contents)) if contents else data
        except SymdError as error:
            raise error.prefix_where(", ".join(map(str, paths))) from None

    def joined_inside(self, data: bytes) -> bytes:
        """A container with the files of the code objects inside it."""
        from symd.formats import containers  # noqa: PLC0415 - who has one code object need not open containers
        from symd.formats.containers import with_dwo  # noqa: PLC0415 - likewise

        try:
            codes = containers.unpack(data, self._limits).objects
        except SymdError:
            return data  # whoever reads it next says what is wrong with it
        found = {str(code.path): files for code in codes if (files := self._files_of(code))}
        return with_dwo.joined(data, found) if found else data

    def _files_of(self, code: CodeObject) -> list[bytes]:
        if code.vendor is Vendor.AMD:
            return self._of_its_build(code.data)
        build_id = code.facts.get("build_id")
        is_apart = code.kind is CodeKind.SPIRV and code.debug is DebugScheme.NONE and build_id is not None
        return self._of_spirv(code.data, f"{build_id}{SEPARATE_SUFFIX}") if is_apart else []

    def _of_spirv(self, code: bytes, name: str) -> list[bytes]:
        """The module that has the debug data of this one; one of other code is told of and left alone."""
        from symd.formats.spirv.module import check_same_code  # noqa: PLC0415 - the grammar's tables are slow to import

        self._named.append(name)
        for path in (each / name for each in self.folders if comes_to_an_end(each / name)):
            try:
                check_same_code(code, self._content(path))
            except SymdError as error:
                complain(f"answered without a debug file: {error.prefix_where(str(path))}")
                continue
            self._paths.add(path)
            return [self._content(path)]
        return []

    def _of_its_build(self, code: bytes) -> list[bytes]:
        """The files of one code object among several: a package may be another's."""
        from symd.debuginfo.split import dwo  # noqa: PLC0415

        found = []
        for path in self._paths_for(code):
            with suppress(HashMismatch):
                try:
                    dwo.check_same_build(code, self._content(path), self._budget(code, self._content(path)))
                except HashMismatch:
                    raise
                except SymdError as error:
                    raise error.prefix_where(str(path)) from None
                found.append(self._content(path))
        return found

    def _budget(self, *files: bytes) -> Budget:
        return Budget(self._limits, sum(map(len, files)))

    def _paths_for(self, code: bytes) -> list[Path]:
        from symd.debuginfo.split import dwo  # noqa: PLC0415

        try:
            units = dwo.skeletons(code, self._budget(code))
        except SymdError:
            return []  # whoever reads it next says what is wrong with it
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
    from pathlib import Path  # noqa: PLC0415 - as above

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
