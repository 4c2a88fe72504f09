"""A profile's addresses by the code objects that they lie in, as symbol servers are asked: the build ID of a code object, or its SHA-256 where it
has none, and an object address in it (``symd.formats.debug_ids``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from symd.formats.debug_ids import build_id_of
from symd.model.answers import Reason
from symd.model.names import Match, NameKind, NameQuery
from symd.profiles.format import Options
from symd.profiles.placed import InstructionPlace, all_places
from symd.profiles.resolver import Resolver
from symd.profiles.samples import ADDRESSES, SampledModule, SampledProfile, SampleExtent

FUNCTIONS: Final = 1 << 16
"""Functions of a code object that are told."""
NOTHING: Final = SampleExtent(0, 0, "")
CodeObject = tuple[str, str]
"""Digest of the module, path of the code object in it."""


def by_code_id(profile: SampledProfile, resolver: Resolver, options: Options) -> SampledProfile:
    """The profile with code objects in place of modules, as far as they are known here: each address becomes an object
    address in its code object, which stands as a module that fills all addresses. Other addresses stay as they are.
    Modules without addresses are left out. Raises what the symbolizer raises."""
    everywhere = all_places(profile, resolver, options)
    places = _that_addresses_name(
        {number: place for number, place in everywhere.items() if not isinstance(place, Reason)}, resolver
    )
    modules = _Modules(profile.modules, resolver)
    addresses = []
    for number, address in enumerate(profile.addresses):
        place = places.get(number)
        if place is not None:
            addresses.append(address._replace(address=place.address, module=modules.of_code(place, address.module)))
        elif address.module is not None:
            addresses.append(address._replace(module=modules.of_profile(address.module)))
        else:
            addresses.append(address)
    return replace(profile, addresses=addresses, modules=modules.used)


class _Modules:
    """``used`` are those of the profile that are left, and code objects, each with the number that it gets when it is used first."""

    def __init__(self, modules: Sequence[SampledModule], resolver: Resolver) -> None:
        self.used: list[SampledModule] = []
        self._modules, self._resolver = modules, resolver
        self._numbers: dict[int | CodeObject, int] = {}

    def of_profile(self, number: int) -> int:
        if number not in self._numbers:
            self._numbers[number] = len(self.used)
            self.used.append(self._modules[number])
        return self._numbers[number]

    def of_code(self, place: InstructionPlace, number: int | None) -> int:
        """``number`` is the profile's module that the place was found by; its name is kept."""
        code = place.digest, place.path
        if code not in self._numbers:
            self._numbers[code] = len(self.used)
            told = self._modules[number].name if number is not None else ""
            name = told or self._resolver.file_name(place.digest)
            functions = _functions(self._resolver, *code)
            self.used.append(SampledModule(name, _identity(self._resolver, *code), 0, ADDRESSES, 0, functions))
        return self._numbers[code]


def _that_addresses_name(places: Mapping[int, InstructionPlace], resolver: Resolver) -> dict[int, InstructionPlace]:
    """The places that are found again by their object address: not those in unlinked code, where several sections
    begin at 0."""
    of_objects: dict[CodeObject, list[tuple[int, InstructionPlace]]] = {}
    for number, place in places.items():
        of_objects.setdefault((place.digest, place.path), []).append((number, place))
    found = {}
    for (digest, path), entries in of_objects.items():
        column = np.array([place.address for _, place in entries], np.uint64)
        answers = resolver.symbolizer.symbolize_column(digest, column, path=path)
        for (number, place), section, offset in zip(
            entries, answers.text_section.tolist(), answers.offset.tolist(), strict=True
        ):
            index = answers.text_sections[section - 1].section_index if section else None
            if (index, offset) == (place.section_index, place.offset):
                found[number] = place
    return found


def _identity(resolver: Resolver, digest: str, path: str) -> str:
    [code] = [item for item in resolver.summary(digest).objects if item.path == path]
    return build_id_of(code) or code.sha256


def _functions(resolver: Resolver, digest: str, path: str) -> tuple[SampleExtent, ...]:
    """Kernels and functions with code of their own; of several at one address the longest."""
    wanted = NameQuery("*", Match.GLOB, frozenset({NameKind.KERNEL, NameKind.FUNCTION}))
    found: dict[int, SampleExtent] = {}
    for item in resolver.symbolizer.names(digest, wanted, path)[:FUNCTIONS]:
        if item.address is not None and item.size and item.size > found.get(item.address, NOTHING).size:
            found[item.address] = SampleExtent(item.address, item.size, item.name)
    return tuple(sorted(found.values()))
