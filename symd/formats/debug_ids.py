"""What others call a module: build IDs, debug IDs, digests; and from such a name to the module.

* A *build ID* is the ELF note NT_GNU_BUILD_ID, in hexadecimal digits. Programs have one, AMD's code objects where they
  were linked with ``--build-id``, SPIR-V of Slang where its debug data is apart (DebugBuildIdentifier); code of Intel
  and NVIDIA has none.
* A module's *SHA-256*, or a code object's inside it, stands for it where a build ID is meant: 64 hexadecimal digits. A
  beginning of it does that no other has, of 16 digits at least.
* A *debug ID* (Breakpad's) is made of the first 16 bytes of either: a GUID whose first three fields are little-endian,
  in upper-case digits, and the age 0 behind it (Breakpad's docs/symbol_files.md, "MODULE records"; for ELF
  src/common/linux/file_id.cc).
* An alias of the kind ``build-id`` is a build ID that somebody registered."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from symd.api import Symbolizer
from symd.errors import BadQuery, SymdError
from symd.model.cancellation import check_cancelled
from symd.model.identities import Digest, ObjectPath
from symd.model.summaries import ModuleSummary, ObjectSummary

ALIAS_KIND = "build-id"
MIN_DIGITS = 16
"""Digits of the shortest beginning that stands for a whole."""
MAX_DIGITS = 128
"""Digits of the longest: debuginfod's clients take 64 bytes."""
GUID_DIGITS = 32
_HEXADECIMAL = re.compile(r"[0-9a-f]+")
_BREAKPAD = re.compile(r"[0-9A-Fa-f]{32}[0-9A-Fa-f]{1,8}")


class NamedObject(NamedTuple):
    """What a name stands for: a module, or the code object at ``path`` in it. ``name`` is the whole one, in lower-case
    digits."""

    digest: Digest
    path: ObjectPath | None
    name: str


def debug_id(name: str) -> str:
    """The debug ID of a build ID or a digest. Shorter ones are filled up with zeros. Raises BadQuery for what is no
    such name."""
    data = bytes.fromhex(_beginning(checked_name(name)))
    return f"{_swapped(data).hex().upper()}0"


def beginning_of(breakpad: str) -> str:
    """The first 32 digits of the name that a debug ID was made of. Raises BadQuery for what is no debug ID."""
    if not _BREAKPAD.fullmatch(breakpad):
        raise BadQuery(f"{breakpad[:80]!r} is not a debug ID", hint="it has 32 hexadecimal digits and an age")
    return _swapped(bytes.fromhex(breakpad[:GUID_DIGITS])).hex()


def _swapped(guid: bytes) -> bytes:
    """The first three fields of a GUID in the other order of bytes."""
    return guid[3::-1] + guid[5:3:-1] + guid[7:5:-1] + guid[8:16]


def checked_name(name: str) -> str:
    """A build ID or a digest, or a beginning of one, in lower-case digits. Raises BadQuery."""
    lowered = name.lower()
    if len(lowered) > MAX_DIGITS or len(lowered) % 2 or not _HEXADECIMAL.fullmatch(lowered):
        raise BadQuery(f"{name[:80]!r} is not a build ID", hint="an even number of hexadecimal digits, at most 128")
    return lowered


def other_build_ids(summary: ModuleSummary, name: str) -> list[str]:
    """The build IDs that a module and its code objects carry, where ``name`` is none of them nor a digest of theirs;
    none, where it carries none."""
    own = {each.sha256 for each in summary.objects} | {summary.sha256}
    found = [each.name for each in names_of(summary) if each.name not in own]
    return [] if name in found or name in own else found


class ModuleNames:
    """The names of the modules that a symbolizer has. Each module is looked at once, and its names are kept; those that
    are gone are forgotten. Safe to use from several threads."""

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._known: dict[str, tuple[NamedObject, ...]] = {}
        self._longest_walk = 0
        self._lock = threading.Lock()

    def of_build_id(self, name: str) -> list[NamedObject]:
        """Everything that a build ID or digest, or a beginning that is long enough, stands for: none, one, or several
        of one whole name. Raises BadQuery."""
        wanted = checked_name(name)
        found = self._registered_whole(wanted)
        long_enough = len(wanted) >= MIN_DIGITS
        found += [each for each in self.all() if each.name == wanted or (long_enough and each.name.startswith(wanted))]
        return _of_one_name(found)

    def of_debug_id(self, breakpad: str) -> list[NamedObject]:
        """Everything that a debug ID stands for; also a whole digest is taken for one. Of told build IDs those are
        found that a debug ID has whole: of at most 32 digits. Raises BadQuery."""
        if len(breakpad) == 2 * GUID_DIGITS:
            return self.of_build_id(breakpad)
        beginning = beginning_of(breakpad)
        own = [each for each in self.all() if _beginning(each.name) == beginning]
        return _of_one_name(own or self._registered(beginning))

    def _registered(self, beginning: str) -> list[NamedObject]:
        """What is registered as a build ID with these digits, with fewer zeros behind it or all of them."""
        digits = len(beginning.rstrip("0"))
        names = (beginning[:length] for length in range(digits + digits % 2, GUID_DIGITS + 1, 2) if length)
        found = [(name, self._symbolizer.aliases.resolve(ALIAS_KIND, name)) for name in names]
        return [NamedObject(Digest(each.module), each.path, name) for name, each in found if each is not None]

    def of_debug_ids(self, identities: Iterable[str]) -> dict[str, list[NamedObject]]:
        """``of_debug_id`` of several, in one walk through the modules; what is neither a debug ID nor a whole digest is
        left out."""
        wanted: dict[str, list[str]] = {}
        for each in identities:
            if (beginning := _wanted_beginning(each)) is not None:
                wanted.setdefault(beginning, []).append(each)
        found: dict[str, list[NamedObject]] = {beginning: [] for beginning in wanted}
        for item in self.all() if wanted else ():
            for beginning in {_beginning(item.name), item.name[: 2 * GUID_DIGITS]}:
                if beginning in found:
                    found[beginning].append(item)
        named_so = {}
        for beginning, own in found.items():
            check_cancelled()
            named_so[beginning] = self._with_registered(beginning, own)
        return {each: named_so[beginning] for beginning, asked in wanted.items() for each in asked}

    def _with_registered(self, beginning: str, own: list[NamedObject]) -> list[NamedObject]:
        """What the beginning of a name stands for, where ``own`` are the objects whose own names begin so."""
        if len(beginning) == GUID_DIGITS:
            return _of_one_name(own or self._registered(beginning))
        return _of_one_name(self._registered_whole(beginning) + own)

    def _registered_whole(self, name: str) -> list[NamedObject]:
        """What is registered as this build ID."""
        alias = self._symbolizer.aliases.resolve(ALIAS_KIND, name)
        return [NamedObject(Digest(alias.module), alias.path, name)] if alias is not None else []

    def all(self) -> Iterator[NamedObject]:
        """The digests and build IDs of all modules, and of the code objects in them."""
        with self._lock:
            known = self._known
        there: dict[str, tuple[NamedObject, ...]] = {}
        is_whole = False
        try:
            for record in self._symbolizer.modules():
                check_cancelled()
                names = known.get(record.sha256)
                if names is None and not record.failure and record.format:
                    try:
                        names = tuple(names_of(self._symbolizer.module(record.sha256)))
                    except SymdError:
                        continue  # it may be gone, or be read later
                if names is not None:
                    there[record.sha256] = names
                    yield from names
            is_whole = True
        finally:
            self._keep(there, is_whole=is_whole)

    def _keep(self, there: dict[str, tuple[NamedObject, ...]], *, is_whole: bool) -> None:
        """What a walk found. One that was broken off does not know which modules are gone: what was known before stays,
        the latest of it, up to twice as many modules as the longest walk met since the last whole one."""
        with self._lock:
            if is_whole:
                self._known, self._longest_walk = there, len(there)
            else:
                self._longest_walk = max(self._longest_walk, len(there))
                earlier = {digest: names for digest, names in self._known.items() if digest not in there}
                self._known = dict(list((earlier | there).items())[-2 * self._longest_walk :])


def _wanted_beginning(identity: str) -> str | None:
    """The digits that a name begins with which a debug ID or a whole digest stands for; None where it is neither."""
    if _BREAKPAD.fullmatch(identity):
        return beginning_of(identity)
    lowered = identity.lower()
    return lowered if len(lowered) == 2 * GUID_DIGITS and _HEXADECIMAL.fullmatch(lowered) else None


def _beginning(name: str) -> str:
    return name[:GUID_DIGITS].ljust(GUID_DIGITS, "0")


def _of_one_name(found: list[NamedObject]) -> list[NamedObject]:
    """The objects without repetition; none where a beginning fits several names."""
    kept = list({(each.digest, each.path): each for each in found}.values())
    return kept if len({each.name for each in kept}) == 1 else []


def names_of(summary: ModuleSummary) -> Iterator[NamedObject]:
    """The digests and build IDs of a module and its code objects."""
    yield NamedObject(summary.sha256, None, summary.sha256)
    for container in summary.containers:
        build_id = container.facts.get("build_id")
        if container.path == "" and isinstance(build_id, str):
            yield NamedObject(summary.sha256, None, build_id)
    for item in summary.objects:
        if item.sha256 != summary.sha256:
            yield NamedObject(summary.sha256, item.path, item.sha256)
        build_id = build_id_of(item)
        if build_id is not None:
            yield NamedObject(summary.sha256, item.path, build_id)


def build_id_of(item: ObjectSummary) -> str | None:
    """The build ID that a code object bears, in lower-case digits."""
    build_id = item.facts.get("build_id")
    return build_id if isinstance(build_id, str) else None
