"""From a profile's name for a piece of code (build id, code object id, CRC, kernel name) to a module that the user
named, and from there to answers. A name that two of these modules have is ambiguous.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np

from symd.api import Symbolizer
from symd.errors import SymdError
from symd.formats import debug_ids
from symd.model.addresses import ByKernel, KernelOffset
from symd.model.answers import Answers, Reason, concat, subset
from symd.model.code import CodeKind
from symd.model.columns import I64, U64
from symd.model.identities import is_digest
from symd.model.names import Match, NameKind, NameQuery
from symd.model.summaries import ModuleSummary, ObjectSummary
from symd.model.texts import in_utf8
from symd.query.function_names import SymbolsByWord

SIMD_WIDTH = re.compile(r"\[SIMD(?:_ANY|[0-9]+)[^\[\]]*\]$")
"""How unitrace ends the name of a kernel."""
_CODE_FILE = re.compile(r".+\.(?:co|hsaco|cubin|fatbin|zebin|dbg|elf|so|o|bin|out|exe)", re.DOTALL)
"""What files with code are called, and hardly any function."""
_TARGETS: Final = {"co": "gfx", "hsaco": "gfx", "cubin": "sm_"}
"""How files of one vendor's code end, and what its targets begin with."""
_BUILD_ID = re.compile(f"(?:[0-9a-f]{{2}}){{{debug_ids.MIN_DIGITS // 2},{debug_ids.MAX_DIGITS // 2}}}")
_HASH_OF_OTLP = 32
"""Digits of OTLP's htlhash, a hash of a file that profiles have in place of its build ID."""
_SUGGESTED = 3
"""The most names that are suggested for one that no module has."""
ReadUri = Callable[[str], bytes]
"""The bytes of the code object at a URI. Raises SymdError where it cannot, or may not, be read."""


@dataclass(frozen=True, slots=True)
class NamedModule:
    """A module that the user named and the symbolizer has. ``identity`` is what profiles call it; a module without one
    answers to its SHA-256, to those of its code objects, to the name of its file (``name``, by the last part of the
    path where nothing else is known), and to names of kernels that no other such module bears."""

    digest: str
    name: str
    identity: str | None = None


@dataclass(frozen=True, slots=True)
class IdentifiedModule:
    """The module that an identity stands for; ``path`` when it stands for one code object in it."""

    digest: str
    path: str | None = None


class OtherBuild(NamedTuple):
    """A module that has the name of a profile's mapping, and another build ID: ``file`` is its name, ``own`` its
    build ID, ``wanted`` the one that the profile names."""

    file: str
    own: str
    wanted: str

    def __str__(self) -> str:
        return f"{self.file} has build ID {self.own}, the profile names {self.wanted}: another build"


@dataclass(frozen=True, slots=True)
class LookupTarget:
    """What offsets count from: a kernel, a section, or, with neither, address 0 of the code object."""

    digest: str
    kernel: str | None = None
    section: str | int | None = None
    path: str | None = None


class Unmatched(NamedTuple):
    """A module in which nothing that a profile names was found, and what the profile calls the unknown modules that may
    be it."""

    module: NamedModule
    names: tuple[str, ...]
    is_of_several: bool = False
    """Whether nothing was found in other modules either, which do not fit the name."""


class Resolver:
    """Modules and what they answer to, over a symbolizer. ``read_uri`` is needed where a profile has URIs; without it
    such names are not found. ``ran`` maps a module to the path of the one code object in it that is meant, if that is
    known."""

    def __init__(
        self,
        symbolizer: Symbolizer,
        modules: Iterable[NamedModule],
        *,
        read_uri: ReadUri | None = None,
        ran: Mapping[str, str] | None = None,
    ) -> None:
        self.symbolizer = symbolizer
        self._modules = tuple(dict.fromkeys(modules))
        self._readable: dict[str, tuple[LookupTarget, ...]] = {}
        self._read_uri = read_uri
        self._summaries: dict[str, ModuleSummary] = {}
        self._loaded: dict[str, str] = {}
        self._found: set[str] = set()
        """Modules that something was found in."""
        self.unknown: dict[tuple[str, ...], str] = {}
        """The names of modules that are not known, with the build ID of each."""
        self._ran = ran or {}
        self.several: dict[str, list[str]] = {}
        """The paths of the code objects of which any could be meant by some address, by their module."""
        self.differing: set[str] = set()
        """The modules whose code objects answer such an address differently."""

    def summary(self, digest: str) -> ModuleSummary:
        """What is inside a module; the symbolizer is asked once."""
        if digest not in self._summaries:
            self._summaries[digest] = self.symbolizer.module(digest)
        return self._summaries[digest]

    def source_files(self) -> list[str]:
        """The source files of the modules that the user named."""
        wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.FILE}))
        digests = dict.fromkeys(module.digest for module in self._modules)
        return [each.name for digest in digests for each in self.symbolizer.names(digest, wanted)]

    def file_name(self, digest: str) -> str:
        """The last part of the path that the user gave a module by; "" for one that nobody gave."""
        return module_file_name(self.given_name(digest))

    def given_name(self, digest: str) -> str:
        """The path that the user gave a module by; "" for one that nobody gave."""
        return next((module.name for module in self._modules if module.digest == digest), "")

    def identified(self, *identities: str, build_id: str = "") -> IdentifiedModule | Reason:
        """The module of ``build_id``, or else of the first of these identities that is known: UNKNOWN_MODULE when none
        is, AMBIGUOUS when one stands for several modules. Known are what the user gave, and the SHA-256 and the build
        ID of any module that the symbolizer has. A file's name stands for no module that has another build ID."""
        found = self._identified(identities, build_id)
        if isinstance(found, IdentifiedModule):
            self._found.add(found.digest)
        return found

    def module_of(self, *identities: str, build_id: str = "") -> IdentifiedModule | Reason:
        """``identified`` for what can only be a module, such as a mapping. ``unmatched`` looks at those that are not
        known."""
        found = self.identified(*identities, build_id=build_id)
        if found is Reason.UNKNOWN_MODULE:
            self.unknown[tuple(filter(None, (build_id, *identities)))] = build_id
        return found

    def kernel_or_file(self, name: str) -> LookupTarget | Reason:
        """``kernel_with_width`` of a name that no known module has. ``unmatched`` looks at one that no kernel has
        and that ends as names of files with code do."""
        found = self.kernel_with_width(name)
        if found is Reason.UNKNOWN_KERNEL and is_code_file(name):
            self.module_of(name)
        return found

    def unmatched(self) -> Unmatched | None:
        """The only module without an identity that nothing was found in, with the names that it may have; of several
        such modules, the only one that fits a name of a file with code. None where there is no such module or name. A
        module has no name whose build ID or SHA-256 is another's, or that files of another vendor have."""
        modules = [each for each in self._without_identity if each.digest not in self._found]
        fitting: dict[str, list[NamedModule]] = {}
        for names, build_id in self.unknown.items():
            if found := [each for each in modules if names and self._may_be(each.digest, names, build_id)]:
                fitting[min(names, key=lambda name: ("=" in name, len(name)))] = found
        if len(modules) == 1:
            return Unmatched(modules[0], tuple(fitting)) if fitting else None
        for name, found in fitting.items():
            fits = self._with_kernel(found, name) or (found if _target_of_name(name) else ())
            if len(fits) == 1:
                return Unmatched(fits[0], (name,), is_of_several=True)
        return None

    def _may_be(self, digest: str, names: tuple[str, ...], build_id: str) -> bool:
        """Whether a module can be the one of these names, none of which it is known by. Memory such as [jit] is no
        file."""
        if _is_memory(names) or any(map(is_digest, names)) or self._another_build(digest, _as_build_id(build_id)):
            return False
        wanted = set(filter(None, map(_target_of_name, names)))
        targets = {each.target or "" for each in machine_objects(self.summary(digest))}
        return not wanted or any(target.startswith(begin) for target in targets for begin in wanted)

    def _with_kernel(self, modules: Sequence[NamedModule], name: str) -> list[NamedModule]:
        """Find those of some modules that have a kernel which a file is named after."""
        stem = module_file_name(name).partition(".")[0]
        return [
            each
            for each in modules
            if any(kernel.name == stem for item in self.summary(each.digest).objects for kernel in item.kernels)
        ]

    def wanted(self) -> list[str]:
        """The ID in ``-m ID=FILE`` of each module that is not known."""
        files = ([*map(module_file_name, names)] for names in self.unknown if not _is_memory(names))
        return list(
            dict.fromkeys(next(filter(is_code_file, each), "") or each[0] for each in files if each and each[0])
        )

    def with_module(self, module: NamedModule) -> Resolver:
        """A resolver that has this module too."""
        return Resolver(self.symbolizer, [*self._modules, module], read_uri=self._read_uri, ran=self._ran)

    def _identified(self, identities: tuple[str, ...], build_id: str) -> IdentifiedModule | Reason:
        names = tuple(filter(None, (build_id, *identities)))
        for identity in names:
            found = self._identities.get(identity) or self._identities.get(identity.lower()) or self._stored(identity)
            if len(found) > 1:  # such as a stripped file and the one that it was made from
                known = self._by_file_name(names, build_id)
                meant = [each for each in found if isinstance(known, IdentifiedModule) and each.digest == known.digest]
                return meant[0] if len(meant) == 1 else Reason.AMBIGUOUS
            if found:
                return found[0]
        return self._by_file_name(names, build_id)

    def not_given(self, *names: str, build_id: str = "") -> str:
        """Why ``identified`` knows no module, as a sentence."""
        if others := self.other_builds(names, build_id):
            given = f"-m {others[0].wanted}={shlex.quote(others[0].file)}"
            return f"{'; '.join(map(str, others))} ({given} takes it all the same)"
        named = [*filter(None, (build_id, *names))]
        file = next((each for each in map(module_file_name, names) if is_code_file(each)), "")
        return f"no module was given for {' or '.join(named)}{f'; write -m {shlex.quote(file)}=FILE' if file else ''}"

    def other_builds(self, names: Iterable[str], build_id: str) -> list[OtherBuild]:
        """The modules that have one of these names, and a build ID that is not ``build_id``."""
        wanted = _as_build_id(build_id)
        named = {
            each: given for name in names for each, given in self._file_names.get(module_file_name(name), {}).items()
        }
        found = {each.digest: self._another_build(each.digest, wanted) for each, given in named.items() if not given}
        return [OtherBuild(self.file_name(digest), own, wanted) for digest, own in found.items() if own]

    def _another_build(self, digest: str, wanted: str) -> str:
        """The build ID of a module, where it has one and it is not ``wanted``; "" elsewhere."""
        others = debug_ids.other_build_ids(self.summary(digest), wanted) if wanted else []
        is_comparable = len(wanted) != _HASH_OF_OTLP or any(len(each) == _HASH_OF_OTLP for each in others)
        return others[0] if others and is_comparable else ""

    def _by_file_name(self, identities: Iterable[str], build_id: str) -> IdentifiedModule | Reason:
        """The module whose file, or identity, has the name of a path, or of a URI of a whole file, among
        ``identities``; none that is another build."""
        wanted = _as_build_id(build_id)
        for identity in identities:
            named = self._file_names.get(module_file_name(identity), {})
            found = [
                each for each, is_given in named.items() if is_given or not self._another_build(each.digest, wanted)
            ]
            if found:
                return found[0] if len(found) == 1 else Reason.AMBIGUOUS
        return Reason.UNKNOWN_MODULE

    @cached_property
    def _file_names(self) -> dict[str, dict[IdentifiedModule, bool]]:
        """The modules by the names of their files and by those that the user gave; whether it is one of the latter,
        which counts whatever build the file is."""
        found: dict[str, dict[IdentifiedModule, bool]] = {}
        for module in self._modules:
            is_given = module.identity is not None
            name = module_file_name(module.name) if module.identity is None else module.identity
            if name and name == module_file_name(name):
                modules, one = found.setdefault(name, {}), IdentifiedModule(module.digest)
                modules[one] = is_given or modules.get(one, False)
        return found

    def _stored(self, identity: str) -> tuple[IdentifiedModule, ...]:
        """The modules that the symbolizer has under a SHA-256 or a build ID; none for other identities."""
        name = identity.lower()
        if is_digest(name) and not self.symbolizer.missing([name]):
            return (IdentifiedModule(name),)
        if not _as_build_id(name):
            return ()
        with suppress(SymdError):  # who may not look at names of modules knows none
            alias = self.symbolizer.aliases.resolve(debug_ids.ALIAS_KIND, name)
            if alias is not None:
                return (IdentifiedModule(alias.module, alias.path),)
        return tuple(self._stored_names.get(name, ()))

    @cached_property
    def _stored_names(self) -> dict[str, dict[IdentifiedModule, None]]:
        """The build IDs of all modules that the symbolizer has."""
        found: dict[str, dict[IdentifiedModule, None]] = {}
        with suppress(SymdError):  # who may not list modules knows none
            for each in debug_ids.ModuleNames(self.symbolizer).all():
                found.setdefault(each.name, {})[IdentifiedModule(each.digest, each.path)] = None
        return found

    def at_uri(self, uri: str) -> IdentifiedModule | None:
        """The code object that a URI names, read and added; None where nothing may be read. Raises what reading and
        opening it raise."""
        if self._read_uri is None:
            return None
        if uri not in self._loaded:
            self._loaded[uri] = self.symbolizer.add(self._read_uri(uri), in_utf8(uri)).sha256
        self.unknown = {names: build_id for names, build_id in self.unknown.items() if uri not in names}
        return IdentifiedModule(self._loaded[uri])

    def kernel(self, name: str) -> LookupTarget | Reason:
        """The kernel of that name, mangled or readable, in a module that no identity was given to."""
        found = self._kernels.get(name) or self._kernels_called(name)
        self._found.update(each.digest for each in found)
        if len(found) == 1:
            return found[0]
        return Reason.AMBIGUOUS if found else Reason.UNKNOWN_KERNEL

    def did_you_mean(self, name: str) -> str:
        """What a name that is no kernel's may mean, to go behind what is said of it; "" where nothing is called like
        it."""
        like: dict[str, None] = {}
        for module in self._without_identity:
            with suppress(SymdError):
                answer = self.symbolizer.symbolize_one(module.digest, ByKernel(name, KernelOffset(0)))
                like |= dict.fromkeys(each.function for each in answer.candidates if each.function)
        return f"; did you mean {' or '.join(list(like)[:_SUGGESTED])}?" if like else ""

    def files_with(self, name: str) -> list[str]:
        """The files of modules, of those that no identity was given to, with a kernel of that name, mangled or
        readable."""
        digests = {each.digest for each in self._kernels.get(name) or self._kernels_called(name)}
        return [module.name for module in self._without_identity if module.digest in digests]

    def kernel_with_width(self, name: str) -> LookupTarget | Reason:
        """``kernel`` where a name may end with the SIMD width that it was compiled for."""
        found = self.kernel(name)
        return self.kernel(SIMD_WIDTH.sub("", name)) if found is Reason.UNKNOWN_KERNEL else found

    def section(self, name: str) -> LookupTarget | Reason:
        """The section of that name in a module that no identity was given to."""
        zero = np.zeros(1, np.uint64)
        targets = [LookupTarget(module.digest, section=name) for module in self._without_identity]
        answers = [(target, self.symbolize(target, zero)) for target in targets]
        holding = [
            target for target, answer in answers if answer.text_section[0] or answer[0].reason is Reason.AMBIGUOUS
        ]
        self._found.update(each.digest for each in holding)
        if len(holding) == 1:
            return holding[0]
        return Reason.AMBIGUOUS if holding else Reason.UNKNOWN_KERNEL

    def symbolize(self, target: LookupTarget, values: U64) -> Answers:
        """Answers for a column of offsets into a target. What may lie in several code objects, such as those of several
        architectures, is answered where all of them say the same, but lies in no text section: which one ran is not
        known."""
        if target.path is None and target.digest in self._ran:
            target = replace(target, path=self._ran[target.digest])
        answers = self._answers(target, values)
        unclear = _ambiguous(answers)
        if target.path is not None or not len(unclear):
            return answers
        paths = self._paths_meant(target, answers, unclear)
        if len(paths) < 2:
            return answers
        self.several[target.digest] = [*dict.fromkeys([*self.several.get(target.digest, ()), *paths])]
        found = _agreed(answers, unclear, [self._answers(replace(target, path=path), values) for path in paths])
        if len(_ambiguous(found)):
            self.differing.add(target.digest)
        return found

    def _paths_meant(self, target: LookupTarget, answers: Answers, unclear: I64) -> list[str]:
        """The code objects in which ambiguous answers may lie, in the module's order: their candidates, or all where
        not every answer names its own."""
        candidates = [answers.candidates.get(number, ()) for number in unclear.tolist()]
        paths: list[str] = [item.path for item in machine_objects(self.summary(target.digest))]
        if not all(candidates):
            return paths
        named = dict.fromkeys(candidate.path for several in candidates for candidate in several)
        return [*(path for path in paths if path in named), *(path for path in named if path not in paths)]

    def _answers(self, target: LookupTarget, values: U64) -> Answers:
        return self.symbolizer.symbolize_column(
            target.digest, values, kernel=target.kernel, section=target.section, path=target.path
        )

    @cached_property
    def _without_identity(self) -> tuple[NamedModule, ...]:
        """The modules that no identity was given to, each once."""
        modules = {module.digest: module for module in self._modules if module.identity is None}
        return tuple(modules.values())

    @cached_property
    def _identities(self) -> dict[str, tuple[IdentifiedModule, ...]]:
        found: dict[str, dict[IdentifiedModule, None]] = {}
        for identity, module in self._named():
            found.setdefault(identity, {})[module] = None
        return {identity: tuple(modules) for identity, modules in found.items()}

    def _named(self) -> Iterator[tuple[str, IdentifiedModule]]:
        """Each identity with its module: those that the user gave, and the digests and build IDs of modules and code
        objects."""
        for module in self._modules:
            if module.identity is not None:
                yield module.identity, IdentifiedModule(module.digest)
            summary = self.summary(module.digest)
            machine = {None, *(item.path for item in machine_objects(summary))}
            for each in debug_ids.names_of(summary):
                if each.path in machine:
                    yield each.name, IdentifiedModule(module.digest, each.path)

    @cached_property
    def _kernels(self) -> dict[str, tuple[LookupTarget, ...]]:
        found: dict[str, dict[LookupTarget, None]] = {}
        for module in self._without_identity:
            for item in machine_objects(self.summary(module.digest)):
                for kernel in item.kernels:
                    found.setdefault(kernel.name, {})[LookupTarget(module.digest, kernel=kernel.name)] = None
        return {name: tuple(targets) for name, targets in found.items()}

    def _kernels_called(self, name: str) -> tuple[LookupTarget, ...]:
        """The kernels with that readable name; there may be several."""
        if name not in self._readable:
            found = (target for kernel in self._by_word.meant_by(name) for target in self._kernels[kernel])
            self._readable[name] = tuple(dict.fromkeys(found))
        return self._readable[name]

    @cached_property
    def _by_word(self) -> SymbolsByWord:
        return SymbolsByWord(self._kernels)


def _ambiguous(answers: Answers) -> I64:
    """The numbers of the answers that are AMBIGUOUS."""
    return np.flatnonzero(answers.locations.reason[answers.location] == Reason.AMBIGUOUS)


def _agreed(answers: Answers, unclear: I64, each: Sequence[Answers]) -> Answers:
    """The answers, where those of ``unclear`` are what all code objects say that have such a place, if they say the
    same."""
    tables = [(answers.locations, answers.location), *((one.locations, one.location[unclear]) for one in each)]
    parts = [subset(table, numbers) for table, numbers in tables]
    locations, starts = concat([part for part, _ in parts])
    location = parts[0][1][answers.location]
    for number in unclear.tolist():
        said = {
            (own.reason, own.frames): starts[at + 1] + int(parts[at + 1][1][every.location[number]])
            for at, every in enumerate(each)
            if (own := every[number]).reason not in (Reason.OUTSIDE_TEXT, Reason.UNKNOWN_KERNEL)
        }
        if len(said) == 1:
            location[number] = next(iter(said.values()))
    return Answers(location, answers.text_section, answers.offset, locations, answers.text_sections, answers.candidates)


def crc_names(crc: int) -> list[str]:
    """What users may call a cubin by its CRC."""
    return [str(crc), f"{crc:#x}", f"{crc:#018x}"]


def _as_build_id(text: str) -> str:
    """The digits of what a profile calls a build ID; "" where it is none that an ELF note can be compared with. The
    bytes of some are their digits as text."""
    digits = text.lower()
    if not _BUILD_ID.fullmatch(digits):
        return ""
    inner = bytes.fromhex(digits).decode("ascii", "replace")
    return (inner if _BUILD_ID.fullmatch(inner) else "") if inner.isprintable() and "\ufffd" not in inner else digits


def is_code_file(name: str) -> bool:
    """Whether a name ends as those of files with code do."""
    return _CODE_FILE.fullmatch(name) is not None


def module_file_name(path: str) -> str:
    """The last part of a path or of a file's URI; "" for a part of a file, and for memory of a process."""
    if path.startswith("memory://"):
        return ""
    if path.startswith("file://"):
        path, _, part = path.partition("#")
        return "" if part else path.rpartition("/")[2]
    return path.rpartition("/")[2]


def _is_memory(names: Sequence[str]) -> bool:
    """Whether a mapping is memory of a process such as [jit], and no file."""
    return all(each.startswith("[") for each in names)


def _target_of_name(name: str) -> str:
    """What the targets begin with of the files that are named so; "" where their name does not say."""
    return _TARGETS.get(name.rpartition(".")[2], "")


def machine_objects(summary: ModuleSummary) -> list[ObjectSummary]:
    """The code objects that a device runs: without the SPIR-V that lies beside machine code."""
    machine = [item for item in summary.objects if item.kind is CodeKind.MACHINE]
    return machine or list(summary.objects)
