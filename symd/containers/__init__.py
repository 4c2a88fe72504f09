"""Bytes in, code objects out, however deep they are nested. Adding a format is one new module and one line in FORMATS;
the only function that opens nesting is here."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from symd.budget import Budget
from symd.config import Limits
from symd.containers import archive, host_elf
from symd.containers.amd import amdgpu
from symd.containers.format import Contents, Element, Format
from symd.containers.intel import igc_debug, igc_elf, neo_elf, patch_tokens, zebin
from symd.containers.khronos import spirv
from symd.containers.llvm import compressed_bundle, offload_binary, offload_bundle
from symd.containers.nvidia import cubin, fatbin
from symd.errors import LimitExceeded, SymdError, UnknownFormat
from symd.model.code import CodeObject
from symd.model.identities import ObjectPath
from symd.model.summaries import ContainerSummary

__all__ = ("FORMATS", "OpenedModule", "identify", "unpack")

FORMATS: tuple[Format, ...] = (
    igc_debug,
    patch_tokens,
    neo_elf,
    zebin,
    igc_elf,
    amdgpu,
    cubin,
    fatbin,
    offload_bundle,
    compressed_bundle,
    offload_binary,
    spirv,
    archive,
    host_elf,
)
"""Asked in this order; the first that claims the bytes reads them."""


class OpenedModule(NamedTuple):
    """The outermost format, every code object with its nesting path, notes on what was malformed and left out, and the
    containers in the order in which they were opened."""

    format: str
    objects: tuple[CodeObject, ...]
    notes: tuple[str, ...] = ()
    containers: tuple[ContainerSummary, ...] = ()


def identify(data: bytes) -> Format | None:
    """The format that claims the bytes."""
    return next((module for module in FORMATS if module.claims(data)), None)


def unpack(data: bytes, limits: Limits | None = None) -> OpenedModule:
    """Open a module.

    A malformed element of a container becomes a note that names it, and the rest is answered; a module of which nothing can
    be read raises what its first malformed element raised. Raises UnknownFormat, Malformed, Unsupported, LimitExceeded.
    """
    opener = _Opener(Budget(limits or Limits()))
    outermost = opener.open(Element("", data), (), 0)
    if not opener.objects and opener.failures:
        raise opener.failures[0]
    return OpenedModule(outermost, tuple(opener.objects), tuple(opener.notes), tuple(opener.containers))


class _Opener:
    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.objects: list[CodeObject] = []
        self.notes: list[str] = []
        self.failures: list[SymdError] = []
        self.containers: list[ContainerSummary] = []

    def open(self, element: Element, path: tuple[str, ...], depth: int) -> str:
        """Open one element and what is inside it; returns the format's name."""
        self.budget.check_depth(depth, "/".join(path) or "the module")
        module = identify(element.data)
        if module is None:
            head = element.data[:8].hex(" ") or "none, it is empty"
            raise UnknownFormat(f"no reader knows this format; first bytes: {head}", where="/".join(path))
        contents = module.read(element, self.budget)
        form = contents.format or module.NAME
        if contents.code_object is None:
            self.budget.count_elements("/".join(path))
            self.containers.append(
                ContainerSummary(ObjectPath("/".join(path)), form, len(element.data), contents.facts)
            )
        self._take(contents, path)
        for name, child in _uniquely_named(contents.elements):
            self._child(child, (*path, name), depth + 1)
        return form

    def _take(self, contents: Contents, path: tuple[str, ...]) -> None:
        place = "/".join(path)
        self.notes += [f"{place}: {note}" if place else note for note in contents.notes]
        if contents.code_object is not None:
            self.budget.count_elements(place)
            self.objects.append(replace(contents.code_object, path=ObjectPath(place)))

    def _child(self, element: Element, path: tuple[str, ...], depth: int) -> None:
        try:
            self.open(element, path, depth)
        except LimitExceeded:
            raise
        except SymdError as error:
            failure = error if error.where.startswith("/".join(path)) else error.prefix_where("/".join(path))
            self.failures.append(failure)
            self.notes.append(f"left out: {failure}")


def _uniquely_named(elements: tuple[Element, ...]) -> list[tuple[str, Element]]:
    """Elements with path elements that are unique among siblings: a repeated name gets #2, #3, ..."""
    seen: dict[str, int] = {}
    result = []
    for element in elements:
        name = element.name or "element"
        seen[name] = seen.get(name, 0) + 1
        result.append((name if seen[name] == 1 else f"{name}#{seen[name]}", element))
    return result
