"""Source files. Their paths as people and compilers write them: the same file under several spellings, files by the end
of their path, and rules that say where the compiler's folders lie on this machine. And their texts: from the module
itself if it carries one, else from disk, through these rules, inside allowed folders only, and only the very file that
the compiler read where its MD5 is known. Files are opened by the reader that the caller gives; nothing here touches the
disk."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from symd.debuginfo.embedded_sources import embedded_sources
from symd.debuginfo.line_table_texts import EmbeddedSource
from symd.errors import ObjectNotFound
from symd.index import Index
from symd.model.cancellation import check_cancelled
from symd.model.code import CodeObject
from symd.model.sources import PathRule, SourceText, TextOrigin


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which files may be read: those below ``roots`` (absolute folders), found under the paths that ``rules`` make of
    the compiler's."""

    roots: tuple[str, ...] = ()
    rules: tuple[PathRule, ...] = ()


NOWHERE_ALLOWED = "no allowed folder holds it"
"""How a problem ends of a file that is looked for in vain."""
Reader = Callable[[str, str], bytes | None]
"""Given a root and a path below it, the file's bytes; None where there is no such file or it leads out of the root."""


def from_module(codes: Sequence[CodeObject], files: Iterable[str], path: str | None = None) -> list[SourceText]:
    """What the module, or its code object at ``path``, carries of each file. Raises ObjectNotFound."""
    if path is not None and not any(code.path == path for code in codes):
        raise ObjectNotFound.at(path, (code.path for code in codes))
    wanted = set(files)
    known: dict[str, EmbeddedSource] = {}
    for code in codes:
        if path in (None, code.path):
            _merge(known, {file: entry for file, entry in embedded_sources(code).items() if file in wanted})
    return [_known(file, known.get(file, EmbeddedSource())) for file in files]


def with_named(sources: Iterable[SourceText], index: Index, path: str | None = None) -> list[SourceText]:
    """The sources with those marked that neither the line tables and scopes of the module, or of its code object at
    ``path``, name nor the module carries: whoever asks for a file must not get any other file of the disk."""
    objects, names = index.columns.file_object, index.columns.file_name
    if path is not None:
        names = names[np.isin(objects, [number for number, each in enumerate(index.objects) if each == path])]
    named = {index.strings[number] for number in names.tolist()}
    unnamed = "no code object of the module names this file"
    return [
        source
        if source.file in named or source.text is not None or source.md5 is not None
        else replace(source, named=False, problem=unnamed)
        for source in sources
    ]


def _merge(known: dict[str, EmbeddedSource], more: Mapping[str, EmbeddedSource]) -> None:
    """Merge what several code objects have of a file: the first text, and the first sum."""
    for file, entry in more.items():
        before = known.get(file, EmbeddedSource())
        text = entry.text if before.text is None else before.text
        known[file] = EmbeddedSource(text, before.md5 or entry.md5)


def _known(file: str, entry: EmbeddedSource) -> SourceText:
    if entry.text is None:
        return SourceText(file, md5=entry.md5, problem="the module does not contain its text")
    return SourceText(file, entry.text, TextOrigin.MODULE, md5=entry.md5)


def completed(source: SourceText, allowed: Allowed, read: Reader) -> SourceText:
    """The source with a text from disk, where the module has none and an allowed file is the right one; else with
    the reason why there is none."""
    if source.text is not None or not source.named:
        return source
    if not allowed.roots:
        return replace(source, problem=f"{source.problem}, and no folder is allowed to be read")
    differing = ""
    for root, path in places(source.file, allowed):
        data = read(root, path)
        if data is None:
            continue
        if source.md5 is None or hashlib.md5(data, usedforsecurity=False).digest() == source.md5:
            text = data.decode("utf-8", "replace")
            return replace(source, text=text, origin=TextOrigin.DISK, path=path, problem="")
        differing = differing or path
    if differing:
        return replace(source, problem=f"{differing} is not the file that was compiled: its MD5 differs")
    return replace(source, problem=f"{source.problem}, and {NOWHERE_ALLOWED}")


def places(file: str, allowed: Allowed) -> Iterator[tuple[str, str]]:
    """(root, absolute path below it) where the file may lie, by name alone. A relative name is looked for below every
    root; one that climbs out of a root is nowhere, and so is a hidden file, which is no source: ``.env`` has
    secrets."""
    name = normal(remapped(file, allowed.rules))
    if not name or "\0" in name or posixpath.basename(name).startswith("."):
        return
    for root in allowed.roots:
        folder = normal(root)
        path = normal(posixpath.join(folder, name))
        if path.startswith(folder.rstrip("/") + "/"):
            yield root, path


_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_UPWARD = re.compile(r"\A(\.\./)+")
_BETWEEN_CHECKS = 1024
"""Paths between two looks whether anybody waits."""


def normal(path: str) -> str:
    """The path with forward slashes and without ".", ".." and doubled slashes, as far as text alone can say."""
    if _DRIVE.match(path) or ("\\" in path and "/" not in path):
        path = path.replace("\\", "/")
    return posixpath.normpath(path) if path else ""


class Remapping:
    """Rules for many paths: what of a rule does not depend on the path, which may be long, is worked out once."""

    def __init__(self, rules: Sequence[PathRule]) -> None:
        self._rules = [(normal(rule.prefix), rule.replacement) for rule in rules]

    def of(self, path: str) -> str:
        """The path after the first rule that fits, normal; without one as it is."""
        normalized = normal(path)
        for prefix, replacement in self._rules:
            rest = _below(normalized, prefix)
            if rest is not None:
                return normal(f"{replacement}/{rest}" if rest else replacement)
        return path


def remapped(path: str, rules: Sequence[PathRule]) -> str:
    """The path after the first of ``rules`` that fits, normal; without one as it is."""
    return Remapping(rules).of(path)


def _below(path: str, folder: str) -> str | None:
    """What is left of ``path`` below ``folder``, None when it lies elsewhere."""
    if not folder:
        return None if path.startswith("/") or _DRIVE.match(path) else path
    if path == folder:
        return ""
    start = folder if folder.endswith("/") else f"{folder}/"
    return path[len(start) :] if path.startswith(start) else None


def ends_with(path: str, wanted: str) -> bool:
    """Whether the last components of ``path`` are those of ``wanted``; both normal."""
    return path == wanted or (not wanted.startswith("/") and path.endswith(f"/{wanted}"))


def matching(
    paths: Iterable[str],
    wanted: str,
    rules: Sequence[PathRule] = (),
) -> dict[str, list[str]]:
    """The files that ``wanted`` can mean, each with the spellings of ``paths`` that are it.

    Keys are normal and remapped. A path is found under its own name and under that which the rules give it. Where one
    file is ``wanted`` exactly, the others are not meant.
    """
    ending = _UPWARD.sub("", normal(wanted))
    found: dict[str, list[str]] = {}
    exact: set[str] = set()
    remapping = Remapping(rules)
    for number, path in enumerate(paths):
        if not number % _BETWEEN_CHECKS:
            check_cancelled()
        file = normal(remapping.of(path))
        names = {normal(path), file}
        if any(ends_with(name, ending) for name in names):
            found.setdefault(file, []).append(path)
            if ending in names:
                exact.add(file)
    return {file: found[file] for file in exact} if exact else found


def base_name(path: str) -> str:
    return posixpath.basename(normal(path))
